//! [`StreamJoined`]: names, serdes and stores of a stream-stream join.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use thalweg_connectors::{Serde, SharedSerde};
use thalweg_processor::{StoreDef, StoreShape};

use crate::config::StoreType;
use crate::name::Name;

/// How two streams are joined. A name is enough in most cases: it names the stores, the operators, and the repartition topics
/// `<name>-left-repartition` and `<name>-right-repartition` if keys were changed upstream.
///
/// The stores are `<name>-this-join-store` and `<name>-other-join-store`, with `outer-` in front of the side that may lack a partner,
/// and the shared store of left and outer joins, `<name>-left-shared-join-store` or `<name>-outer-shared-join-store`.
pub struct StreamJoined<K, V, V2> {
    pub(crate) name: Name,
    pub(crate) stores: Name,
    pub(crate) key: Option<SharedSerde<K>>,
    pub(crate) value: Option<SharedSerde<V>>,
    pub(crate) other_value: Option<SharedSerde<V2>>,
    pub(crate) placed: Option<StoreType>,
    /// Topic configuration of the changelogs; `None`: no changelogs.
    pub(crate) changelog: Option<BTreeMap<String, String>>,
}

impl<K, V, V2> StreamJoined<K, V, V2> {
    /// With a name, and the serdes that are known from upstream or that the types have.
    pub fn named(name: impl Into<Name>) -> Self {
        let name = name.into();
        Self {
            stores: name.clone(),
            name,
            key: None,
            value: None,
            other_value: None,
            placed: None,
            changelog: Some(BTreeMap::new()),
        }
    }

    /// With the names that Kafka Streams would generate.
    pub fn kafka_generated() -> Self {
        Self::named(Name::kafka_generated())
    }

    /// Names the stores otherwise than the operators and repartition topics.
    #[must_use]
    pub fn stores(mut self, name: impl Into<Name>) -> Self {
        self.stores = name.into();
        self
    }

    /// Sets the key's serde.
    #[must_use]
    pub fn key_serde(mut self, serde: impl Serde<K>) -> Self {
        self.key = Some(Arc::new(serde));
        self
    }

    /// Sets the serde of this stream's values.
    #[must_use]
    pub fn value_serde(mut self, serde: impl Serde<V>) -> Self {
        self.value = Some(Arc::new(serde));
        self
    }

    /// Sets the serde of the other stream's values.
    #[must_use]
    pub fn other_value_serde(mut self, serde: impl Serde<V2>) -> Self {
        self.other_value = Some(Arc::new(serde));
        self
    }

    /// Keeps the stores in memory only: they are rebuilt from their changelogs at each start.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.placed = Some(StoreType::InMemory);
        self
    }

    /// Keeps the stores on RocksDB, whatever the configuration's default is.
    #[must_use]
    pub fn persistent(mut self) -> Self {
        self.placed = Some(StoreType::Persistent);
        self
    }

    /// Switches the changelogs off: the stores are empty after they moved to another machine.
    #[must_use]
    pub fn without_changelog(mut self) -> Self {
        self.changelog = None;
        self
    }

    /// Sets topic configuration of the changelogs, such as `segment.bytes`.
    #[must_use]
    pub fn changelog_config<A: Into<String>, B: Into<String>>(
        mut self,
        config: impl IntoIterator<Item = (A, B)>,
    ) -> Self {
        self.changelog = Some(config.into_iter().map(|(k, v)| (k.into(), v.into())).collect());
        self
    }

    /// Applies the changelog options to a store.
    pub(crate) fn apply(&self, mut def: StoreDef) -> StoreDef {
        def.logging.clone_from(&self.changelog);
        // The store of records without a partner does not, as in Kafka Streams.
        def.logs_headers = matches!(def.shape, StoreShape::Window { .. });
        def
    }
}

impl<K, V, V2> Clone for StreamJoined<K, V, V2> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            stores: self.stores.clone(),
            key: self.key.clone(),
            value: self.value.clone(),
            other_value: self.other_value.clone(),
            placed: self.placed,
            changelog: self.changelog.clone(),
        }
    }
}

impl<K, V, V2> fmt::Debug for StreamJoined<K, V, V2> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StreamJoined").field(&self.name).field(&self.stores).finish()
    }
}

impl<K, V, V2> From<&str> for StreamJoined<K, V, V2> {
    fn from(name: &str) -> Self {
        Self::named(name)
    }
}

impl<K, V, V2> From<String> for StreamJoined<K, V, V2> {
    fn from(name: String) -> Self {
        Self::named(name)
    }
}

impl<K, V, V2> From<Name> for StreamJoined<K, V, V2> {
    fn from(name: Name) -> Self {
        Self::named(name)
    }
}
