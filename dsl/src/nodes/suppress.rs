//! Suppression at work: updates of a table wait until their time has come, one per key.
//!
//! The bytes of the updates lie in a store; what has to be in order is kept in memory: when each key leaves, and how much it counts
//! for. Time is the highest timestamp that reached this node, and survives a restart.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_connectors::{Datum, Field, SharedSerde, Timestamp};
use thalweg_processor::{
    Buffer, Change, Context, Handle, Node, NodeError, NodeResult, NodeSupplier, Record,
    RecordContext, Store, Timestamped, UsageError, take,
};

use super::change_buffer::Buffered;
use super::dirty_keys::DirtyKeys;
use super::table_getter::Getter;

/// The name under which the node's stream time survives a restart.
const STREAM_TIME: &str = "stream-time";

/// The store of a suppression.
pub(crate) type BufferStore<K, V> = Store<K, V, Buffer>;

/// When an update leaves.
pub(crate) enum BufferTime<K> {
    /// At its record's time.
    Record,
    /// At the time that its key says.
    Key(Arc<dyn Fn(&K) -> i64 + Send + Sync>),
}

impl<K> Clone for BufferTime<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Record => Self::Record,
            Self::Key(time) => Self::Key(Arc::clone(time)),
        }
    }
}

/// What a suppression does.
pub(crate) struct Rules<K> {
    pub(crate) time: BufferTime<K>,
    /// How long after its time an update leaves, in ms.
    pub(crate) wait_ms: i64,
    pub(crate) max_records: usize,
    pub(crate) max_bytes: usize,
    /// What happens when there are more: the oldest leave early, or the task fails.
    pub(crate) emits_early: bool,
    /// Nobody has heard of what is deleted before it left.
    pub(crate) drops_tombstones: bool,
}

impl<K> Clone for Rules<K> {
    fn clone(&self) -> Self {
        Self { time: self.time.clone(), ..*self }
    }
}

/// In which order the keys leave, and how much they count for.
#[derive(Default)]
struct Order {
    by_time: BTreeMap<(i64, Vec<u8>), usize>,
    times: BTreeMap<Vec<u8>, i64>,
    bytes: usize,
}

impl Order {
    fn insert(&mut self, time: i64, key: &[u8], size: usize) {
        self.times.insert(key.to_vec(), time);
        let before = self.by_time.insert((time, key.to_vec()), size);
        self.bytes = self.bytes + size - before.unwrap_or(0);
    }

    fn first(&self) -> Option<(i64, &[u8])> {
        self.by_time.first_key_value().map(|((time, key), _)| (*time, &key[..]))
    }

    fn remove(&mut self, time: i64, key: &[u8]) {
        self.times.remove(key);
        self.bytes -= self.by_time.remove(&(time, key.to_vec())).unwrap_or(0);
    }
}

struct Suppress<K, V> {
    rules: Rules<K>,
    buffer: Handle<K, V, Buffer>,
    key: SharedSerde<K>,
    value: SharedSerde<V>,
    order: Order,
    dirty: DirtyKeys,
    stream_time: Timestamp,
    bytes: Vec<u8>,
}

fn unreadable() -> NodeError {
    NodeError::user("an update in the buffer of a suppression cannot be read")
}

fn written<T: 'static>(serde: &SharedSerde<T>, value: Option<&T>) -> NodeResult<Option<Vec<u8>>> {
    let Some(value) = value else { return Ok(None) };
    let mut bytes = Vec::new();
    Ok((serde.write(value, &mut bytes)? == Field::Bytes).then_some(bytes))
}

fn read<T: 'static>(serde: &SharedSerde<T>, bytes: Option<&[u8]>) -> NodeResult<Option<T>> {
    bytes.map(|bytes| Ok(serde.read(Some(bytes))?)).transpose()
}

impl<K: Datum, V: Datum> Suppress<K, V> {
    /// Puts an update into the buffer; one of the same key that waits there keeps its place and its prior value.
    fn put(&mut self, context: &mut Context<'_>, record: &Record<K, Change<V>>) -> NodeResult {
        let Change { new, old, .. } = &record.value;
        let key = written(&self.key, Some(&record.key))?
            .ok_or_else(|| NodeError::user("a suppressed row has a null key"))?;
        let (old, new) = (written(&self.value, old.as_ref())?, written(&self.value, new.as_ref())?);
        let known = match self.order.times.get(&key) {
            Some(time) => {
                let mut store = context.store(&self.buffer);
                let (waiting, _) =
                    store.get(&key)?.and_then(Buffered::read).ok_or_else(unreadable)?;
                Some((*time, waiting.prior))
            }
            None => None,
        };
        let time = match (&known, &self.rules.time) {
            (Some((time, _)), _) => *time,
            (None, BufferTime::Record) => record.timestamp.0,
            (None, BufferTime::Key(time)) => time(&record.key),
        };
        let prior = known.map_or_else(|| old.clone(), |(_, prior)| prior);
        let buffered = Buffered { context: context.record_context(), prior, old, new };
        self.bytes.clear();
        buffered.write(time, &mut self.bytes);
        context.store(&self.buffer).put(&key, Some(&self.bytes))?;
        self.order.insert(time, &key, buffered.size(&key));
        self.dirty.insert(key);
        Ok(())
    }

    /// Lets the first update go.
    fn emit_first(&mut self, context: &mut Context<'_>) -> NodeResult {
        let Some((time, key)) = self.order.first() else { return Ok(()) };
        let key = key.to_vec();
        let (buffered, _) = {
            let mut store = context.store(&self.buffer);
            store.get(&key)?.and_then(Buffered::read).ok_or_else(unreadable)?
        };
        self.forward(context, &key, buffered)?;
        // Until now the row was the one from before it was buffered.
        context.store(&self.buffer).put(&key, None)?;
        self.order.remove(time, &key);
        self.dirty.insert(key);
        Ok(())
    }

    fn forward(&self, context: &mut Context<'_>, key: &[u8], buffered: Buffered) -> NodeResult {
        let new = read(&self.value, buffered.new.as_deref())?;
        if new.is_none() && self.rules.drops_tombstones {
            return Ok(());
        }
        let value = Change::latest(new, read(&self.value, buffered.old.as_deref())?);
        let key = self.key.read(Some(key))?;
        let RecordContext { metadata, timestamp, headers } = buffered.context;
        context.forward_from(metadata.as_ref(), Record { key, value, timestamp, headers })
    }

    #[cold]
    fn full(&self, context: &Context<'_>) -> UsageError {
        UsageError::BufferFull {
            node: Arc::clone(context.node_name()),
            records: self.order.by_time.len(),
            records_max: self.rules.max_records,
            bytes: self.order.bytes,
            bytes_max: self.rules.max_bytes,
        }
    }

    fn is_over(&self) -> bool {
        self.order.by_time.len() > self.rules.max_records || self.order.bytes > self.rules.max_bytes
    }
}

impl<K: Datum, V: Datum> Node for Suppress<K, V> {
    fn init(&mut self, context: &mut Context<'_>) -> NodeResult {
        if let Some(remembered) = context.remembered(STREAM_TIME) {
            self.stream_time = Timestamp(remembered);
        }
        let order = &mut self.order;
        context.store(&self.buffer).each(|key, value| {
            let (buffered, time) = Buffered::read(value).ok_or_else(unreadable)?;
            order.insert(time, key, buffered.size(key));
            Ok(())
        })
    }

    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let record = take::<K, Change<V>>(slot);
        self.stream_time = self.stream_time.max(record.timestamp);
        self.put(context, &record)?;
        let due = self.stream_time.0.saturating_sub(self.rules.wait_ms);
        while self.order.first().is_some_and(|(time, _)| time <= due) {
            self.emit_first(context)?;
        }
        while self.is_over() {
            if !self.rules.emits_early {
                return Err(self.full(context).into());
            }
            self.emit_first(context)?;
        }
        Ok(())
    }

    fn before_commit(&mut self, context: &mut Context<'_>) -> NodeResult {
        for key in self.dirty.take() {
            context.store(&self.buffer).log(&key, true)?;
        }
        Ok(())
    }

    fn remember(&self, facts: &mut dyn FnMut(&'static str, i64)) {
        if self.stream_time.0 >= 0 {
            facts(STREAM_TIME, self.stream_time.0);
        }
    }
}

/// Makes the node.
pub(crate) fn suppress<K: Datum, V: Datum>(
    rules: Rules<K>,
    store: BufferStore<K, V>,
    key: SharedSerde<K>,
    value: SharedSerde<V>,
) -> NodeSupplier {
    Arc::new(move |setup| {
        Ok(Box::new(Suppress {
            rules: rules.clone(),
            buffer: setup.store(&store)?,
            key: Arc::clone(&key),
            value: Arc::clone(&value),
            order: Order::default(),
            dirty: DirtyKeys::default(),
            stream_time: Timestamp::NONE,
            bytes: Vec::new(),
        }))
    })
}

/// Reads a row as those behind the suppression know it: the one from before it was buffered, while an update of it waits.
pub(crate) struct SuppressedGetter<K, V> {
    pub(crate) parent: Box<dyn Getter<K, V>>,
    pub(crate) buffer: Handle<K, V, Buffer>,
    pub(crate) key: SharedSerde<K>,
    pub(crate) value: SharedSerde<V>,
}

impl<K: Send + 'static, V: Send + 'static> Getter<K, V> for SuppressedGetter<K, V> {
    fn get(&mut self, context: &mut Context<'_>, key: &K) -> NodeResult<Option<Timestamped<V>>> {
        let Some(bytes) = written(&self.key, Some(key))? else { return Ok(None) };
        let waiting = context.store(&self.buffer).get(&bytes)?.map(Buffered::read);
        let Some(waiting) = waiting else { return self.parent.get(context, key) };
        let (buffered, _) = waiting.ok_or_else(unreadable)?;
        let value = read(&self.value, buffered.prior.as_deref())?;
        Ok(value.map(|value| Timestamped { value, timestamp: Timestamp::NONE }))
    }
}
