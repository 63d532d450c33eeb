//! A stream joined with a stream: each side keeps its records in a window store, and looks into the other's.
//!
//! In a left or outer join, a record without a partner waits in a store that both sides share until none can come any more: until
//! stream time, the highest of both sides, has passed its window and the grace period. Stream time survives a restart.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use thalweg_connectors::{Datum, Headers, SharedSerde, Timestamp};
use thalweg_processor::{
    BoxError, Context, Handle, KeyValue, Node, NodeError, NodeResult, NodeSupplier, Record,
    Semantics, Store, Window, take,
};

use super::held::{HeldKey, HeldValues};
use super::stream_time::STREAM_TIME;
use crate::join_windows::SideWindows;

/// The records of one side.
pub(crate) type SideStore<K, V> = Store<K, V, Window>;

/// The records of both sides that wait for a partner.
pub(crate) type HeldStore<K> = Store<HeldKey<K>, HeldValues, KeyValue>;

/// How many records without a partner are read at once.
const BATCH: usize = 256;

const EARLIEST: &str = "earliest";

/// Joins values as one side sees them.
pub(crate) trait JoinValues<K, A, B, W>: Send + Sync + 'static {
    /// Joins this side's value with the other's.
    fn join(&self, key: &K, this: Option<&A>, other: Option<&B>) -> Result<W, BoxError>;
}

/// As the left side sees them.
pub(crate) struct Straight<F>(pub(crate) Arc<F>);

/// As the right side sees them.
pub(crate) struct Mirrored<F>(pub(crate) Arc<F>);

impl<K, A, B, W, F> JoinValues<K, A, B, W> for Straight<F>
where
    F: Fn(&K, Option<&A>, Option<&B>) -> Result<W, BoxError> + Send + Sync + 'static,
{
    fn join(&self, key: &K, this: Option<&A>, other: Option<&B>) -> Result<W, BoxError> {
        (self.0)(key, this, other)
    }
}

impl<K, A, B, W, F> JoinValues<K, B, A, W> for Mirrored<F>
where
    F: Fn(&K, Option<&A>, Option<&B>) -> Result<W, BoxError> + Send + Sync + 'static,
{
    fn join(&self, key: &K, this: Option<&B>, other: Option<&A>) -> Result<W, BoxError> {
        (self.0)(key, other, this)
    }
}

/// Keeps the records of one side, behind the join: a record does not meet itself.
struct Keep<K: Datum, V: Datum> {
    rows: Handle<K::Inner, V::Inner, Window>,
}

impl<K: Datum, V: Datum> Node for Keep<K, V> {
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let record = take::<K, V>(slot);
        let time = record.timestamp;
        let kept = record.key.inner().map(|key| (key.clone(), record.value.inner().cloned()));
        context.forward(record)?;
        match kept {
            Some((key, Some(value))) => context.store(&self.rows).put(&key, &value, time),
            // Kafka Streams gives a null a number, too.
            Some((key, None)) => context.store(&self.rows).delete(&key, time),
            None => Ok(()),
        }
    }
}

/// Makes the node that keeps one side's records.
pub(crate) fn keep<K: Datum, V: Datum>(store: SideStore<K::Inner, V::Inner>) -> NodeSupplier {
    Arc::new(move |setup| Ok(Box::new(Keep::<K, V> { rows: setup.store(&store)? })))
}

/// The times that both sides of a join share in a task. One thread works on them, so that no order between them is needed.
pub(crate) struct JoinTimes {
    /// The highest time that either side has seen.
    stream_time: AtomicI64,
    /// No record that waits is earlier.
    earliest: AtomicI64,
}

impl Default for JoinTimes {
    fn default() -> Self {
        let (stream_time, earliest) = (AtomicI64::new(Timestamp::NONE.0), AtomicI64::new(i64::MAX));
        Self { stream_time, earliest }
    }
}

impl JoinTimes {
    fn advance(&self, time: Timestamp) -> i64 {
        self.stream_time.fetch_max(time.0, Ordering::Relaxed).max(time.0)
    }

    fn hold(&self, time: Timestamp) {
        self.earliest.fetch_min(time.0, Ordering::Relaxed);
    }

    fn earliest(&self) -> i64 {
        self.earliest.load(Ordering::Relaxed)
    }

    fn set_earliest(&self, earliest: i64) {
        self.earliest.store(earliest, Ordering::Relaxed);
    }
}

/// One side of a join.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) is_left: bool,
    /// The windows as this side sees them.
    pub(crate) windows: SideWindows,
    /// The windows as the other side sees them.
    pub(crate) other_windows: SideWindows,
    /// Do records of this side that lack a partner make results?
    pub(crate) outer: bool,
    /// Do those of the other side?
    pub(crate) other_outer: bool,
}

impl Side {
    /// The windows of the side that a waiting record is of.
    fn windows_of(&self, is_left: bool) -> SideWindows {
        if is_left == self.is_left { self.windows } else { self.other_windows }
    }
}

/// The store of a left or outer join, and what its values are written with.
pub(crate) struct Waiting<K, A, B> {
    pub(crate) store: HeldStore<K>,
    pub(crate) this: SharedSerde<A>,
    pub(crate) other: SharedSerde<B>,
}

/// It, opened.
struct Held<K, A, B> {
    rows: Handle<HeldKey<K>, HeldValues, KeyValue>,
    this: SharedSerde<A>,
    other: SharedSerde<B>,
}

struct JoinSide<K: Datum, A: Datum, B: Datum, W, J> {
    side: Side,
    join: Arc<J>,
    other: Handle<K::Inner, B::Inner, Window>,
    held: Option<Held<K::Inner, A::Inner, B::Inner>>,
    times: Arc<JoinTimes>,
    semantics: Semantics,
    /// Partners of the record under way; kept for its memory.
    found: Vec<(Timestamp, B::Inner)>,
    types: PhantomData<fn() -> W>,
}

impl<K, A, B, W, J> JoinSide<K, A, B, W, J>
where
    K: Datum,
    A: Datum,
    B: Datum,
    W: Datum,
    J: JoinValues<K, A, B, W>,
{
    fn join(&self, key: &K, this: Option<&A>, other: Option<&B>) -> NodeResult<W> {
        self.join.join(key, this, other).map_err(NodeError::user)
    }

    fn is_java(&self) -> bool {
        self.semantics == Semantics::Java
    }

    /// Joins a record with its partners; tells whether there were any.
    fn meet(
        &self,
        context: &mut Context<'_>,
        record: &Record<K, A>,
        found: &mut Vec<(Timestamp, B::Inner)>,
        stream_time: i64,
    ) -> NodeResult<bool> {
        let Some(key) = record.key.inner() else { return Ok(false) };
        let (from, to) = self.side.windows.around(record.timestamp.0);
        let times = (Timestamp(from), Timestamp(to));
        context.store(&self.other).values_between(key, times, found)?;
        if self.side.other_outer && !self.is_java() {
            // What was given up has had its result; Kafka Streams gives it a second one.
            found.retain(|(time, _)| self.side.other_windows.is_open(time.0, stream_time));
        }
        let any = !found.is_empty();
        for (time, other) in found.drain(..) {
            self.forget(context, key, time)?;
            let value = self.join(&record.key, Some(&record.value), Some(&B::from_inner(other)))?;
            context.forward(Record {
                key: record.key.clone(),
                value,
                timestamp: record.timestamp.max(time),
                headers: record.headers.clone(),
            })?;
        }
        Ok(any)
    }

    /// A record of the other side found its partner: it waits no longer.
    fn forget(&self, context: &mut Context<'_>, key: &K::Inner, time: Timestamp) -> NodeResult {
        let Some(held) = &self.held else { return Ok(()) };
        let key = HeldKey { time_ms: time.0, is_left: !self.side.is_left, key: key.clone() };
        let mut rows = context.store(&held.rows);
        if rows.get(&key)?.is_some() {
            rows.delete(&key)?;
        }
        Ok(())
    }

    /// A record without a partner: it waits, or no partner can come any more.
    fn lack(
        &self,
        context: &mut Context<'_>,
        record: Record<K, A>,
        stream_time: i64,
    ) -> NodeResult {
        let time = record.timestamp;
        let can_come = match self.semantics {
            // Kafka Streams leaves the grace period out here.
            Semantics::Java => self.side.windows.around(time.0).1 >= stream_time,
            _ => self.side.windows.is_open(time.0, stream_time),
        };
        let (Some(held), Some(key), Some(value)) =
            (self.held.as_ref().filter(|_| can_come), record.key.inner(), record.value.inner())
        else {
            return self.tell_alone(context, record);
        };
        self.times.hold(time);
        let is_left = self.side.is_left;
        let key = HeldKey { time_ms: time.0, is_left, key: key.clone() };
        let mut rows = context.store(&held.rows);
        let mut values = rows.get(&key)?.unwrap_or_default();
        values.is_left = is_left;
        values.push(value, &held.this)?;
        rows.put(&key, &values)
    }

    /// Joins a record with nothing.
    fn tell_alone(&self, context: &mut Context<'_>, record: Record<K, A>) -> NodeResult {
        let value = self.join(&record.key, Some(&record.value), None)?;
        context.forward(record.with_value(value))
    }

    /// Joins the records with nothing that have waited long enough, in the order of their times.
    fn tell_waiting(
        &self,
        context: &mut Context<'_>,
        headers: &Headers,
        stream_time: i64,
    ) -> NodeResult {
        let Some(held) = &self.held else { return Ok(()) };
        if self.none_closed(stream_time) {
            return Ok(());
        }
        let mut earliest = i64::MAX;
        loop {
            let closed = self.closed(context, held, stream_time, &mut earliest)?;
            let are_all = closed.len() < BATCH;
            for (key, values) in closed {
                // First, so that user code that fails on it does not meet it again.
                context.store(&held.rows).delete(&key)?;
                self.give_up(context, held, (key, values), headers)?;
            }
            if are_all {
                break;
            }
        }
        self.times.set_earliest(earliest);
        Ok(())
    }

    /// Has surely no waiting record waited long enough?
    fn none_closed(&self, stream_time: i64) -> bool {
        let (earliest, grace) = (self.times.earliest(), self.side.windows.grace_ms);
        let (this, other) = (self.side.windows.after_ms, self.side.other_windows.after_ms);
        match self.semantics {
            // Kafka Streams looks at this side's windows only; when nothing waits, its sum overflows.
            Semantics::Java => earliest.wrapping_add(this).wrapping_add(grace) >= stream_time,
            _ => earliest.saturating_add(this.min(other)).saturating_add(grace) >= stream_time,
        }
    }

    /// The next records that have waited long enough. `earliest` becomes the time of the first that has not.
    fn closed(
        &self,
        context: &mut Context<'_>,
        held: &Held<K::Inner, A::Inner, B::Inner>,
        stream_time: i64,
        earliest: &mut i64,
    ) -> NodeResult<Vec<(HeldKey<K::Inner>, HeldValues)>> {
        let mut closed = Vec::new();
        let (mut left_open, mut right_open) = (false, false);
        for entry in context.store(&held.rows).all()? {
            let (key, values) = entry?;
            if self.is_java() {
                // Kafka Streams notes whichever it looked at last.
                *earliest = key.time_ms;
            }
            if left_open && right_open {
                break;
            }
            if self.side.windows_of(key.is_left).is_open(key.time_ms, stream_time) {
                *earliest = if self.is_java() { *earliest } else { key.time_ms.min(*earliest) };
                *(if key.is_left { &mut left_open } else { &mut right_open }) = true;
                continue;
            }
            closed.push((key, values.value));
            if closed.len() == BATCH {
                break;
            }
        }
        Ok(closed)
    }

    fn give_up(
        &self,
        context: &mut Context<'_>,
        held: &Held<K::Inner, A::Inner, B::Inner>,
        (HeldKey { time_ms, is_left, key }, values): (HeldKey<K::Inner>, HeldValues),
        headers: &Headers,
    ) -> NodeResult {
        let key = K::from_inner(key);
        for bytes in values.values {
            let value = if is_left == self.side.is_left {
                let this = A::from_inner(held.this.read(Some(&bytes))?);
                self.join(&key, Some(&this), None)?
            } else {
                let other = B::from_inner(held.other.read(Some(&bytes))?);
                self.join(&key, None, Some(&other))?
            };
            let (timestamp, headers) = (Timestamp(time_ms), headers.clone());
            context.forward(Record { key: key.clone(), value, timestamp, headers })?;
        }
        Ok(())
    }
}

impl<K, A, B, W, J> Node for JoinSide<K, A, B, W, J>
where
    K: Datum,
    A: Datum,
    B: Datum,
    W: Datum,
    J: JoinValues<K, A, B, W>,
{
    fn init(&mut self, context: &mut Context<'_>) -> NodeResult {
        if let Some(stream_time) = context.remembered(STREAM_TIME) {
            self.times.advance(Timestamp(stream_time));
        }
        if let Some(earliest) = context.remembered(EARLIEST) {
            self.times.set_earliest(earliest);
        }
        Ok(())
    }

    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let record = take::<K, A>(slot);
        let stream_time = self.times.advance(record.timestamp);
        if record.value.is_null() || (record.key.is_null() && !self.side.outer) {
            context.drop_record("null key or value in a stream-stream join");
            return Ok(());
        }
        if record.key.is_null() {
            return self.tell_alone(context, record);
        }
        if record.timestamp.0 == stream_time {
            self.tell_waiting(context, &record.headers, stream_time)?;
        }
        let mut found = std::mem::take(&mut self.found);
        let any = self.meet(context, &record, &mut found, stream_time)?;
        self.found = found;
        if any || !self.side.outer { Ok(()) } else { self.lack(context, record, stream_time) }
    }

    /// The left side speaks for both.
    fn remember(&self, facts: &mut dyn FnMut(&'static str, i64)) {
        let stream_time = self.times.stream_time.load(Ordering::Relaxed);
        if self.side.is_left && stream_time > Timestamp::NONE.0 {
            facts(STREAM_TIME, stream_time);
            facts(EARLIEST, self.times.earliest());
        }
    }
}

/// Makes one side of a join; `name` is that of the whole, under which both sides share their times. It looks into the store of the
/// other side's records.
pub(crate) fn join_side<K, A, B, W, J>(
    name: &str,
    side: Side,
    join: J,
    other: SideStore<K::Inner, B::Inner>,
    waiting: Option<Waiting<K::Inner, A::Inner, B::Inner>>,
) -> NodeSupplier
where
    K: Datum,
    A: Datum,
    B: Datum,
    W: Datum,
    J: JoinValues<K, A, B, W>,
{
    let (name, join): (Arc<str>, _) = (name.into(), Arc::new(join));
    Arc::new(move |setup| {
        let held = match &waiting {
            Some(Waiting { store, this, other }) => {
                let (this, other) = (SharedSerde::clone(this), SharedSerde::clone(other));
                Some(Held { rows: setup.store(store)?, this, other })
            }
            None => None,
        };
        Ok(Box::new(JoinSide::<K, A, B, W, J> {
            side,
            join: Arc::clone(&join),
            other: setup.store(&other)?,
            held,
            times: setup.shared::<JoinTimes>(&name),
            semantics: setup.semantics(),
            found: Vec::new(),
            types: PhantomData,
        }))
    })
}
