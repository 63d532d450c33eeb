//! The one way every write of a processor takes: into the overlay, and on to the record cache or the changelog.

use std::sync::Arc;

use thalweg_connectors::{HeadersRef, NewRecord, Timestamp, TopicSlot};
use thalweg_state::values::{decode_timestamped, encode_timestamped};
use thalweg_state::window::{parse_window_store_key, window_store_key};
use thalweg_state::{Put, StoreIx};

use super::def::{LocalStore, StoreShape};
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

fn log(
    output: &mut Collector,
    (topic, partition): (TopicSlot, i32),
    key: &[u8],
    value: Option<&[u8]>,
    timestamp: Timestamp,
) -> NodeResult {
    let record = NewRecord {
        key: Some(key),
        value,
        timestamp,
        headers: HeadersRef::EMPTY,
    };
    output
        .send(topic, partition, &record)
        .map_err(NodeError::failed)
}

impl Shared {
    /// Sets or deletes a key of a key-value store. `timestamp` goes with the value into timestamped stores and to the changelog.
    pub(crate) fn kv_put(
        &mut self,
        output: &mut Collector,
        store: LocalStore,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: Timestamp,
    ) -> NodeResult {
        let TaskStore {
            ix,
            timestamped,
            cached,
            changelog,
            ..
        } = self.stores[store.0];
        if cached {
            let context = self.record_context();
            let state = &mut self.state;
            self.cache
                .touch(store, key, value.map_or(0, <[u8]>::len), context, || {
                    state.get(ix, key).map(|v| v.map(<[u8]>::to_vec))
                })?;
        }
        match value {
            Some(value) if timestamped => {
                let mut local = std::mem::take(&mut self.value_buffer);
                local.clear();
                encode_timestamped(timestamp.0, value, &mut local);
                let result = self.state.put(ix, key, Some(&local));
                self.value_buffer = local;
                result?;
            }
            value => self.state.put(ix, key, value)?,
        }
        match changelog {
            Some(target) if !cached => log(output, target, key, value, timestamp),
            _ => Ok(()),
        }
    }

    /// Sets or deletes a value of a window store. A put out of retention counts as a dropped record.
    pub(crate) fn window_put(
        &mut self,
        output: &mut Collector,
        store: LocalStore,
        (key, start): (&[u8], Timestamp),
        value: Option<&[u8]>,
        timestamp: Timestamp,
    ) -> NodeResult {
        let TaskStore {
            ix,
            timestamped,
            cached,
            changelog,
            ..
        } = self.stores[store.0];
        let mut full_key = std::mem::take(&mut self.value_buffer);
        full_key.clear();
        if cached {
            window_store_key(key, start.0, 0, &mut full_key);
            let context = self.record_context();
            let state = &mut self.state;
            self.cache.touch(
                store,
                &full_key,
                value.map_or(0, <[u8]>::len),
                context,
                || {
                    state
                        .window_fetch(ix, key, start.0)
                        .map(|v| v.map(<[u8]>::to_vec))
                },
            )?;
        }
        let put = match value {
            Some(value) if timestamped => {
                full_key.clear();
                encode_timestamped(timestamp.0, value, &mut full_key);
                self.state.window_put(ix, key, start.0, Some(&full_key))?
            }
            value => self.state.window_put(ix, key, start.0, value)?,
        };
        if matches!(put, Put::Expired { .. }) {
            self.dropped += 1;
        }
        if let Some(target) = changelog.filter(|_| !cached) {
            full_key.clear();
            window_store_key(key, start.0, put.seq(), &mut full_key);
            log(output, target, &full_key, value, timestamp)?;
        }
        self.value_buffer = full_key;
        Ok(())
    }

    /// The local value behind a cache key.
    fn cached_value(&mut self, store: LocalStore, key: &[u8]) -> NodeResult<Option<&[u8]>> {
        let TaskStore { ix, shape, .. } = self.stores[store.0];
        match shape {
            StoreShape::KeyValue => Ok(self.state.get(ix, key)?),
            StoreShape::Window { .. } => {
                let parsed = parse_window_store_key(key).ok_or_else(|| {
                    NodeError::user("a cached window key is too short".to_owned())
                })?;
                Ok(self.state.window_fetch(ix, parsed.key, parsed.start_ms)?)
            }
        }
    }
}

/// Logs an update that leaves the cache; returns the newest local value.
pub(crate) fn flush_entry(
    shared: &mut Shared,
    output: &mut Collector,
    store: LocalStore,
    key: &[u8],
    fallback_time: Timestamp,
) -> NodeResult<Option<Vec<u8>>> {
    let (timestamped, changelog) = {
        let store = &shared.stores[store.0];
        (store.timestamped, store.changelog)
    };
    let local = shared.cached_value(store, key)?.map(<[u8]>::to_vec);
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
