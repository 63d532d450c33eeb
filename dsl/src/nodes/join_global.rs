//! A stream joined with a global table: each record looks up the row of a key made of it.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_connectors::Datum;
use thalweg_processor::{
    BoxError, Context, Node, NodeError, NodeResult, NodeSupplier, Record, take,
};

use super::join_table::Unmatched;
use super::table_getter::{Getter, GetterSupplier};

/// The types of a join: keys and values of the stream, the key that is looked up, rows, results.
type Types<K, V, GK, W> = PhantomData<fn(K, V, GK) -> W>;

struct GlobalJoin<K, V, GK: Datum, T, W, S, F> {
    table: Box<dyn Getter<GK::Inner, T>>,
    select: Arc<S>,
    join: Arc<F>,
    unmatched: Unmatched,
    types: Types<K, V, GK, W>,
}

impl<K, V, GK, T, W, S, F> Node for GlobalJoin<K, V, GK, T, W, S, F>
where
    K: Datum,
    V: Datum,
    GK: Datum,
    T: Datum,
    W: Datum,
    S: Fn(&K, &V) -> Result<GK, BoxError> + Send + Sync + 'static,
    F: Fn(&K, &V, &GK, Option<&T>) -> Result<W, BoxError> + Send + Sync + 'static,
{
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value, timestamp, headers } = take::<K, V>(slot);
        let wanted = (self.select)(&key, &value).map_err(NodeError::user)?;
        if value.is_null() || (wanted.is_null() && self.unmatched == Unmatched::Skip) {
            context.drop_record("null key or value in a join with a global table");
            return Ok(());
        }
        let row = match wanted.inner() {
            Some(wanted) => self.table.get(context, wanted)?,
            None => None,
        };
        if row.is_none() && self.unmatched == Unmatched::Skip {
            return Ok(());
        }
        let row = row.map(|row| row.value);
        let joined = (self.join)(&key, &value, &wanted, row.as_ref());
        let value = joined.map_err(NodeError::user)?;
        context.forward(Record { key, value, timestamp, headers })
    }
}

/// Makes the join. An inner join's function always gets a row.
pub(crate) fn global_join<K, V, GK, T, W, S, F>(
    table: GetterSupplier<GK::Inner, T>,
    select: S,
    join: F,
    unmatched: Unmatched,
) -> NodeSupplier
where
    K: Datum,
    V: Datum,
    GK: Datum,
    T: Datum,
    W: Datum,
    S: Fn(&K, &V) -> Result<GK, BoxError> + Send + Sync + 'static,
    F: Fn(&K, &V, &GK, Option<&T>) -> Result<W, BoxError> + Send + Sync + 'static,
{
    let (select, join) = (Arc::new(select), Arc::new(join));
    Arc::new(move |setup| {
        let (select, join) = (Arc::clone(&select), Arc::clone(&join));
        let (table, types) = (table.make(setup)?, Types::<K, V, GK, W>::default());
        Ok(Box::new(GlobalJoin { table, select, join, unmatched, types }))
    })
}
