//! A worker's place in its group: what it hears is noted down here, and carried out at the worker's own pace.

use std::mem;

use thalweg_connectors::{
    GroupMetadata, Membership, MembershipOptions, PortErrorKind, PortResult, Share, SharedBackend,
};

use crate::topology::TaskId;

/// What a worker has to do about its group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct News {
    /// Take these up.
    pub(crate) assigned: Vec<TaskId>,
    /// Commit, then give these up.
    pub(crate) revoked: Vec<TaskId>,
    /// Drop these.
    pub(crate) lost: Vec<TaskId>,
    /// The group has shared its work anew, whether that changed anything here or not.
    pub(crate) is_rebalanced: bool,
}

/// Membership and what has been heard but not carried out yet.
pub(crate) struct Assignment {
    backend: SharedBackend,
    options: MembershipOptions,
    membership: Box<dyn Membership>,
    /// Fenced: has to join anew.
    outside: bool,
    /// Revoked, not released yet.
    revoked: Vec<TaskId>,
    /// The generation that was last heard of.
    heard: Option<i32>,
}

fn task(share: &Share) -> TaskId {
    TaskId { subtopology: share.group, partition: share.partition }
}

fn share(task: &TaskId) -> Share {
    Share { group: task.subtopology, partition: task.partition }
}

impl Assignment {
    /// Joins the group.
    pub(crate) fn join(backend: SharedBackend, options: MembershipOptions) -> PortResult<Self> {
        let membership = backend.membership(&options)?;
        let (outside, revoked, heard) = (false, Vec::new(), None);
        Ok(Self { backend, options, membership, outside, revoked, heard })
    }

    /// What changed; what was revoked and is not released yet is told again.
    pub(crate) fn poll(&mut self) -> PortResult<News> {
        if self.outside {
            self.membership = self.backend.membership(&self.options)?;
            self.outside = false;
        }
        let event = self.membership.poll()?;
        self.revoked.extend(event.revoked.iter().map(task));
        let before = mem::replace(&mut self.heard, self.membership.generation());
        Ok(News {
            is_rebalanced: self.heard.is_some() && self.heard != before,
            assigned: event.assigned.iter().map(task).collect(),
            revoked: self.revoked.clone(),
            lost: event.lost.iter().map(task).collect(),
        })
    }

    /// Does the worker have all that is meant for it? Not while it is outside of its group.
    pub(crate) fn is_settled(&self) -> bool {
        self.heard.is_some() && !self.outside && !self.membership.awaits_more()
    }

    /// The revoked tasks are given up: their last commit has ended.
    pub(crate) fn release(&mut self) -> PortResult<()> {
        let shares: Vec<Share> = self.revoked.iter().map(share).collect();
        self.membership.release(&shares)?;
        self.revoked.clear();
        Ok(())
    }

    /// Who this worker is now, and stays until [`let_go`](Self::let_go); `None` while the group shares its work anew.
    pub(crate) fn hold(&mut self) -> PortResult<Option<GroupMetadata>> {
        self.membership.hold()
    }

    /// The commit that was held for has ended.
    pub(crate) fn let_go(&mut self) {
        self.membership.let_go();
    }

    /// A newer owner exists: nothing is this worker's any more, and the next poll joins anew.
    pub(crate) fn expelled(&mut self) {
        mem::take(&mut self.revoked);
        self.leave();
        self.outside = true;
    }

    /// Leaves at once.
    pub(crate) fn leave(&mut self) {
        match self.membership.leave() {
            Ok(()) => {}
            Err(error) if error.kind() == PortErrorKind::Fenced => {}
            Err(error) => tracing::warn!(%error, "leaving the group failed; it will notice later"),
        }
    }
}
