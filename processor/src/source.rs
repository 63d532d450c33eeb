//! Sources: from bytes to typed records.

use std::sync::Arc;

use thalweg_connectors::{
    Headers, Offset, OffsetReset, RecordRef, SerdeError, SharedSerde, Timestamp, Topic,
};

use crate::config::{TaskConfig, TimestampPolicy};
use crate::context::Context;
use crate::error::{BoxError, NodeError};
use crate::record::Record;
use crate::topology::{SourceDef, TopicRef};

/// Why a source could not hand a record on.
#[derive(Debug)]
pub enum SourceError {
    /// The bytes could not be decoded: the deserialization handler decides.
    Undecodable {
        /// `key` or `value`.
        field: &'static str,
        /// Why.
        error: SerdeError,
    },
    /// The timestamp extractor failed.
    Extractor(BoxError),
    /// A node below failed.
    Node(NodeError),
}

impl From<NodeError> for SourceError {
    fn from(e: NodeError) -> Self {
        Self::Node(e)
    }
}

/// What a timestamp extractor decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extracted {
    /// The record's time.
    At(Timestamp),
    /// Drop the record and count it.
    Skip,
    /// Stop: the timestamp is invalid.
    Invalid(Timestamp),
}

/// The decoding end of a source, in one task.
pub trait Source: Send {
    /// The time of a record; `partition_time` is the partition's highest so far, -1 at first.
    ///
    /// # Errors
    /// When the extractor needs the decoded record and cannot have it.
    fn timestamp(
        &mut self,
        raw: &RecordRef<'_>,
        partition_time: Timestamp,
        now: Timestamp,
    ) -> Result<Extracted, SourceError>;

    /// Is a record's time always its own timestamp, if it has one? Then [`timestamp`](Self::timestamp) is asked for the
    /// others only.
    fn keeps_timestamps(&self) -> bool {
        false
    }

    /// Decodes the record and hands it to the children.
    ///
    /// # Errors
    /// When it cannot be decoded, or a child failed.
    fn consume(
        &mut self,
        raw: &RecordRef<'_>,
        timestamp: Timestamp,
        headers: Headers,
        context: &mut Context<'_>,
    ) -> Result<(), SourceError>;
}

/// Given key, value, the record's own timestamp and the partition's highest so far, tells the record's time; a negative one
/// drops the record.
pub type ExtractorFn<K, V> =
    Arc<dyn Fn(&K, &V, Timestamp, Timestamp) -> Result<Timestamp, BoxError> + Send + Sync>;

/// Where a source's timestamps come from.
pub enum TimestampExtractor<K, V> {
    /// As `default.timestamp.extractor` says.
    Default,
    /// By this policy.
    Policy(TimestampPolicy),
    /// From the record.
    Custom(ExtractorFn<K, V>),
}

impl<K, V> Clone for TimestampExtractor<K, V> {
    fn clone(&self) -> Self {
        match self {
            Self::Default => Self::Default,
            Self::Policy(policy) => Self::Policy(*policy),
            Self::Custom(f) => Self::Custom(Arc::clone(f)),
        }
    }
}

struct TypedSource<K, V> {
    key: SharedSerde<K>,
    value: SharedSerde<V>,
    extractor: Result<ExtractorFn<K, V>, TimestampPolicy>,
    /// What was decoded for the extractor, so that it need not be decoded again.
    head: Option<(Place, K, V)>,
    /// The record under way, and after it what is left of it: the next one is read into its memory.
    slot: Option<Record<K, V>>,
}

/// Tells records of a task apart while they wait in their buffers: bytes that are there have a place of their own, and where there
/// are none, there is nothing to tell apart.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    offset: Offset,
    key: Option<(usize, usize)>,
    value: Option<(usize, usize)>,
}

impl Place {
    fn of(raw: &RecordRef<'_>) -> Self {
        let place = |bytes: &[u8]| (bytes.as_ptr().addr(), bytes.len());
        Self { offset: raw.offset, key: raw.key.map(place), value: raw.value.map(place) }
    }
}

impl<K: 'static, V: 'static> TypedSource<K, V> {
    #[inline]
    fn decode(&self, raw: &RecordRef<'_>) -> Result<(K, V), SourceError> {
        let key = self.key.read(raw.key);
        let key = key.map_err(|error| SourceError::Undecodable { field: "key", error })?;
        let value = self.value.read(raw.value);
        let value = value.map_err(|error| SourceError::Undecodable { field: "value", error })?;
        Ok((key, value))
    }

    /// Decodes into the slot.
    #[inline]
    fn fill_slot(
        &mut self,
        raw: &RecordRef<'_>,
        timestamp: Timestamp,
        headers: Headers,
    ) -> Result<(), SourceError> {
        let Some(spent) = &mut self.slot else {
            let (key, value) = self.decode(raw)?;
            self.slot = Some(Record { key, value, timestamp, headers });
            return Ok(());
        };
        let key = self.key.read_into(raw.key, &mut spent.key);
        key.map_err(|error| SourceError::Undecodable { field: "key", error })?;
        let value = self.value.read_into(raw.value, &mut spent.value);
        value.map_err(|error| SourceError::Undecodable { field: "value", error })?;
        (spent.timestamp, spent.headers) = (timestamp, headers);
        Ok(())
    }
}

impl<K: Clone + Send + 'static, V: Clone + Send + 'static> Source for TypedSource<K, V> {
    fn timestamp(
        &mut self,
        raw: &RecordRef<'_>,
        partition_time: Timestamp,
        now: Timestamp,
    ) -> Result<Extracted, SourceError> {
        let policy = match &self.extractor {
            Ok(custom) => {
                let place = Place::of(raw);
                let (key, value) = match self.head.take() {
                    Some((at, key, value)) if at == place => (key, value),
                    _ => self.decode(raw)?,
                };
                let time = custom(&key, &value, raw.timestamp, partition_time);
                let time = time.map_err(SourceError::Extractor)?;
                if time.0 < 0 {
                    return Ok(Extracted::Skip);
                }
                self.head = Some((place, key, value));
                return Ok(Extracted::At(time));
            }
            Err(policy) => *policy,
        };
        Ok(match policy {
            TimestampPolicy::WallClock => Extracted::At(now),
            _ if raw.timestamp.0 >= 0 => Extracted::At(raw.timestamp),
            TimestampPolicy::LogAndSkip => Extracted::Skip,
            TimestampPolicy::UsePartitionTime if partition_time.0 >= 0 => {
                Extracted::At(partition_time)
            }
            _ => Extracted::Invalid(raw.timestamp),
        })
    }

    fn keeps_timestamps(&self) -> bool {
        self.extractor.as_ref().is_err_and(|policy| *policy != TimestampPolicy::WallClock)
    }

    fn consume(
        &mut self,
        raw: &RecordRef<'_>,
        timestamp: Timestamp,
        headers: Headers,
        context: &mut Context<'_>,
    ) -> Result<(), SourceError> {
        match self.head.take_if(|(at, ..)| *at == Place::of(raw)) {
            Some((_, key, value)) => self.slot = Some(Record { key, value, timestamp, headers }),
            None => self.fill_slot(raw, timestamp, headers)?,
        }
        Ok(context.forward_slot(&mut self.slot)?)
    }
}

impl SourceDef {
    /// A source that reads one typed topic.
    pub fn typed<K, V>(topic: &Topic<K, V>) -> Self
    where
        K: Clone + Send + 'static,
        V: Clone + Send + 'static,
    {
        let names = vec![TopicRef::External(Arc::clone(topic.name()))];
        let serdes = (Arc::clone(topic.key_serde()), Arc::clone(topic.value_serde()));
        Self::new(names, serdes, TimestampExtractor::Default, None)
    }

    /// A source of several topics with the same serdes.
    pub fn new<K, V>(
        topics: Vec<TopicRef>,
        (key, value): (SharedSerde<K>, SharedSerde<V>),
        extractor: TimestampExtractor<K, V>,
        offset_reset: Option<OffsetReset>,
    ) -> Self
    where
        K: Clone + Send + 'static,
        V: Clone + Send + 'static,
    {
        let supplier = move |config: &TaskConfig| -> Box<dyn Source> {
            let extractor = match extractor.clone() {
                TimestampExtractor::Default => Err(config.timestamp_policy),
                TimestampExtractor::Policy(policy) => Err(policy),
                TimestampExtractor::Custom(f) => Ok(f),
            };
            let (key, value) = (Arc::clone(&key), Arc::clone(&value));
            Box::new(TypedSource { key, value, extractor, head: None, slot: None })
        };
        Self { topics, offset_reset, supplier: Arc::new(supplier) }
    }
}
