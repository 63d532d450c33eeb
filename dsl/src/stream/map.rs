//! `map`, `map_values`.

use thalweg_connectors::Datum;
use thalweg_processor::{BoxError, Context, NodeError, Record};

use super::{KStream, map_values, stateless};
use crate::graph::{Effect, NodeSpec};
use crate::marker::{Keys, Rekeyed};
use crate::serdes::Known;

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Replaces the value; the key stays, and stays in place.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let lines = Topic::<String, String>::new("lines");
    /// let lengths = builder.stream(&lines).map_values(|_, line| line.len() as i64);
    /// # lengths.to(&Topic::<String, i64>::new("lengths"));
    /// ```
    #[track_caller]
    pub fn map_values<W: Datum>(
        &self,
        map: impl Fn(&K, &V) -> W + Send + Sync + 'static,
    ) -> KStream<K, W, M> {
        self.try_map_values(move |key, value| Ok(map(key, value)))
    }

    /// As [`map_values`](Self::map_values), with a closure that can fail.
    #[track_caller]
    pub fn try_map_values<W: Datum>(
        &self,
        map: impl Fn(&K, &V) -> Result<W, BoxError> + Send + Sync + 'static,
    ) -> KStream<K, W, M> {
        let name = self.place.graph.processor_name("KSTREAM-MAPVALUES-");
        let node = map_values(move |key: &K, value: &V| map(key, value).map_err(NodeError::user));
        self.then(
            NodeSpec::processor(name, node).effect(Effect::ChangesValues),
            self.place.serdes.key_only(),
        )
    }

    /// Replaces key and value.
    #[track_caller]
    pub fn map<K2: Datum, W: Datum>(
        &self,
        map: impl Fn(&K, &V) -> (K2, W) + Send + Sync + 'static,
    ) -> KStream<K2, W, Rekeyed> {
        self.try_map(move |key, value| Ok(map(key, value)))
    }

    /// As [`map`](Self::map), with a closure that can fail.
    #[track_caller]
    pub fn try_map<K2: Datum, W: Datum>(
        &self,
        map: impl Fn(&K, &V) -> Result<(K2, W), BoxError> + Send + Sync + 'static,
    ) -> KStream<K2, W, Rekeyed> {
        let name = self.place.graph.processor_name("KSTREAM-MAP-");
        let node = stateless(move |record: Record<K, V>, context: &mut Context<'_>| {
            let (key, value) = map(&record.key, &record.value).map_err(NodeError::user)?;
            context.forward(record.with_key(key).with_value(value))
        });
        self.then_rekeyed(NodeSpec::processor(name, node).effect(Effect::ChangesKeys), Known::NONE)
    }
}
