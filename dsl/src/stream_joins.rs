//! Joins of a stream with a stream.

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{Datum, SharedSerde};
use thalweg_processor::{BoxError, NodeSupplier, StoreDecl, StoreDef, TopologyError};

use crate::graph::{Graph, JoinRole, NodeSpec, Writer};
use crate::join_windows::JoinWindows;
use crate::marker::Keys;
use crate::nodes::held::{HeldKeySerde, HeldValuesSerde};
use crate::nodes::join_self::join_self;
use crate::nodes::join_stream::{
    HeldStore, Mirrored, Side, SideStore, Straight, Waiting, join_side, keep,
};
use crate::options::StreamJoined;
use crate::place::Place;
use crate::serdes::{Known, without_null};
use crate::stream::{KStream, pass_through};

/// Which sides' records make results without a partner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Outer {
    left: bool,
    right: bool,
}

const INNER: Outer = Outer { left: false, right: false };
const LEFT: Outer = Outer { left: true, right: false };
const BOTH: Outer = Outer { left: true, right: true };

/// Stream-stream joins: records of one key meet when their times are no further apart than the windows say, in whatever order they
/// arrive. A result has the later time of the two, and the headers of the record that arrived last. Topics of both sides need the
/// same number of partitions; a stream whose keys were changed goes through a repartition topic first.
///
/// A record with a null value is dropped and counted. So is one with a null key, unless its side makes results without a partner: it
/// is joined with nothing at once. No record is dropped because it is late: it meets what the other side still keeps, which is for
/// the windows' size and grace behind that side's highest time.
///
/// A left or outer join makes a result without a partner when none can come any more: when stream time, the highest of both sides,
/// has passed the record's window and the grace period. The record that moves stream time there makes these results, in the order of
/// their times; they have its headers, and their own times. By then the record has been given up: a partner that comes later does
/// not meet it, so that a record never appears both with and without one. (Kafka Streams joins it once more, and tells a late record
/// without a partner before the grace period is over; `semantics=java` does the same.)
impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Joins records that meet.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::{JoinWindows, StreamsBuilder, TaskConfig, TestDriver, Topic};
    ///
    /// let orders = Topic::<String, String>::new("orders");
    /// let payments = Topic::<String, i64>::new("payments");
    /// let paid = Topic::<String, String>::new("paid");
    ///
    /// let builder = StreamsBuilder::new();
    /// let windows = JoinWindows::of_difference(Duration::from_secs(60)).no_grace();
    /// builder
    ///     .stream(&orders)
    ///     .join_stream("orders-payments", &builder.stream(&payments), windows, |_id, order, amount| {
    ///         format!("{order} for {amount}")
    ///     })
    ///     .to(&paid);
    /// let topology = builder.build()?;
    ///
    /// let mut driver = TestDriver::new(&topology, TaskConfig::new("paid"))?;
    /// driver.input(&payments).pipe("1".to_owned(), 10, 30_000)?;
    /// driver.input(&orders).pipe("1".to_owned(), "tea".to_owned(), 0)?;
    /// assert_eq!(driver.output(&paid).read_pairs()?, [("1".to_owned(), "tea for 10".to_owned())]);
    /// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[track_caller]
    pub fn join_stream<V2: Datum, W: Datum, M2: Keys>(
        &self,
        options: impl Into<StreamJoined<K, V, V2>>,
        other: &KStream<K, V2, M2>,
        windows: JoinWindows,
        join: impl Fn(&K, &V, &V2) -> W + Send + Sync + 'static,
    ) -> KStream<K, W> {
        let join = move |key: &K, left: &V, right: &V2| Ok(join(key, left, right));
        self.try_join_stream(options, other, windows, join)
    }

    /// As [`join_stream`](Self::join_stream), with a closure that can fail.
    #[track_caller]
    pub fn try_join_stream<V2: Datum, W: Datum, M2: Keys>(
        &self,
        options: impl Into<StreamJoined<K, V, V2>>,
        other: &KStream<K, V2, M2>,
        windows: JoinWindows,
        join: impl Fn(&K, &V, &V2) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KStream<K, W> {
        let join = move |key: &K, left: Option<&V>, right: Option<&V2>| match (left, right) {
            (Some(left), Some(right)) => join(key, left, right),
            _ => unreachable!("an inner join has values of both sides"),
        };
        self.joined_with(options.into(), other, (windows, INNER), join)
    }

    /// Joins records that meet, and those of this stream that lack a partner with nothing.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use thalweg::{JoinWindows, StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let orders = builder.stream(&Topic::<String, String>::new("orders"));
    /// # let payments = builder.stream(&Topic::<String, i64>::new("payments"));
    /// let windows = JoinWindows::of_difference(Duration::from_secs(60)).grace(Duration::from_secs(5));
    /// let checked = orders.left_join_stream("orders-payments", &payments, windows, |_id, order, amount| match amount {
    ///     Some(amount) => format!("{order} for {amount}"),
    ///     None => format!("{order}, not paid"),
    /// });
    /// # checked.to(&Topic::<String, String>::new("checked"));
    /// ```
    #[track_caller]
    pub fn left_join_stream<V2: Datum, W: Datum, M2: Keys>(
        &self,
        options: impl Into<StreamJoined<K, V, V2>>,
        other: &KStream<K, V2, M2>,
        windows: JoinWindows,
        join: impl Fn(&K, &V, Option<&V2>) -> W + Send + Sync + 'static,
    ) -> KStream<K, W> {
        let join = move |key: &K, left: &V, right: Option<&V2>| Ok(join(key, left, right));
        self.try_left_join_stream(options, other, windows, join)
    }

    /// As [`left_join_stream`](Self::left_join_stream), with a closure that can fail.
    #[track_caller]
    pub fn try_left_join_stream<V2: Datum, W: Datum, M2: Keys>(
        &self,
        options: impl Into<StreamJoined<K, V, V2>>,
        other: &KStream<K, V2, M2>,
        windows: JoinWindows,
        join: impl Fn(&K, &V, Option<&V2>) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KStream<K, W> {
        let join = move |key: &K, left: Option<&V>, right: Option<&V2>| match left {
            Some(left) => join(key, left, right),
            None => unreachable!("a left join has a value of the left side"),
        };
        self.joined_with(options.into(), other, (windows, LEFT), join)
    }

    /// Joins records that meet, and those of either stream that lack a partner with nothing.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use thalweg::{JoinWindows, StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let sent = builder.stream(&Topic::<String, i64>::new("sent"));
    /// # let received = builder.stream(&Topic::<String, i64>::new("received"));
    /// let windows = JoinWindows::of_difference(Duration::from_secs(60)).no_grace();
    /// let lost = sent
    ///     .outer_join_stream("sent-received", &received, windows, |_id, sent, received| sent.is_none() != received.is_none())
    ///     .filter(|_id, lost| *lost);
    /// # let _ = lost;
    /// ```
    #[track_caller]
    pub fn outer_join_stream<V2: Datum, W: Datum, M2: Keys>(
        &self,
        options: impl Into<StreamJoined<K, V, V2>>,
        other: &KStream<K, V2, M2>,
        windows: JoinWindows,
        join: impl Fn(&K, Option<&V>, Option<&V2>) -> W + Send + Sync + 'static,
    ) -> KStream<K, W> {
        let join = move |key: &K, left: Option<&V>, right: Option<&V2>| Ok(join(key, left, right));
        self.try_outer_join_stream(options, other, windows, join)
    }

    /// As [`outer_join_stream`](Self::outer_join_stream), with a closure that can fail.
    #[track_caller]
    pub fn try_outer_join_stream<V2: Datum, W: Datum, M2: Keys>(
        &self,
        options: impl Into<StreamJoined<K, V, V2>>,
        other: &KStream<K, V2, M2>,
        windows: JoinWindows,
        join: impl Fn(&K, Option<&V>, Option<&V2>) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KStream<K, W> {
        self.joined_with(options.into(), other, (windows, BOTH), join)
    }

    #[track_caller]
    fn joined_with<V2: Datum, W: Datum, M2: Keys>(
        &self,
        options: StreamJoined<K, V, V2>,
        other: &KStream<K, V2, M2>,
        (windows, outer): (JoinWindows, Outer),
        join: impl Fn(&K, Option<&V>, Option<&V2>) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KStream<K, W> {
        let graph = &self.place.graph;
        if let Err(e) = windows.check() {
            graph.error(e);
        }
        let part = |suffix: &str| options.name.given().map(|name| format!("{name}{suffix}"));
        let left = Known { key: options.key.clone(), value: options.value.clone() };
        let right = Known { key: options.key.clone(), value: options.other_value.clone() };
        let left = self.place.in_place(part("-left"), left);
        let right = other.place.in_place(part("-right"), right);
        let sources = left.sources_with(&right.sources);
        graph.copartition(sources.iter().copied());
        let names = Names::of(graph, &options, outer);
        let stores = Stores::of(&options, &names, windows, (&left, &right));
        let serdes = Known { key: Some(stores.key.clone()), value: None };
        let node = add(graph, (&left, &right), names, stores, (windows, outer), Arc::new(join));
        let graph = graph.clone();
        KStream::at(Place { graph, node, sources, serdes, must_repartition: false })
    }
}

/// The names of a join's parts. Kafka Streams burns the numbers of all of them, used or not.
struct Names {
    this_windowed: String,
    other_windowed: String,
    this_join: String,
    other_join: String,
    merge: String,
    this_store: String,
    other_store: String,
    shared_store: String,
}

impl Names {
    #[track_caller]
    fn of<K, V, V2>(graph: &Graph, options: &StreamJoined<K, V, V2>, outer: Outer) -> Self {
        let (this, this_prefix) = match outer.right {
            true => ("-outer-this-join", "KSTREAM-OUTERTHIS-"),
            false => ("-this-join", "KSTREAM-JOINTHIS-"),
        };
        let (other, other_prefix) = match outer.left {
            true => ("-outer-other-join", "KSTREAM-OUTEROTHER-"),
            false => ("-other-join", "KSTREAM-JOINOTHER-"),
        };
        let name = options.name.given();
        let this_windowed = graph.suffixed_or(name, "-this-windowed", "KSTREAM-WINDOWED-");
        let other_windowed = graph.suffixed_or(name, "-other-windowed", "KSTREAM-WINDOWED-");
        let this_generated = graph.processor_name(this_prefix);
        let other_generated = graph.processor_name(other_prefix);
        let merge = graph.suffixed_or(name, "-merge", "KSTREAM-MERGE-");
        let named = |suffix: &str, generated: &str| match name {
            Some(name) => format!("{name}{suffix}"),
            None => generated.to_owned(),
        };
        let shared = if outer.right { "-outer-shared-join" } else { "-left-shared-join" };
        let number = this_generated.trim_start_matches(this_prefix);
        let shared_generated = format!("KSTREAM-OUTERSHARED-{number}");
        let store = |suffix: &str, generated: &str| match options.stores.given() {
            Some(base) => format!("{base}{suffix}-store"),
            None => format!("{generated}-store"),
        };
        Self {
            this_windowed,
            other_windowed,
            merge,
            this_store: store(this, &this_generated),
            other_store: store(other, &other_generated),
            shared_store: store(shared, &shared_generated),
            this_join: named(this, &this_generated),
            other_join: named(other, &other_generated),
        }
    }
}

/// The stores of a join.
struct Stores<K: Datum, V: Datum, V2: Datum> {
    key: SharedSerde<K>,
    value: SharedSerde<V>,
    other_value: SharedSerde<V2>,
    this: SideStore<K::Inner, V::Inner>,
    other: SideStore<K::Inner, V2::Inner>,
    shared: HeldStore<K::Inner>,
    /// Their definitions, with the join's options: this, other, shared.
    defs: [StoreDef; 3],
    options: StreamJoined<K, V, V2>,
}

impl<K: Datum, V: Datum, V2: Datum> Stores<K, V, V2> {
    #[track_caller]
    fn of(
        options: &StreamJoined<K, V, V2>,
        names: &Names,
        windows: JoinWindows,
        (left, right): (&Place<K, V>, &Place<K, V2>),
    ) -> Self {
        let key = left.key_serde(options.key.clone(), &names.this_store);
        let value = left.value_serde(options.value.clone(), &names.this_store);
        let other_value = right.value_serde(options.other_value.clone(), &names.other_store);
        let ms = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
        let times = (ms(windows.retention_ms()), ms(windows.size_ms()));
        let inner_key = || without_null(SharedSerde::clone(&key));
        let this = SideStore::window_shared(
            names.this_store.as_str(),
            times,
            inner_key(),
            without_null(SharedSerde::clone(&value)),
        );
        let other = SideStore::window_shared(
            names.other_store.as_str(),
            times,
            inner_key(),
            without_null(SharedSerde::clone(&other_value)),
        );
        let (this, other) = (this.retain_duplicates(), other.retain_duplicates());
        let held_key = HeldKeySerde(inner_key());
        let shared =
            HeldStore::key_value_with(names.shared_store.as_str(), held_key, HeldValuesSerde);
        let defs = [this.def(), other.def(), shared.def()].map(|def| options.apply(def.clone()));
        let options = options.clone();
        Self { key, value, other_value, this, other, shared, defs, options }
    }

    fn waiting_left(&self) -> Waiting<K::Inner, V::Inner, V2::Inner> {
        Waiting {
            store: self.shared.clone(),
            this: without_null(SharedSerde::clone(&self.value)),
            other: without_null(SharedSerde::clone(&self.other_value)),
        }
    }

    fn waiting_right(&self) -> Waiting<K::Inner, V2::Inner, V::Inner> {
        let Waiting { store, this, other } = self.waiting_left();
        Waiting { store, this: other, other: this }
    }
}

/// The nodes of a join at work.
struct Suppliers {
    this: NodeSupplier,
    other: NodeSupplier,
    merge: NodeSupplier,
    /// When both sides are one stream.
    itself: NodeSupplier,
}

/// Adds a join to the graph: two nodes that keep records, and one that is written as both sides and what brings them together.
#[track_caller]
fn add<K, V, V2, W, F>(
    graph: &Graph,
    (left, right): (&Place<K, V>, &Place<K, V2>),
    names: Names,
    stores: Stores<K, V, V2>,
    (windows, outer): (JoinWindows, Outer),
    join: Arc<F>,
) -> crate::graph::NodeId
where
    K: Datum,
    V: Datum,
    V2: Datum,
    W: Datum,
    F: Fn(&K, Option<&V>, Option<&V2>) -> Result<W, BoxError> + Send + Sync + 'static,
{
    let Names { this_windowed, other_windowed, this_join, other_join, merge, .. } = names;
    let placed = stores.options.placed;
    if stores.options.stores.given().is_none() {
        let of_left = outer.left.then_some(names.shared_store.as_str());
        for name in [names.this_store.as_str(), &names.other_store].into_iter().chain(of_left) {
            graph.note_generated("store", name);
        }
    }
    let suppliers = suppliers::<K, V, V2, W, F>(&merge, &stores, (windows, outer), join);
    let [this_def, other_def, shared_def] = stores.defs;
    let (this_store, other_store) = (this_def.name.clone(), other_def.name.clone());
    let spec = NodeSpec::processor(&*this_windowed, keep::<K, V>(stores.this));
    graph.add(&[left.node], spec.store(this_def, placed));
    let spec = NodeSpec::processor(&*other_windowed, keep::<K, V2>(stores.other));
    let other_keeper = graph.add(&[right.node], spec.store(other_def, placed));
    let shared = outer.left.then_some(shared_def);
    let write = move |w: &mut Writer<'_>| -> Result<(), TopologyError> {
        let name = w.name;
        if w.self_join {
            w.topology.add_processor(name, suppliers.itself, &[&this_windowed])?;
            return w.topology.connect(name, &[&this_store]);
        }
        w.topology.add_processor(&this_join, suppliers.this, &[&this_windowed])?;
        w.topology.add_processor(&other_join, suppliers.other, &[&other_windowed])?;
        w.topology.add_processor(name, suppliers.merge, &[&this_join, &other_join])?;
        w.topology.connect(&this_join, &[&other_store])?;
        w.topology.connect(&other_join, &[&this_store])?;
        if let Some(shared) = shared {
            let shared_name = shared.name.clone();
            w.store(shared, placed, &this_join)?;
            w.topology.connect(&other_join, &[&shared_name])?;
        }
        Ok(())
    };
    let mut spec = NodeSpec::custom(merge, write).joins_null_keys(outer.left || outer.right);
    if TypeId::of::<V>() == TypeId::of::<V2>() {
        spec = spec.join(JoinRole { other: other_keeper });
    }
    graph.add(&[left.node, right.node], spec)
}

fn suppliers<K, V, V2, W, F>(
    name: &str,
    stores: &Stores<K, V, V2>,
    (windows, outer): (JoinWindows, Outer),
    join: Arc<F>,
) -> Suppliers
where
    K: Datum,
    V: Datum,
    V2: Datum,
    W: Datum,
    F: Fn(&K, Option<&V>, Option<&V2>) -> Result<W, BoxError> + Send + Sync + 'static,
{
    let left = Side {
        is_left: true,
        windows: windows.left(),
        other_windows: windows.right(),
        outer: outer.left,
        other_outer: outer.right,
    };
    let right = Side {
        is_left: false,
        windows: windows.right(),
        other_windows: windows.left(),
        outer: outer.right,
        other_outer: outer.left,
    };
    let (for_left, for_right) = (Straight(Arc::clone(&join)), Mirrored(Arc::clone(&join)));
    let waiting = outer.left.then(|| stores.waiting_left());
    let this = join_side::<K, V, V2, W, _>(name, left, for_left, stores.other.clone(), waiting);
    let waiting = outer.left.then(|| stores.waiting_right());
    let other = join_side::<K, V2, V, W, _>(name, right, for_right, stores.this.clone(), waiting);
    // The graph asks for it only when both sides are one stream, and then their types are one.
    let with_itself = move |key: &K, left: Option<&V>, right: Option<&V>| {
        let right = right.and_then(|right| (right as &dyn Any).downcast_ref::<V2>());
        join(key, left, right)
    };
    let itself = join_self::<K, V, W, _>(windows, Arc::new(with_itself), stores.this.clone());
    Suppliers { this, other, merge: pass_through::<K, W>(), itself }
}
