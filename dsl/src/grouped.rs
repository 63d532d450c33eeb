//! [`KGroupedStream`]: aggregations of a stream.

use std::fmt;
use std::sync::Arc;

use thalweg_connectors::{Datum, SharedSerde};
use thalweg_processor::{BoxError, StoreDecl};

use crate::graph::NodeSpec;
use crate::grouping::{Grouping, Stateful};
use crate::nodes::aggregate::stream_aggregate;
use crate::nodes::aggregate_fold::{Aggregate, Count, Fold, Reduce};
use crate::nodes::table::Switch;
use crate::options::{IntoMaterialized, Materialized};
use crate::place::Place;
use crate::serdes::{Known, without_null};
use crate::table::KTable;
use crate::table_rows::AggregateRows;
use crate::table_store::{Kept, row_store, skip_a_number, store_name};
use crate::windows::WindowedBy;

/// A stream that is grouped by its key: what aggregations start from.
///
/// Aggregations leave records with a null key or value out, and count them as dropped. The time of a row is the latest of the records
/// in it.
pub struct KGroupedStream<K, V> {
    pub(crate) grouping: Grouping<K, V>,
}

impl<K, V> KGroupedStream<K, V> {
    pub(crate) fn new(grouping: Grouping<K, V>) -> Self {
        Self { grouping }
    }
}

impl<K, V> Clone for KGroupedStream<K, V> {
    fn clone(&self) -> Self {
        Self { grouping: self.grouping.clone() }
    }
}

impl<K: Datum, V: Datum> KGroupedStream<K, V> {
    /// Counts the records of each key.
    ///
    /// ```
    /// use thalweg::{StreamsBuilder, Topic};
    ///
    /// let lines = Topic::<String, String>::new("lines");
    /// let totals = Topic::<String, i64>::new("word-totals");
    ///
    /// let builder = StreamsBuilder::new();
    /// builder
    ///     .stream(&lines)
    ///     .flat_map_values(|_, line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    ///     .group_by("by-word", |_, word| word.clone())
    ///     .count("word-counts")
    ///     .to_stream()
    ///     .to(&totals);
    /// # builder.build()?;
    /// # Ok::<_, thalweg::BuildError>(())
    /// ```
    #[track_caller]
    pub fn count(&self, store: impl Into<Materialized<K::Inner, i64>>) -> KTable<K::Inner, i64> {
        self.counted::<i64>(store.into())
    }

    /// As [`count`](Self::count), in another type than `i64`.
    #[track_caller]
    pub fn count_as<C>(
        &self,
        store: impl IntoMaterialized<K::Inner, C::Inner>,
    ) -> KTable<K::Inner, C::Inner>
    where
        C: Datum + From<i64>,
        C::Inner: TryInto<i64>,
    {
        self.counted::<C>(store.into_materialized())
    }

    /// Joins the values of each key, two at a time: the row so far, and the next value. The first value is the first row; a null
    /// result deletes the row.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let bids = Topic::<String, i64>::new("bids");
    /// let highest = builder.stream(&bids).group_by_key().reduce("highest", |a, b| *a.max(b));
    /// # highest.to(&bids);
    /// ```
    #[track_caller]
    pub fn reduce(
        &self,
        store: impl Into<Materialized<K::Inner, V::Inner>>,
        join: impl Fn(&V, &V) -> V + Send + Sync + 'static,
    ) -> KTable<K::Inner, V::Inner> {
        self.try_reduce(store, move |row, value| Ok(join(row, value)))
    }

    /// As [`reduce`](Self::reduce), with a closure that can fail.
    #[track_caller]
    pub fn try_reduce(
        &self,
        store: impl Into<Materialized<K::Inner, V::Inner>>,
        join: impl Fn(&V, &V) -> Result<V, BoxError> + Send + Sync + 'static,
    ) -> KTable<K::Inner, V::Inner> {
        let value = self.grouping.place.serdes.value.clone().map(without_null);
        self.folded(store.into(), value, Reduce(join), "KSTREAM-REDUCE-")
    }

    /// Folds the values of each key in place, into a row that starts with `initial`. When the row's type is an `Option`, folding to
    /// `None` deletes the row, and the next value starts anew.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let orders = Topic::<String, i64>::new("orders");
    /// let orders = builder.stream(&orders).group_by_key();
    /// let totals = orders.aggregate("totals", || 0_i64, |_customer, amount, total| *total += amount);
    /// let open = orders.aggregate("open", || Some(0_i64), |_customer, amount, open| {
    ///     *open = open.map(|n| n + amount).filter(|n| *n != 0);
    /// });
    /// # totals.to(&Topic::<String, i64>::new("totals"));
    /// # open.to(&Topic::<String, i64>::new("open"));
    /// ```
    #[track_caller]
    pub fn aggregate<A: Datum>(
        &self,
        store: impl IntoMaterialized<K::Inner, A::Inner>,
        initial: impl Fn() -> A + Send + Sync + 'static,
        fold: impl Fn(&K::Inner, &V, &mut A) + Send + Sync + 'static,
    ) -> KTable<K::Inner, A::Inner> {
        let fold = move |key: &K::Inner, value: &V, row: &mut A| {
            fold(key, value, row);
            Ok(())
        };
        self.try_aggregate(store, move || Ok(initial()), fold)
    }

    /// As [`aggregate`](Self::aggregate), with closures that can fail.
    #[track_caller]
    pub fn try_aggregate<A: Datum>(
        &self,
        store: impl IntoMaterialized<K::Inner, A::Inner>,
        initial: impl Fn() -> Result<A, BoxError> + Send + Sync + 'static,
        fold: impl Fn(&K::Inner, &V, &mut A) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> KTable<K::Inner, A::Inner> {
        let fold = Aggregate::new(initial, fold);
        self.folded(store.into_materialized(), None, fold, "KSTREAM-AGGREGATE-")
    }

    /// Cuts the stream into windows, so that aggregations have a row per key and window.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use thalweg::{I64Be, StreamsBuilder, TimeWindowedSerde, TimeWindows, Topic, Utf8, Windowed};
    /// # let builder = StreamsBuilder::new();
    /// # let views = Topic::<String, String>::new("views");
    /// let minute = Duration::from_secs(60);
    /// let per_minute = Topic::<Windowed<String>, i64>::with("per-minute", TimeWindowedSerde::new(Utf8, minute), I64Be);
    /// builder
    ///     .stream(&views)
    ///     .group_by_key()
    ///     .windowed_by(TimeWindows::of_size(minute).grace(Duration::from_secs(10)))
    ///     .count("views-per-minute")
    ///     .to(&per_minute);
    /// # builder.build()?;
    /// # Ok::<_, thalweg::BuildError>(())
    /// ```
    pub fn windowed_by<W: WindowedBy<K, V>>(&self, windows: W) -> W::Stream {
        windows.over(self)
    }

    #[track_caller]
    fn counted<C>(&self, store: Materialized<K::Inner, C::Inner>) -> KTable<K::Inner, C::Inner>
    where
        C: Datum + From<i64>,
        C::Inner: TryInto<i64>,
    {
        let prefix = "KSTREAM-AGGREGATE-";
        skip_a_number(&self.grouping.place.graph, &store, prefix);
        self.folded(store, None, Count::<C>::default(), prefix)
    }

    /// Adds the aggregation, behind a repartition topic if the keys are not in place.
    #[track_caller]
    fn folded<S: Datum>(
        &self,
        materialized: Materialized<K::Inner, S>,
        value: Option<SharedSerde<S>>,
        fold: impl Fold<K::Inner, V, S>,
        prefix: &str,
    ) -> KTable<K::Inner, S> {
        let Place { graph, serdes, .. } = &self.grouping.place;
        let known = Known { key: serdes.key.clone().map(without_null), value };
        let store = store_name(graph, &materialized, prefix);
        let Kept { store: rows, key, value } = row_store(graph, &store, &materialized, &known);
        let (name, send_old) = (graph.processor_name(prefix), Switch::default());
        let supplier = stream_aggregate::<K, V, _, _>(fold, rows.clone(), send_old.clone());
        let spec = NodeSpec::processor(name, supplier)
            .store(materialized.apply(rows.def().clone()), materialized.placed);
        let Stateful { node, sources } = self.grouping.stateful(&store, spec);
        let serdes = Known::both(key, value);
        let place = Place { graph: graph.clone(), node, sources, serdes, must_repartition: false };
        let queryable = materialized.name.given().cloned();
        KTable::at(place, Arc::new(AggregateRows { store: rows, send_old }), queryable)
    }
}

impl<K, V> fmt::Debug for KGroupedStream<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = (std::any::type_name::<K>(), std::any::type_name::<V>());
        f.debug_tuple("KGroupedStream").field(&types.0).field(&types.1).finish()
    }
}
