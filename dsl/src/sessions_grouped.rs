//! [`SessionWindowedStream`]: aggregations of a grouped stream by session.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{Datum, SharedSerde};
use thalweg_processor::{BoxError, StoreDecl, TopologyError};

use crate::emit::EmitStrategy;
use crate::graph::NodeSpec;
use crate::grouped::KGroupedStream;
use crate::grouping::{Grouping, Stateful};
use crate::nodes::aggregate_fold::{Count, Reduce};
use crate::nodes::session_aggregate::{SessionStore, session_aggregate};
use crate::nodes::session_fold::{SessionAggregate, SessionFold};
use crate::nodes::table::Switch;
use crate::options::{IntoMaterialized, Materialized};
use crate::place::Place;
use crate::serdes::{Known, without_null};
use crate::session_windows::{SessionWindowedSerde, SessionWindows};
use crate::table::KTable;
use crate::table_rows::SessionRows;
use crate::table_store::{skip_a_number, store_name};
use crate::windows::{WindowKey, Windowed, WindowedBy, millis};

/// A grouped stream cut into sessions: what aggregations by session start from.
///
/// A record joins every session of its key that it is no further from than the gap. Those sessions are deleted, downstream as well,
/// and one session takes their place; its time is that of its last record, and it has the headers of the record that changed it.
///
/// A record with a null key is left out, and one whose session has closed; both are counted as dropped. A null value is not left
/// out: it counts, and keeps its session alive. Sessions are closed by the highest time that the aggregation has seen, which
/// survives a restart: gap and grace after their end.
///
/// ```
/// # use std::time::Duration;
/// # use thalweg::{I64Be, Nullable, SessionWindowedSerde, SessionWindows, StreamsBuilder, TaskConfig, TestDriver, Topic, Utf8, Windowed};
/// let clicks = Topic::<String, String>::new("clicks");
/// let visits = Topic::<Windowed<String>, Option<i64>>::with("visits", SessionWindowedSerde::new(Utf8), Nullable::new(I64Be));
///
/// let builder = StreamsBuilder::new();
/// let gap = Duration::from_secs(60);
/// builder
///     .stream(&clicks)
///     .group_by_key()
///     .windowed_by(SessionWindows::with_gap(gap).grace(gap))
///     .count("clicks-per-visit")
///     .to(&visits);
/// let topology = builder.build()?;
///
/// let mut driver = TestDriver::new(&topology, TaskConfig::new("visits"))?;
/// driver.input(&clicks).pipe("ann".to_owned(), "a".to_owned(), 0)?;
/// driver.input(&clicks).pipe("ann".to_owned(), "b".to_owned(), 50_000)?;
/// let told = driver.output(&visits).read_pairs()?;
/// let told: Vec<_> = told.iter().map(|(k, n)| (k.window.start_ms, k.window.end_ms, *n)).collect();
/// assert_eq!(told, [(0, 0, Some(1)), (0, 0, None), (0, 50_000, Some(2))]);
/// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct SessionWindowedStream<K: Datum, V, WK = Windowed<<K as Datum>::Inner>> {
    grouping: Grouping<K, V>,
    windows: SessionWindows,
    emit: EmitStrategy,
    window_key: PhantomData<fn() -> WK>,
}

impl<K: Datum, V: Datum> WindowedBy<K, V> for SessionWindows {
    type Stream = SessionWindowedStream<K, V>;

    fn over(self, grouped: &KGroupedStream<K, V>) -> Self::Stream {
        let grouping = grouped.grouping.clone();
        let emit = EmitStrategy::default();
        SessionWindowedStream { grouping, windows: self, emit, window_key: PhantomData }
    }
}

impl<K: Datum, V, WK> SessionWindowedStream<K, V, WK> {
    fn with_key_type<WK2>(&self) -> SessionWindowedStream<K, V, WK2> {
        let (grouping, windows, emit) = (self.grouping.clone(), self.windows, self.emit);
        SessionWindowedStream { grouping, windows, emit, window_key: PhantomData }
    }
}

impl<K: Datum, V, WK> Clone for SessionWindowedStream<K, V, WK> {
    fn clone(&self) -> Self {
        self.with_key_type()
    }
}

impl<K: Datum, V: Datum, WK: WindowKey<K::Inner>> SessionWindowedStream<K, V, WK> {
    /// Names key and session by another type than [`Windowed`].
    pub fn with_window_key<WK2: WindowKey<K::Inner>>(&self) -> SessionWindowedStream<K, V, WK2> {
        self.with_key_type()
    }

    /// Says when results go downstream. On close a session is told once, and sessions that became part of another never are.
    #[must_use]
    pub fn emit(mut self, emit: EmitStrategy) -> Self {
        self.emit = emit;
        self
    }

    /// Counts the records of each session.
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

    /// Joins the values of each session, and sessions that become one: see [`KGroupedStream::reduce`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use thalweg::{StreamsBuilder, SessionWindows, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let spent = builder.stream(&Topic::<String, i64>::new("spent")).group_by_key();
    /// let sessions = SessionWindows::with_gap(Duration::from_secs(60)).no_grace();
    /// let highest = spent.windowed_by(sessions).reduce("highest", |a, b| *a.max(b));
    /// # let _ = highest;
    /// ```
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

    /// Folds the values of each session in place, into a row that starts with `initial`; `merge` makes one row of two when sessions
    /// become one. Every session that a record joins is merged into a new initial row first, in the order of their ends.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use thalweg::{StreamsBuilder, SessionWindows, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let spent = builder.stream(&Topic::<String, i64>::new("spent")).group_by_key();
    /// let sessions = SessionWindows::with_gap(Duration::from_secs(60)).no_grace();
    /// let total = spent.windowed_by(sessions).aggregate(
    ///     "total",
    ///     || 0_i64,
    ///     |_customer, amount, total| *total += amount,
    ///     |_customer, one, other| one + other,
    /// );
    /// # let _ = total;
    /// ```
    #[track_caller]
    pub fn aggregate<A: Datum>(
        &self,
        store: impl IntoMaterialized<K::Inner, A::Inner>,
        initial: impl Fn() -> A + Send + Sync + 'static,
        fold: impl Fn(&K::Inner, &V, &mut A) + Send + Sync + 'static,
        merge: impl Fn(&K::Inner, A, A) -> A + Send + Sync + 'static,
    ) -> KTable<WK, A::Inner> {
        let fold = move |key: &K::Inner, value: &V, row: &mut A| {
            fold(key, value, row);
            Ok(())
        };
        let merge = move |key: &K::Inner, one: A, other: A| Ok(merge(key, one, other));
        self.try_aggregate(store, move || Ok(initial()), fold, merge)
    }

    /// As [`aggregate`](Self::aggregate), with closures that can fail.
    #[track_caller]
    pub fn try_aggregate<A: Datum>(
        &self,
        store: impl IntoMaterialized<K::Inner, A::Inner>,
        initial: impl Fn() -> Result<A, BoxError> + Send + Sync + 'static,
        fold: impl Fn(&K::Inner, &V, &mut A) -> Result<(), BoxError> + Send + Sync + 'static,
        merge: impl Fn(&K::Inner, A, A) -> Result<A, BoxError> + Send + Sync + 'static,
    ) -> KTable<WK, A::Inner> {
        let fold = SessionAggregate { initial, fold, merge };
        self.folded(store.into_materialized(), None, fold, "KSTREAM-AGGREGATE-")
    }

    #[track_caller]
    fn counted<C>(&self, store: Materialized<K::Inner, C::Inner>) -> KTable<WK, C::Inner>
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
        fold: impl SessionFold<K::Inner, V, S>,
        prefix: &str,
    ) -> KTable<WK, S> {
        let Place { graph, serdes, .. } = &self.grouping.place;
        let known = Known { key: serdes.key.clone().map(without_null), value };
        let store = store_name(graph, &materialized, prefix);
        let serdes = materialized.serdes.clone().or(&known);
        let key = graph.key_serde(serdes.key, &store);
        let value = graph.value_serde(serdes.value, &store);
        let retention = self.retention(&store, &materialized);
        let (for_key, for_value) = (Arc::clone(&key), Arc::clone(&value));
        let rows = SessionStore::session_shared(store.as_str(), retention, for_key, for_value);
        let (name, send_old) = (graph.processor_name(prefix), Switch::default());
        let (closes, switch) = ((self.windows, self.emit), send_old.clone());
        let supplier = session_aggregate::<K, V, WK, _, _>(fold, closes, rows.clone(), switch);
        let def = self.emit.apply(materialized.apply(rows.def().clone()));
        let spec = NodeSpec::processor(name, supplier)
            .grace_ms(self.windows.retention_ms())
            .store(def, materialized.placed);
        let Stateful { node, sources } = self.grouping.stateful(&store, spec);
        let serdes = Known::both(Arc::new(SessionWindowedSerde::shared(key)), value);
        let place = Place { graph: graph.clone(), node, sources, serdes, must_repartition: false };
        let queryable = materialized.name.given().cloned();
        KTable::at(place, Arc::new(SessionRows { store: rows, send_old }), queryable)
    }

    /// How long the store keeps sessions; a time that is too short is noted as a mistake.
    #[track_caller]
    fn retention<S>(&self, store: &str, materialized: &Materialized<K::Inner, S>) -> Duration {
        let needed_ms = self.windows.retention_ms();
        let retention_ms = materialized.retention.map_or(needed_ms, millis);
        if retention_ms < needed_ms {
            self.grouping.place.graph.error(TopologyError::IllegalArgument(format!(
                "the session store `{store}` keeps sessions for {retention_ms} ms, but gap and grace need {needed_ms} ms: retain them longer"
            )));
        }
        Duration::from_millis(retention_ms.unsigned_abs())
    }
}

impl<K: Datum, V, WK> fmt::Debug for SessionWindowedStream<K, V, WK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionWindowedStream").field(&self.windows).finish()
    }
}
