//! Runs that end by themselves, and replays.

use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{Backend, Call, Fault, FaultPlan, Offset, Timestamp, TopicPartition};

use super::apps::{counting, lines, rekeyed, ticking};
use super::world::{World, by_word, config, running_counts};
use crate::runtime::{MissingOutputs, ReplayFrom, RuntimeConfig, StartAt, StartError, Until};
use crate::worker::{Cycle, Surroundings, Worker};
use crate::{TaskConfig, Topology};

const WORDS: [&str; 10] = ["a", "b", "c", "d", "a", "b", "c", "d", "a", "e"];

/// Runs workers in turn until all of them say that the run has ended, then closes them.
fn to_the_end(world: &World, around: &Surroundings, workers: usize) {
    let worker = |index| Worker::new(around.clone(), index).unwrap();
    let mut workers: Vec<Worker> = (0..workers).map(worker).collect();
    for _ in 0..1000 {
        let cycles: Vec<Cycle> = workers.iter_mut().map(|w| w.run_once().unwrap()).collect();
        if cycles.iter().all(|c| *c == Cycle::Finished) {
            workers.into_iter().for_each(|worker| worker.close().unwrap());
            return;
        }
        if !cycles.contains(&Cycle::Worked) {
            world.clock.advance(Duration::from_millis(1));
        }
    }
    panic!("the run does not come to its end");
}

#[test]
fn a_run_until_the_end_drains_repartition_topics_on_any_number_of_workers() {
    for workers in 1..4 {
        for (lines, hop) in [(1, 1), (3, 2), (2, 5)] {
            let world = World::of_lines(lines, &WORDS);
            let mut config = config();
            (config.until, config.workers) = (Until::EndAtStart, workers);
            let around = world.prepare(&rekeyed(Some(hop)), &config).unwrap();
            // What comes after the start is for the next run.
            world.write("lines", &[("late", "late", 99)]);
            to_the_end(&world, &around, workers);
            let expected = by_word(running_counts(&WORDS));
            assert_eq!(by_word(world.totals()), expected, "{workers} workers, {lines}/{hop}");
            let rest = world.prepare(&rekeyed(Some(hop)), &config).unwrap();
            to_the_end(&world, &rest, workers);
            assert_eq!(world.totals().iter().filter(|(word, _)| word == "late").count(), 1);
        }
    }
}

#[test]
fn a_run_until_the_end_of_empty_topics_ends_at_once() {
    let world = World::of_lines(2, &[]);
    let mut config = config();
    config.until = Until::EndAtStart;
    let around = world.prepare(&rekeyed(None), &config).unwrap();
    to_the_end(&world, &around, 1);
    assert_eq!(world.totals(), []);
}

#[test]
fn a_worker_that_dies_before_the_end_leaves_the_rest_to_the_next_run() {
    for cycles in 0..12 {
        let world = World::of_lines(2, &WORDS);
        let mut config = config();
        config.until = Until::EndAtStart;
        (config.poll_records_max, config.turn_records_max) = (2, 1);
        config.cycle_max = Duration::ZERO;
        let mut worker = world.worker(&rekeyed(None), &config);
        for _ in 0..cycles {
            worker.run_once().unwrap();
        }
        drop(worker);
        let around = world.prepare(&rekeyed(None), &config).unwrap();
        to_the_end(&world, &around, 1);
        assert_eq!(by_word(world.totals()), by_word(running_counts(&WORDS)), "after {cycles}");
    }
}

#[test]
fn a_run_until_a_time_stops_at_the_first_record_that_is_not_older() {
    let world = World::of_lines(1, &WORDS);
    let mut config = config();
    config.until = Until::Time(Timestamp(4));
    let around = world.prepare(&counting(), &config).unwrap();
    to_the_end(&world, &around, 1);
    assert_eq!(world.totals(), running_counts(&WORDS[..4]));
}

pub(super) fn replay(name: &str, from: ReplayFrom) -> RuntimeConfig {
    let suffix = format!("-replay-{name}");
    let mut task = TaskConfig::new(format!("app{suffix}"));
    task.output_suffix = suffix.into();
    let mut config = RuntimeConfig::new(task);
    (config.guarantee, config.poll_timeout) = (config_guarantee(), Duration::ZERO);
    (config.start, config.until) =
        (StartAt::Replay { from, warm_up: Duration::ZERO }, Until::EndAtStart);
    config
}

fn config_guarantee() -> thalweg_txn::Guarantee {
    config().guarantee
}

fn run_replay(world: &World, topology: &Topology, config: &RuntimeConfig) {
    let around = world.prepare(topology, config).unwrap();
    to_the_end(world, &around, 1);
}

#[test]
fn a_replay_leaves_the_live_application_alone() {
    let world = World::of_lines(2, &WORDS);
    let topology = rekeyed(None);
    let mut live = world.worker(&topology, &config());
    world.settle(&mut [&mut live]).unwrap();
    let before = (world.totals(), world.end("app-counts-changelog", 0));
    run_replay(&world, &topology, &replay("r", ReplayFrom::Beginning));
    assert_eq!((world.totals(), world.end("app-counts-changelog", 0)), before);
    let replayed = world.read("totals-replay-r").len();
    assert_eq!(replayed, WORDS.len());
    world.write("lines", &[("a", "a", 50)]);
    world.settle(&mut [&mut live]).unwrap();
    let all: Vec<&str> = WORDS.into_iter().chain(["a"]).collect();
    assert_eq!(by_word(world.totals()), by_word(running_counts(&all)));
}

#[test]
fn two_replays_give_the_same_records_in_the_same_order_whatever_is_fetched_when() {
    let world = World::of_lines(3, &[]);
    let words = ["a", "b", "c", "d", "e", "f", "g"];
    let records: Vec<_> =
        (0..200).map(|n| (words[n % 7], words[n * n % 5], (n * 37 % 200) as i64)).collect();
    world.write("lines", &records);
    let topology = rekeyed(Some(2));
    run_replay(&world, &topology, &replay("x", ReplayFrom::Beginning));
    let expected = world.read("totals-replay-x");
    assert_eq!(expected.len(), 200);
    for (poll, turn) in [(1, 1), (3, 500), (50, 7), (4000, 500)] {
        let mut config = replay("y", ReplayFrom::Beginning);
        (config.poll_records_max, config.turn_records_max) = (poll, turn);
        run_replay(&world, &topology, &config);
        assert_eq!(world.read("totals-replay-y"), expected, "poll {poll}, turn {turn}");
    }
}

#[test]
fn a_replay_begins_at_a_time_an_offset_or_the_beginning() {
    let world = World::of_lines(1, &WORDS);
    let cases = [
        (ReplayFrom::Beginning, 10),
        (ReplayFrom::Time(Timestamp(7)), 3),
        (ReplayFrom::Time(Timestamp(100)), 0),
        (ReplayFrom::Offset(6), 4),
        (ReplayFrom::Offset(1000), 0),
        (ReplayFrom::Offset(-5), 10),
    ];
    for (from, records) in cases {
        run_replay(&world, &counting(), &replay("r", from));
        assert_eq!(world.read("totals-replay-r").len(), records, "{from:?}");
    }
}

#[test]
fn a_warm_up_fills_stores_and_writes_nothing_before_the_start() {
    for topology in [counting(), rekeyed(None)] {
        let world = World::of_lines(1, &WORDS);
        let mut config = replay("r", ReplayFrom::Time(Timestamp(8)));
        config.start = StartAt::Replay {
            from: ReplayFrom::Time(Timestamp(8)),
            warm_up: Duration::from_millis(4),
        };
        run_replay(&world, &topology, &config);
        let number = |bytes: Vec<u8>| i64::from_be_bytes(*bytes.first_chunk().unwrap());
        let found: Vec<_> = world.read("totals-replay-r").into_iter().collect();
        let found: Vec<_> = found.into_iter().map(|(w, n, at)| (w, number(n), at)).collect();
        // From 4 on: a b c d a e.
        assert_eq!(found, [("a".to_owned(), 2, 8), ("e".to_owned(), 1, 9)]);
    }
}

#[test]
fn a_replay_without_an_id_of_its_own_is_refused() {
    let world = World::of_lines(1, &WORDS);
    let mut config = replay("r", ReplayFrom::Beginning);
    config.task.application_id = "app".into();
    let error = world.prepare(&counting(), &config).err().unwrap();
    assert!(matches!(error, StartError::NotAReplay { .. }), "{error}");
    let mut config = replay("r", ReplayFrom::Offset(3));
    config.start = StartAt::Replay { from: ReplayFrom::Offset(3), warm_up: Duration::from_secs(1) };
    let error = world.prepare(&counting(), &config).err().unwrap();
    assert!(matches!(error, StartError::WarmUpNeedsTime), "{error}");
}

#[test]
fn a_replay_that_is_running_is_not_disturbed() {
    let world = World::of_lines(1, &WORDS);
    let config = replay("r", ReplayFrom::Beginning);
    let mut running = world.worker(&counting(), &config);
    while running.run_once().unwrap() == Cycle::Worked {}
    let ids = |world: &World| {
        let names = ["app-replay-r-counts-changelog", "totals-replay-r"];
        let found = world.broker.admin().unwrap().describe(&names).unwrap();
        found.into_values().map(|info| info.id).collect::<Vec<_>>()
    };
    let before = ids(&world);
    let error = world.prepare(&counting(), &config).err().unwrap();
    assert!(matches!(error, StartError::ReplayIsRunning(_)), "{error}");
    assert_eq!(ids(&world), before, "its topics are the same");
    running.close().unwrap();
    assert_eq!(world.read("totals-replay-r").len(), WORDS.len());
}

#[test]
fn a_replay_of_a_sink_that_chooses_topics_by_record_is_refused() {
    let world = World::of_lines(1, &WORDS);
    let mut builder = crate::TopologyBuilder::new();
    builder.add_source("lines", crate::SourceDef::typed(&lines())).unwrap();
    let choose =
        Arc::new(|_: &String, value: &String, _: &crate::RecordContext| Ok(Some(value.clone())));
    let (topic, supplier) = crate::SinkDef::extracted("chosen", choose, Arc::new(lines())).build();
    builder.add_sink("by-word", topic, supplier, &["lines"]).unwrap();
    let topology = builder.build().unwrap();
    let error = world.prepare(&topology, &replay("r", ReplayFrom::Beginning)).err().unwrap();
    assert!(error.to_string().contains("sink `by-word` chooses its topic by record"), "{error}");
    assert!(world.prepare(&topology, &config()).is_ok(), "a live run may");
}

#[test]
fn a_replay_with_an_end_runs_no_punctuations_on_wall_clock_time() {
    for (mut config, ticks) in [(config(), true), (replay("r", ReplayFrom::Beginning), false)] {
        let world = World::of_lines(1, &WORDS);
        (config.turn_records_max, config.cycle_max) = (1, Duration::ZERO);
        let mut worker = world.worker(&ticking(), &config);
        for _ in 0..WORDS.len() + 3 {
            worker.run_once().unwrap();
            world.clock.advance(Duration::from_secs(1));
        }
        worker.close().unwrap();
        let totals = world.read(&format!("totals{}", config.task.output_suffix));
        let ticked = totals.iter().filter(|(key, ..)| key == "tick").count();
        assert_eq!((ticked > 0, totals.len() - ticked), (ticks, WORDS.len()));
    }
}

#[test]
fn a_producer_to_be_replaced_after_a_commit_is_not_written_to() {
    for nth in 1..5 {
        let world = World::of_lines(2, &WORDS);
        let mut config = config();
        // One task comes to its end before the other.
        (config.until, config.turn_records_max) = (Until::EndAtStart, 1);
        let around = world.prepare(&rekeyed(Some(2)), &config).unwrap();
        let late = Fault::ArrivesAgainBefore(1);
        world.broker.set_faults(FaultPlan::new().on(Call::Commit, nth, late));
        to_the_end(&world, &around, 1);
        world.broker.set_faults(FaultPlan::new());
        assert_eq!(by_word(world.totals()), by_word(running_counts(&WORDS)), "{nth}");
        assert_eq!(around.metrics.snapshot().recoveries, 0, "{nth}");
    }
}

#[test]
fn repartition_records_are_deleted_up_to_the_committed_offset_and_no_further() {
    let world = World::of_lines(1, &WORDS);
    let topology = rekeyed(None);
    let mut worker = world.worker(&topology, &config());
    world.settle(&mut [&mut worker]).unwrap();
    let hop = TopicPartition::new("app-by-value-repartition", 0);
    let committed = |world: &World| {
        let mut consumer = world.consumer();
        let committed = consumer.committed("app", std::slice::from_ref(&hop)).unwrap();
        committed[&hop].offset
    };
    let before = committed(&world);
    // Moves the position on, past what does not count, without anything to commit.
    let mut producer = world
        .broker
        .producer(&thalweg_connectors::ProducerOptions {
            transactional_id: Some("aborts".to_owned()),
            transaction_timeout: Duration::from_secs(60),
            client_id: "aborts".to_owned(),
        })
        .unwrap();
    producer.init_transactions().unwrap();
    producer.begin().unwrap();
    let (slot, _) = producer.topic(&hop.topic).unwrap();
    let record = thalweg_connectors::NewRecord {
        key: Some(b"x"),
        value: Some(b"x"),
        timestamp: Timestamp(60),
        headers: thalweg_connectors::HeadersRef::EMPTY,
    };
    producer.send(slot, 0, &record).unwrap();
    producer.flush().unwrap();
    producer.abort().unwrap();
    world.settle(&mut [&mut worker]).unwrap();
    world.clock.advance(Duration::from_secs(30));
    worker.run_once().unwrap();
    let start = world.consumer().beginning_offsets(std::slice::from_ref(&hop)).unwrap()[&hop];
    assert_eq!((committed(&world), start), (before, before));
    drop(worker);
    // Whoever goes on from the committed offset finds it there.
    world.write("lines", &[("a", "a", 99)]);
    let mut worker = world.worker(&topology, &config());
    world.settle(&mut [&mut worker]).unwrap();
    assert_eq!(world.totals().len(), WORDS.len() + 1);
}

#[test]
fn consumed_repartition_records_are_deleted() {
    let world = World::of_lines(1, &WORDS);
    let mut worker = world.worker(&rekeyed(None), &config());
    world.settle(&mut [&mut worker]).unwrap();
    world.clock.advance(Duration::from_secs(30));
    worker.run_once().unwrap();
    let tp = TopicPartition::new("app-by-value-repartition", 0);
    let options = thalweg_connectors::ConsumerOptions {
        isolation: thalweg_connectors::Isolation::ReadCommitted,
        client_id: "reader".to_owned(),
    };
    let mut consumer = world.broker.consumer(&options).unwrap();
    let start = consumer.beginning_offsets(std::slice::from_ref(&tp)).unwrap()[&tp];
    assert!(start > Offset(9), "{start}");
}

#[test]
fn missing_outputs_are_named_or_made() {
    let world = World::new(&[("lines", 3)]);
    let error = world.prepare(&counting(), &config()).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("output topic `totals` does not exist"), "{text}");
    let mut config = config();
    config.missing_outputs = MissingOutputs::Create;
    world.prepare(&counting(), &config).unwrap();
    let topics = world.broker.admin().unwrap().describe(&["totals"]).unwrap();
    assert_eq!(topics["totals"].partitions, 3);
}
