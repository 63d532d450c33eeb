//! Transactions and who is fenced by whom.

use std::time::{Duration, Instant};

use thalweg_connectors::*;

use crate::contract::support::*;
use crate::proxy::Proxy;
use crate::scoped::Scoped;
use crate::{bench, bench_of, broker, cluster, cluster_at};

#[test]
fn a_member_that_is_not_current_is_refused_and_its_transaction_can_be_aborted() {
    let bench = bench();
    bench.create("t", 1);
    let mut producer = bench.transactional("id");
    let stranger = GroupMetadata { group: "g".into(), member: "stranger".into(), generation: 3 };
    for _ in 0..2 {
        producer.begin().unwrap();
        send(producer.as_mut(), "t", &["zombie"]);
        let refused = producer.send_offsets(&offsets("t", 1), &stranger);
        assert_eq!(kind(refused), PortErrorKind::Fenced);
        assert_eq!(kind(producer.commit()), PortErrorKind::Abortable);
        producer.abort().unwrap();
    }
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["live"]);
    producer.commit().unwrap();
    assert_eq!(bench.values("t"), ["live"]);
    assert_eq!(bench.committed("g", "t").unwrap(), None);
    let plain = bench.plain().commit_offsets(&offsets("t", 1), &stranger);
    assert_eq!(kind(plain), PortErrorKind::Fenced);
}

#[test]
fn an_abort_with_much_under_way_is_quick_and_the_producer_goes_on() {
    let bench = bench();
    bench.create("t", 4);
    let mut producer = bench.transactional("id");
    let (slot, _) = producer.topic("t").unwrap();
    let value = "x".repeat(100);
    for round in 0..3 {
        producer.begin().unwrap();
        for n in 0..20_000 {
            producer.send(slot, n % 4, &text(&value)).unwrap();
        }
        let started = Instant::now();
        producer.abort().unwrap();
        assert!(started.elapsed() < Duration::from_secs(5), "round {round}");
    }
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["kept"]);
    producer.commit().unwrap();
    assert_eq!(bench.values("t"), ["kept"]);
}

#[test]
fn a_transaction_that_the_broker_has_ended_for_its_age_is_fenced() {
    let bench = bench();
    bench.create("t", 1);
    let options = ProducerOptions {
        transactional_id: Some("slow".into()),
        transaction_timeout: Duration::from_secs(1),
        client_id: "slow".into(),
    };
    let mut producer = bench.backend.producer(&options).unwrap();
    producer.init_transactions().unwrap();
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["late"]);
    producer.flush().unwrap();
    producer.send_offsets(&offsets("t", 1), &nobody("g")).unwrap();
    // The offset is held until the broker gives the transaction up.
    let until = Instant::now() + Duration::from_secs(30);
    while bench.committed("g", "t").is_err() {
        assert!(Instant::now() < until, "the transaction lives on");
    }
    let ended = kind(producer.commit());
    assert!(matches!(ended, PortErrorKind::Fenced | PortErrorKind::Unknown), "{ended:?}");
    assert_eq!(kind(producer.abort()), PortErrorKind::Fenced, "no other call");
    let mut next = bench.transactional("slow");
    next.begin().unwrap();
    send(next.as_mut(), "t", &["good"]);
    next.commit().unwrap();
    assert_eq!(bench.values("t"), ["good"]);
}

#[test]
fn a_restart_finds_the_offsets_and_the_position_at_once() {
    let bench = bench();
    bench.create("t", 1);
    for round in 1..=3 {
        let mut producer = bench.transactional("id");
        producer.begin().unwrap();
        send(producer.as_mut(), "t", &["in"]);
        producer.send_offsets(&offsets("t", round), &nobody("g")).unwrap();
        producer.commit().unwrap();
        producer.begin().unwrap();
        send(producer.as_mut(), "t", &["lost"]);
        producer.flush().unwrap();
        producer.send_offsets(&offsets("t", 99), &nobody("g")).unwrap();
        // It goes without a word, as a killed process does; the next one of its name ends what it left open.
        drop(producer);
    }
    let mut last = bench.transactional("id");
    assert_eq!(bench.committed("g", "t").unwrap(), Some(offsets("t", 3)[&tp("t", 0)].clone()));
    assert_eq!(bench.values("t"), ["in"; 3]);
    last.begin().unwrap();
    last.abort().unwrap();
    assert_eq!(
        bench.end("t", Isolation::ReadCommitted),
        bench.end("t", Isolation::ReadUncommitted)
    );
}

#[test]
fn a_broken_connection_taints_the_producer_and_a_new_one_is_clean() {
    let proxy = Proxy::to(broker::address());
    let part = Scoped::new(cluster(&[]));
    let through = bench_of(part.through(cluster_at(proxy.address(), &[])));
    let bench = bench_of(part);
    bench.create("t", 1);
    let mut producer = through.transactional("id");
    for _ in 0..3 {
        producer.begin().unwrap();
        send(producer.as_mut(), "t", &["a"]);
        producer.commit().unwrap();
        assert!(!producer.is_tainted(), "nothing has happened");
    }
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["b"]);
    proxy.cut();
    // The transaction may still be ended.
    producer.commit().unwrap();
    assert!(producer.is_tainted());
    drop(producer);
    let mut next = through.transactional("id");
    next.begin().unwrap();
    send(next.as_mut(), "t", &["c"]);
    next.commit().unwrap();
    assert!(!next.is_tainted());
    assert_eq!(bench.values("t"), ["a", "a", "a", "b", "c"]);
}
