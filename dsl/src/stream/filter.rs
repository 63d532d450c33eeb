//! `filter`, `filter_not`.

use thalweg_connectors::Datum;
use thalweg_processor::{BoxError, NodeError};

use super::{KStream, look};
use crate::graph::NodeSpec;
use crate::marker::Keys;

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Keeps the records for which the predicate holds.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let orders = Topic::<String, i64>::new("orders");
    /// let large = builder.stream(&orders).filter(|_customer, amount| *amount > 1000);
    /// # large.to(&orders);
    /// ```
    #[track_caller]
    pub fn filter(&self, keep: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        self.try_filter(move |key, value| Ok(keep(key, value)))
    }

    /// Keeps the records for which the predicate does not hold.
    #[track_caller]
    pub fn filter_not(&self, drop: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        self.try_filter(move |key, value| Ok(!drop(key, value)))
    }

    /// As [`filter`](Self::filter), with a predicate that can fail.
    #[track_caller]
    pub fn try_filter(
        &self,
        keep: impl Fn(&K, &V) -> Result<bool, BoxError> + Send + Sync + 'static,
    ) -> Self {
        let name = self.place.graph.processor_name("KSTREAM-FILTER-");
        let node = look(move |key: &K, value: &V| keep(key, value).map_err(NodeError::user));
        self.then(NodeSpec::processor(name, node), self.place.serdes.clone())
    }
}
