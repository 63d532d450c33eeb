//! What all aggregations of a grouped stream share: the repartition topic in front of them, made when it is needed. It is Kafka
//! Streams' `GroupedStreamAggregateBuilder`.

use std::sync::{Arc, OnceLock};

use thalweg_connectors::Datum;

use crate::graph::{NodeId, NodeSpec};
use crate::name::Name;
use crate::options::Grouped;
use crate::place::{Place, Sources};
use crate::repartition::Repartition;

/// A grouped stream: `K` and `V` are the types that its node forwards, null included.
pub(crate) struct Grouping<K, V> {
    /// The node in front of the aggregations; its serdes are the given ones, else those known from upstream.
    pub(crate) place: Place<K, V>,
    name: Name,
    /// The repartition node; a named one serves all aggregations of this grouping.
    repartition: Arc<OnceLock<NodeId>>,
}

impl<K, V> Clone for Grouping<K, V> {
    fn clone(&self) -> Self {
        let (place, name) = (self.place.clone(), self.name.clone());
        Self { place, name, repartition: Arc::clone(&self.repartition) }
    }
}

/// A stateful node that was added behind a grouping.
pub(crate) struct Stateful {
    pub(crate) node: NodeId,
    /// The sources that feed it.
    pub(crate) sources: Sources,
}

impl<K: Datum, V: Datum> Grouping<K, V> {
    pub(crate) fn of(mut place: Place<K, V>, options: Grouped<K, V>) -> Self {
        place.serdes = options.serdes.or(&place.serdes);
        Self { place, name: options.name, repartition: Arc::default() }
    }

    /// What two handles of one grouping have in common.
    pub(crate) fn identity(&self) -> &Arc<OnceLock<NodeId>> {
        &self.repartition
    }

    /// The same grouping with a repartition topic of its own.
    pub(crate) fn apart(&self) -> Self {
        Self { place: self.place.clone(), name: self.name.clone(), repartition: Arc::default() }
    }

    /// Burns the numbers of a repartition topic that is there already.
    #[track_caller]
    pub(crate) fn burn_repartition(&self, store: &str) {
        let name = self.name.given().map_or(store, |given| given);
        drop(Repartition::of(&self.place.graph, name, self.place.serdes.clone()));
    }

    /// Adds an aggregation: its node takes `Record<K, V>`, in which a null key is possible: without a repartition
    /// topic, and with one that a left join uses too.
    ///
    /// `store` names the repartition topic when the grouping has no name.
    #[track_caller]
    pub(crate) fn stateful(&self, store: &str, spec: NodeSpec) -> Stateful {
        let graph = &self.place.graph;
        let (parent, sources) = match self.place.must_repartition {
            true => {
                let place = self.repartitioned(store);
                (place.node, place.sources)
            }
            false => (self.place.node, Arc::clone(&self.place.sources)),
        };
        Stateful { node: graph.add(&[parent], spec), sources }
    }

    /// The repartition node in front of an aggregation. Numbers are burned each time, also when the node is there already.
    #[track_caller]
    pub(crate) fn repartitioned(&self, store: &str) -> Place<K, V> {
        let place = &self.place;
        let name = self.name.given().map_or(store, |given| given);
        let repartition = Repartition::of(&place.graph, name, place.serdes.clone());
        match self.repartition.get() {
            Some(&node) if self.name.given().is_some() => {
                place.graph.add_again(place.node, node);
                Place::source(place.graph.clone(), node, place.serdes.clone())
            }
            _ => {
                let behind = repartition.add_behind(place.node);
                let _ = self.repartition.set(behind.node);
                behind
            }
        }
    }
}
