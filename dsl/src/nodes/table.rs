//! Rows of tables at work: how they are kept, how they leave the record cache, and where a table begins and ends.
//!
//! Between table nodes travels a [`Change`]: the new row, and the old one if a node below asked for it. A node whose store is
//! cached forwards nothing while it processes; its updates come back through [`Node::flush`].

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_connectors::Datum;
use thalweg_processor::{
    Change, Context, Flushed, FlushedRows, Handle, Node, NodeResult, NodeSupplier, Record, Setup,
    Store, Timestamped, TimestampedKeyValue, Updated, UsageError, take,
};

/// Whether a table node tells the old row: switched on while the topology is written, read when a task is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Switch(Arc<AtomicBool>);

impl Switch {
    pub(crate) fn on(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The rows of a materialized table.
pub(crate) type RowStore<K, V> = Store<K, V, TimestampedKeyValue>;

/// A table node's own rows, in a task.
pub(crate) struct Rows<K, V> {
    pub(crate) handle: Handle<K, V, TimestampedKeyValue>,
    /// Updates are forwarded by [`forward_flushed`](Self::forward_flushed) only.
    pub(crate) cached: bool,
}

impl<K, V> Rows<K, V>
where
    K: Clone + Send + 'static,
    V: Clone + Send + 'static,
{
    /// Opens the rows that this node owns.
    pub(crate) fn own(store: &RowStore<K, V>, setup: &mut Setup<'_>) -> Result<Self, UsageError> {
        let cached = setup.is_cached(store.name())?;
        Ok(Self { handle: setup.owned_store(store)?, cached })
    }

    /// Reads a row.
    pub(crate) fn get(
        &self,
        context: &mut Context<'_>,
        key: &K,
    ) -> NodeResult<Option<Timestamped<V>>> {
        context.store(&self.handle).get(key)
    }

    /// Sets a row to what the record says and forwards the change, unless the cache will.
    pub(crate) fn put(
        &self,
        context: &mut Context<'_>,
        record: Record<K, Change<V>>,
    ) -> NodeResult {
        let (key, timestamp) = (&record.key, record.timestamp);
        match &record.value.new {
            Some(new) => context.store(&self.handle).put(key, new, timestamp)?,
            None => context.store(&self.handle).delete(key)?,
        }
        if self.cached { Ok(()) } else { context.forward(record) }
    }

    /// Forwards an update that leaves the cache, with the time of the row and the headers of the last record that touched it.
    pub(crate) fn forward_flushed(
        &self,
        entry: &Flushed<'_>,
        send_old: bool,
        context: &mut Context<'_>,
    ) -> NodeResult {
        let (key, rows) = self.handle.read_flushed(entry)?;
        context.forward(flushed_record(key, rows, entry, send_old))
    }
}

/// The record of an update that leaves the cache.
pub(crate) fn flushed_record<K, V>(
    key: K,
    rows: FlushedRows<V>,
    entry: &Flushed<'_>,
    send_old: bool,
) -> Record<K, Change<V>> {
    let timestamp = rows.new.as_ref().map_or(entry.context.timestamp, |row| row.timestamp);
    let new = rows.new.map(|row| row.value);
    let old = rows.old.filter(|_| send_old).map(|row| row.value);
    let headers = entry.context.headers.clone();
    Record { key, value: Change::latest(new, old), timestamp, headers }
}

/// Where a topic becomes a table: keeps the latest row by arrival, not by timestamp, as Kafka Streams does.
struct TableSource<KS, VS: Datum, K, V> {
    /// `None` for a table whose rows nobody reads.
    rows: Option<Rows<K, V>>,
    send_old: bool,
    types: PhantomData<fn(KS, VS)>,
}

impl<KS, VS, K, V> Node for TableSource<KS, VS, K, V>
where
    KS: Datum<Inner = K>,
    VS: Datum<Inner = V>,
    K: Datum,
    V: Datum,
{
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value, timestamp, headers } = take::<KS, VS>(slot);
        let Some(key) = key.into_inner() else {
            context.drop_record("a table's record has a null key");
            return Ok(());
        };
        let new = value.into_inner();
        let Some(rows) = &self.rows else {
            let value = Change::latest(new, None);
            return context.forward(Record { key, value, timestamp, headers });
        };
        if !self.send_old || rows.cached {
            let value = Change::latest(new, None);
            return rows.put(context, Record { key, value, timestamp, headers });
        }
        let updated = context.store(&rows.handle).update(&key, |row| {
            Ok(Updated { value: new, timestamp, extra: row.map(|row| row.value) })
        })?;
        let value = Change::latest(updated.value, updated.extra);
        context.forward(Record { key, value, timestamp, headers })
    }

    fn flush(&mut self, entry: Flushed<'_>, context: &mut Context<'_>) -> NodeResult {
        match &self.rows {
            Some(rows) => rows.forward_flushed(&entry, self.send_old, context),
            None => Ok(()),
        }
    }
}

/// Makes a table from records with keys `KS` and values `VS`; the rows are kept when `materialized` is on.
pub(crate) fn table_source<KS, VS>(
    store: RowStore<KS::Inner, VS::Inner>,
    materialized: Switch,
    send_old: Switch,
) -> NodeSupplier
where
    KS: Datum,
    VS: Datum,
{
    Arc::new(move |setup| {
        let rows = materialized.is_on().then(|| Rows::own(&store, setup)).transpose()?;
        let send_old = send_old.is_on();
        Ok(Box::new(TableSource::<KS, VS, _, _> { rows, send_old, types: PhantomData }))
    })
}

/// Where a table becomes a stream of its new rows; a deleted row is a null value.
struct ToStream<K, V>(PhantomData<fn(K, V)>);

impl<K: Datum, V: Datum<Inner = V>> Node for ToStream<K, V> {
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value, timestamp, headers } = take::<K, Change<V>>(slot);
        context.forward(Record { key, value: V::opt(value.new), timestamp, headers })
    }
}

/// Makes the stream of a table's rows.
pub(crate) fn to_stream<K: Datum, V: Datum<Inner = V>>() -> NodeSupplier {
    Arc::new(|_| Ok(Box::new(ToStream::<K, V>(PhantomData))))
}
