//! The commit protocol on a broker in memory: the process ends, or an answer is lost, at every
//! point; another process goes on. Results are those of a run without failures.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod model;

use std::time::Duration;

use model::{
    Disk, GROUP, Plain, Point, TRANSACTION_TIMEOUT, Worker, World, assert_at_least_once,
    assert_exactly_once, changelog, totals,
};
use thalweg_connectors::{Call, Clock, Fault, FaultPlan, Offset, PortErrorKind};
use thalweg_txn::{CommitPermit, Committed, ErrorClass, Guarantee};

const EXACTLY_ONCE: Guarantee = Guarantee::ExactlyOnce;
const AT_LEAST_ONCE: Guarantee = Guarantee::AtLeastOnce;

/// Commits once, then does what goes wrong, ends, and lets `next` take over.
fn run(
    guarantee: Guarantee,
    next: &'static str,
    wrong: impl Fn(&World, &mut Worker<'_>, &mut Disk),
) -> (World, Disk) {
    let (world, mut disk) = (World::new(), Disk::default());
    let mut worker = Worker::open(&world, guarantee, "one", &mut disk);
    assert_eq!(worker.cycle(&mut disk, 3).unwrap(), Committed::Done);
    wrong(&world, &mut worker, &mut disk);
    drop(worker);
    assert_eq!(world.broker.faults_left(), 0, "every planned fault struck");
    Worker::open(&world, guarantee, next, &mut disk).drain(&mut disk);
    (world, disk)
}

/// The same instance starts again and ends its own transaction, or another one takes over and has
/// to wait.
const SUCCESSORS: [&str; 2] = ["one", "two"];

#[test]
fn without_failures_both_guarantees_give_the_same() {
    for guarantee in [EXACTLY_ONCE, AT_LEAST_ONCE] {
        let (world, disk) = run(guarantee, "one", |_, _, _| {});
        assert_exactly_once(&world, &disk);
    }
}

/// Points 1 to 4.
#[test]
fn a_process_that_ends_while_processing_leaves_nothing() {
    for next in SUCCESSORS {
        for point in [Point::Overlay, Point::Changelog, Point::Output] {
            let (world, disk) = run(EXACTLY_ONCE, next, |_, worker, disk| {
                let before = disk.clone();
                worker.process(disk, Point::Output).unwrap();
                worker.process(disk, point).unwrap();
                assert_eq!(*disk, before, "nothing uncommitted reaches the store");
            });
            assert_exactly_once(&world, &disk);
        }
    }
}

/// Points 5 to 9: requests and answers of P1 and C2 to C4 get lost, or are refused.
#[test]
fn a_failure_at_any_call_of_the_commit_neither_loses_nor_doubles() {
    let faults = [
        (Fault::RequestLost, ErrorClass::Abortable),
        (Fault::AnswerLost, ErrorClass::Abortable),
        (Fault::Fails(PortErrorKind::Retriable), ErrorClass::Abortable),
        (Fault::Fails(PortErrorKind::Abortable), ErrorClass::Abortable),
        (Fault::Fails(PortErrorKind::Fenced), ErrorClass::Fenced),
    ];
    let calls = [
        (Call::Begin, 1),
        (Call::Flush, 1),
        (Call::SendOffsets, 1),
        // The flush inside of the commit.
        (Call::Flush, 2),
        (Call::Commit, 1),
    ];
    for next in SUCCESSORS {
        for ((call, nth), (fault, class)) in calls.iter().flat_map(|c| faults.map(|f| (*c, f))) {
            let (world, disk) = run(EXACTLY_ONCE, next, |world, worker, disk| {
                let before = disk.clone();
                world.broker.set_faults(FaultPlan::new().on(call, nth, fault));
                let error = worker.cycle(disk, 3).unwrap_err();
                assert_eq!(error.class(), class, "{call:?} {fault:?}");
                assert_eq!(*disk, before, "without an answer nothing is persisted");
            });
            assert_exactly_once(&world, &disk);
        }
    }
}

/// Points 7 and 8: the offsets are pending, so another instance must not read older ones.
#[test]
fn a_successor_waits_for_pending_offsets() {
    let elapsed = |next| {
        let (world, disk) = run(EXACTLY_ONCE, next, |world, worker, disk| {
            let lost = FaultPlan::new().on(Call::SendOffsets, 1, Fault::AnswerLost);
            world.broker.set_faults(lost);
            worker.cycle(disk, 3).unwrap_err();
        });
        assert_exactly_once(&world, &disk);
        world.clock.elapsed()
    };
    assert_eq!(elapsed("one"), Duration::ZERO, "its own id ends it at once");
    assert_eq!(elapsed("two"), TRANSACTION_TIMEOUT, "another one waits for the time-out");
}

/// Point 9: what was committed without an answer is found in the changelog, not made again.
#[test]
fn a_commit_whose_answer_was_lost_counts() {
    let (world, mut disk) = (World::new(), Disk::default());
    let mut worker = Worker::open(&world, EXACTLY_ONCE, "one", &mut disk);
    let lost = FaultPlan::new().on(Call::Commit, 1, Fault::AnswerLost);
    world.broker.set_faults(lost);
    worker.cycle(&mut disk, 3).unwrap_err();
    drop(worker);
    assert_eq!(disk, Disk::default());
    let worker = Worker::open(&world, EXACTLY_ONCE, "one", &mut disk);
    assert_eq!(disk.counts["a"], 2);
    assert_eq!(world.committed().map(|c| c.offset), Some(Offset(3)));
    worker.drain(&mut disk);
    assert_exactly_once(&world, &disk);
}

/// Point 10: the coordinator has decided, readers see it later; point 20: the producer, which may
/// have a request under way, is replaced.
#[test]
fn a_commit_that_takes_effect_later_is_waited_for_on_a_new_producer() {
    let late = Fault::TakesEffectAfter(Duration::from_secs(15));
    for next in SUCCESSORS {
        let (world, disk) = run(EXACTLY_ONCE, next, |world, worker, disk| {
            world.broker.set_faults(FaultPlan::new().on(Call::Commit, 1, late));
            assert_eq!(worker.cycle(disk, 3).unwrap(), Committed::ReplaceProducer);
            assert!(!worker.committer.has_failed());
        });
        assert_exactly_once(&world, &disk);
    }
}

#[test]
fn a_request_that_arrives_once_more_cannot_end_the_next_transaction() {
    for calls in 1..=3 {
        let (world, disk) = run(EXACTLY_ONCE, "one", |world, worker, disk| {
            let again = Fault::ArrivesAgainBefore(calls);
            world.broker.set_faults(FaultPlan::new().on(Call::Commit, 1, again));
            assert_eq!(worker.cycle(disk, 3).unwrap(), Committed::ReplaceProducer);
            // On the old producer, the request would commit what is taken back here.
            worker.process(disk, Point::Output).unwrap();
            worker.process(disk, Point::Output).unwrap();
            let taken_back = worker.committer.abort(&mut *worker.producer).unwrap();
            assert_eq!(taken_back, Committed::Done);
        });
        assert_exactly_once(&world, &disk);
    }
}

/// Point 11.
#[test]
fn a_process_that_ends_between_commit_and_persist_restores_from_the_changelog() {
    for next in SUCCESSORS {
        let (world, disk) = run(EXACTLY_ONCE, next, |_, worker, disk| {
            worker.process(disk, Point::Output).unwrap();
            let error = worker.commit_without_persisting().unwrap_err();
            assert_eq!(error.class(), ErrorClass::Abortable);
            assert!(worker.committer.has_failed(), "no other commit before a restore");
        });
        assert_exactly_once(&world, &disk);
    }
}

/// Point 19: who was expelled is refused at its offsets, and what it wrote is never seen.
#[test]
fn a_zombie_commits_nothing() {
    for punctuates in [false, true] {
        let (world, mut disk) = (World::new(), Disk::default());
        let mut zombie = Worker::open(&world, EXACTLY_ONCE, "one", &mut disk);
        assert_eq!(zombie.cycle(&mut disk, 3).unwrap(), Committed::Done);
        let zombies_disk = &mut disk.clone();
        if punctuates {
            zombie.punctuate().unwrap();
        } else {
            zombie.process(zombies_disk, Point::Output).unwrap();
        }
        let member = zombie.membership.metadata().member;
        assert!(world.broker.expel(GROUP, &member));

        let error = zombie.commit(zombies_disk).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Fenced, "punctuates: {punctuates}");
        assert_eq!(*zombies_disk, disk);
        // It closes without a commit; its next producer ends what is open.
        zombie.replace_producer();
        Worker::open(&world, EXACTLY_ONCE, "two", &mut disk).drain(&mut disk);
        assert_exactly_once(&world, &disk);
        assert_eq!(world.clock.elapsed(), Duration::ZERO, "nobody had to wait");
    }
}

#[test]
fn a_zombie_whose_transaction_timed_out_is_fenced_at_every_call() {
    let (world, mut disk) = (World::new(), Disk::default());
    let mut zombie = Worker::open(&world, EXACTLY_ONCE, "one", &mut disk);
    assert_eq!(zombie.cycle(&mut disk, 1).unwrap(), Committed::Done);
    let zombies_disk = &mut disk.clone();
    zombie.process(zombies_disk, Point::Output).unwrap();
    let member = zombie.membership.metadata().member;
    assert!(world.broker.expel(GROUP, &member));
    zombie.producer.flush().unwrap();
    Worker::open(&world, EXACTLY_ONCE, "two", &mut disk).drain(&mut disk);
    assert_eq!(world.clock.elapsed(), TRANSACTION_TIMEOUT);

    let error = zombie.commit(zombies_disk).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Fenced);
    assert_exactly_once(&world, &disk);
}

/// Point 21: the group does not fence the end of a transaction, so it may still succeed.
#[test]
fn a_rebalance_between_offsets_and_commit_does_no_harm() {
    let (world, mut disk) = (World::new(), Disk::default());
    let mut worker = Worker::open(&world, EXACTLY_ONCE, "one", &mut disk);
    assert_eq!(worker.cycle(&mut disk, 3).unwrap(), Committed::Done);
    let (broker, member) = (world.broker.clone(), worker.membership.metadata().member);
    worker.hook_commit(move || assert!(broker.expel(GROUP, &member)));
    let zombies = worker.cycle(&mut disk.clone(), 3).unwrap();
    assert_eq!(zombies, Committed::Done);
    Worker::open(&world, EXACTLY_ONCE, "two", &mut disk).drain(&mut disk);
    assert_exactly_once(&world, &disk);
}

/// Point 22: an interrupted clean end is the phase it was in.
#[test]
fn an_abort_leaves_the_last_commit() {
    for fault in [None, Some(Fault::RequestLost), Some(Fault::AnswerLost)] {
        for next in SUCCESSORS {
            let (world, disk) = run(EXACTLY_ONCE, next, |world, worker, disk| {
                let plan = FaultPlan::new();
                let plan = fault.into_iter().fold(plan, |p, f| p.on(Call::Abort, 1, f));
                worker.process(disk, Point::Output).unwrap();
                world.broker.set_faults(plan);
                let aborted = worker.committer.abort(&mut *worker.producer);
                assert_eq!(aborted.is_err(), fault.is_some());
            });
            assert_exactly_once(&world, &disk);
        }
    }
}

#[test]
fn at_least_once_loses_nothing_whatever_fails() {
    let faults = [
        Fault::RequestLost,
        Fault::AnswerLost,
        Fault::Fails(PortErrorKind::Abortable),
        Fault::Fails(PortErrorKind::Fenced),
    ];
    for call in [Call::Flush, Call::CommitOffsets] {
        for fault in faults {
            let (world, disk) = run(AT_LEAST_ONCE, "two", |world, worker, disk| {
                let before = disk.clone();
                world.broker.set_faults(FaultPlan::new().on(call, 1, fault));
                worker.cycle(disk, 3).unwrap_err();
                let persisted = call == Call::CommitOffsets;
                assert_eq!(*disk != before, persisted, "state goes before offsets");
            });
            assert_at_least_once(&world, &disk);
        }
    }
}

#[test]
fn at_least_once_loses_nothing_wherever_the_process_ends() {
    for point in [Point::Overlay, Point::Changelog, Point::Output] {
        let (world, disk) = run(AT_LEAST_ONCE, "two", |_, worker, disk| {
            worker.process(disk, point).unwrap();
        });
        assert_at_least_once(&world, &disk);
    }
    let (world, disk) = run(AT_LEAST_ONCE, "two", |_, worker, disk| {
        worker.process(disk, Point::Output).unwrap();
        worker.commit_without_persisting().unwrap_err();
    });
    assert_at_least_once(&world, &disk);
    let (world, disk) = run(AT_LEAST_ONCE, "two", |_, worker, disk| {
        worker.process(disk, Point::Output).unwrap();
        let aborted = worker.committer.abort(&mut *worker.producer).unwrap();
        assert_eq!(aborted, Committed::Done);
    });
    assert_at_least_once(&world, &disk);
}

#[test]
fn at_least_once_repeats_nothing_when_offsets_are_refused_for_a_moment() {
    let refused = Fault::Fails(PortErrorKind::Retriable);
    let (world, disk) = run(AT_LEAST_ONCE, "two", |world, worker, disk| {
        let plan = FaultPlan::new().on(Call::CommitOffsets, 1, refused).on(
            Call::CommitOffsets,
            2,
            refused,
        );
        world.broker.set_faults(plan);
        assert_eq!(worker.cycle(disk, 3).unwrap(), Committed::Done);
    });
    assert_exactly_once(&world, &disk);
}

#[test]
fn a_permit_carries_the_position_behind_the_last_own_record() {
    for guarantee in [EXACTLY_ONCE, AT_LEAST_ONCE] {
        let (world, mut disk) = (World::new(), Disk::default());
        let mut worker = Worker::open(&world, guarantee, "one", &mut disk);
        worker.process(&disk, Point::Output).unwrap();
        worker.process(&disk, Point::Output).unwrap();
        let plan = worker.plan();
        let mut positions = Vec::new();
        let mut persist = |permit: &CommitPermit| {
            positions.push(permit.acknowledged().clone());
            Ok(())
        };
        let producer = &mut *worker.producer;
        let done = worker.committer.commit(producer, &plan, &mut persist);
        assert_eq!(done.unwrap(), Committed::Done);
        let both = [(changelog(), Offset(2)), (totals(), Offset(2))];
        assert_eq!(positions, [both.into()]);
    }
}

#[test]
fn only_a_backend_with_transactions_may_run_exactly_once() {
    let plain = Plain(World::new().broker);
    for guarantee in [EXACTLY_ONCE, AT_LEAST_ONCE] {
        guarantee.check(&plain.0).unwrap();
    }
    AT_LEAST_ONCE.check(&plain).unwrap();
    let error = EXACTLY_ONCE.check(&plain).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Fatal);
    assert_eq!(
        error.to_string(),
        "exactly_once needs transactions, which `plain://` does not have; \
         set `processing.guarantee` to at_least_once or choose another backend"
    );
}
