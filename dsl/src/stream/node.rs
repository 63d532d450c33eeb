//! The one node type of all stateless operators.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_processor::{Context, Node, NodeResult, NodeSupplier, Record, take};

struct Stateless<K, V, F> {
    work: Arc<F>,
    types: PhantomData<fn(K, V)>,
}

impl<K, V, F> Node for Stateless<K, V, F>
where
    K: 'static,
    V: 'static,
    F: Fn(Record<K, V>, &mut Context<'_>) -> NodeResult + Send + Sync,
{
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        (self.work)(take(slot), context)
    }
}

/// A node that holds nothing but a closure, which all tasks share.
pub(crate) fn stateless<K, V, F>(work: F) -> NodeSupplier
where
    K: 'static,
    V: 'static,
    F: Fn(Record<K, V>, &mut Context<'_>) -> NodeResult + Send + Sync + 'static,
{
    let work = Arc::new(work);
    Arc::new(move |_| Ok(Box::new(Stateless { work: Arc::clone(&work), types: PhantomData })))
}
