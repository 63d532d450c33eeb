//! A stream joined with itself over one store: what `single.store.self.join` makes of a join whose two sides are the same.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_connectors::{Datum, Timestamp};
use thalweg_processor::{
    BoxError, Context, Handle, Node, NodeError, NodeResult, NodeSupplier, Record, Window, take,
};

use super::join_stream::SideStore;
use super::stream_time::StreamTime;
use crate::join_windows::JoinWindows;

struct SelfJoin<K: Datum, V: Datum, W, F> {
    windows: JoinWindows,
    join: Arc<F>,
    rows: Handle<K::Inner, V::Inner, Window>,
    stream_time: StreamTime,
    types: PhantomData<fn() -> W>,
}

impl<K, V, W, F> SelfJoin<K, V, W, F>
where
    K: Datum,
    V: Datum,
    W: Datum,
    F: Fn(&K, Option<&V>, Option<&V>) -> Result<W, BoxError> + Send + Sync + 'static,
{
    fn found(
        &self,
        context: &mut Context<'_>,
        key: &K::Inner,
        (from, to): (i64, i64),
    ) -> NodeResult<Vec<(Timestamp, V::Inner)>> {
        let mut found = Vec::new();
        let times = (Timestamp(from), Timestamp(to));
        context.store(&self.rows).values_between(key, times, &mut found)?;
        Ok(found)
    }

    fn tell(
        &self,
        context: &mut Context<'_>,
        record: &Record<K, V>,
        (left, right): (&V, &V),
        timestamp: Timestamp,
    ) -> NodeResult {
        let value = (self.join)(&record.key, Some(left), Some(right)).map_err(NodeError::user)?;
        let (key, headers) = (record.key.clone(), record.headers.clone());
        context.forward(Record { key, value, timestamp, headers })
    }

    /// Joins a record with those before it, as left and as right value, and with itself: in Kafka Streams' order.
    fn meet(&self, context: &mut Context<'_>, record: &Record<K, V>, key: &K::Inner) -> NodeResult {
        let (time, value) = (record.timestamp, &record.value);
        let kept_from = self.stream_time.ms().saturating_sub(self.windows.retention_ms());
        let mut meets_itself = time.0 > kept_from.saturating_add(1);
        for (at, other) in self.found(context, key, self.windows.left().around(time.0))? {
            self.tell(context, record, (value, &V::from_inner(other)), time.max(at))?;
        }
        for (at, other) in self.found(context, key, self.windows.right().around(time.0))? {
            if at > time && std::mem::take(&mut meets_itself) {
                self.tell(context, record, (value, value), time)?;
            }
            self.tell(context, record, (&V::from_inner(other), value), time.max(at))?;
        }
        if meets_itself { self.tell(context, record, (value, value), time) } else { Ok(()) }
    }
}

impl<K, V, W, F> Node for SelfJoin<K, V, W, F>
where
    K: Datum,
    V: Datum,
    W: Datum,
    F: Fn(&K, Option<&V>, Option<&V>) -> Result<W, BoxError> + Send + Sync + 'static,
{
    fn init(&mut self, context: &mut Context<'_>) -> NodeResult {
        self.stream_time.recall(context);
        Ok(())
    }

    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let record = take::<K, V>(slot);
        let Some(key) = record.key.inner().filter(|_| !record.value.is_null()).cloned() else {
            context.drop_record("null key or value in a stream-stream join");
            return Ok(());
        };
        self.stream_time.observe(record.timestamp);
        self.meet(context, &record, &key)
    }

    fn remember(&self, facts: &mut dyn FnMut(&'static str, i64)) {
        self.stream_time.remember(facts);
    }
}

/// Makes the join of a stream with itself, whose records lie in `store`.
pub(crate) fn join_self<K, V, W, F>(
    windows: JoinWindows,
    join: Arc<F>,
    store: SideStore<K::Inner, V::Inner>,
) -> NodeSupplier
where
    K: Datum,
    V: Datum,
    W: Datum,
    F: Fn(&K, Option<&V>, Option<&V>) -> Result<W, BoxError> + Send + Sync + 'static,
{
    Arc::new(move |setup| {
        let (join, rows) = (Arc::clone(&join), setup.store(&store)?);
        let stream_time = StreamTime::NONE;
        let types = PhantomData;
        Ok(Box::new(SelfJoin::<K, V, W, F> { windows, join, rows, stream_time, types }))
    })
}
