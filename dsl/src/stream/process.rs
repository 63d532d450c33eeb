//! `process`: custom logic of the Processor API inside the DSL.

use thalweg_connectors::Datum;
use thalweg_processor::{NodeSupplier, Processor, Setup, UsageError, supply};

use super::KStream;
use crate::graph::{Effect, NodeSpec};
use crate::marker::{Keys, Rekeyed};
use crate::options::Stores;
use crate::serdes::Known;

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Hands the records to a [`Processor`] of yours, which `build` makes for each task. The keys it forwards may be others.
    ///
    /// ```
    /// use thalweg::{BoxError, Handle, Processor, ProcessorContext, Record, Store, StreamsBuilder, Topic};
    ///
    /// /// Lets each key pass once.
    /// struct Dedupe { seen: Handle<String, i64> }
    ///
    /// impl Processor for Dedupe {
    ///     type KIn = String;
    ///     type VIn = i64;
    ///     type KOut = String;
    ///     type VOut = i64;
    ///
    ///     fn process(&mut self, context: &mut ProcessorContext<'_, '_, String, i64>, record: Record<String, i64>) -> Result<(), BoxError> {
    ///         if context.store(&self.seen).put_if_absent(&record.key, &record.value)?.is_none() {
    ///             context.forward(record)?;
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let builder = StreamsBuilder::new();
    /// let orders = Topic::<String, i64>::new("orders");
    /// let seen = Store::<String, i64>::key_value("seen");
    /// let declared = seen.clone();
    /// builder
    ///     .stream(&orders)
    ///     .process(&declared, move |setup| Ok(Dedupe { seen: setup.store(&seen)? }))
    ///     .to(&Topic::<String, i64>::new("first-orders"));
    /// ```
    #[track_caller]
    pub fn process<P>(
        &self,
        stores: impl Into<Stores>,
        build: impl Fn(&mut Setup<'_>) -> Result<P, UsageError> + Send + Sync + 'static,
    ) -> KStream<P::KOut, P::VOut, Rekeyed>
    where
        P: Processor<KIn = K, VIn = V>,
        P::KOut: Datum,
        P::VOut: Datum,
    {
        let name = self.place.graph.processor_name("KSTREAM-PROCESSOR-");
        let spec = processor(name, supply(build), stores.into())
            .effect(Effect::ChangesKeys)
            .named_without_number();
        self.then_rekeyed(spec, Known::NONE)
    }
}

/// A processor with the stores of the user's choice.
pub(super) fn processor(name: String, supplier: NodeSupplier, stores: Stores) -> NodeSpec {
    let spec = NodeSpec::custom(name, move |w| {
        w.topology.add_processor(w.name, supplier, w.parents)?;
        for def in stores.declared {
            w.topology.add_store(def, &[w.name])?;
        }
        let named: Vec<&str> = stores.named.iter().map(|name| &**name).collect();
        w.topology.connect(w.name, &named)
    });
    spec.named_without_number()
}
