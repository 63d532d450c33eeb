//! What can be done with an opened key-value store.

use thalweg_connectors::{Field, SharedSerde, Timestamp};
use thalweg_state::values::encode_timestamped;
use thalweg_state::{Direction, KeyRange, RangeIter};

use super::decl::{KeyValue, Timestamped, TimestampedKeyValue, Updated, View};
use super::def::StoreSerdes;
use super::raw::split_local;
use crate::error::{NodeError, NodeResult, UsageError};

/// Writes a store key; a null key is an error, as in Kafka Streams.
pub(super) fn write_key<K: 'static>(
    serde: &SharedSerde<K>,
    key: &K,
    out: &mut Vec<u8>,
    store: &str,
) -> NodeResult {
    out.clear();
    match serde.write(key, out)? {
        Field::Bytes => Ok(()),
        Field::Null => Err(UsageError::NullStoreKey { store: store.to_owned() }.into()),
    }
}

impl<K: 'static, V: 'static, S: 'static> View<'_, K, V, S> {
    /// Lends the key's bytes, written into a reused buffer.
    pub(super) fn with_key<R>(
        &mut self,
        key: &K,
        work: impl FnOnce(&mut Self, &[u8]) -> NodeResult<R>,
    ) -> NodeResult<R> {
        let mut buffer = std::mem::take(&mut self.shared.key_buffer);
        let name = &self.shared.stores[self.handle.local.0].name;
        let result = write_key(&self.handle.serdes.key, key, &mut buffer, name)
            .and_then(|()| work(self, &buffer));
        self.shared.key_buffer = buffer;
        result
    }

    /// Writes a value in the store's local form: behind its timestamp, if the store keeps one.
    pub(super) fn local_value(
        &self,
        value: Option<&V>,
        timestamp: Timestamp,
        local: &mut Vec<u8>,
    ) -> NodeResult<Field> {
        if self.handle.is_global {
            return Err(self.read_only());
        }
        local.clear();
        let Some(value) = value else {
            return Ok(Field::Null);
        };
        if self.shared.stores[self.handle.local.0].timestamped {
            encode_timestamped(timestamp.0, &[], local);
        }
        Ok(self.handle.serdes.value.write(value, local)?)
    }

    #[cold]
    fn read_only(&self) -> NodeError {
        let store = self.shared.stores[self.handle.local.0].name.to_string();
        UsageError::ReadOnlyStore { store }.into()
    }

    fn read(&mut self, key: &[u8]) -> NodeResult<Option<Timestamped<V>>> {
        let (ix, timestamped) = {
            let store = &self.shared.stores[self.handle.local.0];
            (store.ix, store.timestamped)
        };
        let Some(local) = self.shared.state.get(ix, key)? else {
            return Ok(None);
        };
        let (timestamp, value) = split_local(timestamped, local)?;
        let value = self.handle.serdes.value.read(Some(value))?;
        Ok(Some(Timestamped { value, timestamp: timestamp.unwrap_or(Timestamp::NONE) }))
    }

    fn write(&mut self, key: &[u8], value: Option<&V>, timestamp: Timestamp) -> NodeResult {
        let mut local = std::mem::take(&mut self.shared.value_buffer);
        let result = self.local_value(value, timestamp, &mut local).and_then(|field| {
            let local = (field == Field::Bytes).then_some(&local[..]);
            self.shared.kv_put(self.output, self.handle.local, key, local, timestamp)
        });
        self.shared.value_buffer = local;
        result
    }

    fn entries(&mut self, range: &KeyRange, direction: Direction) -> NodeResult<Entries<'_, K, V>> {
        let store = &self.shared.stores[self.handle.local.0];
        let timestamped = store.timestamped;
        let inner = self.shared.state.range(store.ix, range, direction)?;
        Ok(Entries { inner, timestamped, serdes: &self.handle.serdes })
    }

    fn bounds(&self, from: Option<&K>, to: Option<&K>) -> NodeResult<KeyRange> {
        let name = &self.shared.stores[self.handle.local.0].name;
        let bytes = |key: Option<&K>| -> NodeResult<Option<Vec<u8>>> {
            let Some(key) = key else { return Ok(None) };
            let mut out = Vec::new();
            write_key(&self.handle.serdes.key, key, &mut out, name)?;
            Ok(Some(out))
        };
        Ok(KeyRange::inclusive(bytes(from)?.as_deref(), bytes(to)?.as_deref()))
    }
}

/// Reads that both kinds of key-value store offer; keys are in the order of their bytes.
macro_rules! key_value_reads {
    ($shape:ty) => {
        impl<K: 'static, V: 'static> View<'_, K, V, $shape> {
            /// The entries with keys from `from` to `to`, both included; `None` leaves that side open.
            ///
            /// # Errors
            /// When a key cannot be written, or the store fails.
            pub fn range(
                &mut self,
                from: Option<&K>,
                to: Option<&K>,
            ) -> NodeResult<Entries<'_, K, V>> {
                let range = self.bounds(from, to)?;
                self.entries(&range, Direction::Forward)
            }

            /// As `range`, from the highest key down.
            ///
            /// # Errors
            /// When a key cannot be written, or the store fails.
            pub fn reverse_range(
                &mut self,
                from: Option<&K>,
                to: Option<&K>,
            ) -> NodeResult<Entries<'_, K, V>> {
                let range = self.bounds(from, to)?;
                self.entries(&range, Direction::Reverse)
            }

            /// All entries.
            ///
            /// # Errors
            /// When the store fails.
            pub fn all(&mut self) -> NodeResult<Entries<'_, K, V>> {
                self.entries(&KeyRange::all(), Direction::Forward)
            }

            /// All entries, from the highest key down.
            ///
            /// # Errors
            /// When the store fails.
            pub fn reverse_all(&mut self) -> NodeResult<Entries<'_, K, V>> {
                self.entries(&KeyRange::all(), Direction::Reverse)
            }

            /// The entries whose key's bytes begin with `prefix`.
            ///
            /// # Errors
            /// When the store fails.
            pub fn prefix(&mut self, prefix: &[u8]) -> NodeResult<Entries<'_, K, V>> {
                self.entries(&KeyRange::prefix(prefix), Direction::Forward)
            }

            /// About how many entries there are.
            ///
            /// # Errors
            /// When the store fails.
            pub fn approximate_len(&self) -> NodeResult<u64> {
                let ix = self.shared.stores[self.handle.local.0].ix;
                Ok(self.shared.state.approximate_entries(ix)?)
            }
        }
    };
}

key_value_reads!(KeyValue);
key_value_reads!(TimestampedKeyValue);

impl<K: 'static, V: 'static> View<'_, K, V, KeyValue> {
    /// The value of a key.
    ///
    /// # Errors
    /// When the key cannot be written, the value cannot be read, or the store fails.
    pub fn get(&mut self, key: &K) -> NodeResult<Option<V>> {
        Ok(self.with_key(key, Self::read)?.map(|v| v.value))
    }

    /// Sets the value of a key; a value that its serde writes as null deletes the key.
    ///
    /// # Errors
    /// As for [`get`](Self::get), and when the changelog cannot be written.
    pub fn put(&mut self, key: &K, value: &V) -> NodeResult {
        self.with_key(key, |view, key| view.write(key, Some(value), view.shared.timestamp))
    }

    /// Sets the value of a key that has none; returns the one that was there.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn put_if_absent(&mut self, key: &K, value: &V) -> NodeResult<Option<V>> {
        let before = self.get(key)?;
        if before.is_none() {
            self.put(key, value)?;
        }
        Ok(before)
    }

    /// Deletes a key; returns the value that was there.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn delete(&mut self, key: &K) -> NodeResult<Option<V>> {
        let before = self.get(key)?;
        self.with_key(key, |view, key| view.write(key, None, view.shared.timestamp))?;
        Ok(before)
    }
}

impl<K: 'static, V: 'static> View<'_, K, V, TimestampedKeyValue> {
    /// The value of a key, with its timestamp.
    ///
    /// # Errors
    /// When the key cannot be written, the value cannot be read, or the store fails.
    pub fn get(&mut self, key: &K) -> NodeResult<Option<Timestamped<V>>> {
        self.with_key(key, Self::read)
    }

    /// Sets the value of a key; a value that its serde writes as null deletes the key.
    ///
    /// # Errors
    /// As for [`get`](Self::get), and when the changelog cannot be written.
    pub fn put(&mut self, key: &K, value: &V, timestamp: Timestamp) -> NodeResult {
        self.with_key(key, |view, key| view.write(key, Some(value), timestamp))
    }

    /// Deletes a key, at the time of the record under way.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn delete(&mut self, key: &K) -> NodeResult {
        self.with_key(key, |view, key| view.write(key, None, view.shared.timestamp))
    }

    /// Reads, changes and writes a key in one go, with its bytes made once. `change` is given the row, and says what it becomes
    /// (`None` deletes it) and when; what else it says is handed back along with the new row.
    ///
    /// # Errors
    /// Those of `change`, and as for [`put`](Self::put); nothing was written then.
    pub fn update<R>(
        &mut self,
        key: &K,
        change: impl FnOnce(Option<Timestamped<V>>) -> NodeResult<Updated<V, R>>,
    ) -> NodeResult<Updated<V, R>> {
        self.with_key(key, |view, key| {
            let updated = change(view.read(key)?)?;
            view.write(key, updated.value.as_ref(), updated.timestamp)?;
            Ok(updated)
        })
    }
}

/// Walks entries of a key-value store.
pub struct Entries<'a, K, V> {
    inner: RangeIter<'a>,
    timestamped: bool,
    serdes: &'a StoreSerdes<K, V>,
}

impl<K: 'static, V: 'static> Iterator for Entries<'_, K, V> {
    type Item = NodeResult<(K, Timestamped<V>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let (key, local) = match self.inner.next_entry() {
            Ok(entry) => entry?,
            Err(e) => return Some(Err(e.into())),
        };
        let decode = || -> NodeResult<(K, Timestamped<V>)> {
            let key = self.serdes.key.read(Some(key))?;
            let (timestamp, value) = split_local(self.timestamped, local)?;
            let value = self.serdes.value.read(Some(value)).map_err(NodeError::from)?;
            Ok((key, Timestamped { value, timestamp: timestamp.unwrap_or(Timestamp::NONE) }))
        };
        Some(decode())
    }
}
