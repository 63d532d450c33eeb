//! The nodes of stateless operators.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_processor::{Context, Node, NodeResult, NodeSupplier, Record, slot_of, take};

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

struct Look<K, V, F> {
    look: Arc<F>,
    types: PhantomData<fn(K, V)>,
}

impl<K, V, F> Node for Look<K, V, F>
where
    K: Clone + Send + 'static,
    V: Clone + Send + 'static,
    F: Fn(&K, &V) -> NodeResult<bool> + Send + Sync,
{
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let slot = slot_of::<K, V>(slot);
        let goes_on = match slot {
            Some(record) => (self.look)(&record.key, &record.value)?,
            None => false,
        };
        if goes_on { context.forward_slot(slot) } else { Ok(()) }
    }
}

/// A node that looks at each record and says whether it goes on. The record is not moved.
pub(crate) fn look<K, V, F>(look: F) -> NodeSupplier
where
    K: Clone + Send + 'static,
    V: Clone + Send + 'static,
    F: Fn(&K, &V) -> NodeResult<bool> + Send + Sync + 'static,
{
    let look = Arc::new(look);
    Arc::new(move |_| Ok(Box::new(Look { look: Arc::clone(&look), types: PhantomData })))
}

struct MapValues<K, V, W, F> {
    map: Arc<F>,
    types: PhantomData<fn(K, V) -> W>,
}

impl<K, V, W, F> Node for MapValues<K, V, W, F>
where
    K: Clone + Send + 'static,
    V: Clone + Send + 'static,
    W: Clone + Send + 'static,
    F: Fn(&K, &V) -> NodeResult<W> + Send + Sync,
{
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let slot = slot_of::<K, V>(slot);
        let Some(record) = slot else {
            return Ok(());
        };
        let value = (self.map)(&record.key, &record.value)?;
        let same_type: &mut dyn Any = &mut record.value;
        if let Some(place) = same_type.downcast_mut::<W>() {
            *place = value;
            return context.forward_slot(slot);
        }
        match slot.take() {
            Some(record) => context.forward(record.with_value(value)),
            None => Ok(()),
        }
    }
}

/// A node that replaces each value. A value of the same type is replaced where it lies.
pub(crate) fn map_values<K, V, W, F>(map: F) -> NodeSupplier
where
    K: Clone + Send + 'static,
    V: Clone + Send + 'static,
    W: Clone + Send + 'static,
    F: Fn(&K, &V) -> NodeResult<W> + Send + Sync + 'static,
{
    let map = Arc::new(map);
    Arc::new(move |_| {
        let types = PhantomData::<fn(K, V) -> W>;
        Ok(Box::new(MapValues { map: Arc::clone(&map), types }))
    })
}
