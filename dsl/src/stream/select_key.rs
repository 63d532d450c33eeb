//! `select_key`.

use thalweg_connectors::Datum;
use thalweg_processor::{BoxError, Context, NodeError, Record};

use super::{KStream, stateless};
use crate::graph::{Effect, NodeSpec};
use crate::marker::{Keys, Rekeyed};

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Replaces the key.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let visits = Topic::<(), String>::new("visits");
    /// let by_page = builder.stream(&visits).select_key(|(), page| page.clone());
    /// # by_page.to(&Topic::<String, String>::new("by-page"));
    /// ```
    #[track_caller]
    pub fn select_key<K2: Datum>(
        &self,
        select: impl Fn(&K, &V) -> K2 + Send + Sync + 'static,
    ) -> KStream<K2, V, Rekeyed> {
        self.try_select_key(move |key, value| Ok(select(key, value)))
    }

    /// As [`select_key`](Self::select_key), with a closure that can fail.
    #[track_caller]
    pub fn try_select_key<K2: Datum>(
        &self,
        select: impl Fn(&K, &V) -> Result<K2, BoxError> + Send + Sync + 'static,
    ) -> KStream<K2, V, Rekeyed> {
        let name = self.place.graph.processor_name("KSTREAM-KEY-SELECT-");
        let spec = self.select_key_node(name, select);
        self.then_rekeyed(spec, self.place.serdes.value_only())
    }

    /// The node of `select_key` and `group_by`.
    pub(super) fn select_key_node<K2: Datum>(
        &self,
        name: String,
        select: impl Fn(&K, &V) -> Result<K2, BoxError> + Send + Sync + 'static,
    ) -> NodeSpec {
        let node = stateless(move |record: Record<K, V>, context: &mut Context<'_>| {
            let key = select(&record.key, &record.value).map_err(NodeError::user)?;
            context.forward(record.with_key(key))
        });
        NodeSpec::processor(name, node).effect(Effect::ChangesKeys)
    }
}
