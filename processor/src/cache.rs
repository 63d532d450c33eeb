//! The record cache: which keys of a store have updates that did not go downstream yet.
//!
//! The values themselves lie in the store's overlay; the cache knows the order, the value before, and the last record's context.
//! Those of windows lie here as well: a store forgets a window that is out of retention, also when its last update still waits.
//! Updates leave the cache at a commit, or when it holds more than its share of `statestore.cache.max.bytes`.

use indexmap::IndexMap;

use crate::record::RecordContext;
use crate::stores::{LocalStore, StoreShape};

/// A key with an update that waits.
#[derive(Debug)]
pub(crate) struct Dirty {
    /// The store's value when the key became dirty.
    pub(crate) old: Option<Vec<u8>>,
    /// The newest value of a window; of another key the store knows it.
    pub(crate) newest: Option<Vec<u8>>,
    /// What it counts for.
    size: usize,
    /// Of the last record that touched the key.
    pub(crate) context: RecordContext,
    /// Order of the last touch: updates leave in this order, as in Kafka Streams.
    touched: u64,
}

type Keys = IndexMap<Vec<u8>, Dirty, foldhash::fast::FixedState>;

/// The dirty keys of a store.
#[derive(Debug)]
struct Cached {
    keys: Keys,
    windowed: bool,
}

/// The dirty keys of all cached stores of a task.
#[derive(Debug, Default)]
pub(crate) struct RecordCache {
    stores: Vec<Option<Cached>>,
    bytes: usize,
    clock: u64,
}

/// What Kafka Streams counts for a cached entry beside its key, its value and the texts of its context: three references, a
/// flag, timestamp, offset and partition. We count alike, so that one `statestore.cache.max.bytes` holds as many keys here as there
/// (the record cache of KIP-63). The memory behind an entry is about twice that.
const ENTRY_OVERHEAD: usize = 3 * 8 + 1 + 8 + 8 + 4;

/// What an entry counts for.
fn size_of(key: &[u8], value: Option<&[u8]>, context: &RecordContext) -> usize {
    let topic = context.metadata.as_ref().map_or(0, |metadata| metadata.topic.len());
    let of_header =
        |(name, value): (&str, Option<&[u8]>)| name.len() + value.map_or(0, <[u8]>::len);
    let headers: usize = context.headers.iter().map(of_header).sum();
    ENTRY_OVERHEAD + key.len() + value.map_or(0, <[u8]>::len) + topic + headers
}

impl RecordCache {
    /// Prepares for the stores of a task: which of them are cached, and what they are.
    pub(crate) fn new(cached: impl IntoIterator<Item = Option<StoreShape>>) -> Self {
        let cached_store = |shape| {
            let keys = Keys::with_hasher(foldhash::fast::FixedState::with_seed(0));
            Cached { keys, windowed: matches!(shape, StoreShape::Window { .. }) }
        };
        let stores = cached.into_iter().map(|shape| shape.map(cached_store)).collect();
        Self { stores, bytes: 0, clock: 0 }
    }

    /// Bytes held, counted as Kafka Streams counts them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes an update to this value; `old` is asked for the value before when the key was clean.
    pub(crate) fn touch<E>(
        &mut self,
        store: LocalStore,
        key: &[u8],
        value: Option<&[u8]>,
        context: RecordContext,
        old: impl FnOnce() -> Result<Option<Vec<u8>>, E>,
    ) -> Result<(), E> {
        self.clock += 1;
        let Some(Cached { keys, windowed }) = &mut self.stores[store.0] else {
            return Ok(());
        };
        let size = size_of(key, value, &context);
        let value = value.filter(|_| *windowed);
        if let Some(dirty) = keys.get_mut(key) {
            (dirty.context, dirty.touched) = (context, self.clock);
            self.bytes = self.bytes - dirty.size + size;
            dirty.size = size;
            replace(&mut dirty.newest, value);
            return Ok(());
        }
        let old = old()?;
        self.bytes += size;
        let newest = value.map(<[u8]>::to_vec);
        keys.insert(key.to_vec(), Dirty { old, newest, size, context, touched: self.clock });
        Ok(())
    }

    /// Takes everything out of a store's cache, in order of the last touch.
    pub(crate) fn drain(&mut self, store: LocalStore) -> Vec<(Vec<u8>, Dirty)> {
        let Some(Cached { keys, .. }) = &mut self.stores[store.0] else {
            return Vec::new();
        };
        let mut entries: Vec<_> = keys.drain(..).collect();
        entries.sort_unstable_by_key(|(_, dirty)| dirty.touched);
        if self.is_empty() {
            self.bytes = 0;
        }
        entries
    }

    /// Is nothing waiting?
    pub(crate) fn is_empty(&self) -> bool {
        self.stores.iter().flatten().all(|store| store.keys.is_empty())
    }
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

    #[test]
    fn bytes_follow_the_values_as_they_grow_and_shrink() {
        let mut cache = RecordCache::new([Some(StoreShape::KeyValue)]);
        let store = LocalStore(0);
        let mut touch = |key: &[u8], value: Option<&[u8]>, old: Option<&[u8]>| {
            let timestamp = thalweg_connectors::Timestamp(1);
            let headers = thalweg_connectors::Headers::new();
            let context = RecordContext { metadata: None, timestamp, headers };
            let old = || Ok::<_, ()>(old.map(<[u8]>::to_vec));
            assert_eq!(cache.touch(store, key, value, context, old), Ok(()));
            cache.bytes()
        };
        assert_eq!(touch(b"k", Some(b"12"), Some(b"123")), ENTRY_OVERHEAD + 3);
        assert_eq!(touch(b"k", Some(&[0; 1000]), None), ENTRY_OVERHEAD + 1001);
        assert_eq!(touch(b"l", None, None), 2 * ENTRY_OVERHEAD + 1002);
        assert_eq!(touch(b"k", None, None), 2 * ENTRY_OVERHEAD + 2);
        assert_eq!(cache.drain(store).len(), 2);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn as_many_keys_fit_as_in_kafka_streams() {
        use std::sync::Arc;
        let mut cache = RecordCache::new([Some(StoreShape::KeyValue)]);
        let topic: Arc<str> = "bench-in-count-2000000".into();
        let offset = thalweg_connectors::Offset(1);
        let metadata = Some(crate::record::RecordMetadata { topic, partition: 0, offset });
        let timestamp = thalweg_connectors::Timestamp(1);
        let headers = thalweg_connectors::Headers::new().with("h", Some(b"12"));
        let context = RecordContext { metadata, timestamp, headers };
        let touched =
            cache.touch(LocalStore(0), b"k12345", Some(&[0; 16]), context, || Ok::<_, ()>(None));
        assert_eq!(touched, Ok(()));
        assert_eq!(cache.bytes(), 6 + 16 + 24 + 1 + 20 + 22 + 3);
    }
}
