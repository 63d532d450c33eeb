//! A stream folded into sliding windows: Kafka Streams' algorithm, with its order of updates.
//!
//! A window is stored only if it ends with a record, or begins right behind one and holds another. The row of a window is the fold of
//! its records, its time that of the latest of them, which is how the windows' edges are found again.

use std::any::Any;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_connectors::{Datum, Headers, Timestamp};
use thalweg_processor::{
    Change, Context, Flushed, Handle, Node, NodeResult, NodeSupplier, Record, Semantics,
    Timestamped, TimestampedWindow, UsageError, take,
};
use thalweg_state::Direction;

use super::aggregate_fold::Fold;
use super::closing::{Closing, tell_all};
use super::stream_time::StreamTime;
use super::table::{Switch, flushed_record};
use super::window_aggregate::WindowStore;
use crate::emit::EmitStrategy;
use crate::sliding_windows::SlidingWindows;
use crate::windows::WindowKey;

struct SlidingAggregate<K: Datum, V, WK, S, F> {
    fold: Arc<F>,
    windows: SlidingWindows,
    rows: Handle<K::Inner, S, TimestampedWindow>,
    cached: bool,
    send_old: bool,
    closing: Closing,
    semantics: Semantics,
    /// The highest timestamp seen.
    stream_time: StreamTime,
    types: PhantomData<fn(V) -> WK>,
}

/// A window that is there.
type Found<S> = (i64, Timestamped<S>);

/// What the windows around a record tell of its neighbours.
struct Around<S> {
    starts: BTreeSet<i64>,
    /// The row whose later records lie in the window right behind the record.
    right: Option<Timestamped<S>>,
    right_is_there: bool,
    /// The row of the windows before, whose latest record is the one before this.
    left: Option<Timestamped<S>>,
    left_is_there: bool,
    /// The time of the record before.
    previous: Option<i64>,
}

impl<S> Around<S> {
    fn none() -> Self {
        let (right_is_there, left_is_there) = (false, false);
        let starts = BTreeSet::new();
        Self { starts, right: None, right_is_there, left: None, left_is_there, previous: None }
    }

    /// The row of the window right behind a record of that time, if it holds a record.
    fn right_of(&mut self, time: i64) -> Option<Timestamped<S>> {
        self.right.take().filter(|right| right.timestamp.0 > time && !self.right_is_there)
    }
}

impl<K, V, WK, S, F> SlidingAggregate<K, V, WK, S, F>
where
    K: Datum,
    V: Datum,
    WK: WindowKey<K::Inner>,
    S: Datum,
    F: Fold<K::Inner, V, S>,
{
    fn closes_ms(&self) -> i64 {
        self.stream_time.ms().saturating_sub(self.windows.grace_ms())
    }

    fn found(
        &self,
        context: &mut Context<'_>,
        key: &K::Inner,
        times: (i64, i64),
        direction: Direction,
    ) -> NodeResult<Vec<Found<S>>> {
        let times = (Timestamp(times.0), Timestamp(times.1));
        let mut rows = context.store(&self.rows);
        let entries = rows.fetch_between(key, times, direction)?;
        entries.map(|entry| entry.map(|(at, row)| (at.start.0, row))).collect()
    }

    /// Folds a record into the window that starts there, unless it has closed.
    fn update(
        &self,
        context: &mut Context<'_>,
        record: &Record<K::Inner, V>,
        start: i64,
        row: Option<Timestamped<S>>,
    ) -> NodeResult {
        let window = self.windows.window_at(start);
        if window.end_ms < self.closes_ms() {
            let (end, stream_time) = (window.end_ms, self.stream_time.ms());
            let detail =
                format_args!("window [{start}, {end}] closed, stream time is {stream_time}");
            context.drop_record_with("late", detail);
            return Ok(());
        }
        let tell_old = self.send_old && !self.cached;
        let (row, at) = row.map_or((None, record.timestamp), |r| (Some(r.value), r.timestamp));
        let folded = self.fold.fold(&record.key, &record.value, row, tell_old)?;
        let timestamp = record.timestamp.max(at);
        let (key, start) = (&record.key, Timestamp(start));
        match &folded.new {
            Some(new) => context.store(&self.rows).put(key, new, start, timestamp)?,
            None => context.store(&self.rows).delete(key, start)?,
        }
        let change = Change::latest(folded.new, folded.old);
        self.tell(context, record, start, change, timestamp)
    }

    /// Starts the window right behind a record with the records that are there already.
    fn start_right(
        &self,
        context: &mut Context<'_>,
        record: &Record<K::Inner, V>,
        right: Timestamped<S>,
    ) -> NodeResult {
        let start = Timestamp(record.timestamp.0.saturating_add(1));
        let Timestamped { value, timestamp } = right;
        context.store(&self.rows).put(&record.key, &value, start, timestamp)?;
        let change = Change::latest(Some(value), None);
        self.tell(context, record, start, change, timestamp)
    }

    fn tell(
        &self,
        context: &mut Context<'_>,
        record: &Record<K::Inner, V>,
        start: Timestamp,
        value: Change<S>,
        timestamp: Timestamp,
    ) -> NodeResult {
        if self.cached || self.closing.waits() {
            return Ok(());
        }
        let key = WK::make(record.key.clone(), self.windows.window_at(start.0));
        context.forward(Record { key, value, timestamp, headers: record.headers.clone() })
    }

    /// A record whose window would begin before time does: one window holds all such records.
    fn update_early(&self, context: &mut Context<'_>, record: &Record<K::Inner, V>) -> NodeResult {
        let time = record.timestamp.0;
        let mut around = Around::none();
        let mut first: Option<Timestamped<S>> = None;
        let found = self.found(context, &record.key, (0, time + 1), Direction::Forward)?;
        for (start, row) in found {
            around.starts.insert(start);
            if start == 0 {
                around.previous = Some(row.timestamp.0).filter(|latest| *latest < time);
                first = Some(row);
            } else if start <= time {
                around.right = Some(row.clone());
                self.update(context, record, start, Some(row))?;
            } else {
                around.right_is_there = true;
            }
        }
        if around.right.is_none() {
            around.right = first.clone().filter(|row| row.timestamp.0 > time);
        }
        if let Some(right) = around.right_of(time) {
            self.start_right(context, record, right)?;
        }
        if let Some(start) = around.previous.map(|previous| previous + 1)
            && !around.starts.contains(&start)
        {
            self.update(context, record, start, None)?;
        }
        self.update(context, record, 0, first)
    }

    /// Any other record: folds it into the windows that hold it, and learns of its neighbours. `None` when another record of its
    /// time was there before, so that all windows are.
    fn update_around(
        &self,
        context: &mut Context<'_>,
        record: &Record<K::Inner, V>,
    ) -> NodeResult<Option<Around<S>>> {
        let time = record.timestamp.0;
        let from = time.saturating_sub(self.windows.difference_ms().saturating_mul(2)).max(0);
        let times = (from, time.saturating_add(1));
        let mut around = Around::none();
        for (start, row) in self.found(context, &record.key, times, Direction::Reverse)? {
            around.starts.insert(start);
            let (end, latest) = (self.windows.window_at(start).end_ms, row.timestamp.0);
            if start > time {
                around.right_is_there = true;
            } else if end > time {
                around.right.get_or_insert_with(|| row.clone());
                self.update(context, record, start, Some(row))?;
            } else if end == time {
                around.left_is_there = true;
                self.update(context, record, start, Some(row))?;
                if latest >= time {
                    return Ok(None);
                }
                around.previous = Some(latest);
            } else {
                around.left = Some(row);
                around.previous = Some(latest);
                break;
            }
        }
        Ok(Some(around))
    }

    /// Starts the windows that the record makes: behind the one before it, up to itself, and behind itself.
    fn start_windows(
        &self,
        context: &mut Context<'_>,
        record: &Record<K::Inner, V>,
        mut around: Around<S>,
    ) -> NodeResult {
        let (time, difference) = (record.timestamp.0, self.windows.difference_ms());
        if let Some(start) = around.previous.map(|previous| previous + 1)
            && !around.starts.contains(&start)
            && start.saturating_add(difference) >= time
        {
            self.update(context, record, start, None)?;
        }
        if !around.left_is_there {
            let start = time - difference;
            let holds_previous = around.previous.is_some_and(|previous| previous >= start);
            let row = around.left.take().filter(|_| holds_previous);
            let row = row.map(|row| Timestamped { timestamp: record.timestamp, ..row });
            self.update(context, record, start, row)?;
        }
        match around.right_of(time) {
            Some(right) => self.start_right(context, record, right),
            None => Ok(()),
        }
    }

    /// Has the last window that a record of this time is in closed?
    fn is_late(&self, time_ms: i64) -> bool {
        time_ms.saturating_add(self.windows.difference_ms()) < self.closes_ms()
    }

    fn update_all(&self, context: &mut Context<'_>, record: &Record<K::Inner, V>) -> NodeResult {
        let time = record.timestamp.0;
        if self.is_late(time) {
            let stream_time = self.stream_time.ms();
            let detail = format_args!("its last window closed, stream time is {stream_time}");
            context.drop_record_with("late", detail);
            return Ok(());
        }
        if time < self.windows.difference_ms() {
            return self.update_early(context, record);
        }
        match self.update_around(context, record)? {
            Some(around) => self.start_windows(context, record, around),
            None => Ok(()),
        }
    }

    /// Tells the results of the windows that have closed.
    fn tell_closed(&mut self, context: &mut Context<'_>, headers: &Headers) -> NodeResult {
        let close_ms = self.closes_ms();
        let Some(last) = self.closing.since(close_ms) else { return Ok(()) };
        let Some((from, to)) = self.windows.closed_starts(last, close_ms) else { return Ok(()) };
        let (rows, times) = (&self.rows, (Timestamp(from), Timestamp(to)));
        tell_all(
            context,
            |context, cursor, max| context.store(rows).by_time(times, cursor, max),
            |context, (at, row)| {
                let key = WK::make(at.key, self.windows.window_at(at.start.0));
                let value = Change::latest(Some(row.value), None);
                let (timestamp, headers) = (row.timestamp, headers.clone());
                context.forward(Record { key, value, timestamp, headers })
            },
        )?;
        self.closing.told(close_ms);
        Ok(())
    }
}

impl<K, V, WK, S, F> Node for SlidingAggregate<K, V, WK, S, F>
where
    K: Datum,
    V: Datum,
    WK: WindowKey<K::Inner>,
    S: Datum,
    F: Fold<K::Inner, V, S>,
{
    fn init(&mut self, context: &mut Context<'_>) -> NodeResult {
        self.stream_time.recall(context);
        self.closing.recall(context);
        Ok(())
    }

    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value, timestamp, headers } = take::<K, V>(slot);
        let Some(key) = key.into_inner().filter(|_| !value.is_null()) else {
            context.drop_record("null key or value in a sliding window");
            return Ok(());
        };
        let record = Record { key, value, timestamp, headers };
        if self.semantics == Semantics::Java && self.windows.difference_ms() == 0 {
            return Err(UsageError::EmptyWindow(timestamp.0).into());
        }
        self.stream_time.observe(timestamp);
        // Before the record moves the store's retention; Kafka Streams does it behind, and loses windows when time jumps.
        if self.semantics != Semantics::Java {
            self.tell_closed(context, &record.headers)?;
        }
        self.update_all(context, &record)?;
        // Kafka Streams tells nothing behind a record that is late for all windows, or before the first whole one.
        if self.semantics == Semantics::Java
            && !self.is_late(timestamp.0)
            && timestamp.0 >= self.windows.difference_ms()
        {
            self.tell_closed(context, &record.headers)?;
        }
        Ok(())
    }

    fn flush(&mut self, entry: Flushed<'_>, context: &mut Context<'_>) -> NodeResult {
        let (at, rows) = self.rows.read_flushed(&entry)?;
        let key = WK::make(at.key, self.windows.window_at(at.start.0));
        context.forward(flushed_record(key, rows, &entry, self.send_old))
    }

    fn remember(&self, facts: &mut dyn FnMut(&'static str, i64)) {
        self.stream_time.remember(facts);
        self.closing.remember(facts);
    }
}

/// Makes the node that folds a stream into sliding windows.
pub(crate) fn sliding_aggregate<K, V, WK, S, F>(
    fold: F,
    (windows, emit): (SlidingWindows, EmitStrategy),
    store: WindowStore<K::Inner, S>,
    send_old: Switch,
) -> NodeSupplier
where
    K: Datum,
    V: Datum,
    WK: WindowKey<K::Inner>,
    S: Datum,
    F: Fold<K::Inner, V, S>,
{
    let fold = Arc::new(fold);
    Arc::new(move |setup| {
        let cached = setup.is_cached(store.name())?;
        Ok(Box::new(SlidingAggregate::<K, V, WK, S, F> {
            fold: Arc::clone(&fold),
            windows,
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
