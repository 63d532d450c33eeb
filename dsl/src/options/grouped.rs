//! [`Grouped`]: the name and serdes of a grouping.

use std::fmt;
use std::sync::Arc;

use thalweg_connectors::{DefaultSerde, Serde};

use super::{from_names, serde_setters};
use crate::name::Name;
use crate::serdes::Known;

/// How a stream or table is grouped. A name is enough in most cases.
///
/// The name is that of the repartition topic, `<application.id>-<name>-repartition`, if the grouping needs one.
pub struct Grouped<K, V> {
    pub(crate) name: Name,
    pub(crate) serdes: Known<K, V>,
}

serde_setters!(Grouped);
from_names!(Grouped);

impl<K, V> Grouped<K, V> {
    /// With a name, and the serdes that are known from upstream or that the types have.
    pub fn named(name: impl Into<Name>) -> Self {
        Self { name: name.into(), serdes: Known::NONE }
    }

    /// Without a name: the repartition topic is named after the store, as in Kafka Streams.
    pub fn kafka_generated() -> Self {
        Self::named(Name::kafka_generated())
    }

    /// With a name and serdes.
    pub fn with(name: impl Into<Name>, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self { name: name.into(), serdes: Known::both(Arc::new(key), Arc::new(value)) }
    }
}

impl<K, V> Clone for Grouped<K, V> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), serdes: self.serdes.clone() }
    }
}

impl<K, V> fmt::Debug for Grouped<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Grouped").field(&self.name).finish()
    }
}

/// What a grouping by a new key can be given as: a name when the key has a default serde, else a [`Grouped`].
pub trait IntoGrouped<K, V> {
    /// Converts.
    fn into_grouped(self) -> Grouped<K, V>;
}

impl<K, V> IntoGrouped<K, V> for Grouped<K, V> {
    fn into_grouped(self) -> Grouped<K, V> {
        self
    }
}

macro_rules! named {
    ($($name:ty),+) => {$(
        impl<K: DefaultSerde, V> IntoGrouped<K, V> for $name {
            fn into_grouped(self) -> Grouped<K, V> {
                Grouped { name: self.into(), serdes: Known { key: Some(K::default_serde()), value: None } }
            }
        }
    )+};
}
named!(&str, String, Name);
