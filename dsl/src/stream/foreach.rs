//! `peek`, `for_each`.

use thalweg_connectors::Datum;
use thalweg_processor::{BoxError, NodeError};

use super::{KStream, Terminal};
use crate::graph::NodeSpec;
use crate::marker::Keys;

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Looks at each record and hands it on. A side effect is outside of the guarantee: it may happen again after a failure.
    #[track_caller]
    pub fn peek(&self, look: impl Fn(&K, &V) + Send + Sync + 'static) -> Self {
        self.try_peek(move |key, value| {
            look(key, value);
            Ok(())
        })
    }

    /// As [`peek`](Self::peek), with a closure that can fail.
    #[track_caller]
    pub fn try_peek(
        &self,
        look: impl Fn(&K, &V) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        let name = self.place.graph.processor_name("KSTREAM-PEEK-");
        let node = super::look(move |key: &K, value: &V| {
            look(key, value).map_err(NodeError::user)?;
            Ok(true)
        });
        self.then(NodeSpec::processor(name, node), self.place.serdes.clone())
    }

    /// Ends the stream in a side effect. It is outside of the guarantee: it may happen again after a failure.
    #[track_caller]
    pub fn for_each(&self, each: impl Fn(&K, &V) + Send + Sync + 'static) -> Terminal {
        self.try_for_each(move |key, value| {
            each(key, value);
            Ok(())
        })
    }

    /// As [`for_each`](Self::for_each), with a closure that can fail.
    #[track_caller]
    pub fn try_for_each(
        &self,
        each: impl Fn(&K, &V) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Terminal {
        let name = self.place.graph.processor_name("KSTREAM-FOREACH-");
        let node = super::look(move |key: &K, value: &V| {
            each(key, value).map_err(NodeError::user)?;
            Ok(false)
        });
        Terminal::add(&self.place, NodeSpec::processor(name, node))
    }
}
