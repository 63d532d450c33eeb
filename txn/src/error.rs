//! What can go wrong in a commit, and what the worker then does.

use std::fmt;

use thalweg_connectors::{PortError, PortErrorKind};

use crate::machine::{Fact, Failure, Recovery, State};

/// What the run loop does about an error; it looks at nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorClass {
    /// Makes the same call again, within its deadline.
    Retriable,
    /// Aborts the transaction and reopens the tasks at the last commit.
    Abortable,
    /// Discards that task's local state and restores it.
    TaskCorrupted,
    /// Closes tasks without committing and rejoins.
    Fenced,
    /// User code or user data failed, and the handler said fail: stops the worker.
    User,
    /// Stops the worker.
    Fatal,
}

/// A call of the commit protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Step {
    /// Begins a transaction.
    Begin,
    /// Sends a record.
    Send,
    /// Waits for acknowledgement.
    Flush,
    /// Adds offsets to the transaction.
    SendOffsets,
    /// Commits the transaction.
    EndTransaction,
    /// Commits offsets outside a transaction.
    CommitOffsets,
    /// Aborts the transaction.
    Abort,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Begin => "begin a transaction",
            Self::Send => "send a record",
            Self::Flush => "get all records acknowledged",
            Self::SendOffsets => "add the input offsets to the transaction",
            Self::EndTransaction => "commit the transaction",
            Self::CommitOffsets => "commit the input offsets",
            Self::Abort => "abort the transaction",
        })
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reopen => "the tasks go back to the last commit",
            Self::Rejoin => "a newer owner exists, so the tasks close and the worker rejoins",
            Self::Stop => "the worker stops",
        })
    }
}

/// State could not be persisted, though its outputs count already. Whoever persists says what that
/// means.
#[derive(Debug, thiserror::Error)]
#[error("cannot persist state after its commit")]
pub struct PersistError {
    class: ErrorClass,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl PersistError {
    /// Wraps what the store said.
    pub fn new(
        class: ErrorClass,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { class, source: source.into() }
    }

    /// What it means.
    pub const fn class(&self) -> ErrorClass {
        self.class
    }

    /// What the store said.
    pub fn into_source(self) -> Box<dyn std::error::Error + Send + Sync> {
        self.source
    }
}

/// A failure of the commit protocol.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TxnError {
    /// A call of the producer failed, or nobody knows whether it did.
    #[error("cannot {step}; {}", consequence(*.recovery, .source))]
    Port {
        /// The call.
        step: Step,
        /// What has to be done.
        recovery: Recovery,
        /// Why.
        #[source]
        source: PortError,
    },
    /// State could not be persisted after its outputs were committed; reopening replays them from
    /// the changelog.
    #[error(transparent)]
    Persist(PersistError),
    /// The recovery from an earlier failure has not been done.
    #[error("cannot go on after a failed commit; {0}")]
    HasFailed(Recovery),
    /// A commit in which records were written, but no task has a position.
    #[error(
        "cannot commit records without input offsets, which fence the transaction; \
         add the positions of every task that wrote"
    )]
    OffsetsMissing,
    /// A transaction was asked of a producer that has to be replaced first.
    #[error(
        "cannot begin a transaction on a producer whose connection broke; {}",
        Recovery::Reopen
    )]
    ProducerStale,
    /// The protocol was driven in an order that cannot be.
    #[error("the commit protocol cannot be told {fact:?} in state {state:?}; the worker stops")]
    OutOfOrder {
        /// Where it stood.
        state: State,
        /// What it was told.
        fact: Fact,
    },
    /// Exactly-once was asked of a backend without transactions.
    #[error(
        "exactly_once needs transactions, which `{scheme}://` does not have; \
         set `processing.guarantee` to at_least_once or choose another backend"
    )]
    NoTransactions {
        /// The backend's URL scheme.
        scheme: &'static str,
    },
}

impl TxnError {
    /// What the run loop does about it.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Port { recovery, source, .. } => match (recovery, source.kind()) {
                // Processing it again fails again: the handler decides.
                (Recovery::Reopen, PortErrorKind::Refused) => ErrorClass::User,
                _ => class_of(*recovery),
            },
            Self::HasFailed(recovery) => class_of(*recovery),
            Self::Persist(error) => match error.class() {
                ErrorClass::Retriable => ErrorClass::Abortable,
                class => class,
            },
            Self::ProducerStale => ErrorClass::Abortable,
            Self::OffsetsMissing | Self::OutOfOrder { .. } | Self::NoTransactions { .. } => {
                ErrorClass::Fatal
            }
        }
    }
}

fn consequence(recovery: Recovery, source: &PortError) -> String {
    match (recovery, source.kind()) {
        (Recovery::Reopen, PortErrorKind::Refused) => {
            "nothing of its transaction counts".to_owned()
        }
        _ => recovery.to_string(),
    }
}

const fn class_of(recovery: Recovery) -> ErrorClass {
    match recovery {
        Recovery::Reopen => ErrorClass::Abortable,
        Recovery::Rejoin => ErrorClass::Fenced,
        Recovery::Stop => ErrorClass::Fatal,
    }
}

impl From<PortErrorKind> for Fact {
    fn from(kind: PortErrorKind) -> Self {
        use PortErrorKind as K;
        Self::Failed(match kind {
            K::Unknown => return Self::OutcomeUnknown,
            K::Retriable | K::Busy => Failure::Retriable,
            K::Abortable | K::Refused => Failure::Abortable,
            K::Fenced => Failure::Fenced,
            _ => Failure::Fatal,
        })
    }
}

impl From<ErrorClass> for Fact {
    /// What a failed persist means: it is never made again, its tasks are opened anew.
    fn from(class: ErrorClass) -> Self {
        Self::Failed(match class {
            ErrorClass::Retriable | ErrorClass::Abortable | ErrorClass::TaskCorrupted => {
                Failure::Abortable
            }
            ErrorClass::Fenced => Failure::Fenced,
            ErrorClass::User | ErrorClass::Fatal => Failure::Fatal,
        })
    }
}
