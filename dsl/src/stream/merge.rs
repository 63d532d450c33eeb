//! `merge`.

use thalweg_connectors::Datum;
use thalweg_processor::{Context, NodeSupplier, Record};

use super::{KStream, stateless};
use crate::graph::{Effect, NodeSpec};
use crate::marker::Keys;
use crate::place::Place;
use crate::serdes::Known;

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Joins the records of another stream into this one; there is no order across the two. Keys are in place only if they are in
    /// both.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let web = builder.stream(&Topic::<String, i64>::new("web-orders"));
    /// # let shop = builder.stream(&Topic::<String, i64>::new("shop-orders"));
    /// let orders = web.merge(&shop);
    /// # orders.to(&Topic::<String, i64>::new("orders"));
    /// ```
    #[track_caller]
    pub fn merge<M2: Keys>(&self, other: &KStream<K, V, M2>) -> KStream<K, V, M::With<M2>> {
        let graph = self.place.graph.clone();
        let name = graph.processor_name("KSTREAM-MERGE-");
        let spec = NodeSpec::processor(name, pass_through::<K, V>()).effect(Effect::Merges);
        let node = graph.add(&[self.place.node, other.place.node], spec);
        // neither side's serdes are sure to fit both
        let serdes = Known::NONE;
        let sources = self.place.sources_with(&other.place.sources);
        let must_repartition = self.place.must_repartition || other.place.must_repartition;
        KStream::at(Place { graph, node, sources, serdes, must_repartition })
    }
}

/// A node that hands every record on.
pub(crate) fn pass_through<K: Datum, V: Datum>() -> NodeSupplier {
    stateless(|record: Record<K, V>, context: &mut Context<'_>| context.forward(record))
}
