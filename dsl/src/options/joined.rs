//! [`Joined`]: the name and serdes of a stream-table join.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::Serde;

use super::{from_names, serde_setters};
use crate::name::Name;
use crate::serdes::Known;

/// How a stream is joined to a table.
pub struct Joined<K, V> {
    pub(crate) name: Name,
    pub(crate) serdes: Known<K, V>,
    pub(crate) grace: Option<Duration>,
}

serde_setters!(Joined);
from_names!(Joined);

impl<K, V> Joined<K, V> {
    /// With a name, and the serdes that are known from upstream or that the types have.
    pub fn named(name: impl Into<Name>) -> Self {
        Self { name: name.into(), serdes: Known::NONE, grace: None }
    }

    /// With a name and serdes.
    pub fn with(name: impl Into<Name>, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        let serdes = Known::both(Arc::new(key), Arc::new(value));
        Self { serdes, ..Self::named(name) }
    }

    /// Without a name: as Kafka Streams names it.
    pub fn kafka_generated() -> Self {
        Self::named(Name::kafka_generated())
    }
}

impl<K, V> fmt::Debug for Joined<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Joined").field(&self.name).field(&self.grace).finish()
    }
}
