//! The ports: what the core asks of the outside. Every backend implements them; the core knows nothing else.
//!
//! A call whose outcome is unknown says so in its error ([`PortErrorKind::Unknown`]); it is never turned into another call.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::Records;
use crate::wire::{NewRecord, Offset, Timestamp, TopicPartition};

/// What kind of failure a port reports: decides what the core does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PortErrorKind {
    /// Nothing happened; the same call may be made again.
    Retriable,
    /// Nobody knows whether it happened. Drop everything uncommitted and find out by opening anew.
    Unknown,
    /// The open transaction cannot be committed; abort it and go on from the last commit.
    Abortable,
    /// A newer owner of the transactional id or of the group membership exists.
    Fenced,
    /// The topic or partition is not there.
    UnknownTopic,
    /// The record or request is refused for what it is: too large, invalid.
    Refused,
    /// The offset asked for is not in the log (any more).
    OffsetOutOfRange,
    /// Stored data cannot be trusted.
    Corrupt,
    /// Another process holds what is asked for.
    Busy,
    /// The backend cannot do this at all.
    Unsupported,
    /// None of the above; stop.
    Fatal,
}

/// A failure of a port.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct PortError {
    kind: PortErrorKind,
    message: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl PortError {
    /// Makes one; the message says what was attempted, on what, and what to do.
    pub fn new(kind: PortErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Its kind.
    pub const fn kind(&self) -> PortErrorKind {
        self.kind
    }
}

/// Result of a port's call.
pub type PortResult<T> = Result<T, PortError>;

/// A run of fetched records of one partition.
pub struct Fetched {
    /// The partition.
    pub partition: TopicPartition,
    /// The records, in offset order; may be empty when only markers were passed.
    pub records: Box<dyn Records>,
    /// The position after this run, past markers and aborted records.
    pub next: Offset,
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} records, next {}", self.partition, self.records.len(), self.next)
    }
}

/// What a reader may see of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    /// Only what is committed, up to the last stable offset.
    ReadCommitted,
    /// Everything, up to the high watermark.
    ReadUncommitted,
}

/// An offset committed by a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommittedOffset {
    /// The next offset to read.
    pub offset: Offset,
    /// What was committed with it: Kafka Streams' Base64 text of stream times (BINARY.md §10); may be empty.
    pub metadata: String,
}

/// Where reading starts when no offset was committed: Kafka's `auto.offset.reset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OffsetReset {
    /// At the first record (the default of Kafka Streams: nothing is skipped).
    #[default]
    Earliest,
    /// After the last record.
    Latest,
    /// Nowhere: it is an error.
    None,
}

/// Reads partitions at positions that the core chose; it never subscribes.
pub trait Consumer: Send {
    /// Starts reading these partitions, each from an absolute offset.
    ///
    /// # Errors
    /// [`PortErrorKind::UnknownTopic`] when a partition is not there.
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> PortResult<()>;

    /// Stops reading these partitions.
    ///
    /// # Errors
    /// When the client cannot.
    fn unassign(&mut self, partitions: &[TopicPartition]) -> PortResult<()>;

    /// Pauses or resumes fetching, for back-pressure; the position stays.
    ///
    /// # Errors
    /// When the client cannot.
    fn set_paused(&mut self, partitions: &[TopicPartition], paused: bool) -> PortResult<()>;

    /// Adds what can be read now to `out`, at most about `max_records`, waiting up to `timeout` when there is nothing.
    ///
    /// # Errors
    /// Failures of single partitions name the partition.
    fn poll(
        &mut self,
        timeout: Duration,
        max_records: usize,
        out: &mut Vec<Fetched>,
    ) -> PortResult<()>;

    /// The offsets a group committed, stable ones only: [`PortErrorKind::Retriable`] while a transaction holds one.
    ///
    /// # Errors
    /// See above.
    fn committed(
        &mut self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> PortResult<BTreeMap<TopicPartition, CommittedOffset>>;

    /// The first offset of each partition.
    ///
    /// # Errors
    /// [`PortErrorKind::UnknownTopic`].
    fn beginning_offsets(
        &mut self,
        partitions: &[TopicPartition],
    ) -> PortResult<BTreeMap<TopicPartition, Offset>>;

    /// The end of each partition: the high watermark when `isolation` is read-uncommitted, else the last stable offset.
    ///
    /// # Errors
    /// [`PortErrorKind::UnknownTopic`].
    fn end_offsets(
        &mut self,
        partitions: &[TopicPartition],
        isolation: Isolation,
    ) -> PortResult<BTreeMap<TopicPartition, Offset>>;

    /// Where partitions end, as [`end_offsets`](Self::end_offsets), without waiting for a broker: a call asks, a later one hears
    /// the answer, of the partitions that were asked about. `None` until it is there. An embedded backend answers at once.
    ///
    /// # Errors
    /// As for [`end_offsets`](Self::end_offsets); the next call asks anew.
    fn look_at_ends(
        &mut self,
        partitions: &[TopicPartition],
        isolation: Isolation,
    ) -> PortResult<Option<BTreeMap<TopicPartition, Offset>>> {
        self.end_offsets(partitions, isolation).map(Some)
    }

    /// The first offset whose record is not older than the time; partitions without one are left out.
    ///
    /// # Errors
    /// [`PortErrorKind::UnknownTopic`].
    fn offsets_for_times(
        &mut self,
        times: &[(TopicPartition, Timestamp)],
    ) -> PortResult<BTreeMap<TopicPartition, Offset>>;
}

/// A topic that a producer has resolved, so that no name is looked up per record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicSlot(pub u32);

/// Who commits: fences a group member that is not current any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupMetadata {
    /// The group.
    pub group: String,
    /// The member.
    pub member: String,
    /// The generation or member epoch it acts in; -1 when the backend does not fence.
    pub generation: i32,
}

/// Where records went: the offset after the last own record, per partition written.
pub type Acknowledged = BTreeMap<TopicPartition, Offset>;

/// Appends records, in transactions when it was made with a transactional id.
pub trait Producer: Send {
    /// Fences earlier owners of the transactional id and aborts their open transaction.
    ///
    /// # Errors
    /// [`PortErrorKind::Retriable`] while the coordinator is not there.
    fn init_transactions(&mut self) -> PortResult<()>;

    /// Begins a transaction.
    ///
    /// # Errors
    /// [`PortErrorKind::Fenced`].
    fn begin(&mut self) -> PortResult<()>;

    /// Resolves a topic: its slot and its number of partitions.
    ///
    /// # Errors
    /// [`PortErrorKind::UnknownTopic`].
    fn topic(&mut self, name: &str) -> PortResult<(TopicSlot, i32)>;

    /// Appends a record; the outcome is known after [`flush`](Self::flush).
    ///
    /// # Errors
    /// [`PortErrorKind::Refused`] for a record that is too large; the message names topic, partition and size.
    fn send(&mut self, topic: TopicSlot, partition: i32, record: &NewRecord<'_>) -> PortResult<()>;

    /// Waits until everything sent is acknowledged; every record must be.
    ///
    /// Outside a transaction it returns, per partition written since the last flush, the offset after the last own record.
    /// Inside one it returns nothing: a backend may give records their offsets only when the transaction ends, and
    /// [`commit`](Self::commit) tells them.
    ///
    /// # Errors
    /// [`PortErrorKind::Abortable`] when a record was not stored, [`PortErrorKind::Refused`] when it was refused for what it is, and
    /// would be again.
    fn flush(&mut self) -> PortResult<Acknowledged>;

    /// Adds the offsets to the open transaction.
    ///
    /// # Errors
    /// [`PortErrorKind::Fenced`] when the member is not current.
    fn send_offsets(
        &mut self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        group: &GroupMetadata,
    ) -> PortResult<()>;

    /// Commits the open transaction; what was not flushed yet is flushed first.
    ///
    /// Returns, per partition that the transaction wrote, the offset after its last own record. The commit marker may lie
    /// behind it. Another producer's records may lie between its own, so only a partition with one writer (a changelog) can
    /// be said to be read up to there.
    ///
    /// # Errors
    /// [`PortErrorKind::Unknown`] when no answer came, as for [`flush`](Self::flush) when a record was not stored,
    /// [`PortErrorKind::Fenced`].
    fn commit(&mut self) -> PortResult<Acknowledged>;

    /// Aborts the open transaction.
    ///
    /// # Errors
    /// As for [`commit`](Self::commit).
    fn abort(&mut self) -> PortResult<()>;

    /// Commits offsets outside a transaction (at least once).
    ///
    /// # Errors
    /// [`PortErrorKind::Fenced`] when the member is not current.
    fn commit_offsets(
        &mut self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        group: &GroupMetadata,
    ) -> PortResult<()>;

    /// Has the connection hiccupped since `init_transactions`, so that a late request may still be under way? Then it has to be
    /// replaced after the current transaction: a late request could end the next one. Embedded backends never are.
    fn is_tainted(&mut self) -> bool {
        false
    }
}

/// A topic as the backend describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicInfo {
    /// Its name.
    pub name: String,
    /// Its identity: differs when a topic was deleted and made anew.
    pub id: String,
    /// How many partitions it has.
    pub partitions: i32,
}

/// A topic to be created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions.
    pub partitions: i32,
    /// Kafka's topic configuration, such as `cleanup.policy`; embedded backends keep it and heed what they can.
    pub config: BTreeMap<String, String>,
}

/// Describes, creates and empties topics.
pub trait Admin: Send {
    /// Describes topics; those that are not there are left out.
    ///
    /// # Errors
    /// When the backend cannot be asked.
    fn describe(&mut self, topics: &[&str]) -> PortResult<BTreeMap<String, TopicInfo>>;

    /// Lists all topics.
    ///
    /// # Errors
    /// When the backend cannot be asked.
    fn list(&mut self) -> PortResult<Vec<TopicInfo>>;

    /// The configuration of topics that are there, by Kafka's names. Topics whose configuration this client may not see are left
    /// out, and so are all of a backend that has none to tell.
    ///
    /// # Errors
    /// When the backend cannot be asked.
    fn settings(
        &mut self,
        topics: &[&str],
    ) -> PortResult<BTreeMap<String, BTreeMap<String, String>>> {
        let _ = topics;
        Ok(BTreeMap::new())
    }

    /// Creates topics; one that is there already with as many partitions is fine.
    ///
    /// # Errors
    /// [`PortErrorKind::Refused`] when one is there with another number of partitions, or the name is illegal.
    fn create(&mut self, topics: &[NewTopic]) -> PortResult<()>;

    /// Removes all records before the offset: consumed repartition records.
    ///
    /// # Errors
    /// When the backend cannot.
    fn delete_records(&mut self, before: &BTreeMap<TopicPartition, Offset>) -> PortResult<()>;

    /// The same without waiting for a broker: how it went, the next call tells. An embedded backend does it at once.
    ///
    /// # Errors
    /// Those of the call before; what is asked now is on its way nevertheless.
    fn begin_delete_records(
        &mut self,
        before: &BTreeMap<TopicPartition, Offset>,
    ) -> PortResult<()> {
        self.delete_records(before)
    }

    /// Deletes topics; one that is not there is fine.
    ///
    /// # Errors
    /// When the backend cannot.
    fn delete(&mut self, topics: &[&str]) -> PortResult<()>;
}

/// One share of the work: partition `partition` of co-partitioned group `group` (the core's sub-topology).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Share {
    /// Number of the group of topics that are read together.
    pub group: u32,
    /// Partition number.
    pub partition: i32,
}

/// What a member hears of its group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupEvent {
    /// Shares to take up now: nobody else works on them.
    pub assigned: Vec<Share>,
    /// Shares to give up: finish and commit, then call [`Membership::release`].
    pub revoked: Vec<Share>,
    /// Shares that are lost already: drop them without a commit.
    pub lost: Vec<Share>,
}

/// Membership in a group that shares work. One member per worker.
pub trait Membership: Send {
    /// What changed since the last call. Never blocks.
    ///
    /// # Errors
    /// [`PortErrorKind::Fenced`] when the group has dropped this member.
    fn poll(&mut self) -> PortResult<GroupEvent>;

    /// Says that revoked shares are given up: their last commit has ended.
    ///
    /// # Errors
    /// [`PortErrorKind::Fenced`].
    fn release(&mut self, shares: &[Share]) -> PortResult<()>;

    /// Who this member is now, for fencing.
    fn metadata(&self) -> GroupMetadata;

    /// The generation that [`poll`](Self::poll) told of last; `None` before the first, and after this member was dropped.
    fn generation(&self) -> Option<i32>;

    /// Is more work meant for this member than [`poll`](Self::poll) has told it to take up? Others have to give it up first.
    fn awaits_more(&self) -> bool;

    /// Pins the generation for a commit: until [`let_go`](Self::let_go) the member takes part in no new sharing, so that the
    /// generation told here stays the current one, and with it what this member owns.
    ///
    /// `None` while the group is between generations, and while there is news that [`poll`](Self::poll) has not told yet: poll,
    /// and try again shortly. An embedded group has no time in between: it moves on only when the member polls.
    ///
    /// # Errors
    /// [`PortErrorKind::Fenced`] when the group has dropped this member.
    fn hold(&mut self) -> PortResult<Option<GroupMetadata>> {
        Ok(Some(self.metadata()))
    }

    /// Ends [`hold`](Self::hold): the commit has ended, one way or the other. Without a hold it does nothing.
    fn let_go(&mut self) {}

    /// Leaves at once, so that others need not wait for a time-out.
    ///
    /// # Errors
    /// When the group cannot be told.
    fn leave(&mut self) -> PortResult<()>;
}

/// Time. The only one the core knows.
pub trait Clock: Send + Sync {
    /// Wall-clock time.
    fn now(&self) -> Timestamp;

    /// Monotonic time since some fixed start: for intervals and deadlines.
    fn elapsed(&self) -> Duration;
}

/// How a consumer is made.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// What it sees of transactions.
    pub isolation: Isolation,
    /// A name for logs.
    pub client_id: String,
}

/// How a producer is made.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    /// Given: records are sent in transactions of this id, stable across restarts.
    pub transactional_id: Option<String>,
    /// How long the backend lets a transaction stay open. Default 60 s, as Kafka's producer.
    pub transaction_timeout: Duration,
    /// A name for logs.
    pub client_id: String,
}

/// How a member joins its group.
#[derive(Clone, Debug)]
pub struct MembershipOptions {
    /// The group: the application id.
    pub group: String,
    /// A name for logs and the member id's prefix.
    pub client_id: String,
    /// All shares that the group has to work on; every member says the same.
    pub shares: Vec<Share>,
    /// The topics of each group of shares, for tools that show what a group reads; may be empty.
    pub topics: BTreeMap<u32, Vec<String>>,
}

/// A place where topics live, chosen by URL at run time.
pub trait Backend: Send + Sync + fmt::Debug {
    /// The URL's scheme, for messages.
    fn scheme(&self) -> &'static str;

    /// Can outputs and offsets be committed together?
    fn supports_transactions(&self) -> bool;

    /// Does it forget deletes some time after they were compacted away (Kafka's `delete.retention.ms`)? Then local state that
    /// has not followed for long cannot be brought up to date.
    fn compacts(&self) -> bool {
        false
    }

    /// What one line at start says of durability, such as `survives a killed process`.
    fn promise(&self) -> &'static str;

    /// Makes a consumer.
    ///
    /// # Errors
    /// When the backend cannot be reached.
    fn consumer(&self, options: &ConsumerOptions) -> PortResult<Box<dyn Consumer>>;

    /// Makes a producer.
    ///
    /// # Errors
    /// [`PortErrorKind::Unsupported`] when transactions are asked of a backend that has none.
    fn producer(&self, options: &ProducerOptions) -> PortResult<Box<dyn Producer>>;

    /// Makes an admin client.
    ///
    /// # Errors
    /// When the backend cannot be reached.
    fn admin(&self) -> PortResult<Box<dyn Admin>>;

    /// Joins a group.
    ///
    /// # Errors
    /// When the backend cannot be reached.
    fn membership(&self, options: &MembershipOptions) -> PortResult<Box<dyn Membership>>;
}

/// A backend that is shared by all workers.
pub type SharedBackend = Arc<dyn Backend>;
