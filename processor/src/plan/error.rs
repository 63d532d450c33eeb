//! Why there can be no plan.

use thalweg_connectors::{PortError, PortErrorKind};

use crate::error::ErrorClass;

/// A topology that does not fit the topics there are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A topic that a source reads is not there.
    #[error("source topic `{topic}` does not exist: {hint}")]
    MissingSource {
        /// The topic.
        topic: String,
        /// What to do: similar names, or to create it.
        hint: String,
    },
    /// A topic that a sink writes is not there.
    #[error("output topic `{topic}` does not exist: {hint}")]
    MissingOutput {
        /// The topic.
        topic: String,
        /// What to do: similar names, or to create it.
        hint: String,
    },
    /// Topics that are read together by key have different numbers of partitions.
    #[error(
        "topics read together by key need equal partition counts, but `{first}` has {first_partitions} and `{second}` has \
         {second_partitions}; repartition one of the two streams, or make the topic anew"
    )]
    NotCopartitioned {
        /// A topic.
        first: String,
        /// How many partitions it has.
        first_partitions: i32,
        /// Another one.
        second: String,
        /// How many partitions that has.
        second_partitions: i32,
    },
    /// A repartition topic whose number of partitions follows from nothing.
    #[error(
        "the number of partitions of repartition topic `{0}` follows from no source topic; give it explicitly"
    )]
    UnknownPartitions(String),
    /// An internal topic is there with another number of partitions.
    #[error(
        "internal topic `{topic}` has {found} partitions, but {needed} are needed; it is never made anew by itself: reset the \
         application, or choose another application id"
    )]
    WrongPartitions {
        /// The topic.
        topic: String,
        /// How many it has.
        found: i32,
        /// How many it needs.
        needed: i32,
    },
    /// An internal topic throws away what is needed.
    #[error(
        "internal topic `{topic}` has cleanup.policy={found} and would lose {loses}; set it to {needed}"
    )]
    WrongPolicy {
        /// The topic.
        topic: String,
        /// Its policy.
        found: String,
        /// The policy that it would be made with.
        needed: String,
        /// What it would lose.
        loses: &'static str,
    },
    /// An internal topic that committed work relies on is not there any more.
    #[error(transparent)]
    LostTopic(#[from] LostTopic),
    /// The backend could not be asked, or refused to make a topic.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// An internal topic that committed work relies on is not there any more, or another one of its name is. It is never made anew:
/// the application would go on with a part of its data.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "internal topic `{topic}` {what}; what it held is lost, so `{application_id}` does not go on; to start anew, stop all \
     instances and reset the application: delete the committed offsets of group `{application_id}`, its internal topics \
     and its state directories"
)]
pub struct LostTopic {
    pub(crate) topic: String,
    pub(crate) application_id: String,
    pub(crate) what: &'static str,
}

impl LostTopic {
    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }
}

impl PlanError {
    /// What a caller does about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Port(e) if e.kind() == PortErrorKind::Retriable => ErrorClass::Retriable,
            _ => ErrorClass::Fatal,
        }
    }
}
