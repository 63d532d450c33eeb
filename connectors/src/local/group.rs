//! Group membership inside one process. A share moves in two steps: its owner gives it up, then the
//! new one gets it.
//!
//! A member acts in a generation, which moves on whenever it hears of a change; what it commits
//! carries it. A member that left, or was expelled, is not known any more and is fenced.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::assign::balance;
use super::engine::Shared;
use super::lock;
use crate::ports::{
    GroupEvent, GroupMetadata, Membership, MembershipOptions, PortError, PortErrorKind, PortResult,
    Share,
};

/// What is known of a share.
#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    /// Who works on it.
    owner: Option<u64>,
    /// The owner knows that it has to give it up.
    revoked: bool,
    /// Who should work on it.
    target: Option<u64>,
}

#[derive(Debug)]
struct Member {
    name: String,
    generation: i32,
}

#[derive(Debug, Default)]
struct Group {
    members: BTreeMap<u64, Member>,
    shares: BTreeMap<Share, Holding>,
    joined: u64,
    generation: i32,
}

impl Group {
    fn rebalance(&mut self) {
        let members: Vec<u64> = self.members.keys().copied().collect();
        let meant = |h: &Holding| h.target.filter(|t| members.contains(t)).or(h.owner);
        let current = self.shares.iter().map(|(s, h)| (*s, meant(h))).collect();
        let plan = balance(&current, &members);
        for (share, holding) in &mut self.shares {
            holding.target = plan.get(share).copied();
        }
    }

    fn remove(&mut self, number: u64) -> bool {
        if self.members.remove(&number).is_none() {
            return false;
        }
        for holding in self.shares.values_mut() {
            if holding.owner == Some(number) {
                (holding.owner, holding.revoked) = (None, false);
            }
        }
        self.rebalance();
        true
    }
}

/// All groups of an engine.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<BTreeMap<String, Group>>);

impl Groups {
    fn join(&self, options: &MembershipOptions) -> PortResult<(u64, GroupMetadata)> {
        let mut groups = lock(&self.0);
        let group = groups.entry(options.group.clone()).or_default();
        let shares: BTreeMap<_, _> =
            options.shares.iter().map(|s| (*s, Holding::default())).collect();
        if group.members.is_empty() {
            group.shares = shares;
        } else if !group.shares.keys().eq(shares.keys()) {
            return Err(PortError::new(
                PortErrorKind::Refused,
                format!(
                    "cannot join group {:?} with {} shares: its members work on {} shares; \
                     all members need the same topology and the same inputs",
                    options.group,
                    shares.len(),
                    group.shares.len()
                ),
            ));
        }
        group.joined += 1;
        group.generation += 1;
        let number = group.joined;
        let member = Member {
            name: format!("{}-{number}", options.client_id),
            generation: group.generation,
        };
        let metadata = GroupMetadata {
            group: options.group.clone(),
            member: member.name.clone(),
            generation: member.generation,
        };
        group.members.insert(number, member);
        group.rebalance();
        Ok((number, metadata))
    }

    /// Runs `work` on the group if the member is one of it.
    fn with<T>(
        &self,
        number: u64,
        who: &GroupMetadata,
        work: impl FnOnce(&mut Group) -> T,
    ) -> PortResult<T> {
        let mut groups = lock(&self.0);
        let group = groups.get_mut(&who.group);
        let group = group.filter(|g| g.members.contains_key(&number));
        group.map(work).ok_or_else(|| gone(who))
    }

    /// Fails when who commits is not a current member: by name and generation. Without a member and
    /// a generation (-1) it may commit while the group has no members.
    pub(crate) fn check(&self, who: &GroupMetadata) -> PortResult<()> {
        let groups = lock(&self.0);
        let members = groups.get(&who.group).map(|g| &g.members);
        let mut members = members.into_iter().flat_map(BTreeMap::values);
        if who.generation < 0 {
            return match members.next() {
                None => Ok(()),
                Some(member) => Err(PortError::new(
                    PortErrorKind::Fenced,
                    format!(
                        "cannot commit for group {:?} without being a member: {:?} is one",
                        who.group, member.name
                    ),
                )),
            };
        }
        let member = members.find(|m| m.name == who.member);
        let member = member.ok_or_else(|| gone(who))?;
        if member.generation == who.generation {
            return Ok(());
        }
        Err(PortError::new(
            PortErrorKind::Fenced,
            format!(
                "member {:?} of group {:?} acts in generation {}, it is in {} now",
                who.member, who.group, who.generation, member.generation
            ),
        ))
    }

    /// Removes a member as if its session had timed out.
    pub(crate) fn expel(&self, group: &str, member: &str) -> bool {
        let mut groups = lock(&self.0);
        let Some(group) = groups.get_mut(group) else {
            return false;
        };
        let mut members = group.members.iter();
        let found = members.find(|(_, m)| m.name == member).map(|(n, _)| *n);
        found.is_some_and(|number| group.remove(number))
    }
}

fn gone(who: &GroupMetadata) -> PortError {
    PortError::new(
        PortErrorKind::Fenced,
        format!("{:?} is not a member of group {:?} any more: join again", who.member, who.group),
    )
}

/// One worker's membership; dropping it leaves the group.
pub(crate) struct LocalMembership {
    shared: Arc<Shared>,
    number: u64,
    metadata: GroupMetadata,
}

impl LocalMembership {
    pub(crate) fn join(shared: &Arc<Shared>, options: &MembershipOptions) -> PortResult<Self> {
        let (number, metadata) = shared.groups.join(options)?;
        shared.signal.nudge();
        Ok(Self { shared: Arc::clone(shared), number, metadata })
    }
}

impl Membership for LocalMembership {
    fn poll(&mut self) -> PortResult<GroupEvent> {
        let me = self.number;
        let groups = &self.shared.groups;
        let (event, generation) = groups.with(me, &self.metadata, |group| {
            let mut event = GroupEvent::default();
            for (share, holding) in &mut group.shares {
                let mine = holding.target == Some(me);
                if holding.owner.is_none() && mine {
                    holding.owner = Some(me);
                    event.assigned.push(*share);
                } else if holding.owner == Some(me) && !mine && !holding.revoked {
                    holding.revoked = true;
                    event.revoked.push(*share);
                }
            }
            let member = group.members.get_mut(&me);
            let member = member.expect("a member of the group asks");
            if event != GroupEvent::default() {
                group.generation += 1;
                member.generation = group.generation;
            }
            (event, member.generation)
        })?;
        self.metadata.generation = generation;
        Ok(event)
    }

    fn release(&mut self, shares: &[Share]) -> PortResult<()> {
        let me = self.number;
        let groups = &self.shared.groups;
        groups.with(me, &self.metadata, |group| {
            for share in shares {
                let holding = group.shares.get_mut(share);
                if let Some(holding) = holding.filter(|h| h.owner == Some(me) && h.revoked) {
                    (holding.owner, holding.revoked) = (None, false);
                }
            }
        })?;
        self.shared.signal.nudge();
        Ok(())
    }

    fn metadata(&self) -> GroupMetadata {
        self.metadata.clone()
    }

    fn generation(&self) -> Option<i32> {
        Some(self.metadata.generation)
    }

    fn awaits_more(&self) -> bool {
        let me = Some(self.number);
        let awaited = |h: &Holding| h.target == me && h.owner != me;
        let groups = &self.shared.groups;
        let awaits = groups.with(self.number, &self.metadata, |g| g.shares.values().any(awaited));
        awaits.unwrap_or(false)
    }

    fn leave(&mut self) -> PortResult<()> {
        let mut groups = lock(&self.shared.groups.0);
        let left = groups.get_mut(&self.metadata.group).is_some_and(|g| g.remove(self.number));
        drop(groups);
        if left {
            self.shared.signal.nudge();
        }
        Ok(())
    }
}

impl Drop for LocalMembership {
    fn drop(&mut self) {
        if let Err(error) = self.leave() {
            tracing::warn!(%error, "leaving the group failed");
        }
    }
}
