//! Groups: who works on what, and who may commit.

use std::time::{Duration, Instant};

use thalweg_connectors::*;

use super::support::*;

fn shares(groups: &[(u32, i32)]) -> Vec<Share> {
    let of =
        |&(group, count): &(u32, i32)| (0..count).map(move |partition| Share { group, partition });
    groups.iter().flat_map(of).collect()
}

fn assigned(member: &mut dyn Membership) -> Vec<Share> {
    let event = member.poll().unwrap();
    assert!(event.revoked.is_empty() && event.lost.is_empty(), "{event:?}");
    event.assigned
}

pub(crate) fn a_lone_member_gets_everything(bench: &Bench) {
    let all = shares(&[(0, 3), (1, 2)]);
    let mut member = bench.member("g", &all);
    assert_eq!(assigned(member.as_mut()), all);
    assert_eq!(member.poll().unwrap(), GroupEvent::default());
    let who = member.metadata();
    assert_eq!((&*who.group, &*who.member), ("g", "worker-1"));
}

pub(crate) fn a_share_is_handed_over_only_after_its_release(bench: &Bench) {
    let all = shares(&[(0, 4)]);
    let mut first = bench.member("g", &all);
    assert_eq!(assigned(first.as_mut()), all);
    let mut second = bench.member("g", &all);
    assert!(assigned(second.as_mut()).is_empty());
    let revoked = first.poll().unwrap().revoked;
    assert_eq!(revoked.len(), 2);
    assert!(assigned(second.as_mut()).is_empty(), "not released yet");
    first.release(&revoked[..1]).unwrap();
    assert_eq!(assigned(second.as_mut()), revoked[..1]);
    first.release(&revoked[1..]).unwrap();
    assert_eq!(assigned(second.as_mut()), revoked[1..]);
    assert_eq!(first.poll().unwrap(), GroupEvent::default(), "told once");
}

pub(crate) fn a_member_that_leaves_frees_its_shares_at_once(bench: &Bench) {
    let all = shares(&[(0, 4)]);
    let mut first = bench.member("g", &all);
    assigned(first.as_mut());
    let mut second = bench.member("g", &all);
    first.poll().unwrap();
    first.leave().unwrap();
    first.leave().unwrap();
    assert_eq!(assigned(second.as_mut()), all);
    assert_eq!(kind(first.poll()), PortErrorKind::Fenced);
    assert_eq!(kind(first.release(&all)), PortErrorKind::Fenced);
}

pub(crate) fn a_dropped_member_frees_its_shares(bench: &Bench) {
    let all = shares(&[(0, 2)]);
    let mut first = bench.member("g", &all);
    assigned(first.as_mut());
    let mut second = bench.member("g", &all);
    drop(first);
    assert_eq!(assigned(second.as_mut()), all);
}

pub(crate) fn a_stale_member_cannot_commit(bench: &Bench) {
    bench.create("t", 1);
    let all = shares(&[(0, 2)]);
    let mut member = bench.member("g", &all);
    assigned(member.as_mut());
    let mut producer = bench.transactional("id");
    producer.begin().unwrap();
    producer.send_offsets(&offsets("t", 1), &member.metadata()).unwrap();
    producer.commit().unwrap();

    // A generation that has passed.
    let old = member.metadata();
    let mut second = bench.member("g", &all);
    let revoked = member.poll().unwrap().revoked;
    assert_ne!(member.metadata().generation, old.generation);
    let plain = bench.plain().commit_offsets(&offsets("t", 2), &old);
    assert_eq!(kind(plain), PortErrorKind::Fenced);
    // The member itself is current until it has released.
    producer.begin().unwrap();
    producer.send_offsets(&offsets("t", 2), &member.metadata()).unwrap();
    producer.commit().unwrap();
    member.release(&revoked).unwrap();
    assert_eq!(assigned(second.as_mut()), revoked);

    // A member that the group gave up.
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["zombie"]);
    assert!(bench.control.expel("g", &member.metadata().member));
    assert!(!bench.control.expel("g", &member.metadata().member));
    let refused = producer.send_offsets(&offsets("t", 3), &member.metadata());
    assert_eq!(kind(refused), PortErrorKind::Fenced);
    assert_eq!(kind(producer.commit()), PortErrorKind::Abortable);
    producer.abort().unwrap();
    assert_eq!(kind(member.poll()), PortErrorKind::Fenced);
    assert_eq!(assigned(second.as_mut()).len(), 1);
    let committed = bench.committed("g", "t").unwrap().unwrap();
    assert_eq!(committed.offset, Offset(2));
    assert!(bench.values("t").is_empty());
}

pub(crate) fn nobody_commits_for_a_group_without_being_a_member(bench: &Bench) {
    bench.create("t", 1);
    let mut producer = bench.plain();
    let mut commit = |next| producer.commit_offsets(&offsets("t", next), &nobody("g"));
    commit(1).unwrap();
    let member = bench.member("g", &shares(&[(0, 1)]));
    assert_eq!(kind(commit(2)), PortErrorKind::Fenced);
    drop(member);
    commit(3).unwrap();
}

pub(crate) fn members_that_disagree_on_the_shares_are_refused(bench: &Bench) {
    let first = bench.member("g", &shares(&[(0, 2)]));
    let other = bench.join("g", &shares(&[(0, 3)]));
    assert_eq!(kind(other), PortErrorKind::Refused);
    drop(first);
    let mut next = bench.member("g", &shares(&[(0, 3)]));
    assert_eq!(assigned(next.as_mut()).len(), 3);
}

pub(crate) fn shares_stay_where_they_are_when_members_come_and_go(bench: &Bench) {
    let all = shares(&[(0, 4), (1, 4)]);
    let mut members = Vec::new();
    let mut owned: Vec<Vec<Share>> = Vec::new();
    // Lets everybody hear and release until nothing moves; counts what moved.
    let settle = |members: &mut [Box<dyn Membership>], owned: &mut [Vec<Share>]| {
        let mut moved = 0;
        for _ in 0..4 {
            for (member, owned) in members.iter_mut().zip(owned.iter_mut()) {
                let event = member.poll().unwrap();
                owned.retain(|s| !event.revoked.contains(s));
                member.release(&event.revoked).unwrap();
                moved += event.assigned.len();
                owned.extend(event.assigned);
            }
        }
        moved
    };
    for (count, expected) in [(1, 8), (2, 4), (3, 2), (4, 2)] {
        members.push(bench.member("g", &all));
        owned.push(Vec::new());
        assert_eq!(settle(&mut members, &mut owned), expected, "member {count}");
        let sizes = owned.iter().map(Vec::len);
        assert!(sizes.clone().max() <= sizes.min().map(|m| m + 1));
        let mut together = owned.concat();
        together.sort();
        assert_eq!(together, all, "each share has one owner");
    }
    members.remove(0).leave().unwrap();
    let freed = owned.remove(0);
    assert_eq!(settle(&mut members, &mut owned), freed.len(), "only its own");
}

pub(crate) fn a_waiting_worker_hears_of_a_change(bench: &Bench) {
    bench.create("t", 1);
    let all = shares(&[(0, 2)]);
    let mut member = bench.member("g", &all);
    assigned(member.as_mut());
    let mut consumer = bench.consumer(Isolation::ReadCommitted);
    consumer.assign(&[(tp("t", 0), Offset(0))]).unwrap();
    let started = Instant::now();
    let worker = std::thread::spawn(move || {
        loop {
            let wait = Duration::from_secs(60);
            consumer.poll(wait, 10, &mut Vec::new()).unwrap();
            let revoked = member.poll().unwrap().revoked;
            if !revoked.is_empty() || started.elapsed() > wait {
                return revoked.len();
            }
        }
    });
    // A change between the worker's look and its wait wakes it no more: so change until it heard.
    let mut others = Vec::new();
    while !worker.is_finished() && started.elapsed() < Duration::from_secs(30) {
        others.push(bench.member("g", &all));
        others.truncate(1);
        std::thread::yield_now();
    }
    assert_eq!(worker.join().unwrap(), 1);
    assert!(started.elapsed() < Duration::from_secs(30), "it was woken");
}
