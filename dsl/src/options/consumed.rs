//! [`Consumed`]: how a topic is read.

use std::fmt;
use std::sync::Arc;

use thalweg_connectors::{OffsetReset, Timestamp, Topic};
use thalweg_processor::{BoxError, TimestampExtractor, TimestampPolicy};

use super::serde_setters;
use crate::serdes::Known;

/// Topics that are read as one stream or table, and how. A [`Topic`] is enough in most cases.
///
/// ```
/// use thalweg::{Consumed, OffsetReset, StreamsBuilder, Topic};
/// let builder = StreamsBuilder::new();
/// let orders = Topic::<String, i64>::new("orders");
/// let newest = builder.stream(Consumed::from(&orders).and_topic("orders-eu").offset_reset(OffsetReset::Latest));
/// # let _ = newest;
/// ```
pub struct Consumed<K, V> {
    pub(crate) topics: Vec<Arc<str>>,
    pub(crate) serdes: Known<K, V>,
    pub(crate) extractor: TimestampExtractor<K, V>,
    pub(crate) offset_reset: Option<OffsetReset>,
    pub(crate) name: Option<Arc<str>>,
}

serde_setters!(Consumed);

impl<K, V> Consumed<K, V> {
    /// Reads a topic with the serdes that the builder or the types have.
    pub fn topic(name: impl Into<Arc<str>>) -> Self {
        Self {
            topics: vec![name.into()],
            serdes: Known::NONE,
            extractor: TimestampExtractor::Default,
            offset_reset: None,
            name: None,
        }
    }

    /// Reads one more topic into the same stream; there is no order across topics.
    #[must_use]
    pub fn and_topic(mut self, name: impl Into<Arc<str>>) -> Self {
        self.topics.push(name.into());
        self
    }

    /// Where to start when no offset was committed; else `auto.offset.reset` decides.
    #[must_use]
    pub fn offset_reset(mut self, reset: OffsetReset) -> Self {
        self.offset_reset = Some(reset);
        self
    }

    /// Takes the records' times by this policy; else `default.timestamp.extractor` decides.
    #[must_use]
    pub fn timestamp_policy(mut self, policy: TimestampPolicy) -> Self {
        self.extractor = TimestampExtractor::Policy(policy);
        self
    }

    /// Takes the time out of the record: given key, value, the record's own timestamp, and the highest one of its partition so far
    /// (-1 at first). A negative result drops the record.
    #[must_use]
    pub fn timestamps(
        self,
        extract: impl Fn(&K, &V, Timestamp, Timestamp) -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        self.try_timestamps(move |k, v, own, highest| Ok(extract(k, v, own, highest)))
    }

    /// As [`timestamps`](Self::timestamps), with a closure that can fail.
    #[must_use]
    pub fn try_timestamps(
        mut self,
        extract: impl Fn(&K, &V, Timestamp, Timestamp) -> Result<Timestamp, BoxError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.extractor = TimestampExtractor::Custom(Arc::new(extract));
        self
    }

    /// Names the source node.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl<K, V> From<&Topic<K, V>> for Consumed<K, V> {
    fn from(topic: &Topic<K, V>) -> Self {
        let serdes = Known::both(Arc::clone(topic.key_serde()), Arc::clone(topic.value_serde()));
        Self { serdes, ..Self::topic(Arc::clone(topic.name())) }
    }
}

impl<K, V> fmt::Debug for Consumed<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Consumed").field(&self.topics).finish()
    }
}
