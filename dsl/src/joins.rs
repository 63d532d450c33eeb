//! Joins of a stream with a table.

use thalweg_connectors::Datum;
use thalweg_processor::BoxError;

use crate::graph::NodeSpec;
use crate::marker::{Keys, KeysInPlace};
use crate::nodes::join_table::{Unmatched, table_join};
use crate::options::Joined;
use crate::place::Place;
use crate::stream::KStream;
use crate::table::KTable;

/// Stream-table joins: each record of the stream looks up the row of its key as it is when the record arrives. Only the stream side
/// makes results; they have the record's time. Topics of both sides need the same number of partitions.
///
/// A record with a null value is dropped and counted, as is one with a null key in an inner join.
impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Joins each record with the row of its key; a record without one has no result.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let orders = builder.stream(&Topic::<String, i64>::new("orders"));
    /// let prices = builder.table(&Topic::<String, i64>::new("prices"), "prices");
    /// let costs = orders.join_table(&prices, |_item, amount, price| amount * price);
    /// # costs.to(&Topic::<String, i64>::new("costs"));
    /// ```
    #[track_caller]
    pub fn join_table<T: Datum, W: Datum>(
        &self,
        table: &KTable<K::Inner, T>,
        join: impl Fn(&K, &V, &T) -> W + Send + Sync + 'static,
    ) -> KStream<K, W>
    where
        M: KeysInPlace,
    {
        self.join_table_via(Joined::kafka_generated(), table, join)
    }

    /// As [`join_table`](Self::join_table), through a repartition topic of that name if a key was changed upstream.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let orders = builder.stream(&Topic::<String, String>::new("orders"));
    /// let customers = builder.table(&Topic::<String, String>::new("customers"), "customers");
    /// let enriched = orders
    ///     .select_key(|_id, order| order[..4].to_owned())
    ///     .join_table_via("by-customer", &customers, |_id, order, customer| format!("{order} for {customer}"));
    /// # enriched.to(&Topic::<String, String>::new("enriched"));
    /// ```
    #[track_caller]
    pub fn join_table_via<T: Datum, W: Datum>(
        &self,
        options: impl Into<Joined<K, V>>,
        table: &KTable<K::Inner, T>,
        join: impl Fn(&K, &V, &T) -> W + Send + Sync + 'static,
    ) -> KStream<K, W> {
        self.try_join_table_via(options, table, move |key, value, row| Ok(join(key, value, row)))
    }

    /// As [`join_table_via`](Self::join_table_via), with a closure that can fail.
    #[track_caller]
    pub fn try_join_table_via<T: Datum, W: Datum>(
        &self,
        options: impl Into<Joined<K, V>>,
        table: &KTable<K::Inner, T>,
        join: impl Fn(&K, &V, &T) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KStream<K, W> {
        let join = move |key: &K, value: &V, row: Option<&T>| match row {
            Some(row) => join(key, value, row),
            None => unreachable!("an inner join skips records without a row"),
        };
        self.joined(options.into(), table, Unmatched::Skip, join)
    }

    /// Joins each record with the row of its key, or with nothing: also when its key is null.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let orders = builder.stream(&Topic::<String, i64>::new("orders"));
    /// let prices = builder.table(&Topic::<String, i64>::new("prices"), "prices");
    /// let costs = orders.left_join_table(&prices, |_item, amount, price| amount * price.copied().unwrap_or(1));
    /// # costs.to(&Topic::<String, i64>::new("costs"));
    /// ```
    #[track_caller]
    pub fn left_join_table<T: Datum, W: Datum>(
        &self,
        table: &KTable<K::Inner, T>,
        join: impl Fn(&K, &V, Option<&T>) -> W + Send + Sync + 'static,
    ) -> KStream<K, W>
    where
        M: KeysInPlace,
    {
        self.left_join_table_via(Joined::kafka_generated(), table, join)
    }

    /// As [`left_join_table`](Self::left_join_table), through a repartition topic of that name if a key was changed upstream.
    #[track_caller]
    pub fn left_join_table_via<T: Datum, W: Datum>(
        &self,
        options: impl Into<Joined<K, V>>,
        table: &KTable<K::Inner, T>,
        join: impl Fn(&K, &V, Option<&T>) -> W + Send + Sync + 'static,
    ) -> KStream<K, W> {
        let join = move |key: &K, value: &V, row: Option<&T>| Ok(join(key, value, row));
        self.try_left_join_table_via(options, table, join)
    }

    /// As [`left_join_table_via`](Self::left_join_table_via), with a closure that can fail.
    #[track_caller]
    pub fn try_left_join_table_via<T: Datum, W: Datum>(
        &self,
        options: impl Into<Joined<K, V>>,
        table: &KTable<K::Inner, T>,
        join: impl Fn(&K, &V, Option<&T>) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KStream<K, W> {
        self.joined(options.into(), table, Unmatched::Join, join)
    }

    #[track_caller]
    fn joined<T: Datum, W: Datum>(
        &self,
        options: Joined<K, V>,
        table: &KTable<K::Inner, T>,
        unmatched: Unmatched,
        join: impl Fn(&K, &V, Option<&T>) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KStream<K, W> {
        let name = options.name.given().map(ToString::to_string);
        let place = self.place.in_place(name, options.serdes.clone());
        let graph = &place.graph;
        let sources = place.sources_with(&table.place.sources);
        graph.copartition(sources.iter().copied());
        let prefix = match unmatched {
            Unmatched::Skip => "KSTREAM-JOIN-",
            Unmatched::Join => "KSTREAM-LEFTJOIN-",
        };
        let name = graph.name_or(options.name.given(), prefix);
        let getter = table.rows.getter();
        let stores: Vec<String> = getter.stores().iter().map(ToString::to_string).collect();
        let supplier = table_join::<K, V, T, W, _>(getter, join, unmatched);
        let spec = NodeSpec::processor(name, supplier)
            .connect(stores)
            .joins_null_keys(unmatched == Unmatched::Join);
        let serdes = options.serdes.or(&place.serdes).key_only();
        let joined = place.then(spec, serdes);
        KStream::at(Place { sources, ..joined })
    }
}
