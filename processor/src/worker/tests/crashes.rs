//! Crash points: a worker goes at any step, another one starts on the same broker and disk; results are exact.

use thalweg_txn::Guarantee;

use super::apps::{counting, rekeyed, ticking_on_stream_time};
use super::world::{World, by_word, config, running_counts};
use crate::runtime::RuntimeConfig;
use crate::worker::Cycle;

const WORDS: [&str; 12] = ["a", "b", "a", "c", "commit", "a", "b", "b", "commit", "a", "c", "a"];

/// One record at a time, so that there are many steps to crash between.
fn small_steps() -> RuntimeConfig {
    let mut config = config();
    (config.poll_records_max, config.turn_records_max) = (2, 1);
    config.cycle_max = std::time::Duration::ZERO;
    config
}

/// Runs with a crash after each of the given numbers of cycles, then to the end.
fn crash_after(world: &World, topology: &crate::Topology, config: &RuntimeConfig, steps: &[usize]) {
    for steps in steps {
        let mut worker = world.worker(topology, config);
        for _ in 0..*steps {
            worker.run_once().unwrap();
        }
    }
    let mut worker = world.worker(topology, config);
    world.settle(&mut [&mut worker]).unwrap();
}

fn cycles_to_the_end(topology: &crate::Topology) -> usize {
    let (world, config) = (World::of_lines(1, &WORDS), small_steps());
    let mut worker = world.worker(topology, &config);
    (0..1000).take_while(|_| worker.run_once().unwrap() == Cycle::Worked).count()
}

#[test]
fn a_crash_after_any_cycle_neither_loses_nor_doubles_a_result() {
    let topology = counting();
    let cycles = cycles_to_the_end(&topology);
    assert!(cycles >= WORDS.len(), "{cycles}");
    for first in 0..=cycles {
        for second in [0, 1, 2, 5] {
            let world = World::of_lines(1, &WORDS);
            crash_after(&world, &topology, &small_steps(), &[first, second]);
            assert_eq!(world.totals(), running_counts(&WORDS), "crashes after {first}, {second}");
        }
    }
}

#[test]
fn a_crash_with_the_disk_lost_restores_from_the_changelog() {
    let topology = counting();
    for first in 0..=cycles_to_the_end(&topology) {
        let world = World::of_lines(1, &WORDS);
        crash_after(&world, &topology, &small_steps(), &[first]);
        world.disk.wipe();
        world.write("lines", &[("a", "a", 99)]);
        crash_after(&world, &topology, &small_steps(), &[]);
        let all: Vec<&str> = WORDS.into_iter().chain(["a"]).collect();
        assert_eq!(world.totals(), running_counts(&all), "crash after {first}");
    }
}

#[test]
fn a_disk_that_is_behind_is_repaired_from_the_changelog() {
    let (world, topology) = (World::of_lines(1, &WORDS), counting());
    crash_after(&world, &topology, &small_steps(), &[3]);
    let image = world.disk.image();
    world.write("lines", &[("a", "a", 98)]);
    crash_after(&world, &topology, &small_steps(), &[]);
    world.disk.restore(image);
    world.write("lines", &[("a", "a", 99)]);
    crash_after(&world, &topology, &small_steps(), &[]);
    let all: Vec<&str> = WORDS.into_iter().chain(["a", "a"]).collect();
    assert_eq!(world.totals(), running_counts(&all));
}

#[test]
fn a_crash_around_a_repartition_hop_neither_loses_nor_doubles_a_result() {
    let topology = rekeyed(None);
    for first in 0..=cycles_to_the_end(&topology) {
        let world = World::of_lines(2, &WORDS);
        crash_after(&world, &topology, &small_steps(), &[first, 4]);
        let expected = by_word(running_counts(&WORDS));
        assert_eq!(by_word(world.totals()), expected, "crash after {first}");
    }
}

#[test]
fn at_least_once_loses_nothing_and_doubles_only_what_was_not_committed() {
    let topology = counting();
    for first in 0..=cycles_to_the_end(&topology) {
        let world = World::of_lines(1, &WORDS);
        let mut config = small_steps();
        config.guarantee = Guarantee::AtLeastOnce;
        config.commit_interval = Some(std::time::Duration::from_millis(100));
        crash_after(&world, &topology, &config, &[first]);
        let totals = world.totals();
        for (word, count) in running_counts(&WORDS) {
            let seen = totals.iter().filter(|(w, c)| *w == word && *c >= count).count();
            assert!(seen > 0, "{word} {count} is missing after a crash after {first}: {totals:?}");
        }
    }
}

#[test]
fn at_least_once_without_a_failure_is_exact() {
    let (world, topology) = (World::of_lines(2, &WORDS), counting());
    let mut config = config();
    config.guarantee = Guarantee::AtLeastOnce;
    config.commit_interval = Some(std::time::Duration::from_millis(100));
    let mut worker = world.worker(&topology, &config);
    world.settle(&mut [&mut worker]).unwrap();
    worker.close().unwrap();
    world.write("lines", &[("a", "a", 99)]);
    crash_after(&world, &topology, &config, &[]);
    let all: Vec<&str> = WORDS.into_iter().chain(["a"]).collect();
    assert_eq!(by_word(world.totals()), by_word(running_counts(&all)));
}

#[test]
fn a_run_that_is_cut_punctuates_on_stream_time_as_one_that_is_not() {
    let topology = ticking_on_stream_time();
    let uncut = World::of_lines(1, &WORDS);
    crash_after(&uncut, &topology, &small_steps(), &[]);
    let is_tick = |name: &str, (key, at): &(String, i64)| key == name && *at >= 0;
    let ticks = |name| uncut.totals().iter().filter(|record| is_tick(name, record)).count();
    assert_eq!((ticks("b"), ticks("d")), (2, 1));
    // A timer that was cancelled is scheduled anew by each run.
    let without_c = |world: &World| {
        let mut totals = world.totals();
        totals.retain(|record| !is_tick("c", record));
        totals
    };
    for first in 0..=cycles_to_the_end(&topology) {
        for second in [0, 1, 3] {
            let world = World::of_lines(1, &WORDS);
            crash_after(&world, &topology, &small_steps(), &[first, second]);
            assert_eq!(without_c(&world), without_c(&uncut), "crashes after {first}, {second}");
        }
    }
}

#[test]
fn a_restart_between_any_two_records_adds_no_punctuation_on_stream_time() {
    let topology = ticking_on_stream_time();
    let run = |restarts: bool| {
        let world = World::of_lines(1, &[]);
        let mut worker = world.worker(&topology, &config());
        for time in [0, 1, 2, 9, 10, 10, 11, 40, 41, 48, 107] {
            world.write("lines", &[("k", "v", time)]);
            world.settle(&mut [&mut worker]).unwrap();
            if restarts {
                worker.close().unwrap();
                worker = world.worker(&topology, &config());
                world.settle(&mut [&mut worker]).unwrap();
            }
        }
        let mut totals = world.totals();
        totals.retain(|(key, _)| key != "c");
        totals
    };
    assert_eq!(run(true), run(false));
}
