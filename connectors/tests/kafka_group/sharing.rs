//! Members come and go; work is handed over without a gap for those that lose nothing.

use std::time::Instant;

use thalweg_connectors::*;

use super::support::*;

#[test]
fn one_member_becomes_three_and_one_again_and_no_share_is_ever_owned_twice() {
    let broker = broker();
    let (group, all) = (fresh_group("one-three-one"), shares(&[6, 3]));
    let join = || Worker::join(config(&broker), &group, &all);

    let mut first = join();
    until(&mut [&mut first], "one has all", |w| owns(w) == [9]);
    let mut second = join();
    let mut third = join();
    until(&mut [&mut first, &mut second, &mut third], "each has a third", |w| owns(w) == [3, 3, 3]);
    for worker in [&first, &second, &third] {
        let of = |group| worker.owned.iter().filter(|s| s.group == group).count();
        assert_eq!((of(0), of(1)), (2, 1), "each sub-topology is spread, too");
    }
    for share in &first.owned {
        assert_eq!(first.given[share], 1, "{share:?} stayed with the first: it never stopped");
    }
    let of_third = third.has();

    second.member.leave().unwrap();
    until(&mut [&mut first, &mut third], "two share all", |w| owns(w).iter().sum::<usize>() == 9);
    third.assert_still_has(&of_third);
    let of_first = first.has();
    third.member.leave().unwrap();
    until(&mut [&mut first], "one has all again", |w| owns(w) == [9]);
    first.assert_still_has(&of_first);
    assert!(first.lost.is_empty() && third.lost.is_empty());
    first.member.leave().unwrap();
}

#[test]
fn a_share_whose_release_is_withheld_stays_and_everything_else_goes_on() {
    let broker = broker();
    let (group, all) = (fresh_group("withheld"), shares(&[4]));
    let join = || Worker::join(config(&broker), &group, &all);
    let mut first = join();
    until(&mut [&mut first], "one has all", |w| owns(w) == [4]);

    first.withholds = true;
    let mut second = join();
    until(&mut [&mut first, &mut second], "half has to be given up", |w| w[0].revoked.len() == 2);
    // Longer than a session: withholding is not dying.
    go_on(&mut [&mut first, &mut second], SESSION * 2);
    assert_eq!((first.owned.len(), second.owned.len()), (4, 0), "it is not handed out");
    let metadata = first.hold();
    committer(config(&broker)).commit_offsets(&offsets(0, 1), &metadata).unwrap();
    first.member.let_go();

    // A third one comes meanwhile and gets nothing of it either.
    let mut third = join();
    go_on(&mut [&mut first, &mut second, &mut third], SESSION);
    assert_eq!((first.owned.len(), second.owned.len(), third.owned.len()), (4, 0, 0));
    first.withholds = false;
    until(&mut [&mut first, &mut second, &mut third], "it is handed over", |w| {
        owns(w).iter().sum::<usize>() == 4 && owns(w).iter().all(|n| *n >= 1)
    });
    assert!(first.lost.is_empty());
}

#[test]
fn nobody_joins_while_a_commit_holds_the_generation() {
    let broker = broker();
    let (group, all) = (fresh_group("held"), shares(&[4]));
    let join = || Worker::join(config(&broker), &group, &all);
    let mut first = join();
    until(&mut [&mut first], "one has all", |w| owns(w) == [4]);

    let held = first.hold();
    let mut second = join();
    // Longer than a session: heartbeats go on.
    go_on(&mut [&mut first, &mut second], SESSION * 2);
    assert_eq!((first.owned.len(), second.owned.len()), (4, 0));
    assert_eq!(first.hold(), held, "the generation stays");
    committer(config(&broker)).commit_offsets(&offsets(1, 5), &held).unwrap();

    first.member.let_go();
    until(&mut [&mut first, &mut second], "it goes on", |w| owns(w) == [2, 2]);
    let next = first.hold();
    assert!(next.generation > held.generation, "{next:?} after {held:?}");
    assert_eq!(next.member, held.member);
}

#[test]
fn between_two_generations_there_is_none_to_commit_in() {
    let broker = broker();
    let (group, all) = (fresh_group("between"), shares(&[4]));
    let mut first = Worker::join(config(&broker), &group, &all);
    assert_eq!(first.member.hold().unwrap(), None, "it has only just asked to join");
    until(&mut [&mut first], "one has all", |w| owns(w) == [4]);
    let mut second = Worker::join(config(&broker), &group, &all);
    until(&mut [&mut first, &mut second], "both have some", |w| owns(w) == [2, 2]);

    // The first holds on, so that the second waits for it in the middle of a joining.
    first.hold();
    let mut third = Worker::join(config(&broker), &group, &all);
    until(&mut [&mut second, &mut third], "the second is between generations", |w| {
        w[0].is_between()
    });
    assert_eq!(second.owned.len(), 2, "it goes on with its work meanwhile");
    first.member.let_go();
    until(&mut [&mut first, &mut second, &mut third], "all have some", |w| {
        owns(w).iter().all(|n| *n > 0)
    });
    second.hold();
}

#[test]
fn members_whose_tasks_differ_are_refused() {
    let broker = broker();
    let group = fresh_group("differ");
    let mut first = Worker::join(config(&broker), &group, &shares(&[4]));
    until(&mut [&mut first], "one has all", |w| owns(w) == [4]);
    let mut other = Worker::join(config(&broker), &group, &shares(&[5]));
    let begun = Instant::now();
    let error = loop {
        first.step();
        match other.member.poll() {
            Ok(event) => assert_eq!(event, GroupEvent::default()),
            Err(error) => break error,
        }
        assert!(begun.elapsed() < PATIENCE);
        pause();
    };
    assert_eq!(error.kind(), PortErrorKind::Refused);
    let told = error.to_string();
    assert!(
        told.contains("this member has 5 tasks") && told.contains("stop all instances"),
        "{told}"
    );
    // The others are not disturbed by it, and the refused one is gone from the group.
    go_on(&mut [&mut first], SESSION);
    assert_eq!(first.given.values().copied().collect::<Vec<_>>(), [1; 4]);
    first.hold();
}
