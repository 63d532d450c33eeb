//! What is restored at a start: nothing when the disk is up to date, the tail when it is behind, all of it when the position
//! cannot be trusted.

use std::time::Duration;

use thalweg_connectors::{Backend, HeadersRef, NewRecord, Offset, ProducerOptions, Timestamp};
use thalweg_state::{Engine, FACTS_FAMILY, WriteOp, WriteOps};

use super::apps::{counting, joined};
use super::world::{World, config, running_counts};
use crate::metrics::MetricsSnapshot;
use crate::topology::TaskId;
use crate::worker::{Cycle, Slot, Worker};

const WORDS: [&str; 6] = ["a", "b", "a", "c", "a", "b"];

/// Runs to rest and tells the numbers.
fn run(world: &World, topology: &crate::Topology) -> MetricsSnapshot {
    let around = world.prepare(topology, &config()).unwrap();
    let mut worker = Worker::new(around.clone(), 0).unwrap();
    world.settle(&mut [&mut worker]).unwrap();
    drop(worker);
    around.metrics.snapshot()
}

#[test]
fn nothing_is_restored_after_an_unclean_death_with_a_disk() {
    let (world, topology) = (World::of_lines(1, &WORDS), counting());
    run(&world, &topology);
    world.write("lines", &[("a", "a", 50)]);
    let numbers = run(&world, &topology);
    assert_eq!(numbers.records_restored(), 0, "{numbers:?}");
    assert_eq!(numbers.changelogs_length(), 7, "six records and a marker");
}

#[test]
fn only_the_tail_is_restored_when_the_disk_is_behind() {
    let (world, topology) = (World::of_lines(1, &WORDS), counting());
    run(&world, &topology);
    let image = world.disk.image();
    world.write("lines", &[("a", "a", 50), ("b", "b", 51)]);
    run(&world, &topology);
    world.disk.restore(image);
    let numbers = run(&world, &topology);
    assert_eq!(numbers.records_restored(), 2);
    let restore = &numbers.restores[0];
    assert_eq!((restore.remaining, restore.changelog_length), (0, 10));
    assert_eq!((&*restore.store, &*restore.changelog.topic), ("counts", "app-counts-changelog"));
}

#[test]
fn a_lost_disk_is_restored_in_full() {
    let (world, topology) = (World::of_lines(1, &WORDS), counting());
    run(&world, &topology);
    world.disk.wipe();
    assert_eq!(run(&world, &topology).records_restored(), 6);
    world.write("lines", &[("a", "a", 50)]);
    run(&world, &topology);
    let all: Vec<&str> = WORDS.into_iter().chain(["a"]).collect();
    assert_eq!(world.totals(), running_counts(&all));
}

#[test]
fn a_store_whose_position_has_left_the_changelog_is_restored_in_full() {
    let (world, topology) = (World::of_lines(1, &WORDS), counting());
    let mut worker = world.worker(&topology, &config());
    world.settle(&mut [&mut worker]).unwrap();
    drop(worker);
    let image = world.disk.image();
    world.write("lines", &[("b", "b", 51)]);
    run(&world, &topology);
    world.disk.restore(image);
    let tp = thalweg_connectors::TopicPartition::new("app-counts-changelog", 0);
    let before = [(tp, Offset(world.end("app-counts-changelog", 0).0 - 2))].into();
    world.broker.admin().unwrap().delete_records(&before).unwrap();
    assert_eq!(run(&world, &topology).records_restored(), 1, "what is left of the changelog");
}

#[test]
fn state_that_is_too_old_for_its_changelog_is_restored_in_full() {
    let (world, topology) = (World::of_lines(1, &WORDS), counting());
    run(&world, &topology);
    let image = world.disk.image();
    world.write("lines", &[("b", "b", 51)]);
    run(&world, &topology);
    world.disk.restore(image);
    world.clock.advance(Duration::from_secs(3600));
    let mut config = config();
    config.state_age_max = Some(Duration::from_secs(1800));
    let around = world.prepare(&topology, &config).unwrap();
    let mut worker = Worker::new(around.clone(), 0).unwrap();
    world.settle(&mut [&mut worker]).unwrap();
    assert_eq!(around.metrics.snapshot().records_restored(), 7);
}

#[test]
fn a_restore_that_was_interrupted_goes_on_where_it_was() {
    let (world, topology) = (World::of_lines(1, &WORDS), counting());
    run(&world, &topology);
    world.disk.wipe();
    let mut config = config();
    config.restore_records_max = 2;
    let mut worker = world.worker(&topology, &config);
    // The first opens, the second takes over two records.
    worker.run_once().unwrap();
    worker.run_once().unwrap();
    drop(worker);
    let restored = run(&world, &topology).records_restored();
    assert!((1..6).contains(&restored), "{restored} of 6 records");
}

#[test]
fn running_tasks_go_on_while_others_restore() {
    let world = World::of_lines(2, &WORDS);
    let topology = counting();
    run(&world, &topology);
    // Of two tasks, one has lost its state.
    let mut image = world.disk.image();
    image.remove(&TaskId { subtopology: 0, partition: 0 });
    world.disk.restore(image);
    let mut config = config();
    config.restore_records_max = 1;
    let around = world.prepare(&topology, &config).unwrap();
    let mut worker = Worker::new(around.clone(), 0).unwrap();
    let words: Vec<String> = (0..40).map(|n| format!("w{n}")).collect();
    let records: Vec<_> = words.iter().map(|w| (w.as_str(), w.as_str(), 60)).collect();
    world.write("lines", &records);
    worker.run_once().unwrap();
    worker.run_once().unwrap();
    let numbers = around.metrics.snapshot();
    assert_eq!(numbers.state, crate::StreamsState::Restoring);
    assert!(numbers.records_processed > 0, "{numbers:?}");
    world.settle(&mut [&mut worker]).unwrap();
    assert_eq!(around.metrics.snapshot().state, crate::StreamsState::Running);
}

#[test]
fn a_source_topic_that_serves_as_changelog_is_restored_to_the_committed_offset() {
    let world = World::new(&[("orders", 1), ("users", 1), ("enriched", 1)]);
    let topology = joined(true);
    world.write("users", &[("u", "old", 1), ("v", "vera", 2)]);
    run(&world, &topology);
    let topics = world.broker.admin().unwrap().list().unwrap();
    assert!(topics.iter().all(|t| !t.name.ends_with("-changelog")), "{topics:?}");
    // One more table row is in the topic, but not processed yet; then the disk is lost.
    world.write("users", &[("u", "new", 20)]);
    world.write("orders", &[("u", "order", 10), ("v", "order", 10), ("u", "order", 30)]);
    world.disk.wipe();
    let numbers = run(&world, &topology);
    assert_eq!(numbers.records_restored(), 2);
    let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let expected = [text("u", "old"), text("v", "vera"), text("u", "new")];
    assert_eq!(world.texts("enriched"), expected);
    // With the disk nothing is restored.
    assert_eq!(run(&world, &topology).records_restored(), 0);
}

#[test]
fn tasks_without_work_cost_no_commit() {
    let (world, topology) = (World::of_lines(1, &WORDS), counting());
    let around = world.prepare(&topology, &config()).unwrap();
    let mut worker = Worker::new(around.clone(), 0).unwrap();
    world.settle(&mut [&mut worker]).unwrap();
    let commits = around.metrics.snapshot().commits;
    for _ in 0..5 {
        world.clock.advance(Duration::from_secs(1));
        assert_eq!(worker.run_once().unwrap(), Cycle::Idle);
    }
    assert_eq!(around.metrics.snapshot().commits, commits);
}

/// KAFKA-10167: with the last stable offset as target, the open transaction of a dead owner would hide what was committed behind
/// it, and the task would run on old state.
#[test]
fn a_restore_waits_for_what_an_open_transaction_of_a_dead_owner_hides() {
    let (world, topology) = (World::of_lines(1, &[]), counting());
    run(&world, &topology);
    // An owner of another directory writes to the changelog and dies with its transaction open.
    let options = ProducerOptions {
        transactional_id: Some("app-elsewhere-0".to_owned()),
        transaction_timeout: Duration::from_secs(60),
        client_id: "dead".to_owned(),
    };
    let mut dead = world.broker.producer(&options).unwrap();
    dead.init_transactions().unwrap();
    dead.begin().unwrap();
    let (slot, _) = dead.topic("app-counts-changelog").unwrap();
    let record = NewRecord {
        key: Some(b"a"),
        value: Some(&77_i64.to_be_bytes()),
        timestamp: Timestamp(0),
        headers: HeadersRef::EMPTY,
    };
    dead.send(slot, 0, &record).unwrap();
    dead.flush().unwrap();
    // Its successor counts on, behind it in the changelog, and loses its disk.
    world.write("lines", &[("a", "a", 1), ("a", "a", 2)]);
    let mut successor = world.worker(&topology, &config());
    while successor.run_once().unwrap() == Cycle::Worked {}
    successor.close().unwrap();
    world.disk.wipe();
    world.write("lines", &[("a", "a", 3)]);
    let around = world.prepare(&topology, &config()).unwrap();
    let mut worker = Worker::new(around.clone(), 0).unwrap();
    for _ in 0..20 {
        worker.run_once().unwrap();
    }
    assert_eq!(around.metrics.snapshot().records_processed, 0, "it must wait");
    world.clock.advance(Duration::from_secs(60));
    world.settle(&mut [&mut worker]).unwrap();
    assert_eq!(world.totals(), running_counts(&["a", "a", "a"]));
}

#[test]
fn stream_time_goes_on_after_a_restart() {
    let (world, topology) = (World::of_lines(1, &WORDS), counting());
    run(&world, &topology);
    world.disk.wipe();
    let mut worker = world.worker(&topology, &config());
    world.settle(&mut [&mut worker]).unwrap();
    let times = worker.slots.values_mut().filter_map(Slot::running).map(|task| task.stream_time());
    assert_eq!(times.collect::<Vec<_>>(), [Timestamp(5)]);
}

#[test]
fn damaged_local_state_is_discarded_and_restored() {
    let (world, topology) = (World::of_lines(1, &WORDS), counting());
    run(&world, &topology);
    let mut image = world.disk.image();
    let engine = image.get_mut(&TaskId { subtopology: 0, partition: 0 }).unwrap();
    let facts = engine.family(FACTS_FAMILY).unwrap();
    let damage = WriteOp::Put(facts, b"position/counts", b"not a number");
    engine.write(&WriteOps { ops: vec![damage], restorable: false }).unwrap();
    world.disk.restore(image);
    world.write("lines", &[("a", "a", 50)]);
    let numbers = run(&world, &topology);
    assert_eq!((numbers.records_restored(), numbers.recoveries), (6, 1));
    let all: Vec<&str> = WORDS.into_iter().chain(["a"]).collect();
    assert_eq!(world.totals(), running_counts(&all));
}
