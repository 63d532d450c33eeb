//! What a member knows of itself: shared by the worker that works and the thread that keeps the membership.
//!
//! | set | what it is |
//! | --- | --- |
//! | `untold` | may be worked on; the worker has not heard of it |
//! | `told` | the worker has heard of it and has not given it up |
//! | `to_revoke`, `leaving` | parts of `told` that have to be given up: not told so, and told so |
//! | `lost` | were `told`; the worker has not heard that they are not any more |
//!
//! What the member claims to own when it joins is `told` and `untold`. A commit acts in a generation that is pinned
//! ([`State::hold`]); while shares are lost that the worker has not heard of, there is none: it would commit for tasks that are
//! another member's in the meantime.

use std::collections::BTreeSet;
use std::mem;
use std::time::Instant;

use super::codec::CodecError;
use crate::kafka::assignor::Work;
use crate::ports::{GroupEvent, GroupMetadata, PortError, PortErrorKind, PortResult, Share};

#[cfg(test)]
mod tests;

/// How a membership ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Closing {
    /// The group is told.
    Leave,
    /// As if the process had been killed: the group notices when the session times out.
    Crash,
}

/// Where a member is with its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Between generations, or outside: it has to join.
    Between,
    /// In a generation, with its work.
    Settled,
}

/// What a member says when it joins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Joining {
    /// Its id; empty before the group has given it one.
    pub(super) member: String,
    /// The last generation it was in; -1 when none.
    pub(super) generation: i32,
    /// What it has not given up.
    pub(super) owned: BTreeSet<Share>,
    /// What was meant for it in that generation.
    pub(super) target: BTreeSet<Share>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct State {
    group: String,
    phase: Phase,
    member: String,
    generation: i32,
    target: BTreeSet<Share>,
    untold: BTreeSet<Share>,
    told: BTreeSet<Share>,
    to_revoke: BTreeSet<Share>,
    leaving: BTreeSet<Share>,
    lost: BTreeSet<Share>,
    /// It has to join again, but still is in its generation.
    rejoin: bool,
    /// A commit is under way.
    held: bool,
    /// When the group takes this member for dead; not known while it waits for the others to join.
    dead_at: Option<Instant>,
    /// What the worker acts as without [`hold`](State::hold): that of its last poll.
    shown: GroupMetadata,
    /// The generation that the worker has heard of, while this is a member.
    heard: Option<i32>,
    /// It cannot be a member, and why.
    failure: Option<(PortErrorKind, String)>,
    closing: Option<Closing>,
    /// The thread has ended; an error when the group could not be told.
    ended: Option<Result<(), String>>,
}

impl State {
    /// Of one that has not joined yet. What it acts as is no member, so that it is refused: without any member id and
    /// generation it would be taken for a client that is in no group, and let through.
    pub(super) fn new(group: &str) -> Self {
        let member = "not-joined-yet".to_owned();
        Self {
            group: group.to_owned(),
            phase: Phase::Between,
            member: String::new(),
            generation: -1,
            target: BTreeSet::new(),
            untold: BTreeSet::new(),
            told: BTreeSet::new(),
            to_revoke: BTreeSet::new(),
            leaving: BTreeSet::new(),
            lost: BTreeSet::new(),
            rejoin: false,
            held: false,
            dead_at: None,
            shown: GroupMetadata { group: group.to_owned(), member, generation: 0 },
            heard: None,
            failure: None,
            closing: None,
            ended: None,
        }
    }

    // ---- for the worker

    /// What has changed. Lost shares are told alone: one of them may be assigned again, and must be dropped before.
    pub(super) fn poll(&mut self, now: Instant) -> PortResult<GroupEvent> {
        self.check()?;
        self.expire(now);
        if !self.lost.is_empty() {
            let lost = mem::take(&mut self.lost).into_iter().collect();
            return Ok(GroupEvent { lost, ..GroupEvent::default() });
        }
        let assigned: Vec<Share> = mem::take(&mut self.untold).into_iter().collect();
        self.told.extend(&assigned);
        let revoked: Vec<Share> = mem::take(&mut self.to_revoke).into_iter().collect();
        self.leaving.extend(&revoked);
        if self.phase == Phase::Settled {
            self.shown = self.metadata();
            self.heard = Some(self.generation);
        }
        Ok(GroupEvent { assigned, revoked, lost: Vec::new() })
    }

    /// The worker has given these up. The group hears of it with the next joining.
    pub(super) fn release(&mut self, shares: &[Share]) -> PortResult<()> {
        self.check()?;
        for share in shares {
            self.to_revoke.remove(share);
            self.leaving.remove(share);
            // It was lost in the meantime: the worker has dropped it already.
            self.lost.remove(share);
            self.rejoin |= self.told.remove(share);
        }
        Ok(())
    }

    /// Pins the generation, if there is one that a commit may act in.
    pub(super) fn hold(&mut self, now: Instant) -> PortResult<Option<GroupMetadata>> {
        self.check()?;
        self.expire(now);
        if self.phase == Phase::Between || !self.lost.is_empty() {
            return Ok(None);
        }
        self.held = true;
        self.shown = self.metadata();
        Ok(Some(self.shown.clone()))
    }

    /// The commit has ended.
    pub(super) fn let_go(&mut self) {
        self.held = false;
    }

    /// What the worker acts as.
    pub(super) fn shown(&self) -> GroupMetadata {
        self.shown.clone()
    }

    /// The generation that the worker has heard of.
    pub(super) fn generation(&self) -> Option<i32> {
        self.heard
    }

    /// Is something meant for this member that the worker has not been told to work on?
    pub(super) fn awaits_more(&self) -> bool {
        !self.target.is_subset(&self.told)
    }

    /// Starts to end; the first way counts.
    pub(super) fn close(&mut self, how: Closing) {
        self.closing.get_or_insert(how);
    }

    /// Is a request under way that may take long, of a member that the group knows?
    pub(super) fn waits_for_others(&self) -> bool {
        self.phase == Phase::Between && !self.member.is_empty()
    }

    /// How the thread ended, if it has.
    pub(super) fn ended(&self) -> Option<&Result<(), String>> {
        self.ended.as_ref()
    }

    fn check(&self) -> PortResult<()> {
        if let Some((kind, why)) = &self.failure {
            return Err(PortError::new(*kind, why.clone()));
        }
        if self.closing.is_some() {
            let why = format!("this member has left group {:?}: join again", self.group);
            return Err(PortError::new(PortErrorKind::Fenced, why));
        }
        Ok(())
    }

    fn metadata(&self) -> GroupMetadata {
        GroupMetadata {
            group: self.group.clone(),
            member: self.member.clone(),
            generation: self.generation,
        }
    }

    /// Gives everything up when the group must have given this member up.
    fn expire(&mut self, now: Instant) {
        if self.dead_at.is_some_and(|at| now >= at) {
            tracing::warn!(
                group = self.group,
                member = self.member,
                "no heartbeat was answered within the session timeout: the group has taken this member for dead"
            );
            self.lose();
        }
    }

    // ---- for the thread

    /// Is it to end, and how?
    pub(super) fn closing(&self) -> Option<Closing> {
        let failed = self.failure.is_some().then_some(Closing::Leave);
        self.closing.or(failed)
    }

    /// Begins to join, if it has to and may.
    pub(super) fn begin_join(&mut self) -> Option<Joining> {
        if self.held || !(self.rejoin || self.phase == Phase::Between) {
            return None;
        }
        (self.phase, self.rejoin, self.dead_at) = (Phase::Between, false, None);
        Some(Joining {
            member: self.member.clone(),
            generation: self.generation,
            owned: self.told.union(&self.untold).copied().collect(),
            target: self.target.clone(),
        })
    }

    /// The group has given this member its id.
    pub(super) fn named(&mut self, member: &str) {
        member.clone_into(&mut self.member);
    }

    /// Joining failed on the way: nobody says when the group takes this member for dead, so it reckons from now.
    pub(super) fn join_failed(&mut self, dead_at: Instant) {
        self.dead_at.get_or_insert(dead_at);
    }

    /// A generation has begun, with this work.
    pub(super) fn settle(&mut self, generation: i32, work: Work, dead_at: Instant) {
        (self.phase, self.generation, self.dead_at) = (Phase::Settled, generation, Some(dead_at));
        let Work { now, target } = work;
        // What the worker has not heard of yet is given up without its knowing.
        let withdrawn = self.untold.len();
        self.untold.retain(|share| now.contains(share));
        self.rejoin |= self.untold.len() < withdrawn;
        self.to_revoke = self.told.difference(&now).copied().collect();
        self.to_revoke.retain(|share| !self.leaving.contains(share));
        self.untold.extend(now.difference(&self.told));
        self.target = target;
        tracing::info!(
            group = self.group,
            member = self.member,
            generation,
            working = now.len(),
            awaited = self.target.len() - now.len(),
            giving_up = self.to_revoke.len(),
            "the group has shared its work"
        );
    }

    /// The generation and id to send a heartbeat with, while there is one.
    pub(super) fn settled(&self) -> Option<(i32, String)> {
        (self.phase == Phase::Settled).then(|| (self.generation, self.member.clone()))
    }

    /// A heartbeat was answered: the group knows that this member lives.
    pub(super) fn alive(&mut self, generation: i32, dead_at: Instant) {
        if self.phase == Phase::Settled && self.generation == generation {
            self.dead_at = Some(dead_at);
        }
    }

    /// The group shares its work anew.
    pub(super) fn join_again(&mut self) {
        self.rejoin = true;
    }

    /// Everything is another's now. It joins again, under the same id.
    pub(super) fn lose(&mut self) {
        self.lost.append(&mut self.told);
        for set in [&mut self.untold, &mut self.to_revoke, &mut self.leaving, &mut self.target] {
            set.clear();
        }
        (self.phase, self.generation, self.dead_at) = (Phase::Between, -1, None);
        self.heard = None;
    }

    /// The same, and the group does not know the id any more.
    pub(super) fn lose_name(&mut self) {
        self.lose();
        self.member.clear();
    }

    /// It cannot be a member.
    pub(super) fn fail(&mut self, kind: PortErrorKind, why: String) {
        tracing::error!(group = self.group, why, "membership has ended");
        self.failure.get_or_insert((kind, why));
    }

    /// The leader's order cannot be read.
    pub(super) fn fail_codec(&mut self, error: &CodecError) {
        let why = format!(
            "cannot take part in group {:?}, its leader is of another kind: {error}",
            self.group
        );
        self.fail(PortErrorKind::Unsupported, why);
    }

    /// The thread has ended.
    pub(super) fn end(&mut self, left: Result<(), String>) {
        self.ended = Some(left);
    }

    /// The id to leave with; `None` when the group knows of no such member.
    pub(super) fn to_leave(&self) -> Option<String> {
        (!self.member.is_empty()).then(|| self.member.clone())
    }
}
