//! All state of one task, and the one way every write takes.

use crate::cache::Cache;
use crate::facts::{FactEntries, StoreFacts, StoredFacts};
use crate::overlay::{Known, Overlay};
use crate::time_index;
use crate::values::encode_timestamped;
use crate::window::{Progress, WindowRestore};
use crate::{
    CommitFacts, Direction, Engine, FACTS_FAMILY, FamilyIx, KeyRange, MemEngine, RangeIter,
    StateError, StoreIx, StoreSpec, ValueFormat, WriteOp, WriteOps,
};

/// One record of a changelog, on its way back into a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreRecord<'a> {
    /// The record's key, in the changelog's form.
    pub key: &'a [u8],
    /// The record's value; `None` deletes.
    pub value: Option<&'a [u8]>,
    /// The record's timestamp.
    pub timestamp_ms: i64,
}

/// The stores of one task: what is committed lies in an engine, what is not in an overlay per store.
///
/// Every write goes through [`put`](Self::put) or [`delete_range`](Self::delete_range) into the overlay,
/// and from there through [`commit`](Self::commit) into the engine, in one batch with the positions of
/// the changelogs. [`rollback`](Self::rollback) brings back the last commit.
///
/// | after | a crash leaves |
/// | --- | --- |
/// | `put`, `delete_range` | the last commit |
/// | `commit` | this commit, or the last one, never a mix |
/// | `restore` | this step or an earlier one, with the position that belongs to it |
///
/// ```
/// use thalweg_state::{CommitFacts, MemEngine, StoreIx, StoreSpec, TaskState};
///
/// # fn main() -> Result<(), thalweg_state::StateError> {
/// let counts = StoreIx(0);
/// let mut state = TaskState::open(Box::new(MemEngine::new()), vec![StoreSpec::key_value("counts")])?;
/// state.put(counts, b"word", Some(b"1"))?;
/// state.commit(&CommitFacts::new().position(counts, 1))?;
/// state.put(counts, b"word", Some(b"2"))?;
/// state.rollback();
/// assert_eq!(state.get(counts, b"word")?, Some(&b"1"[..]));
/// assert_eq!(state.position(counts), Some(1));
/// # Ok(())
/// # }
/// ```
pub struct TaskState {
    /// Holds the persistent stores and `__offsets`.
    engine: Box<dyn Engine>,
    /// Holds the other stores.
    memory: MemEngine,
    facts_family: FamilyIx,
    stores: Vec<Store>,
    /// The facts as last committed.
    facts: StoredFacts,
    cache_bytes: usize,
    /// What `get` hands out when the engine had it.
    value: Vec<u8>,
    /// A key in the making.
    pub(crate) key: Vec<u8>,
}

/// The place of an uncommitted write among those of its store: dense numbers from 0 on. A key keeps its place until the next commit
/// or rollback, unless a range with it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteIx(pub u32);

/// One store.
pub(crate) struct Store {
    pub(crate) spec: StoreSpec,
    family: FamilyIx,
    overlay: Overlay,
    /// Committed entries used lately; without room if the engine is as fast.
    cache: Cache,
    /// How far a window store has come, uncommitted puts included.
    pub(crate) progress: Progress,
}

impl Store {
    fn engine<'a>(&self, engine: &'a dyn Engine, memory: &'a MemEngine) -> &'a dyn Engine {
        if self.spec.persistent { engine } else { memory }
    }
}

impl TaskState {
    /// Room for committed entries used lately, unless [`set_cache_bytes`](Self::set_cache_bytes) says
    /// otherwise: a read from disk costs twenty times a read from memory.
    pub const CACHE_BYTES: usize = 16 << 20;

    /// Opens the stores of a task on an engine, at the engine's last commit.
    ///
    /// Families of the engine that no store uses are left alone. Where the definition of a store on disk began to ask for a time
    /// index, it is built now, from all entries; where it no longer asks for one, it is taken away.
    ///
    /// # Errors
    /// If two stores share a name, the engine fails, or what it holds was written by a newer version
    /// ([`StateError::NewerFormat`]) or is damaged.
    pub fn open(mut engine: Box<dyn Engine>, specs: Vec<StoreSpec>) -> Result<Self, StateError> {
        let facts_family = engine.family(FACTS_FAMILY)?;
        let mut facts = StoredFacts::load(engine.as_ref(), facts_family)?;
        let mut memory = MemEngine::new();
        let mut stores: Vec<Store> = Vec::with_capacity(specs.len());
        for spec in specs {
            if spec.name.is_empty() || spec.name == FACTS_FAMILY {
                return Err(StateError::BadName { what: "a store", name: spec.name });
            }
            if stores.iter().any(|store| store.spec.name == spec.name) {
                return Err(StateError::DuplicateStore { name: spec.name });
            }
            let family = if spec.persistent {
                engine.family(&spec.name)?
            } else {
                // Whatever an earlier, persistent store of that name left: memory starts empty.
                facts.stores.remove(&spec.name);
                memory.family(&spec.name)?
            };
            let progress = facts.store(&spec.name).window;
            let (overlay, cache) = (Overlay::default(), Cache::default());
            stores.push(Store { spec, family, overlay, cache, progress });
        }
        let (value, key) = (Vec::new(), Vec::new());
        let cache_bytes = Self::CACHE_BYTES;
        let mut state =
            Self { engine, memory, facts_family, stores, facts, cache_bytes, value, key };
        state.set_cache_bytes(cache_bytes);
        state.settle_time_indexes()?;
        Ok(state)
    }

    /// Builds or takes away the time indexes of stores on disk whose definitions have changed.
    fn settle_time_indexes(&mut self) -> Result<(), StateError> {
        for Store { spec, family, .. } in self.stores.iter().filter(|store| store.spec.persistent) {
            let wanted = time_index::is_wanted(spec.kind);
            let stored = self.facts.store(&spec.name);
            if stored.time_index == wanted {
                continue;
            }
            // What a crash leaves half done is done anew: the fact is the last that is written, or the first that goes.
            let mut entries = FactEntries::default();
            entries.time_index(&spec.name, wanted);
            if !self.facts.format_written {
                entries.format();
            }
            let entries = entries.sorted();
            let mut ops = WriteOps::default();
            append_facts(self.facts_family, &entries, &mut ops.ops);
            if wanted {
                time_index::remove(self.engine.as_mut(), *family)?;
                time_index::build(self.engine.as_mut(), *family, spec.kind)?;
                self.engine.write(&ops)?;
            } else {
                self.engine.write(&ops)?;
                time_index::remove(self.engine.as_mut(), *family)?;
            }
            self.facts.store(&spec.name).time_index = wanted;
            self.facts.format_written = true;
        }
        Ok(())
    }

    /// Bounds the memory for committed entries that were used lately, all stores together. Between two
    /// commits each store may take as much. Stores in memory take none.
    pub fn set_cache_bytes(&mut self, cache_bytes: usize) {
        self.cache_bytes = cache_bytes;
        for store in &mut self.stores {
            let caches = store.spec.persistent && !self.engine.in_memory();
            store.cache.set_bytes_max(if caches { cache_bytes } else { 0 });
        }
    }

    /// The stores, in the order of their indices.
    pub fn specs(&self) -> impl Iterator<Item = &StoreSpec> {
        self.stores.iter().map(|store| &store.spec)
    }

    /// Finds a store by name.
    #[must_use]
    pub fn store_ix(&self, name: &str) -> Option<StoreIx> {
        let index = self.stores.iter().position(|store| store.spec.name == name)?;
        u16::try_from(index).ok().map(StoreIx)
    }

    /// Reads the current value of a key, uncommitted writes included.
    ///
    /// # Errors
    /// If there is no such store or the engine fails.
    pub fn get(&mut self, store: StoreIx, key: &[u8]) -> Result<Option<&[u8]>, StateError> {
        let Self { engine, memory, stores, value, .. } = self;
        read(store_in_mut(stores, store)?, engine.as_ref(), memory, key, value)
    }

    /// Sets the value of a key, or deletes it; tells where the write waits for the commit.
    ///
    /// # Errors
    /// If there is no such store.
    pub fn put(
        &mut self,
        store: StoreIx,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<WriteIx, StateError> {
        Ok(WriteIx(self.store_mut(store)?.overlay.set(key, value)))
    }

    /// Where the write to a key waits for the commit; `None` when it was not written since the last one.
    ///
    /// # Errors
    /// If there is no such store.
    pub fn written(&self, store: StoreIx, key: &[u8]) -> Result<Option<WriteIx>, StateError> {
        Ok(self.store(store)?.overlay.map.find_again(key).map(WriteIx))
    }

    /// The key of a write that waits; `None` when there is none at that place.
    #[must_use]
    pub fn written_key(&self, store: StoreIx, write: WriteIx) -> Option<&[u8]> {
        self.store(store).ok()?.overlay.map.key_of(write.0)
    }

    /// What the caller has noted at a write, 0 when nothing: a place of its own for what it knows about the key.
    ///
    /// # Errors
    /// If there is no such store.
    pub fn tag(&self, store: StoreIx, write: WriteIx) -> Result<u32, StateError> {
        Ok(self.store(store)?.overlay.map.tag(write.0))
    }

    /// Notes something at a write, until the next commit or rollback.
    ///
    /// # Errors
    /// If there is no such store.
    pub fn set_tag(&mut self, store: StoreIx, write: WriteIx, tag: u32) -> Result<(), StateError> {
        self.store_mut(store)?.overlay.map.set_tag(write.0, tag);
        Ok(())
    }

    /// Deletes every key of a range.
    ///
    /// # Errors
    /// If there is no such store.
    pub fn delete_range(&mut self, store: StoreIx, range: &KeyRange) -> Result<(), StateError> {
        self.store_mut(store)?.overlay.delete_range(range);
        Ok(())
    }

    /// Walks the current entries of a range in key order, uncommitted writes included.
    ///
    /// # Errors
    /// If there is no such store or the engine fails.
    pub fn range(
        &self,
        store: StoreIx,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<RangeIter<'_>, StateError> {
        let store = self.store(store)?;
        let committed = if range.is_empty() {
            None
        } else {
            let engine = store.engine(self.engine.as_ref(), &self.memory);
            Some(engine.iterate(store.family, range, direction)?)
        };
        let written = store.overlay.cursor(range, direction);
        Ok(RangeIter::new(written, &store.overlay, committed, direction))
    }

    /// Estimates how many entries a store has: those of the engine, and the keys written since.
    ///
    /// # Errors
    /// If there is no such store or the engine fails.
    pub fn approximate_entries(&self, store: StoreIx) -> Result<u64, StateError> {
        let store = self.store(store)?;
        let engine = store.engine(self.engine.as_ref(), &self.memory);
        let rows = engine.approximate_entries(store.family)? + store.overlay.len() as u64;
        // An index by time has a row of its own for each entry.
        let per_entry = if store.spec.kind.has_time_index() { 2 } else { 1 };
        Ok(rows.div_ceil(per_entry))
    }

    /// The memory that uncommitted writes take. A caller bounds it by committing early.
    #[must_use]
    pub fn uncommitted_bytes(&self) -> usize {
        self.stores.iter().map(|store| store.overlay.weight()).sum()
    }

    /// Forgets all uncommitted writes: back to the last commit.
    pub fn rollback(&mut self) {
        for store in &mut self.stores {
            store.overlay.clear();
            store.progress = self.facts.store(&store.spec.name).window;
        }
    }

    /// Makes all uncommitted writes and the given facts durable, together.
    ///
    /// # Errors
    /// If a fact names an unknown store or the engine fails. Nothing was stored then, and the
    /// uncommitted writes are still there.
    pub fn commit(&mut self, facts: &CommitFacts) -> Result<(), StateError> {
        let mut next = self.facts.clone();
        let mut entries = FactEntries::default();
        self.take_facts(facts, &mut next, &mut entries)?;
        if !next.format_written {
            next.format_written = true;
            entries.format();
        }
        for store in &self.stores {
            let stored = next.store(&store.spec.name);
            if stored.window != store.progress {
                stored.window = store.progress;
                if store.spec.persistent {
                    entries.window(&store.spec.name, Some(store.progress));
                }
            }
        }
        let entries = entries.sorted();
        let (mut durable, mut volatile) = (WriteOps::default(), WriteOps::default());
        for store in &self.stores {
            let ops = if store.spec.persistent { &mut durable } else { &mut volatile };
            let sorted = !store.engine(self.engine.as_ref(), &self.memory).in_memory();
            store.overlay.append_ops(store.family, sorted, &mut ops.ops);
        }
        append_facts(self.facts_family, &entries, &mut durable.ops);
        self.engine.write(&durable)?;
        self.memory.write(&volatile)?;
        self.facts = next;
        for Store { overlay, cache, .. } in &mut self.stores {
            if cache.has_room() {
                overlay.update(cache);
            }
            overlay.clear();
        }
        self.trim_caches();
        Ok(())
    }

    /// Applies changelog records to a store and moves its position, together and for good. The records
    /// are those below `position` that the store does not hold yet, in their order.
    ///
    /// Keys and values are in the changelog's form; the store's kind and format say how they are kept.
    ///
    /// # Errors
    /// If there is no such store, it holds uncommitted writes, a key is malformed or the engine fails.
    /// Nothing was stored then.
    pub fn restore(
        &mut self,
        store: StoreIx,
        records: &mut dyn Iterator<Item = RestoreRecord<'_>>,
        position: i64,
    ) -> Result<(), StateError> {
        let Store { spec, family, overlay, progress, .. } = store_in(&self.stores, store)?;
        let (family, persistent) = (*family, spec.persistent);
        if !overlay.is_empty() {
            return Err(StateError::RestoreOverUncommitted { store: spec.name.clone() });
        }
        let mut window = WindowRestore::of(spec.kind, *progress);
        let (mut batch, mut local) = (Overlay::default(), Vec::new());
        for record in records {
            let value = record
                .value
                .map(|value| local_value(spec.format, record.timestamp_ms, value, &mut local));
            match &mut window {
                None => _ = batch.set(record.key, value),
                Some(window) => window.apply(record.key, value, &mut batch).ok_or_else(|| {
                    StateError::MalformedChangelogKey {
                        store: spec.name.clone(),
                        length: record.key.len(),
                    }
                })?,
            }
        }
        let progress = window.map(|window| window.finish(&mut batch));
        let name = spec.name.clone();
        self.write_restored(&name, (family, persistent), &batch, position, progress)?;
        let store = self.store_mut(store)?;
        store.cache.clear();
        store.progress = progress.unwrap_or_default();
        Ok(())
    }

    /// The offset of the first changelog record that a store does not hold yet, as last stored.
    /// `None` for a store that was never restored or committed, and for an unknown one.
    #[must_use]
    pub fn position(&self, store: StoreIx) -> Option<i64> {
        self.store_facts(store)?.position
    }

    /// The identity of the topic that the store's position counts in, as last committed.
    #[must_use]
    pub fn topic_id(&self, store: StoreIx) -> Option<&str> {
        self.store_facts(store)?.topic_id.as_deref()
    }

    /// The wall-clock time of the last commit, as its caller gave it.
    #[must_use]
    pub fn committed_at_ms(&self) -> Option<i64> {
        self.facts.committed_at_ms
    }

    /// Empties a store and forgets its position, at once and for good. Other stores stay as they are.
    ///
    /// # Errors
    /// If there is no such store or the engine fails.
    pub fn clear_store(&mut self, store: StoreIx) -> Result<(), StateError> {
        let Store { spec, family, .. } = store_in(&self.stores, store)?;
        let mut entries = FactEntries::default();
        entries.position(&spec.name, None);
        entries.topic_id(&spec.name, None);
        entries.window(&spec.name, None);
        let entries = entries.sorted();
        let mut ops = WriteOps::default();
        ops.ops.push(WriteOp::DeleteRange(*family, &[], None));
        if spec.persistent {
            append_facts(self.facts_family, &entries, &mut ops.ops);
            self.engine.write(&ops)?;
        } else {
            self.memory.write(&ops)?;
        }
        let stored = self.facts.store(&spec.name);
        // Of no entries it is complete.
        *stored = StoreFacts { time_index: stored.time_index, ..StoreFacts::default() };
        let store = self.store_mut(store)?;
        store.overlay.clear();
        store.cache.clear();
        store.progress = Progress::default();
        Ok(())
    }

    /// Moves everything stored so far to its final place on disk.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn flush(&mut self) -> Result<(), StateError> {
        self.engine.flush()
    }

    /// Gives the engine back; uncommitted writes and stores kept in memory are gone, as after a crash.
    #[must_use]
    pub fn into_engine(self) -> Box<dyn Engine> {
        self.engine
    }

    pub(crate) fn store(&self, store: StoreIx) -> Result<&Store, StateError> {
        store_in(&self.stores, store)
    }

    pub(crate) fn store_mut(&mut self, store: StoreIx) -> Result<&mut Store, StateError> {
        store_in_mut(&mut self.stores, store)
    }

    /// Like [`get`](Self::get), for the key that was put together in `self.key`.
    pub(crate) fn get_built_key(&mut self, store: StoreIx) -> Result<Option<&[u8]>, StateError> {
        let Self { engine, memory, stores, value, key, .. } = self;
        read(store_in_mut(stores, store)?, engine.as_ref(), memory, key, value)
    }

    fn trim_caches(&mut self) {
        let weight = |store: &Store| store.cache.weight();
        while self.stores.iter().map(weight).sum::<usize>() > self.cache_bytes {
            let Some(largest) = self.stores.iter_mut().max_by_key(|store| weight(store)) else {
                return;
            };
            largest.cache.age();
        }
    }

    fn store_facts(&self, store: StoreIx) -> Option<&StoreFacts> {
        let store = self.stores.get(usize::from(store.0))?;
        self.facts.stores.get(&store.spec.name)
    }

    /// Brings the facts of a commit into memory form and into entries for the engine.
    fn take_facts(
        &self,
        facts: &CommitFacts,
        next: &mut StoredFacts,
        entries: &mut FactEntries,
    ) -> Result<(), StateError> {
        for &(store, position) in &facts.positions {
            let spec = &self.store(store)?.spec;
            next.store(&spec.name).position = Some(position);
            if spec.persistent {
                entries.position(&spec.name, Some(position));
            }
        }
        for (store, topic_id) in &facts.topic_ids {
            let spec = &self.store(*store)?.spec;
            next.store(&spec.name).topic_id = Some(topic_id.clone());
            if spec.persistent {
                entries.topic_id(&spec.name, Some(topic_id));
            }
        }
        if let Some(wall_time_ms) = facts.committed_at_ms {
            next.committed_at_ms = Some(wall_time_ms);
            entries.committed_at(wall_time_ms);
        }
        Ok(())
    }

    fn write_restored(
        &mut self,
        name: &str,
        (family, persistent): (FamilyIx, bool),
        batch: &Overlay,
        position: i64,
        progress: Option<Progress>,
    ) -> Result<(), StateError> {
        let mut ops = WriteOps { restorable: true, ..WriteOps::default() };
        batch.append_ops(family, true, &mut ops.ops);
        if persistent {
            let mut entries = FactEntries::default();
            entries.format();
            entries.position(name, Some(position));
            if let Some(progress) = progress {
                entries.window(name, Some(progress));
            }
            let entries = entries.sorted();
            append_facts(self.facts_family, &entries, &mut ops.ops);
            self.engine.write(&ops)?;
            self.facts.format_written = true;
        } else {
            self.memory.write(&ops)?;
        }
        let stored = self.facts.store(name);
        stored.position = Some(position);
        stored.window = progress.unwrap_or_default();
        Ok(())
    }
}

fn store_in(stores: &[Store], store: StoreIx) -> Result<&Store, StateError> {
    let unknown = StateError::UnknownStore { index: store.0, stores: stores.len() };
    stores.get(usize::from(store.0)).ok_or(unknown)
}

fn store_in_mut(stores: &mut [Store], store: StoreIx) -> Result<&mut Store, StateError> {
    let unknown = StateError::UnknownStore { index: store.0, stores: stores.len() };
    stores.get_mut(usize::from(store.0)).ok_or(unknown)
}

/// Reads a key from the overlay, the cache, or the engine into `buffer`.
fn read<'a>(
    store: &'a mut Store,
    engine: &dyn Engine,
    memory: &MemEngine,
    key: &[u8],
    buffer: &'a mut Vec<u8>,
) -> Result<Option<&'a [u8]>, StateError> {
    let Store { spec, family, overlay, cache, .. } = store;
    match overlay.get(key) {
        Known::Value(value) => return Ok(Some(value)),
        Known::Deleted => return Ok(None),
        Known::Nothing => {}
    }
    if !spec.persistent {
        return Ok(memory.get(*family, key, buffer)?.then_some(buffer.as_slice()));
    }
    if let Some(id) = cache.find(key) {
        return Ok(cache.value(id));
    }
    let value = engine.get(*family, key, buffer)?.then_some(buffer.as_slice());
    cache.put(key, value);
    Ok(value)
}

fn append_facts<'a>(
    family: FamilyIx,
    entries: &'a [(Vec<u8>, Option<Vec<u8>>)],
    ops: &mut Vec<WriteOp<'a>>,
) {
    ops.extend(entries.iter().map(|(key, value)| match value {
        Some(value) => WriteOp::Put(family, key, value),
        None => WriteOp::Delete(family, key),
    }));
}

/// The local form of a changelog value, in the buffer if it has to be made.
fn local_value<'a>(
    format: ValueFormat,
    timestamp_ms: i64,
    value: &'a [u8],
    buffer: &'a mut Vec<u8>,
) -> &'a [u8] {
    match format {
        ValueFormat::Plain => value,
        ValueFormat::Timestamped => {
            buffer.clear();
            encode_timestamped(timestamp_ms, value, buffer);
            buffer
        }
    }
}
