//! Suppression at work: updates of a table wait until their time has come, one per key.
//!
//! The bytes of the updates lie in a store; what has to be in order is kept in memory: when each key leaves, and how much it counts
//! for. Time is the highest timestamp that reached this node, and survives a restart.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::sync::Arc;

use thalweg_connectors::{Datum, Field, SerdeError, SharedSerde, Timestamp};
use thalweg_processor::{
    BoxError, Buffer, Change, Context, Handle, Node, NodeError, NodeResult, NodeSupplier, Record,
    RecordContext, RecordMetadata, SourceBytes, Store, Timestamped, UsageError, take,
};

use super::change_buffer::Buffered;
use super::dirty_keys::DirtyKeys;
use super::stream_time::StreamTime;
use super::table_getter::Getter;

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

/// What is known of an update that waits, beside its bytes in the store.
struct Waiting {
    /// When it leaves.
    time: i64,
    /// What it counts for.
    size: usize,
    /// Of the record that updated it last, for dead letters.
    source: SourceBytes,
}

/// In which order the keys leave, and how much they count for.
#[derive(Default)]
struct Order {
    by_time: BTreeSet<(i64, Arc<[u8]>)>,
    waiting: HashMap<Arc<[u8]>, Waiting>,
    bytes: usize,
}

impl Order {
    /// A key comes. It keeps its time until it leaves.
    fn insert(&mut self, key: &Arc<[u8]>, waiting: Waiting) {
        self.bytes += waiting.size;
        self.by_time.insert((waiting.time, Arc::clone(key)));
        self.waiting.insert(Arc::clone(key), waiting);
    }

    fn first(&self) -> Option<&(i64, Arc<[u8]>)> {
        self.by_time.first()
    }

    fn remove_first(&mut self) {
        let first = self.by_time.pop_first();
        let waiting = first.and_then(|(_, key)| self.waiting.remove(&key));
        self.bytes -= waiting.map_or(0, |waiting| waiting.size);
    }
}

/// The bytes of the record under way, in memory that is used again.
#[derive(Default)]
struct Bytes {
    key: Vec<u8>,
    old: Vec<u8>,
    new: Vec<u8>,
    /// What goes into the store.
    row: Vec<u8>,
}

struct Suppress<K, V> {
    rules: Rules<K>,
    buffer: Handle<K, V, Buffer>,
    key: SharedSerde<K>,
    value: SharedSerde<V>,
    order: Order,
    dirty: DirtyKeys,
    stream_time: StreamTime,
    bytes: Bytes,
}

const MALFORMED: &str = "it is not an update that waits";

fn written<'b, T: 'static>(
    serde: &SharedSerde<T>,
    value: Option<&T>,
    out: &'b mut Vec<u8>,
) -> NodeResult<Option<&'b [u8]>> {
    out.clear();
    let Some(value) = value else { return Ok(None) };
    Ok((serde.write(value, out)? == Field::Bytes).then_some(&out[..]))
}

fn read<T: 'static>(serde: &SharedSerde<T>, bytes: Option<&[u8]>) -> Result<Option<T>, SerdeError> {
    bytes.map(|bytes| serde.read(Some(bytes))).transpose()
}

/// A record that leaves, and where it came from.
type Leaving<K, V> = (Option<RecordMetadata>, Record<K, Change<V>>);

impl<K: Datum, V: Datum> Suppress<K, V> {
    /// Puts an update into the buffer; one of the same key that waits there keeps its place and its prior value.
    fn put(&mut self, context: &mut Context<'_>, record: &Record<K, Change<V>>) -> NodeResult {
        let Change { new, old, .. } = &record.value;
        let Bytes { key, old: old_bytes, new: new_bytes, row } = &mut self.bytes;
        let key = written(&self.key, Some(&record.key), key)?
            .ok_or_else(|| NodeError::user("a suppressed row has a null key"))?;
        let old = written(&self.value, old.as_ref(), old_bytes)?;
        let new = written(&self.value, new.as_ref(), new_bytes)?;
        let mut buffered = Buffered { context: context.record_context(), prior: old, old, new };
        row.clear();
        let Some((known, _)) = self.order.waiting.get_key_value(key) else {
            let time = match &self.rules.time {
                BufferTime::Record => record.timestamp.0,
                BufferTime::Key(time) => time(&record.key),
            };
            buffered.write(time, row);
            context.store(&self.buffer).put(key, Some(row))?;
            let mut waiting =
                Waiting { time, size: buffered.size(key), source: SourceBytes::default() };
            context.note_source(&mut waiting.source);
            let key = key.into();
            self.order.insert(&key, waiting);
            self.dirty.insert(&key);
            return Ok(());
        };
        self.dirty.insert(known);
        let Some(waiting) = self.order.waiting.get_mut(key) else { return Ok(()) };
        let mut store = context.store(&self.buffer);
        let prior = store.get(key)?.and_then(Buffered::read_prior);
        let Some(prior) = prior else { return Err(store.unreadable(MALFORMED)) };
        buffered.prior = prior;
        buffered.write(waiting.time, row);
        let size = buffered.size(key);
        store.put(key, Some(row))?;
        context.note_source(&mut waiting.source);
        self.order.bytes = self.order.bytes - waiting.size + size;
        waiting.size = size;
        Ok(())
    }

    /// Lets the first update go.
    fn emit_first(&mut self, context: &mut Context<'_>) -> NodeResult {
        let Some((_, key)) = self.order.first() else { return Ok(()) };
        let key = Arc::clone(key);
        let mut store = context.store(&self.buffer);
        let leaving = match store.get(&key)?.and_then(Buffered::read) {
            Some((buffered, _)) => self.leaving(&key, buffered).map_err(BoxError::from),
            None => Err(MALFORMED.into()),
        };
        if let Some((origin, record)) = leaving.map_err(|error| store.unreadable(error))? {
            let waiting = self.order.waiting.get_mut(&key);
            let source = waiting.map(|waiting| mem::take(&mut waiting.source)).unwrap_or_default();
            context.forward_from(origin.as_ref(), source, record)?;
        }
        // Until now the row was the one from before it was buffered.
        context.store(&self.buffer).put(&key, None)?;
        self.order.remove_first();
        self.dirty.insert(&key);
        Ok(())
    }

    /// The record of an update that leaves; `None` when nobody is to hear of it.
    fn leaving(
        &self,
        key: &[u8],
        buffered: Buffered<'_>,
    ) -> Result<Option<Leaving<K, V>>, SerdeError> {
        let new = read(&self.value, buffered.new)?;
        if new.is_none() && self.rules.drops_tombstones {
            return Ok(None);
        }
        let value = Change::latest(new, read(&self.value, buffered.old)?);
        let key = self.key.read(Some(key))?;
        let RecordContext { metadata, timestamp, headers } = buffered.context;
        Ok(Some((metadata, Record { key, value, timestamp, headers })))
    }

    #[cold]
    fn full(&self, context: &Context<'_>) -> UsageError {
        UsageError::BufferFull {
            node: Arc::clone(context.node_name()),
            records: self.order.waiting.len(),
            records_max: self.rules.max_records,
            bytes: self.order.bytes,
            bytes_max: self.rules.max_bytes,
        }
    }

    fn is_over(&self) -> bool {
        self.order.waiting.len() > self.rules.max_records || self.order.bytes > self.rules.max_bytes
    }
}

impl<K: Datum, V: Datum> Node for Suppress<K, V> {
    fn init(&mut self, context: &mut Context<'_>) -> NodeResult {
        self.stream_time.recall(context);
        let (order, mut is_whole) = (&mut self.order, true);
        let mut store = context.store(&self.buffer);
        store.each(|key, value| {
            if let Some((buffered, time)) = Buffered::read(value) {
                let (size, source) = (buffered.size(key), SourceBytes::default());
                order.insert(&key.into(), Waiting { time, size, source });
            } else {
                is_whole = false;
            }
            Ok(())
        })?;
        if is_whole { Ok(()) } else { Err(store.unreadable(MALFORMED)) }
    }

    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let record = take::<K, Change<V>>(slot);
        self.stream_time.observe(record.timestamp);
        self.put(context, &record)?;
        let due = self.stream_time.ms().saturating_sub(self.rules.wait_ms);
        while self.order.first().is_some_and(|(time, _)| *time <= due) {
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
        self.stream_time.remember(facts);
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
            stream_time: StreamTime::NONE,
            bytes: Bytes::default(),
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
        let mut bytes = Vec::new();
        let Some(bytes) = written(&self.key, Some(key), &mut bytes)? else { return Ok(None) };
        let mut store = context.store(&self.buffer);
        let Some(waiting) = store.get(bytes)? else { return self.parent.get(context, key) };
        let value = match Buffered::read_prior(waiting) {
            Some(prior) => read(&self.value, prior).map_err(BoxError::from),
            None => Err(MALFORMED.into()),
        };
        let value = value.map_err(|error| store.unreadable(error))?;
        Ok(value.map(|value| Timestamped { value, timestamp: Timestamp::NONE }))
    }
}
