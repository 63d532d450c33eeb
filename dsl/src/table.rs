//! [`KTable`]: a table, the latest row of each key.

use std::fmt;
use std::sync::Arc;

use thalweg_connectors::Datum;

use crate::graph::NodeSpec;
use crate::marker::Rekeyed;
use crate::nodes::table;
use crate::options::Produced;
use crate::place::Place;
use crate::serdes::{Known, with_null};
use crate::stream::{KStream, Terminal};
use crate::table_rows::SharedRows;

/// A table: the latest row of each key. Keys and rows are never null; a deleted row is `None` where the table becomes a stream.
///
/// Updates travel as changes: the new row, and the old one where somebody below needs it. A computed table keeps no rows of its own
/// unless it is given a store; whoever needs a row has it computed from the table above. A handle is cheap to clone, and using it
/// twice is fan-out.
///
/// A table takes updates in the order in which they arrive, whatever their timestamps say: the row that arrived last wins.
///
/// ```
/// use thalweg::{StreamsBuilder, Topic};
///
/// let prices = Topic::<String, i64>::new("prices");
/// let cheap = Topic::<String, Option<i64>>::new("cheap");
///
/// let builder = StreamsBuilder::new();
/// builder.table(&prices, "prices").filter(|_item, price| *price < 100).to(&cheap);
/// # builder.build()?;
/// # Ok::<_, thalweg::BuildError>(())
/// ```
pub struct KTable<K, V> {
    pub(crate) place: Place<K, V>,
    pub(crate) rows: SharedRows<K, V>,
    /// The name of its store, if the user chose one.
    queryable: Option<Arc<str>>,
}

impl<K, V> Clone for KTable<K, V> {
    fn clone(&self) -> Self {
        let (place, rows) = (self.place.clone(), Arc::clone(&self.rows));
        Self { place, rows, queryable: self.queryable.clone() }
    }
}

impl<K, V> KTable<K, V> {
    pub(crate) fn at(
        place: Place<K, V>,
        rows: SharedRows<K, V>,
        queryable: Option<Arc<str>>,
    ) -> Self {
        Self { place, rows, queryable }
    }

    /// The name under which the rows can be queried; `None` when the table has no store with a name of your choice.
    pub fn queryable_store_name(&self) -> Option<&str> {
        self.queryable.as_deref()
    }

    /// Names the operator that this table comes out of. The names of nodes are not durable: they show in descriptions, logs and
    /// metrics.
    ///
    /// # Panics
    /// When the topology is built already.
    #[track_caller]
    #[must_use = "it is the same table"]
    pub fn named(self, name: impl AsRef<str>) -> Self {
        self.place.graph.rename(self.place.node, name.as_ref());
        self
    }
}

impl<K: Datum<Inner = K>, V: Datum<Inner = V>> KTable<K, V> {
    /// The stream of its new rows; a deleted one is `None`.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let prices = Topic::<String, i64>::new("prices");
    /// let texts = builder.table(&prices, "prices").to_stream().map_values(|item, price| match price {
    ///     Some(price) => format!("{item} costs {price}"),
    ///     None => format!("{item} is gone"),
    /// });
    /// # texts.to(&Topic::<String, String>::new("texts"));
    /// ```
    #[track_caller]
    pub fn to_stream(&self) -> KStream<K, V::Opt> {
        let name = self.place.graph.processor_name("KTABLE-TOSTREAM-");
        let serdes = Known {
            key: self.place.serdes.key.clone(),
            value: self.place.serdes.value.clone().map(with_null),
        };
        let spec = NodeSpec::processor(name, table::to_stream::<K, V>());
        KStream::at(self.place.then(spec, serdes))
    }

    /// As [`to_stream`](Self::to_stream), with a key made of key and row.
    #[track_caller]
    pub fn to_stream_with_key<K2: Datum>(
        &self,
        select: impl Fn(&K, Option<&V>) -> K2 + Send + Sync + 'static,
    ) -> KStream<K2, V::Opt, Rekeyed> {
        self.to_stream().select_key(move |key, row| select(key, row.inner()))
    }

    /// Writes its rows to a topic; a deleted one is written as null.
    #[track_caller]
    pub fn to(&self, topic: impl Into<Produced<K, V::Opt>>) -> Terminal {
        self.to_stream().to(topic)
    }
}

impl<K, V> fmt::Debug for KTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = (std::any::type_name::<K>(), std::any::type_name::<V>());
        f.debug_tuple("KTable").field(&types.0).field(&types.1).finish()
    }
}
