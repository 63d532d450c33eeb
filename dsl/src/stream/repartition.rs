//! `repartition`.

use thalweg_connectors::Datum;
use thalweg_processor::TopologyError;

use super::KStream;
use crate::marker::{Copartitioned, Keys};
use crate::options::Repartitioned;
use crate::repartition::{Repartition, prefix};

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Sends the stream through a topic of its own, so that equal keys meet in one partition. Records with a null key are left out,
    /// unless a left or outer join further down has results for them (KIP-962).
    ///
    /// Grouping and joining do this by themselves where it is needed; this is for a partition count or a partitioner of your choice.
    ///
    /// ```
    /// # use thalweg::{Repartitioned, StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let visits = Topic::<(), String>::new("visits");
    /// let by_page = builder
    ///     .stream(&visits)
    ///     .select_key(|(), page| page.clone())
    ///     .repartition(Repartitioned::named("by-page").partitions(12));
    /// # by_page.group_by_key();
    /// # by_page.to(&Topic::<String, String>::new("by-page"));
    /// ```
    #[track_caller]
    pub fn repartition(
        &self,
        options: impl Into<Repartitioned<K, V>>,
    ) -> KStream<K, V, Copartitioned> {
        let options = options.into();
        let graph = &self.place.graph;
        if options.partitions.is_some_and(|n| n < 1) {
            let what = "a repartition topic needs at least one partition";
            graph.error(TopologyError::IllegalArgument(what.into()));
        }
        let name = prefix(&options.name, || graph.processor_name("KSTREAM-REPARTITION-"));
        let serdes = options.serdes.or(&self.place.serdes);
        let repartition = Repartition::of(graph, &name, serdes)
            .explicit()
            .partitions(options.partitions)
            .partitioner(options.partitioner);
        KStream::at(repartition.add_behind(self.place.node))
    }
}
