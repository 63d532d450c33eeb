//! librdkafka, called directly: what the binding does not wrap, or wraps with an allocation, a copy or a queue too many.
//!
//! All `unsafe` of this crate is in this module, and no pointer leaves it. Everything that librdkafka hands out (messages, queues,
//! topics) holds the [`Client`] it came from, so that the client goes last, as librdkafka demands.
#![allow(unsafe_code, reason = "librdkafka is a C library; each call says why it is sound")]

mod admin;
mod client;
mod messages;
mod producer;

use std::ffi::{CStr, CString, c_char};

use rdkafka::bindings as sys;

pub(super) use admin::{
    At, NewTopicSpec, OffsetsAsked, Outcome, PartitionAnswer, RecordsDeleted, TopicAnswer,
    TopicsAsked, create_topics, delete_records, delete_topics, describe_topics, list_offsets,
    topic_names, topic_settings,
};
pub(super) use client::{Client, Role, check_setting};
pub(super) use messages::{Item, Queue};
pub(super) use producer::{Delivery, Topic};

/// An error code of Kafka (positive) or of librdkafka (negative); 0 is none.
pub(super) type Code = i32;

/// The codes that are told apart.
pub(super) mod code {
    use super::{Code, sys::rd_kafka_resp_err_t as E};

    macro_rules! codes {
        ($($ours:ident = $theirs:ident,)+) => {
            $(pub(in crate::kafka) const $ours: Code = E::$theirs as Code;)+
        };
    }

    codes! {
        BAD_MESSAGE = RD_KAFKA_RESP_ERR__BAD_MSG,
        BAD_COMPRESSION = RD_KAFKA_RESP_ERR__BAD_COMPRESSION,
        TIMED_OUT = RD_KAFKA_RESP_ERR__TIMED_OUT,
        MESSAGE_TIMED_OUT = RD_KAFKA_RESP_ERR__MSG_TIMED_OUT,
        TRANSPORT = RD_KAFKA_RESP_ERR__TRANSPORT,
        ALL_BROKERS_DOWN = RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN,
        RESOLVE = RD_KAFKA_RESP_ERR__RESOLVE,
        PARTITION_EOF = RD_KAFKA_RESP_ERR__PARTITION_EOF,
        UNKNOWN_PARTITION = RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION,
        UNKNOWN_TOPIC = RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
        QUEUE_FULL = RD_KAFKA_RESP_ERR__QUEUE_FULL,
        PURGED_IN_QUEUE = RD_KAFKA_RESP_ERR__PURGE_QUEUE,
        PURGED_IN_FLIGHT = RD_KAFKA_RESP_ERR__PURGE_INFLIGHT,
        INVALID_ARGUMENT = RD_KAFKA_RESP_ERR__INVALID_ARG,
        STATE = RD_KAFKA_RESP_ERR__STATE,
        CONFLICT = RD_KAFKA_RESP_ERR__CONFLICT,
        FENCED = RD_KAFKA_RESP_ERR__FENCED,
        AUTO_OFFSET_RESET = RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET,
        OFFSET_OUT_OF_RANGE = RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE,
        UNKNOWN_TOPIC_OR_PARTITION = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
        MESSAGE_TOO_LARGE = RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
        RECORD_LIST_TOO_LARGE = RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE,
        COORDINATOR_LOADING = RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE = RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
        NOT_COORDINATOR = RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
        LEADER_NOT_AVAILABLE = RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
        NOT_LEADER = RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        INVALID_TOPIC = RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION,
        ILLEGAL_GENERATION = RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
        UNKNOWN_MEMBER_ID = RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
        TOPIC_AUTHORIZATION = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
        GROUP_AUTHORIZATION = RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
        CLUSTER_AUTHORIZATION = RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED,
        TRANSACTIONAL_ID_AUTHORIZATION = RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        INVALID_TIMESTAMP = RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP,
        TOPIC_EXISTS = RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS,
        INVALID_PARTITIONS = RD_KAFKA_RESP_ERR_INVALID_PARTITIONS,
        INVALID_CONFIG = RD_KAFKA_RESP_ERR_INVALID_CONFIG,
        INVALID_REPLICATION = RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR,
        POLICY_VIOLATION = RD_KAFKA_RESP_ERR_POLICY_VIOLATION,
        INVALID_PRODUCER_EPOCH = RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH,
        INVALID_TRANSACTION_TIMEOUT = RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT,
        INVALID_RECORD = RD_KAFKA_RESP_ERR_INVALID_RECORD,
        FENCED_INSTANCE_ID = RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID,
        UNSTABLE_OFFSETS = RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT,
        PRODUCER_FENCED = RD_KAFKA_RESP_ERR_PRODUCER_FENCED,
    }
}

/// Functions whose answer may be a code of the broker that is newer than librdkafka, and which it passes on as it came. The binding
/// takes answers for values of an enum, where such a code has no place: these are declared with the integer that they are in C.
mod raw {
    use super::{Code, c_char, sys};

    unsafe extern "C" {
        pub(super) fn rd_kafka_err2str(code: Code) -> *const c_char;
        pub(super) fn rd_kafka_ConfigResource_error(
            resource: *const sys::rd_kafka_ConfigResource_t,
        ) -> Code;
        pub(super) fn rd_kafka_error_code(error: *const sys::rd_kafka_error_t) -> Code;
        pub(super) fn rd_kafka_event_error(event: *mut sys::rd_kafka_event_t) -> Code;
        pub(super) fn rd_kafka_topic_result_error(
            result: *const sys::rd_kafka_topic_result_t,
        ) -> Code;
    }
}

/// No error.
const NO_ERROR: Code = sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR as Code;

/// What librdkafka says of a call that failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text}")]
pub(super) struct Failure {
    /// The code.
    pub(super) code: Code,
    /// What it means, in librdkafka's words.
    pub(super) text: String,
    /// The client can do nothing any more.
    pub(super) fatal: bool,
    /// The same call may be made again.
    pub(super) retriable: bool,
    /// The open transaction has to be aborted.
    pub(super) abort: bool,
}

impl Failure {
    fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), fatal: false, retriable: false, abort: false }
    }

    /// A code without more words.
    fn check(code: Code) -> Result<(), Self> {
        if code == NO_ERROR { Ok(()) } else { Err(Self::new(code, describe(code))) }
    }

    /// An error object, which is freed.
    ///
    /// # Safety
    /// It is null or an error that the caller owns.
    unsafe fn take(error: *mut sys::rd_kafka_error_t) -> Result<(), Self> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: it is an error, and owned: nobody reads it after this.
        unsafe {
            let failure = Self::borrowed(error);
            sys::rd_kafka_error_destroy(error);
            Err(failure)
        }
    }

    /// An error object that somebody else frees.
    ///
    /// # Safety
    /// It is an error that lives during this call.
    unsafe fn borrowed(error: *const sys::rd_kafka_error_t) -> Self {
        // SAFETY: as above; the text is copied.
        unsafe {
            Self {
                code: raw::rd_kafka_error_code(error),
                text: text(sys::rd_kafka_error_string(error)),
                fatal: sys::rd_kafka_error_is_fatal(error) != 0,
                retriable: sys::rd_kafka_error_is_retriable(error) != 0,
                abort: sys::rd_kafka_error_txn_requires_abort(error) != 0,
            }
        }
    }
}

/// What a code means, in librdkafka's words.
pub(super) fn describe(code: Code) -> String {
    if sys::rd_kafka_resp_err_t::try_from(code).is_err() {
        return format!("error {code} of the broker");
    }
    // SAFETY: the text of a code that librdkafka knows is static.
    unsafe { text(raw::rd_kafka_err2str(code)) }
}

/// Copies a C string; null is empty.
///
/// # Safety
/// It is null or a terminated string that lives during this call.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: see above.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// A C string from text that must not hold a zero byte.
fn c_string(text: &str) -> Result<CString, Failure> {
    CString::new(text)
        .map_err(|_| Failure::new(code::INVALID_ARGUMENT, format!("{text:?} holds a zero byte")))
}

/// Room for an error text, for calls that write one.
struct ErrorText([c_char; 512]);

impl ErrorText {
    const fn new() -> Self {
        Self([0; 512])
    }

    fn pointer(&mut self) -> *mut c_char {
        self.0.as_mut_ptr()
    }

    const fn room(&self) -> usize {
        self.0.len()
    }

    fn read(&self) -> String {
        // SAFETY: librdkafka terminates what it writes, and it starts out as zeros.
        unsafe { text(self.0.as_ptr()) }
    }
}

/// Milliseconds for librdkafka, at least one unless it is zero.
fn millis(time: std::time::Duration) -> i32 {
    let rounded_up = time.as_micros().div_ceil(1000);
    i32::try_from(rounded_up).unwrap_or(i32::MAX)
}
