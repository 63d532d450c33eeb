//! A stream joined with a table: each record looks up the row of its key at the moment it arrives.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_connectors::Datum;
use thalweg_processor::{
    BoxError, Context, Node, NodeError, NodeResult, NodeSupplier, Record, take,
};

use super::table_getter::{Getter, GetterSupplier};

/// What becomes of a record that has no row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unmatched {
    /// Nothing: an inner join.
    Skip,
    /// It is joined with nothing: a left join, also for a null key.
    Join,
}

struct TableJoin<K, V, T, W, F>
where
    K: Datum,
{
    table: Box<dyn Getter<K::Inner, T>>,
    join: Arc<F>,
    unmatched: Unmatched,
    types: PhantomData<fn(V) -> W>,
}

impl<K, V, T, W, F> Node for TableJoin<K, V, T, W, F>
where
    K: Datum,
    V: Datum,
    T: Datum,
    W: Datum,
    F: Fn(&K, &V, Option<&T>) -> Result<W, BoxError> + Send + Sync + 'static,
{
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value, timestamp, headers } = take::<K, V>(slot);
        if value.is_null() || (key.is_null() && self.unmatched == Unmatched::Skip) {
            context.drop_record("null key or value in a stream-table join");
            return Ok(());
        }
        let row = match key.inner() {
            Some(key) => self.table.get(context, key)?,
            None => None,
        };
        if row.is_none() && self.unmatched == Unmatched::Skip {
            return Ok(());
        }
        let row = row.map(|row| row.value);
        let value = (self.join)(&key, &value, row.as_ref()).map_err(NodeError::user)?;
        context.forward(Record { key, value, timestamp, headers })
    }
}

/// Makes the join; it has to be connected to the stores of `table`. An inner join's function always gets a row.
pub(crate) fn table_join<K, V, T, W, F>(
    table: GetterSupplier<K::Inner, T>,
    join: F,
    unmatched: Unmatched,
) -> NodeSupplier
where
    K: Datum,
    V: Datum,
    T: Datum,
    W: Datum,
    F: Fn(&K, &V, Option<&T>) -> Result<W, BoxError> + Send + Sync + 'static,
{
    let join = Arc::new(join);
    Arc::new(move |setup| {
        let (table, join) = (table.make(setup)?, Arc::clone(&join));
        Ok(Box::new(TableJoin::<K, V, T, W, F> { table, join, unmatched, types: PhantomData }))
    })
}
