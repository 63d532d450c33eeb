//! [`KCogroupedStream`]: several grouped streams folded into one table.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{Datum, SharedSerde};
use thalweg_processor::{
    BoxError, Change, Context, NodeSupplier, Record, StoreDecl, StoreDef, TopologyError,
};

use crate::cogroup_member::{Initial, Member, MemberOf, Merge};
use crate::custom_windows::{CustomWindows, UnlimitedWindows};
use crate::cut::Cut;
use crate::graph::{Graph, NodeId, NodeSpec};
use crate::grouped::KGroupedStream;
use crate::nodes::session_aggregate::SessionStore;
use crate::nodes::table::Switch;
use crate::options::{IntoMaterialized, Materialized};
use crate::place::{Place, Sources};
use crate::serdes::{Known, without_null};
use crate::session_windows::{SessionWindowedSerde, SessionWindows};
use crate::sliding_windows::SlidingWindows;
use crate::stream::stateless;
use crate::table::KTable;
use crate::table_rows::{AggregateRows, SessionRows, WindowRows};
use crate::table_store::{Kept, row_store, store_name, window_store};
use crate::windows::{TimeWindows, WindowKey, Windowed, millis};

const PREFIX: &str = "COGROUPKSTREAM-AGGREGATE-";

/// Grouped streams of different values that are folded into rows `A` of one table, each by a function of its own.
///
/// Every stream's records meet the same row of their key; their topics need the same number of partitions. What the streams'
/// aggregations leave out and when they are late is as for each alone, by the times that each stream has seen itself. Results are told
/// with every update.
///
/// ```
/// use thalweg::{StreamsBuilder, TaskConfig, TestDriver, Topic};
///
/// let orders = Topic::<String, i64>::new("orders");
/// let refunds = Topic::<String, f64>::new("refunds");
/// let balances = Topic::<String, f64>::new("balances");
///
/// let builder = StreamsBuilder::new();
/// let refunded = builder.stream(&refunds).group_by_key();
/// builder
///     .stream(&orders)
///     .group_by_key()
///     .cogroup(|_customer, cents, balance: &mut f64| *balance += *cents as f64 / 100.0)
///     .cogroup(&refunded, |_customer, amount, balance| *balance -= amount)
///     .aggregate("balances", || 0.0)
///     .to(&balances);
/// let topology = builder.build()?;
///
/// let mut driver = TestDriver::new(&topology, TaskConfig::new("balances"))?;
/// driver.input(&orders).pipe("ann".to_owned(), 1250, 0)?;
/// driver.input(&refunds).pipe("ann".to_owned(), 2.0, 1)?;
/// let told = driver.output(&balances).read_pairs()?;
/// assert_eq!(told.last(), Some(&("ann".to_owned(), 10.5)));
/// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct KCogroupedStream<K, A> {
    graph: Graph,
    members: Vec<Arc<dyn Member<K, A>>>,
    name: Option<Arc<str>>,
}

impl<K, A> Clone for KCogroupedStream<K, A> {
    fn clone(&self) -> Self {
        let (graph, members) = (self.graph.clone(), self.members.clone());
        Self { graph, members, name: self.name.clone() }
    }
}

impl<K: Datum, V: Datum> KGroupedStream<K, V> {
    /// Begins a table that several grouped streams are folded into; this one by `fold`.
    pub fn cogroup<A: Datum>(
        &self,
        fold: impl Fn(&K::Inner, &V, &mut A) + Send + Sync + 'static,
    ) -> KCogroupedStream<K, A> {
        self.try_cogroup(move |key, value, row| {
            fold(key, value, row);
            Ok(())
        })
    }

    /// As [`cogroup`](Self::cogroup), with a closure that can fail.
    pub fn try_cogroup<A: Datum>(
        &self,
        fold: impl Fn(&K::Inner, &V, &mut A) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> KCogroupedStream<K, A> {
        let graph = self.grouping.place.graph.clone();
        let members = vec![MemberOf::of(&self.grouping, fold)];
        KCogroupedStream { graph, members, name: None }
    }
}

impl<K: Datum, A: Datum> KCogroupedStream<K, A> {
    /// Folds another grouped stream into the same table. One that is folded in already is folded by this function instead.
    #[must_use]
    pub fn cogroup<V: Datum>(
        self,
        other: &KGroupedStream<K, V>,
        fold: impl Fn(&K::Inner, &V, &mut A) + Send + Sync + 'static,
    ) -> Self {
        self.try_cogroup(other, move |key, value, row| {
            fold(key, value, row);
            Ok(())
        })
    }

    /// As [`cogroup`](Self::cogroup), with a closure that can fail.
    #[must_use]
    pub fn try_cogroup<V: Datum>(
        mut self,
        other: &KGroupedStream<K, V>,
        fold: impl Fn(&K::Inner, &V, &mut A) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        let member = MemberOf::of(&other.grouping, fold);
        match self.members.iter_mut().find(|known| known.is_of(other.grouping.identity())) {
            Some(known) => *known = member,
            None => self.members.push(member),
        }
        self
    }

    /// Names the operators that the streams go through: `<name>-cogroup-agg-0` and so on, and `<name>-cogroup-merge`.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Cuts the streams into windows of time, so that there is a row per key and window.
    pub fn windowed_by(&self, windows: impl Into<CogroupWindows>) -> WindowedCogroupedStream<K, A> {
        let cut = windows.into().0;
        if let Err(e) = cut.check() {
            self.graph.error(e);
        }
        WindowedCogroupedStream { streams: self.clone(), cut, window_key: PhantomData }
    }

    /// Cuts the streams into sessions, so that there is a row per key and session.
    pub fn windowed_by_session(&self, windows: SessionWindows) -> SessionCogroupedStream<K, A> {
        SessionCogroupedStream { streams: self.clone(), windows, window_key: PhantomData }
    }

    /// Folds the values of each key into a row that starts with `initial`.
    #[track_caller]
    pub fn aggregate(
        &self,
        store: impl IntoMaterialized<K::Inner, A::Inner>,
        initial: impl Fn() -> A + Send + Sync + 'static,
    ) -> KTable<K::Inner, A::Inner> {
        self.try_aggregate(store, move || Ok(initial()))
    }

    /// As [`aggregate`](Self::aggregate), with a closure that can fail.
    #[track_caller]
    pub fn try_aggregate(
        &self,
        store: impl IntoMaterialized<K::Inner, A::Inner>,
        initial: impl Fn() -> Result<A, BoxError> + Send + Sync + 'static,
    ) -> KTable<K::Inner, A::Inner> {
        let (materialized, initial): (_, Initial<A>) =
            (store.into_materialized(), Arc::new(initial));
        let store = store_name(&self.graph, &materialized, PREFIX);
        let known = self.known(None);
        let Kept { store: rows, key, value } =
            row_store(&self.graph, &store, &materialized, &known);
        let send_old = Switch::default();
        let part = |member: &dyn Member<K, A>| {
            member.plain(Arc::clone(&initial), rows.clone(), send_old.clone())
        };
        let kept = (rows.def().clone(), &materialized);
        let merge =
            stateless(|record: Record<K::Inner, Change<A::Inner>>, context: &mut Context<'_>| {
                context.forward(record)
            });
        let place = self.add(kept, part, (merge, None), Known::both(key, value));
        let queryable = materialized.name.given().cloned();
        KTable::at(place, Arc::new(AggregateRows { store: rows, send_old }), queryable)
    }

    /// What is known of keys and values: of the first stream that knows.
    fn known(&self, value: Option<SharedSerde<A::Inner>>) -> Known<K::Inner, A::Inner> {
        let key = self.members.iter().find_map(|member| member.key_serde());
        Known { key: key.map(without_null), value }
    }

    /// Adds a node per stream that folds it into the store, and the node that brings their updates together.
    #[track_caller]
    fn add<K2, V2>(
        &self,
        (def, materialized): (StoreDef, &Materialized<K::Inner, A::Inner>),
        part: impl Fn(&dyn Member<K, A>) -> NodeSupplier,
        (merge, grace_ms): (NodeSupplier, Option<i64>),
        serdes: Known<K2, V2>,
    ) -> Place<K2, V2> {
        let (graph, def) = (&self.graph, materialized.apply(def));
        let parents: Vec<(NodeId, Sources)> =
            self.members.iter().map(|member| member.parent(&def.name)).collect();
        let originals =
            self.members.iter().flat_map(|m| m.sources().iter().copied().collect::<Vec<_>>());
        graph.copartition(originals);
        let mut nodes = Vec::new();
        for (nth, (member, (parent, _))) in self.members.iter().zip(&parents).enumerate() {
            let suffix = format!("-cogroup-agg-{nth}");
            let name = graph.suffixed_or(self.name.as_ref(), &suffix, PREFIX);
            let mut spec = NodeSpec::processor(name, part(&**member));
            if let Some(grace_ms) = grace_ms {
                spec = spec.grace_ms(grace_ms);
            }
            nodes.push(graph.add(&[*parent], spec.store(def.clone(), materialized.placed)));
        }
        let name = graph.suffixed_or(self.name.as_ref(), "-cogroup-merge", "COGROUPKSTREAM-MERGE-");
        let node = graph.add(&nodes, NodeSpec::processor(name, merge));
        let sources = parents.iter().flat_map(|(_, sources)| sources.iter().copied()).collect();
        let (graph, sources) = (graph.clone(), Arc::new(sources));
        Place { graph, node, sources, serdes, must_repartition: false }
    }
}

impl<K, A> fmt::Debug for KCogroupedStream<K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KCogroupedStream").field("streams", &self.members.len()).finish()
    }
}

/// Windows of time that cogrouped streams can be cut into: made from any kind of them.
#[derive(Clone, Debug)]
pub struct CogroupWindows(Cut);

macro_rules! windows {
    ($($windows:ty => $cut:ident),+) => {$(
        impl From<$windows> for CogroupWindows {
            fn from(windows: $windows) -> Self {
                Self(Cut::$cut(windows))
            }
        }
    )+};
}
windows!(TimeWindows => Time, SlidingWindows => Sliding, UnlimitedWindows => Unlimited, CustomWindows => Custom);

/// Cogrouped streams cut into windows of time.
pub struct WindowedCogroupedStream<K: Datum, A, WK = Windowed<<K as Datum>::Inner>> {
    streams: KCogroupedStream<K, A>,
    cut: Cut,
    window_key: PhantomData<fn() -> WK>,
}

impl<K: Datum, A: Datum, WK: WindowKey<K::Inner>> WindowedCogroupedStream<K, A, WK> {
    /// Names key and window by another type than [`Windowed`].
    pub fn with_window_key<WK2: WindowKey<K::Inner>>(&self) -> WindowedCogroupedStream<K, A, WK2> {
        let (streams, cut) = (self.streams.clone(), self.cut.clone());
        WindowedCogroupedStream { streams, cut, window_key: PhantomData }
    }

    /// Names the operators: see [`KCogroupedStream::named`].
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.streams = self.streams.named(name);
        self
    }

    /// Folds the values of each key and window into a row that starts with `initial`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use thalweg::{StreamsBuilder, TimeWindows, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let clicks = builder.stream(&Topic::<String, String>::new("clicks")).group_by_key();
    /// # let views = builder.stream(&Topic::<String, i64>::new("views")).group_by_key();
    /// let activity = clicks
    ///     .cogroup(|_user, _click, n: &mut i64| *n += 1)
    ///     .cogroup(&views, |_user, views, n| *n += views)
    ///     .windowed_by(TimeWindows::of_size(Duration::from_secs(60)).no_grace())
    ///     .aggregate("activity", || 0);
    /// # let _ = activity;
    /// ```
    #[track_caller]
    pub fn aggregate(
        &self,
        store: impl IntoMaterialized<K::Inner, A::Inner>,
        initial: impl Fn() -> A + Send + Sync + 'static,
    ) -> KTable<WK, A::Inner> {
        self.try_aggregate(store, move || Ok(initial()))
    }

    /// As [`aggregate`](Self::aggregate), with a closure that can fail.
    #[track_caller]
    pub fn try_aggregate(
        &self,
        store: impl IntoMaterialized<K::Inner, A::Inner>,
        initial: impl Fn() -> Result<A, BoxError> + Send + Sync + 'static,
    ) -> KTable<WK, A::Inner> {
        let (streams, cut) = (&self.streams, &self.cut);
        let (materialized, initial): (_, Initial<A>) =
            (store.into_materialized(), Arc::new(initial));
        let store = store_name(&streams.graph, &materialized, PREFIX);
        let known = streams.known(None);
        let Kept { store: rows, key, value } =
            window_store(&streams.graph, &store, &materialized, &known, cut);
        let send_old = Switch::default();
        let part = |member: &dyn Member<K, A>| {
            member.windowed(Arc::clone(&initial), cut, rows.clone(), send_old.clone())
        };
        let serdes = Known::both(cut.serde(key), value);
        let merge = named::<K::Inner, WK, A::Inner>();
        let kept = (cut.apply(rows.def().clone()), &materialized);
        let place = streams.add(kept, part, (merge, Some(cut.grace_ms())), serdes);
        let queryable = materialized.name.given().cloned();
        KTable::at(place, Arc::new(WindowRows { store: rows, send_old }), queryable)
    }
}

impl<K: Datum, A, WK> Clone for WindowedCogroupedStream<K, A, WK> {
    fn clone(&self) -> Self {
        let (streams, cut) = (self.streams.clone(), self.cut.clone());
        Self { streams, cut, window_key: PhantomData }
    }
}

impl<K: Datum, A, WK> fmt::Debug for WindowedCogroupedStream<K, A, WK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WindowedCogroupedStream").field(&self.streams).field(&self.cut).finish()
    }
}

/// Cogrouped streams cut into sessions.
pub struct SessionCogroupedStream<K: Datum, A, WK = Windowed<<K as Datum>::Inner>> {
    streams: KCogroupedStream<K, A>,
    windows: SessionWindows,
    window_key: PhantomData<fn() -> WK>,
}

impl<K: Datum, A: Datum, WK: WindowKey<K::Inner>> SessionCogroupedStream<K, A, WK> {
    /// Names key and session by another type than [`Windowed`].
    pub fn with_window_key<WK2: WindowKey<K::Inner>>(&self) -> SessionCogroupedStream<K, A, WK2> {
        let (streams, windows) = (self.streams.clone(), self.windows);
        SessionCogroupedStream { streams, windows, window_key: PhantomData }
    }

    /// Names the operators: see [`KCogroupedStream::named`].
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.streams = self.streams.named(name);
        self
    }

    /// Folds the values of each session into a row that starts with `initial`; `merge` makes one row of two when sessions become one.
    #[track_caller]
    pub fn aggregate(
        &self,
        store: impl IntoMaterialized<K::Inner, A::Inner>,
        initial: impl Fn() -> A + Send + Sync + 'static,
        merge: impl Fn(&K::Inner, A, A) -> A + Send + Sync + 'static,
    ) -> KTable<WK, A::Inner> {
        let merge = move |key: &K::Inner, one: A, other: A| Ok(merge(key, one, other));
        self.try_aggregate(store, move || Ok(initial()), merge)
    }

    /// As [`aggregate`](Self::aggregate), with closures that can fail.
    #[track_caller]
    pub fn try_aggregate(
        &self,
        store: impl IntoMaterialized<K::Inner, A::Inner>,
        initial: impl Fn() -> Result<A, BoxError> + Send + Sync + 'static,
        merge: impl Fn(&K::Inner, A, A) -> Result<A, BoxError> + Send + Sync + 'static,
    ) -> KTable<WK, A::Inner> {
        let (streams, windows) = (&self.streams, self.windows);
        let (graph, materialized) = (&streams.graph, store.into_materialized());
        let (initial, merge): (Initial<A>, Merge<K::Inner, A>) =
            (Arc::new(initial), Arc::new(merge));
        let store = store_name(graph, &materialized, PREFIX);
        let known = streams.known(None);
        let Kept { key, value, .. } = row_store(graph, &store, &materialized, &known);
        let retention = self.retention(&store, &materialized);
        let (for_key, for_value) = (Arc::clone(&key), Arc::clone(&value));
        let rows = SessionStore::session_shared(store.as_str(), retention, for_key, for_value);
        let send_old = Switch::default();
        let part = |member: &dyn Member<K, A>| {
            let functions = (Arc::clone(&initial), Arc::clone(&merge));
            member.sessions(functions, windows, rows.clone(), send_old.clone())
        };
        let serdes =
            Known::both(Arc::new(SessionWindowedSerde::shared(key)) as SharedSerde<WK>, value);
        let merge = named::<K::Inner, WK, A::Inner>();
        let kept = (rows.def().clone(), &materialized);
        let place = streams.add(kept, part, (merge, Some(windows.retention_ms())), serdes);
        let queryable = materialized.name.given().cloned();
        KTable::at(place, Arc::new(SessionRows { store: rows, send_old }), queryable)
    }

    /// How long the store keeps sessions; a time that is too short is noted as a mistake.
    #[track_caller]
    fn retention(&self, store: &str, materialized: &Materialized<K::Inner, A::Inner>) -> Duration {
        let needed_ms = self.windows.retention_ms();
        let retention_ms = materialized.retention.map_or(needed_ms, millis);
        if retention_ms < needed_ms {
            self.streams.graph.error(TopologyError::IllegalArgument(format!(
                "the session store `{store}` keeps sessions for {retention_ms} ms, but gap and grace need {needed_ms} ms: retain them longer"
            )));
        }
        Duration::from_millis(retention_ms.unsigned_abs())
    }
}

impl<K: Datum, A, WK> Clone for SessionCogroupedStream<K, A, WK> {
    fn clone(&self) -> Self {
        let (streams, windows) = (self.streams.clone(), self.windows);
        Self { streams, windows, window_key: PhantomData }
    }
}

impl<K: Datum, A, WK> fmt::Debug for SessionCogroupedStream<K, A, WK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionCogroupedStream").field(&self.streams).field(&self.windows).finish()
    }
}

/// Names key and window by the type that was asked for.
fn named<K: Datum, WK: WindowKey<K>, V: Datum>() -> NodeSupplier {
    stateless(|record: Record<Windowed<K>, Change<V>>, context: &mut Context<'_>| {
        let Record { key: Windowed { key, window }, value, timestamp, headers } = record;
        context.forward(Record { key: WK::make(key, window), value, timestamp, headers })
    })
}
