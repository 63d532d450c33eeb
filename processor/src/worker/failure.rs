//! A failure inside a cycle: what is done about it, and whose state it concerns.

use thalweg_connectors::PortError;
use thalweg_state::StateError;
use thalweg_txn::{PersistError, TxnError};

use crate::error::{ErrorClass, TaskError};
use crate::plan::LostTopic;
use crate::topology::TaskId;

/// Result of a phase of a cycle.
pub(crate) type Phase<T = ()> = Result<T, Failure>;

/// Why a phase of a cycle failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) class: ErrorClass,
    /// Whose local state is corrupted, when that is the class.
    pub(crate) task: Option<TaskId>,
    pub(crate) error: TaskError,
}

impl Failure {
    /// Names the task that failed.
    pub(crate) fn of(mut self, task: TaskId) -> Self {
        self.task = Some(task);
        self
    }

    /// Half of something has been done, so the same call cannot be made again: what could be retried has to be taken back.
    pub(crate) fn half_done(mut self) -> Self {
        if self.class == ErrorClass::Retriable {
            self.class = ErrorClass::Abortable;
        }
        self
    }
}

impl From<TaskError> for Failure {
    fn from(error: TaskError) -> Self {
        Self { class: error.class(), task: None, error }
    }
}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Self {
        TaskError::from(error).into()
    }
}

impl From<LostTopic> for Failure {
    fn from(error: LostTopic) -> Self {
        TaskError::from(error).into()
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        TaskError::from(error).into()
    }
}

impl From<TxnError> for Failure {
    fn from(error: TxnError) -> Self {
        TaskError::from(error).into()
    }
}

/// Wraps what a task's persist said for the commit protocol.
pub(crate) fn persist_error(error: TaskError) -> PersistError {
    PersistError::new(error.class(), error)
}
