//! Window stores: values by key and window start, kept for a limited time.
//!
//! A store's clock is its *observed stream time*, the highest window start ever put. Reads see nothing
//! that started a retention time or more before it. Entries are removed a segment (a span of window
//! starts) at a time, by one range deletion; a put into a removed segment is refused. A store with exact
//! expiry refuses a put as soon as its start can no longer be read.
//!
//! Observed stream time and sequence number belong to the state: they are committed and rolled back
//! with it, and restored from the changelog.

use crate::overlay::Overlay;
use crate::range::{Direction, KeyRange};
use crate::segments::{self, SegmentWalk};
use crate::session_key::{self, SessionKey, parse_session_key};
use crate::task_state::TaskState;
use crate::time_index;
use crate::window_key::{local_key, parse_local_key};
use crate::{StateError, StoreIx, StoreKind, WindowSpec};

pub use crate::window_key::{WindowKey, parse_window_store_key, window_store_key};

/// The highest sequence number. It is followed by 1, because 0 means that there are no duplicates.
const SEQ_MAX: u32 = i32::MAX as u32;

/// What became of a put. The sequence number is that of the changelog key; Kafka Streams writes the
/// changelog record in all three cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Put {
    /// It is in the store.
    Stored {
        /// The sequence number, 0 in a store that keeps no duplicates.
        seq: u32,
    },
    /// Refused: the window is out of retention. Counts as a dropped record.
    Expired {
        /// The sequence number.
        seq: u32,
    },
    /// Without effect: a delete in a store that keeps duplicates.
    Ignored {
        /// The sequence number.
        seq: u32,
    },
}

impl Put {
    /// The sequence number of the changelog key.
    #[must_use]
    pub fn seq(self) -> u32 {
        match self {
            Self::Stored { seq } | Self::Expired { seq } | Self::Ignored { seq } => seq,
        }
    }
}

/// How far a window store has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The highest window start ever put; -1 if there was none.
    observed_ms: i64,
    /// The last sequence number given out.
    seq: u32,
}

impl Default for Progress {
    fn default() -> Self {
        Self { observed_ms: -1, seq: 0 }
    }
}

impl Progress {
    pub(crate) fn encode(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.observed_ms.to_be_bytes());
        bytes[8..].copy_from_slice(&self.seq.to_be_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (observed_ms, seq) = bytes.split_first_chunk()?;
        let seq = u32::from_be_bytes(seq.try_into().ok()?);
        Some(Self { observed_ms: i64::from_be_bytes(*observed_ms), seq })
    }

    /// The highest time ever put.
    pub(crate) fn observed_ms(self) -> i64 {
        self.observed_ms
    }

    /// Takes note of a put at that time.
    pub(crate) fn observe(&mut self, time_ms: i64) {
        self.observed_ms = self.observed_ms.max(time_ms);
    }

    /// The earliest start that can be read.
    pub(crate) fn readable_from_ms(self, spec: WindowSpec) -> i64 {
        self.observed_ms.saturating_sub(spec.retention_ms).saturating_add(1).max(0)
    }

    /// The earliest window that can be read. Kafka Streams' RocksDB store that is in the order of time keeps one millisecond more than
    /// all its others.
    pub(crate) fn windows_from_ms(self, spec: WindowSpec) -> i64 {
        let one_more = i64::from(spec.time_index && !spec.exact_expiry);
        (self.readable_from_ms(spec) - one_more).max(0)
    }

    /// The earliest session end that is still kept, whether it is out of retention or not.
    pub(crate) fn kept_from_ms(self, spec: WindowSpec) -> i64 {
        match spec.exact_expiry {
            true => self.readable_from_ms(spec),
            false => self.first_segment(spec) * spec.segment_ms,
        }
    }

    /// The first segment that is kept.
    fn first_segment(self, spec: WindowSpec) -> i64 {
        self.observed_ms.saturating_sub(spec.retention_ms).max(0) / spec.segment_ms
    }

    /// Whether a put at that start is refused.
    pub(crate) fn refuses(self, spec: WindowSpec, start_ms: i64) -> bool {
        if spec.exact_expiry {
            start_ms < self.readable_from_ms(spec)
        } else {
            start_ms / spec.segment_ms < self.first_segment(spec)
        }
    }

    fn next_seq(&mut self, spec: WindowSpec) -> u32 {
        if !spec.retain_duplicates {
            return 0;
        }
        self.seq = if self.seq >= SEQ_MAX { 1 } else { self.seq + 1 };
        self.seq
    }
}

/// The local keys of segments that were kept before and no longer are.
fn expired(spec: WindowSpec, before: Progress, after: Progress) -> Option<KeyRange> {
    let (from, to) = (before.first_segment(spec), after.first_segment(spec));
    (from < to).then(|| KeyRange::half_open(from.to_be_bytes(), Some(to.to_be_bytes().to_vec())))
}

/// The window operations.
impl TaskState {
    /// Sets the value of a key in the window that starts at `start_ms`, or deletes it. In a store that
    /// keeps duplicates it adds a value, and `None` does nothing.
    ///
    /// # Errors
    /// If the store is no window store or the start is negative.
    pub fn window_put(
        &mut self,
        store: StoreIx,
        key: &[u8],
        start_ms: i64,
        value: Option<&[u8]>,
    ) -> Result<Put, StateError> {
        let spec = self.window_spec(store)?;
        if start_ms < 0 {
            let store = self.store(store)?.spec.name.clone();
            return Err(StateError::NegativeWindowStart { store, start_ms });
        }
        let progress = &mut self.store_mut(store)?.progress;
        let seq = progress.next_seq(spec);
        let is_ignored = value.is_none() && spec.retain_duplicates;
        if is_ignored && !spec.exact_expiry {
            return Ok(Put::Ignored { seq });
        }
        // Kafka Streams' store in memory looks at the time also of what it ignores.
        let before = *progress;
        progress.observe(start_ms);
        let now = *progress;
        self.expire(store, spec, before, now)?;
        if now.refuses(spec, start_ms) {
            return Ok(Put::Expired { seq });
        }
        if is_ignored {
            return Ok(Put::Ignored { seq });
        }
        let mut local = std::mem::take(&mut self.key);
        local.clear();
        local_key(start_ms / spec.segment_ms, key, start_ms, seq, &mut local);
        let mut done = self.put(store, &local, value);
        if spec.time_index && done.is_ok() {
            let at = WindowKey { key, start_ms, seq };
            time_index::window_row(start_ms / spec.segment_ms, at, &mut local);
            done = self.put(store, &local, value.map(|_| &[][..]));
        }
        self.key = local;
        done.map(|_| Put::Stored { seq })
    }

    /// Deletes the segments that were kept before and no longer are.
    pub(crate) fn expire(
        &mut self,
        store: StoreIx,
        spec: WindowSpec,
        before: Progress,
        now: Progress,
    ) -> Result<(), StateError> {
        let Some(segments) = expired(spec, before, now) else { return Ok(()) };
        self.delete_range(store, &segments)?;
        match time_index::expired(&segments).filter(|_| spec.time_index) {
            Some(rows) => self.delete_range(store, &rows),
            None => Ok(()),
        }
    }

    /// Reads the value of a key in the window that starts at `start_ms`. Finds nothing in a store that
    /// keeps duplicates; use [`window_range`](Self::window_range) there.
    ///
    /// # Errors
    /// If the store is no window store or the engine fails.
    pub fn window_fetch(
        &mut self,
        store: StoreIx,
        key: &[u8],
        start_ms: i64,
    ) -> Result<Option<&[u8]>, StateError> {
        let spec = self.window_spec(store)?;
        if start_ms < self.store(store)?.progress.windows_from_ms(spec) {
            return Ok(None);
        }
        self.key.clear();
        local_key(start_ms / spec.segment_ms, key, start_ms, 0, &mut self.key);
        self.get_built_key(store)
    }

    /// Walks the windows of one key that start from `from_ms` to `to_ms`, both included, in the order of
    /// their starts.
    ///
    /// # Errors
    /// If the store is no window store or the engine fails.
    pub fn window_range(
        &self,
        store: StoreIx,
        key: &[u8],
        from_ms: i64,
        to_ms: i64,
        direction: Direction,
    ) -> Result<WindowIter<'_>, StateError> {
        let only = Keys::One(key.to_vec());
        self.window_iter(store, only, (from_ms, to_ms), direction)
    }

    /// Walks the windows of the keys from `low` to `high` (both included, `None` is open) that start from
    /// `from_ms` to `to_ms`, both included. The order is by segment, then key, then start.
    ///
    /// # Errors
    /// If the store is no window store or the engine fails.
    pub fn window_keys(
        &self,
        store: StoreIx,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        times_ms: (i64, i64),
        direction: Direction,
    ) -> Result<WindowIter<'_>, StateError> {
        let keys = Keys::Between(low.map(<[u8]>::to_vec), high.map(<[u8]>::to_vec));
        self.window_iter(store, keys, times_ms, direction)
    }

    /// Walks all windows that start from `from_ms` to `to_ms`, both included, in the order of
    /// [`window_keys`](Self::window_keys).
    ///
    /// # Errors
    /// If the store is no window store or the engine fails.
    pub fn window_all(
        &self,
        store: StoreIx,
        from_ms: i64,
        to_ms: i64,
        direction: Direction,
    ) -> Result<WindowIter<'_>, StateError> {
        self.window_iter(store, Keys::Between(None, None), (from_ms, to_ms), direction)
    }

    /// The highest window start ever put; `None` if there was none.
    ///
    /// # Errors
    /// If the store is no window store.
    pub fn window_observed_ms(&self, store: StoreIx) -> Result<Option<i64>, StateError> {
        self.window_spec(store)?;
        let observed_ms = self.store(store)?.progress.observed_ms;
        Ok((observed_ms >= 0).then_some(observed_ms))
    }

    fn window_spec(&self, store: StoreIx) -> Result<WindowSpec, StateError> {
        let spec = &self.store(store)?.spec;
        match spec.kind {
            StoreKind::Window(window) => Ok(window),
            _ => Err(StateError::NotAWindowStore { store: spec.name.clone() }),
        }
    }

    fn window_iter(
        &self,
        store: StoreIx,
        keys: Keys,
        (from_ms, to_ms): (i64, i64),
        direction: Direction,
    ) -> Result<WindowIter<'_>, StateError> {
        let spec = self.window_spec(store)?;
        let progress = self.store(store)?.progress;
        let from_ms = from_ms.max(progress.windows_from_ms(spec));
        let to_ms = to_ms.min(progress.observed_ms);
        // Nothing starts after the observed stream time, so there are only a few segments to visit.
        let segments =
            (from_ms <= to_ms).then(|| (from_ms / spec.segment_ms, to_ms / spec.segment_ms));
        let wanted = Wanted { keys, from_ms, to_ms };
        Ok(WindowIter(SegmentWalk::new(self, store, wanted, segments, direction)))
    }
}

/// Which entries a walk hands out.
#[derive(Debug)]
struct Wanted {
    keys: Keys,
    from_ms: i64,
    to_ms: i64,
}

#[derive(Debug)]
enum Keys {
    One(Vec<u8>),
    /// Both ends included, `None` is open.
    Between(Option<Vec<u8>>, Option<Vec<u8>>),
}

impl segments::Wanted for Wanted {
    fn accepts(&self, local_key: &[u8]) -> bool {
        let Some(WindowKey { key, start_ms, .. }) = parse_local_key(local_key) else {
            return false;
        };
        let holds_key = match &self.keys {
            Keys::One(only) => key == only,
            Keys::Between(low, high) => {
                low.as_deref().is_none_or(|low| key >= low)
                    && high.as_deref().is_none_or(|high| key <= high)
            }
        };
        holds_key && (self.from_ms..=self.to_ms).contains(&start_ms)
    }

    /// Keys of different lengths are mixed, because the start follows the key without a separator.
    fn range_in(&self, segment: i64) -> KeyRange {
        let segment = segment.to_be_bytes();
        match &self.keys {
            Keys::One(key) => {
                let bound = |start_ms: i64, seq: u32| {
                    [&segment[..], key, &start_ms.to_be_bytes(), &seq.to_be_bytes()].concat()
                };
                KeyRange::inclusive(
                    Some(&bound(self.from_ms, 0)),
                    Some(&bound(self.to_ms, u32::MAX)),
                )
            }
            Keys::Between(low, high) => {
                let from = [&segment[..], low.as_deref().unwrap_or_default()].concat();
                match high {
                    None => {
                        let whole = KeyRange::prefix(&segment);
                        KeyRange::half_open(from, whole.to().map(<[u8]>::to_vec))
                    }
                    Some(high) => {
                        let to = [&segment[..], &highest_below(high, self.to_ms)].concat();
                        KeyRange::inclusive(Some(&from), Some(&to))
                    }
                }
            }
        }
    }
}

/// The highest key and start (as bytes) that a key up to `high` and a start up to `to_ms` can give. Not
/// always `high` with `to_ms`: behind a prefix of `high`, the bytes of the start may be the higher ones.
fn highest_below(high: &[u8], to_ms: i64) -> Vec<u8> {
    let tail = [&to_ms.to_be_bytes()[..], &[u8::MAX; 4]].concat();
    let mut best = [high, &tail].concat();
    // A prefix followed by a byte below the start's first one can never win.
    for length in (0..high.len()).filter(|&length| tail[0] >= high[length]) {
        let candidate = [&high[..length], &tail].concat();
        best = best.max(candidate);
    }
    best
}

/// One entry of a window store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowEntry<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// The window's start.
    pub start_ms: i64,
    /// Tells duplicates apart; 0 in a store that keeps none.
    pub seq: u32,
    /// The value.
    pub value: &'a [u8],
}

/// Walks entries of a window store, segment by segment.
///
/// As an [`Iterator`] it hands out owned parts: key, start and value. [`WindowIter::next_entry`] hands
/// out borrowed ones and copies nothing.
pub struct WindowIter<'a>(SegmentWalk<'a, Wanted>);

impl WindowIter<'_> {
    /// Moves to the next entry and hands it out; `None` at the end.
    ///
    /// # Errors
    /// If the engine cannot be read.
    pub fn next_entry(&mut self) -> Result<Option<WindowEntry<'_>>, StateError> {
        let Some((local, value)) = self.0.next_entry()? else {
            return Ok(None);
        };
        let parsed = parse_local_key(local);
        Ok(parsed.map(|WindowKey { key, start_ms, seq }| WindowEntry { key, start_ms, seq, value }))
    }
}

impl Iterator for WindowIter<'_> {
    type Item = Result<(Vec<u8>, i64, Vec<u8>), StateError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.next_entry().transpose()?;
        Some(entry.map(|entry| (entry.key.to_vec(), entry.start_ms, entry.value.to_vec())))
    }
}

/// Brings changelog records of a window or session store into its local form.
pub(crate) struct WindowRestore {
    spec: WindowSpec,
    sessions: bool,
    before: Progress,
    progress: Progress,
    /// The local key in the making.
    key: Vec<u8>,
}

impl WindowRestore {
    /// For a store of that kind; `None` for one that keeps its entries for ever.
    pub(crate) fn of(kind: StoreKind, progress: Progress) -> Option<Self> {
        let (spec, sessions) = match kind {
            StoreKind::KeyValue => return None,
            StoreKind::Window(spec) => (spec, false),
            StoreKind::Session(spec) => (spec, true),
        };
        Some(Self { spec, sessions, before: progress, progress, key: Vec::new() })
    }

    /// Takes one record; `None` if its key is malformed.
    pub(crate) fn apply(
        &mut self,
        changelog_key: &[u8],
        value: Option<&[u8]>,
        batch: &mut Overlay,
    ) -> Option<()> {
        if self.sessions {
            return self.apply_session(changelog_key, value, batch);
        }
        let WindowKey { key, start_ms, seq } = parse_window_store_key(changelog_key)?;
        if start_ms < 0 {
            return None;
        }
        if self.spec.retain_duplicates {
            self.progress.seq = seq;
            if value.is_none() {
                if self.spec.exact_expiry {
                    self.progress.observe(start_ms);
                }
                return Some(());
            }
        }
        self.progress.observe(start_ms);
        if !self.progress.refuses(self.spec, start_ms) {
            self.key.clear();
            let segment = start_ms / self.spec.segment_ms;
            local_key(segment, key, start_ms, seq, &mut self.key);
            batch.set(&self.key, value);
            if self.spec.time_index {
                time_index::window_row(segment, WindowKey { key, start_ms, seq }, &mut self.key);
                batch.set(&self.key, value.map(|_| &[][..]));
            }
        }
        Some(())
    }

    fn apply_session(
        &mut self,
        changelog_key: &[u8],
        value: Option<&[u8]>,
        batch: &mut Overlay,
    ) -> Option<()> {
        let SessionKey { key, start_ms, end_ms } = parse_session_key(changelog_key)?;
        if end_ms < 0 {
            return None;
        }
        self.progress.observe(end_ms);
        if !self.progress.refuses(self.spec, end_ms) {
            self.key.clear();
            let segment = end_ms / self.spec.segment_ms;
            session_key::local_key(segment, key, start_ms, end_ms, &mut self.key);
            batch.set(&self.key, value);
            if self.spec.time_index {
                let at = SessionKey { key, start_ms, end_ms };
                time_index::session_row(segment, at, &mut self.key);
                batch.set(&self.key, value.map(|_| &[][..]));
            }
        }
        Some(())
    }

    /// Removes what the records have put out of retention and says how far the store has come.
    pub(crate) fn finish(self, batch: &mut Overlay) -> Progress {
        if let Some(range) = expired(self.spec, self.before, self.progress) {
            batch.delete_range(&range);
            if let Some(rows) = time_index::expired(&range).filter(|_| self.spec.time_index) {
                batch.delete_range(&rows);
            }
        }
        self.progress
    }
}
