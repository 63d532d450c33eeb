//! Who should work on what: balanced, sticky, and a function of its input alone.

use std::collections::BTreeMap;

use crate::ports::Share;

/// Distributes shares over members, numbered in the order they joined.
///
/// Shares of members that are gone, and new ones, go where least is; then as few shares move as
/// balance asks for. In the end members differ by at most one share, and by at most one share of
/// each group.
pub(crate) fn balance(
    current: &BTreeMap<Share, Option<u64>>,
    members: &[u64],
) -> BTreeMap<Share, u64> {
    if members.is_empty() {
        return BTreeMap::new();
    }
    let mut plan = Plan::new(members);
    for (&share, owner) in current {
        if let Some(index) = owner.and_then(|o| members.iter().position(|m| *m == o)) {
            plan.give(share, index);
        }
    }
    for &share in current.keys() {
        if !plan.owners.contains_key(&share) {
            plan.give(share, plan.emptiest(share.group));
        }
    }
    while let Some(group) = plan.next_uneven() {
        plan.even_out(group);
    }
    while plan.even_out_totals() {}
    let named = |(share, index): (Share, usize)| (share, members[index]);
    plan.owners.into_iter().map(named).collect()
}

struct Plan {
    owners: BTreeMap<Share, usize>,
    /// Per group, how many shares each member has.
    counts: BTreeMap<u32, Vec<usize>>,
    totals: Vec<usize>,
}

impl Plan {
    fn new(members: &[u64]) -> Self {
        Self { owners: BTreeMap::new(), counts: BTreeMap::new(), totals: vec![0; members.len()] }
    }

    fn give(&mut self, share: Share, to: usize) {
        let members = self.totals.len();
        let counts = self.counts.entry(share.group);
        let counts = counts.or_insert_with(|| vec![0; members]);
        if let Some(from) = self.owners.insert(share, to) {
            counts[from] -= 1;
            self.totals[from] -= 1;
        }
        counts[to] += 1;
        self.totals[to] += 1;
    }

    /// The member with the fewest shares of the group, then the fewest of all, then the eldest.
    fn emptiest(&self, group: u32) -> usize {
        let count = |m: usize| self.counts.get(&group).map_or(0, |c| c[m]);
        let members = 0..self.totals.len();
        members.min_by_key(|&m| (count(m), self.totals[m], m)).expect("there is a member")
    }

    /// Moves the last share of the group from one to another.
    fn shift(&mut self, group: u32, from: usize, to: usize) {
        let of_group = |s: &Share| s.group == group;
        let mut owned = self.owners.iter().rev();
        let last = owned.find(|(s, o)| of_group(s) && **o == from);
        let share = *last.expect("the fuller member has a share of the group").0;
        self.give(share, to);
    }

    /// A group of which somebody has too many: first the one where the fewest can give, so that the others still have a choice.
    fn next_uneven(&self) -> Option<u32> {
        let givers = |counts: &[usize]| {
            let (most, least) = (counts.iter().max()?, counts.iter().min()?);
            (*most > least + 1).then(|| counts.iter().filter(|c| *c == most).count())
        };
        let uneven = self.counts.iter().filter_map(|(group, c)| Some((givers(c)?, *group)));
        uneven.min().map(|(_, group)| group)
    }

    fn even_out(&mut self, group: u32) {
        let counts = &self.counts[&group];
        let fullest = (0..counts.len()).max_by_key(|&m| (counts[m], self.totals[m], m));
        let from = fullest.expect("there is a member");
        self.shift(group, from, self.emptiest(group));
    }

    fn even_out_totals(&mut self) -> bool {
        let members = 0..self.totals.len();
        let from = members.clone().max_by_key(|&m| (self.totals[m], m));
        let to = members.min_by_key(|&m| (self.totals[m], m));
        let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
        if self.totals[from] <= self.totals[to] + 1 {
            return false;
        }
        let mut counts = self.counts.iter();
        let fuller = counts.find(|(_, c)| c[from] > c[to]);
        let group = *fuller.expect("who has more in all has more of some group").0;
        self.shift(group, from, to);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(groups: &[i32]) -> BTreeMap<Share, Option<u64>> {
        let of = |(group, &count): (usize, &i32)| {
            (0..count).map(move |partition| Share { group: group as u32, partition })
        };
        let all = groups.iter().enumerate().flat_map(of);
        all.map(|s| (s, None)).collect()
    }

    fn counts(plan: &BTreeMap<Share, u64>, members: &[u64], group: Option<u32>) -> Vec<usize> {
        let of = |m: &u64| {
            let mine = plan.iter().filter(|(_, o)| *o == m);
            mine.filter(|(s, _)| group.is_none_or(|g| s.group == g)).count()
        };
        members.iter().map(of).collect()
    }

    fn is_even(counts: &[usize]) -> bool {
        counts.iter().max() <= counts.iter().min().map(|m| m + 1).as_ref()
    }

    #[test]
    fn one_member_gets_all_and_none_gets_nothing() {
        let all = shares(&[2, 3]);
        assert_eq!(counts(&balance(&all, &[7]), &[7], None), [5]);
        assert!(balance(&all, &[]).is_empty());
    }

    #[test]
    fn a_second_member_takes_half_and_the_rest_stays() {
        let first = balance(&shares(&[4]), &[1]);
        let owned = first.iter().map(|(s, o)| (*s, Some(*o))).collect();
        let second = balance(&owned, &[1, 2]);
        assert_eq!(counts(&second, &[1, 2], None), [2, 2]);
        let moved = second.iter().filter(|(s, o)| first[*s] != **o).count();
        assert_eq!(moved, 2);
    }

    proptest! {
        #[test]
        fn members_differ_by_one_share_at_most_whatever_was_before(
            groups in prop::collection::vec(1..9i32, 1..6),
            owners in prop::collection::vec(prop::option::of(0..7u64), 48),
            members in prop::collection::btree_set(0..7u64, 1..6),
        ) {
            let members: Vec<u64> = members.into_iter().collect();
            let mut current = shares(&groups);
            for (owner, before) in current.values_mut().zip(owners) {
                *owner = before;
            }
            let plan = balance(&current, &members);
            prop_assert_eq!(plan.len(), current.len());
            prop_assert!(is_even(&counts(&plan, &members, None)));
            for group in 0..groups.len() as u32 {
                prop_assert!(is_even(&counts(&plan, &members, Some(group))));
            }
            let again = plan.iter().map(|(s, o)| (*s, Some(*o))).collect();
            prop_assert_eq!(balance(&again, &members), plan, "a balanced plan stays");
        }
    }
}
