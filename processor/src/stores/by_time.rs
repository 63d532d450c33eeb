//! Reading windows and sessions in the order of time.

use thalweg_connectors::Timestamp;
use thalweg_state::{TimeCursor, TimedEntry};

use super::decl::{Session, Timestamped, TimestampedWindow, View};
use super::raw::split_local;
use super::session::SessionKey;
use super::window::WindowedKey;
use crate::error::NodeResult;

impl<K: 'static, V: 'static, S: 'static> View<'_, K, V, S> {
    fn timed(
        &mut self,
        (from, to): (Timestamp, Timestamp),
        cursor: &mut TimeCursor,
        max: usize,
    ) -> NodeResult<Vec<TimedEntry>> {
        let ix = self.shared.stores[self.handle.local.0].ix;
        Ok(self.shared.state.by_time(ix, (from.0, to.0), cursor, max)?)
    }
}

impl<K: 'static, V: 'static> View<'_, K, V, TimestampedWindow> {
    /// Up to `max` windows that start from the first time to the second, both included, in the order of their starts and then of
    /// keys. Fewer mean that there are no more; else the cursor says where to go on, also when the store was written in between.
    ///
    /// # Errors
    /// When the store's definition has no [`time_index`](crate::StoreDef::time_index), or the store fails.
    pub fn by_time(
        &mut self,
        times: (Timestamp, Timestamp),
        cursor: &mut TimeCursor,
        max: usize,
    ) -> NodeResult<Vec<(WindowedKey<K>, Timestamped<V>)>> {
        let serdes = &self.handle.serdes;
        let decode = |entry: &TimedEntry| {
            let key = serdes.key.read(Some(&entry.key))?;
            let (timestamp, value) = split_local(true, &entry.value)?;
            let value = serdes.value.read(Some(value))?;
            let timestamp = timestamp.unwrap_or(Timestamp::NONE);
            let key = WindowedKey { key, start: Timestamp(entry.start_ms) };
            Ok((key, Timestamped { value, timestamp }))
        };
        self.timed(times, cursor, max)?.iter().map(decode).collect()
    }
}

impl<K: 'static, V: 'static> View<'_, K, V, Session> {
    /// Up to `max` sessions that end from the first time to the second, both included, in the order of their ends, starts and keys.
    /// Fewer mean that there are no more; else the cursor says where to go on, also when the store was written in between.
    ///
    /// # Errors
    /// When the store's definition has no [`time_index`](crate::StoreDef::time_index), or the store fails.
    pub fn by_time(
        &mut self,
        times: (Timestamp, Timestamp),
        cursor: &mut TimeCursor,
        max: usize,
    ) -> NodeResult<Vec<(SessionKey<K>, V)>> {
        let serdes = &self.handle.serdes;
        let decode = |entry: &TimedEntry| {
            let key = serdes.key.read(Some(&entry.key))?;
            let (start, end) = (Timestamp(entry.start_ms), Timestamp(entry.end_ms));
            Ok((SessionKey { key, start, end }, serdes.value.read(Some(&entry.value))?))
        };
        self.timed(times, cursor, max)?.iter().map(decode).collect()
    }
}
