//! The record cache: which keys of a store have updates that did not go downstream yet.
//!
//! The values themselves lie in the store's overlay; the cache knows the order, the value before, and the last record's context.
//! Those of windows lie here as well: a store forgets a window that is out of retention, also when its last update still waits.
//! Updates leave the cache at a commit, or when it holds more than its share of `statestore.cache.max.bytes`.

use std::sync::Arc;

use indexmap::IndexMap;
use thalweg_connectors::{Headers, Offset, Timestamp, TopicPartition};
use thalweg_state::WriteIx;

use crate::dead_letters::RawRecord;
use crate::record::{RecordContext, RecordMetadata};
use crate::stores::{LocalStore, StoreShape};

/// A key with an update that waits.
#[derive(Debug)]
pub(crate) struct Dirty {
    /// The store's value when the key became dirty.
    pub(crate) old: Option<Vec<u8>>,
    /// The newest value of a window; of another key the store knows it.
    pub(crate) newest: Option<Vec<u8>>,
    /// The bytes of the source record that touched it last, when dead letters are asked for.
    pub(crate) raw: Option<Box<RawRecord>>,
    /// What it counts for.
    size: usize,
    /// Of the last record that touched the key.
    pub(crate) context: RecordContext,
    /// Order of the last touch: updates leave in this order, as in Kafka Streams.
    touched: u64,
}

/// The record under way, as a touched key remembers it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Toucher<'a> {
    pub(crate) origin: Option<&'a TopicPartition>,
    pub(crate) offset: Offset,
    pub(crate) timestamp: Timestamp,
    pub(crate) headers: &'a Headers,
    pub(crate) raw: Option<&'a RawRecord>,
}

impl Toucher<'_> {
    fn metadata(&self) -> Option<RecordMetadata> {
        let TopicPartition { topic, partition } = self.origin?.clone();
        Some(RecordMetadata { topic, partition, offset: self.offset })
    }

    fn context(&self) -> RecordContext {
        let (timestamp, headers) = (self.timestamp, self.headers.clone());
        RecordContext { metadata: self.metadata(), timestamp, headers }
    }

    fn boxed_raw(&self) -> Option<Box<RawRecord>> {
        self.raw.map(|raw| Box::new(raw.clone()))
    }

    /// Takes the place of the record in a context. Usually it is of the same topic: a name that is there already is kept.
    fn replace(&self, context: &mut RecordContext) {
        context.timestamp = self.timestamp;
        if !self.headers.is_empty() || !context.headers.is_empty() {
            context.headers = self.headers.clone();
        }
        match (&mut context.metadata, self.origin) {
            (Some(known), Some(origin)) if Arc::ptr_eq(&known.topic, &origin.topic) => {
                (known.partition, known.offset) = (origin.partition, self.offset);
            }
            (known, _) => *known = self.metadata(),
        }
    }

    /// What an entry counts for.
    fn size(&self, key: &[u8], value: Option<&[u8]>) -> usize {
        let topic = self.origin.map_or(0, |origin| origin.topic.len());
        let of_header =
            |(name, value): (&str, Option<&[u8]>)| name.len() + value.map_or(0, <[u8]>::len);
        let headers: usize = self.headers.iter().map(of_header).sum();
        ENTRY_OVERHEAD + key.len() + value.map_or(0, <[u8]>::len) + topic + headers
    }
}

/// What Kafka Streams counts for a cached entry beside its key, its value and the texts of its context: three references, a
/// flag, timestamp, offset and partition. We count alike, so that one `statestore.cache.max.bytes` holds as many keys here as there
/// (the record cache of KIP-63). The memory behind an entry is about twice that.
const ENTRY_OVERHEAD: usize = 3 * 8 + 1 + 8 + 8 + 4;

/// The dirty keys of a store.
#[derive(Debug)]
enum Keys {
    /// Of a key-value store, with the place of the key's write in the store. There the number of the entry is noted, so that it
    /// is found without looking for the key once more.
    Written(Vec<(WriteIx, Dirty)>),
    /// Of a window store.
    Windows(IndexMap<Vec<u8>, Dirty, foldhash::fast::FixedState>),
}

impl Keys {
    fn new(shape: StoreShape) -> Self {
        match shape {
            StoreShape::KeyValue | StoreShape::Buffer => Self::Written(Vec::new()),
            _ => Self::Windows(IndexMap::with_hasher(foldhash::fast::FixedState::with_seed(0))),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Written(dirty) => dirty.is_empty(),
            Self::Windows(keys) => keys.is_empty(),
        }
    }
}

/// What an entry is found by.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The place of its write in the store.
    Written(WriteIx),
    /// Itself.
    Window(Vec<u8>),
}

/// The dirty keys of all cached stores of a task.
#[derive(Debug, Default)]
pub(crate) struct RecordCache {
    stores: Vec<Option<Keys>>,
    bytes: usize,
    clock: u64,
}

impl RecordCache {
    /// Prepares for the stores of a task: which of them are cached, and what they are.
    pub(crate) fn new(cached: impl IntoIterator<Item = Option<StoreShape>>) -> Self {
        let stores = cached.into_iter().map(|shape| shape.map(Keys::new)).collect();
        Self { stores, bytes: 0, clock: 0 }
    }

    /// Bytes held, counted as Kafka Streams counts them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes an update of a key whose write has this place and this entry noted, if the key is dirty already. If not, the value
    /// before the write is needed: [`insert_written`](Self::insert_written).
    pub(crate) fn touch_written(
        &mut self,
        store: LocalStore,
        (place, entry): (WriteIx, u32),
        (key, value): (&[u8], Option<&[u8]>),
        by: Toucher<'_>,
    ) -> bool {
        let Some(Keys::Written(dirty)) = &mut self.stores[store.0] else {
            return false;
        };
        let found = entry.checked_sub(1).and_then(|at| dirty.get_mut(at as usize));
        // What is noted may be of an entry that has left: another key's may have its number now.
        let Some((_, dirty)) = found.filter(|(of, _)| *of == place) else {
            return false;
        };
        self.clock += 1;
        touch(dirty, &mut self.bytes, self.clock, by.size(key, value), by);
        true
    }

    /// Notes the first update of a key, whose write has this place; `old` is the value before. Returns the number of the entry,
    /// never 0, to be noted there.
    pub(crate) fn insert_written(
        &mut self,
        store: LocalStore,
        place: WriteIx,
        (key, value): (&[u8], Option<&[u8]>),
        by: Toucher<'_>,
        old: Option<Vec<u8>>,
    ) -> u32 {
        let Some(Keys::Written(dirty)) = &mut self.stores[store.0] else {
            return 0;
        };
        self.clock += 1;
        let (size, context) = (by.size(key, value), by.context());
        self.bytes += size;
        let raw = by.boxed_raw();
        let entry = Dirty { old, newest: None, raw, size, context, touched: self.clock };
        dirty.push((place, entry));
        dirty.len() as u32
    }

    /// Notes an update of a window to this value; `old` is asked for the value before when the key was clean.
    pub(crate) fn touch_window<E>(
        &mut self,
        store: LocalStore,
        (key, value): (&[u8], Option<&[u8]>),
        by: Toucher<'_>,
        old: impl FnOnce() -> Result<Option<Vec<u8>>, E>,
    ) -> Result<(), E> {
        let Some(Keys::Windows(keys)) = &mut self.stores[store.0] else {
            return Ok(());
        };
        self.clock += 1;
        let size = by.size(key, value);
        if let Some(dirty) = keys.get_mut(key) {
            touch(dirty, &mut self.bytes, self.clock, size, by);
            replace(&mut dirty.newest, value);
            return Ok(());
        }
        let (old, newest, context) = (old()?, value.map(<[u8]>::to_vec), by.context());
        self.bytes += size;
        let raw = by.boxed_raw();
        let dirty = Dirty { old, newest, raw, size, context, touched: self.clock };
        keys.insert(key.to_vec(), dirty);
        Ok(())
    }

    /// Takes everything out of a store's cache, in order of the last touch.
    pub(crate) fn drain(&mut self, store: LocalStore) -> Vec<(Key, Dirty)> {
        let mut entries: Vec<_> = match &mut self.stores[store.0] {
            Some(Keys::Written(dirty)) => {
                dirty.drain(..).map(|(place, dirty)| (Key::Written(place), dirty)).collect()
            }
            Some(Keys::Windows(keys)) => {
                keys.drain(..).map(|(key, dirty)| (Key::Window(key), dirty)).collect()
            }
            None => Vec::new(),
        };
        entries.sort_unstable_by_key(|(_, dirty)| dirty.touched);
        if self.is_empty() {
            self.bytes = 0;
        }
        entries
    }

    /// Is nothing waiting?
    pub(crate) fn is_empty(&self) -> bool {
        self.stores.iter().flatten().all(Keys::is_empty)
    }
}

fn touch(dirty: &mut Dirty, bytes: &mut usize, clock: u64, size: usize, by: Toucher<'_>) {
    by.replace(&mut dirty.context);
    if let (Some(raw), Some(new)) = (&mut dirty.raw, by.raw) {
        raw.copy(new);
    }
    dirty.touched = clock;
    *bytes = *bytes - dirty.size + size;
    dirty.size = size;
}

/// Sets a value, in the memory of the one before.
fn replace(old: &mut Option<Vec<u8>>, new: Option<&[u8]>) {
    match (old.as_mut(), new) {
        (Some(old), Some(new)) => {
            old.clear();
            old.extend_from_slice(new);
        }
        (_, new) => *old = new.map(<[u8]>::to_vec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static NONE: Headers = Headers::new();

    fn by<'a>(origin: Option<&'a TopicPartition>, headers: &'a Headers) -> Toucher<'a> {
        Toucher { origin, offset: Offset(1), timestamp: Timestamp(1), headers, raw: None }
    }

    #[test]
    fn bytes_follow_the_values_as_they_grow_and_shrink() {
        let mut cache = RecordCache::new([Some(StoreShape::KeyValue)]);
        let store = LocalStore(0);
        let mut noted = [0; 4];
        let mut touch = |place: u32, key: &[u8], value: Option<&[u8]>| {
            let (at, entry) = (WriteIx(place), &mut noted[place as usize]);
            if !cache.touch_written(store, (at, *entry), (key, value), by(None, &NONE)) {
                *entry = cache.insert_written(store, at, (key, value), by(None, &NONE), None);
            }
            cache.bytes()
        };
        assert_eq!(touch(3, b"k", Some(b"12")), ENTRY_OVERHEAD + 3);
        assert_eq!(touch(3, b"k", Some(&[0; 1000])), ENTRY_OVERHEAD + 1001);
        assert_eq!(touch(0, b"l", None), 2 * ENTRY_OVERHEAD + 1002);
        assert_eq!(touch(3, b"k", None), 2 * ENTRY_OVERHEAD + 2);
        let drained = cache.drain(store).into_iter().map(|(key, _)| key);
        assert_eq!(drained.collect::<Vec<_>>(), [0, 3].map(|at| Key::Written(WriteIx(at))));
        assert_eq!(cache.bytes(), 0);
        // What was noted before it was drained is not taken for what is there now.
        assert_eq!(cache.insert_written(store, WriteIx(2), (b"m", None), by(None, &NONE), None), 1);
        assert!(!cache.touch_written(store, (WriteIx(3), 1), (b"k", None), by(None, &NONE)));
        assert!(cache.touch_written(store, (WriteIx(2), 1), (b"m", None), by(None, &NONE)));
    }

    #[test]
    fn the_value_of_a_window_is_kept_and_the_one_before_asked_for_once() {
        let mut cache = RecordCache::new([
            None,
            Some(StoreShape::Window { retention_ms: 1, size_ms: 1, retain_duplicates: false }),
        ]);
        let store = LocalStore(1);
        let old = || Ok::<_, ()>(Some(b"old".to_vec()));
        assert_eq!(cache.touch_window(store, (b"k", Some(b"1")), by(None, &NONE), old), Ok(()));
        let asked_again = || Err(());
        let again = cache.touch_window(store, (b"k", Some(b"22")), by(None, &NONE), asked_again);
        assert_eq!(again, Ok(()));
        assert_eq!(cache.bytes(), ENTRY_OVERHEAD + 3);
        let drained = cache.drain(store);
        let [(key, dirty)] = &drained[..] else { panic!("one key: {drained:?}") };
        assert_eq!(key, &Key::Window(b"k".to_vec()));
        assert_eq!(dirty.old.as_deref(), Some(&b"old"[..]));
        assert_eq!(dirty.newest.as_deref(), Some(&b"22"[..]));
        assert!(cache.is_empty());
    }

    #[test]
    fn as_many_keys_fit_as_in_kafka_streams() {
        let mut cache = RecordCache::new([Some(StoreShape::KeyValue)]);
        let origin = TopicPartition::new("bench-in-count-2000000", 0);
        let headers = Headers::new().with("h", Some(b"12"));
        let written = (&b"k12345"[..], Some(&[0; 16][..]));
        let by = by(Some(&origin), &headers);
        cache.insert_written(LocalStore(0), WriteIx(0), written, by, None);
        assert_eq!(cache.bytes(), 6 + 16 + 24 + 1 + 20 + 22 + 3);
    }

    #[test]
    fn the_last_record_that_touched_a_key_is_remembered() {
        let mut cache = RecordCache::new([Some(StoreShape::KeyValue)]);
        let (store, place, written) = (LocalStore(0), WriteIx(0), (&b"k"[..], None));
        let one = TopicPartition::new("one", 1);
        let headers = Headers::new().with("h", None);
        let entry = cache.insert_written(store, place, written, by(Some(&one), &headers), None);
        let two = TopicPartition::new("two", 2);
        for origin in [Some(&one), Some(&two), None, Some(&two)] {
            assert!(cache.touch_written(store, (place, entry), written, by(origin, &NONE)));
        }
        let last = Toucher { offset: Offset(7), timestamp: Timestamp(9), ..by(Some(&two), &NONE) };
        assert!(cache.touch_written(store, (place, entry), written, last));
        let drained = cache.drain(store);
        assert_eq!(drained[0].1.context, last.context());
        assert_eq!(last.context().metadata.map(|m| (m.partition, m.offset.0)), Some((2, 7)));
    }
}
