//! The record cache: which keys of a store have updates that did not go downstream yet.
//!
//! The values themselves lie in the store's overlay; the cache knows the order, the value before, and the last record's context.
//! Updates leave it at a commit, or when it holds more than its share of `statestore.cache.max.bytes`.

use indexmap::IndexMap;

use crate::record::RecordContext;
use crate::stores::LocalStore;

/// A key with an update that waits.
#[derive(Debug)]
pub(crate) struct Dirty {
    /// The store's value when the key became dirty.
    pub(crate) old: Option<Vec<u8>>,
    /// Of the last record that touched the key.
    pub(crate) context: RecordContext,
    /// Order of the last touch: updates leave in this order, as in Kafka Streams.
    touched: u64,
}

type Keys = IndexMap<Vec<u8>, Dirty, foldhash::fast::FixedState>;

/// The dirty keys of all cached stores of a task.
#[derive(Debug, Default)]
pub(crate) struct RecordCache {
    stores: Vec<Option<Keys>>,
    bytes: usize,
    clock: u64,
}

/// What a dirty entry costs beside its key and old value.
const ENTRY_OVERHEAD: usize = 120;

impl RecordCache {
    /// Prepares for the stores of a task: which of them are cached.
    pub(crate) fn new(cached: impl IntoIterator<Item = bool>) -> Self {
        let keys = || Keys::with_hasher(foldhash::fast::FixedState::with_seed(0));
        let stores = cached.into_iter().map(|c| c.then(keys)).collect();
        Self {
            stores,
            bytes: 0,
            clock: 0,
        }
    }

    /// Bytes held, values included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes an update; `old` is asked for the value before when the key was clean.
    pub(crate) fn touch<E>(
        &mut self,
        store: LocalStore,
        key: &[u8],
        value_len: usize,
        context: RecordContext,
        old: impl FnOnce() -> Result<Option<Vec<u8>>, E>,
    ) -> Result<(), E> {
        self.clock += 1;
        let Some(keys) = &mut self.stores[store.0] else {
            return Ok(());
        };
        if let Some(dirty) = keys.get_mut(key) {
            (dirty.context, dirty.touched) = (context, self.clock);
            return Ok(());
        }
        let old = old()?;
        self.bytes += key.len() + value_len + ENTRY_OVERHEAD;
        keys.insert(
            key.to_vec(),
            Dirty {
                old,
                context,
                touched: self.clock,
            },
        );
        Ok(())
    }

    /// Takes everything out of a store's cache, in order of the last touch.
    pub(crate) fn drain(&mut self, store: LocalStore) -> Vec<(Vec<u8>, Dirty)> {
        let Some(keys) = &mut self.stores[store.0] else {
            return Vec::new();
        };
        let mut entries: Vec<_> = keys.drain(..).collect();
        entries.sort_unstable_by_key(|(_, dirty)| dirty.touched);
        if self.stores.iter().flatten().all(Keys::is_empty) {
            self.bytes = 0;
        }
        entries
    }

    /// Is nothing waiting?
    pub(crate) fn is_empty(&self) -> bool {
        self.stores.iter().flatten().all(Keys::is_empty)
    }
}
