//! The storage on RocksDB, and who has a directory open.
//!
//! ```text
//! PATH/owner   locked while the log is open; holds the process id
//! PATH/db/     RocksDB: a column family per `Family`
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType,
    Direction, ErrorKind, IteratorMode, Options, WriteBatch, WriteOptions,
};

use super::LogOptions;
use super::engine::LogEngine;
use super::storage::{Change, Changes, Family, Pair, Scan, Storage, Visit, Write};
use crate::local::lock;
use crate::ports::{Clock, PortError, PortErrorKind, PortResult};

/// Memory for records that are not in a file yet. Larger costs memory, smaller costs more and
/// smaller files.
const MEMTABLE_BYTES: usize = 32 * 1024 * 1024;
/// All other families are small.
const SMALL_MEMTABLE_BYTES: usize = 4 * 1024 * 1024;
/// Index blocks and small entries; runs are not cached, the operating system does that.
const BLOCK_CACHE_BYTES: usize = 8 * 1024 * 1024;
/// Runs of this size lie in files of their own, so that compaction does not copy them again and
/// again.
const BLOB_BYTES_MIN: u64 = 4 * 1024;
const OPEN_FILES_MAX: i32 = 256;

const FAMILIES: [Family; 4] = [Family::Meta, Family::Records, Family::Times, Family::Offsets];

/// The logs that this process has open, by canonical path.
static OPEN: Mutex<BTreeMap<PathBuf, Weak<LogEngine>>> = Mutex::new(BTreeMap::new());
static CLOSED: Condvar = Condvar::new();

/// Opens the log in a directory, or shares it when this process has it open already.
pub(super) fn open(
    path: &Path,
    options: &LogOptions,
    clock: Arc<dyn Clock>,
) -> PortResult<Arc<LogEngine>> {
    let path = make_directory(path)?;
    let mut open = lock(&OPEN);
    while let Some(engine) = open.get(&path) {
        if let Some(engine) = engine.upgrade() {
            drop(open);
            return share(engine, &path, options);
        }
        // Somebody is closing it at this moment.
        open = CLOSED.wait(open).unwrap_or_else(PoisonError::into_inner);
    }
    let storage = RocksStorage::open(&path)?;
    let place = path.display().to_string();
    let mut engine = LogEngine::open(Box::new(storage), place, options, clock)?;
    engine._keep = Some(Box::new(Registration(path.clone())));
    let engine = Arc::new(engine);
    open.insert(path, Arc::downgrade(&engine));
    Ok(engine)
}

fn share(engine: Arc<LogEngine>, path: &Path, options: &LogOptions) -> PortResult<Arc<LogEngine>> {
    if engine.durability() == options.durability {
        return Ok(engine);
    }
    Err(PortError::new(
        PortErrorKind::Refused,
        format!(
            "this process has the log {} open with durability {} already: open it with the same",
            path.display(),
            engine.durability()
        ),
    ))
}

/// Makes the directory if it is missing; its canonical path.
fn make_directory(path: &Path) -> PortResult<PathBuf> {
    let failed = |error: std::io::Error| {
        PortError::new(
            PortErrorKind::Refused,
            format!(
                "cannot use {} as the directory of a log: {error}; choose another path or change its permissions",
                path.display()
            ),
        )
        .caused_by(error)
    };
    if !path.is_dir() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(failed)?;
    }
    path.canonicalize().map_err(failed)
}

/// Takes the directory for this process.
fn take_ownership(path: &Path) -> PortResult<File> {
    let file = path.join("owner");
    let failed = |error: std::io::Error| {
        PortError::new(
            PortErrorKind::Refused,
            format!(
                "cannot write {}: {error}; change its permissions or choose another path",
                file.display()
            ),
        )
        .caused_by(error)
    };
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true);
    let mut owner = options.open(&file).map_err(failed)?;
    match owner.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            // What the owner wrote helps, but the answer does not depend on it.
            owner.read_to_string(&mut pid).ok();
            let pid = match pid.trim() {
                "" => "unknown".to_owned(),
                pid => pid.to_owned(),
            };
            return Err(PortError::new(
                PortErrorKind::Busy,
                format!(
                    "another process (process id {pid}) has the log {} open: stop it or use another directory",
                    path.display()
                ),
            ));
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    owner.set_len(0).map_err(failed)?;
    owner.rewind().map_err(failed)?;
    writeln!(owner, "{}", std::process::id()).map_err(failed)?;
    Ok(owner)
}

/// An entry of [`OPEN`], removed when the log is closed.
struct Registration(PathBuf);

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&OPEN).remove(&self.0);
        CLOSED.notify_all();
    }
}

/// Fields are dropped in this order: the database is closed before another process may open it.
struct RocksStorage {
    db: DB,
    path: PathBuf,
    _owner: File,
}

impl fmt::Debug for RocksStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RocksStorage").field(&self.path).finish()
    }
}

fn name(family: Family) -> &'static str {
    match family {
        Family::Meta => "meta",
        Family::Records => "records",
        Family::Times => "times",
        Family::Offsets => "offsets",
    }
}

fn database_options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    // All families are flushed together: a crash leaves an image of some earlier commit, never a
    // mix.
    options.set_atomic_flush(true);
    options.set_max_open_files(OPEN_FILES_MAX);
    options.set_max_background_jobs(2);
    options.set_bytes_per_sync(1024 * 1024);
    options.set_keep_log_file_num(2);
    options.set_log_level(rocksdb::LogLevel::Warn);
    options.set_stats_dump_period_sec(0);
    options
}

fn family_options(family: Family, cache: &Cache) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    let mut options = Options::default();
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::None);
    options.set_write_buffer_size(SMALL_MEMTABLE_BYTES);
    if family == Family::Records {
        options.set_write_buffer_size(MEMTABLE_BYTES);
        options.set_enable_blob_files(true);
        options.set_min_blob_size(BLOB_BYTES_MIN);
        options.set_blob_compression_type(DBCompressionType::Lz4);
        options.set_enable_blob_gc(true);
    }
    options
}

impl RocksStorage {
    fn open(path: &Path) -> PortResult<Self> {
        let owner = take_ownership(path)?;
        let cache = Cache::new_lru_cache(BLOCK_CACHE_BYTES);
        let family = |f| ColumnFamilyDescriptor::new(name(f), family_options(f, &cache));
        let families = FAMILIES.map(family);
        let db = DB::open_cf_descriptors(&database_options(), path.join("db"), families);
        let db = db.map_err(|e| failed(path, "open", e))?;
        Ok(Self { db, path: path.to_owned(), _owner: owner })
    }

    fn family(&self, family: Family) -> &ColumnFamily {
        let handle = self.db.cf_handle(name(family));
        handle.expect("every family was opened with the database")
    }

    fn first(&self, family: Family, mode: IteratorMode<'_>) -> PortResult<Option<Pair>> {
        let mut entries = self.db.iterator_cf(self.family(family), mode);
        let first = entries.next().transpose();
        let first = first.map_err(|e| failed(&self.path, "read", e))?;
        Ok(first.map(|(key, value)| (key.into_vec(), value.into_vec())))
    }
}

fn failed(path: &Path, attempt: &str, error: rocksdb::Error) -> PortError {
    let (kind, advice) = match (error.kind(), attempt) {
        (ErrorKind::Corruption, _) => {
            (PortErrorKind::Corrupt, "restore the directory from a copy, or use another one")
        }
        (_, "write") => {
            (PortErrorKind::Unknown, "make room on the disk or repair it, then start again")
        }
        _ => (PortErrorKind::Fatal, "check the disk and the directory's permissions"),
    };
    let path = path.display();
    PortError::new(kind, format!("cannot {attempt} the log {path}: {advice}")).caused_by(error)
}

impl Storage for RocksStorage {
    fn get(&self, family: Family, key: &[u8]) -> PortResult<Option<Vec<u8>>> {
        let value = self.db.get_cf(self.family(family), key);
        value.map_err(|e| failed(&self.path, "read", e))
    }

    fn seek(&self, family: Family, key: &[u8]) -> PortResult<Option<Pair>> {
        self.first(family, IteratorMode::From(key, Direction::Forward))
    }

    fn seek_back(&self, family: Family, key: &[u8]) -> PortResult<Option<Pair>> {
        self.first(family, IteratorMode::From(key, Direction::Reverse))
    }

    fn scan(&self, family: Family, from: &[u8], to: &[u8], each: &mut Visit<'_>) -> PortResult<()> {
        let mode = IteratorMode::From(from, Direction::Forward);
        for entry in self.db.iterator_cf(self.family(family), mode) {
            let (key, value) = entry.map_err(|e| failed(&self.path, "read", e))?;
            if &*key >= to || each(&key, &value)? == Scan::Enough {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, changes: Changes, write: Write) -> PortResult<()> {
        let mut batch = WriteBatch::default();
        for change in changes.0 {
            match change {
                Change::Put(family, key, value) => batch.put_cf(self.family(family), key, value),
                Change::Delete(family, key) => batch.delete_cf(self.family(family), key),
                Change::DeleteRange(family, from, to) => {
                    batch.delete_range_cf(self.family(family), from, to);
                }
            }
        }
        let mut options = WriteOptions::default();
        options.set_sync(write == Write::Sync);
        let written = self.db.write_opt(batch, &options);
        written.map_err(|e| failed(&self.path, "write", e))
    }
}
