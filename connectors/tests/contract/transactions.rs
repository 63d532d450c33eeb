//! Transactions: isolation, fencing, pending offsets, unknown outcomes.

use std::time::Duration;

use thalweg_connectors::*;

use super::support::*;

pub(crate) fn uncommitted_records_are_not_read(bench: &Bench) {
    bench.create("t", 1);
    let mut producer = bench.transactional("id");
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["a"]);
    assert!(producer.flush().unwrap().is_empty(), "commit tells");
    assert!(bench.values("t").is_empty());
    assert_eq!(bench.end("t", Isolation::ReadCommitted), Offset(0));
    // What others write behind it has to wait, or lies before it: never lost, never out of order.
    bench.produce("t", &["b"]);
    producer.commit().unwrap();
    let mut values = bench.values("t");
    values.sort();
    assert_eq!(values, ["a", "b"]);
}

pub(crate) fn aborted_records_are_never_read(bench: &Bench) {
    bench.create("t", 1);
    let mut producer = bench.transactional("id");
    for (value, commit) in [("a", true), ("b", false), ("c", true), ("d", false)] {
        producer.begin().unwrap();
        send(producer.as_mut(), "t", &[value]);
        producer.flush().unwrap();
        send(producer.as_mut(), "t", &[value]);
        if commit {
            producer.commit().unwrap();
        } else {
            producer.abort().unwrap();
        }
    }
    assert_eq!(bench.values("t"), ["a", "a", "c", "c"]);
}

pub(crate) fn committed_records_of_all_partitions_appear_together(bench: &Bench) {
    bench.create("t", 2);
    bench.create("u", 1);
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    let from = [tp("t", 0), tp("t", 1), tp("u", 0)].map(|tp| (tp, Offset(0)));
    consumer.assign(&from).unwrap();
    let mut producer = bench.transactional("id");
    producer.begin().unwrap();
    let (t, _) = producer.topic("t").unwrap();
    let (u, _) = producer.topic("u").unwrap();
    for (slot, partition) in [(t, 0), (t, 1), (u, 0)] {
        producer.send(slot, partition, &text("v")).unwrap();
        producer.flush().unwrap();
        assert!(drain(consumer.as_mut()).0.is_empty());
    }
    producer.commit().unwrap();
    assert_eq!(drain(consumer.as_mut()).0.len(), 3);
}

pub(crate) fn commit_tells_the_offset_after_the_last_own_record(bench: &Bench) {
    bench.create("t", 2);
    let mut producer = bench.transactional("id");
    for _ in 0..3 {
        producer.begin().unwrap();
        send(producer.as_mut(), "t", &["a", "b"]);
        producer.flush().unwrap();
        send(producer.as_mut(), "t", &["c"]);
        let acknowledged = producer.commit().unwrap();
        let last = bench.read("t", 0, Offset(0)).last().unwrap().offset;
        assert_eq!(acknowledged, [(tp("t", 0), Offset(last + 1))].into());
    }
    producer.begin().unwrap();
    assert!(producer.commit().unwrap().is_empty(), "nothing was written");
}

pub(crate) fn positions_pass_markers_up_to_the_end(bench: &Bench) {
    bench.create("t", 1);
    let mut producer = bench.transactional("id");
    for (values, commit) in
        [(&["a", "b"][..], true), (&["x"], false), (&["c"], true), (&["x", "y"], false)]
    {
        producer.begin().unwrap();
        send(producer.as_mut(), "t", values);
        producer.flush().unwrap();
        if commit {
            producer.commit().unwrap();
        } else {
            producer.abort().unwrap();
        }
    }
    let end = bench.end("t", Isolation::ReadUncommitted);
    assert_eq!(bench.end("t", Isolation::ReadCommitted), end);
    for from in 0..=end.0 {
        let mut consumer = bench.consumer(Isolation::ReadCommitted);
        consumer.assign(&[(tp("t", 0), Offset(from))]).unwrap();
        let (reads, positions) = drain(consumer.as_mut());
        let position = positions.get(&tp("t", 0)).copied();
        assert_eq!(position.unwrap_or(Offset(from)), end);
        assert!(reads.iter().all(|r| r.offset >= from));
        if from == 0 {
            let values: Vec<_> = reads.iter().filter_map(|r| r.value.as_deref()).collect();
            assert_eq!(values, ["a", "b", "c"]);
            assert!(reads.is_sorted_by(|a, b| a.offset < b.offset));
        }
    }
}

pub(crate) fn initializing_again_fences_and_aborts_the_older_producer(bench: &Bench) {
    bench.create("t", 1);
    let mut old = bench.transactional("id");
    old.begin().unwrap();
    send(old.as_mut(), "t", &["zombie"]);
    old.flush().unwrap();
    old.send_offsets(&offsets("t", 9), &nobody("g")).unwrap();
    let mut other = bench.transactional("other");
    let mut new = bench.transactional("id");

    assert_eq!(bench.committed("g", "t").unwrap(), None, "aborted, not pending");
    send(old.as_mut(), "t", &["late"]);
    assert_eq!(kind(old.flush()), PortErrorKind::Fenced);
    assert_eq!(kind(old.commit()), PortErrorKind::Fenced);
    assert_eq!(kind(old.begin()), PortErrorKind::Fenced);

    for producer in [&mut new, &mut other] {
        producer.begin().unwrap();
        send(producer.as_mut(), "t", &["live"]);
        producer.commit().unwrap();
    }
    assert_eq!(bench.values("t"), ["live", "live"]);
}

pub(crate) fn offsets_take_effect_with_the_transaction(bench: &Bench) {
    bench.create("t", 1);
    let mut producer = bench.transactional("id");
    for (next, commit) in [(3, true), (5, false)] {
        producer.begin().unwrap();
        producer.send_offsets(&offsets("t", next), &nobody("g")).unwrap();
        if commit {
            producer.commit().unwrap();
        } else {
            producer.abort().unwrap();
        }
        let committed = bench.committed("g", "t").unwrap().unwrap();
        assert_eq!(committed, offsets("t", 3)[&tp("t", 0)]);
    }
    assert_eq!(bench.committed("another", "t").unwrap(), None);
    producer.commit_offsets(&offsets("t", 4), &nobody("g")).unwrap();
    let committed = bench.committed("g", "t").unwrap().unwrap();
    assert_eq!(committed.offset, Offset(4), "outside a transaction at once");
}

pub(crate) fn offsets_are_pending_until_the_transaction_ends(bench: &Bench) {
    bench.create("t", 1);
    bench.create("u", 1);
    let mut producer = bench.transactional("id");
    producer.begin().unwrap();
    producer.send_offsets(&offsets("t", 3), &nobody("g")).unwrap();
    let held = bench.committed("g", "t").unwrap_err();
    assert_eq!(held.kind(), PortErrorKind::Retriable);
    assert!(held.to_string().contains("t-0"));
    assert_eq!(bench.committed("g", "u").unwrap(), None);
    assert_eq!(bench.committed("h", "t").unwrap(), None);
    producer.abort().unwrap();
    assert_eq!(bench.committed("g", "t").unwrap(), None);
}

pub(crate) fn an_open_transaction_times_out_by_the_backends_clock(bench: &Bench) {
    bench.create("t", 1);
    let mut producer = bench.transactional("id");
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["a"]);
    producer.flush().unwrap();
    producer.send_offsets(&offsets("t", 3), &nobody("g")).unwrap();
    bench.clock.advance(TIMEOUT - Duration::from_millis(1));
    assert_eq!(kind(bench.committed("g", "t")), PortErrorKind::Retriable);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(bench.committed("g", "t").unwrap(), None);
    assert_eq!(kind(producer.commit()), PortErrorKind::Fenced);
    assert!(bench.values("t").is_empty());
    let ends = [Isolation::ReadCommitted, Isolation::ReadUncommitted];
    let [stable, end] = ends.map(|i| bench.end("t", i));
    assert_eq!(stable, end, "nothing is open any more");
}

pub(crate) fn calls_out_of_order_are_refused(bench: &Bench) {
    bench.create("t", 1);
    let refused = PortErrorKind::Refused;
    let mut plain = bench.plain();
    assert_eq!(kind(plain.init_transactions()), refused);
    assert_eq!(kind(plain.begin()), refused);
    assert_eq!(kind(plain.commit()), refused);
    let mut producer = bench.uninitialized("id");
    let (slot, _) = producer.topic("t").unwrap();
    assert_eq!(
        message(producer.begin()),
        "cannot begin a transaction with the producer of transactional id \"id\": \
         transactions are not initialized yet"
    );
    producer.init_transactions().unwrap();
    assert_eq!(kind(producer.init_transactions()), refused);
    assert_eq!(kind(producer.send(slot, 0, &text("a"))), refused);
    assert_eq!(kind(producer.commit()), refused);
    assert_eq!(kind(producer.abort()), refused);
    producer.begin().unwrap();
    assert_eq!(kind(producer.begin()), refused);
    producer.send(slot, 0, &text("a")).unwrap();
    producer.commit().unwrap();
    assert_eq!(bench.values("t"), ["a"]);
}

pub(crate) fn two_producers_write_one_partition_without_overlap(bench: &Bench) {
    bench.create("t", 1);
    let mut producers = [bench.transactional("one"), bench.transactional("two")];
    for round in 0..5 {
        for producer in &mut producers {
            producer.begin().unwrap();
            send(producer.as_mut(), "t", &["a", "b"]);
            producer.flush().unwrap();
            send(producer.as_mut(), "t", &["c"]);
        }
        for producer in &mut producers {
            let next = producer.commit().unwrap()[&tp("t", 0)];
            let reads = bench.read("t", 0, Offset(0));
            assert!(reads.len() < 6 * (round + 1) || reads.last().unwrap().offset >= next.0 - 1);
        }
    }
    let reads = bench.read("t", 0, Offset(0));
    assert_eq!(reads.len(), 30);
    assert!(reads.is_sorted_by(|a, b| a.offset < b.offset));
}

pub(crate) fn writers_and_a_reader_in_parallel_lose_and_repeat_nothing(bench: &Bench) {
    const TRANSACTIONS: usize = 100;
    bench.create("t", 1);
    let writers = ["one", "two"].map(|id| {
        let mut producer = bench.transactional(id);
        std::thread::spawn(move || {
            for n in 0..TRANSACTIONS {
                producer.begin().unwrap();
                let values = ["a", "b"].map(|part| format!("{id} {n:04} {part}"));
                send(producer.as_mut(), "t", &[&values[0], &values[1]]);
                if n % 3 == 2 {
                    producer.abort().unwrap();
                } else {
                    producer.commit().unwrap();
                }
            }
        })
    });
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    consumer.assign(&[(tp("t", 0), Offset(0))]).unwrap();
    let mut reads = Vec::new();
    loop {
        let finished = writers.iter().all(std::thread::JoinHandle::is_finished);
        reads.extend(drain(consumer.as_mut()).0);
        if finished {
            break;
        }
    }
    for writer in writers {
        writer.join().unwrap();
    }
    assert!(reads.is_sorted_by(|a, b| a.offset < b.offset));
    for id in ["one", "two"] {
        let mine = reads.iter().filter_map(|r| r.value.as_deref());
        let mine: Vec<_> = mine.filter(|v| v.starts_with(id)).collect();
        let committed = (0..TRANSACTIONS).filter(|n| n % 3 != 2);
        let expected = committed.flat_map(|n| ["a", "b"].map(|p| format!("{id} {n:04} {p}")));
        assert_eq!(mine, expected.collect::<Vec<_>>());
    }
}

pub(crate) fn an_unknown_outcome_ends_the_producer_and_is_found_out_by_opening_anew(bench: &Bench) {
    bench.create("t", 1);
    let cases =
        [(Fault::AnswerLost, "happened", true), (Fault::RequestLost, "did not happen", false)];
    for (fault, value, happened) in cases {
        bench.control.set_faults(FaultPlan::new().on(Call::Commit, 2, fault));
        let mut producer = bench.transactional("id");
        producer.begin().unwrap();
        producer.commit().unwrap();
        producer.begin().unwrap();
        send(producer.as_mut(), "t", &[value]);
        producer.send_offsets(&offsets("t", 3), &nobody(value)).unwrap();
        assert_eq!(kind(producer.commit()), PortErrorKind::Unknown);
        assert!(producer.is_tainted());
        assert_eq!(kind(producer.abort()), PortErrorKind::Fenced, "no other call");
        assert_eq!(bench.control.faults_left(), 0);
        drop(bench.transactional("id"));
        assert_eq!(bench.values("t").contains(&value.to_owned()), happened);
        assert_eq!(bench.committed(value, "t").unwrap().is_some(), happened);
    }
}

pub(crate) fn a_refused_transaction_can_only_be_aborted(bench: &Bench) {
    bench.create("t", 1);
    let refuse = Fault::Fails(PortErrorKind::Abortable);
    bench.control.set_faults(FaultPlan::new().on(Call::Flush, 2, refuse));
    let mut producer = bench.transactional("id");
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["a"]);
    producer.flush().unwrap();
    send(producer.as_mut(), "t", &["b"]);
    assert_eq!(kind(producer.flush()), PortErrorKind::Abortable);
    assert_eq!(kind(producer.commit()), PortErrorKind::Abortable);
    let offsets = producer.send_offsets(&offsets("t", 3), &nobody("g"));
    assert_eq!(kind(offsets), PortErrorKind::Abortable);
    producer.abort().unwrap();
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["c"]);
    producer.commit().unwrap();
    assert_eq!(bench.values("t"), ["c"]);
}

pub(crate) fn a_delayed_commit_holds_its_offsets(bench: &Bench) {
    bench.create("t", 1);
    let delay = Duration::from_secs(5);
    let late = Fault::TakesEffectAfter(delay);
    bench.control.set_faults(FaultPlan::new().on(Call::Commit, 1, late));
    let mut producer = bench.transactional("id");
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["a"]);
    producer.send_offsets(&offsets("t", 3), &nobody("g")).unwrap();
    producer.commit().unwrap();
    assert!(bench.values("t").is_empty());
    assert_eq!(kind(bench.committed("g", "t")), PortErrorKind::Retriable);
    assert_eq!(kind(producer.begin()), PortErrorKind::Retriable);
    let mut next = bench.uninitialized("id");
    assert_eq!(kind(next.init_transactions()), PortErrorKind::Retriable);
    bench.clock.advance(delay);
    next.init_transactions().unwrap();
    assert_eq!(bench.values("t"), ["a"]);
    assert!(bench.committed("g", "t").unwrap().is_some());
}

/// What a producer that has seen a lost connection may do to its next transaction; why it has to be
/// replaced.
pub(crate) fn a_commit_that_arrives_again_ends_the_next_transaction(bench: &Bench) {
    bench.create("t", 1);
    let again = Fault::ArrivesAgainBefore(2);
    bench.control.set_faults(FaultPlan::new().on(Call::Commit, 1, again));
    let mut producer = bench.transactional("id");
    assert!(!producer.is_tainted());
    producer.begin().unwrap();
    producer.commit().unwrap();
    assert!(producer.is_tainted());
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["aborted"]);
    producer.flush().unwrap();
    producer.abort().unwrap();
    assert_eq!(bench.values("t"), ["aborted"], "committed by the late request");
    // A new producer of the id fences the late request.
    let mut next = bench.transactional("id");
    next.begin().unwrap();
    send(next.as_mut(), "t", &["b"]);
    next.abort().unwrap();
    assert_eq!(bench.values("t"), ["aborted"]);
}

pub(crate) fn an_abort_that_arrives_again_takes_the_output_and_leaves_the_offsets(bench: &Bench) {
    bench.create("t", 1);
    let again = Fault::ArrivesAgainBefore(2);
    bench.control.set_faults(FaultPlan::new().on(Call::Abort, 1, again));
    let mut producer = bench.transactional("id");
    producer.begin().unwrap();
    producer.abort().unwrap();
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["lost"]);
    producer.flush().unwrap();
    producer.send_offsets(&offsets("t", 3), &nobody("g")).unwrap();
    producer.commit().unwrap();
    assert!(producer.is_tainted());
    assert!(bench.values("t").is_empty());
    assert!(bench.committed("g", "t").unwrap().is_some());
}
