//! Clients end within a second, whatever they are in the middle of.

use std::time::{Duration, Instant};

use thalweg_connectors::*;

use crate::bench;
use crate::contract::support::*;

fn ends_soon<T>(what: &str, client: T) {
    let started = Instant::now();
    drop(client);
    assert!(started.elapsed() < Duration::from_secs(1), "{what}: {:?}", started.elapsed());
}

#[test]
fn a_consumer_ends_in_every_state() {
    let bench = bench();
    bench.create("t", 2);
    let values = ["x"; 1000];
    bench.produce("t", &values);
    let reader = || bench.consumer(Isolation::ReadCommitted);
    let assigned = || {
        let mut consumer = reader();
        consumer.assign(&[(tp("t", 0), Offset(0)), (tp("t", 1), Offset(0))]).unwrap();
        consumer
    };
    ends_soon("new", reader());
    ends_soon("assigned a moment ago", assigned());

    let mut paused = assigned();
    paused.set_paused(&[tp("t", 0)], true).unwrap();
    paused.poll(Duration::from_millis(300), 10, &mut Vec::new()).unwrap();
    ends_soon("paused, its queue unread", paused);

    let (mut reading, mut fetched) = (assigned(), Vec::new());
    while fetched.is_empty() {
        reading.poll(Duration::from_secs(1), 10, &mut fetched).unwrap();
    }
    ends_soon("its records still held", reading);
    let first = &fetched[0].records;
    assert_eq!(first.get(0).value, Some(&b"x"[..]), "they outlive it");
    ends_soon("records of a consumer that is gone", fetched);

    let mut left = assigned();
    left.unassign(&[tp("t", 0), tp("t", 1)]).unwrap();
    ends_soon("unassigned", left);

    let mut failed = reader();
    failed.assign(&[(tp("t", 0), Offset(9_999_999)), (tp("t", 1), Offset(-5))]).unwrap();
    failed.poll(Duration::from_secs(5), 10, &mut Vec::new()).unwrap_err();
    ends_soon("out of range", failed);
}

#[test]
fn a_producer_ends_in_every_state() {
    let bench = bench();
    bench.create("t", 1);
    ends_soon("new", bench.plain());
    ends_soon("not initialized", bench.uninitialized("a"));
    ends_soon("initialized", bench.transactional("b"));

    let mut sending = bench.plain();
    send(sending.as_mut(), "t", &["x"; 1000]);
    ends_soon("records under way", sending);

    let begun = |id: &str| {
        let mut producer = bench.transactional(id);
        producer.begin().unwrap();
        send(producer.as_mut(), "t", &["x"; 1000]);
        producer
    };
    ends_soon("an open transaction, nothing flushed", begun("c"));
    let mut flushed = begun("d");
    flushed.flush().unwrap();
    flushed.send_offsets(&offsets("t", 1), &nobody("g")).unwrap();
    ends_soon("an open transaction with offsets", flushed);

    let mut failed = begun("e");
    let stranger = GroupMetadata { generation: 7, member: "x".into(), ..nobody("h") };
    failed.send_offsets(&offsets("t", 1), &stranger).unwrap_err();
    ends_soon("a failed transaction", failed);

    let mut fenced = begun("f");
    let newer = bench.transactional("f");
    send(fenced.as_mut(), "t", &["late"]);
    assert_eq!(kind(fenced.flush()), PortErrorKind::Fenced);
    ends_soon("fenced", fenced);
    ends_soon("the newer one", newer);
}

#[test]
fn clients_of_a_cluster_that_is_not_there_end_too() {
    let clock = std::sync::Arc::new(SystemClock::new());
    let settings = [("request.timeout.ms".to_owned(), "300".to_owned())].into();
    let backend = open_with("kafka://127.0.0.1:9", clock, &settings).unwrap();
    let options = ProducerOptions {
        transactional_id: Some("id".into()),
        transaction_timeout: TIMEOUT,
        client_id: "p".into(),
    };
    let mut producer = backend.producer(&options).unwrap();
    producer.init_transactions().unwrap_err();
    ends_soon("waiting for a coordinator", producer);
    let options = ConsumerOptions { isolation: Isolation::ReadCommitted, client_id: "c".into() };
    let mut consumer = backend.consumer(&options).unwrap();
    consumer.assign(&[(tp("t", 0), Offset(0))]).unwrap_err();
    ends_soon("a consumer without a broker", consumer);
}
