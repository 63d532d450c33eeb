//! [`Materialized`]: the store behind a table.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{DefaultSerde, Serde};
use thalweg_processor::StoreDef;

use super::{from_names, serde_setters};
use crate::config::StoreType;
use crate::name::Name;
use crate::serdes::Known;

/// How a table's store is kept. A name is enough in most cases.
///
/// ```
/// use thalweg::{I64Be, Materialized, Utf8};
/// let counts = Materialized::with("counts", Utf8, I64Be).in_memory().without_cache();
/// # let _: Materialized<String, i64> = counts;
/// ```
pub struct Materialized<K, V> {
    pub(crate) name: Name,
    pub(crate) serdes: Known<K, V>,
    pub(crate) placed: Option<StoreType>,
    /// Topic configuration of the changelog; `None`: no changelog.
    pub(crate) changelog: Option<BTreeMap<String, String>>,
    /// Do updates wait in the record cache?
    pub(crate) cached: bool,
    pub(crate) retention: Option<Duration>,
    /// Does it stand for an object of Java that has no name?
    pub(crate) unnamed: bool,
}

serde_setters!(Materialized);
from_names!(Materialized);

impl<K, V> Materialized<K, V> {
    /// With a name, and the serdes that are known from upstream or that the types have.
    pub fn named(name: impl Into<Name>) -> Self {
        Self {
            name: name.into(),
            serdes: Known::NONE,
            placed: None,
            changelog: Some(BTreeMap::new()),
            cached: true,
            retention: None,
            unnamed: false,
        }
    }

    /// With a name and serdes.
    pub fn with(name: impl Into<Name>, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self { serdes: Known::both(Arc::new(key), Arc::new(value)), ..Self::named(name) }
    }

    /// With the name that Kafka Streams would generate, as it does where a Java program passes no `Materialized`.
    pub fn kafka_generated() -> Self {
        Self::named(Name::kafka_generated())
    }

    /// With the name that Kafka Streams would generate where a Java program passes a `Materialized` without a name, such as
    /// `Materialized.with(key, value)`: generated names behind a `count` have higher numbers then.
    pub fn kafka_unnamed() -> Self {
        Self { unnamed: true, ..Self::kafka_generated() }
    }

    /// Keeps the store in memory only: it is rebuilt from its changelog at each start.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.placed = Some(StoreType::InMemory);
        self
    }

    /// Keeps the store on RocksDB, whatever the configuration's default is.
    #[must_use]
    pub fn persistent(mut self) -> Self {
        self.placed = Some(StoreType::Persistent);
        self
    }

    /// Switches the changelog off: the store is empty after it moved to another machine.
    #[must_use]
    pub fn without_changelog(mut self) -> Self {
        self.changelog = None;
        self
    }

    /// Sets topic configuration of the changelog, such as `segment.bytes`.
    #[must_use]
    pub fn changelog_config<A: Into<String>, B: Into<String>>(
        mut self,
        config: impl IntoIterator<Item = (A, B)>,
    ) -> Self {
        self.changelog = Some(config.into_iter().map(|(k, v)| (k.into(), v.into())).collect());
        self
    }

    /// Sends every update downstream at once. Else updates wait in the record cache, one per key and commit, as long as
    /// `statestore.cache.max.bytes` lasts.
    #[must_use]
    pub fn without_cache(mut self) -> Self {
        self.cached = false;
        self
    }

    /// Keeps windows for this long after their start; by default as long as they accept records.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Applies changelog and cache options to a store.
    pub(crate) fn apply(&self, mut def: StoreDef) -> StoreDef {
        def.logging.clone_from(&self.changelog);
        def.caching = self.cached;
        def
    }
}

impl<K, V> Clone for Materialized<K, V> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            serdes: self.serdes.clone(),
            placed: self.placed,
            changelog: self.changelog.clone(),
            cached: self.cached,
            retention: self.retention,
            unnamed: self.unnamed,
        }
    }
}

impl<K, V> fmt::Debug for Materialized<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Materialized").field(&self.name).finish()
    }
}

/// What the store of a new value type can be given as: a name when the type has a default serde, else a [`Materialized`].
pub trait IntoMaterialized<K, V> {
    /// Converts.
    fn into_materialized(self) -> Materialized<K, V>;
}

impl<K, V> IntoMaterialized<K, V> for Materialized<K, V> {
    fn into_materialized(self) -> Materialized<K, V> {
        self
    }
}

macro_rules! named {
    ($($name:ty),+) => {$(
        impl<K, V: DefaultSerde> IntoMaterialized<K, V> for $name {
            fn into_materialized(self) -> Materialized<K, V> {
                let mut materialized = Materialized::named(self);
                materialized.serdes.value = Some(V::default_serde());
                materialized
            }
        }
    )+};
}
named!(&str, String, Name);
