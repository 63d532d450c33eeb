//! What is stored beside the data of a task's stores, in the family `__offsets`: how much of which
//! changelog the data holds. The times that a task goes on from travel with its committed offsets.
//!
//! Keys are text, so that a dump can be read: `format`, `committed-at`, `position/<store>`,
//! `topic-id/<store>`, `window/<store>`, `time-index/<store>`. Numbers are big-endian.

use std::collections::BTreeMap;

use crate::window::Progress;
use crate::{Direction, Engine, FamilyIx, KeyRange, StateError, StoreIx};

/// The family that holds facts.
pub const FACTS_FAMILY: &str = "__offsets";

/// The format of local state this version writes.
pub const FORMAT_VERSION: u32 = 1;

const FORMAT: &str = "format";
const COMMITTED_AT: &str = "committed-at";
const POSITION: &str = "position/";
const TOPIC_ID: &str = "topic-id/";
const WINDOW: &str = "window/";
const TIME_INDEX: &str = "time-index/";

/// What a commit stores beside the data. Build it anew for each commit, or [`clear`](Self::clear) and
/// fill it again. What is not named keeps its value.
///
/// ```
/// use thalweg_state::{CommitFacts, StoreIx};
///
/// let facts = CommitFacts::new().position(StoreIx(0), 42).committed_at(1_700_000_000_000);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitFacts {
    pub(crate) positions: Vec<(StoreIx, i64)>,
    pub(crate) topic_ids: Vec<(StoreIx, String)>,
    pub(crate) committed_at_ms: Option<i64>,
}

impl CommitFacts {
    /// Starts with nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the offset of the first changelog record that the store does not hold yet.
    #[must_use]
    pub fn position(mut self, store: StoreIx, next_offset: i64) -> Self {
        self.positions.push((store, next_offset));
        self
    }

    /// Sets the identity of the topic that a store's position counts in.
    #[must_use]
    pub fn topic_id(mut self, store: StoreIx, topic_id: impl Into<String>) -> Self {
        self.topic_ids.push((store, topic_id.into()));
        self
    }

    /// Sets the wall-clock time of the commit.
    #[must_use]
    pub fn committed_at(mut self, wall_time_ms: i64) -> Self {
        self.committed_at_ms = Some(wall_time_ms);
        self
    }

    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.positions.clear();
        self.topic_ids.clear();
        self.committed_at_ms = None;
    }
}

/// The facts as last stored, in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredFacts {
    /// Whether the format version was written, now or earlier.
    pub(crate) format_written: bool,
    pub(crate) committed_at_ms: Option<i64>,
    pub(crate) stores: BTreeMap<String, StoreFacts>,
}

/// The facts of one store.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoreFacts {
    pub(crate) position: Option<i64>,
    pub(crate) topic_id: Option<String>,
    pub(crate) window: Progress,
    /// Whether the data has an index by time, in full.
    pub(crate) time_index: bool,
}

impl StoredFacts {
    /// Reads everything.
    pub(crate) fn load(engine: &dyn Engine, family: FamilyIx) -> Result<Self, StateError> {
        let mut stored = Self::default();
        // First, because a newer format may have entries that this version cannot read.
        let mut version = Vec::new();
        if engine.get(family, FORMAT.as_bytes(), &mut version)? {
            let found = version.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
            if let Some(found) = found.filter(|&found| found > FORMAT_VERSION) {
                return Err(StateError::NewerFormat { found, supported: FORMAT_VERSION });
            }
        }
        let mut cursor = engine.iterate(family, &KeyRange::all(), Direction::Forward)?;
        let mut any = false;
        while let Some((key, value)) = cursor.entry() {
            let key = String::from_utf8_lossy(key);
            any = true;
            stored
                .take(&key, value)
                .ok_or_else(|| StateError::CorruptedFact { entry: key.into_owned() })?;
            cursor.advance()?;
        }
        if any && !stored.format_written {
            return Err(StateError::CorruptedFact { entry: FORMAT.to_owned() });
        }
        Ok(stored)
    }

    /// Takes over one entry; `None` if it cannot be read.
    fn take(&mut self, key: &str, value: &[u8]) -> Option<()> {
        if key == FORMAT {
            self.format_written = value.len() == size_of::<u32>();
            return self.format_written.then_some(());
        }
        if key == COMMITTED_AT {
            self.committed_at_ms = Some(number(value)?);
        } else if let Some(store) = key.strip_prefix(POSITION) {
            self.store(store).position = Some(number(value)?);
        } else if let Some(store) = key.strip_prefix(TOPIC_ID) {
            self.store(store).topic_id = Some(std::str::from_utf8(value).ok()?.to_owned());
        } else if let Some(store) = key.strip_prefix(WINDOW) {
            self.store(store).window = Progress::decode(value)?;
        } else if let Some(store) = key.strip_prefix(TIME_INDEX) {
            self.store(store).time_index = true;
        } else {
            return None;
        }
        Some(())
    }

    pub(crate) fn store(&mut self, name: &str) -> &mut StoreFacts {
        if !self.stores.contains_key(name) {
            self.stores.insert(name.to_owned(), StoreFacts::default());
        }
        self.stores.get_mut(name).expect("it was put in above")
    }
}

/// Encoded entries on their way into a batch.
#[derive(Debug, Default)]
pub(crate) struct FactEntries(Vec<(Vec<u8>, Option<Vec<u8>>)>);

impl FactEntries {
    pub(crate) fn format(&mut self) {
        self.push(FORMAT, "", Some(FORMAT_VERSION.to_be_bytes().to_vec()));
    }

    pub(crate) fn committed_at(&mut self, wall_time_ms: i64) {
        self.push(COMMITTED_AT, "", Some(wall_time_ms.to_be_bytes().to_vec()));
    }

    pub(crate) fn position(&mut self, store: &str, position: Option<i64>) {
        self.push(POSITION, store, position.map(|position| position.to_be_bytes().to_vec()));
    }

    pub(crate) fn topic_id(&mut self, store: &str, topic_id: Option<&str>) {
        self.push(TOPIC_ID, store, topic_id.map(|id| id.as_bytes().to_vec()));
    }

    pub(crate) fn window(&mut self, store: &str, progress: Option<Progress>) {
        self.push(WINDOW, store, progress.map(|progress| progress.encode().to_vec()));
    }

    pub(crate) fn time_index(&mut self, store: &str, is_there: bool) {
        self.push(TIME_INDEX, store, is_there.then(Vec::new));
    }

    /// The entries in the order of their keys, each key once with its latest value.
    pub(crate) fn sorted(mut self) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        self.0.reverse();
        self.0.sort_by(|a, b| a.0.cmp(&b.0));
        self.0.dedup_by(|later, first| later.0 == first.0);
        self.0
    }

    fn push(&mut self, kind: &str, name: &str, value: Option<Vec<u8>>) {
        self.0.push(([kind, name].concat().into_bytes(), value));
    }
}

fn number(value: &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(value.try_into().ok()?))
}
