//! The words of the wire: partitions, offsets, timestamps and borrowed records.

use std::fmt;
use std::sync::Arc;

use crate::headers::HeadersRef;

/// Names one partition of one topic.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Names partition `partition` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl fmt::Debug for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A position in a partition: the number of a record, from 0, with gaps where markers and removed records lie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Offset(pub i64);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Milliseconds since 1970-01-01T00:00:00Z; negative when unknown or invalid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// No timestamp: what Kafka writes as -1. The backend stamps such a record when it appends it.
    pub const NONE: Self = Self(-1);
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<i64> for Timestamp {
    fn from(ms: i64) -> Self {
        Self(ms)
    }
}

/// A record as it lies in a client's buffer: nothing is copied.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp (create time or log-append time, as the topic has it).
    pub timestamp: Timestamp,
    /// The key's bytes; `None` is a null key.
    pub key: Option<&'a [u8]>,
    /// The value's bytes; `None` is a null value (a tombstone where that has a meaning).
    pub value: Option<&'a [u8]>,
    /// The headers, still packed.
    pub headers: HeadersRef<'a>,
}

/// A record to be appended: see [`Producer::send`](crate::Producer::send).
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// The key's bytes; `None` is a null key.
    pub key: Option<&'a [u8]>,
    /// The value's bytes; `None` is a null value.
    pub value: Option<&'a [u8]>,
    /// The timestamp; [`Timestamp::NONE`] lets the backend stamp it with its clock.
    pub timestamp: Timestamp,
    /// The headers.
    pub headers: HeadersRef<'a>,
}

impl NewRecord<'_> {
    /// Bytes of key, value and packed headers.
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.key.map_or(0, <[u8]>::len)
            + self.value.map_or(0, <[u8]>::len)
            + self.headers.packed().len()
    }
}
