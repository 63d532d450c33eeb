//! A stream folded into a table: one row per key.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_connectors::Datum;
use thalweg_processor::{
    Change, Context, Flushed, Node, NodeResult, NodeSupplier, Record, Updated, take,
};

use super::aggregate_fold::{Fold, TableFold};
use super::table::{RowStore, Rows, Switch};

struct StreamAggregate<K: Datum, V, S, F> {
    fold: Arc<F>,
    rows: Rows<K::Inner, S>,
    send_old: bool,
    types: PhantomData<fn(V)>,
}

impl<K, V, S, F> Node for StreamAggregate<K, V, S, F>
where
    K: Datum,
    V: Datum,
    S: Datum,
    F: Fold<K::Inner, V, S>,
{
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value, timestamp, headers } = take::<K, V>(slot);
        let Some(key) = key.into_inner().filter(|_| !value.is_null()) else {
            context.drop_record("null key or value in an aggregation");
            return Ok(());
        };
        let tell_old = self.send_old && !self.rows.cached;
        let updated = context.store(&self.rows.handle).update(&key, |row| {
            let (row, at) = row.map_or((None, timestamp), |r| (Some(r.value), r.timestamp));
            let folded = self.fold.fold(&key, &value, row, tell_old)?;
            let timestamp = timestamp.max(at);
            Ok(Updated { value: folded.new, timestamp, extra: folded.old })
        })?;
        if self.rows.cached {
            return Ok(());
        }
        let value = Change::latest(updated.value, updated.extra);
        context.forward(Record { key, value, timestamp: updated.timestamp, headers })
    }

    fn flush(&mut self, entry: Flushed<'_>, context: &mut Context<'_>) -> NodeResult {
        self.rows.forward_flushed(&entry, self.send_old, context)
    }
}

/// Makes the node that folds a stream with keys `K` into a table.
pub(crate) fn stream_aggregate<K, V, S, F>(
    fold: F,
    store: RowStore<K::Inner, S>,
    send_old: Switch,
) -> NodeSupplier
where
    K: Datum,
    V: Datum,
    S: Datum,
    F: Fold<K::Inner, V, S>,
{
    let fold = Arc::new(fold);
    Arc::new(move |setup| {
        let rows = Rows::own(&store, setup)?;
        let (fold, send_old) = (Arc::clone(&fold), send_old.is_on());
        Ok(Box::new(StreamAggregate::<K, V, S, F> { fold, rows, send_old, types: PhantomData }))
    })
}

struct TableAggregate<K, V, S, F> {
    fold: Arc<F>,
    rows: Rows<K, S>,
    send_old: bool,
    types: PhantomData<fn(V)>,
}

impl<K: Datum, V: Datum, S: Datum, F: TableFold<K, V, S>> Node for TableAggregate<K, V, S, F> {
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value: change, timestamp, headers } = take::<K, Change<V>>(slot);
        let tell_old = self.send_old && !self.rows.cached;
        let updated = context.store(&self.rows.handle).update(&key, |row| {
            let (mut row, at) = row.map_or((None, timestamp), |r| (Some(r.value), r.timestamp));
            let told = row.as_ref().filter(|_| tell_old).cloned();
            if let Some(old) = &change.old
                && let Some(before) = row.take()
            {
                row = self.fold.subtract(&key, old, before)?;
            }
            if let Some(new) = &change.new {
                row = self.fold.add(&key, new, row)?;
            }
            Ok(Updated { value: row, timestamp: timestamp.max(at), extra: told })
        })?;
        if self.rows.cached {
            return Ok(());
        }
        let value = Change::latest(updated.value, updated.extra);
        context.forward(Record { key, value, timestamp: updated.timestamp, headers })
    }

    fn flush(&mut self, entry: Flushed<'_>, context: &mut Context<'_>) -> NodeResult {
        self.rows.forward_flushed(&entry, self.send_old, context)
    }
}

/// Makes the node that folds the changes of a re-grouped table into a table.
pub(crate) fn table_aggregate<K, V, S, F>(
    fold: F,
    store: RowStore<K, S>,
    send_old: Switch,
) -> NodeSupplier
where
    K: Datum,
    V: Datum,
    S: Datum,
    F: TableFold<K, V, S>,
{
    let fold = Arc::new(fold);
    Arc::new(move |setup| {
        let rows = Rows::own(&store, setup)?;
        let (fold, send_old) = (Arc::clone(&fold), send_old.is_on());
        let types = PhantomData::<fn(V)>;
        Ok(Box::new(TableAggregate { fold, rows, send_old, types }))
    })
}
