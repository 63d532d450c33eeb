//! What a backend's engine can do: the seam between the ports and where records lie.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::coordinator::Owner;
use super::fault::Faults;
use super::group::Groups;
use super::signal::Signal;
use crate::batch::{BatchSlice, RecordBatch};
use crate::ports::{
    Acknowledged, Clock, CommittedOffset, GroupMetadata, Isolation, NewTopic, PortError,
    PortErrorKind, PortResult, TopicInfo,
};
use crate::wire::{Offset, Timestamp, TopicPartition};

/// What all clients of one engine share.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) signal: Signal,
    pub(crate) groups: Groups,
    pub(crate) faults: Faults,
}

impl Shared {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            signal: Signal::default(),
            groups: Groups::default(),
            faults: Faults::default(),
        }
    }

    /// Removes a member from its group as if its session had timed out.
    pub(crate) fn expel(&self, group: &str, member: &str) -> bool {
        let expelled = self.groups.expel(group, member);
        self.signal.nudge();
        expelled
    }
}

/// The offsets that bound a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// The first offset that is kept.
    pub(crate) start: Offset,
    /// The last stable offset: the first one of an open transaction.
    pub(crate) stable: Offset,
    /// The high watermark.
    pub(crate) end: Offset,
}

impl Bounds {
    /// Where a reader has to stop.
    pub(crate) fn limit(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::ReadCommitted => self.stable,
            Isolation::ReadUncommitted => self.end,
        }
    }

    /// Fails when no reader can stand at `position`.
    pub(crate) fn check(&self, tp: &TopicPartition, position: Offset) -> PortResult<()> {
        if self.start <= position && position <= self.end {
            return Ok(());
        }
        Err(PortError::new(
            PortErrorKind::OffsetOutOfRange,
            format!(
                "offset {position} of {tp} is out of range: it holds {} to {}",
                self.start, self.end
            ),
        ))
    }

    /// Fails when records before `before` cannot be deleted.
    pub(crate) fn check_delete(&self, tp: &TopicPartition, before: Offset) -> PortResult<()> {
        if before <= self.stable {
            return Ok(());
        }
        Err(PortError::new(
            PortErrorKind::OffsetOutOfRange,
            format!(
                "cannot delete records of {tp} before {before}: it is stable up to {} only",
                self.stable
            ),
        ))
    }
}

/// What a producer has to know of a topic.
#[derive(Clone, Debug)]
pub(crate) struct TopicView {
    pub(crate) name: Arc<str>,
    pub(crate) partitions: i32,
    pub(crate) max_message_bytes: usize,
}

/// A run that a reader decoded and has not read to its end.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// The number of the topic it is of: a topic made anew has another.
    pub(crate) topic: u32,
    pub(crate) batch: Arc<RecordBatch>,
}

/// Part of a partition, fetched.
#[derive(Debug)]
pub(crate) struct FetchedRun {
    pub(crate) records: BatchSlice,
    pub(crate) next: Offset,
}

/// Where records, topics and offsets lie.
pub(crate) trait Engine: Send + Sync + fmt::Debug + 'static {
    fn shared(&self) -> &Arc<Shared>;

    fn topic(&self, name: &str) -> PortResult<TopicView>;
    fn topics(&self) -> PortResult<Vec<TopicInfo>>;
    fn create(&self, topics: &[NewTopic]) -> PortResult<()>;
    fn delete(&self, topics: &[&str]) -> PortResult<()>;
    fn delete_records(&self, before: &BTreeMap<TopicPartition, Offset>) -> PortResult<()>;

    fn bounds(&self, tp: &TopicPartition) -> PortResult<Bounds>;

    /// Reads from `position`; nothing when a reader has to wait there. `held` is the reader's own:
    /// a run it decoded last.
    fn fetch(
        &self,
        tp: &TopicPartition,
        position: Offset,
        held: &mut Option<Held>,
        isolation: Isolation,
        max_records: usize,
    ) -> PortResult<Option<FetchedRun>>;

    fn offset_for_time(
        &self,
        tp: &TopicPartition,
        time: Timestamp,
        isolation: Isolation,
    ) -> PortResult<Option<Offset>>;

    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> PortResult<BTreeMap<TopicPartition, CommittedOffset>>;

    fn init(&self, id: &str, timeout: Duration) -> PortResult<Owner>;
    /// Can the owner begin a transaction?
    fn check(&self, owner: &Owner) -> PortResult<()>;

    /// Takes batches over, in the owner's open transaction if there is an owner. Tells where they
    /// went, if that is known yet.
    fn append(
        &self,
        owner: Option<&Owner>,
        batches: Vec<(TopicPartition, RecordBatch)>,
    ) -> PortResult<Acknowledged>;

    fn add_offsets(
        &self,
        owner: &Owner,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        group: &GroupMetadata,
    ) -> PortResult<()>;

    fn commit_offsets(
        &self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        group: &GroupMetadata,
    ) -> PortResult<()>;

    /// Ends the owner's transaction. Tells where the records went that [`append`](Self::append) did
    /// not tell of.
    fn end(&self, owner: &Owner, commit: bool) -> PortResult<Acknowledged>;

    /// Lets the owner's transaction end in a while.
    fn end_later(&self, owner: &Owner, commit: bool, delay: Duration) -> PortResult<()>;
}
