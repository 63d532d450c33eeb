//! [`TimeWindowedStream`]: aggregations of a grouped stream by time window.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_connectors::{Datum, SharedSerde};
use thalweg_processor::{BoxError, StoreDecl};

use crate::custom_windows::{CustomWindows, UnlimitedWindows};
use crate::cut::{Cut, Folding};
use crate::emit::EmitStrategy;
use crate::graph::NodeSpec;
use crate::grouped::KGroupedStream;
use crate::grouping::{Grouping, Stateful};
use crate::nodes::aggregate_fold::{Aggregate, Count, Fold, Reduce};
use crate::nodes::table::Switch;
use crate::options::{IntoMaterialized, Materialized};
use crate::place::Place;
use crate::serdes::{Known, without_null};
use crate::sliding_windows::SlidingWindows;
use crate::table::KTable;
use crate::table_rows::WindowRows;
use crate::table_store::{Kept, skip_a_number, store_name, window_store};
use crate::windows::{TimeWindows, WindowKey, Windowed, WindowedBy};

/// A grouped stream cut into windows of time: what windowed aggregations start from.
///
/// A record with a null key is left out, and one that comes when its window has closed; both are counted as dropped. A null value
/// is not left out: it counts, and closes windows; only sliding windows leave it out, and count it as dropped. Windows are closed by
/// the highest time that the aggregation has seen, which survives a restart.
pub struct TimeWindowedStream<K: Datum, V, WK = Windowed<<K as Datum>::Inner>> {
    grouping: Grouping<K, V>,
    windows: Cut,
    emit: EmitStrategy,
    window_key: PhantomData<fn() -> WK>,
}

macro_rules! windowed_by {
    ($($windows:ty => $cut:ident),+) => {$(
        impl<K: Datum, V: Datum> WindowedBy<K, V> for $windows {
            type Stream = TimeWindowedStream<K, V>;

            fn over(self, grouped: &KGroupedStream<K, V>) -> Self::Stream {
                TimeWindowedStream::new(grouped, Cut::$cut(self))
            }
        }
    )+};
}
windowed_by!(TimeWindows => Time, SlidingWindows => Sliding, UnlimitedWindows => Unlimited, CustomWindows => Custom);

impl<K: Datum, V: Datum> TimeWindowedStream<K, V> {
    fn new(grouped: &KGroupedStream<K, V>, windows: Cut) -> Self {
        let grouping = grouped.grouping.clone();
        if let Err(e) = windows.check() {
            grouping.place.graph.error(e);
        }
        Self { grouping, windows, emit: EmitStrategy::default(), window_key: PhantomData }
    }
}

impl<K: Datum, V, WK> TimeWindowedStream<K, V, WK> {
    fn with_key_type<WK2>(&self) -> TimeWindowedStream<K, V, WK2> {
        let (grouping, windows, emit) = (self.grouping.clone(), self.windows.clone(), self.emit);
        TimeWindowedStream { grouping, windows, emit, window_key: PhantomData }
    }
}

impl<K: Datum, V, WK> Clone for TimeWindowedStream<K, V, WK> {
    fn clone(&self) -> Self {
        self.with_key_type()
    }
}

impl<K: Datum, V: Datum, WK: WindowKey<K::Inner>> TimeWindowedStream<K, V, WK> {
    /// Names key and window by another type than [`Windowed`].
    pub fn with_window_key<WK2: WindowKey<K::Inner>>(&self) -> TimeWindowedStream<K, V, WK2> {
        self.with_key_type()
    }

    /// Says when results go downstream.
    #[must_use]
    pub fn emit(mut self, emit: EmitStrategy) -> Self {
        if let Err(e) = self.windows.check_emit(emit) {
            self.grouping.place.graph.error(e);
        }
        self.emit = emit;
        self
    }

    /// Counts the records of each key and window.
    #[track_caller]
    pub fn count(&self, store: impl Into<Materialized<K::Inner, i64>>) -> KTable<WK, i64> {
        self.counted::<i64>(store.into())
    }

    /// As [`count`](Self::count), in another type than `i64`.
    #[track_caller]
    pub fn count_as<C>(
        &self,
        store: impl IntoMaterialized<K::Inner, C::Inner>,
    ) -> KTable<WK, C::Inner>
    where
        C: Datum + From<i64>,
        C::Inner: TryInto<i64>,
    {
        self.counted::<C>(store.into_materialized())
    }

    /// Joins the values of each key and window: see [`KGroupedStream::reduce`].
    #[track_caller]
    pub fn reduce(
        &self,
        store: impl Into<Materialized<K::Inner, V::Inner>>,
        join: impl Fn(&V, &V) -> V + Send + Sync + 'static,
    ) -> KTable<WK, V::Inner> {
        self.try_reduce(store, move |row, value| Ok(join(row, value)))
    }

    /// As [`reduce`](Self::reduce), with a closure that can fail.
    #[track_caller]
    pub fn try_reduce(
        &self,
        store: impl Into<Materialized<K::Inner, V::Inner>>,
        join: impl Fn(&V, &V) -> Result<V, BoxError> + Send + Sync + 'static,
    ) -> KTable<WK, V::Inner> {
        let value = self.grouping.place.serdes.value.clone().map(without_null);
        self.folded(store.into(), value, Reduce(join), "KSTREAM-REDUCE-")
    }

    /// Folds the values of each key and window in place: see [`KGroupedStream::aggregate`].
    #[track_caller]
    pub fn aggregate<A: Datum>(
        &self,
        store: impl IntoMaterialized<K::Inner, A::Inner>,
        initial: impl Fn() -> A + Send + Sync + 'static,
        fold: impl Fn(&K::Inner, &V, &mut A) + Send + Sync + 'static,
    ) -> KTable<WK, A::Inner> {
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
    ) -> KTable<WK, A::Inner> {
        let fold = Aggregate::new(initial, fold);
        self.folded(store.into_materialized(), None, fold, "KSTREAM-AGGREGATE-")
    }

    #[track_caller]
    fn counted<C>(&self, store: Materialized<K::Inner, C::Inner>) -> KTable<WK, C::Inner>
    where
        C: Datum + From<i64>,
        C::Inner: TryInto<i64>,
    {
        let prefix = "KSTREAM-AGGREGATE-";
        // Sliding windows came later, and need not be compatible with themselves.
        if !matches!(self.windows, Cut::Sliding(_)) {
            skip_a_number(&self.grouping.place.graph, &store, prefix);
        }
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
    ) -> KTable<WK, S> {
        let (Place { graph, serdes, .. }, windows) = (&self.grouping.place, &self.windows);
        let known = Known { key: serdes.key.clone().map(without_null), value };
        let store = store_name(graph, &materialized, prefix);
        let Kept { store: rows, key, value } =
            window_store(graph, &store, &materialized, &known, windows);
        let (name, send_old) = (graph.processor_name(prefix), Switch::default());
        let (emit, store_of_rows, switch) = (self.emit, rows.clone(), send_old.clone());
        let folding = Folding { fold, emit, store: store_of_rows, send_old: switch };
        let supplier = windows.aggregate::<K, V, WK, _, _>(folding);
        let def = self.emit.apply(windows.apply(materialized.apply(rows.def().clone())));
        let spec = NodeSpec::processor(name, supplier)
            .grace_ms(windows.grace_ms())
            .store(def, materialized.placed);
        let Stateful { node, sources } = self.grouping.stateful(&store, spec);
        let serdes = Known::both(windows.serde(key), value);
        let place = Place { graph: graph.clone(), node, sources, serdes, must_repartition: false };
        let queryable = materialized.name.given().cloned();
        KTable::at(place, Arc::new(WindowRows { store: rows, send_old }), queryable)
    }
}

impl<K: Datum, V, WK> fmt::Debug for TimeWindowedStream<K, V, WK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TimeWindowedStream").field(&self.windows).finish()
    }
}
