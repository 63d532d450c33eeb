//! Several workers: tasks are handed over after a commit, lost tasks are dropped, what was fenced joins anew.

use std::time::Duration;

use thalweg_connectors::{Call, Fault, FaultPlan};

use super::apps::{counting, rekeyed};
use super::world::{APP, World, by_word, config, running_counts};
use crate::metrics::StreamsState;
use crate::worker::{Cycle, Worker};

const WORDS: [&str; 10] = ["a", "b", "c", "d", "a", "b", "c", "d", "a", "e"];

#[test]
fn a_second_worker_takes_over_tasks_without_losing_or_doubling() {
    for topology in [counting(), rekeyed(Some(3))] {
        let world = World::of_lines(4, &WORDS);
        let mut config = config();
        config.workers = 2;
        let around = world.prepare(&topology, &config).unwrap();
        let mut first = Worker::new(around.clone(), 0).unwrap();
        for _ in 0..3 {
            first.run_once().unwrap();
        }
        let mut second = Worker::new(around.clone(), 1).unwrap();
        world.settle(&mut [&mut first, &mut second]).unwrap();
        world.write("lines", &[("a", "a", 50), ("b", "b", 51), ("e", "e", 52)]);
        world.settle(&mut [&mut first, &mut second]).unwrap();
        let numbers = around.metrics.snapshot();
        assert!(numbers.tasks_revoked > 0, "{numbers:?}");
        first.close().unwrap();
        world.write("lines", &[("c", "c", 60), ("d", "d", 61)]);
        world.settle(&mut [&mut second]).unwrap();
        let all: Vec<&str> = WORDS.into_iter().chain(["a", "b", "e", "c", "d"]).collect();
        assert_eq!(by_word(world.totals()), by_word(running_counts(&all)));
    }
}

#[test]
fn work_in_progress_is_committed_before_its_task_is_handed_over() {
    let world = World::of_lines(2, &WORDS);
    let mut config = config();
    config.workers = 2;
    let around = world.prepare(&counting(), &config).unwrap();
    let mut first = Worker::new(around.clone(), 0).unwrap();
    while first.run_once().unwrap() == Cycle::Worked {}
    assert_eq!(world.totals(), [], "nothing is committed before the interval is over");
    let second = Worker::new(around, 1).unwrap();
    first.run_once().unwrap();
    assert_eq!(by_word(world.totals()), by_word(running_counts(&WORDS)));
    drop(second);
}

#[test]
fn a_producer_to_be_replaced_after_a_hand_over_is_not_written_to() {
    let world = World::of_lines(4, &WORDS);
    let mut config = config();
    (config.workers, config.turn_records_max, config.cycle_max) = (2, 1, Duration::ZERO);
    let around = world.prepare(&counting(), &config).unwrap();
    let mut first = Worker::new(around.clone(), 0).unwrap();
    for _ in 0..2 {
        first.run_once().unwrap();
    }
    let late = Fault::ArrivesAgainBefore(1);
    world.broker.set_faults(FaultPlan::new().on(Call::Commit, 1, late));
    let mut second = Worker::new(around.clone(), 1).unwrap();
    first.run_once().unwrap();
    assert_eq!(world.broker.faults_left(), 0, "it committed for the hand-over");
    world.settle(&mut [&mut first, &mut second]).unwrap();
    assert_eq!(by_word(world.totals()), by_word(running_counts(&WORDS)));
    assert_eq!(around.metrics.snapshot().recoveries, 0);
}

#[test]
fn an_expelled_worker_drops_everything_and_joins_anew() {
    let world = World::of_lines(1, &WORDS);
    let topology = counting();
    let around = world.prepare(&topology, &config()).unwrap();
    let mut worker = Worker::new(around.clone(), 0).unwrap();
    while worker.run_once().unwrap() == Cycle::Worked {}
    assert!(world.broker.expel(APP, "app-0-1"), "the member has this name");
    world.settle(&mut [&mut worker]).unwrap();
    assert_eq!(world.totals(), running_counts(&WORDS));
    assert_eq!(around.metrics.snapshot().recoveries, 1);
}

#[test]
fn a_zombie_cannot_commit_what_its_successor_has_done() {
    let world = World::of_lines(1, &WORDS);
    let topology = counting();
    let mut zombie = world.worker(&topology, &config());
    while zombie.run_once().unwrap() == Cycle::Worked {}
    // It hangs; its session times out, and another instance of the same directory takes over.
    assert!(world.broker.expel(APP, "app-0-1"));
    let mut successor = world.worker(&topology, &config());
    world.settle(&mut [&mut successor]).unwrap();
    assert_eq!(world.totals(), running_counts(&WORDS));
    world.write("lines", &[("a", "a", 50)]);
    zombie.close().unwrap();
    world.settle(&mut [&mut successor]).unwrap();
    let all: Vec<&str> = WORDS.into_iter().chain(["a"]).collect();
    assert_eq!(world.totals(), running_counts(&all));
}

#[test]
fn a_clean_close_commits_and_leaves() {
    let world = World::of_lines(1, &WORDS);
    let mut worker = world.worker(&counting(), &config());
    while worker.run_once().unwrap() == Cycle::Worked {}
    worker.close().unwrap();
    assert_eq!(world.totals(), running_counts(&WORDS));
    assert!(!world.broker.expel(APP, "app-0-1"), "it has left already");
}

#[test]
fn what_moves_between_members_is_counted_and_forgotten_by_whom_it_left() {
    let world = World::of_lines(4, &WORDS);
    let instance = || world.prepare(&rekeyed(Some(3)), &config()).unwrap();
    let (one, two) = (instance(), instance());
    let mut first = Worker::new(one.clone(), 0).unwrap();
    world.settle(&mut [&mut first]).unwrap();
    let before = one.metrics.snapshot();
    assert_eq!((before.tasks_assigned, before.partitions_assigned), (7, 7));
    assert_eq!((before.rebalances, before.partitions_revoked), (1, 0));

    let mut second = Worker::new(two.clone(), 0).unwrap();
    world.settle(&mut [&mut first, &mut second]).unwrap();
    world.clock.advance(one.config.metrics_interval);
    world.settle(&mut [&mut first, &mut second]).unwrap();
    let [left, come] = [&one, &two].map(|around| around.metrics.snapshot());
    assert_eq!(left.partitions_revoked, come.partitions_assigned);
    assert!((3..=4).contains(&come.partitions_assigned), "{come:?}");
    assert!(left.rebalances > 1 && come.rebalances > 0, "{left:?} {come:?}");
    let mut all: Vec<_> = left.partitions.keys().chain(come.partitions.keys()).collect();
    all.sort_unstable();
    assert_eq!(all, before.partitions.keys().collect::<Vec<_>>(), "each at one of them");
    let lag = |of: &crate::PartitionMetrics| of.lag;
    let lags: Vec<_> = left.partitions.values().chain(come.partitions.values()).map(lag).collect();
    assert_eq!(lags, [Some(0); 7]);
}

#[test]
fn a_worker_is_ready_without_tasks_when_none_is_meant_for_it() {
    let world = World::of_lines(1, &WORDS);
    let instance = || world.prepare(&counting(), &config()).unwrap();
    let (one, two) = (instance(), instance());
    let mut first = Worker::new(one.clone(), 0).unwrap();
    world.settle(&mut [&mut first]).unwrap();
    let mut second = Worker::new(two.clone(), 0).unwrap();
    assert_eq!(two.metrics.state(), StreamsState::Created);
    second.run_once().unwrap();
    assert_eq!((two.metrics.snapshot().tasks, two.metrics.state()), (0, StreamsState::Running));
}

#[test]
fn a_worker_is_not_ready_while_it_awaits_tasks_of_others() {
    let world = World::of_lines(2, &WORDS);
    let instance = || world.prepare(&counting(), &config()).unwrap();
    let (one, two) = (instance(), instance());
    let mut first = Worker::new(one.clone(), 0).unwrap();
    world.settle(&mut [&mut first]).unwrap();
    let mut second = Worker::new(two.clone(), 0).unwrap();
    second.run_once().unwrap();
    assert_eq!((two.metrics.snapshot().tasks, two.metrics.state()), (0, StreamsState::Restoring));
    assert_eq!(one.metrics.state(), StreamsState::Running);
    world.settle(&mut [&mut first, &mut second]).unwrap();
    assert_eq!((two.metrics.snapshot().tasks, two.metrics.state()), (1, StreamsState::Running));
}
