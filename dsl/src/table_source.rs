//! Where tables begin: [`StreamsBuilder::table`], and `to_table` of a stream.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use thalweg_connectors::Datum;
use thalweg_processor::{
    SourceDef, StoreDecl, StoreDef, TimestampExtractor, TopicRef, TopologyError,
};

use crate::builder::StreamsBuilder;
use crate::config::{Optimization, StoreType};
use crate::graph::{Graph, NodeSpec, Writer};
use crate::marker::{Keys, KeysInPlace};
use crate::name::Name;
use crate::nodes::table::{Switch, table_source};
use crate::options::{Consumed, Materialized};
use crate::place::Place;
use crate::repartition::{Repartition, prefix};
use crate::serdes::{Known, with_null};
use crate::stream::KStream;
use crate::table::KTable;
use crate::table_rows::SourceRows;
use crate::table_store::{Kept, row_store};

/// The rows of a table source, which are kept only if somebody needs them.
pub(crate) struct Rows {
    def: StoreDef,
    placed: Option<StoreType>,
    materialized: Switch,
    name_is_generated: bool,
}

impl Rows {
    /// Adds the store of the node at hand, if it is needed by now. `topic`: what may serve as its changelog.
    pub(crate) fn write(
        self,
        w: &mut Writer<'_>,
        topic: Option<TopicRef>,
    ) -> Result<(), TopologyError> {
        if !self.materialized.is_on() {
            return Ok(());
        }
        let name = Arc::clone(&self.def.name);
        if self.name_is_generated && w.config.explicit_names {
            return Err(TopologyError::GeneratedName { what: "store", name });
        }
        w.store(self.def, self.placed, w.name)?;
        match topic {
            Some(topic) if w.config.optimizations.contains(&Optimization::ReuseSourceTopics) => {
                w.topology.source_as_changelog(&name, topic)
            }
            _ => Ok(()),
        }
    }
}

/// What a source table is made of, whatever feeds it.
pub(crate) struct Begun<K, V> {
    pub(crate) rows: Rows,
    pub(crate) handle: SourceRows<K, V>,
    pub(crate) serdes: Known<K, V>,
    pub(crate) queryable: Option<Arc<str>>,
}

#[track_caller]
pub(crate) fn begin<K: Datum, V: Datum>(
    graph: &Graph,
    store_prefix: &str,
    materialized: &Materialized<K, V>,
    known: &Known<K, V>,
) -> Begun<K, V> {
    let queryable = materialized.name.given().cloned();
    let name = match &queryable {
        Some(name) => name.to_string(),
        None => graph.store_name(store_prefix),
    };
    let Kept { store, key, value } = row_store(graph, &name, materialized, known);
    let switch = Switch::default();
    if queryable.is_some() {
        switch.on();
    }
    let rows = Rows {
        def: materialized.apply(store.def().clone()),
        placed: materialized.placed,
        materialized: switch.clone(),
        name_is_generated: queryable.is_none(),
    };
    let serdes = Known::both(key, value);
    let handle = SourceRows { store, materialized: switch, send_old: Switch::default() };
    Begun { rows, handle, serdes, queryable }
}

/// A value of the nullable type as the declared type has it: `None` when it is null and the declared type has no null.
fn declared<T: Datum>(value: &T::Opt) -> Option<Cow<'_, T>> {
    match (value as &dyn Any).downcast_ref::<T>() {
        Some(same) => Some(Cow::Borrowed(same)),
        None => value.inner().map(|inner| Cow::Owned(T::from_inner(inner.clone()))),
    }
}

/// The extractor, for records that may be null; one that its types cannot express keeps its own time.
pub(crate) fn nullable<K: Datum, V: Datum>(
    extractor: TimestampExtractor<K, V>,
) -> TimestampExtractor<K::Opt, V::Opt> {
    match extractor {
        TimestampExtractor::Default => TimestampExtractor::Default,
        TimestampExtractor::Policy(policy) => TimestampExtractor::Policy(policy),
        TimestampExtractor::Custom(extract) => {
            TimestampExtractor::Custom(Arc::new(move |key, value, own, highest| {
                match (declared::<K>(key), declared::<V>(value)) {
                    (Some(key), Some(value)) => extract(&key, &value, own, highest),
                    _ => Ok(own),
                }
            }))
        }
    }
}

/// The topic of a table; a second one is noted as a mistake.
#[track_caller]
pub(crate) fn one_topic<K, V>(graph: &Graph, input: &Consumed<K, V>) -> Arc<str> {
    if input.topics.len() > 1 {
        let what = format!("a table is read from one topic, not also from `{}`", input.topics[1]);
        graph.error(TopologyError::IllegalArgument(what));
    }
    Arc::clone(&input.topics[0])
}

impl StreamsBuilder {
    /// Reads a topic as a table: the latest record of a key is its row, a null value deletes it. The topic's types need not allow
    /// null for that; a record with a null key is dropped and counted.
    ///
    /// With a name of your choice the rows are kept in a store of that name. With [`Name::kafka_generated`] they are kept only if
    /// an operator needs them, under the name that Kafka Streams would generate.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// let prices = Topic::<String, i64>::new("prices");
    /// let builder = StreamsBuilder::new();
    /// let prices = builder.table(&prices, "prices");
    /// assert_eq!(prices.queryable_store_name(), Some("prices"));
    /// ```
    ///
    /// # Panics
    /// When the topology is built already.
    #[track_caller]
    pub fn table<K: Datum, V: Datum>(
        &self,
        input: impl Into<Consumed<K, V>>,
        store: impl Into<Materialized<K::Inner, V::Inner>>,
    ) -> KTable<K::Inner, V::Inner> {
        let (input, materialized) = (input.into(), store.into());
        let graph = &self.graph;
        let topic = one_topic(graph, &input);
        // the numbers of generated names: first the store's, then the source's, then the table's
        let begun = begin(graph, &format!("{topic}-"), &materialized, &input.serdes.without_null());
        let source = graph.suffixed_or(input.name.as_ref(), "-source", "KSTREAM-SOURCE-");
        let name = graph.name_or(input.name.as_ref(), "KTABLE-SOURCE-");
        let key = with_null::<K>(graph.key_serde(input.serdes.key, &source));
        let value = with_null::<V>(graph.value_serde(input.serdes.value, &source));
        let topic = TopicRef::External(topic);
        let extractor = nullable(input.extractor);
        let def = SourceDef::new(vec![topic.clone()], (key, value), extractor, input.offset_reset);
        let Begun { rows, handle, serdes, queryable } = begun;
        let supplier = table_source::<K::Opt, V::Opt>(
            handle.store.clone(),
            handle.materialized.clone(),
            handle.send_old.clone(),
        );
        let source_name = source.clone();
        let spec = NodeSpec::custom(name, move |w| {
            w.topology.add_source(&source, def)?;
            w.topology.add_processor(w.name, supplier, &[&source])?;
            rows.write(w, Some(topic))
        });
        let node = graph.add(&[], spec.source_name(source_name));
        KTable::at(Place::source(graph.clone(), node, serdes), Arc::new(handle), queryable)
    }
}

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Makes a table of the stream: the latest record of a key is its row, a null value deletes it.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let clicks = Topic::<String, String>::new("clicks");
    /// let last_page = builder.stream(&clicks).to_table("last-page");
    /// # let _ = last_page;
    /// ```
    #[track_caller]
    pub fn to_table(
        &self,
        store: impl Into<Materialized<K::Inner, V::Inner>>,
    ) -> KTable<K::Inner, V::Inner>
    where
        M: KeysInPlace,
    {
        self.to_table_via(Name::kafka_generated(), store)
    }

    /// As [`to_table`](Self::to_table), through a repartition topic of that name if a key was changed upstream.
    #[track_caller]
    pub fn to_table_via(
        &self,
        via: impl Into<Name>,
        store: impl Into<Materialized<K::Inner, V::Inner>>,
    ) -> KTable<K::Inner, V::Inner> {
        let (via, materialized) = (via.into(), store.into());
        let graph = &self.place.graph;
        let name = graph.name_or(via.given(), "KSTREAM-TOTABLE-");
        let known = self.place.serdes.without_null();
        let begun = begin(graph, "KSTREAM-TOTABLE-", &materialized, &known);
        let place = match self.place.must_repartition {
            true => {
                let prefix = prefix(&via, || name.clone());
                Repartition::of(graph, &prefix, self.place.serdes.clone())
                    .add_behind(self.place.node)
            }
            false => self.place.clone(),
        };
        let Begun { rows, handle, serdes, queryable } = begun;
        let supplier = table_source::<K, V>(
            handle.store.clone(),
            handle.materialized.clone(),
            handle.send_old.clone(),
        );
        let spec = NodeSpec::custom(name, move |w| {
            w.topology.add_processor(w.name, supplier, w.parents)?;
            rows.write(w, None)
        });
        KTable::at(place.then(spec, serdes), Arc::new(handle), queryable)
    }
}
