//! Joins of two tables by a key that is made of the left row: `fk_join`.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_connectors::{Accepts, Datum, Field, SerdeError, SharedSerde};
use thalweg_processor::{
    BoxError, InternalTopic, NodeError, PartitionerFn, Partitions, SinkDef, SourceDef, StoreDecl,
    TimestampExtractor, TimestampPolicy, TopicRef,
};

use crate::graph::{Graph, NodeId, NodeSpec, Writer};
use crate::name::Name;
use crate::nodes::foreign_join::{
    Kind, SelectKey, SubscriptionStore, answer, publish, receive, resolve, send,
};
use crate::nodes::foreign_wire::{Response, ResponseSerde, Subscription, SubscriptionSerde};
use crate::nodes::join_tables::JoinRows;
use crate::nodes::table::table_source;
use crate::options::Materialized;
use crate::place::Place;
use crate::serdes::{Known, with_null};
use crate::table::KTable;
use crate::table_source::{Begun, begin};

/// Foreign-key joins: each row is joined with the row of another table whose key is made of it. A change of either row makes the
/// joined row anew; a change of the right row reaches all left rows that name it.
///
/// The name is that of what is durable: the topics `<name>-subscription-registration-topic` and `-subscription-response-topic` and the
/// store `<name>-subscription-store`. So the two tables need not have the same number of partitions.
///
/// - The joined row has the time of the younger row when a left row asks, and that of the right row when that changes.
/// - A left row whose made key is null is dropped and counted by an inner join, and joined with nothing by a left join.
/// - A null result is no row. An answer to a left row that has changed in the meantime is dropped and counted.
/// - Late updates of versioned tables are dropped and counted.
impl<K: Datum<Inner = K>, V: Datum<Inner = V>> KTable<K, V> {
    /// Joins each row with the row of the other table whose key `select` makes of it; a row without one has no result.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, TaskConfig, TestDriver, Topic};
    /// let orders = Topic::<String, String>::new("orders"); // the customer
    /// let customers = Topic::<String, String>::new("customers"); // the city
    /// let cities = Topic::<String, Option<String>>::new("order-cities");
    ///
    /// let builder = StreamsBuilder::new();
    /// let by_id = builder.table(&customers, "customers");
    /// builder
    ///     .table(&orders, "orders")
    ///     .fk_join("order-city", &by_id, |_id, customer| customer.clone(), |_customer, city| city.clone())
    ///     .to(&cities);
    ///
    /// let mut driver = TestDriver::new(&builder.build()?, TaskConfig::new("shop"))?;
    /// driver.input(&orders).pipe("o1".to_owned(), "ann".to_owned(), 1)?.pipe("o2".to_owned(), "ann".to_owned(), 2)?;
    /// driver.input(&customers).pipe("ann".to_owned(), "Rome".to_owned(), 3)?;
    /// let rome = Some("Rome".to_owned());
    /// assert_eq!(driver.output(&cities).read_pairs()?, [("o1".to_owned(), rome.clone()), ("o2".to_owned(), rome)]);
    /// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[track_caller]
    pub fn fk_join<GK: Datum, T: Datum<Inner = T>, W: Datum>(
        &self,
        name: impl Into<Name>,
        other: &KTable<GK::Inner, T>,
        select: impl Fn(&K, &V) -> GK + Send + Sync + 'static,
        join: impl Fn(&V, &T) -> W + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        let select = move |key: &K, row: &V| Ok(select(key, row));
        let join = move |row: &V, other: &T| Ok(join(row, other));
        self.try_fk_join((name, Materialized::kafka_generated()), other, select, join)
    }

    /// As [`fk_join`](Self::fk_join), with closures that can fail, and with a store for the result: kept under a name of your choice,
    /// or with [`Materialized::kafka_generated`] only if an operator needs its rows.
    #[track_caller]
    pub fn try_fk_join<GK: Datum, T: Datum<Inner = T>, W: Datum>(
        &self,
        (name, store): (impl Into<Name>, impl Into<Materialized<K, W::Inner>>),
        other: &KTable<GK::Inner, T>,
        select: impl Fn(&K, &V) -> Result<GK, BoxError> + Send + Sync + 'static,
        join: impl Fn(&V, &T) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        let join: JoinRows<V, T, W::Inner> = Arc::new(move |row, other| match row.zip(other) {
            Some((row, other)) => Ok(join(row, other).map_err(NodeError::user)?.into_inner()),
            None => Ok(None),
        });
        self.foreign((name.into(), store.into()), other, (key_of(select), join), Kind::Inner)
    }

    /// Joins each row with the row of the other table whose key `select` makes of it, or with nothing: also when that key is null.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let people = builder.table(&Topic::<String, String>::new("people"), "people");
    /// // each row is the name of somebody's manager
    /// let managed = people.left_fk_join("managers", &people, |_who, boss| boss.clone(), |boss, theirs| match theirs {
    ///     Some(theirs) => format!("{boss}, who works for {theirs}"),
    ///     None => boss.clone(),
    /// });
    /// # managed.to(&Topic::<String, String>::new("managed"));
    /// # builder.build()?;
    /// # Ok::<_, thalweg::BuildError>(())
    /// ```
    #[track_caller]
    pub fn left_fk_join<GK: Datum, T: Datum<Inner = T>, W: Datum>(
        &self,
        name: impl Into<Name>,
        other: &KTable<GK::Inner, T>,
        select: impl Fn(&K, &V) -> GK + Send + Sync + 'static,
        join: impl Fn(&V, Option<&T>) -> W + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        let select = move |key: &K, row: &V| Ok(select(key, row));
        let join = move |row: &V, other: Option<&T>| Ok(join(row, other));
        self.try_left_fk_join((name, Materialized::kafka_generated()), other, select, join)
    }

    /// As [`left_fk_join`](Self::left_fk_join), with closures that can fail, and with a store for the result as in
    /// [`try_fk_join`](Self::try_fk_join).
    #[track_caller]
    pub fn try_left_fk_join<GK: Datum, T: Datum<Inner = T>, W: Datum>(
        &self,
        (name, store): (impl Into<Name>, impl Into<Materialized<K, W::Inner>>),
        other: &KTable<GK::Inner, T>,
        select: impl Fn(&K, &V) -> Result<GK, BoxError> + Send + Sync + 'static,
        join: impl Fn(&V, Option<&T>) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        let join: JoinRows<V, T, W::Inner> = Arc::new(move |row, other| match row {
            Some(row) => Ok(join(row, other).map_err(NodeError::user)?.into_inner()),
            None => Ok(None),
        });
        self.foreign((name.into(), store.into()), other, (key_of(select), join), Kind::Left)
    }

    /// Kafka Streams' `doJoinOnForeignKey`: ten nodes, in this order.
    #[track_caller]
    fn foreign<FK, T, W>(
        &self,
        (name, materialized): (Name, Materialized<K, W>),
        other: &KTable<FK, T>,
        (select, join): (SelectKey<K, V, FK>, JoinRows<V, T, W>),
        kind: Kind,
    ) -> KTable<K, W>
    where
        FK: Datum<Inner = FK>,
        T: Datum<Inner = T>,
        W: Datum<Inner = W>,
    {
        let graph = &self.place.graph;
        other.rows.send_old(true);
        self.rows.send_old(true);
        let names = Names { graph, name };
        let registration = names.topic("-subscription-registration", "SUBSCRIPTION-REGISTRATION-");
        let serdes = Serdes::of(self, other, &registration);
        // towards the right side
        let sender =
            names.node("-subscription-registration-processor", "SUBSCRIPTION-REGISTRATION-");
        let (foreign_key, value) = (Arc::clone(&serdes.foreign_key), Arc::clone(&serdes.value));
        let supplier = send::<K, V, FK>(select, foreign_key, value, kind);
        let sender = graph.add(&[self.place.node], NodeSpec::processor(sender, supplier));
        let key = with_null::<FK>(Arc::clone(&serdes.foreign_key));
        let value: SharedSerde<Subscription<K>> =
            Arc::new(SubscriptionSerde(Arc::clone(&serdes.key)));
        let hop = Hop { names: &names, topic: registration, role: "-subscription-registration" };
        let asked = hop.add::<FK::Opt, _>(&[sender], (key, Arc::clone(&value)), None);
        graph.copartition(other.place.sources.iter().copied().chain([asked]));
        let store_name = names.plain("-subscription-store", "SUBSCRIPTION-STATE-STORE-", "store");
        let raw: SharedSerde<Vec<u8>> = Arc::new(thalweg_connectors::RawBytes);
        let store = SubscriptionStore::timestamped_shared(store_name, raw, value).logs_headers();
        let kept = names.node("-subscription-receive", "SUBSCRIPTION-PROCESSOR-");
        let (foreign_key, key) = (Arc::clone(&serdes.foreign_key), Arc::clone(&serdes.key));
        let supplier = receive::<K, FK>(store.clone(), foreign_key, key);
        let spec = NodeSpec::processor(kept, supplier).store(store.def().clone(), None);
        let kept = graph.add(&[asked], spec);
        // and back
        let answered = names.node("-subscription-join-foreign", "SUBSCRIPTION-PROCESSOR-");
        let rows = other.rows.getter();
        let stores: Vec<String> = rows.stores().iter().map(ToString::to_string).collect();
        let spec = NodeSpec::processor(answered, answer::<K, FK, T>(rows)).connect(stores);
        let answered = graph.add(&[kept], spec);
        let told = names.node("-foreign-join-subscription", "SUBSCRIPTION-PROCESSOR-");
        let supplier = publish::<K, FK, T>(store.clone(), Arc::clone(&serdes.foreign_key));
        let spec = NodeSpec::processor(told, supplier).connect([store.name()]);
        let told = graph.add(&[other.place.node], spec);
        let topic = names.topic("-subscription-response", "SUBSCRIPTION-RESPONSE-");
        let hop = Hop { names: &names, topic, role: "-subscription-response" };
        let value: SharedSerde<Response<T>> = Arc::new(ResponseSerde(Arc::clone(&serdes.row)));
        let pair = (Arc::clone(&serdes.key), value);
        let back = hop.add::<K, _>(&[answered, told], pair, Some(to_asker()));
        let sources: BTreeSet<NodeId> = self.place.sources.iter().copied().chain([back]).collect();
        graph.copartition(sources.iter().copied());
        let node = names
            .node("-subscription-response-resolver", "SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-");
        let rows = self.rows.getter();
        let stores: Vec<String> = rows.stores().iter().map(ToString::to_string).collect();
        let supplier = resolve(rows, Arc::clone(&serdes.value), join, kind);
        let spec = NodeSpec::processor(node, supplier).connect(stores);
        let resolved = graph.add(&[back], spec);
        let place = Place {
            graph: graph.clone(),
            node: resolved,
            sources: Arc::new(sources),
            serdes: Known::<K, W>::NONE,
            must_repartition: false,
        };
        result(&names, &place, &materialized, serdes.key)
    }
}

/// The table that a join comes to: kept if somebody needs its rows.
#[track_caller]
fn result<K: Datum<Inner = K>, W: Datum<Inner = W>>(
    names: &Names<'_>,
    place: &Place<K, W>,
    materialized: &Materialized<K, W>,
    key: SharedSerde<K>,
) -> KTable<K, W> {
    let node = names.node("-result", "OUTPUT-");
    let known = Known { key: Some(key), value: None };
    let begun = begin(names.graph, "KTABLE-FK-JOIN-OUTPUT-", materialized, &known);
    let Begun { rows, handle, serdes, queryable } = begun;
    let (store, kept) = (handle.store.clone(), handle.materialized.clone());
    let supplier = table_source::<K, W::Opt>(store, kept, handle.send_old.clone());
    let spec = NodeSpec::custom(node, move |w: &mut Writer<'_>| {
        w.topology.add_processor(w.name, supplier, w.parents)?;
        rows.write(w, None)
    });
    KTable::at(place.then(spec, serdes), Arc::new(handle), queryable)
}

/// The foreign key of a row, null or not.
fn key_of<K: 'static, V: 'static, GK: Datum>(
    select: impl Fn(&K, &V) -> Result<GK, BoxError> + Send + Sync + 'static,
) -> SelectKey<K, V, GK::Inner> {
    Arc::new(move |key, row| Ok(select(key, row)?.into_inner()))
}

/// A response goes to the partition of the row that asked.
fn to_asker<K, T>() -> PartitionerFn<K, Response<T>> {
    Arc::new(|_, _, response, _| {
        Ok(match response.partition {
            Some(partition) => Partitions::Only([partition].into_iter().collect()),
            None => Partitions::Default,
        })
    })
}

/// The serdes of both tables; a missing one is noted as a mistake of the topic.
struct Serdes<K, V, FK, T> {
    key: SharedSerde<K>,
    value: SharedSerde<V>,
    foreign_key: SharedSerde<FK>,
    row: SharedSerde<T>,
}

impl<K: Datum, V: Datum, FK: Datum, T: Datum> Serdes<K, V, FK, T> {
    #[track_caller]
    fn of(left: &KTable<K, V>, right: &KTable<FK, T>, topic: &str) -> Self {
        Self {
            key: left.place.key_serde(None, topic),
            value: left.place.value_serde(None, topic),
            foreign_key: right.place.key_serde(None, topic),
            row: right.place.value_serde(None, topic),
        }
    }
}

/// The names of a join's parts: made of the given name, else generated.
struct Names<'g> {
    graph: &'g Graph,
    name: Name,
}

impl Names<'_> {
    #[track_caller]
    fn suffixed(&self, suffix: &str, prefix: &str) -> String {
        self.graph.suffixed_or(self.name.given(), suffix, prefix)
    }

    #[track_caller]
    fn node(&self, suffix: &str, prefix: &str) -> String {
        self.suffixed(suffix, &format!("KTABLE-FK-JOIN-{prefix}"))
    }

    /// A durable name; a generated one is noted.
    #[track_caller]
    fn plain(&self, suffix: &str, prefix: &str, what: &'static str) -> String {
        let name = self.node(suffix, prefix);
        if self.name.given().is_none() {
            self.graph.note_generated(what, &name);
        }
        name
    }

    #[track_caller]
    fn topic(&self, suffix: &str, prefix: &str) -> String {
        format!("{}-topic", self.plain(suffix, prefix, "repartition topic"))
    }
}

/// Writes records of one type with its serdes.
struct Encoder<A, B> {
    name: Arc<str>,
    key: SharedSerde<A>,
    value: SharedSerde<B>,
}

impl<A: 'static, B: 'static> Accepts<A, B> for Encoder<A, B> {
    fn topic_name(&self) -> &Arc<str> {
        &self.name
    }

    fn write_key(&self, key: A, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        self.key.write(&key, out)
    }

    fn write_value(&self, value: B, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        self.value.write(&value, out)
    }

    fn serdes(&self) -> Option<(SharedSerde<A>, SharedSerde<B>)> {
        Some((Arc::clone(&self.key), Arc::clone(&self.value)))
    }

    fn partition_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        self.key.partition_key(key)
    }
}

/// A topic between the two sides.
struct Hop<'n, 'g> {
    names: &'n Names<'g>,
    topic: String,
    role: &'static str,
}

impl Hop<'_, '_> {
    /// Adds its sink and its source; returns the source.
    #[track_caller]
    fn add<A: Clone + Send + 'static, B: Clone + Send + 'static>(
        self,
        parents: &[NodeId],
        (key, value): (SharedSerde<A>, SharedSerde<B>),
        partitioner: Option<PartitionerFn<A, B>>,
    ) -> NodeId {
        let Self { names, topic, role } = self;
        let sink = names.suffixed(&format!("{role}-sink"), "KTABLE-SINK-");
        let source = names.suffixed(&format!("{role}-source"), "KTABLE-SOURCE-");
        let internal = TopicRef::Internal(topic.as_str().into());
        let (name, own) = (topic.as_str().into(), (Arc::clone(&key), Arc::clone(&value)));
        let encoder = Encoder { name, key: own.0, value: own.1 };
        let mut def = SinkDef::fixed(internal.clone(), Arc::new(encoder));
        if let Some(partitioner) = partitioner {
            def = def.partitioner(partitioner);
        }
        let (target, supplier) = def.build();
        let sink = names.graph.add(
            parents,
            NodeSpec::custom(sink, move |w: &mut Writer<'_>| {
                w.topology.add_internal_topic(&topic, InternalTopic::default())?;
                w.topology.add_sink(w.name, target, supplier, w.parents).map(drop)
            }),
        );
        let extractor = TimestampExtractor::Policy(TimestampPolicy::FailOnInvalid);
        let def = SourceDef::new(vec![internal], (key, value), extractor, None);
        let spec = NodeSpec::custom(source, move |w: &mut Writer<'_>| {
            w.topology.add_source(w.name, def).map(drop)
        });
        names.graph.add(&[sink], spec)
    }
}
