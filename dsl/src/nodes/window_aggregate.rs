//! A stream folded into a windowed table: one row per key and window.
//!
//! The node's own stream time, the highest timestamp it has seen, closes windows: a record for a window that ended a grace period
//! or more before it is late, and dropped. Null values count, as in Kafka Streams.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_connectors::{Datum, Headers, Timestamp};
use thalweg_processor::{
    Change, Context, Flushed, Handle, Node, NodeResult, NodeSupplier, Record, Semantics, Store,
    TimestampedWindow, Updated, take,
};

use super::aggregate_fold::Fold;
use super::closing::{Closing, tell_all};
use super::stream_time::StreamTime;
use super::table::{Switch, flushed_record};
use crate::cut::Cuts;
use crate::emit::EmitStrategy;
use crate::windows::{TimeWindow, WindowKey};

/// The rows of a windowed table.
pub(crate) type WindowStore<K, V> = Store<K, V, TimestampedWindow>;

struct WindowAggregate<K: Datum, V, WK, S, F, C> {
    fold: Arc<F>,
    windows: C,
    rows: Handle<K::Inner, S, TimestampedWindow>,
    cached: bool,
    send_old: bool,
    closing: Closing,
    semantics: Semantics,
    /// The highest timestamp seen.
    stream_time: StreamTime,
    types: PhantomData<fn(V) -> WK>,
}

impl<K, V, WK, S, F, C> WindowAggregate<K, V, WK, S, F, C>
where
    K: Datum,
    V: Datum,
    WK: WindowKey<K::Inner>,
    S: Datum,
    F: Fold<K::Inner, V, S>,
    C: Cuts,
{
    /// Folds a record into the row of one window; says what to forward.
    fn update(
        &self,
        context: &mut Context<'_>,
        record: &Record<K::Inner, V>,
        window: TimeWindow,
    ) -> NodeResult<Updated<S, Option<S>>> {
        let Record { key, value, timestamp, .. } = record;
        let tell_old = self.send_old && !self.cached;
        let start = Timestamp(window.start_ms);
        context.store(&self.rows).update(key, start, |row| {
            let (row, at) = row.map_or((None, *timestamp), |r| (Some(r.value), r.timestamp));
            let folded = self.fold.fold(key, value, row, tell_old)?;
            let timestamp = (*timestamp).max(at);
            Ok(Updated { value: folded.new, timestamp, extra: folded.old })
        })
    }

    /// Folds a record into all its windows that are open.
    fn update_all(&self, context: &mut Context<'_>, record: &Record<K::Inner, V>) -> NodeResult {
        let closed_until = self.stream_time.ms().saturating_sub(self.windows.grace_ms());
        for window in self.windows.windows_for(record.timestamp.0) {
            if window.end_ms <= closed_until {
                let stream_time = self.stream_time.ms();
                context.drop_record_with(
                    "late",
                    format_args!("window {window} closed, stream time is {stream_time}"),
                );
                continue;
            }
            let updated = self.update(context, record, window)?;
            if !self.cached && !self.closing.waits() {
                context.forward(Record {
                    key: WK::make(record.key.clone(), window),
                    value: Change::latest(updated.value, updated.extra),
                    timestamp: updated.timestamp,
                    headers: record.headers.clone(),
                })?;
            }
        }
        Ok(())
    }

    /// Tells the results of the windows that have closed.
    fn tell_closed(&mut self, context: &mut Context<'_>, headers: &Headers) -> NodeResult {
        let close_ms = self.stream_time.ms().saturating_sub(self.windows.grace_ms());
        let Some(last) = self.closing.since(close_ms) else { return Ok(()) };
        let Some((from, to)) = self.windows.closed_starts(last, close_ms) else { return Ok(()) };
        let (rows, times) = (&self.rows, (Timestamp(from), Timestamp(to)));
        tell_all(
            context,
            |context, cursor, max| context.store(rows).by_time(times, cursor, max),
            |context, (at, row)| {
                let window = self.windows.window_at(at.start.0);
                if window.end_ms > close_ms || last.is_some_and(|last| window.end_ms <= last) {
                    return Ok(());
                }
                let key = WK::make(at.key, window);
                let value = Change::latest(Some(row.value), None);
                let (timestamp, headers) = (row.timestamp, headers.clone());
                context.forward(Record { key, value, timestamp, headers })
            },
        )?;
        self.closing.told(close_ms);
        Ok(())
    }
}

impl<K, V, WK, S, F, C> Node for WindowAggregate<K, V, WK, S, F, C>
where
    K: Datum,
    V: Datum,
    WK: WindowKey<K::Inner>,
    S: Datum,
    F: Fold<K::Inner, V, S>,
    C: Cuts,
{
    fn init(&mut self, context: &mut Context<'_>) -> NodeResult {
        self.stream_time.recall(context);
        self.closing.recall(context);
        Ok(())
    }

    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value, timestamp, headers } = take::<K, V>(slot);
        let Some(key) = key.into_inner() else {
            context.drop_record("null key in a windowed aggregation");
            return Ok(());
        };
        let record = Record { key, value, timestamp, headers };
        self.stream_time.observe(timestamp);
        // Before the record moves the store's retention; Kafka Streams does it behind, and loses windows when time
        // jumps, unless they are still in its record cache.
        if self.semantics == Semantics::Java && !self.cached {
            self.update_all(context, &record)?;
            return self.tell_closed(context, &record.headers);
        }
        self.tell_closed(context, &record.headers)?;
        self.update_all(context, &record)
    }

    fn flush(&mut self, entry: Flushed<'_>, context: &mut Context<'_>) -> NodeResult {
        let (key, rows) = self.rows.read_flushed(&entry)?;
        let window = self.windows.window_at(key.start.0);
        let key = WK::make(key.key, window);
        context.forward(flushed_record(key, rows, &entry, self.send_old))
    }

    fn remember(&self, facts: &mut dyn FnMut(&'static str, i64)) {
        self.stream_time.remember(facts);
        self.closing.remember(facts);
    }
}

/// Makes the node that folds a stream into a windowed table.
pub(crate) fn window_aggregate<K, V, WK, S, F, C>(
    fold: F,
    (windows, emit): (C, EmitStrategy),
    store: WindowStore<K::Inner, S>,
    send_old: Switch,
) -> NodeSupplier
where
    K: Datum,
    V: Datum,
    WK: WindowKey<K::Inner>,
    S: Datum,
    F: Fold<K::Inner, V, S>,
    C: Cuts,
{
    let fold = Arc::new(fold);
    Arc::new(move |setup| {
        let cached = setup.is_cached(store.name())?;
        Ok(Box::new(WindowAggregate::<K, V, WK, S, F, C> {
            fold: Arc::clone(&fold),
            windows: windows.clone(),
            rows: setup.owned_store(&store)?,
            cached,
            send_old: send_old.is_on(),
            closing: Closing::new(emit),
            semantics: setup.semantics(),
            stream_time: StreamTime::NONE,
            types: PhantomData,
        }))
    })
}
