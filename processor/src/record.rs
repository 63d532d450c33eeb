//! Records as they travel between nodes, and where they came from.

use std::sync::Arc;

use thalweg_connectors::{Headers, Offset, Timestamp};

/// A record inside a topology.
///
/// ```
/// use thalweg_processor::Record;
/// let record = Record::new("k", 1, 10);
/// let doubled = record.clone().with_value(record.value * 2);
/// assert_eq!((doubled.key, doubled.value, doubled.timestamp.0), ("k", 2, 10));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Record<K, V> {
    /// The key.
    pub key: K,
    /// The value.
    pub value: V,
    /// When it happened, by the source's timestamp extractor or the operator that made it.
    pub timestamp: Timestamp,
    /// Headers; every operator hands them on.
    pub headers: Headers,
}

impl<K, V> Record<K, V> {
    /// A record without headers.
    pub fn new(key: K, value: V, timestamp: impl Into<Timestamp>) -> Self {
        Self { key, value, timestamp: timestamp.into(), headers: Headers::new() }
    }

    /// The same record with another key.
    pub fn with_key<K2>(self, key: K2) -> Record<K2, V> {
        Record { key, value: self.value, timestamp: self.timestamp, headers: self.headers }
    }

    /// The same record with another value.
    pub fn with_value<V2>(self, value: V2) -> Record<K, V2> {
        Record { key: self.key, value, timestamp: self.timestamp, headers: self.headers }
    }

    /// The same record at another time.
    #[must_use]
    pub fn with_timestamp(self, timestamp: impl Into<Timestamp>) -> Self {
        Self { timestamp: timestamp.into(), ..self }
    }

    /// The same record with other headers.
    #[must_use]
    pub fn with_headers(self, headers: Headers) -> Self {
        Self { headers, ..self }
    }
}

/// An update of a table: what the row is now, and what downstream knew before (only when a node below asked for it).
#[derive(Clone, Debug, PartialEq)]
pub struct Change<V> {
    /// The new row; `None` is a delete.
    pub new: Option<V>,
    /// The row before.
    pub old: Option<V>,
    /// Is this row newer than all that the table held? False only in versioned tables, for an update that came late: operators
    /// that work on the latest rows pass it over.
    pub is_latest: bool,
}

impl<V> Change<V> {
    /// An update to the latest row.
    pub fn latest(new: Option<V>, old: Option<V>) -> Self {
        Self { new, old, is_latest: true }
    }
}

/// Which source record is being processed; absent inside punctuations.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordMetadata {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: Offset,
}

/// What goes along with the record under way: its origin, and the time and headers it has now.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordContext {
    /// Where it came from; `None` inside punctuations.
    pub metadata: Option<RecordMetadata>,
    /// Its timestamp at this point of the topology.
    pub timestamp: Timestamp,
    /// Its headers at this point of the topology.
    pub headers: Headers,
}
