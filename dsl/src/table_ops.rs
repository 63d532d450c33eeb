//! `filter`, `filter_not`, `map_values` of a table.

use std::sync::Arc;

use thalweg_connectors::Datum;
use thalweg_processor::{BoxError, StoreDecl};

use crate::graph::NodeSpec;
use crate::nodes::table::Switch;
use crate::nodes::table_compute::{Compute, Keep, MapRow, table_compute};
use crate::options::{IntoMaterialized, Materialized};
use crate::serdes::Known;
use crate::table::KTable;
use crate::table_rows::ComputedRows;
use crate::table_store::row_store;

impl<K: Datum<Inner = K>, V: Datum<Inner = V>> KTable<K, V> {
    /// Keeps the rows for which the predicate holds; a row that no longer does is deleted.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let prices = Topic::<String, i64>::new("prices");
    /// let cheap = builder.table(&prices, "prices").filter(|_item, price| *price < 100);
    /// # cheap.to(&prices);
    /// ```
    #[track_caller]
    pub fn filter(&self, keep: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        self.try_filter(move |key, row| Ok(keep(key, row)))
    }

    /// Keeps the rows for which the predicate does not hold.
    #[track_caller]
    pub fn filter_not(&self, drop: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        self.try_filter(move |key, row| Ok(!drop(key, row)))
    }

    /// As [`filter`](Self::filter), with a predicate that can fail.
    #[track_caller]
    pub fn try_filter(
        &self,
        keep: impl Fn(&K, &V) -> Result<bool, BoxError> + Send + Sync + 'static,
    ) -> Self {
        let serdes = self.place.serdes.clone();
        self.computed(None, Arc::new(Keep(keep)), serdes, "KTABLE-FILTER-")
    }

    /// As [`filter`](Self::filter), and keeps its rows in a store.
    #[track_caller]
    pub fn filter_into(
        &self,
        store: impl Into<Materialized<K, V>>,
        keep: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.try_filter_into(store, move |key, row| Ok(keep(key, row)))
    }

    /// As [`filter_not`](Self::filter_not), and keeps its rows in a store.
    #[track_caller]
    pub fn filter_not_into(
        &self,
        store: impl Into<Materialized<K, V>>,
        drop: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.try_filter_into(store, move |key, row| Ok(!drop(key, row)))
    }

    /// As [`filter_into`](Self::filter_into), with a predicate that can fail.
    #[track_caller]
    pub fn try_filter_into(
        &self,
        store: impl Into<Materialized<K, V>>,
        keep: impl Fn(&K, &V) -> Result<bool, BoxError> + Send + Sync + 'static,
    ) -> Self {
        let store = store.into();
        let serdes = store.serdes.clone().or(&self.place.serdes);
        self.computed(Some(store), Arc::new(Keep(keep)), serdes, "KTABLE-FILTER-")
    }

    /// Makes each row anew. It is not asked about deleted rows; `None` deletes one.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let prices = Topic::<String, i64>::new("prices");
    /// let labels = builder.table(&prices, "prices").map_values(|item, price| format!("{item}: {price}"));
    /// # labels.to(&Topic::<String, String>::new("labels"));
    /// ```
    #[track_caller]
    pub fn map_values<W: Datum>(
        &self,
        map: impl Fn(&K, &V) -> W + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        self.try_map_values(move |key, row| Ok(map(key, row)))
    }

    /// As [`map_values`](Self::map_values), with a closure that can fail.
    #[track_caller]
    pub fn try_map_values<W: Datum>(
        &self,
        map: impl Fn(&K, &V) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        let serdes = self.place.serdes.key_only();
        self.computed(None, Arc::new(MapRow::new(map)), serdes, "KTABLE-MAPVALUES-")
    }

    /// As [`map_values`](Self::map_values), and keeps its rows in a store.
    #[track_caller]
    pub fn map_values_into<W: Datum>(
        &self,
        store: impl IntoMaterialized<K, W::Inner>,
        map: impl Fn(&K, &V) -> W + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        self.try_map_values_into(store, move |key, row| Ok(map(key, row)))
    }

    /// As [`map_values_into`](Self::map_values_into), with a closure that can fail.
    #[track_caller]
    pub fn try_map_values_into<W: Datum>(
        &self,
        store: impl IntoMaterialized<K, W::Inner>,
        map: impl Fn(&K, &V) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        let store = store.into_materialized();
        let serdes = store.serdes.clone().or(&self.place.serdes.key_only());
        self.computed(Some(store), Arc::new(MapRow::new(map)), serdes, "KTABLE-MAPVALUES-")
    }

    /// A table computed from this one. As in Kafka Streams, a store without a name of the user's is not made, but a number is
    /// burned for it.
    #[track_caller]
    fn computed<W: Datum>(
        &self,
        materialized: Option<Materialized<K, W>>,
        compute: Arc<dyn Compute<K, V, W>>,
        serdes: Known<K, W>,
        prefix: &str,
    ) -> KTable<K, W> {
        let graph = &self.place.graph;
        let queryable = materialized.as_ref().and_then(|m| m.name.given()).cloned();
        if materialized.is_some() && queryable.is_none() {
            graph.store_name(prefix);
        }
        let kept = materialized.zip(queryable.as_ref());
        #[expect(
            clippy::manual_map,
            reason = "in a closure the store's place would not be the caller's"
        )]
        let store = match &kept {
            Some((materialized, name)) => Some(row_store(graph, name, materialized, &serdes).store),
            None => None,
        };
        let name = graph.processor_name(prefix);
        let send_old = Switch::default();
        // a filter below a table that knows old rows sends no deletes of rows that never passed it
        if compute.skips_nothing() && self.rows.send_old(false) {
            send_old.on();
        }
        let supplier = table_compute(Arc::clone(&compute), store.clone(), send_old.clone());
        let mut spec = NodeSpec::processor(name, supplier);
        if let (Some((m, _)), Some(store)) = (kept, &store) {
            spec = spec.store(m.apply(store.def().clone()), m.placed);
        }
        let rows = ComputedRows { parent: Arc::clone(&self.rows), compute, store, send_old };
        KTable::at(self.place.then(spec, serdes), Arc::new(rows), queryable)
    }
}
