#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;

use super::*;

fn shares(groups: &[i32]) -> BTreeSet<Share> {
    let of = |(group, &count): (usize, &i32)| {
        (0..count).map(move |partition| Share { group: group as u32, partition })
    };
    groups.iter().enumerate().flat_map(of).collect()
}

fn member(id: usize, process: u128) -> Candidate {
    let id = format!("member-{id}");
    Candidate { id, process, generation: -1, owned: BTreeSet::new(), target: BTreeSet::new() }
}

/// Everybody does what the plan says: gives up, takes up, and joins again.
fn carry_out(members: &mut [Candidate], plan: &[Work], generation: i32) {
    for (member, work) in members.iter_mut().zip(plan) {
        member.owned = work.now.clone();
        member.target = work.target.clone();
        member.generation = generation;
    }
}

fn settle(shares: &BTreeSet<Share>, members: &mut [Candidate]) {
    for generation in 0..2 {
        let plan = assign(shares, members);
        carry_out(members, &plan, generation);
    }
}

fn spread(work: &[Work], group: Option<u32>) -> usize {
    let count = |w: &Work| w.target.iter().filter(|s| group.is_none_or(|g| s.group == g)).count();
    let counts: Vec<usize> = work.iter().map(count).collect();
    counts.iter().max().unwrap() - counts.iter().min().unwrap()
}

#[test]
fn a_share_is_planned_at_once_and_given_when_its_owner_has_let_it_go() {
    let all = shares(&[4]);
    let mut members = vec![member(1, 1)];
    settle(&all, &mut members);
    assert_eq!(members[0].owned, all);
    members.push(member(2, 2));

    let plan = assign(&all, &members);
    assert_eq!((plan[0].now.len(), plan[1].now.len()), (2, 0));
    assert_eq!(plan[1].target.len(), 2);
    let meant = plan[1].target.clone();

    // The first still works on all of it: nothing changes, however often it is planned.
    for (member, work) in members.iter_mut().zip(&plan) {
        (member.target, member.generation) = (work.target.clone(), 3);
    }
    assert_eq!(assign(&all, &members), plan);

    carry_out(&mut members, &plan, 4);
    let plan = assign(&all, &members);
    assert_eq!(plan[1].now, meant);
    assert_eq!(plan[0].now, members[0].owned, "the rest was never touched");
}

#[test]
fn what_does_not_divide_evenly_is_spread_over_processes() {
    // Two processes with two workers each; six shares: each process gets three.
    let all = shares(&[6]);
    let members = [member(1, 7), member(2, 7), member(3, 9), member(4, 9)];
    let plan = assign(&all, &members);
    let of =
        |members: std::ops::Range<usize>| plan[members].iter().map(|w| w.now.len()).sum::<usize>();
    assert_eq!((of(0..2), of(2..4)), (3, 3));
}

#[test]
fn the_newest_plan_counts_when_two_members_were_promised_a_share() {
    let all = shares(&[2]);
    let [mut stale, mut newest] = [member(1, 1), member(2, 2)];
    (stale.generation, stale.target) = (3, all.clone());
    (newest.generation, newest.target) = (4, shares(&[1]));
    let plan = assign(&all, &[stale, newest]);
    assert_eq!(plan[1].target, shares(&[1]));
}

#[test]
fn a_share_that_two_members_claim_to_own_is_nobodys_until_one_lets_go() {
    let all = shares(&[1]);
    let [mut a, mut b] = [member(1, 1), member(2, 2)];
    a.owned = all.clone();
    b.owned = all.clone();
    let plan = assign(&all, &[a.clone(), b]);
    assert!(plan.iter().all(|w| w.now.is_empty()), "{plan:?}");
    let plan = assign(&all, &[a, member(2, 2)]);
    assert_eq!(plan.iter().filter(|w| w.now == all).count(), 1);
}

#[test]
fn shares_that_the_topology_has_no_more_are_not_given_out() {
    let mut old = member(1, 1);
    old.owned = shares(&[3]);
    old.target = old.owned.clone();
    let plan = assign(&shares(&[2]), &[old]);
    assert_eq!(plan[0].now, shares(&[2]));
}

/// Members that say anything at all.
fn candidates() -> impl Strategy<Value = (Vec<i32>, Vec<Candidate>)> {
    let claims = || prop::collection::vec(any::<prop::sample::Index>(), 0..12);
    let said = (0..4u128, -1..5i32, claims(), claims());
    let members = prop::collection::vec(said, 1..8);
    (prop::collection::vec(1..9i32, 1..5), members).prop_map(|(groups, said)| {
        let all: Vec<Share> = shares(&groups).into_iter().collect();
        let pick = |claims: Vec<prop::sample::Index>| claims.iter().map(|c| *c.get(&all)).collect();
        let members = said.into_iter().enumerate();
        let members = members.map(|(id, (process, generation, owned, target))| Candidate {
            id: format!("member-{id}"),
            process,
            generation,
            owned: pick(owned),
            target: pick(target),
        });
        (groups, members.collect())
    })
}

proptest! {
    #[test]
    fn whatever_members_say_the_plan_is_complete_even_and_safe((groups, members) in candidates()) {
        let all = shares(&groups);
        let plan = assign(&all, &members);
        let targets: Vec<Share> = plan.iter().flat_map(|w| &w.target).copied().collect();
        prop_assert_eq!(targets.len(), all.len(), "every share once");
        prop_assert_eq!(targets.into_iter().collect::<BTreeSet<_>>(), all);
        prop_assert!(spread(&plan, None) <= 1);
        for group in 0..groups.len() as u32 {
            prop_assert!(spread(&plan, Some(group)) <= 1);
        }
        for (at, work) in plan.iter().enumerate() {
            prop_assert!(work.now.is_subset(&work.target), "no share in two");
            for (other, member) in members.iter().enumerate() {
                prop_assert!(at == other || work.now.is_disjoint(&member.owned), "owned by another");
            }
        }
    }

    #[test]
    fn the_order_in_which_members_are_listed_does_not_matter(
        (groups, members) in candidates(), turn in 0..8usize,
    ) {
        let all = shares(&groups);
        let plan = assign(&all, &members);
        let mut turned = members.clone();
        turned.rotate_left(turn % members.len());
        let mut replanned = assign(&all, &turned);
        replanned.rotate_right(turn % members.len());
        prop_assert_eq!(replanned, plan);
    }

    #[test]
    fn the_plan_is_carried_out_in_two_rounds_and_then_stays((groups, mut members) in candidates()) {
        let all = shares(&groups);
        let first = assign(&all, &members);
        carry_out(&mut members, &first, 10);
        let second = assign(&all, &members);
        for (planned, done) in first.iter().zip(&second) {
            prop_assert_eq!(&planned.target, &done.target, "a plan is carried on");
            prop_assert_eq!(&done.now, &done.target, "all is handed over");
        }
        carry_out(&mut members, &second, 11);
        prop_assert_eq!(assign(&all, &members), second);
    }

    #[test]
    fn a_new_member_takes_its_part_and_hardly_anything_else_moves(
        groups in prop::collection::vec(1..13i32, 1..5), count in 1..7usize, process in 0..4u128,
    ) {
        let all = shares(&groups);
        let mut members: Vec<Candidate> = (0..count).map(|m| member(m, m as u128 % 3)).collect();
        settle(&all, &mut members);
        members.push(member(count, process));
        let plan = assign(&all, &members);
        let kept: usize = members.iter().zip(&plan).map(|(m, w)| m.owned.intersection(&w.now).count()).sum();
        let moved = all.len() - kept;
        // Evenness within each group may cost one more for each group but the first.
        let most = all.len().div_ceil(count + 1) + groups.len() - 1;
        prop_assert!(moved <= most, "{moved} of {} moved", all.len());
    }

    #[test]
    fn when_a_member_goes_only_its_shares_are_handed_over(
        groups in prop::collection::vec(1..13i32, 1..5), count in 2..7usize, gone in 0..7usize,
    ) {
        let all = shares(&groups);
        let mut members: Vec<Candidate> = (0..count).map(|m| member(m, m as u128 % 3)).collect();
        settle(&all, &mut members);
        let orphaned = members.remove(gone % count).owned;
        let plan = assign(&all, &members);
        let kept: usize = members.iter().zip(&plan).map(|(m, w)| m.owned.intersection(&w.now).count()).sum();
        let moved = all.len() - kept - orphaned.len();
        prop_assert!(moved <= groups.len(), "{moved} moved besides, of {} groups", groups.len());
    }
}
