//! What `build` reports.

use std::fmt;

use thalweg_processor::{ErrorClass, TopologyError};

/// Every mistake that [`build`](crate::StreamsBuilder::build) found, in the order in which the topology was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    errors: Vec<TopologyError>,
}

impl BuildError {
    pub(crate) fn new(errors: Vec<TopologyError>) -> Self {
        Self { errors }
    }

    /// The mistakes; at least one.
    pub fn errors(&self) -> &[TopologyError] {
        &self.errors
    }

    /// What a run loop does about it: a wrong topology stops everything.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::Fatal
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.errors[..] {
            [only] => write!(f, "the topology is invalid: {only}"),
            many => {
                write!(f, "the topology has {} mistakes:", many.len())?;
                many.iter().try_for_each(|e| write!(f, "\n  - {e}"))
            }
        }
    }
}

impl std::error::Error for BuildError {}
