//! What is decided when a topology is built, not when it is written.

use std::collections::BTreeSet;

/// Where a store of the DSL lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum StoreType {
    /// On RocksDB.
    #[default]
    Persistent,
    /// In memory, rebuilt from its changelog at each start.
    InMemory,
}

/// A rewrite of the topology that keeps its results: `topology.optimization`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Optimization {
    /// A table's source topic serves as the changelog of its store.
    ReuseSourceTopics,
    /// Groupings of one re-keyed stream share a repartition topic.
    MergeRepartitionTopics,
    /// A stream that is joined with itself keeps its records once.
    SingleStoreSelfJoins,
}

/// Options of [`build_with`](crate::StreamsBuilder::build_with). The defaults are Kafka Streams'.
///
/// ```
/// use thalweg::{BuildConfig, StoreType};
/// let config = BuildConfig::new().default_store(StoreType::InMemory).explicit_names();
/// # let _ = config;
/// ```
#[derive(Clone, Debug, Default)]
pub struct BuildConfig {
    pub(crate) default_store: StoreType,
    pub(crate) explicit_names: bool,
    pub(crate) optimizations: BTreeSet<Optimization>,
}

impl BuildConfig {
    /// The defaults: stores on RocksDB, generated names where they were asked for.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where stores live that do not say: `dsl.store.type`.
    #[must_use]
    pub fn default_store(mut self, store: StoreType) -> Self {
        self.default_store = store;
        self
    }

    /// Refuses generated names of stores and repartition topics: `ensure.explicit.internal.resource.naming`.
    #[must_use]
    pub fn explicit_names(mut self) -> Self {
        self.explicit_names = true;
        self
    }

    /// Switches an optimization on.
    #[must_use]
    pub fn optimize(mut self, optimization: Optimization) -> Self {
        self.optimizations.insert(optimization);
        self
    }
}
