//! Joins of two tables by their key.

use std::sync::Arc;

use thalweg_connectors::Datum;
use thalweg_processor::{BoxError, NodeError, StoreDecl};

use crate::graph::{NodeSpec, Writer};
use crate::nodes::join_tables::{JoinRows, Needs, SideDef, join_merge};
use crate::nodes::table::Switch;
use crate::options::{IntoMaterialized, Materialized};
use crate::place::Place;
use crate::serdes::Known;
use crate::table::KTable;
use crate::table_rows::JoinedRows;
use crate::table_store::{row_store, store_name};

/// The names that a join has unless it is given one.
struct Names {
    merge: String,
    this: String,
    other: String,
}

/// Table-table joins: the rows of one key, joined whenever either changes. Topics of both sides need the same number of partitions.
///
/// - The joined row is as old as the younger of the two rows, and has the headers of the update that made it.
/// - An update that leaves too little to join deletes the joined row, also when there was none; nothing is told when the update
///   deletes a row of one side while the other has none.
/// - A null result is no row. The function is never asked about two missing rows.
/// - Without a store of its own the join keeps nothing: whoever needs a row has it joined anew from both tables.
/// - Late updates of a versioned table are dropped and counted.
impl<K: Datum<Inner = K>, V: Datum<Inner = V>> KTable<K, V> {
    /// Joins the rows of keys that both tables have.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, TaskConfig, TestDriver, Topic};
    /// let prices = Topic::<String, i64>::new("prices");
    /// let stocks = Topic::<String, i64>::new("stocks");
    /// let worth = Topic::<String, Option<i64>>::new("worth");
    ///
    /// let builder = StreamsBuilder::new();
    /// let table = builder.table(&prices, "prices");
    /// table.join(&builder.table(&stocks, "stocks"), |price, pieces| price * pieces).to(&worth);
    ///
    /// let mut driver = TestDriver::new(&builder.build()?, TaskConfig::new("shop"))?;
    /// driver.input(&prices).pipe("tea".to_owned(), 3, 10)?;
    /// driver.input(&stocks).pipe("tea".to_owned(), 5, 20)?;
    /// assert_eq!(driver.output(&worth).read_pairs()?, [("tea".to_owned(), Some(15))]);
    /// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[track_caller]
    pub fn join<T: Datum<Inner = T>, W: Datum>(
        &self,
        other: &KTable<K, T>,
        join: impl Fn(&V, &T) -> W + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        self.try_join(other, move |own, other| Ok(join(own, other)))
    }

    /// As [`join`](Self::join), with a closure that can fail.
    #[track_caller]
    pub fn try_join<T: Datum<Inner = T>, W: Datum>(
        &self,
        other: &KTable<K, T>,
        join: impl Fn(&V, &T) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        self.joined(other, None, Needs::BOTH, of_both(join))
    }

    /// As [`join`](Self::join), and keeps its rows in a store.
    #[track_caller]
    pub fn join_into<T: Datum<Inner = T>, W: Datum>(
        &self,
        store: impl IntoMaterialized<K, W::Inner>,
        other: &KTable<K, T>,
        join: impl Fn(&V, &T) -> W + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        self.try_join_into(store, other, move |own, other| Ok(join(own, other)))
    }

    /// As [`join_into`](Self::join_into), with a closure that can fail.
    #[track_caller]
    pub fn try_join_into<T: Datum<Inner = T>, W: Datum>(
        &self,
        store: impl IntoMaterialized<K, W::Inner>,
        other: &KTable<K, T>,
        join: impl Fn(&V, &T) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        self.joined(other, Some(store.into_materialized()), Needs::BOTH, of_both(join))
    }

    /// Joins each row of this table with the one of the same key in the other, or with nothing.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let prices = builder.table(&Topic::<String, i64>::new("prices"), "prices");
    /// # let discounts = builder.table(&Topic::<String, i64>::new("discounts"), "discounts");
    /// let to_pay = prices.left_join(&discounts, |price, off| price - off.copied().unwrap_or(0));
    /// # to_pay.to(&Topic::<String, i64>::new("to-pay"));
    /// ```
    #[track_caller]
    pub fn left_join<T: Datum<Inner = T>, W: Datum>(
        &self,
        other: &KTable<K, T>,
        join: impl Fn(&V, Option<&T>) -> W + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        self.try_left_join(other, move |own, other| Ok(join(own, other)))
    }

    /// As [`left_join`](Self::left_join), with a closure that can fail.
    #[track_caller]
    pub fn try_left_join<T: Datum<Inner = T>, W: Datum>(
        &self,
        other: &KTable<K, T>,
        join: impl Fn(&V, Option<&T>) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        self.joined(other, None, Needs::OWN, of_own(join))
    }

    /// As [`left_join`](Self::left_join), and keeps its rows in a store.
    #[track_caller]
    pub fn left_join_into<T: Datum<Inner = T>, W: Datum>(
        &self,
        store: impl IntoMaterialized<K, W::Inner>,
        other: &KTable<K, T>,
        join: impl Fn(&V, Option<&T>) -> W + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        self.try_left_join_into(store, other, move |own, other| Ok(join(own, other)))
    }

    /// As [`left_join_into`](Self::left_join_into), with a closure that can fail.
    #[track_caller]
    pub fn try_left_join_into<T: Datum<Inner = T>, W: Datum>(
        &self,
        store: impl IntoMaterialized<K, W::Inner>,
        other: &KTable<K, T>,
        join: impl Fn(&V, Option<&T>) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        self.joined(other, Some(store.into_materialized()), Needs::OWN, of_own(join))
    }

    /// Joins the rows of all keys that either table has; one of the two rows may be missing.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let shop = builder.table(&Topic::<String, i64>::new("shop"), "shop");
    /// # let web = builder.table(&Topic::<String, i64>::new("web"), "web");
    /// let sold = shop.outer_join(&web, |shop, web| shop.unwrap_or(&0) + web.unwrap_or(&0));
    /// # sold.to(&Topic::<String, i64>::new("sold"));
    /// ```
    #[track_caller]
    pub fn outer_join<T: Datum<Inner = T>, W: Datum>(
        &self,
        other: &KTable<K, T>,
        join: impl Fn(Option<&V>, Option<&T>) -> W + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        self.try_outer_join(other, move |own, other| Ok(join(own, other)))
    }

    /// As [`outer_join`](Self::outer_join), with a closure that can fail.
    #[track_caller]
    pub fn try_outer_join<T: Datum<Inner = T>, W: Datum>(
        &self,
        other: &KTable<K, T>,
        join: impl Fn(Option<&V>, Option<&T>) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        self.joined(other, None, Needs::ANY, of_any(join))
    }

    /// As [`outer_join`](Self::outer_join), and keeps its rows in a store.
    #[track_caller]
    pub fn outer_join_into<T: Datum<Inner = T>, W: Datum>(
        &self,
        store: impl IntoMaterialized<K, W::Inner>,
        other: &KTable<K, T>,
        join: impl Fn(Option<&V>, Option<&T>) -> W + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        self.try_outer_join_into(store, other, move |own, other| Ok(join(own, other)))
    }

    /// As [`outer_join_into`](Self::outer_join_into), with a closure that can fail.
    #[track_caller]
    pub fn try_outer_join_into<T: Datum<Inner = T>, W: Datum>(
        &self,
        store: impl IntoMaterialized<K, W::Inner>,
        other: &KTable<K, T>,
        join: impl Fn(Option<&V>, Option<&T>) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KTable<K, W::Inner> {
        self.joined(other, Some(store.into_materialized()), Needs::ANY, of_any(join))
    }

    /// Kafka Streams' `doJoin`: a node per side, and one behind them that merges.
    #[track_caller]
    fn joined<T: Datum<Inner = T>, W: Datum<Inner = W>>(
        &self,
        other: &KTable<K, T>,
        materialized: Option<Materialized<K, W>>,
        needs: Needs,
        join: JoinRows<V, T, W>,
    ) -> KTable<K, W> {
        let graph = &self.place.graph;
        let key_only = self.place.serdes.key_only();
        // the numbers of generated names: first the store's, then the merging node's, then the sides'
        let kept = materialized.map(|m| (store_name(graph, &m, "KTABLE-MERGE-"), m));
        let (store, serdes) = match &kept {
            Some((name, materialized)) => {
                let kept = row_store(graph, name, materialized, &key_only);
                (Some(kept.store), Known::both(kept.key, kept.value))
            }
            None => (None, key_only),
        };
        let names = Names {
            merge: graph.processor_name("KTABLE-MERGE-"),
            this: graph.processor_name("KTABLE-JOINTHIS-"),
            other: graph.processor_name("KTABLE-JOINOTHER-"),
        };
        let sources = self.place.sources_with(&other.place.sources);
        graph.copartition(sources.iter().copied());
        if needs != Needs::BOTH {
            self.rows.send_old(true);
        }
        if needs == Needs::ANY {
            other.rows.send_old(true);
        }
        let send_old = Switch::default();
        let mut spec = self.join_spec(
            other,
            names,
            (needs, Arc::clone(&join)),
            join_merge(store.clone(), send_old.clone()),
            &send_old,
        );
        if let (Some((_, m)), Some(store)) = (&kept, &store) {
            spec = spec.store(m.apply(store.def().clone()), m.placed);
        }
        let node = graph.add(&[self.place.node, other.place.node], spec);
        let graph = graph.clone();
        let place = Place { graph, node, sources, serdes, must_repartition: false };
        let queryable = kept.and_then(|(_, m)| m.name.given().cloned());
        let (left, right) = (Arc::clone(&self.rows), Arc::clone(&other.rows));
        let rows = JoinedRows { left, right, join, needs, store, send_old };
        KTable::at(place, Arc::new(rows), queryable)
    }

    /// How the three nodes of a join are written.
    fn join_spec<T: Datum<Inner = T>, W: Datum<Inner = W>>(
        &self,
        other: &KTable<K, T>,
        names: Names,
        (needs, join): (Needs, JoinRows<V, T, W>),
        merge: thalweg_processor::NodeSupplier,
        send_old: &Switch,
    ) -> NodeSpec {
        let (own_rows, other_rows) = (self.rows.getter(), other.rows.getter());
        let reads = |getter: &[Arc<str>]| getter.iter().map(Arc::clone).collect::<Vec<_>>();
        let (own_stores, other_stores) = (reads(own_rows.stores()), reads(other_rows.stores()));
        let turned: JoinRows<T, V, W> = {
            let join = Arc::clone(&join);
            Arc::new(move |other, own| join(own, other))
        };
        let send_old = || send_old.clone();
        let this = SideDef { other: other_rows, join, needs, send_old: send_old() }.supplier();
        let needs = needs.reversed();
        let other =
            SideDef { other: own_rows, join: turned, needs, send_old: send_old() }.supplier();
        NodeSpec::custom(names.merge.clone(), move |w: &mut Writer<'_>| {
            let is_named = w.name != names.merge;
            let side = |suffix: &str, generated: String| match is_named {
                true => format!("{}{suffix}", w.name),
                false => generated,
            };
            let this_name = side("-join-this", names.this);
            let other_name = side("-join-other", names.other);
            let (Some(left), Some(right)) = (w.parents.first(), w.parents.last()) else {
                unreachable!("a join has parents");
            };
            w.topology.add_processor(&this_name, this, &[left])?;
            w.topology.add_processor(&other_name, other, &[right])?;
            w.topology.add_processor(w.name, merge, &[&this_name, &other_name])?;
            let names = |stores: &[Arc<str>]| stores.iter().map(ToString::to_string).collect();
            let (own, others): (Vec<String>, Vec<String>) =
                (names(&own_stores), names(&other_stores));
            connect(w, &this_name, &others)?;
            connect(w, &other_name, &own)
        })
    }
}

fn connect(
    w: &mut Writer<'_>,
    node: &str,
    stores: &[String],
) -> Result<(), thalweg_processor::TopologyError> {
    let stores: Vec<&str> = stores.iter().map(String::as_str).collect();
    w.topology.connect(node, &stores)
}

/// The function of an inner join.
fn of_both<A: 'static, B: 'static, W: Datum>(
    join: impl Fn(&A, &B) -> Result<W, BoxError> + Send + Sync + 'static,
) -> JoinRows<A, B, W::Inner> {
    Arc::new(move |own, other| match own.zip(other) {
        Some((own, other)) => Ok(join(own, other).map_err(NodeError::user)?.into_inner()),
        None => Ok(None),
    })
}

/// The function of a left join.
fn of_own<A: 'static, B: 'static, W: Datum>(
    join: impl Fn(&A, Option<&B>) -> Result<W, BoxError> + Send + Sync + 'static,
) -> JoinRows<A, B, W::Inner> {
    Arc::new(move |own, other| match own {
        Some(own) => Ok(join(own, other).map_err(NodeError::user)?.into_inner()),
        None => Ok(None),
    })
}

/// The function of an outer join.
fn of_any<A: 'static, B: 'static, W: Datum>(
    join: impl Fn(Option<&A>, Option<&B>) -> Result<W, BoxError> + Send + Sync + 'static,
) -> JoinRows<A, B, W::Inner> {
    Arc::new(move |own, other| Ok(join(own, other).map_err(NodeError::user)?.into_inner()))
}
