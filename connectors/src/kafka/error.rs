//! What an error of librdkafka means for the core.

use std::fmt::Display;

use kafka_protocol::ResponseError;

use super::ffi::{Code, Failure, code};
use crate::ports::{PortError, PortErrorKind};

/// What a code means for a call that changes nothing, or that may be made again. What Kafka's own clients try again is tried again.
pub(super) fn kind(code: Code) -> PortErrorKind {
    match code {
        code::TIMED_OUT
        | code::MESSAGE_TIMED_OUT
        | code::TRANSPORT
        | code::ALL_BROKERS_DOWN
        | code::RESOLVE
        | code::COORDINATOR_LOADING
        | code::COORDINATOR_NOT_AVAILABLE
        | code::NOT_COORDINATOR
        | code::LEADER_NOT_AVAILABLE
        | code::NOT_LEADER
        | code::CONFLICT
        | code::QUEUE_FULL
        | code::UNSTABLE_OFFSETS => PortErrorKind::Retriable,
        code::UNKNOWN_TOPIC | code::UNKNOWN_PARTITION | code::UNKNOWN_TOPIC_OR_PARTITION => {
            PortErrorKind::UnknownTopic
        }
        code::OFFSET_OUT_OF_RANGE | code::AUTO_OFFSET_RESET => PortErrorKind::OffsetOutOfRange,
        code::MESSAGE_TOO_LARGE
        | code::RECORD_LIST_TOO_LARGE
        | code::INVALID_TIMESTAMP
        | code::INVALID_RECORD
        | code::INVALID_TOPIC
        | code::TOPIC_EXISTS
        | code::INVALID_PARTITIONS
        | code::INVALID_REPLICATION
        | code::INVALID_CONFIG
        | code::INVALID_ARGUMENT
        | code::INVALID_TRANSACTION_TIMEOUT
        | code::POLICY_VIOLATION => PortErrorKind::Refused,
        code::BAD_MESSAGE | code::BAD_COMPRESSION => PortErrorKind::Corrupt,
        code::ILLEGAL_GENERATION
        | code::UNKNOWN_MEMBER_ID
        | code::FENCED_INSTANCE_ID
        | FENCED_MEMBER_EPOCH
        | STALE_MEMBER_EPOCH
        | code::FENCED
        | code::PRODUCER_FENCED
        | code::INVALID_PRODUCER_EPOCH => PortErrorKind::Fenced,
        code => match i16::try_from(code).ok().and_then(ResponseError::try_from_code) {
            Some(error) if error.is_retriable() => PortErrorKind::Retriable,
            _ => PortErrorKind::Fatal,
        },
    }
}

/// Codes of the protocol that only say that a member is not current.
const FENCED_MEMBER_EPOCH: Code = 110;
const STALE_MEMBER_EPOCH: Code = 113;

/// May this go away by itself, with librdkafka trying on?
pub(super) fn is_passing(code: Code) -> bool {
    matches!(kind(code), PortErrorKind::Retriable)
}

/// What librdkafka says when a broker hangs up on what it is told: on the first request, and on the second.
const HANGS_UP: [&str; 2] = ["security.protocol", "connection closed by peer"];

/// What may help, where that is not plain from the cause.
fn hint(failure: &Failure) -> &'static str {
    match failure.code {
        code::TIMED_OUT | code::TRANSPORT | code::ALL_BROKERS_DOWN
            if HANGS_UP.iter().any(|words| failure.text.contains(words)) =>
        {
            ": brokers hang up; do their listeners want TLS or SASL? kafka:// speaks plain text only, \
             give it the address of a PLAINTEXT listener"
        }
        code::TIMED_OUT | code::TRANSPORT | code::ALL_BROKERS_DOWN | code::RESOLVE => {
            ": no broker answers; is the cluster up, and are its addresses right?"
        }
        code::TOPIC_AUTHORIZATION => ": the client may not do this to the topic (ACL)",
        code::GROUP_AUTHORIZATION => ": the client may not use the group (ACL)",
        code::CLUSTER_AUTHORIZATION => ": the client may not do this in the cluster (ACL)",
        code::TRANSACTIONAL_ID_AUTHORIZATION => {
            ": the client may not use the transactional id (ACL)"
        }
        code::FENCED | code::PRODUCER_FENCED | code::INVALID_PRODUCER_EPOCH => {
            ": another producer took over its transactional id, or its transaction was open for longer than \
             transaction.timeout.ms; does another process work with a copy of this state directory?"
        }
        _ => "",
    }
}

/// A failed attempt, such as `describe topics`.
pub(super) fn failed(attempt: impl Display, failure: Failure) -> PortError {
    failed_as(kind(failure.code), attempt, failure)
}

/// A failed attempt, of another kind than its code says.
pub(super) fn failed_as(kind: PortErrorKind, attempt: impl Display, failure: Failure) -> PortError {
    PortError::new(kind, format!("cannot {attempt}{}", hint(&failure))).caused_by(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_broker_says_while_its_leaders_change_is_tried_again() {
        // REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS and its after-append, KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
        // OFFSET_NOT_AVAILABLE, THROTTLING_QUOTA_EXCEEDED
        for code in [7, 19, 20, 56, 74, 75, 78, 89] {
            assert_eq!(kind(code), PortErrorKind::Retriable, "{code}");
        }
    }

    #[test]
    fn what_does_not_pass_is_not_tried_again() {
        // TOPIC_AUTHORIZATION_FAILED, SECURITY_DISABLED, and codes that nobody knows
        for code in [29, 54, 9999, 1 << 20, -1000] {
            assert_eq!(kind(code), PortErrorKind::Fatal, "{code}");
        }
        assert_eq!(kind(code::PRODUCER_FENCED), PortErrorKind::Fenced);
    }
}
