#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const SESSION: Duration = Duration::from_secs(6);

fn set(partitions: &[i32]) -> BTreeSet<Share> {
    partitions.iter().map(|p| Share { group: 0, partition: *p }).collect()
}

fn work(now: &[i32]) -> Work {
    Work { now: set(now), target: set(now) }
}

fn event(assigned: &[i32], revoked: &[i32], lost: &[i32]) -> GroupEvent {
    let list = |partitions| set(partitions).into_iter().collect();
    GroupEvent { assigned: list(assigned), revoked: list(revoked), lost: list(lost) }
}

fn list(partitions: &[i32]) -> Vec<Share> {
    set(partitions).into_iter().collect()
}

/// A member that works on these shares in generation 1.
fn settled(now: &[i32], at: Instant) -> State {
    let mut state = State::new("g");
    assert_eq!(state.begin_join().unwrap().member, "");
    state.named("m");
    state.settle(1, work(now), at + SESSION);
    assert_eq!(state.poll(at).unwrap(), event(now, &[], &[]));
    state
}

#[test]
fn what_has_to_be_given_up_is_still_claimed_until_it_is_released() {
    let at = Instant::now();
    let mut state = settled(&[0, 1, 2], at);
    state.join_again();
    assert_eq!(state.begin_join().unwrap().owned, set(&[0, 1, 2]));
    state.settle(2, work(&[0]), at + SESSION);
    assert_eq!(state.poll(at).unwrap(), event(&[], &[1, 2], &[]));
    assert_eq!(state.poll(at).unwrap(), GroupEvent::default(), "told once");
    assert_eq!(state.begin_join(), None, "nothing to say to the group yet");
    state.release(&list(&[1])).unwrap();
    let joining = state.begin_join().unwrap();
    assert_eq!((joining.owned, joining.generation), (set(&[0, 2]), 2));
}

#[test]
fn what_the_worker_has_not_heard_of_is_withdrawn_without_a_word() {
    let at = Instant::now();
    let mut state = settled(&[0], at);
    state.join_again();
    state.begin_join().unwrap();
    state.settle(2, work(&[0, 1]), at + SESSION);
    state.join_again();
    assert_eq!(state.begin_join().unwrap().owned, set(&[0, 1]), "it may be told any moment");
    state.settle(3, work(&[0]), at + SESSION);
    assert_eq!(state.poll(at).unwrap(), GroupEvent::default());
    assert_eq!(state.begin_join().unwrap().owned, set(&[0]), "the group hears of it at once");
}

#[test]
fn a_revocation_is_taken_back_only_while_it_is_not_told() {
    let at = Instant::now();
    let mut state = settled(&[0, 1], at);
    for (generation, now) in [(2, &[0][..]), (3, &[0, 1])] {
        state.join_again();
        state.begin_join().unwrap();
        state.settle(generation, work(now), at + SESSION);
    }
    assert_eq!(state.poll(at).unwrap(), GroupEvent::default(), "not told in time");

    state.settle(4, work(&[0]), at + SESSION);
    assert_eq!(state.poll(at).unwrap(), event(&[], &[1], &[]));
    state.settle(5, work(&[0, 1]), at + SESSION);
    assert_eq!(state.poll(at).unwrap(), GroupEvent::default(), "the worker is giving it up");
    state.release(&list(&[1])).unwrap();
    state.begin_join().unwrap();
    state.settle(6, work(&[0, 1]), at + SESSION);
    assert_eq!(state.poll(at).unwrap(), event(&[1], &[], &[]), "and gets it back");
}

#[test]
fn more_is_awaited_until_others_have_given_it_up() {
    let at = Instant::now();
    let mut state = State::new("g");
    assert_eq!(state.generation(), None, "it has not joined");
    state.begin_join().unwrap();
    state.named("m");
    state.settle(4, Work { now: set(&[]), target: set(&[1]) }, at + SESSION);
    assert_eq!(state.generation(), None, "the worker has not heard of it");
    assert_eq!(state.poll(at).unwrap(), GroupEvent::default());
    assert_eq!((state.generation(), state.awaits_more()), (Some(4), true));
    state.join_again();
    state.begin_join().unwrap();
    assert_eq!((state.generation(), state.awaits_more()), (Some(4), true));
    state.settle(5, work(&[1]), at + SESSION);
    assert!(state.awaits_more(), "the worker has not heard of it");
    assert_eq!(state.poll(at).unwrap(), event(&[1], &[], &[]));
    assert_eq!((state.generation(), state.awaits_more()), (Some(5), false));
    state.lose();
    assert_eq!(state.generation(), None);
}

#[test]
fn lost_shares_are_told_before_anything_else_and_nothing_is_committed_until_then() {
    let at = Instant::now();
    let mut state = settled(&[0, 1], at);
    let before = state.shown();
    state.lose_name();
    let joining = state.begin_join().unwrap();
    assert_eq!((joining.owned, joining.generation, &*joining.member), (set(&[]), -1, ""));
    state.named("m2");
    state.settle(5, work(&[1]), at + SESSION);
    assert_eq!(state.hold(at).unwrap(), None);
    assert_eq!(state.shown(), before, "who asks acts as what it was: it is refused");
    assert_eq!(state.poll(at).unwrap(), event(&[], &[], &[0, 1]));
    assert_eq!(state.poll(at).unwrap(), event(&[1], &[], &[]));
    let now = state.hold(at).unwrap().unwrap();
    assert_eq!((&*now.member, now.generation), ("m2", 5));
}

#[test]
fn what_is_released_late_does_not_give_up_what_was_given_since() {
    let at = Instant::now();
    let mut state = settled(&[0], at);
    state.lose();
    state.begin_join().unwrap();
    state.settle(2, work(&[0]), at + SESSION);
    state.release(&list(&[0])).unwrap();
    assert_eq!(state.poll(at).unwrap(), event(&[0], &[], &[]), "not lost: it had given it up");
    // A worker that is told so and gives it up again is heard.
    state.release(&list(&[0])).unwrap();
    assert_eq!(state.begin_join().unwrap().owned, set(&[]));
}

#[test]
fn nothing_is_joined_while_a_commit_holds_the_generation() {
    let at = Instant::now();
    let mut state = settled(&[0], at);
    assert_eq!(state.hold(at).unwrap().unwrap().generation, 1);
    state.join_again();
    assert_eq!(state.begin_join(), None);
    assert!(state.settled().is_some(), "heartbeats go on");
    assert!(state.hold(at).unwrap().is_some(), "still the same");
    state.let_go();
    assert!(state.begin_join().is_some());
    assert_eq!(state.hold(at).unwrap(), None, "between two generations");
    state.let_go();
}

#[test]
fn a_session_that_is_over_costs_everything_and_waiting_for_others_costs_nothing() {
    let at = Instant::now();
    let mut state = settled(&[0], at);
    state.alive(1, at + SESSION * 2);
    assert_eq!(state.poll(at + SESSION).unwrap(), GroupEvent::default());
    state.join_again();
    state.begin_join().unwrap();
    let late = at + SESSION * 20;
    assert_eq!(state.poll(late).unwrap(), GroupEvent::default(), "the group waits, too");
    state.settle(2, work(&[0]), late + SESSION);
    state.alive(1, late + SESSION * 9);
    assert_eq!(state.hold(late + SESSION).unwrap(), None, "an answer of an earlier generation");
    assert_eq!(state.poll(late + SESSION).unwrap(), event(&[], &[], &[0]));

    // A joining that fails on the way: from then on the session counts.
    let mut state = settled(&[0], at);
    state.join_again();
    state.begin_join().unwrap();
    state.join_failed(at + SESSION);
    assert_eq!(state.poll(at).unwrap(), GroupEvent::default());
    assert_eq!(state.poll(at + SESSION).unwrap(), event(&[], &[], &[0]));
}

#[test]
fn one_that_has_left_or_failed_does_nothing_any_more() {
    let at = Instant::now();
    let mut state = settled(&[0], at);
    state.close(Closing::Crash);
    state.close(Closing::Leave);
    assert_eq!(state.closing(), Some(Closing::Crash), "the first counts");
    assert_eq!(state.poll(at).unwrap_err().kind(), PortErrorKind::Fenced);
    assert_eq!(state.hold(at).unwrap_err().kind(), PortErrorKind::Fenced);

    let mut state = settled(&[0], at);
    state.fail(PortErrorKind::Refused, "because".into());
    assert_eq!(state.closing(), Some(Closing::Leave), "it does not stay in the group");
    let error = state.poll(at).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (PortErrorKind::Refused, "because".into()));
}

/// What happens to a member, in any order.
#[derive(Clone, Debug)]
enum Step {
    Poll,
    Release(Vec<i32>),
    Hold,
    LetGo,
    Join,
    Settle(Vec<i32>),
    Heartbeat27,
    Lose,
    LoseName,
    Pass(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let some = || prop::collection::vec(0..5i32, 0..5);
    prop_oneof![
        3 => Just(Step::Poll),
        2 => some().prop_map(Step::Release),
        1 => Just(Step::Hold),
        1 => Just(Step::LetGo),
        2 => Just(Step::Join),
        3 => some().prop_map(Step::Settle),
        1 => Just(Step::Heartbeat27),
        1 => Just(Step::Lose),
        1 => Just(Step::LoseName),
        1 => (0..4000u32).prop_map(Step::Pass),
    ]
}

proptest! {
    /// A group as it is: it gives a member what nobody claims, and only after it has joined.
    #[test]
    fn whatever_happens_the_worker_and_the_group_agree(steps in prop::collection::vec(step(), 1..60)) {
        let (mut now, mut state) = (Instant::now(), State::new("g"));
        let (mut owned, mut revoked) = (BTreeSet::new(), BTreeSet::new());
        let (mut joining, mut generation) = (None, 0);
        for step in steps {
            match step {
                Step::Poll => {
                    let event = state.poll(now).unwrap();
                    prop_assert!(event.lost.is_empty() || event.assigned.is_empty() && event.revoked.is_empty());
                    for share in &event.lost {
                        prop_assert!(owned.remove(share), "lost what it had");
                        revoked.remove(share);
                    }
                    for share in event.assigned {
                        prop_assert!(owned.insert(share), "assigned what it had not");
                    }
                    for share in event.revoked {
                        prop_assert!(owned.contains(&share), "revoked what it had");
                        prop_assert!(revoked.insert(share), "revoked once");
                    }
                }
                Step::Release(some) => {
                    let released: Vec<Share> = set(&some).intersection(&revoked).copied().collect();
                    for share in &released {
                        owned.remove(share);
                        revoked.remove(share);
                    }
                    state.release(&released).unwrap();
                }
                Step::Hold => {
                    if let Some(held) = state.hold(now).unwrap() {
                        prop_assert!(joining.is_none(), "no generation while it joins");
                        prop_assert_eq!(held.generation, generation);
                    }
                }
                Step::LetGo => state.let_go(),
                Step::Join if joining.is_none() => {
                    joining = state.begin_join();
                    if let Some(said) = &joining {
                        let lost = &state.lost;
                        prop_assert!(owned.iter().all(|s| said.owned.contains(s) || lost.contains(s)), "all it has is claimed");
                    }
                }
                Step::Settle(some) => if let Some(said) = joining.take() {
                    if said.member.is_empty() {
                        state.named("m");
                    }
                    generation += 1;
                    state.settle(generation, work(&some), now + SESSION);
                }
                Step::Heartbeat27 if state.settled().is_some() => state.join_again(),
                Step::Lose if joining.is_none() => state.lose(),
                Step::LoseName if joining.is_none() => state.lose_name(),
                Step::Pass(ms) => now += Duration::from_millis(ms.into()),
                _ => {}
            }
            let shown = state.shown();
            prop_assert!(shown.generation >= 0 && !shown.member.is_empty(), "never as nobody: {shown:?}");
        }
    }
}
