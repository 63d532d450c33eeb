//! An engine that keeps everything on disk, in RocksDB.

use std::path::{Path, PathBuf};

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DBCompressionType,
    DBRawIteratorWithThreadMode, DBRecoveryMode, DBWithThreadMode, DataBlockIndexType, ErrorKind,
    FlushOptions, LogLevel, Options, ReadOptions, SingleThreaded, WriteBatch, WriteBufferManager,
    WriteOptions,
};

use crate::{
    Direction, Engine, EngineCursor, Entry, FACTS_FAMILY, FamilyIx, KeyRange, StateError, WriteOp,
    WriteOps,
};

type Db = DBWithThreadMode<SingleThreaded>;

/// What all engines of a process share, and how big things get.
///
/// Make one per process and pass clones of it: the block cache and the memory for fresh writes are
/// shared between all tasks, so their number does not decide how much memory is used.
#[derive(Clone)]
pub struct RocksOptions {
    block_cache: Cache,
    write_buffers: WriteBufferManager,
    write_buffer_bytes: usize,
}

impl RocksOptions {
    /// Room for blocks read from disk, in all tasks together.
    pub const BLOCK_CACHE_BYTES: usize = 64 << 20;
    /// Room for writes not yet moved to their final place, in all tasks together. Beyond it they are
    /// moved; nobody waits.
    pub const WRITE_BUFFERS_BYTES: usize = 64 << 20;
    /// Room for such writes in one store, at most and at least.
    const WRITE_BUFFER_BYTES: usize = 16 << 20;
    const WRITE_BUFFER_BYTES_MIN: usize = 1 << 20;

    /// Sets the two shared limits.
    #[must_use]
    pub fn new(block_cache_bytes: usize, write_buffers_bytes: usize) -> Self {
        Self {
            // Not the LRU cache: cut into 64 parts, a small one has no room for a table's filter.
            block_cache: Cache::new_hyper_clock_cache(block_cache_bytes, 0),
            write_buffers: WriteBufferManager::new_write_buffer_manager(write_buffers_bytes, false),
            write_buffer_bytes: Self::WRITE_BUFFER_BYTES.min(write_buffers_bytes),
        }
    }

    /// The options of each of that many tasks, which share the two limits: a task's part of them decides what an idle store holds.
    #[must_use]
    pub fn shared_by(&self, tasks: usize) -> Self {
        let all = self.write_buffers.get_buffer_size();
        let part = all / tasks.max(1);
        let part = part.clamp(Self::WRITE_BUFFER_BYTES_MIN, Self::WRITE_BUFFER_BYTES).min(all);
        Self { write_buffer_bytes: part, ..self.clone() }
    }

    /// By how much a store's memory for fresh writes grows, and what is written to a file at once.
    fn step_bytes(&self) -> usize {
        self.write_buffer_bytes / 64
    }

    /// What concerns a whole database. Correctness hangs on atomic flush: a batch touches several
    /// families, and without it a crash may keep one family's part and lose another's.
    fn database(&self) -> Options {
        let mut options = self.family(FACTS_FAMILY);
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.set_atomic_flush(true);
        options.set_paranoid_checks(true);
        options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
        options.set_write_buffer_manager(&self.write_buffers);
        // Many small databases in one process: few threads, few open files, quiet logs.
        options.set_max_background_jobs(2);
        options.set_max_open_files(128);
        // By default room for 64 threads that look for files at once.
        options.set_table_cache_num_shard_bits(1);
        // A part of it is taken when a file is opened.
        options.set_writable_file_max_buffer_size(self.step_bytes() as u64);
        options.set_log_level(LogLevel::Warn);
        options.set_keep_log_file_num(1);
        options.set_max_log_file_size(1 << 20);
        options.set_stats_dump_period_sec(0);
        options.set_stats_persist_period_sec(0);
        options
    }

    /// What concerns one family.
    fn family(&self, name: &str) -> Options {
        const FILTER_BITS_PER_KEY: f64 = 10.0;
        /// Part of a write buffer, taken at once. A read that finds nothing in it costs a third less.
        const BUFFER_FILTER_RATIO: f64 = 0.01;
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&self.block_cache);
        table.set_cache_index_and_filter_blocks(true);
        table.set_cache_index_and_filter_blocks_with_high_priority(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        table.set_bloom_filter(FILTER_BITS_PER_KEY, false);
        table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        let mut options = Options::default();
        options.set_block_based_table_factory(&table);
        options.set_write_buffer_size(self.write_buffer_bytes);
        options.set_max_write_buffer_number(3);
        if ![FACTS_FAMILY, rocksdb::DEFAULT_COLUMN_FAMILY_NAME].contains(&name) {
            options.set_memtable_whole_key_filtering(true);
            options.set_memtable_prefix_bloom_ratio(BUFFER_FILTER_RATIO);
        }
        // Small steps, so that an idle store holds little.
        options.set_arena_block_size(self.step_bytes().min(64 << 10));
        options.set_target_file_size_base(32 << 20);
        // Fresh levels change too often to be worth packing; most bytes lie at the bottom.
        options.set_compression_type(DBCompressionType::None);
        options.set_bottommost_compression_type(DBCompressionType::Lz4);
        options
    }
}

impl Default for RocksOptions {
    fn default() -> Self {
        Self::new(Self::BLOCK_CACHE_BYTES, Self::WRITE_BUFFERS_BYTES)
    }
}

impl std::fmt::Debug for RocksOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksOptions")
            .field("block_cache_bytes_used", &self.block_cache.get_usage())
            .field("write_buffers_bytes", &self.write_buffers.get_buffer_size())
            .finish_non_exhaustive()
    }
}

/// Keeps committed bytes in a RocksDB database, one column family per family.
///
/// A batch goes through the write-ahead log without fsync: it survives the death of the process. Against
/// the death of the machine the changelog is the durable copy; what is on disk is then still the image of
/// some commit. Batches that can be had again skip the log, and are moved to their final place before the
/// first batch that does not, so that the log never outlives what it builds on.
pub struct RocksEngine {
    db: Db,
    dir: PathBuf,
    options: RocksOptions,
    /// Column families by [`FamilyIx`].
    families: Vec<String>,
    /// Whether batches skipped the log since the last flush.
    unlogged: bool,
}

impl RocksEngine {
    /// Opens the database in `dir`, making it and the families that are missing.
    ///
    /// # Errors
    /// If the directory cannot be used ([`StateError::Engine`]), another process has it open, or what is
    /// in it is damaged ([`StateError::Corrupted`]).
    pub fn open(
        dir: impl AsRef<Path>,
        families: &[&str],
        options: &RocksOptions,
    ) -> Result<Self, StateError> {
        let dir = dir.as_ref();
        let database = options.database();
        let failed = |error| failure(format!("open the database in '{}'", dir.display()), error);
        // All families of a database have to be opened, also those that no store uses any more.
        let mut names = if dir.join("CURRENT").exists() {
            Db::list_cf(&database, dir).map_err(failed)?
        } else {
            vec![rocksdb::DEFAULT_COLUMN_FAMILY_NAME.to_owned()]
        };
        for family in families {
            if !names.iter().any(|name| name == family) {
                names.push((*family).to_owned());
            }
        }
        let descriptors =
            names.iter().map(|name| ColumnFamilyDescriptor::new(name, options.family(name)));
        let db = Db::open_cf_descriptors(&database, dir, descriptors).map_err(failed)?;
        Ok(Self {
            db,
            dir: dir.to_owned(),
            options: options.clone(),
            families: names,
            unlogged: false,
        })
    }

    fn handle(&self, family: FamilyIx) -> &ColumnFamily {
        let name = &self.families[usize::from(family.0)];
        self.db.cf_handle(name).expect("families are opened before they are numbered")
    }

    fn failed(&self, action: &'static str) -> impl Fn(rocksdb::Error) -> StateError {
        move |error| failure(format!("{action} the database in '{}'", self.dir.display()), error)
    }

    fn cursor(
        &self,
        family: FamilyIx,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<RocksCursor<'_>, StateError> {
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(range.from());
        if let Some(to) = range.to() {
            options.set_iterate_upper_bound(to);
        }
        let mut inner = self.db.raw_iterator_cf_opt(self.handle(family), options);
        match direction {
            _ if range.is_empty() => {}
            Direction::Forward => inner.seek_to_first(),
            Direction::Reverse => inner.seek_to_last(),
        }
        let cursor = RocksCursor { inner, direction, engine: self };
        cursor.check()?;
        Ok(cursor)
    }

    /// Deletes from `from` to the last key there is.
    fn delete_to_end(
        &self,
        batch: &mut WriteBatch,
        family: FamilyIx,
        from: &[u8],
    ) -> Result<(), StateError> {
        let range = KeyRange::half_open(from, None);
        let last = self.cursor(family, &range, Direction::Reverse)?;
        if let Some((last, _)) = last.entry() {
            batch.delete_range_cf(self.handle(family), from, [last, &[0]].concat().as_slice());
        }
        Ok(())
    }
}

impl Engine for RocksEngine {
    fn family(&mut self, name: &str) -> Result<FamilyIx, StateError> {
        let found = self.families.iter().position(|known| known == name);
        let index = if let Some(index) = found {
            index
        } else {
            let made = self.db.create_cf(name, &self.options.family(name));
            made.map_err(|error| {
                failure(format!("add store '{name}' to '{}'", self.dir.display()), error)
            })?;
            self.families.push(name.to_owned());
            self.families.len() - 1
        };
        Ok(FamilyIx(u16::try_from(index).expect("a task has fewer than 65536 stores")))
    }

    fn get(&self, family: FamilyIx, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StateError> {
        let found =
            self.db.get_pinned_cf(self.handle(family), key).map_err(self.failed("read from"))?;
        value.clear();
        value.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }

    fn iterate<'a>(
        &'a self,
        family: FamilyIx,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn EngineCursor + 'a>, StateError> {
        Ok(Box::new(self.cursor(family, range, direction)?))
    }

    fn write(&mut self, ops: &WriteOps<'_>) -> Result<(), StateError> {
        if ops.ops.is_empty() {
            return Ok(());
        }
        if self.unlogged && !ops.restorable {
            self.flush()?;
        }
        let mut batch = WriteBatch::default();
        for op in &ops.ops {
            match *op {
                WriteOp::Put(family, key, value) => batch.put_cf(self.handle(family), key, value),
                WriteOp::Delete(family, key) => batch.delete_cf(self.handle(family), key),
                WriteOp::DeleteRange(family, from, Some(to)) => {
                    batch.delete_range_cf(self.handle(family), from, to);
                }
                WriteOp::DeleteRange(family, from, None) => {
                    self.delete_to_end(&mut batch, family, from)?;
                }
            }
        }
        let mut options = WriteOptions::default();
        options.disable_wal(ops.restorable);
        self.db.write_opt(batch, &options).map_err(self.failed("write to"))?;
        self.unlogged |= ops.restorable;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StateError> {
        let handles: Vec<&ColumnFamily> =
            self.families.iter().filter_map(|name| self.db.cf_handle(name)).collect();
        let handles: Vec<_> = handles.iter().collect();
        self.db.flush_cfs_opt(&handles, &FlushOptions::default()).map_err(self.failed("flush"))?;
        self.unlogged = false;
        Ok(())
    }

    fn approximate_entries(&self, family: FamilyIx) -> Result<u64, StateError> {
        const ESTIMATE: &str = "rocksdb.estimate-num-keys";
        let count = self.db.property_int_value_cf(self.handle(family), ESTIMATE);
        Ok(count.map_err(self.failed("read from"))?.unwrap_or(0))
    }
}

struct RocksCursor<'a> {
    inner: DBRawIteratorWithThreadMode<'a, Db>,
    direction: Direction,
    engine: &'a RocksEngine,
}

impl RocksCursor<'_> {
    fn check(&self) -> Result<(), StateError> {
        if self.inner.valid() {
            return Ok(());
        }
        self.inner.status().map_err(self.engine.failed("read from"))
    }
}

impl EngineCursor for RocksCursor<'_> {
    fn entry(&self) -> Option<Entry<'_>> {
        self.inner.item()
    }

    fn advance(&mut self) -> Result<(), StateError> {
        if self.inner.valid() {
            match self.direction {
                Direction::Forward => self.inner.next(),
                Direction::Reverse => self.inner.prev(),
            }
        }
        self.check()
    }
}

/// Is it the system's error of a full disk? RocksDB tells it apart in its text only.
fn is_full(text: &str) -> bool {
    ["No space left on device", "Disk quota exceeded"].iter().any(|reason| text.contains(reason))
}

/// Sorts RocksDB's errors by what can be done about them.
fn failure(action: String, error: rocksdb::Error) -> StateError {
    let kind = error.kind();
    let is_full = is_full(error.as_ref());
    let source = Box::new(error);
    match kind {
        _ if is_full => StateError::DiskFull { action, source },
        ErrorKind::Corruption => StateError::Corrupted { action, source },
        ErrorKind::Busy
        | ErrorKind::TimedOut
        | ErrorKind::TryAgain
        | ErrorKind::MergeInProgress => StateError::Busy { action, source },
        _ => StateError::Engine { action, source },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test panics on failure")]

    use super::*;

    /// What a store with one entry takes of the memory for fresh writes, beside others of so many tasks.
    fn taken_by_one_entry(tasks: usize) -> usize {
        let options = RocksOptions::default().shared_by(tasks);
        let dir = tempfile::tempdir().unwrap();
        let mut engine = RocksEngine::open(dir.path(), &["s"], &options).unwrap();
        let family = engine.family("s").unwrap();
        let ops = vec![WriteOp::Put(family, b"key", b"value")];
        engine.write(&WriteOps { ops, restorable: false }).unwrap();
        options.write_buffers.get_usage()
    }

    #[test]
    fn the_more_tasks_share_the_memory_for_writes_the_less_an_idle_store_takes() {
        let (alone, among_many) = (taken_by_one_entry(1), taken_by_one_entry(5_000));
        assert!(among_many > 0 && among_many * 4 < alone, "{among_many} of many, {alone} alone");
        let part = |tasks| RocksOptions::default().shared_by(tasks).write_buffer_bytes;
        assert_eq!([1, 4, 8, 5_000].map(part), [16 << 20, 16 << 20, 8 << 20, 1 << 20]);
    }
    #[test]
    fn a_full_disk_ends_the_run_and_says_so() {
        assert!(is_full("IO error: No space left on device: While appending to file: 000012.log"));
        assert!(!is_full("IO error: No such file or directory"));
        let source = Box::from("IO error: No space left on device");
        let error = StateError::DiskFull { action: "write to `counts`".to_owned(), source };
        assert_eq!(error.class(), crate::ErrorClass::Fatal);
        assert!(error.to_string().contains("make room and start again"), "{error}");
    }
}
