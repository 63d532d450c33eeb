//! [`Produced`]: where and how a stream is written.

use std::fmt;
use std::sync::Arc;

use thalweg_connectors::{Accepts, Topic};
use thalweg_processor::{BoxError, PartitionerFn, RecordContext, TopicExtractorFn};

use super::{partitioner_setters, serde_setters};
use crate::serdes::Known;

/// Where records go.
pub(crate) enum Target<K, V> {
    /// To a topic that knows how it is written.
    Declared(Arc<dyn Accepts<K, V>>),
    /// To a topic of that name.
    Named(Arc<str>),
    /// Where the record says.
    Extracted(TopicExtractorFn<K, V>),
}

/// Where a stream is written, and how. A [`Topic`] is enough in most cases.
///
/// ```
/// use thalweg::{Produced, StreamsBuilder, Topic};
/// let builder = StreamsBuilder::new();
/// let orders = builder.stream(&Topic::<String, i64>::new("orders"));
/// let billed = Topic::<String, i64>::new("billed");
/// orders.to(Produced::to(&billed).partitioner(|_topic, _key, amount: &i64, partitions| (*amount % i64::from(partitions)) as i32));
/// ```
pub struct Produced<K, V> {
    pub(crate) target: Target<K, V>,
    pub(crate) serdes: Known<K, V>,
    pub(crate) partitioner: Option<PartitionerFn<K, V>>,
    pub(crate) name: Option<Arc<str>>,
}

serde_setters!(Produced);
partitioner_setters!(Produced);

impl<K: 'static, V: 'static> Produced<K, V> {
    fn new(target: Target<K, V>) -> Self {
        Self { target, serdes: Known::NONE, partitioner: None, name: None }
    }

    /// Writes to a topic.
    pub fn to<TK: 'static, TV: 'static>(topic: &Topic<TK, TV>) -> Self
    where
        Topic<TK, TV>: Accepts<K, V>,
    {
        Self::new(Target::Declared(Arc::new(topic.clone())))
    }

    /// Writes to a topic of that name, with the serdes that are known from upstream or that the types have.
    pub fn topic(name: impl Into<Arc<str>>) -> Self {
        Self::new(Target::Named(name.into()))
    }

    /// Writes each record to the topic that the closure names, with the serdes that are known from upstream or that the types
    /// have. The topics have to be there.
    pub fn dynamic(
        choose: impl Fn(&K, &V, &RecordContext) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::try_dynamic(move |key, value, context| Ok(Some(choose(key, value, context))))
    }

    /// As [`dynamic`](Self::dynamic), with a closure that can fail; `None` is an error of the record.
    pub fn try_dynamic(
        choose: impl Fn(&K, &V, &RecordContext) -> Result<Option<String>, BoxError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self::new(Target::Extracted(Arc::new(choose)))
    }

    /// Names the sink node.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl<K: 'static, V: 'static, TK: 'static, TV: 'static> From<&Topic<TK, TV>> for Produced<K, V>
where
    Topic<TK, TV>: Accepts<K, V>,
{
    fn from(topic: &Topic<TK, TV>) -> Self {
        Self::to(topic)
    }
}

impl<K: 'static, V: 'static> fmt::Debug for Produced<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target: &str = match &self.target {
            Target::Declared(topic) => topic.topic_name(),
            Target::Named(name) => name,
            Target::Extracted(_) => "by record",
        };
        f.debug_tuple("Produced").field(&target).finish()
    }
}
