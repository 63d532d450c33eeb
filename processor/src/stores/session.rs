//! What can be done with an opened session store.

use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{DefaultSerde, Field, Serde, SharedSerde, Timestamp};
use thalweg_state::session::parse_session_key;
use thalweg_state::{Direction, SessionIter, StateError, StoreIx, TaskState};

use super::decl::{Handle, Session, Store, View, defaults, given};
use super::def::{StoreSerdes, StoreShape};
use super::key_value::write_key;
use super::raw::OnExpired;
use crate::error::{NodeError, NodeResult};
use crate::node::Flushed;

/// A key and its session: from the time of the first record to that of the last one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionKey<K> {
    /// The key.
    pub key: K,
    /// The time of the session's first record.
    pub start: Timestamp,
    /// The time of its last one.
    pub end: Timestamp,
}

fn shape(retention: Duration) -> StoreShape {
    StoreShape::Session { retention_ms: i64::try_from(retention.as_millis()).unwrap_or(i64::MAX) }
}

impl<K: 'static, V: 'static> Store<K, V, Session> {
    /// A session store: sessions can be read for `retention` of stream time after their end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg_processor::{Session, Store};
    /// let visits = Store::<String, i64, Session>::session("visits", Duration::from_secs(3600));
    /// # let _ = visits;
    /// ```
    #[track_caller]
    pub fn session(name: impl Into<Arc<str>>, retention: Duration) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Self::declare(name.into(), shape(retention), false, defaults())
    }

    /// A session store with serdes of your choice.
    #[track_caller]
    pub fn session_with(
        name: impl Into<Arc<str>>,
        retention: Duration,
        key: impl Serde<K>,
        value: impl Serde<V>,
    ) -> Self {
        Self::declare(name.into(), shape(retention), false, given(key, value))
    }

    /// A session store with shared serdes.
    #[track_caller]
    pub fn session_shared(
        name: impl Into<Arc<str>>,
        retention: Duration,
        key: SharedSerde<K>,
        value: SharedSerde<V>,
    ) -> Self {
        Self::declare(name.into(), shape(retention), false, StoreSerdes { key, value })
    }
}

impl<K: 'static, V: 'static> Handle<K, V, Session> {
    /// Reads an update that leaves the record cache: key and session, new value and old value.
    ///
    /// # Errors
    /// When the bytes cannot be read.
    pub fn read_flushed(
        &self,
        entry: &Flushed<'_>,
    ) -> NodeResult<(SessionKey<K>, Option<V>, Option<V>)> {
        let parsed = parse_session_key(entry.key)
            .ok_or_else(|| NodeError::user("a cached session key is too short"))?;
        let key = SessionKey {
            key: self.serdes.key.read(Some(parsed.key))?,
            start: Timestamp(parsed.start_ms),
            end: Timestamp(parsed.end_ms),
        };
        let value = |bytes: Option<&[u8]>| -> NodeResult<Option<V>> {
            let Some(bytes) = bytes else { return Ok(None) };
            Ok(Some(self.serdes.value.read(Some(bytes))?))
        };
        Ok((key, value(entry.new)?, value(entry.old)?))
    }
}

impl<K: 'static, V: 'static> View<'_, K, V, Session> {
    /// The value of a session.
    ///
    /// # Errors
    /// When the key cannot be written, the value cannot be read, or the store fails.
    pub fn fetch(&mut self, key: &K, start: Timestamp, end: Timestamp) -> NodeResult<Option<V>> {
        self.with_key(key, |view, key| {
            let ix = view.shared.stores[view.handle.local.0].ix;
            let Some(bytes) = view.shared.state.session_fetch(ix, key, (start.0, end.0))? else {
                return Ok(None);
            };
            Ok(Some(view.handle.serdes.value.read(Some(bytes))?))
        })
    }

    /// Sets the value of a session; a value that its serde writes as null deletes it. A session out of retention is counted as a
    /// dropped record.
    ///
    /// # Errors
    /// As for [`fetch`](Self::fetch), and when the changelog cannot be written.
    pub fn put(&mut self, key: &K, value: &V, start: Timestamp, end: Timestamp) -> NodeResult {
        self.write_session(key, (start, end), Some(value), OnExpired::Count)
    }

    /// Deletes a session; one that is not there, or out of retention, is fine.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn remove(&mut self, key: &K, start: Timestamp, end: Timestamp) -> NodeResult {
        self.write_session(key, (start, end), None, OnExpired::Ignore)
    }

    /// Sets or deletes the value of a session; both count as a dropped record when the session is out of retention.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn set(
        &mut self,
        key: &K,
        value: Option<&V>,
        start: Timestamp,
        end: Timestamp,
    ) -> NodeResult {
        self.write_session(key, (start, end), value, OnExpired::Count)
    }

    fn write_session(
        &mut self,
        key: &K,
        (start, end): (Timestamp, Timestamp),
        value: Option<&V>,
        expired: OnExpired,
    ) -> NodeResult {
        self.with_key(key, |view, key| {
            let mut bytes = std::mem::take(&mut view.shared.value_buffer);
            let written = view.local_value(value, Timestamp::NONE, &mut bytes);
            let result = written.and_then(|field| {
                let value = (field == Field::Bytes).then_some(&bytes[..]);
                let (output, store) = (&mut *view.output, view.handle.local);
                let at = (key, (start.0, end.0));
                view.shared.session_put(output, store, at, value, expired)
            });
            view.shared.value_buffer = bytes;
            result
        })
    }

    /// The sessions of one key that end at `ends_from` or later and start at `starts_to` or earlier, in the order of their ends.
    ///
    /// # Errors
    /// When the key cannot be written, or the store fails.
    pub fn find(
        &mut self,
        key: &K,
        (ends_from, starts_to): (Timestamp, Timestamp),
        direction: Direction,
    ) -> NodeResult<SessionEntries<'_, K, V>> {
        let key = self.session_key_bytes(key)?;
        let times = (ends_from.0, starts_to.0);
        self.sessions(|state, ix| state.session_range(ix, &key, times, direction))
    }

    /// The sessions of the keys from `low` to `high` (`None` is open) that end at `ends_from` or later and start at `starts_to` or
    /// earlier.
    ///
    /// # Errors
    /// When a key cannot be written, or the store fails.
    pub fn find_keys(
        &mut self,
        low: Option<&K>,
        high: Option<&K>,
        (ends_from, starts_to): (Timestamp, Timestamp),
        direction: Direction,
    ) -> NodeResult<SessionEntries<'_, K, V>> {
        let low = low.map(|k| self.session_key_bytes(k)).transpose()?;
        let high = high.map(|k| self.session_key_bytes(k)).transpose()?;
        let (low, high) = (low.as_deref(), high.as_deref());
        let times = (ends_from.0, starts_to.0);
        self.sessions(|state, ix| state.session_keys(ix, low, high, times, direction))
    }

    /// All sessions of one key that can still be read, in the order of their ends.
    ///
    /// # Errors
    /// When the key cannot be written, or the store fails.
    pub fn fetch_all(&mut self, key: &K) -> NodeResult<SessionEntries<'_, K, V>> {
        self.find(key, (Timestamp(0), Timestamp(i64::MAX)), Direction::Forward)
    }

    fn session_key_bytes(&self, key: &K) -> NodeResult<Vec<u8>> {
        let mut out = Vec::new();
        let name = &self.shared.stores[self.handle.local.0].name;
        write_key(&self.handle.serdes.key, key, &mut out, name)?;
        Ok(out)
    }

    fn sessions(
        &mut self,
        open: impl FnOnce(&TaskState, StoreIx) -> Result<SessionIter<'_>, StateError>,
    ) -> NodeResult<SessionEntries<'_, K, V>> {
        let ix = self.shared.stores[self.handle.local.0].ix;
        let inner = open(&self.shared.state, ix)?;
        Ok(SessionEntries { inner, serdes: &self.handle.serdes })
    }
}

/// Walks entries of a session store.
pub struct SessionEntries<'a, K, V> {
    inner: SessionIter<'a>,
    serdes: &'a StoreSerdes<K, V>,
}

impl<K: 'static, V: 'static> Iterator for SessionEntries<'_, K, V> {
    type Item = NodeResult<(SessionKey<K>, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = match self.inner.next_entry() {
            Ok(entry) => entry?,
            Err(e) => return Some(Err(e.into())),
        };
        let decode = || -> NodeResult<(SessionKey<K>, V)> {
            let key = SessionKey {
                key: self.serdes.key.read(Some(entry.key))?,
                start: Timestamp(entry.start_ms),
                end: Timestamp(entry.end_ms),
            };
            Ok((key, self.serdes.value.read(Some(entry.value))?))
        };
        Some(decode())
    }
}
