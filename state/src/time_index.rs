//! An index by time beside a window or session store: what is needed to find windows that have closed without a walk through those
//! that are open.
//!
//! The rows of the index lie in the store's own family, behind all entries: the highest bit of the segment in front is set. They have
//! no values. A row is the segment, the time (a window's start, a session's end), and then what else the local key is made of, so
//! that rows lie in the order of time, and of keys at one time.
//!
//! Whether a store on disk has its index is stored with its facts. A definition that says otherwise has it built, or taken away, when
//! the store is opened.

use crate::range::{Direction, KeyRange};
use crate::session_key::SessionKey;
use crate::task_state::TaskState;
use crate::window::Progress;
use crate::window_key::WindowKey;
use crate::{
    Engine, FamilyIx, StateError, StoreIx, StoreKind, WindowSpec, WriteOp, WriteOps, session_key,
    window_key,
};

const MARK: u64 = 1 << 63;

/// How many rows are written at once when an index is built.
const BUILD_ROWS: usize = 4096;

/// Bytes in front of a row: the segment.
const SEGMENT_BYTES: usize = 8;

/// Appends the row of an entry, whose local key behind the segment is `key` followed by these times.
fn row(segment: i64, time_ms: i64, tail: [&[u8]; 2], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&(segment as u64 | MARK).to_be_bytes());
    out.extend_from_slice(&time_ms.to_be_bytes());
    tail.into_iter().for_each(|part| out.extend_from_slice(part));
}

/// The row of a window.
pub(crate) fn window_row(
    segment: i64,
    WindowKey { key, start_ms, seq }: WindowKey<'_>,
    out: &mut Vec<u8>,
) {
    row(segment, start_ms, [key, &seq.to_be_bytes()], out);
}

/// The row of a session.
pub(crate) fn session_row(
    segment: i64,
    SessionKey { key, start_ms, end_ms }: SessionKey<'_>,
    out: &mut Vec<u8>,
) {
    row(segment, end_ms, [&start_ms.to_be_bytes(), key], out);
}

/// The rows of segments that are kept no longer.
pub(crate) fn expired(segments: &KeyRange) -> Option<KeyRange> {
    let marked = |bytes: &[u8]| {
        let segment = bytes.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        (segment | MARK).to_be_bytes()
    };
    let to = segments.to()?;
    Some(KeyRange::half_open(marked(segments.from()), Some(marked(to).to_vec())))
}

/// Does a store of this kind have an index?
pub(crate) fn is_wanted(kind: StoreKind) -> bool {
    match kind {
        StoreKind::KeyValue => false,
        StoreKind::Window(spec) | StoreKind::Session(spec) => spec.time_index,
    }
}

/// Takes the index of a store away.
pub(crate) fn remove(engine: &mut dyn Engine, family: FamilyIx) -> Result<(), StateError> {
    let from = MARK.to_be_bytes();
    let rows = KeyRange::half_open(from, None);
    // A deletion of nothing would be in the way of all reads to come.
    if engine.iterate(family, &rows, Direction::Forward)?.entry().is_none() {
        return Ok(());
    }
    let mut ops = WriteOps::default();
    ops.ops.push(WriteOp::DeleteRange(family, &from, None));
    engine.write(&ops)
}

/// Writes the rows of all entries of a store that has none.
pub(crate) fn build(
    engine: &mut dyn Engine,
    family: FamilyIx,
    kind: StoreKind,
) -> Result<(), StateError> {
    let mut from = Vec::new();
    loop {
        let range = KeyRange::half_open(from.clone(), Some(MARK.to_be_bytes().to_vec()));
        let mut walk = engine.iterate(family, &range, Direction::Forward)?;
        let mut rows = Vec::new();
        while rows.len() < BUILD_ROWS
            && let Some((local, _)) = walk.entry()
        {
            rows.extend(row_of(kind, local));
            from.clear();
            // The first key behind it.
            from.extend_from_slice(local);
            from.push(0);
            walk.advance()?;
        }
        let is_over = walk.entry().is_none();
        drop(walk);
        if !rows.is_empty() {
            let mut ops = WriteOps::default();
            ops.ops.extend(rows.iter().map(|row| WriteOp::Put(family, row, &[])));
            engine.write(&ops)?;
        }
        if is_over {
            return Ok(());
        }
    }
}

/// The row of an entry, by its local key.
fn row_of(kind: StoreKind, local: &[u8]) -> Option<Vec<u8>> {
    let segment = i64::from_be_bytes(*local.first_chunk()?);
    let mut row = Vec::new();
    match kind {
        StoreKind::KeyValue => return None,
        StoreKind::Window(_) => {
            window_row(segment, window_key::parse_local_key(local)?, &mut row);
        }
        StoreKind::Session(_) => {
            session_row(segment, session_key::parse_local_key(local)?, &mut row);
        }
    }
    Some(row)
}

/// Where a walk in the order of time stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimeCursor {
    /// The row that was handed out last.
    after: Option<Vec<u8>>,
}

/// A window or session, in the order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedEntry {
    /// The user's key.
    pub key: Vec<u8>,
    /// The window's start, or the session's.
    pub start_ms: i64,
    /// The session's end; of a window its start.
    pub end_ms: i64,
    /// The value.
    pub value: Vec<u8>,
}

impl TaskState {
    /// Reads up to `max` entries of a store with a time index, in the order of time: windows that start, or sessions that end, from
    /// `from_ms` to `to_ms`, both included; of sessions also those that are out of retention and not removed yet, as in Kafka
    /// Streams' RocksDB store. Fewer than `max` mean that there are no more; else the cursor says where to go on, also
    /// when the store was written in between.
    ///
    /// # Errors
    /// If the store has no time index or the engine fails.
    pub fn by_time(
        &mut self,
        store: StoreIx,
        (from_ms, to_ms): (i64, i64),
        cursor: &mut TimeCursor,
        max: usize,
    ) -> Result<Vec<TimedEntry>, StateError> {
        let (spec, sessions, progress) = self.indexed(store)?;
        let earliest_ms = match sessions {
            true => progress.kept_from_ms(spec),
            false => progress.windows_from_ms(spec),
        };
        let from_ms = from_ms.max(earliest_ms);
        let to_ms = to_ms.min(progress.observed_ms());
        if from_ms > to_ms {
            return Ok(Vec::new());
        }
        let mut entries = Vec::new();
        loop {
            let wanted = max - entries.len();
            let rows = self.rows(store, spec, (from_ms, to_ms), cursor, wanted)?;
            for row in &rows {
                entries.extend(self.entry_of(store, (spec, sessions), row)?);
            }
            let are_all = rows.len() < wanted;
            cursor.after = rows.into_iter().last().or(cursor.after.take());
            // The rows decide: one of them may have no entry.
            if are_all || entries.len() == max {
                break;
            }
        }
        Ok(entries)
    }

    /// The entry of a row, if there is one.
    fn entry_of(
        &mut self,
        store: StoreIx,
        (spec, sessions): (WindowSpec, bool),
        row: &[u8],
    ) -> Result<Option<TimedEntry>, StateError> {
        let Some(found) = parse(row, sessions) else { return Ok(None) };
        let TimedEntry { key, start_ms, end_ms, .. } = &found;
        self.key.clear();
        let segment = end_ms / spec.segment_ms;
        match sessions {
            true => session_key::local_key(segment, key, *start_ms, *end_ms, &mut self.key),
            false => window_key::local_key(segment, key, *start_ms, 0, &mut self.key),
        }
        let value = self.get_built_key(store)?;
        Ok(value.map(|value| TimedEntry { value: value.to_vec(), ..found }))
    }

    /// The next rows of the index, segment by segment.
    fn rows(
        &self,
        store: StoreIx,
        spec: WindowSpec,
        (from_ms, to_ms): (i64, i64),
        cursor: &TimeCursor,
        max: usize,
    ) -> Result<Vec<Vec<u8>>, StateError> {
        let bound = |time_ms: i64| {
            let mut bytes = Vec::new();
            row(time_ms / spec.segment_ms, time_ms, [&[], &[]], &mut bytes);
            bytes
        };
        let from = match &cursor.after {
            // The first key behind it.
            Some(after) => [after, &[0][..]].concat(),
            None => bound(from_ms),
        };
        let range = KeyRange::half_open(from, Some(bound(to_ms.saturating_add(1))));
        let mut walk = self.range(store, &range, Direction::Forward)?;
        let mut rows = Vec::new();
        while rows.len() < max
            && let Some((row, _)) = walk.next_entry()?
        {
            rows.push(row.to_vec());
        }
        Ok(rows)
    }

    fn indexed(&self, store: StoreIx) -> Result<(WindowSpec, bool, Progress), StateError> {
        let store = self.store(store)?;
        match store.spec.kind {
            StoreKind::Window(spec) if spec.time_index => Ok((spec, false, store.progress)),
            StoreKind::Session(spec) if spec.time_index => Ok((spec, true, store.progress)),
            _ => Err(StateError::NoTimeIndex { store: store.spec.name.clone() }),
        }
    }
}

/// Takes a row apart; its value is not in it.
fn parse(row: &[u8], sessions: bool) -> Option<TimedEntry> {
    let (time_ms, rest) = row.get(SEGMENT_BYTES..)?.split_first_chunk()?;
    let end_ms = i64::from_be_bytes(*time_ms);
    let (key, start_ms) = if sessions {
        let (start_ms, key) = rest.split_first_chunk()?;
        (key, i64::from_be_bytes(*start_ms))
    } else {
        let (key, _seq) = rest.split_last_chunk::<4>()?;
        (key, end_ms)
    };
    Some(TimedEntry { key: key.to_vec(), start_ms, end_ms, value: Vec::new() })
}
