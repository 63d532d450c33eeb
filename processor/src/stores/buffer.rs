//! Buffers: updates that wait for their time, as bytes. A node that has one keeps the order in memory, logs what changed when the
//! task commits, and reads all of it when it starts.

use std::sync::Arc;

use thalweg_connectors::{Headers, NewRecord, SharedSerde, Timestamp};
use thalweg_state::{Direction, KeyRange, StateError};

use super::decl::{Store, View};
use super::def::{StoreSerdes, StoreShape};
use crate::error::{BoxError, NodeError, NodeResult};

/// Marks a store of updates that wait.
#[derive(Debug)]
pub struct Buffer(());

/// The header by which Kafka Streams tells the format of a buffered update.
const FORMAT_HEADER: (&str, &[u8]) = ("v", &[3]);

impl<K: 'static, V: 'static> Store<K, V, Buffer> {
    /// A store of updates that wait. The serdes are for tools: the store takes bytes.
    #[track_caller]
    pub fn buffer(name: impl Into<Arc<str>>, key: SharedSerde<K>, value: SharedSerde<V>) -> Self {
        Self::declare(name.into(), StoreShape::Buffer, false, StoreSerdes { key, value })
    }
}

impl<K: 'static, V: 'static> View<'_, K, V, Buffer> {
    /// The update that waits under a key.
    ///
    /// # Errors
    /// When the store fails.
    pub fn get(&mut self, key: &[u8]) -> NodeResult<Option<&[u8]>> {
        let ix = self.shared.stores[self.handle.local.0].ix;
        Ok(self.shared.state.get(ix, key)?)
    }

    /// Sets or removes the update under a key. It is not logged yet.
    ///
    /// # Errors
    /// When the store fails.
    pub fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> NodeResult {
        let ix = self.shared.stores[self.handle.local.0].ix;
        self.shared.state.put(ix, key, value)?;
        Ok(())
    }

    /// Logs what waits under a key now; the producer stamps the record. Buffers of suppression say in a header which format it has.
    ///
    /// # Errors
    /// When the store or the producer fails.
    pub fn log(&mut self, key: &[u8], with_format: bool) -> NodeResult {
        let store = &self.shared.stores[self.handle.local.0];
        let (ix, Some((topic, partition))) = (store.ix, store.changelog) else { return Ok(()) };
        let value = self.shared.state.get(ix, key)?;
        let headers = match value {
            Some(_) if with_format => Headers::collect([(FORMAT_HEADER.0, Some(FORMAT_HEADER.1))]),
            _ => Headers::new(),
        };
        let (timestamp, headers) = (Timestamp::NONE, headers.as_ref());
        let record = NewRecord { key: Some(key), value, timestamp, headers };
        self.output.send(topic, partition, &record)
    }

    /// The failure of an update that cannot be read: the task's state is corrupt, and no handler is asked.
    pub fn unreadable(&self, reason: impl Into<BoxError>) -> NodeError {
        let store = self.shared.stores[self.handle.local.0].name.to_string();
        StateError::UnreadableEntry { store, source: reason.into() }.into()
    }

    /// Shows all updates, in the order of their keys.
    ///
    /// # Errors
    /// Those of `look`; when the store fails.
    pub fn each(&mut self, mut look: impl FnMut(&[u8], &[u8]) -> NodeResult) -> NodeResult {
        let ix = self.shared.stores[self.handle.local.0].ix;
        let mut entries = self.shared.state.range(ix, &KeyRange::all(), Direction::Forward)?;
        while let Some((key, value)) = entries.next_entry()? {
            look(key, value)?;
        }
        Ok(())
    }
}
