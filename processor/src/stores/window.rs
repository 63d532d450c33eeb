//! What can be done with an opened window store.

use thalweg_connectors::{Field, Timestamp};
use thalweg_state::{Direction, WindowIter};

use super::decl::{Timestamped, TimestampedWindow, Updated, View, Window};
use super::def::StoreSerdes;
use super::key_value::write_key;
use super::raw::split_local;
use crate::error::NodeResult;

/// A key and the start of its window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowedKey<K> {
    /// The key.
    pub key: K,
    /// The window's start.
    pub start: Timestamp,
}

impl<K: 'static, V: 'static, S: 'static> View<'_, K, V, S> {
    fn key_bytes(&self, key: &K) -> NodeResult<Vec<u8>> {
        let mut out = Vec::new();
        let name = &self.shared.stores[self.handle.local.0].name;
        write_key(&self.handle.serdes.key, key, &mut out, name)?;
        Ok(out)
    }

    fn window_read(&mut self, key: &[u8], start: Timestamp) -> NodeResult<Option<Timestamped<V>>> {
        let (ix, timestamped) = {
            let store = &self.shared.stores[self.handle.local.0];
            (store.ix, store.timestamped)
        };
        let Some(local) = self.shared.state.window_fetch(ix, key, start.0)? else {
            return Ok(None);
        };
        let (timestamp, value) = split_local(timestamped, local)?;
        let value = self.handle.serdes.value.read(Some(value))?;
        Ok(Some(Timestamped { value, timestamp: timestamp.unwrap_or(Timestamp::NONE) }))
    }

    fn window_write(
        &mut self,
        key: &[u8],
        start: Timestamp,
        value: Option<&V>,
        timestamp: Timestamp,
    ) -> NodeResult {
        let mut local = std::mem::take(&mut self.shared.value_buffer);
        let result = self.local_value(value, timestamp, &mut local).and_then(|field| {
            let local = (field == Field::Bytes).then_some(&local[..]);
            let (output, store) = (&mut *self.output, self.handle.local);
            self.shared.window_put(output, store, (key, start), local, timestamp)
        });
        self.shared.value_buffer = local;
        result
    }

    fn walk(
        &mut self,
        open: impl FnOnce(
            &thalweg_state::TaskState,
            thalweg_state::StoreIx,
        ) -> Result<WindowIter<'_>, thalweg_state::StateError>,
    ) -> NodeResult<WindowEntries<'_, K, V>> {
        let store = &self.shared.stores[self.handle.local.0];
        let timestamped = store.timestamped;
        Ok(WindowEntries {
            inner: open(&self.shared.state, store.ix)?,
            timestamped,
            serdes: &self.handle.serdes,
        })
    }
}

/// Reads that both kinds of window store offer; times are window starts, both ends included.
macro_rules! window_reads {
    ($shape:ty) => {
        impl<K: 'static, V: 'static> View<'_, K, V, $shape> {
            /// The windows of one key that start from `from` to `to`, in the order of their starts.
            ///
            /// # Errors
            /// When the key cannot be written, or the store fails.
            pub fn fetch_between(
                &mut self,
                key: &K,
                (from, to): (Timestamp, Timestamp),
                direction: Direction,
            ) -> NodeResult<WindowEntries<'_, K, V>> {
                let key = self.key_bytes(key)?;
                self.walk(|state, ix| state.window_range(ix, &key, from.0, to.0, direction))
            }

            /// The windows of the keys from `low` to `high` (`None` is open) that start from `from` to `to`.
            ///
            /// # Errors
            /// When a key cannot be written, or the store fails.
            pub fn fetch_keys(
                &mut self,
                low: Option<&K>,
                high: Option<&K>,
                (from, to): (Timestamp, Timestamp),
                direction: Direction,
            ) -> NodeResult<WindowEntries<'_, K, V>> {
                let low = low.map(|k| self.key_bytes(k)).transpose()?;
                let high = high.map(|k| self.key_bytes(k)).transpose()?;
                let (low, high) = (low.as_deref(), high.as_deref());
                self.walk(|state, ix| state.window_keys(ix, low, high, (from.0, to.0), direction))
            }

            /// All windows that can still be read.
            ///
            /// # Errors
            /// When the store fails.
            pub fn all(&mut self) -> NodeResult<WindowEntries<'_, K, V>> {
                self.walk(|state, ix| state.window_all(ix, 0, i64::MAX, Direction::Forward))
            }
        }
    };
}

window_reads!(Window);
window_reads!(TimestampedWindow);

impl<K: 'static, V: 'static> View<'_, K, V, Window> {
    /// The value of a key in the window that starts at `start`.
    ///
    /// # Errors
    /// When the key cannot be written, the value cannot be read, or the store fails.
    pub fn fetch(&mut self, key: &K, start: Timestamp) -> NodeResult<Option<V>> {
        Ok(self.with_key(key, |view, key| view.window_read(key, start))?.map(|v| v.value))
    }

    /// Appends the values of one key in windows that start from `from` to `to`, both included, with their starts and in their
    /// order; several of one start in the order in which they were put.
    ///
    /// # Errors
    /// When the key cannot be written, a value cannot be read, or the store fails.
    pub fn values_between(
        &mut self,
        key: &K,
        (from, to): (Timestamp, Timestamp),
        values: &mut Vec<(Timestamp, V)>,
    ) -> NodeResult {
        self.with_key(key, |view, key| {
            let store = &view.shared.stores[view.handle.local.0];
            let state = &view.shared.state;
            let mut entries =
                state.window_range(store.ix, key, from.0, to.0, Direction::Forward)?;
            while let Some(entry) = entries.next_entry()? {
                let value = view.handle.serdes.value.read(Some(entry.value))?;
                values.push((Timestamp(entry.start_ms), value));
            }
            Ok(())
        })
    }

    /// Sets the value of a key in a window; a value that its serde writes as null deletes it. A window out of retention is
    /// counted as a dropped record.
    ///
    /// # Errors
    /// As for [`fetch`](Self::fetch), and when the changelog cannot be written.
    pub fn put(&mut self, key: &K, value: &V, start: Timestamp) -> NodeResult {
        self.with_key(key, |view, key| {
            view.window_write(key, start, Some(value), view.shared.timestamp)
        })
    }

    /// Deletes a key in a window.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn delete(&mut self, key: &K, start: Timestamp) -> NodeResult {
        self.with_key(key, |view, key| view.window_write(key, start, None, view.shared.timestamp))
    }
}

impl<K: 'static, V: 'static> View<'_, K, V, TimestampedWindow> {
    /// The value of a key in the window that starts at `start`, with its timestamp.
    ///
    /// # Errors
    /// When the key cannot be written, the value cannot be read, or the store fails.
    pub fn fetch(&mut self, key: &K, start: Timestamp) -> NodeResult<Option<Timestamped<V>>> {
        self.with_key(key, |view, key| view.window_read(key, start))
    }

    /// Sets the value of a key in a window; a value that its serde writes as null deletes it. A window out of retention is
    /// counted as a dropped record.
    ///
    /// # Errors
    /// As for [`fetch`](Self::fetch), and when the changelog cannot be written.
    pub fn put(
        &mut self,
        key: &K,
        value: &V,
        start: Timestamp,
        timestamp: Timestamp,
    ) -> NodeResult {
        self.with_key(key, |view, key| view.window_write(key, start, Some(value), timestamp))
    }

    /// Deletes a key in a window, at the time of the record under way.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn delete(&mut self, key: &K, start: Timestamp) -> NodeResult {
        self.with_key(key, |view, key| view.window_write(key, start, None, view.shared.timestamp))
    }

    /// Reads, changes and writes a key in a window in one go, with its bytes made once; see `update` of timestamped key-value
    /// stores.
    ///
    /// # Errors
    /// Those of `change`, and as for [`put`](Self::put); nothing was written then.
    pub fn update<R>(
        &mut self,
        key: &K,
        start: Timestamp,
        change: impl FnOnce(Option<Timestamped<V>>) -> NodeResult<Updated<V, R>>,
    ) -> NodeResult<Updated<V, R>> {
        self.with_key(key, |view, key| {
            let updated = change(view.window_read(key, start)?)?;
            view.window_write(key, start, updated.value.as_ref(), updated.timestamp)?;
            Ok(updated)
        })
    }
}

/// Walks entries of a window store.
pub struct WindowEntries<'a, K, V> {
    inner: WindowIter<'a>,
    timestamped: bool,
    serdes: &'a StoreSerdes<K, V>,
}

impl<K: 'static, V: 'static> Iterator for WindowEntries<'_, K, V> {
    type Item = NodeResult<(WindowedKey<K>, Timestamped<V>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = match self.inner.next_entry() {
            Ok(entry) => entry?,
            Err(e) => return Some(Err(e.into())),
        };
        let decode = || -> NodeResult<(WindowedKey<K>, Timestamped<V>)> {
            let key = self.serdes.key.read(Some(entry.key))?;
            let (timestamp, value) = split_local(self.timestamped, entry.value)?;
            let value = self.serdes.value.read(Some(value))?;
            let key = WindowedKey { key, start: Timestamp(entry.start_ms) };
            Ok((key, Timestamped { value, timestamp: timestamp.unwrap_or(Timestamp::NONE) }))
        };
        Some(decode())
    }
}
