//! What can go wrong between a request and its reply, and what it means to the core.

use std::io;
use std::time::Duration;

use kafka_protocol::ResponseError;

use super::call::Versions;
use crate::ports::{PortError, PortErrorKind};

/// A failure of one request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// No connection came about, so nothing was sent.
    #[error("cannot connect to Kafka broker {broker}")]
    Unreachable { broker: String, source: io::Error },

    /// None of the brokers could be asked.
    #[error(
        "none of the Kafka brokers at {brokers} can be reached: are they running, and are the addresses right?"
    )]
    NoBroker { brokers: String, source: Box<WireError> },

    /// The reply did not come in time.
    #[error(
        "Kafka broker {broker} did not answer {request} within {waited:?}: is it overloaded or cut off?"
    )]
    TimedOut { broker: String, request: &'static str, waited: Duration },

    /// The connection ended before the reply came.
    #[error("the connection to Kafka broker {broker} broke during {request}")]
    Broken { broker: String, request: &'static str, source: io::Error },

    /// The reply is no reply.
    #[error(
        "what {broker} answered to {request} is not Kafka's protocol ({detail}): \
         is it a Kafka broker, and is this its plaintext port?"
    )]
    Garbled { broker: String, request: &'static str, detail: String },

    /// There is no version that both sides know.
    #[error(
        "Kafka broker {broker} offers {request} in {}; this client needs one of {} to {}: \
         use Apache Kafka 2.5 or newer, or a newer release of this library",
        offered(*.has), .needs.0, .needs.1
    )]
    Version { broker: String, request: &'static str, has: Option<Versions>, needs: Versions },

    /// The broker said no.
    #[error("Kafka broker {broker} refused {request} for {what}: {error} (error {}){}", .error.code(), advice(*.error))]
    Refused { broker: String, request: &'static str, what: String, error: ResponseError },
}

/// Result of a request.
pub(crate) type WireResult<T> = Result<T, WireError>;

fn offered(has: Option<Versions>) -> String {
    has.map_or("no version".into(), |(oldest, newest)| format!("versions {oldest} to {newest}"))
}

fn advice(error: ResponseError) -> &'static str {
    use ResponseError as E;
    match error {
        E::CoordinatorNotAvailable | E::CoordinatorLoadInProgress | E::NotCoordinator => {
            "; the group's coordinator is not ready, try again"
        }
        E::UnknownMemberId | E::IllegalGeneration | E::FencedMemberEpoch | E::StaleMemberEpoch => {
            "; the group has gone on without this member, which has to join again"
        }
        E::RebalanceInProgress => "; the group is sharing its work anew, try again",
        E::UnstableOffsetCommit => "; an open transaction holds an offset, ask again",
        E::InconsistentGroupProtocol => {
            "; the group has members of another kind: give this application an application.id of its own, \
             or stop the other members"
        }
        E::InvalidSessionTimeout => {
            "; choose a session timeout between the broker's group.min.session.timeout.ms and \
             group.max.session.timeout.ms"
        }
        E::GroupMaxSizeReached => "; the broker's group.max.size allows no more members",
        E::InvalidGroupId => "; choose another application.id",
        E::GroupAuthorizationFailed
        | E::TopicAuthorizationFailed
        | E::ClusterAuthorizationFailed => "; grant this client the rights it needs",
        E::OffsetMetadataTooLarge => {
            "; raise the broker's offset.metadata.max.bytes, or use fewer stores and inputs per task"
        }
        E::UnknownTopicOrPartition => "; was the topic deleted?",
        _ => "",
    }
}

impl WireError {
    /// The message with its causes: they belong into the line that is read.
    pub(crate) fn in_one_line(&self) -> String {
        match self {
            Self::Unreachable { source, .. } | Self::Broken { source, .. } => {
                format!("{self}: {source}")
            }
            Self::NoBroker { source, .. } => format!("{self} ({})", source.in_one_line()),
            _ => self.to_string(),
        }
    }

    /// What the broker answered, if it did.
    pub(crate) fn refusal(&self) -> Option<ResponseError> {
        match self {
            Self::Refused { error, .. } => Some(*error),
            _ => None,
        }
    }

    /// Is another broker the group's coordinator, or none yet?
    pub(crate) fn lost_coordinator(&self) -> bool {
        use ResponseError as E;
        matches!(
            self.refusal(),
            Some(E::CoordinatorNotAvailable | E::CoordinatorLoadInProgress | E::NotCoordinator)
        )
    }

    /// Has the connection to be made anew?
    pub(crate) fn lost_connection(&self) -> bool {
        !matches!(self, Self::Refused { .. } | Self::Version { .. })
    }

    /// May the broker have done what was asked without our knowing?
    pub(crate) fn may_have_happened(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::Broken { .. } | Self::Garbled { .. })
    }

    /// Can the same request succeed later?
    pub(crate) fn is_passing(&self) -> bool {
        self.kind() == PortErrorKind::Retriable
    }

    /// What it means to the core, for a request that may be repeated.
    pub(crate) fn kind(&self) -> PortErrorKind {
        use ResponseError as E;
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Broken { .. } => {
                PortErrorKind::Retriable
            }
            // A broker that cannot be talked to at all stays so.
            Self::NoBroker { source, .. } => source.kind(),
            Self::Garbled { .. } | Self::Version { .. } => PortErrorKind::Unsupported,
            Self::Refused { error, .. } => match error {
                E::UnknownMemberId
                | E::IllegalGeneration
                | E::FencedInstanceId
                | E::FencedMemberEpoch
                | E::StaleMemberEpoch
                | E::GroupIdNotFound => PortErrorKind::Fenced,
                E::RebalanceInProgress => PortErrorKind::Retriable,
                E::UnknownTopicOrPartition | E::UnknownTopicId => PortErrorKind::UnknownTopic,
                E::OffsetMetadataTooLarge
                | E::InvalidCommitOffsetSize
                | E::InconsistentGroupProtocol
                | E::InvalidSessionTimeout
                | E::InvalidGroupId
                | E::GroupMaxSizeReached => PortErrorKind::Refused,
                E::UnsupportedVersion => PortErrorKind::Unsupported,
                error if error.is_retriable() => PortErrorKind::Retriable,
                _ => PortErrorKind::Fatal,
            },
        }
    }
}

impl From<WireError> for PortError {
    fn from(error: WireError) -> Self {
        Self::new(error.kind(), error.in_one_line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(error: ResponseError) -> WireError {
        let what = "group \"orders\"".to_owned();
        WireError::Refused { broker: "kafka:9092".into(), request: "Heartbeat", what, error }
    }

    #[test]
    fn a_refusal_says_who_refused_what_and_what_to_do() {
        assert_eq!(
            PortError::from(refused(ResponseError::UnknownMemberId)).to_string(),
            "Kafka broker kafka:9092 refused Heartbeat for group \"orders\": UnknownMemberId (error 25); \
             the group has gone on without this member, which has to join again"
        );
    }

    #[test]
    fn a_broker_that_is_too_old_is_told_from_one_that_is_away() {
        let version = WireError::Version {
            broker: "kafka:9092".into(),
            request: "JoinGroup",
            has: Some((0, 2)),
            needs: (5, 9),
        };
        assert_eq!(version.kind(), PortErrorKind::Unsupported);
        assert_eq!(
            version.to_string(),
            "Kafka broker kafka:9092 offers JoinGroup in versions 0 to 2; this client needs one of 5 to 9: \
             use Apache Kafka 2.5 or newer, or a newer release of this library"
        );
        let source = io::Error::from(io::ErrorKind::ConnectionRefused);
        let away = WireError::Unreachable { broker: "kafka:9092".into(), source };
        let away = WireError::NoBroker { brokers: "kafka:9092".into(), source: Box::new(away) };
        let away = PortError::from(away);
        assert_eq!(away.kind(), PortErrorKind::Retriable);
        assert!(away.to_string().contains("kafka:9092: connection refused"), "{away}");
    }

    #[test]
    fn every_refusal_has_a_meaning() {
        use ResponseError as E;
        let cases = [
            (E::IllegalGeneration, PortErrorKind::Fenced),
            (E::UnknownMemberId, PortErrorKind::Fenced),
            (E::NotCoordinator, PortErrorKind::Retriable),
            (E::CoordinatorLoadInProgress, PortErrorKind::Retriable),
            (E::CoordinatorNotAvailable, PortErrorKind::Retriable),
            (E::RebalanceInProgress, PortErrorKind::Retriable),
            (E::UnstableOffsetCommit, PortErrorKind::Retriable),
            (E::UnknownTopicOrPartition, PortErrorKind::UnknownTopic),
            (E::OffsetMetadataTooLarge, PortErrorKind::Refused),
            (E::InconsistentGroupProtocol, PortErrorKind::Refused),
            (E::GroupAuthorizationFailed, PortErrorKind::Fatal),
            (E::Unknown(999), PortErrorKind::Fatal),
        ];
        for (error, kind) in cases {
            assert_eq!(refused(error).kind(), kind, "{error}");
        }
    }
}
