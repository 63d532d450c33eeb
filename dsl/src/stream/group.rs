//! `group_by_key`, `group_by`.

use thalweg_connectors::Datum;
use thalweg_processor::BoxError;

use super::KStream;
use crate::grouped::KGroupedStream;
use crate::grouping::Grouping;
use crate::marker::{Keys, KeysInPlace};
use crate::options::{Grouped, IntoGrouped};

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Groups by the key, which is in place: there is no repartition topic.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let orders = Topic::<String, i64>::new("orders");
    /// let by_customer = builder.stream(&orders).group_by_key();
    /// # let _ = by_customer;
    /// ```
    #[track_caller]
    pub fn group_by_key(&self) -> KGroupedStream<K, V>
    where
        M: KeysInPlace,
    {
        self.group_by_key_via(Grouped::kafka_generated())
    }

    /// Groups by the key, through a repartition topic of that name if a key was changed upstream.
    #[track_caller]
    pub fn group_by_key_via(&self, options: impl Into<Grouped<K, V>>) -> KGroupedStream<K, V> {
        KGroupedStream::new(Grouping::of(self.place.clone(), options.into()))
    }

    /// Groups by a key of your choice, through a repartition topic of that name. A record without one (`None`) is left out.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let visits = Topic::<(), String>::new("visits");
    /// let by_page = builder.stream(&visits).group_by("by-page", |(), page| page.clone());
    /// # let _ = by_page;
    /// ```
    #[track_caller]
    pub fn group_by<G: Datum>(
        &self,
        options: impl IntoGrouped<G, V>,
        select: impl Fn(&K, &V) -> G + Send + Sync + 'static,
    ) -> KGroupedStream<G, V> {
        self.try_group_by(options, move |key, value| Ok(select(key, value)))
    }

    /// As [`group_by`](Self::group_by), with a closure that can fail.
    #[track_caller]
    pub fn try_group_by<G: Datum>(
        &self,
        options: impl IntoGrouped<G, V>,
        select: impl Fn(&K, &V) -> Result<G, BoxError> + Send + Sync + 'static,
    ) -> KGroupedStream<G, V> {
        let options = options.into_grouped();
        let name = self.place.graph.name_or(options.name.given(), "KSTREAM-KEY-SELECT-");
        let spec = self.select_key_node(name, select);
        let place = self.place.then(spec, self.place.serdes.value_only()).rekeyed();
        KGroupedStream::new(Grouping::of(place, options))
    }
}
