//! Records, offsets, times and topics.

use std::time::{Duration, Instant};

use thalweg_connectors::*;

use super::support::*;

pub(crate) fn keys_values_headers_and_timestamps_come_back_as_sent(bench: &Bench) {
    bench.create("t", 1);
    let headers = Headers::new()
        .with("traceparent", Some(b"00-1"))
        .with("note", None)
        .with("traceparent", Some(b"00-2"));
    let records = [
        (Some("k"), Some("v"), 5, headers.clone()),
        (None, Some(""), 0, Headers::new()),
        (Some(""), None, i64::MAX, Headers::new()),
    ];
    let mut producer = bench.plain();
    let (slot, partitions) = producer.topic("t").unwrap();
    assert_eq!(partitions, 1);
    for (key, value, timestamp, headers) in &records {
        let record = NewRecord {
            key: key.map(str::as_bytes),
            value: value.map(str::as_bytes),
            timestamp: Timestamp(*timestamp),
            headers: headers.as_ref(),
        };
        producer.send(slot, 0, &record).unwrap();
    }
    let acknowledged = producer.flush().unwrap();
    assert_eq!(acknowledged, [(tp("t", 0), Offset(3))].into());
    assert!(producer.flush().unwrap().is_empty(), "nothing new");

    let expected = records.into_iter().zip(0..);
    let expected = expected.map(|((key, value, timestamp, headers), offset)| Read {
        offset,
        timestamp,
        key: key.map(Into::into),
        value: value.map(Into::into),
        headers,
    });
    assert_eq!(bench.read("t", 0, Offset(0)), expected.collect::<Vec<_>>());
}

pub(crate) fn a_record_without_timestamp_is_stamped(bench: &Bench) {
    bench.create("t", 1);
    bench.clock.set(Timestamp(77));
    let mut producer = bench.plain();
    let (slot, _) = producer.topic("t").unwrap();
    producer.send(slot, 0, &at("a", -1)).unwrap();
    producer.flush().unwrap();
    assert_eq!(bench.read("t", 0, Offset(0))[0].timestamp, 77);
}

pub(crate) fn log_append_time_stamps_every_record(bench: &Bench) {
    bench.create_with("t", 1, &[("message.timestamp.type", "LogAppendTime")]);
    bench.clock.set(Timestamp(77));
    bench.produce("t", &["a"]);
    assert_eq!(bench.read("t", 0, Offset(0))[0].timestamp, 77);
}

pub(crate) fn a_run_larger_than_asked_for_is_handed_out_in_parts(bench: &Bench) {
    bench.create("t", 1);
    bench.produce("t", &["a", "b", "c", "d", "e"]);
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    consumer.assign(&[(tp("t", 0), Offset(1))]).unwrap();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let mut fetched = Vec::new();
        consumer.poll(Duration::ZERO, 2, &mut fetched).unwrap();
        assert_eq!(fetched.len(), 1);
        let records = &fetched[0].records;
        let offsets: Vec<_> = (0..records.len()).map(|i| records.get(i).offset.0).collect();
        seen.push((offsets, fetched[0].next.0));
    }
    assert_eq!(seen, [(vec![1, 2], 3), (vec![3, 4], 5)]);
}

pub(crate) fn reading_starts_at_the_offset_asked_for(bench: &Bench) {
    bench.create("t", 1);
    for batch in [&["a", "b"][..], &["c"], &["d", "e"]] {
        bench.produce("t", batch);
    }
    for from in 0..=5 {
        let reads = bench.read("t", 0, Offset(from));
        let offsets: Vec<_> = reads.iter().map(|r| r.offset).collect();
        assert_eq!(offsets, (from..5).collect::<Vec<_>>());
    }
    // A second assignment moves the position.
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    consumer.assign(&[(tp("t", 0), Offset(5))]).unwrap();
    consumer.assign(&[(tp("t", 0), Offset(3))]).unwrap();
    assert_eq!(drain(consumer.as_mut()).0.len(), 2);
    consumer.unassign(&[tp("t", 0)]).unwrap();
    bench.produce("t", &["f"]);
    assert!(drain(consumer.as_mut()).0.is_empty());
}

pub(crate) fn many_batches_come_back_in_order(bench: &Bench) {
    bench.create("t", 1);
    let mut producer = bench.plain();
    let (slot, _) = producer.topic("t").unwrap();
    let padding = "x".repeat(500);
    for n in 0..5_000 {
        let value = format!("{n} {padding}");
        producer.send(slot, 0, &text(&value)).unwrap();
    }
    assert_eq!(producer.flush().unwrap()[&tp("t", 0)], Offset(5_000));
    let reads = bench.read("t", 0, Offset(0));
    assert_eq!(reads.len(), 5_000);
    for (n, read) in reads.iter().enumerate() {
        assert_eq!(read.offset, n as i64);
        let value = read.value.as_deref().unwrap();
        assert!(value.starts_with(&format!("{n} x")) && value.ends_with('x'));
    }
    assert_eq!(bench.read("t", 0, Offset(4_321))[0].offset, 4_321);
}

pub(crate) fn every_partition_is_served(bench: &Bench) {
    bench.create("t", 3);
    let mut producer = bench.plain();
    let (slot, _) = producer.topic("t").unwrap();
    for (partition, count) in [(0, 500), (1, 5), (2, 5)] {
        for _ in 0..count {
            producer.send(slot, partition, &text("v")).unwrap();
        }
    }
    producer.flush().unwrap();
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    let all = [0, 1, 2].map(|p| (tp("t", p), Offset(0)));
    consumer.assign(&all).unwrap();
    let mut fetched = Vec::new();
    consumer.poll(Duration::ZERO, 300, &mut fetched).unwrap();
    let count = |p: i32| {
        let runs = fetched.iter().filter(|f| f.partition.partition == p);
        runs.map(|f| f.records.len()).sum::<usize>()
    };
    assert_eq!((count(0), count(1), count(2)), (290, 5, 5));
}

pub(crate) fn a_paused_partition_keeps_its_position(bench: &Bench) {
    bench.create("t", 1);
    bench.produce("t", &["a", "b"]);
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    consumer.assign(&[(tp("t", 0), Offset(1))]).unwrap();
    consumer.set_paused(&[tp("t", 0)], true).unwrap();
    assert!(drain(consumer.as_mut()).0.is_empty());
    consumer.set_paused(&[tp("t", 0)], false).unwrap();
    assert_eq!(drain(consumer.as_mut()).0[0].offset, 1);
}

pub(crate) fn a_waiting_reader_is_woken_by_a_flush(bench: &Bench) {
    bench.create("t", 1);
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    consumer.assign(&[(tp("t", 0), Offset(0))]).unwrap();
    let started = Instant::now();
    let reader = std::thread::spawn(move || {
        let mut fetched = Vec::new();
        let wait = Duration::from_secs(60);
        consumer.poll(wait, 10, &mut fetched).unwrap();
        fetched.len()
    });
    bench.produce("t", &["a"]);
    assert_eq!(reader.join().unwrap(), 1);
    assert!(started.elapsed() < Duration::from_secs(30), "it was woken");
}

pub(crate) fn an_idle_reader_returns_at_its_timeout(bench: &Bench) {
    bench.create("t", 1);
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    consumer.assign(&[(tp("t", 0), Offset(0))]).unwrap();
    let (started, wait) = (Instant::now(), Duration::from_millis(20));
    let mut fetched = Vec::new();
    consumer.poll(wait, 10, &mut fetched).unwrap();
    assert!(fetched.is_empty());
    assert!(started.elapsed() >= wait);
}

pub(crate) fn an_offset_outside_the_log_is_an_error(bench: &Bench) {
    bench.create("t", 2);
    bench.produce("t", &["a", "b"]);
    for outside in [-1, 3] {
        let mut consumer = bench.consumer(Isolation::ReadCommitted);
        consumer.assign(&[(tp("t", 0), Offset(outside))]).unwrap();
        let error = consumer.poll(Duration::ZERO, 10, &mut Vec::new());
        let error = error.unwrap_err();
        assert_eq!(error.kind(), PortErrorKind::OffsetOutOfRange);
        assert_eq!(
            error.to_string(),
            format!("offset {outside} of t-0 is out of range: it holds 0 to 2")
        );
    }
    // What others have is read first.
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    let positions = [(tp("t", 0), Offset(0)), (tp("t", 1), Offset(9))];
    consumer.assign(&positions).unwrap();
    let (mut fetched, mut failed) = (Vec::new(), 0);
    for _ in 0..3 {
        let polled = consumer.poll(Duration::ZERO, 10, &mut fetched);
        failed += u32::from(polled.is_err());
    }
    assert_eq!(fetched.len(), 1);
    assert!(failed >= 2);
}

pub(crate) fn a_time_leads_to_the_first_record_not_older(bench: &Bench) {
    bench.create("t", 2);
    let mut producer = bench.plain();
    let (slot, _) = producer.topic("t").unwrap();
    for times in [&[10, 30, 20][..], &[15], &[40, 40]] {
        for time in times {
            producer.send(slot, 0, &at("v", *time)).unwrap();
        }
        producer.flush().unwrap();
    }
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    let cases = [
        (0, Some(0)),
        (10, Some(0)),
        (11, Some(1)),
        (30, Some(1)),
        (31, Some(4)),
        (40, Some(4)),
        (41, None),
    ];
    for (time, expected) in cases {
        let times = [(tp("t", 0), Timestamp(time)), (tp("t", 1), Timestamp(time))];
        let found = consumer.offsets_for_times(&times).unwrap();
        let expected = expected.map(|o| (tp("t", 0), Offset(o)));
        assert_eq!(found, expected.into_iter().collect(), "at {time}");
    }
    let missing = [(tp("nope", 0), Timestamp(0))];
    let missing = consumer.offsets_for_times(&missing);
    assert_eq!(kind(missing), PortErrorKind::UnknownTopic);
}

pub(crate) fn a_time_is_found_among_deleted_and_unordered_records(bench: &Bench) {
    bench.create("t", 1);
    let mut producer = bench.plain();
    let (slot, _) = producer.topic("t").unwrap();
    for times in [&[90, 5][..], &[10], &[20, 30], &[100]] {
        for time in times {
            producer.send(slot, 0, &at("v", *time)).unwrap();
        }
        producer.flush().unwrap();
    }
    let mut admin = bench.backend.admin().unwrap();
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    let mut find = |time| {
        let found = consumer.offsets_for_times(&[(tp("t", 0), Timestamp(time))]);
        found.unwrap().into_values().next().map(|o| o.0)
    };
    let cases = [
        (0, [Some(0), Some(0), Some(0), Some(5)]),
        (1, [Some(1), Some(2), Some(3), Some(5)]),
        (3, [Some(3), Some(3), Some(3), Some(5)]),
        (4, [Some(4), Some(4), Some(4), Some(5)]),
        (6, [None, None, None, None]),
    ];
    for (start, expected) in cases {
        let before = [(tp("t", 0), Offset(start))].into();
        admin.delete_records(&before).unwrap();
        assert_eq!([2, 8, 15, 95].map(&mut find), expected, "from {start}");
    }
}

pub(crate) fn deleted_records_are_gone_and_the_rest_stays(bench: &Bench) {
    bench.create("t", 1);
    bench.produce("t", &["a", "b", "c"]);
    bench.produce("t", &["d"]);
    let mut admin = bench.backend.admin().unwrap();
    let mut delete = |before| admin.delete_records(&[(tp("t", 0), Offset(before))].into());
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    for before in [2, 1] {
        delete(before).unwrap();
        let start = consumer.beginning_offsets(&[tp("t", 0)]).unwrap();
        assert_eq!(start[&tp("t", 0)], Offset(2), "it never moves back");
        let offsets: Vec<_> = bench.read("t", 0, Offset(2)).iter().map(|r| r.offset).collect();
        assert_eq!(offsets, [2, 3]);
    }
    consumer.assign(&[(tp("t", 0), Offset(1))]).unwrap();
    let polled = consumer.poll(Duration::ZERO, 10, &mut Vec::new());
    assert_eq!(kind(polled), PortErrorKind::OffsetOutOfRange);
    assert_eq!(kind(delete(5)), PortErrorKind::OffsetOutOfRange);
    delete(4).unwrap();
    assert!(bench.read("t", 0, Offset(4)).is_empty());
    bench.produce("t", &["e"]);
    assert_eq!(bench.read("t", 0, Offset(4))[0].offset, 4);
}

pub(crate) fn ends_are_looked_at_without_waiting(bench: &Bench) {
    bench.create("t", 2);
    bench.produce("t", &["a", "b", "c"]);
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    let asked = [tp("t", 0), tp("t", 1)];
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    let mut look = || loop {
        if let Some(ends) = consumer.look_at_ends(&asked, Isolation::ReadCommitted).unwrap() {
            return ends;
        }
        assert!(std::time::Instant::now() < deadline, "no answer");
        std::thread::park_timeout(Duration::from_millis(1));
    };
    assert_eq!(look(), [(tp("t", 0), Offset(3)), (tp("t", 1), Offset(0))].into());
    bench.produce("t", &["d"]);
    assert_eq!(look()[&tp("t", 0)], Offset(4), "each answer is to a question of its own");
}

pub(crate) fn records_are_deleted_without_waiting_and_a_failure_is_told_later(bench: &Bench) {
    bench.create("t", 1);
    bench.produce("t", &["a", "b", "c"]);
    let mut admin = bench.backend.admin().unwrap();
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    let mut delete = |before| {
        std::thread::park_timeout(Duration::from_millis(20));
        assert!(std::time::Instant::now() < deadline, "it does not come to an end");
        admin.begin_delete_records(&[(tp("t", 0), Offset(before))].into())
    };
    loop {
        delete(2).unwrap();
        let start = consumer.beginning_offsets(&[tp("t", 0)]).unwrap()[&tp("t", 0)];
        if start == Offset(2) {
            break;
        }
    }
    let refused = loop {
        if let Err(error) = delete(5) {
            break error;
        }
    };
    assert_eq!(refused.kind(), PortErrorKind::OffsetOutOfRange, "{refused}");
}

pub(crate) fn a_record_over_the_topics_limit_is_refused_and_named(bench: &Bench) {
    bench.create_with("small", 1, &[("max.message.bytes", "100")]);
    bench.create("usual", 1);
    let mut producer = bench.plain();
    let (small, _) = producer.topic("small").unwrap();
    let (usual, _) = producer.topic("usual").unwrap();
    let (fits, large) = ("x".repeat(100), "x".repeat(101));
    producer.send(small, 0, &text(&fits)).unwrap();
    let refused = producer.send(small, 0, &text(&large)).unwrap_err();
    assert_eq!(refused.kind(), PortErrorKind::Refused);
    assert_eq!(
        refused.to_string(),
        "a record of 101 bytes for small-0 is too large: max.message.bytes of the topic is 100; \
         raise it, or write smaller records"
    );
    let large = "x".repeat(1_000_000);
    producer.send(usual, 0, &text(&large)).unwrap();
    let nowhere = producer.send(usual, 1, &text("a"));
    assert_eq!(
        message(nowhere),
        "cannot send to partition 1 of \"usual\": it has partitions 0 to 0"
    );
    producer.flush().unwrap();
    assert_eq!(bench.values("small"), [fits]);
    assert_eq!(bench.values("usual")[0].len(), 1_000_000);
}

pub(crate) fn a_flush_that_lost_records_is_never_followed_by_a_good_one(bench: &Bench) {
    bench.create("t", 1);
    let mut producer = bench.plain();
    send(producer.as_mut(), "t", &["a"]);
    bench.backend.admin().unwrap().delete(&["t"]).unwrap();
    assert_eq!(kind(producer.flush()), PortErrorKind::UnknownTopic);
    assert_eq!(kind(producer.flush()), PortErrorKind::Fenced);

    bench.create("t", 1);
    let again = Fault::Fails(PortErrorKind::Retriable);
    bench.control.set_faults(FaultPlan::new().on(Call::Flush, 1, again));
    let mut producer = bench.plain();
    send(producer.as_mut(), "t", &["b"]);
    assert_eq!(kind(producer.flush()), PortErrorKind::Retriable);
    producer.flush().unwrap();
    assert_eq!(bench.values("t"), ["b"]);
}

pub(crate) fn batches_over_many_partitions_are_all_kept(bench: &Bench) {
    const PARTITIONS: i32 = 100;
    bench.create("t", PARTITIONS);
    let mut producer = bench.plain();
    let (slot, _) = producer.topic("t").unwrap();
    let padding = "x".repeat(1_000);
    // Some 20 MB: more than is buffered over all partitions, less than a batch in most of them.
    for n in 0..20_000 {
        let partition = if n % 4 == 0 { 0 } else { n % PARTITIONS };
        producer.send(slot, partition, &at(&padding, i64::from(n))).unwrap();
    }
    producer.flush().unwrap();
    let mut count = 0;
    for partition in 0..PARTITIONS {
        let reads = bench.read("t", partition, Offset(0));
        assert!(reads.is_sorted_by(|a, b| a.timestamp < b.timestamp));
        count += reads.len();
    }
    assert_eq!(count, 20_000);
}

pub(crate) fn an_unknown_topic_is_named_with_similar_ones(bench: &Bench) {
    let mut producer = bench.plain();
    assert_eq!(
        message(producer.topic("lines")),
        "topic \"lines\" does not exist: there are no topics yet; create it first"
    );
    bench.create("lines", 2);
    bench.create("totals", 1);
    assert_eq!(
        message(producer.topic("lines2")),
        "topic \"lines2\" does not exist: did you mean \"lines\"?"
    );
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    let unlike = consumer.assign(&[(tp("wxyz", 0), Offset(0))]).unwrap_err();
    assert_eq!(unlike.kind(), PortErrorKind::UnknownTopic);
    assert_eq!(
        unlike.to_string(),
        "topic \"wxyz\" does not exist: none of the 2 topics has a similar name \
         (\"lines\", \"totals\"); create it first"
    );
    let partition = consumer.beginning_offsets(&[tp("lines", 2)]);
    assert_eq!(
        message(partition),
        "partition 2 does not exist: topic \"lines\" has partitions 0 to 1"
    );
}

pub(crate) fn topics_are_created_once_and_checked(bench: &Bench) {
    bench.create("b", 2);
    bench.create("b", 2);
    bench.create("a", 1);
    let mut admin = bench.backend.admin().unwrap();
    let topic = |name: &str, partitions| NewTopic {
        name: name.into(),
        partitions,
        config: std::collections::BTreeMap::new(),
    };
    let mut refused = |topic| {
        let error = admin.create(&[topic]).unwrap_err();
        assert_eq!(error.kind(), PortErrorKind::Refused);
        error.to_string()
    };
    assert_eq!(
        refused(topic("b", 3)),
        "topic \"b\" has 2 partitions, 3 are asked for: delete it first or ask for as many"
    );
    assert!(refused(topic("c", 0)).contains("at least one"));
    for illegal in ["", ".", "..", "a/b", "ä", &"x".repeat(250)] {
        assert!(refused(topic(illegal, 1)).contains("a topic's name has"));
    }
    let listed = admin.list().unwrap();
    let listed: Vec<_> = listed.iter().map(|t| (&*t.name, t.partitions)).collect();
    assert_eq!(listed, [("a", 1), ("b", 2)]);
    let described = admin.describe(&["b", "nope"]).unwrap();
    assert_eq!(described.keys().collect::<Vec<_>>(), ["b"]);
}

pub(crate) fn a_limit_that_is_no_number_is_refused(bench: &Bench) {
    let config = [("max.message.bytes".to_owned(), "many".to_owned())].into();
    let topic = NewTopic { name: "c".into(), partitions: 1, config };
    let error = bench.backend.admin().unwrap().create(&[topic]).unwrap_err();
    assert_eq!(error.kind(), PortErrorKind::Refused);
    assert!(error.to_string().contains("\"many\", not a number"), "{error}");
}

pub(crate) fn a_topic_made_anew_has_another_identity(bench: &Bench) {
    bench.create("t", 1);
    bench.produce("t", &["a"]);
    let mut producer = bench.plain();
    producer.commit_offsets(&offsets("t", 1), &nobody("g")).unwrap();
    let mut admin = bench.backend.admin().unwrap();
    let before = admin.describe(&["t"]).unwrap()["t"].id.clone();
    admin.delete(&["t", "nope"]).unwrap();
    assert!(admin.describe(&["t"]).unwrap().is_empty());
    bench.create("t", 1);
    assert_ne!(admin.describe(&["t"]).unwrap()["t"].id, before);
    assert!(bench.values("t").is_empty());
    assert_eq!(bench.committed("g", "t").unwrap(), None);
    bench.produce("t", &["b"]);
    assert_eq!(bench.values("t"), ["b"]);
}
