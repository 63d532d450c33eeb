//! A stream folded into a table of sessions: one row per key and session.
//!
//! A record joins every session that it is no further from than the gap; these leave, as deletes downstream, and one session takes
//! their place. The node's own stream time closes sessions: a record whose session would have ended more than gap and grace ago is
//! late, and dropped. Null values count, as in Kafka Streams.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_connectors::{Datum, Headers, Timestamp};
use thalweg_processor::{
    Change, Context, Flushed, Handle, Node, NodeResult, NodeSupplier, Record, Semantics, Session,
    SessionKey, Store, take,
};
use thalweg_state::{Direction, TimeCursor};

use super::closing::{Closing, tell_all};
use super::session_fold::SessionFold;
use super::stream_time::StreamTime;
use super::table::Switch;
use crate::emit::EmitStrategy;
use crate::session_windows::SessionWindows;
use crate::windows::{TimeWindow, WindowKey};

/// The rows of a table of sessions.
pub(crate) type SessionStore<K, V> = Store<K, V, Session>;

struct SessionAggregate<K: Datum, V, WK, S, F> {
    fold: Arc<F>,
    windows: SessionWindows,
    rows: Handle<K::Inner, S, Session>,
    cached: bool,
    send_old: bool,
    closing: Closing,
    semantics: Semantics,
    /// The highest timestamp seen.
    stream_time: StreamTime,
    /// Where results wait: no session that is still to be told ends before this.
    waiting_from_ms: i64,
    types: PhantomData<fn(V) -> WK>,
}

/// A row, or none in its place, on its way downstream.
struct Update<S> {
    window: TimeWindow,
    value: Change<S>,
}

impl<K, V, WK, S, F> SessionAggregate<K, V, WK, S, F>
where
    K: Datum,
    V: Datum,
    WK: WindowKey<K::Inner>,
    S: Datum,
    F: SessionFold<K::Inner, V, S>,
{
    /// The sessions that a record at this time joins. One that has closed is final, also where the store holds it longer; Kafka
    /// Streams lets it grow again.
    fn joined(
        &self,
        context: &mut Context<'_>,
        key: &K::Inner,
        time: Timestamp,
    ) -> NodeResult<Vec<(SessionKey<K::Inner>, S)>> {
        let gap = self.windows.gap_ms();
        let open_from = match self.semantics {
            Semantics::Java => i64::MIN,
            _ => self.windows.closed_before_ms(self.stream_time.ms()),
        };
        let (from, to) = (time.0.saturating_sub(gap).max(open_from), time.0.saturating_add(gap));
        let times = (Timestamp(from), Timestamp(to));
        context.store(&self.rows).find(key, times, Direction::Forward)?.collect()
    }

    /// Puts one session in the place of those that the record joins.
    fn replace(
        &mut self,
        context: &mut Context<'_>,
        record: &Record<K::Inner, V>,
        joined: Vec<(SessionKey<K::Inner>, S)>,
        window: TimeWindow,
    ) -> NodeResult {
        let Record { key, value, timestamp, headers } = record;
        let tell_old = self.send_old && !self.cached;
        let grown = (window.start_ms, window.end_ms) != (timestamp.0, timestamp.0);
        let mut row = self.fold.begin()?;
        let mut left = Vec::with_capacity(joined.len());
        for (session, before) in joined {
            left.push((session, tell_old.then(|| before.clone())));
            row = self.fold.merge(key, row, before)?;
        }
        // All user code comes first, so that a failure leaves the sessions as they were.
        let row = self.fold.add(key, value, row)?;
        let new = self.fold.finish(row);
        let mut old = None;
        for (session, told) in left {
            if grown {
                context.store(&self.rows).remove(key, session.start, session.end)?;
                let window = TimeWindow { start_ms: session.start.0, end_ms: session.end.0 };
                let value = Change::latest(None, told);
                self.tell(context, key, Update { window, value }, headers)?;
            } else if self.semantics == Semantics::Corrected {
                old = told;
            }
        }
        self.waiting_from_ms = self.waiting_from_ms.min(window.end_ms);
        let (start, end) = (Timestamp(window.start_ms), Timestamp(window.end_ms));
        context.store(&self.rows).set(key, new.as_ref(), start, end)?;
        self.tell(context, key, Update { window, value: Change::latest(new, old) }, headers)
    }

    /// Forwards a row at the end of its session, unless the cache will. Kafka Streams leaves the headers out here.
    fn tell(
        &self,
        context: &mut Context<'_>,
        key: &K::Inner,
        Update { window, value }: Update<S>,
        headers: &Headers,
    ) -> NodeResult {
        if self.cached || self.closing.waits() {
            return Ok(());
        }
        let headers = match self.semantics {
            Semantics::Java => Headers::new(),
            _ => headers.clone(),
        };
        let timestamp = Timestamp(window.end_ms);
        context.forward(Record { key: WK::make(key.clone(), window), value, timestamp, headers })
    }

    /// Takes in a record, unless its session has closed.
    fn update(&mut self, context: &mut Context<'_>, record: &Record<K::Inner, V>) -> NodeResult {
        let (time, closed_before) =
            (record.timestamp, self.windows.closed_before_ms(self.stream_time.ms()));
        let joined = self.joined(context, &record.key, time)?;
        let whole = TimeWindow { start_ms: time.0, end_ms: time.0 };
        let window = joined.iter().fold(whole, |window, (session, _)| TimeWindow {
            start_ms: window.start_ms.min(session.start.0),
            end_ms: window.end_ms.max(session.end.0),
        });
        if window.end_ms < closed_before {
            let (TimeWindow { start_ms, end_ms }, stream_time) = (window, self.stream_time.ms());
            context.drop_record_with(
                "late",
                format_args!("session [{start_ms}, {end_ms}] closed, stream time is {stream_time}"),
            );
            return Ok(());
        }
        self.replace(context, record, joined, window)
    }

    /// Tells the sessions that have closed.
    fn tell_closed(&mut self, context: &mut Context<'_>, headers: &Headers) -> NodeResult {
        let close_ms = self.windows.closed_before_ms(self.stream_time.ms());
        let Some(last) = self.closing.since(close_ms) else { return Ok(()) };
        if close_ms <= self.waiting_from_ms {
            self.closing.told(close_ms);
            return Ok(());
        }
        let Some((from, to)) = SessionWindows::closed_ends(last, close_ms) else { return Ok(()) };
        let (rows, times) = (&self.rows, (Timestamp(from), Timestamp(to)));
        tell_all(
            context,
            |context, cursor, max| context.store(rows).by_time(times, cursor, max),
            |context, (SessionKey { key, start, end }, row)| {
                let key = WK::make(key, TimeWindow { start_ms: start.0, end_ms: end.0 });
                let value = Change::latest(Some(row), None);
                context.forward(Record { key, value, timestamp: end, headers: headers.clone() })
            },
        )?;
        self.closing.told(close_ms);
        let times = (Timestamp(close_ms), Timestamp(i64::MAX));
        let next = context.store(&self.rows).by_time(times, &mut TimeCursor::default(), 1)?;
        self.waiting_from_ms = next.first().map_or(i64::MAX, |(session, _)| session.end.0);
        Ok(())
    }
}

impl<K, V, WK, S, F> Node for SessionAggregate<K, V, WK, S, F>
where
    K: Datum,
    V: Datum,
    WK: WindowKey<K::Inner>,
    S: Datum,
    F: SessionFold<K::Inner, V, S>,
{
    fn init(&mut self, context: &mut Context<'_>) -> NodeResult {
        self.stream_time.recall(context);
        self.closing.recall(context);
        Ok(())
    }

    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value, timestamp, headers } = take::<K, V>(slot);
        let Some(key) = key.into_inner() else {
            context.drop_record("null key in a session aggregation");
            return Ok(());
        };
        self.stream_time.observe(timestamp);
        let record = Record { key, value, timestamp, headers };
        // Before the record moves the store's retention; Kafka Streams does it behind, and loses sessions when time
        // jumps, unless they are still in its record cache.
        if self.semantics == Semantics::Java && !self.cached {
            self.update(context, &record)?;
            return self.tell_closed(context, &record.headers);
        }
        self.tell_closed(context, &record.headers)?;
        self.update(context, &record)
    }

    fn flush(&mut self, entry: Flushed<'_>, context: &mut Context<'_>) -> NodeResult {
        let (SessionKey { key, start, end }, new, old) = self.rows.read_flushed(&entry)?;
        let key = WK::make(key, TimeWindow { start_ms: start.0, end_ms: end.0 });
        let value = Change::latest(new, old.filter(|_| self.send_old));
        let headers = entry.context.headers.clone();
        context.forward(Record { key, value, timestamp: end, headers })
    }

    fn remember(&self, facts: &mut dyn FnMut(&'static str, i64)) {
        self.stream_time.remember(facts);
        self.closing.remember(facts);
    }
}

/// Makes the node that folds a stream into a table of sessions.
pub(crate) fn session_aggregate<K, V, WK, S, F>(
    fold: F,
    (windows, emit): (SessionWindows, EmitStrategy),
    store: SessionStore<K::Inner, S>,
    send_old: Switch,
) -> NodeSupplier
where
    K: Datum,
    V: Datum,
    WK: WindowKey<K::Inner>,
    S: Datum,
    F: SessionFold<K::Inner, V, S>,
{
    let fold = Arc::new(fold);
    Arc::new(move |setup| {
        let cached = setup.is_cached(store.name())?;
        Ok(Box::new(SessionAggregate::<K, V, WK, S, F> {
            fold: Arc::clone(&fold),
            windows,
            rows: setup.owned_store(&store)?,
            cached,
            send_old: send_old.is_on(),
            closing: Closing::new(emit),
            semantics: setup.semantics(),
            stream_time: StreamTime::NONE,
            waiting_from_ms: i64::MIN,
            types: PhantomData,
        }))
    })
}
