//! What the typed handles share: a node of the graph, where its records came in, and what is known of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_connectors::{Datum, SharedSerde};

use crate::graph::{Graph, NodeId, NodeSpec};
use crate::serdes::Known;

/// The source nodes that feed a node without a repartition topic in between.
pub(crate) type Sources = Arc<BTreeSet<NodeId>>;

/// A node of the graph as a typed handle sees it.
pub(crate) struct Place<K, V> {
    pub(crate) graph: Graph,
    pub(crate) node: NodeId,
    pub(crate) sources: Sources,
    /// The serdes known for what this node forwards.
    pub(crate) serdes: Known<K, V>,
    /// Kafka Streams' flag: a key was changed upstream, so that a key-based step needs a repartition topic.
    pub(crate) must_repartition: bool,
}

impl<K, V> Clone for Place<K, V> {
    fn clone(&self) -> Self {
        Self {
            graph: self.graph.clone(),
            node: self.node,
            sources: Arc::clone(&self.sources),
            serdes: self.serdes.clone(),
            must_repartition: self.must_repartition,
        }
    }
}

impl<K, V> Place<K, V> {
    /// A source: it feeds itself, and its keys are in place.
    pub(crate) fn source(graph: Graph, node: NodeId, serdes: Known<K, V>) -> Self {
        let sources = Arc::new(BTreeSet::from([node]));
        Self { graph, node, sources, serdes, must_repartition: false }
    }

    /// Adds a node behind this one; the same sources feed it.
    #[track_caller]
    pub(crate) fn then<K2, V2>(&self, spec: NodeSpec, serdes: Known<K2, V2>) -> Place<K2, V2> {
        let node = self.graph.add(&[self.node], spec);
        Place {
            graph: self.graph.clone(),
            node,
            sources: Arc::clone(&self.sources),
            serdes,
            must_repartition: self.must_repartition,
        }
    }

    /// The same place, whose keys have been changed.
    pub(crate) fn rekeyed(mut self) -> Self {
        self.must_repartition = true;
        self
    }

    /// All sources of both.
    pub(crate) fn sources_with(&self, other: &Sources) -> Sources {
        Arc::new(self.sources.union(other).copied().collect())
    }
}

impl<K: Datum, V: Datum> Place<K, V> {
    /// The key's serde for `whose` bytes; a missing one is noted as a mistake.
    #[track_caller]
    pub(crate) fn key_serde(&self, given: Option<SharedSerde<K>>, whose: &str) -> SharedSerde<K> {
        self.graph.key_serde(given.or_else(|| self.serdes.key.clone()), whose)
    }

    /// As [`key_serde`](Self::key_serde), for the value.
    #[track_caller]
    pub(crate) fn value_serde(&self, given: Option<SharedSerde<V>>, whose: &str) -> SharedSerde<V> {
        self.graph.value_serde(given.or_else(|| self.serdes.value.clone()), whose)
    }
}
