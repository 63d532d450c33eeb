//! `merge`.

use thalweg_connectors::Datum;
use thalweg_processor::{Context, NodeSupplier, Record};

use super::{KStream, stateless};
use crate::graph::{Effect, NodeSpec};
use crate::marker::Keys;
use crate::place::Place;
use crate::serdes::Known;

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Joins the records of another stream into this one; there is no order across the two.
    ///
    /// Both are of one type: use [`keys_may_move`](Self::keys_may_move) on the one whose keys are in place if the other's may not
    /// be.
    #[track_caller]
    pub fn merge(&self, other: &Self) -> Self {
        let graph = self.place.graph.clone();
        let name = graph.processor_name("KSTREAM-MERGE-");
        let spec = NodeSpec::processor(name, pass_through::<K, V>()).effect(Effect::Merges);
        let node = graph.add(&[self.place.node, other.place.node], spec);
        // neither side's serdes are sure to fit both
        let serdes = Known::NONE;
        let sources = self.place.sources_with(&other.place.sources);
        let must_repartition = self.place.must_repartition || other.place.must_repartition;
        Self::at(Place { graph, node, sources, serdes, must_repartition })
    }
}

/// A node that hands every record on.
pub(super) fn pass_through<K: Datum, V: Datum>() -> NodeSupplier {
    stateless(|record: Record<K, V>, context: &mut Context<'_>| context.forward(record))
}
