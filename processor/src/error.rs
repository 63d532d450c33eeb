//! What can go wrong in a task, and what the worker then does: see [`ErrorClass`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{Offset, PortError, PortErrorKind, SerdeError, TopicPartition};
use thalweg_state::StateError;

use crate::plan::LostTopic;
use crate::topology::TaskId;

pub use thalweg_txn::ErrorClass;
use thalweg_txn::{Step, TxnError};

/// An error of user code.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a node reports to the one that called it.
///
/// A thin pointer, so that the way of a record that succeeds costs nothing.
#[derive(Debug)]
pub struct NodeError(Box<NodeErrorKind>);

/// Result of a node.
pub type NodeResult<T = ()> = Result<T, NodeError>;

#[derive(Debug)]
pub(crate) enum NodeErrorKind {
    /// User code failed in this very node: the processing handler is asked at the node's edge.
    User(BoxError),
    /// The production handler said fail: nobody is asked again, and the node in front is named.
    Answered(BoxError),
    /// The decision is made; travels to the task's edge.
    Failed(TaskError),
}

impl NodeError {
    /// User code failed; the processing exception handler will be asked.
    pub fn user(error: impl Into<BoxError>) -> Self {
        Self(Box::new(NodeErrorKind::User(error.into())))
    }

    /// The error inside: what user code reported, or the failure of the task.
    pub fn cause(&self) -> &(dyn std::error::Error + 'static) {
        match &*self.0 {
            NodeErrorKind::User(e) | NodeErrorKind::Answered(e) => &**e,
            NodeErrorKind::Failed(e) => e,
        }
    }

    pub(crate) fn answered(error: BoxError) -> Self {
        Self(Box::new(NodeErrorKind::Answered(error)))
    }

    pub(crate) fn failed(error: TaskError) -> Self {
        Self(Box::new(NodeErrorKind::Failed(error)))
    }

    pub(crate) fn into_kind(self) -> NodeErrorKind {
        *self.0
    }
}

impl std::fmt::Display for NodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.0 {
            NodeErrorKind::User(e) | NodeErrorKind::Answered(e) => e.fmt(f),
            NodeErrorKind::Failed(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for NodeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            NodeErrorKind::User(e) | NodeErrorKind::Answered(e) => e.source(),
            NodeErrorKind::Failed(e) => e.source(),
        }
    }
}

impl From<PortError> for NodeError {
    fn from(e: PortError) -> Self {
        Self::failed(e.into())
    }
}

impl From<StateError> for NodeError {
    fn from(e: StateError) -> Self {
        Self::failed(e.into())
    }
}

impl From<SerdeError> for NodeError {
    fn from(e: SerdeError) -> Self {
        Self::user(e)
    }
}

impl From<UsageError> for NodeError {
    fn from(e: UsageError) -> Self {
        Self::user(e)
    }
}

/// The framework was used in a way it cannot serve; found while a record is processed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsageError {
    /// A record was forwarded with a negative timestamp.
    #[error("cannot forward a record with the negative timestamp {0}")]
    NegativeTimestamp(i64),
    /// A window of no length, where Kafka Streams has none.
    #[error(
        "a window from {0} to {0} is empty; give windows a length, or set `semantics=corrected`"
    )]
    EmptyWindow(i64),
    /// A record was forwarded to a child that the node does not have.
    #[error("node `{node}` has no child `{child}`; it has: {children}")]
    UnknownChild {
        /// The forwarding node.
        node: Arc<str>,
        /// The child asked for.
        child: String,
        /// The children there are.
        children: String,
    },
    /// A store was asked for that is not connected to the node.
    #[error(
        "store `{store}` is not connected to node `{node}`; name it where the processor is added"
    )]
    StoreNotConnected {
        /// The node.
        node: Arc<str>,
        /// The store.
        store: String,
    },
    /// A store was opened as another kind or type than it was declared with.
    #[error("store `{store}` is a {is}, not a {wanted}")]
    WrongStoreKind {
        /// The store.
        store: String,
        /// What it is.
        is: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// A partitioner named a partition that the topic does not have.
    #[error(
        "the partitioner of topic `{topic}` chose partition {partition}, but there are {partitions}"
    )]
    NoSuchPartition {
        /// The topic.
        topic: String,
        /// The partition it chose.
        partition: i32,
        /// How many there are.
        partitions: i32,
    },
    /// A topic extractor gave no topic.
    #[error("the topic extractor of sink `{0}` gave no topic")]
    NoTopic(Arc<str>),
    /// A store was asked for a null key.
    #[error("store `{store}` was given a null key")]
    NullStoreKey {
        /// The store.
        store: String,
    },
    /// A buffer that may not let anything go early is full.
    #[error(
        "the buffer of `{node}` is full: it holds {records} records of at most {records_max}, and {bytes} bytes of at most {bytes_max}; raise the limits, or let the oldest go early"
    )]
    BufferFull {
        /// The node.
        node: Arc<str>,
        /// Records that wait.
        records: usize,
        /// How many may wait.
        records_max: usize,
        /// What they count for, in bytes.
        bytes: usize,
        /// What they may count for.
        bytes_max: usize,
    },
    /// A processor wanted to change a global store, which only the nodes that fill it may do.
    #[error("the global store `{store}` can only be read by other processors than its own")]
    ReadOnlyStore {
        /// The store.
        store: String,
    },
    /// A punctuation interval below 1 ms.
    #[error("a punctuation interval is at least 1 ms")]
    ZeroInterval,
}

/// A failure of a task, with everything the reporter wants to say.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// A record could not be decoded, and the deserialization handler said fail.
    #[error("cannot deserialize the {field} of {partition}@{offset} in task {task}")]
    Deserialization {
        /// The task.
        task: TaskId,
        /// `key` or `value`.
        field: &'static str,
        /// Where the record lies.
        partition: TopicPartition,
        /// Which record.
        offset: Offset,
        /// Why.
        #[source]
        source: SerdeError,
    },
    /// The timestamp extractor said fail.
    #[error(
        "record {partition}@{offset} has the invalid timestamp {timestamp}; choose another `default.timestamp.extractor` to accept it"
    )]
    InvalidTimestamp {
        /// Where the record lies.
        partition: TopicPartition,
        /// Which record.
        offset: Offset,
        /// The timestamp.
        timestamp: i64,
    },
    /// User code failed, and the processing handler said fail.
    #[error("node `{node}` of task {task} failed{at}")]
    Processing {
        /// The task.
        task: TaskId,
        /// The node.
        node: Arc<str>,
        /// ` at TOPIC-PARTITION@OFFSET`, or nothing inside a punctuation.
        at: String,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// User code panicked.
    #[error("{}user code panicked in task {task}{at}: {message}", of_node(node.as_deref()))]
    Panicked {
        /// The task.
        task: TaskId,
        /// The node whose code it was, where that is known.
        node: Option<Arc<str>>,
        /// ` at TOPIC-PARTITION@OFFSET`, or nothing.
        at: String,
        /// The panic's message.
        message: String,
    },
    /// The global stores could not be brought up to date.
    #[error("the global stores cannot follow their topics")]
    Global {
        /// Why.
        #[source]
        source: Box<TaskError>,
    },
    /// A backend failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// An internal topic that committed work relies on is not there any more.
    #[error(transparent)]
    LostTopic(#[from] LostTopic),
    /// Its producer was taken over again and again.
    #[error(
        "another producer took over transactional id `{transactional_id}` {times} times within {} s: does another process work \
         with a copy of this state directory? give each its own; or do transactions take longer than `transaction.timeout.ms`?",
        within.as_secs()
    )]
    TakenOver {
        /// The id.
        transactional_id: String,
        /// How often.
        times: usize,
        /// In which time.
        within: Duration,
        /// The last time.
        #[source]
        source: Box<TaskError>,
    },
    /// A store failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The commit protocol failed.
    #[error(transparent)]
    Txn(#[from] TxnError),
}

impl TaskError {
    /// Has another producer taken over the transactional id? Calls that name the group may be refused for what the group says.
    pub(crate) fn is_takeover(&self) -> bool {
        let Self::Txn(TxnError::Port { step, source, .. }) = self else { return false };
        let of_group = matches!(step, Step::SendOffsets | Step::CommitOffsets);
        source.kind() == PortErrorKind::Fenced && !of_group
    }

    /// What the run loop does about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Deserialization { .. }
            | Self::InvalidTimestamp { .. }
            | Self::Processing { .. }
            | Self::Panicked { .. } => ErrorClass::User,
            Self::Global { source } => source.class(),
            Self::Port(e) => port_class(e.kind()),
            Self::LostTopic(_) | Self::TakenOver { .. } => ErrorClass::Fatal,
            Self::State(e) => state_class(e.class()),
            Self::Txn(e) => e.class(),
        }
    }
}

fn of_node(node: Option<&str>) -> String {
    node.map_or_else(String::new, |node| format!("node `{node}`: "))
}

/// Runs code that may panic; a panic in it becomes its message.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        text.unwrap_or_else(|| "no message".to_owned())
    })
}

fn port_class(kind: PortErrorKind) -> ErrorClass {
    match kind {
        PortErrorKind::Retriable => ErrorClass::Retriable,
        PortErrorKind::Unknown | PortErrorKind::Abortable => ErrorClass::Abortable,
        PortErrorKind::Fenced => ErrorClass::Fenced,
        _ => ErrorClass::Fatal,
    }
}

fn state_class(class: thalweg_state::ErrorClass) -> ErrorClass {
    use thalweg_state::ErrorClass as S;
    match class {
        S::Retriable => ErrorClass::Retriable,
        S::Abortable => ErrorClass::Abortable,
        S::TaskCorrupted => ErrorClass::TaskCorrupted,
        S::Fenced => ErrorClass::Fenced,
        S::User => ErrorClass::User,
        S::Fatal => ErrorClass::Fatal,
    }
}
