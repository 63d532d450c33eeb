//! [`KGroupedTable`]: a table re-grouped, and its aggregations.

use std::fmt;
use std::sync::{Arc, OnceLock};

use thalweg_connectors::{Datum, SharedSerde};
use thalweg_processor::{
    BoxError, InternalTopic, SinkDef, SourceDef, StoreDecl, TimestampExtractor, TimestampPolicy,
    TopicRef,
};

use crate::graph::{NodeId, NodeSpec, Writer};
use crate::name::Name;
use crate::nodes::aggregate::table_aggregate;
use crate::nodes::aggregate_fold::{
    Aggregate, AggregateTable, Count, Reduce, ReduceTable, TableFold,
};
use crate::nodes::table::Switch;
use crate::nodes::table_change::{ChangeEncoder, ChangeSerde};
use crate::nodes::table_regroup::regroup;
use crate::options::{IntoGrouped, IntoMaterialized, Materialized};
use crate::place::Place;
use crate::serdes::Known;
use crate::table::KTable;
use crate::table_rows::AggregateRows;
use crate::table_store::{Kept, row_store, store_name};

/// A table whose rows are grouped by a key made of them: what aggregations of a table start from.
///
/// When a row changes, its old value is subtracted from the group it was in and the new one added to the group it is in now. They
/// travel through a repartition topic: as one record when the group stays the same, so that a group does not flicker, else as two.
pub struct KGroupedTable<K, V> {
    place: Place<K, V>,
    name: Name,
    /// The repartition node; a named one serves all aggregations of this grouping.
    repartition: Arc<OnceLock<NodeId>>,
}

impl<K, V> Clone for KGroupedTable<K, V> {
    fn clone(&self) -> Self {
        let (place, name) = (self.place.clone(), self.name.clone());
        Self { place, name, repartition: Arc::clone(&self.repartition) }
    }
}

impl<K: Datum<Inner = K>, V: Datum<Inner = V>> KTable<K, V> {
    /// Groups the rows by a key of your choice, through a repartition topic of that name. A row without a group or a value (`None`)
    /// is left out.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # #[derive(Clone)] struct Driver { area: String, seats: i64 }
    /// # thalweg::datum!(Driver);
    /// # let drivers = builder.table(&Topic::<String, String>::new("drivers"), "drivers")
    /// #     .map_values(|_, area| Driver { area: area.clone(), seats: 4 });
    /// let seats = drivers
    ///     .group_by("seats-by-area", |_id, driver| (driver.area.clone(), driver.seats))
    ///     .reduce("seats", |sum, seats| sum + seats, |sum, seats| sum - seats);
    /// # seats.to(&Topic::<String, i64>::new("seats"));
    /// # builder.build()?;
    /// # Ok::<_, thalweg::BuildError>(())
    /// ```
    #[track_caller]
    pub fn group_by<K2: Datum, W: Datum>(
        &self,
        options: impl IntoGrouped<K2::Inner, W::Inner>,
        select: impl Fn(&K, &V) -> (K2, W) + Send + Sync + 'static,
    ) -> KGroupedTable<K2::Inner, W::Inner> {
        self.try_group_by(options, move |key, row| Ok(select(key, row)))
    }

    /// As [`group_by`](Self::group_by), with a closure that can fail.
    #[track_caller]
    pub fn try_group_by<K2: Datum, W: Datum>(
        &self,
        options: impl IntoGrouped<K2::Inner, W::Inner>,
        select: impl Fn(&K, &V) -> Result<(K2, W), BoxError> + Send + Sync + 'static,
    ) -> KGroupedTable<K2::Inner, W::Inner> {
        let (options, graph) = (options.into_grouped(), &self.place.graph);
        let name = graph.name_or(options.name.given(), "KTABLE-SELECT-");
        let key = graph.key_serde(options.serdes.key, &name);
        let supplier = regroup::<K, V, K2, W, _>(select, Arc::clone(&key));
        self.rows.send_old(true);
        let serdes = Known { key: Some(key), value: options.serdes.value };
        let place = self.place.then(NodeSpec::processor(name, supplier), serdes);
        KGroupedTable { place, name: options.name, repartition: Arc::default() }
    }
}

impl<K: Datum<Inner = K>, V: Datum<Inner = V>> KGroupedTable<K, V> {
    /// Counts the rows of each group.
    #[track_caller]
    pub fn count(&self, store: impl Into<Materialized<K, i64>>) -> KTable<K, i64> {
        self.folded(store.into(), None, Count::<i64>::default(), "KTABLE-AGGREGATE-")
    }

    /// As [`count`](Self::count), in another type than `i64`.
    #[track_caller]
    pub fn count_as<C>(&self, store: impl IntoMaterialized<K, C::Inner>) -> KTable<K, C::Inner>
    where
        C: Datum + From<i64>,
        C::Inner: TryInto<i64>,
    {
        self.folded(store.into_materialized(), None, Count::<C>::default(), "KTABLE-AGGREGATE-")
    }

    /// Joins the values of each group, two at a time, with one function that adds a value to the row so far and one that subtracts
    /// it. A null result deletes the row.
    #[track_caller]
    pub fn reduce(
        &self,
        store: impl Into<Materialized<K, V>>,
        add: impl Fn(&V, &V) -> V + Send + Sync + 'static,
        subtract: impl Fn(&V, &V) -> V + Send + Sync + 'static,
    ) -> KTable<K, V> {
        let add = move |row: &V, value: &V| Ok(add(row, value));
        self.try_reduce(store, add, move |row, value| Ok(subtract(row, value)))
    }

    /// As [`reduce`](Self::reduce), with closures that can fail, and may return a null.
    #[track_caller]
    pub fn try_reduce(
        &self,
        store: impl Into<Materialized<K, V>>,
        add: impl Fn(&V, &V) -> Result<V, BoxError> + Send + Sync + 'static,
        subtract: impl Fn(&V, &V) -> Result<V, BoxError> + Send + Sync + 'static,
    ) -> KTable<K, V> {
        let fold = ReduceTable { add: Reduce(add), subtract: Reduce(subtract) };
        let value = self.place.serdes.value.clone();
        self.folded(store.into(), value, fold, "KTABLE-REDUCE-")
    }

    /// Folds the values of each group in place, into a row that starts with `initial`: `add` puts a value in, `subtract` takes one
    /// out. When the row's type is an `Option`, folding to `None` deletes the row.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let areas = Topic::<String, String>::new("areas");
    /// let drivers = builder.table(&areas, "areas").group_by("by-area", |id, area| (area.clone(), id.clone())).aggregate(
    ///     "drivers",
    ///     String::new,
    ///     |_area, id, list| list.push_str(id),
    ///     |_area, id, list| *list = list.replace(id, ""),
    /// );
    /// # drivers.to(&areas);
    /// ```
    #[track_caller]
    pub fn aggregate<A: Datum>(
        &self,
        store: impl IntoMaterialized<K, A::Inner>,
        initial: impl Fn() -> A + Send + Sync + 'static,
        add: impl Fn(&K, &V, &mut A) + Send + Sync + 'static,
        subtract: impl Fn(&K, &V, &mut A) + Send + Sync + 'static,
    ) -> KTable<K, A::Inner> {
        let add = move |key: &K, value: &V, row: &mut A| {
            add(key, value, row);
            Ok(())
        };
        let subtract = move |key: &K, value: &V, row: &mut A| {
            subtract(key, value, row);
            Ok(())
        };
        self.try_aggregate(store, move || Ok(initial()), add, subtract)
    }

    /// As [`aggregate`](Self::aggregate), with closures that can fail.
    #[track_caller]
    pub fn try_aggregate<A: Datum>(
        &self,
        store: impl IntoMaterialized<K, A::Inner>,
        initial: impl Fn() -> Result<A, BoxError> + Send + Sync + 'static,
        add: impl Fn(&K, &V, &mut A) -> Result<(), BoxError> + Send + Sync + 'static,
        subtract: impl Fn(&K, &V, &mut A) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> KTable<K, A::Inner> {
        let fold = AggregateTable { add: Aggregate::new(initial, add), subtract };
        self.folded(store.into_materialized(), None, fold, "KTABLE-AGGREGATE-")
    }

    /// Adds the aggregation behind the repartition topic.
    #[track_caller]
    fn folded<S: Datum>(
        &self,
        materialized: Materialized<K, S>,
        value: Option<SharedSerde<S>>,
        fold: impl TableFold<K, V, S>,
        prefix: &str,
    ) -> KTable<K, S> {
        let graph = &self.place.graph;
        let known = Known { key: self.place.serdes.key.clone(), value };
        let store = store_name(graph, &materialized, "KTABLE-AGGREGATE-");
        let Kept { store: rows, key, value } = row_store(graph, &store, &materialized, &known);
        let sink = graph.processor_name("KSTREAM-SINK-");
        let source = graph.processor_name("KSTREAM-SOURCE-");
        let (name, send_old) = (graph.processor_name(prefix), Switch::default());
        let (repartitioned, is_new) = self.repartitioned(&store, sink, source);
        if self.name.given().or(materialized.name.given()).is_none() {
            graph.note_generated("repartition topic", &format!("{store}-repartition"));
        }
        let supplier = table_aggregate::<K, V, _, _>(fold, rows.clone(), send_old.clone());
        let spec = NodeSpec::processor(name, supplier)
            .store(materialized.apply(rows.def().clone()), materialized.placed)
            .names_source(is_new.then_some(repartitioned));
        let serdes = Known::both(key, value);
        let place =
            Place::<K, V>::source(graph.clone(), repartitioned, Known::NONE).then(spec, serdes);
        let queryable = materialized.name.given().cloned();
        KTable::at(place, Arc::new(AggregateRows { store: rows, send_old }), queryable)
    }

    /// The repartition node in front of an aggregation, and whether it was made for it.
    #[track_caller]
    fn repartitioned(&self, store: &str, sink: String, source: String) -> (NodeId, bool) {
        let graph = &self.place.graph;
        if let (Some(&node), Some(_)) = (self.repartition.get(), self.name.given()) {
            graph.add_again(self.place.node, node);
            return (node, false);
        }
        let topic = format!("{}-repartition", self.name.given().map_or(store, |given| given));
        let node = graph.add(&[self.place.node], self.repartition_spec(topic, sink, source));
        let _ = self.repartition.set(node);
        (node, true)
    }

    #[track_caller]
    fn repartition_spec(&self, topic: String, sink: String, source: String) -> NodeSpec {
        let key = self.place.key_serde(None, &topic);
        let value = self.place.value_serde(None, &topic);
        let internal = TopicRef::Internal(topic.as_str().into());
        let encoder =
            ChangeEncoder::new(topic.as_str().into(), Arc::clone(&key), Arc::clone(&value));
        let (target, supplier) = SinkDef::fixed(internal.clone(), Arc::new(encoder)).build();
        let change: SharedSerde<_> = Arc::new(ChangeSerde(value));
        let extractor = TimestampExtractor::Policy(TimestampPolicy::FailOnInvalid);
        let def = SourceDef::new(vec![internal], (key, change), extractor, None);
        let generated = source.clone();
        NodeSpec::custom(source, move |w: &mut Writer<'_>| {
            // With the aggregation its source was named, and the sink has the same name.
            let given = w.name.strip_suffix("-source").filter(|_| w.name != generated);
            let sink = given.map_or(sink, |name| format!("{name}-sink"));
            w.topology.add_internal_topic(&topic, InternalTopic::default())?;
            w.topology.add_sink(&sink, target, supplier, w.parents)?;
            w.topology.add_source(w.name, def).map(drop)
        })
    }
}

impl<K, V> fmt::Debug for KGroupedTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = (std::any::type_name::<K>(), std::any::type_name::<V>());
        f.debug_tuple("KGroupedTable").field(&types.0).field(&types.1).finish()
    }
}
