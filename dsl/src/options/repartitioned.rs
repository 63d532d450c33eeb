//! [`Repartitioned`]: the name, serdes and size of a repartition topic.

use std::fmt;
use std::sync::Arc;

use thalweg_connectors::Serde;
use thalweg_processor::PartitionerFn;

use super::{from_names, partitioner_setters, serde_setters};
use crate::name::Name;
use crate::serdes::Known;

/// How a stream is repartitioned. A name is enough in most cases; the topic is `<application.id>-<name>-repartition`.
pub struct Repartitioned<K, V> {
    pub(crate) name: Name,
    pub(crate) serdes: Known<K, V>,
    pub(crate) partitions: Option<i32>,
    pub(crate) partitioner: Option<PartitionerFn<K, V>>,
}

serde_setters!(Repartitioned);
partitioner_setters!(Repartitioned);
from_names!(Repartitioned);

impl<K, V> Repartitioned<K, V> {
    /// With a name, and the serdes that are known from upstream or that the types have.
    pub fn named(name: impl Into<Name>) -> Self {
        Self { name: name.into(), serdes: Known::NONE, partitions: None, partitioner: None }
    }

    /// With a name and serdes.
    pub fn with(name: impl Into<Name>, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self { serdes: Known::both(Arc::new(key), Arc::new(value)), ..Self::named(name) }
    }

    /// With the name that Kafka Streams would generate.
    pub fn kafka_generated() -> Self {
        Self::named(Name::kafka_generated())
    }

    /// Fixes the number of partitions; by default there are as many as the stream has now.
    #[must_use]
    pub fn partitions(mut self, partitions: i32) -> Self {
        self.partitions = Some(partitions);
        self
    }
}

impl<K, V> fmt::Debug for Repartitioned<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Repartitioned").field(&self.name).field(&self.partitions).finish()
    }
}
