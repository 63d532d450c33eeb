//! Records, topics and positions.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use thalweg_connectors::*;

use crate::contract::support::*;
use crate::{bench, bench_with, cluster};

fn polled(consumer: &mut dyn Consumer) -> Vec<Fetched> {
    let (mut fetched, until) = (Vec::new(), Instant::now() + Duration::from_secs(30));
    while fetched.is_empty() && Instant::now() < until {
        consumer.poll(Duration::from_secs(1), 100, &mut fetched).unwrap();
    }
    fetched
}

/// The innermost cause.
fn source(error: &PortError) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

#[test]
fn headers_with_null_empty_and_repeated_names_are_the_same_bytes() {
    let bench = bench();
    bench.create("t", 1);
    let all = [
        Headers::new(),
        Headers::new()
            .with("a", Some(b"1"))
            .with("a", None)
            .with("a", Some(b""))
            .with("", Some(b"x")),
        Headers::new(),
        Headers::new().with("ключ", Some(&[0, 255, 0])).with("n", Some(&[b'v'; 1000])),
    ];
    let mut producer = bench.plain();
    let (slot, _) = producer.topic("t").unwrap();
    for headers in &all {
        let record = NewRecord { headers: headers.as_ref(), ..text("v") };
        producer.send(slot, 0, &record).unwrap();
    }
    producer.flush().unwrap();
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    consumer.assign(&[(tp("t", 0), Offset(0))]).unwrap();
    let mut seen = Vec::new();
    while seen.len() < all.len() {
        for run in polled(consumer.as_mut()) {
            let packed = |i| run.records.get(i).headers.packed().to_vec();
            seen.extend((0..run.records.len()).map(packed));
        }
    }
    assert_eq!(seen, all.each_ref().map(|h| h.as_ref().packed().to_vec()));
}

#[test]
fn a_timestamp_of_zero_is_kept_and_one_that_is_missing_is_the_clocks() {
    let bench = bench();
    bench.create("t", 1);
    let (mut producer, before) = (bench.plain(), now());
    let (slot, _) = producer.topic("t").unwrap();
    for timestamp in [0, 1, -1, 0] {
        producer.send(slot, 0, &at("v", timestamp)).unwrap();
    }
    producer.flush().unwrap();
    let stamps: Vec<_> = bench.read("t", 0, Offset(0)).iter().map(|r| r.timestamp).collect();
    assert_eq!([stamps[0], stamps[1], stamps[3]], [0, 1, 0]);
    assert!((before..=now()).contains(&stamps[2]), "{stamps:?}");
}

#[test]
fn a_record_over_a_limit_is_refused_with_topic_partition_and_size() {
    let bench = bench();
    bench.create("usual", 2);
    let mut producer = bench.plain();
    let (slot, _) = producer.topic("usual").unwrap();
    let large = "x".repeat(1_048_588);
    let refused = producer.send(slot, 1, &text(&large)).unwrap_err();
    assert_eq!(refused.kind(), PortErrorKind::Refused);
    assert_eq!(
        refused.to_string(),
        "a record of 1048588 bytes for usual-1 is too large: max.message.bytes of the topic is 1048588; \
         raise it, or write smaller records"
    );
    producer.send(slot, 1, &text(&large[..1_048_000])).unwrap();
    assert_eq!(kind(producer.send(slot, 2, &text("x"))), PortErrorKind::UnknownTopic);
    producer.flush().unwrap();
    assert_eq!(bench.read("usual", 1, Offset(0)).len(), 1);

    // The producer's own limit, where the topic allows more.
    bench.create_with("roomy", 1, &[("max.message.bytes", "3000000")]);
    let (slot, _) = producer.topic("roomy").unwrap();
    let refused = producer.send(slot, 0, &text(&"x".repeat(2_000_000))).unwrap_err();
    assert_eq!(refused.kind(), PortErrorKind::Refused);
    assert!(refused.to_string().contains("2000000 bytes for roomy-0"), "{refused}");
    assert!(refused.to_string().contains("max.request.size of the producer is 1048576"));
}

#[test]
fn a_topic_that_takes_less_than_a_batch_asks_for_smaller_batches() {
    let topic = [("max.message.bytes", "2000")];
    let first = bench();
    first.create_with("small", 1, &topic);
    let refused = first.plain().topic("small").unwrap_err();
    assert_eq!(refused.kind(), PortErrorKind::Refused);
    assert!(refused.to_string().contains("set producer.batch.size to 2000 or less"), "{refused}");

    let second = bench_with(&[("producer.batch.size", "2000")]);
    second.create_with("small", 1, &topic);
    let mut producer = second.plain();
    let (slot, _) = producer.topic("small").unwrap();
    let value = "x".repeat(700);
    for _ in 0..10 {
        producer.send(slot, 0, &text(&value)).unwrap();
    }
    assert_eq!(kind(producer.send(slot, 0, &text(&value.repeat(3)))), PortErrorKind::Refused);
    producer.flush().unwrap();
    assert_eq!(second.values("small").len(), 10);
}

#[test]
fn a_record_that_the_broker_refuses_is_named_at_the_flush() {
    let bench = bench();
    bench.create_with("t", 1, &[("message.timestamp.after.max.ms", "1000")]);
    let future = at("v", now() + 3_600_000);
    let mut producer = bench.plain();
    let (slot, _) = producer.topic("t").unwrap();
    producer.send(slot, 0, &future).unwrap();
    let refused = producer.flush().unwrap_err();
    assert_eq!(refused.kind(), PortErrorKind::Refused);
    assert_eq!(refused.to_string(), "a record of 1 bytes for t-0 was not stored");
    let cause = source(&refused);
    assert!(cause.ends_with("Invalid timestamp"), "{cause}");
    assert_eq!(kind(producer.flush()), PortErrorKind::Fenced, "it is gone for good");

    let mut producer = bench.transactional("id");
    producer.begin().unwrap();
    let (slot, _) = producer.topic("t").unwrap();
    producer.send(slot, 0, &future).unwrap();
    assert_eq!(kind(producer.flush()), PortErrorKind::Refused, "it would be refused again");
    assert_eq!(kind(producer.commit()), PortErrorKind::Abortable);
    assert!(producer.is_tainted(), "it has to be replaced");
    producer.abort().unwrap();
    let mut producer = bench.transactional("id");
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["good"]);
    producer.commit().unwrap();
    assert_eq!(bench.values("t"), ["good"]);
}

#[test]
fn an_unknown_topic_is_named_with_similar_ones() {
    let bench = bench();
    bench.create("lines", 2);
    let unknown = bench.plain().topic("lines2").unwrap_err();
    assert_eq!(unknown.kind(), PortErrorKind::UnknownTopic);
    assert!(
        unknown.to_string().starts_with("topic \"lines2\" does not exist: did you mean \"lines\""),
        "{unknown}"
    );
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    assert_eq!(kind(consumer.assign(&[(tp("lines2", 0), Offset(0))])), PortErrorKind::UnknownTopic);
    let partition = consumer.assign(&[(tp("lines", 2), Offset(0))]);
    assert_eq!(
        message(partition),
        "partition 2 does not exist: topic \"lines\" has partitions 0 to 1"
    );
}

/// Reads until it fails.
fn failure(consumer: &mut dyn Consumer) -> PortError {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < until, "nobody said that the topic is not what it was");
        if let Err(e) = consumer.poll(Duration::from_millis(200), 10, &mut Vec::new()) {
            return e;
        }
    }
}

#[test]
fn a_topic_that_is_deleted_while_it_is_read_is_an_error() {
    let bench = bench();
    bench.create("t", 1);
    bench.create("other", 1);
    bench.produce("t", &["a"]);
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    consumer.assign(&[(tp("t", 0), Offset(0)), (tp("other", 0), Offset(0))]).unwrap();
    assert_eq!(drain(consumer.as_mut()).0.len(), 1);
    bench.backend.admin().unwrap().delete(&["t"]).unwrap();
    let gone = failure(consumer.as_mut());
    assert_eq!(gone.kind(), PortErrorKind::UnknownTopic);
    assert!(gone.to_string().contains("\"t\" was deleted while it was read"), "{gone}");
    // Given up, it disturbs the others no more.
    consumer.unassign(&[tp("t", 0)]).unwrap();
    bench.produce("other", &["b"]);
    assert_eq!(drain(consumer.as_mut()).0.len(), 1);
}

#[test]
fn a_topic_that_is_made_anew_while_it_is_read_is_an_error() {
    let bench = bench();
    bench.create("t", 1);
    bench.produce("t", &["a"]);
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    consumer.assign(&[(tp("t", 0), Offset(0))]).unwrap();
    assert_eq!(drain(consumer.as_mut()).0.len(), 1);
    bench.backend.admin().unwrap().delete(&["t"]).unwrap();
    bench.create("t", 1);
    let anew = failure(consumer.as_mut());
    let expected = [PortErrorKind::UnknownTopic, PortErrorKind::OffsetOutOfRange];
    assert!(expected.contains(&anew.kind()), "{anew}");
    // Assigned anew, it is the new one that is read.
    bench.produce("t", &["b"]);
    consumer.assign(&[(tp("t", 0), Offset(0))]).unwrap();
    assert_eq!(drain(consumer.as_mut()).0[0].value.as_deref(), Some("b"));
}

#[test]
fn settings_that_an_illegal_topic_would_have_are_refused_by_the_broker() {
    let bench = bench();
    let config = [("cleanup.policy".to_owned(), "burn".to_owned())].into();
    let topic = NewTopic { name: "t".into(), partitions: 1, config };
    let refused = bench.backend.admin().unwrap().create(&[topic]).unwrap_err();
    assert_eq!(refused.kind(), PortErrorKind::Refused);
    assert!(
        refused.to_string().contains("create topic \"t\"") && refused.to_string().contains("burn")
    );
}

#[test]
fn a_cluster_that_is_not_there_is_said_so_and_asked_again() {
    let settings = [("request.timeout.ms".to_owned(), "300".to_owned())].into();
    let clock = std::sync::Arc::new(SystemClock::new());
    let backend = open_with("kafka://127.0.0.1:9", clock, &settings).unwrap();
    let refused = backend.admin().unwrap().list().unwrap_err();
    assert_eq!(refused.kind(), PortErrorKind::Retriable);
    assert!(refused.to_string().contains("no broker answers"), "{refused}");
    let options = ProducerOptions {
        transactional_id: Some("nowhere".into()),
        transaction_timeout: TIMEOUT,
        client_id: "p".into(),
    };
    let mut producer = backend.producer(&options).unwrap();
    for _ in 0..2 {
        assert_eq!(kind(producer.init_transactions()), PortErrorKind::Retriable);
    }
    assert_eq!(kind(producer.topic("t")), PortErrorKind::Retriable);
}

#[test]
fn records_that_do_not_fit_the_buffer_wait_for_room() {
    let bench = bench_with(&[("buffer.memory", "1048576")]);
    bench.create("t", 1);
    let mut producer = bench.plain();
    let (slot, _) = producer.topic("t").unwrap();
    let value = "x".repeat(10_000);
    for _ in 0..2_000 {
        producer.send(slot, 0, &text(&value)).unwrap();
    }
    assert_eq!(producer.flush().unwrap()[&tp("t", 0)], Offset(2_000));
}

#[test]
fn a_new_partition_joins_those_that_are_read() {
    let bench = bench();
    bench.create("t", 3);
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    for partition in 0..3 {
        consumer.assign(&[(tp("t", partition), Offset(0))]).unwrap();
    }
    consumer.unassign(&[tp("t", 1)]).unwrap();
    let mut producer = bench.plain();
    let (slot, _) = producer.topic("t").unwrap();
    for (partition, value) in [(0, "a"), (1, "b"), (2, "c")] {
        producer.send(slot, partition, &text(value)).unwrap();
    }
    producer.flush().unwrap();
    let mut values: Vec<_> =
        drain(consumer.as_mut()).0.into_iter().filter_map(|r| r.value).collect();
    values.sort();
    assert_eq!(values, ["a", "c"]);
}

#[test]
fn the_clusters_own_topics_are_not_listed() {
    bench().create("t", 1);
    let topics = cluster(&[]).admin().unwrap().list().unwrap();
    assert!(!topics.is_empty() && topics.iter().all(|t| !t.name.starts_with("__")));
}
