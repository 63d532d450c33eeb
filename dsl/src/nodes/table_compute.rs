//! Tables computed row by row from another: `filter`, `filter_not`, `map_values`; with rows of their own or without.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_connectors::Datum;
use thalweg_processor::{
    BoxError, Change, Context, Flushed, Node, NodeError, NodeResult, NodeSupplier, Record, take,
};

use super::table::{RowStore, Rows, Switch};

/// Computes a row from the parent's row; `None` is no row. Never asked about rows that are not there.
pub(crate) trait Compute<K, V, W>: Send + Sync {
    /// The row of that key.
    fn compute(&self, key: &K, row: V) -> NodeResult<Option<W>>;

    /// Says nothing where there was no row and is none, when the old rows are known: a filter's way.
    fn skips_nothing(&self) -> bool {
        false
    }
}

/// Keeps the rows for which the predicate holds.
pub(crate) struct Keep<F>(pub(crate) F);

impl<K, V, F> Compute<K, V, V> for Keep<F>
where
    F: Fn(&K, &V) -> Result<bool, BoxError> + Send + Sync,
{
    fn compute(&self, key: &K, row: V) -> NodeResult<Option<V>> {
        let kept = (self.0)(key, &row).map_err(NodeError::user)?;
        Ok(kept.then_some(row))
    }

    fn skips_nothing(&self) -> bool {
        true
    }
}

/// Makes each row anew; a null result is no row.
pub(crate) struct MapRow<F, W> {
    map: F,
    result: PhantomData<fn() -> W>,
}

impl<F, W> MapRow<F, W> {
    pub(crate) fn new(map: F) -> Self {
        Self { map, result: PhantomData }
    }
}

impl<K, V, W, F> Compute<K, V, W::Inner> for MapRow<F, W>
where
    W: Datum,
    F: Fn(&K, &V) -> Result<W, BoxError> + Send + Sync,
{
    fn compute(&self, key: &K, row: V) -> NodeResult<Option<W::Inner>> {
        Ok((self.map)(key, &row).map_err(NodeError::user)?.into_inner())
    }
}

struct TableCompute<K, V, W> {
    compute: Arc<dyn Compute<K, V, W>>,
    rows: Option<Rows<K, W>>,
    send_old: bool,
}

impl<K: Datum, V: Datum, W: Datum> TableCompute<K, V, W> {
    fn row(&self, key: &K, parent: Option<V>) -> NodeResult<Option<W>> {
        match parent {
            Some(row) => self.compute.compute(key, row),
            None => Ok(None),
        }
    }

    fn old(&self, context: &mut Context<'_>, key: &K, parent: Option<V>) -> NodeResult<Option<W>> {
        match &self.rows {
            _ if !self.send_old => Ok(None),
            Some(rows) => Ok(rows.get(context, key)?.map(|row| row.value)),
            None => self.row(key, parent),
        }
    }
}

impl<K: Datum, V: Datum, W: Datum> Node for TableCompute<K, V, W> {
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value: change, timestamp, headers } = take::<K, Change<V>>(slot);
        let new = self.row(&key, change.new)?;
        let old = self.old(context, &key, change.old)?;
        if self.send_old && new.is_none() && old.is_none() && self.compute.skips_nothing() {
            return Ok(());
        }
        let value = Change { new, old, is_latest: change.is_latest };
        let record = Record { key, value, timestamp, headers };
        match &self.rows {
            Some(rows) => rows.put(context, record),
            None => context.forward(record),
        }
    }

    fn flush(&mut self, entry: Flushed<'_>, context: &mut Context<'_>) -> NodeResult {
        match &self.rows {
            Some(rows) => rows.forward_flushed(&entry, self.send_old, context),
            None => Ok(()),
        }
    }
}

/// Makes a computed table, with rows of its own when a store is given.
pub(crate) fn table_compute<K: Datum, V: Datum, W: Datum>(
    compute: Arc<dyn Compute<K, V, W>>,
    store: Option<RowStore<K, W>>,
    send_old: Switch,
) -> NodeSupplier {
    Arc::new(move |setup| {
        let rows = store.as_ref().map(|store| Rows::own(store, setup)).transpose()?;
        let (compute, send_old) = (Arc::clone(&compute), send_old.is_on());
        Ok(Box::new(TableCompute { compute, rows, send_old }))
    })
}
