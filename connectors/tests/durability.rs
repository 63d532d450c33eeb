//! What the log keeps over restarts, crashes and damage: on memory that can lose power, and on real
//! files.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "the contract's tests use the rest")]
#[path = "contract/support.rs"]
mod support;

#[cfg(feature = "log")]
#[path = "durability/files.rs"]
mod files;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use support::*;
use thalweg_connectors::*;

fn log_on(memory: &LogMemory, durability: Durability) -> PortResult<Bench> {
    let clock = Arc::new(ManualClock::new(START));
    let options = LogOptions::default().durability(durability);
    let log = LogBroker::on_memory(memory, &options, Arc::clone(&clock) as _)?;
    Ok(Bench::new(log, clock))
}

fn reopen(memory: &LogMemory) -> Bench {
    log_on(memory, Durability::Process).unwrap()
}

/// Commits one transaction: a record and an offset.
fn commit(bench: &Bench, value: &str, next: i64) {
    let mut producer = bench.transactional("id");
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &[value]);
    producer.send_offsets(&offsets("t", next), &nobody("g")).unwrap();
    producer.commit().unwrap();
}

#[test]
fn everything_committed_is_there_after_reopening() {
    let memory = LogMemory::new();
    let bench = reopen(&memory);
    bench.create_with("t", 2, &[("max.message.bytes", "100")]);
    bench.create("u", 1);
    bench.produce("t", &["a", "b"]);
    commit(&bench, "c", 7);
    let mut admin = bench.backend.admin().unwrap();
    let topics = admin.list().unwrap();
    admin.delete_records(&[(tp("t", 0), Offset(1))].into()).unwrap();
    drop((admin, bench));

    let bench = reopen(&memory);
    let mut admin = bench.backend.admin().unwrap();
    assert_eq!(admin.list().unwrap(), topics, "identities too");
    let reads = bench.read("t", 0, Offset(1));
    let values: Vec<_> = reads.iter().filter_map(|r| r.value.as_deref()).collect();
    assert_eq!(values, ["b", "c"]);
    let committed = bench.committed("g", "t").unwrap().unwrap();
    assert_eq!(committed, offsets("t", 7)[&tp("t", 0)]);
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    let start = consumer.beginning_offsets(&[tp("t", 0)]).unwrap();
    assert_eq!(start[&tp("t", 0)], Offset(1));
    let times = [(tp("t", 0), Timestamp(1))];
    assert_eq!(consumer.offsets_for_times(&times).unwrap()[&tp("t", 0)], Offset(1));
    let mut producer = bench.plain();
    let (slot, partitions) = producer.topic("t").unwrap();
    assert_eq!(partitions, 2);
    let large = "x".repeat(101);
    assert_eq!(kind(producer.send(slot, 0, &text(&large))), PortErrorKind::Refused);
    bench.produce("t", &["d"]);
    assert_eq!(bench.read("t", 0, Offset(3))[0].value.as_deref(), Some("d"));
    bench.create("v", 1);
    let ids = admin.list().unwrap().into_iter().map(|t| t.id);
    assert_eq!(ids.collect::<std::collections::BTreeSet<_>>().len(), 3);
}

#[test]
fn an_uncommitted_transaction_is_gone_after_a_crash() {
    let memory = LogMemory::new();
    let bench = reopen(&memory);
    bench.create("t", 1);
    commit(&bench, "a", 1);
    let mut producer = bench.transactional("id");
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["lost"]);
    producer.flush().unwrap();
    producer.send_offsets(&offsets("t", 9), &nobody("g")).unwrap();
    // A crash runs no destructor.
    std::mem::forget((producer, bench));

    let bench = reopen(&memory);
    assert_eq!(bench.values("t"), ["a"]);
    let committed = bench.committed("g", "t").unwrap().unwrap();
    assert_eq!(committed.offset, Offset(1), "nothing is pending");
    commit(&bench, "b", 2);
    assert_eq!(bench.values("t"), ["a", "b"]);
}

#[test]
fn the_marker_counts_committed_transactions_over_all_runs() {
    let memory = LogMemory::new();
    for run in 1..=3 {
        let options = LogOptions::default();
        let clock = Arc::new(ManualClock::new(START));
        let log = LogBroker::on_memory(&memory, &options, Arc::clone(&clock) as _).unwrap();
        let bench = Bench::new(log.clone(), clock);
        bench.create("t", 1);
        commit(&bench, "a", run);
        let mut aborting = bench.transactional("id");
        aborting.begin().unwrap();
        send(aborting.as_mut(), "t", &["x"]);
        aborting.abort().unwrap();
        assert_eq!(log.transactions_committed("id"), run as u64);
        assert_eq!(log.transactions_committed("other"), 0);
    }
}

#[test]
fn what_a_lost_power_supply_takes_depends_on_the_durability() {
    for (durability, expected) in [(Durability::Sync, &["a", "b"][..]), (Durability::Process, &[])]
    {
        let memory = LogMemory::new();
        let synced = log_on(&memory, Durability::Sync).unwrap();
        synced.create("t", 1);
        drop(synced);
        let bench = log_on(&memory, durability).unwrap();
        bench.produce("t", &["a"]);
        commit(&bench, "b", 1);
        drop(bench);
        memory.lose_power();
        let bench = reopen(&memory);
        assert_eq!(bench.values("t"), expected);
        assert_eq!(bench.committed("g", "t").unwrap().is_some(), !expected.is_empty());
    }
}

#[test]
fn a_write_of_unknown_outcome_is_the_last_one_until_the_log_is_opened_anew() {
    for happens in [true, false] {
        let memory = LogMemory::new();
        let bench = reopen(&memory);
        bench.create("t", 1);
        commit(&bench, "a", 1);
        let mut producer = bench.transactional("id");
        producer.begin().unwrap();
        send(producer.as_mut(), "t", &["b"]);
        producer.send_offsets(&offsets("t", 2), &nobody("g")).unwrap();
        memory.fail_next_write(happens);
        assert_eq!(kind(producer.commit()), PortErrorKind::Unknown);
        let mut plain = bench.plain();
        send(plain.as_mut(), "t", &["c"]);
        let refused = plain.flush().map(drop).unwrap_err();
        assert_eq!(refused.kind(), PortErrorKind::Fatal);
        assert!(refused.to_string().contains("takes no more writes"), "{refused}");
        assert_eq!(
            kind(plain.commit_offsets(&offsets("t", 3), &nobody("g"))),
            PortErrorKind::Fatal
        );
        assert_eq!(kind(bench.uninitialized("id").init_transactions()), PortErrorKind::Fatal);
        let mut admin = bench.backend.admin().unwrap();
        assert_eq!(kind(admin.delete(&["t"])), PortErrorKind::Fatal);
        assert_eq!(bench.values("t"), ["a"], "what was there can be read");
        drop((producer, plain, admin, bench));

        let bench = reopen(&memory);
        let (values, next) = if happens { (&["a", "b"][..], 2) } else { (&["a"][..], 1) };
        assert_eq!(bench.values("t"), values);
        assert_eq!(bench.committed("g", "t").unwrap().unwrap().offset, Offset(next));
        commit(&bench, "d", 3);
        assert_eq!(bench.values("t").last().map(String::as_str), Some("d"));
    }
}

#[test]
fn the_promise_says_what_is_survived() {
    let memory = LogMemory::new();
    let promise = |durability| log_on(&memory, durability).unwrap().backend.promise();
    assert_eq!(promise(Durability::Process), "survives a killed process");
    assert_eq!(promise(Durability::Sync), "survives a killed process and the loss of power");
}

#[test]
fn a_log_of_a_newer_format_is_left_alone() {
    let memory = LogMemory::new();
    drop(reopen(&memory));
    // The first value is the format version, 1.
    memory.flip(0, 3, 2);
    let refused = log_on(&memory, Durability::Process).map(drop).unwrap_err();
    assert_eq!(refused.kind(), PortErrorKind::Unsupported);
    assert_eq!(
        refused.to_string(),
        "the log \"memory\" has format 3, this build reads up to 1: use the newer build"
    );
    memory.flip(0, 3, 3);
    assert_eq!(kind(log_on(&memory, Durability::Process)), PortErrorKind::Corrupt);
}

#[test]
fn records_that_left_memory_are_read_from_storage_just_the_same() {
    let memory = LogMemory::new();
    let bench = reopen(&memory);
    bench.create("t", 2);
    let mut producer = bench.plain();
    let (slot, _) = producer.topic("t").unwrap();
    let padding = "x".repeat(9_000);
    let value = |n: i32| format!("{n} {padding}");
    // 36 MB: more than is kept in memory.
    for n in 0..4_000 {
        producer.send(slot, n % 2, &text(&value(n))).unwrap();
    }
    producer.flush().unwrap();
    for partition in 0..2 {
        let reads = bench.read("t", partition, Offset(0));
        assert_eq!(reads.len(), 2_000);
        for (read, n) in reads.iter().zip((partition..).step_by(2)) {
            assert_eq!(read.value.as_deref(), Some(&*value(n)));
        }
    }
}

#[test]
fn a_damaged_run_is_named_and_others_stay_readable() {
    let memory = LogMemory::new();
    let bench = reopen(&memory);
    bench.create("t", 1);
    bench.produce("t", &["a", "b"]);
    bench.produce("t", &["c"]);
    drop(bench);
    // Meta has six entries (end, format, identity, last topic, topic); the first run follows.
    memory.flip(5, 30, 1);
    let bench = reopen(&memory);
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    consumer.assign(&[(tp("t", 0), Offset(0))]).unwrap();
    let damaged = consumer.poll(Duration::ZERO, 10, &mut Vec::new()).unwrap_err();
    assert_eq!(damaged.kind(), PortErrorKind::Corrupt);
    assert!(damaged.to_string().contains("offset 0 of t-0"), "{damaged}");
    assert_eq!(bench.read("t", 0, Offset(2))[0].value.as_deref(), Some("c"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever bit is flipped: the log says that it is corrupt, or gives what was written; it
    /// never panics.
    #[test]
    fn a_flipped_bit_is_reported_or_harmless(nth in 0..64usize, byte in 0..4096usize, bit in 0..8u32) {
        let memory = LogMemory::new();
        let bench = reopen(&memory);
        bench.create_with("t", 1, &[("retention.ms", "5")]);
        for value in ["a", "b", "c"] {
            commit(&bench, value, 3);
        }
        drop(bench);
        memory.flip(nth, byte, 1 << bit);
        let Ok(bench) = log_on(&memory, Durability::Process) else {
            return Ok(());
        };
        let mut consumer = bench.consumer(Isolation::ReadCommitted);
        if consumer.assign(&[(tp("t", 0), Offset(0))]).is_err() {
            return Ok(());
        }
        let mut fetched = Vec::new();
        let (mut values, mut position) = (Vec::new(), Offset(0));
        while consumer.poll(Duration::ZERO, 1, &mut fetched).is_ok() && !fetched.is_empty() {
            for run in fetched.drain(..) {
                prop_assert!(run.next > position);
                position = run.next;
                let records = &run.records;
                values.extend((0..records.len()).map(|i| records.get(i).value.unwrap().to_vec()));
            }
        }
        prop_assert!([&b"a"[..], b"b", b"c"].starts_with(&values.iter().map(|v| &**v).collect::<Vec<_>>()));
        for time in [0, 1, 2] {
            let _ = consumer.offsets_for_times(&[(tp("t", 0), Timestamp(time))]);
        }
        let _ = consumer.committed("g", &[tp("t", 0)]);
    }
}
