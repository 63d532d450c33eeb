//! Who works on what in a group of Kafka: a function of what its members say, and of nothing else.
//!
//! A share is partition `n` of all inputs of a sub-topology, so that inputs that are joined stay together whatever is decided
//! here. A plan says, for each member, what is meant for it in the end, and which part of it it may work on now: what another
//! member still owns is handed over in the next generation, after that one has given it up.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::local::assign::balance;
use crate::ports::Share;

#[cfg(test)]
mod tests;

/// A member, as it describes itself when it joins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    /// Its id in the group.
    pub(super) id: String,
    /// Its process: where work does not divide evenly, processes take turns.
    pub(super) process: u128,
    /// The generation in which its target was planned; -1 when it has none.
    pub(super) generation: i32,
    /// What it has not given up yet.
    pub(super) owned: BTreeSet<Share>,
    /// What was meant for it.
    pub(super) target: BTreeSet<Share>,
}

/// What is planned for a member.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Work {
    /// It may work on these: nobody else owns them. What it owns besides, it has to give up.
    pub(super) now: BTreeSet<Share>,
    /// These are meant for it.
    pub(super) target: BTreeSet<Share>,
}

/// Plans a generation; one entry per member, in the order given.
///
/// Every share is meant for exactly one member. Members differ by at most one share, and by at most one share of each group.
/// What is meant for somebody stays so as far as that allows: a plan that is still being carried out is carried on.
pub(super) fn assign(shares: &BTreeSet<Share>, members: &[Candidate]) -> Vec<Work> {
    let seats = seats(members);
    let seated: Vec<&Candidate> = seats.iter().map(|member| &members[*member]).collect();
    let meant = |share: &Share| {
        // The newest plan counts.
        let planned = seated.iter().enumerate().filter(|(_, m)| m.target.contains(share));
        let planned = planned.max_by_key(|(seat, m)| (m.generation, Reverse(*seat)));
        let owner = || seated.iter().position(|m| m.owned.contains(share));
        planned.map(|(seat, _)| seat).or_else(owner)
    };
    let current = shares.iter().map(|s| (*s, meant(s).map(|seat| seat as u64))).collect();
    let numbers: Vec<u64> = (0..seats.len() as u64).collect();
    let mut work = vec![Work::default(); members.len()];
    for (share, seat) in balance(&current, &numbers) {
        let member = seats[seat as usize];
        work[member].target.insert(share);
        let mut others = members.iter().enumerate().filter(|(other, _)| *other != member);
        if !others.any(|(_, m)| m.owned.contains(&share)) {
            work[member].now.insert(share);
        }
    }
    work
}

/// The order in which members are served: the first of each process, then the second of each, and so on.
fn seats(members: &[Candidate]) -> Vec<usize> {
    let mut by_name: Vec<usize> = (0..members.len()).collect();
    by_name.sort_by_key(|m| (members[*m].process, &members[*m].id));
    let mut of_process: BTreeMap<u128, usize> = BTreeMap::new();
    let mut seats: Vec<(usize, u128, usize)> = Vec::new();
    for member in by_name {
        let process = members[member].process;
        let turn = of_process.entry(process).or_default();
        seats.push((*turn, process, member));
        *turn += 1;
    }
    // Stable: members of one process stay in the order of their names.
    seats.sort_by_key(|(turn, process, _)| (*turn, *process));
    seats.into_iter().map(|(_, _, member)| member).collect()
}
