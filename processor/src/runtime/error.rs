//! Why a run does not start, and why it ended.

use std::error::Error;
use std::io;
use std::time::Duration;

use thalweg_connectors::{PortError, PortErrorKind};
use thalweg_state::StateError;
use thalweg_txn::TxnError;

use crate::error::{ErrorClass, TaskError};
use crate::plan::PlanError;

/// Why a run does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The backend cannot keep what is asked of it.
    #[error(transparent)]
    Guarantee(TxnError),
    /// The topology does not fit the topics there are.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The backend cannot be reached.
    #[error(transparent)]
    Port(#[from] PortError),
    /// No worker.
    #[error("`num.stream.threads` is 0; a run needs at least 1 worker")]
    NoWorkers,
    /// Transactions would time out before they are committed.
    #[error(
        "`commit.interval.ms` ({interval:?}) has to be shorter than the transaction timeout ({timeout:?})"
    )]
    CommitInterval {
        /// The commit interval.
        interval: Duration,
        /// The transaction timeout.
        timeout: Duration,
    },
    /// A replay without an id and a suffix of its own would overwrite what is live.
    #[error(
        "a replay needs an output suffix of its own that its application id ends with; \
         the id is `{application_id}`, the suffix `{suffix}`"
    )]
    NotAReplay {
        /// The application id.
        application_id: String,
        /// The output suffix.
        suffix: String,
    },
    /// A warm-up before something that is not a time.
    #[error(
        "a warm-up reaches back in time, so the replay has to begin at a time; give `--from` a time"
    )]
    WarmUpNeedsTime,
    /// A replay of the same name is running.
    #[error("replay `{0}` is running already; stop it, or give this one another name")]
    ReplayIsRunning(String),
    /// A replay of a topology with a sink whose topic depends on the record.
    #[error(
        "sink `{0}` chooses its topic by record, so a replay cannot know which topics to make anew, and an earlier replay's \
         records would stay in them; replay a topology that names them: one fixed sink per topic, or none"
    )]
    ReplayOfDynamicSink(String),
    /// A thread could not be started.
    #[error("cannot start a worker's thread")]
    Thread(#[source] io::Error),
}

impl StartError {
    /// What a caller does about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Plan(e) => e.class(),
            Self::Port(e) if e.kind() == PortErrorKind::Retriable => ErrorClass::Retriable,
            _ => ErrorClass::Fatal,
        }
    }
}

/// Why a run ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A failure that nothing is done about: user code or data, or a fatal one. Nothing open was committed.
    #[error("worker {worker} stopped")]
    Task {
        /// The worker.
        worker: usize,
        /// Why.
        #[source]
        source: TaskError,
    },
    /// It tried again until `task.timeout.ms` was over.
    #[error("worker {worker} gave up after {} s without a commit", tried.as_secs())]
    GaveUp {
        /// The worker.
        worker: usize,
        /// How long it tried.
        tried: Duration,
        /// The last failure.
        #[source]
        source: TaskError,
    },
    /// It panicked outside the processing of a record. Nothing open was committed.
    #[error("worker {worker} panicked: {message}")]
    Panicked {
        /// The worker.
        worker: usize,
        /// The panic's message.
        message: String,
    },
}

impl RunError {
    /// What kind of failure it was.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Task { source, .. } | Self::GaveUp { source, .. } => source.class(),
            Self::Panicked { .. } => ErrorClass::User,
        }
    }

    /// The error and its causes in one line.
    pub fn chain(&self) -> String {
        chain(self)
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
