//! What a commit carries, and the right to persist that comes out of it.

use std::collections::BTreeMap;

use thalweg_connectors::{Acknowledged, CommittedOffset, GroupMetadata, Offset, TopicPartition};

use crate::metadata::OffsetMetadata;

/// What is committed: the next positions of every task that consumed, wrote or punctuated since the
/// last commit, and who commits. Take both at the same moment: the group fences members, not tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommitPlan {
    offsets: BTreeMap<TopicPartition, CommittedOffset>,
    group: GroupMetadata,
}

impl CommitPlan {
    /// An empty plan of this member.
    pub const fn new(group: GroupMetadata) -> Self {
        Self { offsets: BTreeMap::new(), group }
    }

    /// Adds the position of one input partition: the next offset to read. A later call for the same
    /// partition wins.
    pub fn add(&mut self, partition: TopicPartition, next: Offset, metadata: &OffsetMetadata) {
        let committed = CommittedOffset { offset: next, metadata: metadata.encode() };
        self.offsets.insert(partition, committed);
    }

    /// The positions.
    pub const fn offsets(&self) -> &BTreeMap<TopicPartition, CommittedOffset> {
        &self.offsets
    }

    /// Who commits.
    pub const fn group(&self) -> &GroupMetadata {
        &self.group
    }

    /// Is there no position in it?
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }
}

/// The right to persist the state of all tasks: it exists only while a
/// [`Committer`](crate::Committer) is in its commit, after the outputs count. Without one nothing
/// uncommitted can reach a store.
#[derive(Debug)]
pub struct CommitPermit {
    acknowledged: Acknowledged,
}

impl CommitPermit {
    pub(crate) const fn new(acknowledged: Acknowledged) -> Self {
        Self { acknowledged }
    }

    /// Per partition written since the last commit, the offset after its last own record: a
    /// changelog's is the position that goes into the store, in the same batch as the writes.
    pub const fn acknowledged(&self) -> &Acknowledged {
        &self.acknowledged
    }

    /// The offset after the last own record in one partition; `None` when nothing was written
    /// there.
    pub fn position_of(&self, partition: &TopicPartition) -> Option<Offset> {
        self.acknowledged.get(partition).copied()
    }
}
