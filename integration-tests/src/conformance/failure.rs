//! From the library's errors to the kinds that expectations name.

use std::error::Error;

use thalweg::BuildError;
use thalweg_connectors::SerdeError;
use thalweg_processor::{NodeError, TaskError, TopologyError, UsageError};

use super::{ErrorKind, Fault, FaultKind};

/// Why a topology was not built.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The scenario is faulty, or asks for what is not there yet: it cannot be judged.
    Broken(Fault),
    /// The library refused the topology: a result that a scenario can expect.
    Refused(ErrorKind, String),
    /// The library refused it for what the reference finds out when it starts.
    RefusedAtStart(ErrorKind, String),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Broken(fault)
    }
}

impl From<TopologyError> for Stop {
    fn from(error: TopologyError) -> Self {
        let message = error.to_string();
        match error {
            TopologyError::NoSerde { .. } => Self::RefusedAtStart(ErrorKind::BadConfig, message),
            TopologyError::IllegalArgument(_) => {
                Self::Refused(ErrorKind::IllegalParameter, message)
            }
            _ => Self::Refused(ErrorKind::InvalidTopology, message),
        }
    }
}

/// The first mistake counts; one that the reference finds only at the start counts last.
impl From<BuildError> for Stop {
    fn from(error: BuildError) -> Self {
        let late = |e: &&TopologyError| matches!(e, TopologyError::NoSerde { .. });
        let errors = error.errors();
        let first = errors.iter().find(|e| !late(e)).or_else(|| errors.first());
        match first {
            Some(error) => error.clone().into(),
            None => Self::Broken(Fault::scenario(error.to_string())),
        }
    }
}

/// The fault of a scenario that needs what the library does not have yet.
pub(crate) fn unsupported(what: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::Unsupported, what.to_string())
}

/// The kind of a task's failure: what its root says. `None` when the library itself failed (a store, a backend).
pub(crate) fn kind_of(error: &TaskError) -> Option<ErrorKind> {
    match error {
        TaskError::Deserialization { .. } => Some(ErrorKind::Undeserializable),
        TaskError::InvalidTimestamp { .. } => Some(ErrorKind::GaveUp),
        TaskError::Processing { source, .. } => root_kind(&**source),
        TaskError::Global { source } => match kind_of(source)? {
            ErrorKind::UserFunction => Some(ErrorKind::GlobalUserFunction),
            other => Some(other),
        },
        _ => None,
    }
}

/// The kind of the innermost error that has one.
fn root_kind(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    let mut kind = None;
    let mut next = Some(error);
    while let Some(error) = next {
        kind = kind_of_one(error).or(kind);
        next = error.source();
    }
    kind
}

fn kind_of_one(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    if let Some(fault) = error.downcast_ref::<Fault>() {
        return ErrorKind::of_fault(fault);
    }
    if let Some(usage) = error.downcast_ref::<UsageError>() {
        return ErrorKind::of_fault(&usage_fault(usage));
    }
    if let Some(serde) = error.downcast_ref::<SerdeError>() {
        return ErrorKind::of_fault(&serde_fault(serde));
    }
    error.downcast_ref::<NodeError>().and_then(|e| root_kind(e.cause()))
}

/// What the reference implementation would have thrown.
fn usage_fault(error: &UsageError) -> Fault {
    let kind = match error {
        UsageError::NegativeTimestamp(_)
        | UsageError::EmptyWindow(_)
        | UsageError::NoTopic(_)
        | UsageError::ZeroInterval => FaultKind::IllegalArgument,
        UsageError::NullStoreKey { .. } => FaultKind::NullPointer,
        _ => FaultKind::GaveUp,
    };
    Fault::new(kind, error.to_string())
}

fn serde_fault(error: &SerdeError) -> Fault {
    let kind = match error {
        SerdeError::WrongType { .. } => FaultKind::ClassCast,
        _ => FaultKind::Serialization,
    };
    Fault::new(kind, error.to_string())
}

/// A failure of a store operator, as a fault of the program that used it.
pub(crate) fn store_fault(error: &NodeError) -> Fault {
    let cause = error.cause();
    if let Some(usage) = cause.downcast_ref::<UsageError>() {
        return usage_fault(usage);
    }
    if let Some(serde) = cause.downcast_ref::<SerdeError>() {
        return serde_fault(serde);
    }
    Fault::scenario(format!("the store failed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_processor::TaskId;

    fn processing(source: impl Into<Box<dyn Error + Send + Sync>>) -> TaskError {
        let task = TaskId { subtopology: 0, partition: 0 };
        let (node, at) = ("n".into(), String::new());
        TaskError::Processing { task, node, at, source: source.into() }
    }

    #[test]
    fn the_kind_of_a_failure_is_that_of_its_root() {
        let fault = |kind| Fault::new(kind, "");
        let wrong_type = SerdeError::WrongType { expected: "long", found: "string" };
        let cases = [
            (processing(fault(FaultKind::IllegalState)), ErrorKind::UserFunction),
            (processing(fault(FaultKind::GaveUp)), ErrorKind::GaveUp),
            (processing(wrong_type.clone()), ErrorKind::Unserializable),
            (processing(NodeError::from(wrong_type)), ErrorKind::Unserializable),
            (processing(NodeError::user(fault(FaultKind::NullPointer))), ErrorKind::UserFunction),
            (processing(UsageError::NegativeTimestamp(-2)), ErrorKind::IllegalArgument),
            (processing(UsageError::NoTopic("n".into())), ErrorKind::IllegalArgument),
        ];
        for (error, kind) in cases {
            assert_eq!(kind_of(&error), Some(kind), "{error:?}");
        }
        assert_eq!(kind_of(&processing("text")), None);
    }

    #[test]
    fn a_refused_topology_is_invalid_or_has_an_illegal_parameter() {
        let kind = |error| match Stop::from(error) {
            Stop::Refused(kind, _) => Some(kind),
            _ => None,
        };
        assert_eq!(kind(TopologyError::Empty), Some(ErrorKind::InvalidTopology));
        let negative = TopologyError::IllegalArgument("negative".into());
        assert_eq!(kind(negative), Some(ErrorKind::IllegalParameter));
    }
}
