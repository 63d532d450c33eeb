//! Connections break, replies are lost, a member is cut off.

use std::time::Instant;

use thalweg_connectors::*;

use super::proxy::{HEARTBEAT, JOIN, Proxy, SYNC};
use super::support::*;

/// A member behind a proxy, with a neighbour that is not.
fn two(broker: &str, test: &str) -> (Proxy, Worker, Worker) {
    let (proxy, group, all) = (Proxy::to(broker), fresh_group(test), shares(&[4]));
    let mut first = Worker::join(config(proxy.address()), &group, &all);
    let mut second = Worker::join(config(broker), &group, &all);
    until(&mut [&mut first, &mut second], "both have half", |w| owns(w) == [2, 2]);
    (proxy, first, second)
}

/// Nothing has happened to it that its worker would notice.
fn assert_untouched(worker: &mut Worker, before: &GroupMetadata) {
    assert_eq!((worker.owned.len(), worker.lost.len()), (2, 0));
    assert_eq!(&worker.hold(), before, "not even a new generation");
    worker.member.let_go();
}

#[test]
fn a_broken_connection_costs_nothing() {
    let broker = broker();
    let (proxy, mut first, mut second) = two(&broker, "broken");
    let before = first.hold();
    first.member.let_go();
    for _ in 0..3 {
        proxy.cut();
        go_on(&mut [&mut first, &mut second], SESSION / 2);
    }
    go_on(&mut [&mut first, &mut second], SESSION);
    assert_untouched(&mut first, &before);
}

#[test]
fn a_lost_reply_to_a_heartbeat_costs_nothing() {
    let broker = broker();
    let (proxy, mut first, mut second) = two(&broker, "lost-heartbeat");
    let before = first.hold();
    first.member.let_go();
    proxy.lose(HEARTBEAT, 1);
    until(&mut [&mut first, &mut second], "the reply is lost", |_| proxy.has_lost_all());
    go_on(&mut [&mut first, &mut second], SESSION * 2);
    assert_untouched(&mut first, &before);
}

#[test]
fn a_connection_that_breaks_while_joining_is_made_anew_and_joining_goes_on() {
    let broker = broker();
    for (name, request) in [("lost-join", JOIN), ("lost-sync", SYNC)] {
        let (proxy, mut first, mut second) = two(&broker, name);
        // The second gives the first something to join for, and waits for it.
        proxy.lose(request, 1);
        let all = shares(&[4]);
        let mut third = Worker::join(config(&broker), &first.member.metadata().group, &all);
        let mut workers = [&mut first, &mut second, &mut third];
        until(&mut workers, "the reply is lost", |_| proxy.has_lost_all());
        proxy.cut();
        until(&mut workers, "all have some", |w| {
            owns(w).iter().all(|n| *n > 0) && owns(w).iter().sum::<usize>() == 4
        });
        assert!(first.lost.is_empty() && second.lost.is_empty(), "{name}");
    }
}

#[test]
fn a_member_that_is_cut_off_for_longer_than_its_session_drops_its_work_and_comes_back() {
    let broker = broker();
    let (proxy, mut first, mut second) = two(&broker, "cut-off");
    let before = first.hold();
    first.member.let_go();
    let had = first.owned.clone();

    proxy.block(true);
    let cut = Instant::now();
    until(&mut [&mut first, &mut second], "the other has all", |w| owns(w) == [0, 4]);
    assert!(cut.elapsed() < SESSION * 4, "{:?}", cut.elapsed());
    assert_eq!(first.lost, had, "lost without a commit");
    assert_eq!(first.member.hold().unwrap(), None);
    assert_ne!(first.member.metadata().generation, -1, "it never acts as nobody");
    let mut producer = committer(config(&broker));
    let late = producer.commit_offsets(&offsets(0, 1), &before);
    assert_eq!(kind(late), PortErrorKind::Fenced);

    proxy.block(false);
    until(&mut [&mut first, &mut second], "both have half again", |w| owns(w) == [2, 2]);
    let now = first.hold();
    assert_ne!((&now.member, now.generation), (&before.member, before.generation));
    producer.commit_offsets(&offsets(0, 1), &now).unwrap();
}

#[test]
fn a_worker_that_does_not_know_yet_that_it_lost_its_work_cannot_commit() {
    let broker = broker();
    let (proxy, mut first, mut second) = two(&broker, "unaware");
    proxy.block(true);
    // The first is busy meanwhile: it does not poll.
    until(&mut [&mut second], "the other has all", |w| owns(w) == [4]);
    proxy.block(false);
    // By now the thread may have joined again; the worker still works on what is another's.
    let begun = Instant::now();
    while begun.elapsed() < SESSION * 2 {
        assert_eq!(first.member.hold().unwrap(), None, "it has not heard yet");
        second.step();
        pause();
    }
    let stale = first.member.metadata();
    let mut producer = committer(config(&broker));
    assert_eq!(kind(producer.commit_offsets(&offsets(0, 1), &stale)), PortErrorKind::Fenced);
    let event = first.member.poll().unwrap();
    assert_eq!((event.lost.len(), event.assigned.len()), (2, 0), "first what is lost");
    (first.owned, first.revoked) = Default::default();
    until(&mut [&mut first, &mut second], "both have half again", |w| owns(w) == [2, 2]);
}
