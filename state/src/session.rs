//! Session stores: values by key and session, kept for a limited time.
//!
//! A session is the time from its first record to its last one, both included; its end counts for retention, as the start does in a
//! [window store](crate::window). Everything else is as there: the store's clock is the highest end ever put, reads see nothing
//! that ended a retention time or more before it, and entries leave a segment at a time.

use crate::range::{Direction, KeyRange};
use crate::segments::{self, SegmentWalk};
use crate::session_key::{local_key, parse_local_key};
use crate::task_state::TaskState;
use crate::time_index;
use crate::{Put, StateError, StoreIx, StoreKind, WindowSpec};

pub use crate::session_key::{SessionKey, parse_session_key, session_key};

/// The session operations. A session is given as its start and its end.
impl TaskState {
    /// Sets the value of a session, or deletes it.
    ///
    /// # Errors
    /// If the store is no session store or the session's end is negative.
    pub fn session_put(
        &mut self,
        store: StoreIx,
        key: &[u8],
        (start_ms, end_ms): (i64, i64),
        value: Option<&[u8]>,
    ) -> Result<Put, StateError> {
        let spec = self.session_spec(store)?;
        if end_ms < 0 {
            let store = self.store(store)?.spec.name.clone();
            return Err(StateError::NegativeWindowStart { store, start_ms: end_ms });
        }
        let progress = &mut self.store_mut(store)?.progress;
        let before = *progress;
        progress.observe(end_ms);
        let now = *progress;
        self.expire(store, spec, before, now)?;
        if now.refuses(spec, end_ms) {
            return Ok(Put::Expired { seq: 0 });
        }
        let mut local = std::mem::take(&mut self.key);
        local.clear();
        local_key(end_ms / spec.segment_ms, key, start_ms, end_ms, &mut local);
        let mut done = self.put(store, &local, value);
        if spec.time_index && done.is_ok() {
            let at = SessionKey { key, start_ms, end_ms };
            time_index::session_row(end_ms / spec.segment_ms, at, &mut local);
            done = self.put(store, &local, value.map(|_| &[][..]));
        }
        self.key = local;
        done.map(|_| Put::Stored { seq: 0 })
    }

    /// Reads the value of a session.
    ///
    /// # Errors
    /// If the store is no session store or the engine fails.
    pub fn session_fetch(
        &mut self,
        store: StoreIx,
        key: &[u8],
        (start_ms, end_ms): (i64, i64),
    ) -> Result<Option<&[u8]>, StateError> {
        let spec = self.session_spec(store)?;
        if end_ms < self.store(store)?.progress.readable_from_ms(spec) {
            return Ok(None);
        }
        self.key.clear();
        local_key(end_ms / spec.segment_ms, key, start_ms, end_ms, &mut self.key);
        self.get_built_key(store)
    }

    /// Walks the sessions of one key that end at or after `ends_from_ms` and start at or before `starts_to_ms`, in the order of
    /// their ends.
    ///
    /// # Errors
    /// If the store is no session store or the engine fails.
    pub fn session_range(
        &self,
        store: StoreIx,
        key: &[u8],
        (ends_from_ms, starts_to_ms): (i64, i64),
        direction: Direction,
    ) -> Result<SessionIter<'_>, StateError> {
        let keys = (Some(key.to_vec()), Some(key.to_vec()));
        self.session_iter(store, keys, (ends_from_ms, starts_to_ms), direction)
    }

    /// Walks the sessions of the keys from `low` to `high` (both included, `None` is open) that end at or after `ends_from_ms` and
    /// start at or before `starts_to_ms`. The order is by segment, then key, then end.
    ///
    /// # Errors
    /// If the store is no session store or the engine fails.
    pub fn session_keys(
        &self,
        store: StoreIx,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        (ends_from_ms, starts_to_ms): (i64, i64),
        direction: Direction,
    ) -> Result<SessionIter<'_>, StateError> {
        let keys = (low.map(<[u8]>::to_vec), high.map(<[u8]>::to_vec));
        self.session_iter(store, keys, (ends_from_ms, starts_to_ms), direction)
    }

    fn session_spec(&self, store: StoreIx) -> Result<WindowSpec, StateError> {
        let spec = &self.store(store)?.spec;
        match spec.kind {
            StoreKind::Session(session) => Ok(session),
            _ => Err(StateError::NotASessionStore { store: spec.name.clone() }),
        }
    }

    fn session_iter(
        &self,
        store: StoreIx,
        (low, high): (Option<Vec<u8>>, Option<Vec<u8>>),
        (ends_from_ms, starts_to_ms): (i64, i64),
        direction: Direction,
    ) -> Result<SessionIter<'_>, StateError> {
        let spec = self.session_spec(store)?;
        let progress = self.store(store)?.progress;
        let ends_from_ms = ends_from_ms.max(progress.readable_from_ms(spec));
        let last_ms = progress.observed_ms();
        let segments = (ends_from_ms <= last_ms)
            .then(|| (ends_from_ms / spec.segment_ms, last_ms / spec.segment_ms));
        let wanted = Wanted { low, high, ends_from_ms, starts_to_ms };
        Ok(SessionIter(SegmentWalk::new(self, store, wanted, segments, direction)))
    }
}

/// Which entries a walk hands out.
#[derive(Debug)]
struct Wanted {
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
    ends_from_ms: i64,
    starts_to_ms: i64,
}

impl segments::Wanted for Wanted {
    fn accepts(&self, local_key: &[u8]) -> bool {
        let Some(SessionKey { key, start_ms, end_ms }) = parse_local_key(local_key) else {
            return false;
        };
        self.low.as_deref().is_none_or(|low| key >= low)
            && self.high.as_deref().is_none_or(|high| key <= high)
            && end_ms >= self.ends_from_ms
            && start_ms <= self.starts_to_ms
    }

    fn range_in(&self, segment: i64) -> KeyRange {
        let segment_bytes = segment.to_be_bytes();
        let whole = KeyRange::prefix(&segment_bytes);
        let Some(low) = &self.low else { return whole };
        if self.high.as_ref() == Some(low) {
            let mut from = [&segment_bytes[..], low].concat();
            let mut to = from.clone();
            from.extend_from_slice(&self.ends_from_ms.to_be_bytes());
            to.extend_from_slice(&[u8::MAX; 16]);
            return KeyRange::inclusive(Some(&from), Some(&to));
        }
        let from = [&segment_bytes[..], low].concat();
        KeyRange::half_open(from, whole.to().map(<[u8]>::to_vec))
    }
}

/// One entry of a session store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionEntry<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// The time of the session's first record.
    pub start_ms: i64,
    /// The time of its last one.
    pub end_ms: i64,
    /// The value.
    pub value: &'a [u8],
}

/// Walks entries of a session store, segment by segment.
pub struct SessionIter<'a>(SegmentWalk<'a, Wanted>);

impl SessionIter<'_> {
    /// Moves to the next entry and hands it out; `None` at the end.
    ///
    /// # Errors
    /// If the engine cannot be read.
    pub fn next_entry(&mut self) -> Result<Option<SessionEntry<'_>>, StateError> {
        let Some((local, value)) = self.0.next_entry()? else {
            return Ok(None);
        };
        let parsed = parse_local_key(local);
        Ok(parsed.map(|SessionKey { key, start_ms, end_ms }| SessionEntry {
            key,
            start_ms,
            end_ms,
            value,
        }))
    }
}
