//! The one way every write of a processor takes: into the overlay, and on to the record cache or the changelog.

use std::sync::Arc;

use thalweg_connectors::{HeadersRef, NewRecord, Timestamp, TopicSlot};
use thalweg_state::session::session_key;
use thalweg_state::values::decode_timestamped;
use thalweg_state::window::window_store_key;
use thalweg_state::{Put, StoreIx};

use super::def::{LocalStore, StoreShape};
use crate::cache::{Dirty, Toucher};
use crate::collector::Collector;
use crate::context::Shared;
use crate::error::{NodeError, NodeResult};
use crate::topology::NodeIx;

/// A store in a running task.
#[derive(Debug)]
pub(crate) struct TaskStore {
    pub(crate) name: Arc<str>,
    pub(crate) ix: StoreIx,
    pub(crate) shape: StoreShape,
    pub(crate) timestamped: bool,
    pub(crate) logs_headers: bool,
    pub(crate) cached: bool,
    /// Topic and partition of its changelog, resolved.
    pub(crate) changelog: Option<(TopicSlot, i32)>,
    /// The node that forwards updates leaving the cache.
    pub(crate) owner: Option<NodeIx>,
}

/// Splits a local value into the changelog's value and its timestamp.
pub(crate) fn split_local(
    timestamped: bool,
    local: &[u8],
) -> NodeResult<(Option<Timestamp>, &[u8])> {
    if !timestamped {
        return Ok((None, local));
    }
    let (timestamp, value) = decode_timestamped(local).ok_or_else(|| {
        NodeError::user("a value of a timestamped store is shorter than its timestamp".to_owned())
    })?;
    Ok((Some(Timestamp(timestamp)), value))
}

/// The changelog's value of a local value.
fn plain(timestamped: bool, local: Option<&[u8]>) -> NodeResult<Option<&[u8]>> {
    let Some(local) = local else { return Ok(None) };
    Ok(Some(split_local(timestamped, local)?.1))
}

fn log(
    output: &mut Collector,
    (topic, partition): (TopicSlot, i32),
    key: &[u8],
    value: Option<&[u8]>,
    timestamp: Timestamp,
) -> NodeResult {
    let record = NewRecord { key: Some(key), value, timestamp, headers: HeadersRef::EMPTY };
    output.send(topic, partition, &record)
}

impl Shared {
    /// Sets or deletes a key of a key-value store. `local` is the value in the store's local form: behind `timestamp` when the
    /// store keeps one. A delete has no such time: it is logged with that of the record under way.
    pub(crate) fn kv_put(
        &mut self,
        output: &mut Collector,
        store: LocalStore,
        key: &[u8],
        local: Option<&[u8]>,
        timestamp: Timestamp,
    ) -> NodeResult {
        let task_store = &self.stores[store.0];
        let (ix, timestamped) = (task_store.ix, task_store.timestamped);
        let logs_headers = task_store.logs_headers;
        let changelog = task_store.changelog;
        if task_store.cached {
            return self.kv_put_cached(store, ix, key, local);
        }
        self.state.put(ix, key, local)?;
        match changelog {
            Some((topic, partition)) if logs_headers => {
                let timestamp = local.map_or(self.timestamp, |_| timestamp);
                let (value, headers) = (plain(timestamped, local)?, self.headers.as_ref());
                let record = NewRecord { key: Some(key), value, timestamp, headers };
                output.send(topic, partition, &record)
            }
            Some(target) => {
                let timestamp = local.map_or(self.timestamp, |_| timestamp);
                log(output, target, key, plain(timestamped, local)?, timestamp)
            }
            None => Ok(()),
        }
    }

    /// The update waits in the record cache; its value lies in the store.
    fn kv_put_cached(
        &mut self,
        store: LocalStore,
        ix: StoreIx,
        key: &[u8],
        local: Option<&[u8]>,
    ) -> NodeResult {
        // A dirty key was written since the last commit.
        let place = self.state.written(ix, key)?;
        let Self { origin, offset, timestamp, headers, cache, state, dead_letters, .. } = self;
        let (offset, timestamp) = (*offset, *timestamp);
        let raw = dead_letters.as_ref().map(|letters| &letters.raw);
        let by = Toucher { origin: origin.as_ref(), offset, timestamp, headers, raw };
        if let Some(place) = place {
            let entry = (place, state.tag(ix, place)?);
            if cache.touch_written(store, entry, (key, local), by) {
                state.put(ix, key, local)?;
                return Ok(());
            }
        }
        let old = state.get(ix, key)?.map(<[u8]>::to_vec);
        let place = state.put(ix, key, local)?;
        let entry = cache.insert_written(store, place, (key, local), by, old);
        Ok(state.set_tag(ix, place, entry)?)
    }

    /// Sets or deletes a value of a window store; `local` as for [`kv_put`](Self::kv_put). A put out of retention counts as a
    /// dropped record.
    pub(crate) fn window_put(
        &mut self,
        output: &mut Collector,
        store: LocalStore,
        (key, start): (&[u8], Timestamp),
        local: Option<&[u8]>,
        timestamp: Timestamp,
    ) -> NodeResult {
        let task_store = &self.stores[store.0];
        let (ix, timestamped, cached) = (task_store.ix, task_store.timestamped, task_store.cached);
        let changelog = task_store.changelog.filter(|_| !cached);
        let mut full_key = std::mem::take(&mut self.window_key_buffer);
        full_key.clear();
        if cached {
            window_store_key(key, start.0, 0, &mut full_key);
            let Self {
                origin, offset, timestamp: time, headers, cache, state, dead_letters, ..
            } = self;
            let (origin, offset, timestamp) = (origin.as_ref(), *offset, *time);
            let raw = dead_letters.as_ref().map(|letters| &letters.raw);
            let by = Toucher { origin, offset, timestamp, headers, raw };
            let old = || {
                let old = state.window_fetch(ix, key, start.0)?;
                Ok::<_, NodeError>(old.map(<[u8]>::to_vec))
            };
            cache.touch_window(store, (&full_key, local), by, old)?;
        }
        let put = self.state.window_put(ix, key, start.0, local)?;
        if matches!(put, Put::Expired { .. }) {
            let name = Arc::clone(&self.stores[store.0].name);
            self.drop_record(&mut output.drops, &name, "out of the store's retention", None);
        }
        if let Some(target) = changelog {
            full_key.clear();
            window_store_key(key, start.0, put.seq(), &mut full_key);
            let value = plain(timestamped, local)?;
            let timestamp = local.map_or(self.timestamp, |_| timestamp);
            let (key, value) = (Some(&full_key[..]), value);
            let headers = match self.stores[store.0].logs_headers {
                true => self.headers.as_ref(),
                false => HeadersRef::EMPTY,
            };
            output.send(target.0, target.1, &NewRecord { key, value, timestamp, headers })?;
        }
        self.window_key_buffer = full_key;
        Ok(())
    }
}

impl Shared {
    /// Sets or deletes the value of a session. A put out of retention counts as a dropped record; a delete there is without effect.
    pub(crate) fn session_put(
        &mut self,
        output: &mut Collector,
        store: LocalStore,
        (key, session): (&[u8], (i64, i64)),
        value: Option<&[u8]>,
        expired: OnExpired,
    ) -> NodeResult {
        let task_store = &self.stores[store.0];
        let (ix, cached) = (task_store.ix, task_store.cached);
        let changelog = task_store.changelog.filter(|_| !cached);
        let mut full_key = std::mem::take(&mut self.window_key_buffer);
        full_key.clear();
        session_key(key, session.0, session.1, &mut full_key);
        if cached {
            let Self { origin, offset, timestamp, headers, cache, state, dead_letters, .. } = self;
            let (origin, offset, timestamp) = (origin.as_ref(), *offset, *timestamp);
            let raw = dead_letters.as_ref().map(|letters| &letters.raw);
            let by = Toucher { origin, offset, timestamp, headers, raw };
            let old = || {
                let old = state.session_fetch(ix, key, session)?;
                Ok::<_, NodeError>(old.map(<[u8]>::to_vec))
            };
            cache.touch_window(store, (&full_key, value), by, old)?;
        }
        let put = self.state.session_put(ix, key, session, value)?;
        if matches!(put, Put::Expired { .. }) && expired == OnExpired::Count {
            let name = Arc::clone(&self.stores[store.0].name);
            self.drop_record(&mut output.drops, &name, "out of the store's retention", None);
        }
        if let Some(target) = changelog {
            log(output, target, &full_key, value, self.timestamp)?;
        }
        self.window_key_buffer = full_key;
        Ok(())
    }
}

/// What becomes of a write out of retention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnExpired {
    /// It counts as a dropped record.
    Count,
    /// It is forgotten.
    Ignore,
}

/// Logs an update that leaves the cache; returns the newest local value. A key that came and went within the cache leaves no
/// trace when a node forwards the store's updates, as in Kafka Streams.
pub(crate) fn flush_entry(
    shared: &mut Shared,
    output: &mut Collector,
    store: LocalStore,
    (key, dirty): (&[u8], &mut Dirty),
    fallback_time: Timestamp,
) -> NodeResult<Option<Vec<u8>>> {
    let TaskStore { ix, shape, timestamped, changelog, owner, .. } = shared.stores[store.0];
    let local = match shape {
        StoreShape::Window { .. } | StoreShape::Session { .. } => dirty.newest.take(),
        StoreShape::KeyValue | StoreShape::Buffer => shared.state.get(ix, key)?.map(<[u8]>::to_vec),
    };
    if owner.is_some() && local.is_none() && dirty.old.is_none() {
        return Ok(None);
    }
    if let Some(target) = changelog {
        let (timestamp, value) = match &local {
            Some(local) => {
                let (timestamp, value) = split_local(timestamped, local)?;
                (timestamp.unwrap_or(fallback_time), Some(value))
            }
            None => (fallback_time, None),
        };
        log(output, target, key, value, timestamp)?;
    }
    Ok(local)
}
