//! [`StreamsBuilder`]: where topologies begin and end.

use std::any::TypeId;
use std::sync::Arc;

use thalweg_connectors::{Datum, Serde};
use thalweg_processor::{SourceDef, StoreDecl, TopicRef, Topology};

use crate::config::BuildConfig;
use crate::error::BuildError;
use crate::graph::{Graph, NodeSpec, Part, SourceRole};
use crate::options::Consumed;
use crate::place::Place;
use crate::serdes::Known;
use crate::stream::KStream;

/// Starts streams and tables, and completes the topology.
///
/// Operators record what they do and never fail; [`build`](Self::build) returns every mistake at once. After it the graph is frozen:
/// further use of a handle panics.
#[derive(Clone, Default)]
pub struct StreamsBuilder {
    pub(crate) graph: Graph,
}

impl StreamsBuilder {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads topics as a stream of records.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// let lines = Topic::<String, String>::new("lines");
    /// let builder = StreamsBuilder::new();
    /// builder.stream(&lines).to(&Topic::<String, String>::new("copy"));
    /// let topology = builder.build()?;
    /// # Ok::<_, thalweg::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// When the topology is built already.
    #[track_caller]
    pub fn stream<K: Datum, V: Datum>(&self, input: impl Into<Consumed<K, V>>) -> KStream<K, V> {
        let input = input.into();
        let name = self.graph.name_or(input.name.as_ref(), "KSTREAM-SOURCE-");
        let key = self.graph.key_serde(input.serdes.key, &name);
        let value = self.graph.value_serde(input.serdes.value, &name);
        let serdes = Known::both(Arc::clone(&key), Arc::clone(&value));
        let role = SourceRole {
            topics: input.topics.iter().map(ToString::to_string).collect(),
            types: TypeId::of::<(K, V)>(),
            offset_reset: input.offset_reset,
        };
        let topics = input.topics.into_iter().map(TopicRef::External).collect();
        let def = SourceDef::new(topics, (key, value), input.extractor, input.offset_reset);
        let node = self.graph.add(&[], NodeSpec::source(name, role, def));
        KStream::at(Place::source(self.graph.clone(), node, serdes))
    }

    /// Adds a store that processors connect to by name. A processor that is given the declaration needs no such call.
    ///
    /// # Panics
    /// When the topology is built already.
    #[track_caller]
    pub fn add_store(&self, store: &impl StoreDecl) -> &Self {
        let def = store.def().clone();
        let name = def.name.to_string();
        self.graph
            .add(&[], NodeSpec::custom(name, move |w| w.topology.add_store(def, &[]).map(drop)));
        self
    }

    /// Sets the serde of keys of a type, for steps that are given none and know none from upstream.
    ///
    /// # Panics
    /// When the topology is built already.
    #[track_caller]
    pub fn default_key_serde<K: 'static>(&self, serde: impl Serde<K>) -> &Self {
        self.graph.set_default::<K>(Part::Key, Arc::new(serde));
        self
    }

    /// Sets the serde of values of a type, for steps that are given none and know none from upstream.
    ///
    /// # Panics
    /// When the topology is built already.
    #[track_caller]
    pub fn default_value_serde<V: 'static>(&self, serde: impl Serde<V>) -> &Self {
        self.graph.set_default::<V>(Part::Value, Arc::new(serde));
        self
    }

    /// Completes the topology.
    ///
    /// # Errors
    /// Every mistake in it.
    ///
    /// # Panics
    /// When it is built already.
    #[track_caller]
    pub fn build(&self) -> Result<Topology, BuildError> {
        self.build_with(&BuildConfig::default())
    }

    /// Completes the topology, with options.
    ///
    /// # Errors
    /// Every mistake in it.
    ///
    /// # Panics
    /// When it is built already.
    #[track_caller]
    pub fn build_with(&self, config: &BuildConfig) -> Result<Topology, BuildError> {
        self.graph.build(config)
    }
}

impl std::fmt::Debug for StreamsBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StreamsBuilder")
    }
}
