//! Failures of the backend as planned, and of user code.

use std::time::Duration;

use thalweg_connectors::{Call, Fault, FaultPlan, PortErrorKind};

use super::apps::{counting, rekeyed};
use super::world::{World, by_word, config, running_counts};
use crate::error::ErrorClass;
use crate::runtime::RunError;

const WORDS: [&str; 8] = ["a", "b", "commit", "a", "c", "commit", "b", "a"];

const CALLS: [Call; 8] = [
    Call::Poll,
    Call::Committed,
    Call::Init,
    Call::Begin,
    Call::Flush,
    Call::SendOffsets,
    Call::Commit,
    Call::Admin,
];

const FAULTS: [Fault; 6] = [
    Fault::Fails(PortErrorKind::Retriable),
    Fault::Fails(PortErrorKind::Abortable),
    Fault::Fails(PortErrorKind::Fenced),
    Fault::Fails(PortErrorKind::Unknown),
    Fault::RequestLost,
    Fault::AnswerLost,
];

/// Runs in small steps; later words come in after the first have been committed. Tells how many faults did not strike.
fn run_with(world: &World, topology: &crate::Topology, plan: FaultPlan) -> usize {
    let mut config = config();
    (config.poll_records_max, config.turn_records_max) = (2, 1);
    let mut worker = world.worker(topology, &config);
    world.broker.set_faults(plan);
    world.settle(&mut [&mut worker]).unwrap();
    world.write("lines", &[("a", "a", 50), ("b", "b", 51)]);
    world.settle(&mut [&mut worker]).unwrap();
    // What did not strike must not strike who reads the results.
    let left = world.broker.faults_left();
    world.broker.set_faults(FaultPlan::new());
    left
}

#[test]
fn whatever_call_fails_however_results_are_exact() {
    let all: Vec<&str> = WORDS.into_iter().chain(["a", "b"]).collect();
    for topology in [counting(), rekeyed(None)] {
        for call in CALLS {
            for nth in 1..4 {
                for fault in FAULTS {
                    let world = World::of_lines(1, &WORDS);
                    let left = run_with(&world, &topology, FaultPlan::new().on(call, nth, fault));
                    assert!(left == 0 || nth > 1, "{call:?} {fault:?} did not strike");
                    let (found, expected) = (world.totals(), running_counts(&all));
                    assert_eq!(by_word(found), by_word(expected), "{call:?} {nth} {fault:?}");
                }
            }
        }
    }
}

#[test]
fn a_late_end_of_a_transaction_replaces_the_producer_and_results_are_exact() {
    let all: Vec<&str> = WORDS.into_iter().chain(["a", "b"]).collect();
    for nth in 1..4 {
        for fault in [
            Fault::ArrivesAgainBefore(1),
            Fault::ArrivesAgainBefore(2),
            Fault::TakesEffectAfter(Duration::from_millis(150)),
        ] {
            let world = World::of_lines(1, &WORDS);
            let left = run_with(&world, &counting(), FaultPlan::new().on(Call::Commit, nth, fault));
            assert_eq!(left, 0);
            assert_eq!(world.totals(), running_counts(&all), "{nth} {fault:?}");
        }
    }
}

#[test]
fn a_failure_that_stays_ends_the_worker_when_its_time_is_over() {
    let world = World::of_lines(1, &WORDS);
    let mut worker = world.worker(&counting(), &config());
    let always = (1..1000).fold(FaultPlan::new(), |plan, nth| {
        plan.on(Call::Committed, nth, Fault::Fails(PortErrorKind::Retriable))
    });
    world.broker.set_faults(always);
    worker.run_once().unwrap();
    world.clock.advance(Duration::from_secs(299));
    worker.run_once().unwrap();
    world.clock.advance(Duration::from_secs(1));
    let error = worker.run_once().unwrap_err();
    assert!(matches!(error, RunError::GaveUp { .. }), "{error}");
}

fn fails_with(words: &[&str]) -> (World, RunError) {
    let world = World::of_lines(1, words);
    let mut worker = world.worker(&counting(), &config());
    let error = world.settle(&mut [&mut worker]).unwrap_err();
    worker.abandon();
    (world, error)
}

#[test]
fn a_poisonous_record_stops_the_worker_and_nothing_is_lost() {
    let (world, error) = fails_with(&["a", "commit", "a", "poison", "b"]);
    assert_eq!(error.class(), ErrorClass::User);
    let text = error.chain();
    assert!(text.contains("`count` of task 0_0 failed at lines-0@3"), "{text}");
    assert!(text.contains("a poisonous record"), "{text}");
    let mut skipping = config();
    skipping.task.on_processing_error = crate::OnError::Continue;
    let mut worker = world.worker(&counting(), &skipping);
    world.settle(&mut [&mut worker]).unwrap();
    assert_eq!(world.totals(), running_counts(&["a", "commit", "a", "b"]));
}

#[test]
fn a_panic_of_user_code_is_contained_and_nothing_open_is_committed() {
    let (world, error) = fails_with(&["a", "a", "panic", "b"]);
    assert_eq!(error.class(), ErrorClass::User);
    let text = error.chain();
    assert!(
        text.contains(
            "node `count`: user code panicked in task 0_0 at lines-0@2: a panicking record"
        ),
        "{text}"
    );
    assert_eq!(world.totals(), []);
    // The open transaction was aborted at once, so that nobody waits for it.
    assert_eq!(world.read("app-counts-changelog"), []);
}

#[test]
fn a_position_that_is_gone_is_looked_up_again_and_ends_the_run_when_it_stays() {
    let gone = Fault::Fails(PortErrorKind::OffsetOutOfRange);
    let world = World::of_lines(1, &WORDS);
    assert_eq!(run_with(&world, &counting(), FaultPlan::new().on(Call::Poll, 2, gone)), 0);
    let all: Vec<&str> = WORDS.into_iter().chain(["a", "b"]).collect();
    assert_eq!(world.totals(), running_counts(&all));

    let world = World::of_lines(1, &WORDS);
    let mut worker = world.worker(&counting(), &config());
    let always = (1..1000).fold(FaultPlan::new(), |plan, nth| plan.on(Call::Poll, nth, gone));
    world.broker.set_faults(always);
    let ended = world.settle(&mut [&mut worker]).unwrap_err();
    assert_eq!(ended.class(), ErrorClass::Fatal);
    assert!(world.broker.faults_left() > 900, "it is not tried for long");
}

/// Another producer with the worker's transactional id begins.
fn take_over(world: &World) {
    let options = thalweg_connectors::ProducerOptions {
        transactional_id: Some("app-instance-0".to_owned()),
        transaction_timeout: Duration::from_secs(60),
        client_id: "thief".to_owned(),
    };
    let mut thief = thalweg_connectors::Backend::producer(&world.broker, &options).unwrap();
    thief.init_transactions().unwrap();
}

#[test]
fn a_transactional_id_that_is_taken_over_now_and_then_costs_a_transaction_and_too_often_ends_the_run()
 {
    let world = World::of_lines(1, &["a"]);
    let mut worker = world.worker(&counting(), &config());
    world.settle(&mut [&mut worker]).unwrap();
    let mut expected = vec!["a"];
    let taken_over = |worker: &mut crate::worker::Worker| {
        take_over(&world);
        world.write("lines", &[("a", "a", 1)]);
        world.settle(&mut [worker])
    };
    for pause in [0, 0, 0, 60, 0, 0, 0] {
        // Long ago does not count.
        world.clock.advance(Duration::from_secs(pause));
        taken_over(&mut worker).unwrap();
        expected.push("a");
    }
    let ended = taken_over(&mut worker).unwrap_err();
    assert_eq!(ended.class(), ErrorClass::Fatal);
    let text = ended.chain();
    let what = "took over transactional id `app-instance-0` 5 times within 60 s";
    assert!(text.contains(what) && text.contains("copy of this state directory"), "{text}");
    assert_eq!(world.totals(), running_counts(&expected));
}

#[test]
fn an_undecodable_record_names_its_place() {
    let world = World::of_lines(1, &["a"]);
    let broker = &world.broker;
    let mut producer = thalweg_connectors::Backend::producer(
        broker,
        &thalweg_connectors::ProducerOptions {
            transactional_id: None,
            transaction_timeout: Duration::from_secs(60),
            client_id: "writer".to_owned(),
        },
    )
    .unwrap();
    let (slot, _) = producer.topic("lines").unwrap();
    let record = thalweg_connectors::NewRecord {
        key: Some(b"k"),
        value: Some(b"\xff\xfe"),
        timestamp: thalweg_connectors::Timestamp(5),
        headers: thalweg_connectors::HeadersRef::EMPTY,
    };
    producer.send(slot, 0, &record).unwrap();
    producer.flush().unwrap();
    let mut worker = world.worker(&counting(), &config());
    let error = world.settle(&mut [&mut worker]).unwrap_err();
    assert_eq!(error.class(), ErrorClass::User);
    let text = error.chain();
    assert!(text.contains("cannot deserialize the value of lines-0@1 in task 0_0"), "{text}");
}
