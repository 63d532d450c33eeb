//! Global tables and stores: every worker keeps them whole.

use std::fmt;
use std::sync::Arc;

use thalweg_connectors::Datum;
use thalweg_processor::{
    BoxError, Processor, Setup, SourceDef, StoreDecl, TopicRef, UsageError, supply,
};

use crate::builder::StreamsBuilder;
use crate::graph::NodeSpec;
use crate::marker::Keys;
use crate::nodes::join_global::global_join;
use crate::nodes::join_table::Unmatched;
use crate::nodes::table::table_source;
use crate::options::{Consumed, Materialized};
use crate::serdes::with_null;
use crate::stream::KStream;
use crate::table_rows::SharedRows;
use crate::table_source::{Begun, begin, nullable, one_topic};

/// A table that every worker keeps whole, all partitions of its topic: so a stream can be joined with it by any key, and the topics
/// need not have the same number of partitions.
///
/// It is filled from the beginning of its topic whenever a worker starts, before the first record is processed, and kept in memory;
/// later changes of the topic come in as they are read, at no certain point between the records of a stream. Only joins use it.
pub struct GlobalKTable<K, V> {
    rows: SharedRows<K, V>,
    queryable: Option<Arc<str>>,
}

impl<K, V> Clone for GlobalKTable<K, V> {
    fn clone(&self) -> Self {
        Self { rows: Arc::clone(&self.rows), queryable: self.queryable.clone() }
    }
}

impl<K, V> GlobalKTable<K, V> {
    /// The name under which the rows can be queried; `None` when its store has no name of your choice.
    pub fn queryable_store_name(&self) -> Option<&str> {
        self.queryable.as_deref()
    }
}

impl<K, V> fmt::Debug for GlobalKTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GlobalKTable").field(&self.queryable).finish()
    }
}

impl StreamsBuilder {
    /// Reads a topic as a global table: the latest record of a key is its row, a null value deletes it, and a record with a null key
    /// is dropped and counted. All partitions are read by every worker; there is no changelog.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, TaskConfig, TestDriver, Topic};
    /// let rates = Topic::<String, i64>::new("rates");
    /// let payments = Topic::<i64, (String, i64)>::with("payments", thalweg::I64Be, Payment);
    /// # #[derive(Clone)] struct Payment;
    /// # impl thalweg::Serde<(String, i64)> for Payment {
    /// #     fn write(&self, p: &(String, i64), out: &mut Vec<u8>) -> Result<thalweg::Field, thalweg::SerdeError> {
    /// #         out.extend_from_slice(&p.1.to_be_bytes()); out.extend_from_slice(p.0.as_bytes()); Ok(thalweg::Field::Bytes)
    /// #     }
    /// #     fn read(&self, bytes: Option<&[u8]>) -> Result<(String, i64), thalweg::SerdeError> {
    /// #         let (n, text) = bytes.unwrap_or_default().split_at(8);
    /// #         Ok((String::from_utf8_lossy(text).into_owned(), i64::from_be_bytes(n.try_into().unwrap_or_default())))
    /// #     }
    /// # }
    /// let in_euros = Topic::<i64, i64>::new("in-euros");
    ///
    /// let builder = StreamsBuilder::new();
    /// let table = builder.global_table(&rates, "rates");
    /// builder
    ///     .stream(&payments)
    ///     .join_global(&table, |_id, (currency, _)| currency.clone(), |_id, (_, amount), _currency, rate| amount * rate)
    ///     .to(&in_euros);
    ///
    /// let mut driver = TestDriver::new(&builder.build()?, TaskConfig::new("bank"))?;
    /// driver.input(&rates).pipe("dollar".to_owned(), 2, 10)?;
    /// driver.input(&payments).pipe(7, ("dollar".to_owned(), 50), 5)?.pipe(8, ("yen".to_owned(), 1), 6)?;
    /// assert_eq!(driver.output(&in_euros).read_pairs()?, [(7, 100)]);
    /// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Panics
    /// When the topology is built already.
    #[track_caller]
    pub fn global_table<K: Datum, V: Datum>(
        &self,
        input: impl Into<Consumed<K, V>>,
        store: impl Into<Materialized<K::Inner, V::Inner>>,
    ) -> GlobalKTable<K::Inner, V::Inner> {
        let (input, materialized) = (input.into(), store.into());
        let graph = &self.graph;
        let topic = one_topic(graph, &input);
        let begun = begin(graph, &format!("{topic}-"), &materialized, &input.serdes.without_null());
        let source = graph.suffixed_or(input.name.as_ref(), "-source", "KSTREAM-SOURCE-");
        let name = graph.name_or(input.name.as_ref(), "KTABLE-SOURCE-");
        let key = with_null::<K>(graph.key_serde(input.serdes.key, &source));
        let value = with_null::<V>(graph.value_serde(input.serdes.value, &source));
        let (topics, extractor) = (vec![TopicRef::External(topic)], nullable(input.extractor));
        let def = SourceDef::new(topics, (key, value), extractor, None);
        let Begun { handle, queryable, .. } = begun;
        handle.materialized.on();
        let supplier = table_source::<K::Opt, V::Opt>(
            handle.store.clone(),
            handle.materialized.clone(),
            handle.send_old.clone(),
        );
        let store = handle.store.def().clone();
        graph.add(
            &[],
            NodeSpec::custom(name, move |w| {
                let filled = (w.name, supplier);
                w.topology.add_global_store((&source, def), filled, store).map(drop)
            }),
        );
        GlobalKTable { rows: Arc::new(handle), queryable }
    }

    /// Adds a store that every worker keeps whole, filled by a [`Processor`] of yours from all partitions of a topic: at each start
    /// from the topic's beginning, before the first record of any stream is processed. What the processor forwards goes nowhere.
    ///
    /// All other processors can open the store without being given it; they can only read it. It is kept in memory, without a
    /// changelog.
    ///
    /// # Panics
    /// When the topology is built already.
    #[track_caller]
    pub fn add_global_store<K: Datum, V: Datum, P>(
        &self,
        store: &impl StoreDecl,
        input: impl Into<Consumed<K, V>>,
        build: impl Fn(&mut Setup<'_>) -> Result<P, UsageError> + Send + Sync + 'static,
    ) -> &Self
    where
        P: Processor<KIn = K, VIn = V>,
        P::KOut: Datum,
        P::VOut: Datum,
    {
        let (input, graph) = (input.into(), &self.graph);
        let topic = one_topic(graph, &input);
        let source = graph.suffixed_or(input.name.as_ref(), "-source", "KSTREAM-SOURCE-");
        let name = graph.name_or(input.name.as_ref(), "KTABLE-SOURCE-");
        let key = graph.key_serde(input.serdes.key, &source);
        let value = graph.value_serde(input.serdes.value, &source);
        let topics = vec![TopicRef::External(topic)];
        let def = SourceDef::new(topics, (key, value), input.extractor, None);
        let (supplier, store) = (supply(build), store.def().clone());
        graph.add(
            &[],
            NodeSpec::custom(name, move |w| {
                let filled = (w.name, supplier);
                w.topology.add_global_store((&source, def), filled, store).map(drop)
            }),
        );
        self
    }
}

/// Joins with a global table: each record looks up the row of a key that is made of it. Only the stream side makes results; they have
/// the record's key, time and headers.
///
/// A record with a null value is dropped and counted, as is one whose made key is null in an inner join. A null key of the record
/// itself is no matter.
impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Joins each record with the row of the key that `select` makes of it; a record without one has no result. `join` is given the
    /// record's key and value, the made key and the row.
    #[track_caller]
    pub fn join_global<GK: Datum, T: Datum, W: Datum>(
        &self,
        table: &GlobalKTable<GK::Inner, T>,
        select: impl Fn(&K, &V) -> GK + Send + Sync + 'static,
        join: impl Fn(&K, &V, &GK, &T) -> W + Send + Sync + 'static,
    ) -> KStream<K, W, M> {
        let select = move |key: &K, value: &V| Ok(select(key, value));
        self.try_join_global(table, select, move |key, value, made, row| {
            Ok(join(key, value, made, row))
        })
    }

    /// As [`join_global`](Self::join_global), with closures that can fail.
    #[track_caller]
    pub fn try_join_global<GK: Datum, T: Datum, W: Datum>(
        &self,
        table: &GlobalKTable<GK::Inner, T>,
        select: impl Fn(&K, &V) -> Result<GK, BoxError> + Send + Sync + 'static,
        join: impl Fn(&K, &V, &GK, &T) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KStream<K, W, M> {
        let join = move |key: &K, value: &V, made: &GK, row: Option<&T>| match row {
            Some(row) => join(key, value, made, row),
            None => unreachable!("an inner join skips records without a row"),
        };
        self.joined_global(table, select, join, Unmatched::Skip)
    }

    /// Joins each record with the row of the key that `select` makes of it, or with nothing: also when that key is null.
    #[track_caller]
    pub fn left_join_global<GK: Datum, T: Datum, W: Datum>(
        &self,
        table: &GlobalKTable<GK::Inner, T>,
        select: impl Fn(&K, &V) -> GK + Send + Sync + 'static,
        join: impl Fn(&K, &V, &GK, Option<&T>) -> W + Send + Sync + 'static,
    ) -> KStream<K, W, M> {
        let select = move |key: &K, value: &V| Ok(select(key, value));
        self.try_left_join_global(table, select, move |key, value, made, row| {
            Ok(join(key, value, made, row))
        })
    }

    /// As [`left_join_global`](Self::left_join_global), with closures that can fail.
    #[track_caller]
    pub fn try_left_join_global<GK: Datum, T: Datum, W: Datum>(
        &self,
        table: &GlobalKTable<GK::Inner, T>,
        select: impl Fn(&K, &V) -> Result<GK, BoxError> + Send + Sync + 'static,
        join: impl Fn(&K, &V, &GK, Option<&T>) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KStream<K, W, M> {
        self.joined_global(table, select, join, Unmatched::Join)
    }

    #[track_caller]
    fn joined_global<GK: Datum, T: Datum, W: Datum>(
        &self,
        table: &GlobalKTable<GK::Inner, T>,
        select: impl Fn(&K, &V) -> Result<GK, BoxError> + Send + Sync + 'static,
        join: impl Fn(&K, &V, &GK, Option<&T>) -> Result<W, BoxError> + Send + Sync + 'static,
        unmatched: Unmatched,
    ) -> KStream<K, W, M> {
        // Kafka Streams names inner joins so, too.
        let name = self.place.graph.processor_name("KSTREAM-LEFTJOIN-");
        let getter = table.rows.getter();
        let supplier = global_join::<K, V, GK, T, W, _, _>(getter, select, join, unmatched);
        let spec =
            NodeSpec::processor(name, supplier).joins_null_keys(unmatched == Unmatched::Join);
        KStream::at(self.place.then(spec, self.place.serdes.key_only()))
    }
}
