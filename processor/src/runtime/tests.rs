//! Threads: start, end, stop, failures.
#![allow(clippy::unwrap_used, reason = "a test panics on failure")]

use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{Backend, MemBroker, SystemClock};
use thalweg_txn::Guarantee;

use super::{RuntimeConfig, StateConfig, Streams, StreamsSpec, Until, promise};
use crate::error::ErrorClass;
use crate::metrics::StreamsState;
use crate::worker::tests::{World, config, counting, rekeyed};
use crate::{RunError, StartError, Topology};

const WORDS: [&str; 6] = ["a", "b", "a", "c", "a", "b"];

fn spec(world: &World, topology: Topology, config: RuntimeConfig) -> StreamsSpec {
    StreamsSpec {
        topology,
        backend: Arc::new(world.broker.clone()),
        clock: Arc::new(SystemClock::new()),
        config: Arc::new(config),
    }
}

fn until_the_end(workers: usize) -> RuntimeConfig {
    let mut config = config();
    (config.until, config.workers) = (Until::EndAtStart, workers);
    config.poll_timeout = Duration::from_millis(20);
    config
}

#[test]
fn a_run_until_the_end_ends_by_itself_on_several_threads() {
    let world = World::of_lines(4, &WORDS);
    let streams = Streams::start(spec(&world, rekeyed(Some(3)), until_the_end(3))).unwrap();
    let metrics = Arc::clone(streams.metrics());
    let summary = streams.join().unwrap();
    assert!(summary.reached_end);
    assert_eq!(summary.records_processed, 12, "each record in two tasks");
    assert_eq!(world.totals().len(), WORDS.len());
    assert_eq!(metrics.state(), StreamsState::Stopped);
}

#[test]
fn a_stopped_run_commits_what_it_has_and_says_so() {
    let world = World::of_lines(1, &WORDS);
    let mut config = config();
    config.poll_timeout = Duration::from_millis(20);
    let streams = Streams::start(spec(&world, counting(), config)).unwrap();
    streams.stop_handle().stop();
    let summary = streams.join().unwrap();
    assert!(!summary.reached_end);
    assert_eq!(world.totals().len() as u64, summary.records_processed);
}

#[test]
fn a_failure_of_one_worker_ends_the_run_with_its_error() {
    for (word, class) in [("poison", ErrorClass::User), ("panic", ErrorClass::User)] {
        let world = World::of_lines(1, &["a", word]);
        let streams = Streams::start(spec(&world, counting(), until_the_end(2))).unwrap();
        let metrics = Arc::clone(streams.metrics());
        let error = streams.join().unwrap_err();
        assert!(matches!(error, RunError::Task { .. }), "{error}");
        assert_eq!(error.class(), class);
        assert_eq!(metrics.state(), StreamsState::Failed);
        assert_eq!(world.totals(), []);
    }
}

#[test]
fn mistakes_are_found_at_the_start() {
    let world = World::of_lines(1, &WORDS);
    let start = |config| Streams::start(spec(&world, counting(), config)).err().unwrap();
    let mut no_workers = config();
    no_workers.workers = 0;
    assert!(matches!(start(no_workers), StartError::NoWorkers));
    let mut slow = config();
    slow.commit_interval = Some(Duration::from_secs(60));
    let text = start(slow).to_string();
    assert!(text.contains("`commit.interval.ms` (60s) has to be shorter"), "{text}");
    let empty = World::new(&[("line", 1)]);
    let error = Streams::start(spec(&empty, counting(), config())).err().unwrap();
    let text = error.to_string();
    assert_eq!(text, "source topic `lines` does not exist: did you mean \"line\"?");
}

#[test]
fn a_second_run_on_one_state_directory_is_refused() {
    let world = World::of_lines(1, &WORDS);
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    config.state = StateConfig { directory: Some(dir.path().to_owned()), ..Default::default() };
    config.poll_timeout = Duration::from_millis(20);
    let first = Streams::start(spec(&world, counting(), config.clone())).unwrap();
    let error = Streams::start(spec(&world, counting(), config)).err().unwrap();
    assert!(error.to_string().contains("is in use by process"), "{error}");
    drop(first);
}

#[test]
fn state_on_disk_is_not_restored_at_the_next_start() {
    let world = World::of_lines(1, &WORDS);
    let dir = tempfile::tempdir().unwrap();
    let mut config = until_the_end(1);
    config.state = StateConfig { directory: Some(dir.path().to_owned()), ..Default::default() };
    Streams::start(spec(&world, counting(), config.clone())).unwrap().join().unwrap();
    let summary = Streams::start(spec(&world, counting(), config)).unwrap().join().unwrap();
    let expected = if cfg!(feature = "rocksdb") { 0 } else { 6 };
    assert_eq!(summary.records_restored, expected);
}

#[test]
fn the_promise_names_backend_guarantee_and_durability() {
    let broker = MemBroker::new();
    let line = promise("mem://x", &broker, Guarantee::ExactlyOnce);
    let durable = broker.promise();
    let start = "exactly-once on mem://x: outputs, state and offsets commit together; ";
    assert_eq!(line, format!("{start}{durable}"));
    assert!(promise("mem://x", &broker, Guarantee::AtLeastOnce).starts_with("at-least-once on"));
}
