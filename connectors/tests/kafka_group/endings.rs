//! How a membership ends: by leaving, by being killed, by losing its session.

use std::time::{Duration, Instant};

use thalweg_connectors::*;

use super::support::*;

/// Sessions so long that nothing in a test waits for their end.
fn patient(broker: &str) -> KafkaConfig {
    KafkaConfig { session_timeout: Duration::from_secs(30), ..config(broker) }
}

#[test]
fn what_a_leaving_member_had_moves_at_once() {
    let broker = broker();
    let (group, all) = (fresh_group("leave"), shares(&[4]));
    let join = || Worker::join(patient(&broker), &group, &all);
    let (mut first, mut second) = (join(), join());
    until(&mut [&mut first, &mut second], "both have half", |w| owns(w) == [2, 2]);

    first.member.leave().unwrap();
    let left = Instant::now();
    until(&mut [&mut second], "the other has all", |w| owns(w) == [4]);
    assert!(left.elapsed() < Duration::from_secs(5), "{:?}", left.elapsed());
    first.member.leave().unwrap();
    assert_eq!(kind(first.member.poll()), PortErrorKind::Fenced);
    assert_eq!(kind(first.member.hold()), PortErrorKind::Fenced);
    assert_eq!(kind(first.member.release(&all)), PortErrorKind::Fenced);
}

#[test]
fn a_member_leaves_at_once_even_while_it_waits_for_the_others_to_join() {
    let broker = broker();
    let (group, all) = (fresh_group("leave-joining"), shares(&[4]));
    let join = || Worker::join(patient(&broker), &group, &all);
    let mut first = join();
    until(&mut [&mut first], "one has all", |w| owns(w) == [4]);
    let mut second = join();
    until(&mut [&mut first, &mut second], "both have half", |w| owns(w) == [2, 2]);

    // The first holds on; a third one asks to join, so the second waits for the first.
    let held = first.hold();
    let mut third = join();
    until(&mut [&mut second, &mut third], "the second waits", |w| w[0].is_between());
    let begun = Instant::now();
    second.member.leave().unwrap();
    third.member.leave().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(first.hold(), held);
    first.member.let_go();
    until(&mut [&mut first], "the first has all again", |w| owns(w) == [4]);
    assert!(begun.elapsed() < Duration::from_secs(8), "nobody waits for those that left");
}

#[test]
fn the_work_of_a_killed_member_moves_when_its_session_is_over() {
    let broker = broker();
    let (group, all) = (fresh_group("killed"), shares(&[6]));
    let join = || Worker::join(config(&broker), &group, &all);
    let (mut first, mut second, mut third) = (join(), join(), join());
    until(&mut [&mut first, &mut second, &mut third], "each has two", |w| owns(w) == [2, 2, 2]);
    let (of_first, of_second) = (first.has(), second.has());

    drop(third);
    let killed = Instant::now();
    until(&mut [&mut first, &mut second], "two share all", |w| owns(w) == [3, 3]);
    let took = killed.elapsed();
    assert!(took > SESSION / 2, "the session had to end first: {took:?}");
    assert!(took < SESSION * 4, "{took:?}");
    first.assert_still_has(&of_first);
    second.assert_still_has(&of_second);
}

#[test]
fn a_member_whose_worker_does_not_poll_stays_a_member() {
    let broker = broker();
    let (group, all) = (fresh_group("busy"), shares(&[4]));
    let join = || Worker::join(config(&broker), &group, &all);
    let (mut first, mut second) = (join(), join());
    until(&mut [&mut first, &mut second], "both have half", |w| owns(w) == [2, 2]);
    // The first worker is busy with a record for longer than a session; its thread goes on.
    go_on(&mut [&mut second], SESSION * 3);
    assert_eq!(second.owned.len(), 2);
    first.step();
    assert!(first.lost.is_empty());
    first.hold();
}
