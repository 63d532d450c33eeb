//! `flat_map`, `flat_map_values`.

use thalweg_connectors::Datum;
use thalweg_processor::{BoxError, Context, NodeError, NodeResult, Record};

use super::{KStream, stateless};
use crate::graph::{Effect, NodeSpec};
use crate::marker::{Keys, Rekeyed};
use crate::serdes::Known;

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Replaces the value by any number of values; the key stays, and stays in place.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let lines = Topic::<String, String>::new("lines");
    /// let words = builder
    ///     .stream(&lines)
    ///     .flat_map_values(|_, line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    /// # words.to(&lines);
    /// ```
    #[track_caller]
    pub fn flat_map_values<W: Datum, I: IntoIterator<Item = W>>(
        &self,
        map: impl Fn(&K, &V) -> I + Send + Sync + 'static,
    ) -> KStream<K, W, M> {
        self.try_flat_map_values(move |key, value| Ok(map(key, value)))
    }

    /// As [`flat_map_values`](Self::flat_map_values), with a closure that can fail.
    #[track_caller]
    pub fn try_flat_map_values<W: Datum, I: IntoIterator<Item = W>>(
        &self,
        map: impl Fn(&K, &V) -> Result<I, BoxError> + Send + Sync + 'static,
    ) -> KStream<K, W, M> {
        let name = self.place.graph.processor_name("KSTREAM-FLATMAPVALUES-");
        let node = stateless(move |record: Record<K, V>, context: &mut Context<'_>| {
            let values = map(&record.key, &record.value).map_err(NodeError::user)?;
            let Record { key, timestamp, headers, .. } = record;
            for value in values {
                let (key, headers) = (key.clone(), headers.clone());
                context.forward(Record { key, value, timestamp, headers })?;
            }
            Ok(())
        });
        self.then(
            NodeSpec::processor(name, node).effect(Effect::ChangesValues),
            self.place.serdes.key_only(),
        )
    }

    /// Replaces the record by any number of keys and values.
    #[track_caller]
    pub fn flat_map<K2: Datum, W: Datum, I: IntoIterator<Item = (K2, W)>>(
        &self,
        map: impl Fn(&K, &V) -> I + Send + Sync + 'static,
    ) -> KStream<K2, W, Rekeyed> {
        self.try_flat_map(move |key, value| Ok(map(key, value)))
    }

    /// As [`flat_map`](Self::flat_map), with a closure that can fail.
    #[track_caller]
    pub fn try_flat_map<K2: Datum, W: Datum, I: IntoIterator<Item = (K2, W)>>(
        &self,
        map: impl Fn(&K, &V) -> Result<I, BoxError> + Send + Sync + 'static,
    ) -> KStream<K2, W, Rekeyed> {
        let name = self.place.graph.processor_name("KSTREAM-FLATMAP-");
        let node =
            stateless(move |record: Record<K, V>, context: &mut Context<'_>| -> NodeResult {
                let pairs = map(&record.key, &record.value).map_err(NodeError::user)?;
                let Record { timestamp, headers, .. } = record;
                for (key, value) in pairs {
                    let headers = headers.clone();
                    context.forward(Record { key, value, timestamp, headers })?;
                }
                Ok(())
            });
        self.then_rekeyed(NodeSpec::processor(name, node).effect(Effect::ChangesKeys), Known::NONE)
    }
}
