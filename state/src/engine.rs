//! The port to whatever keeps committed bytes.

mod mem;
#[cfg(feature = "rocksdb")]
mod rocks;

use crate::{Direction, KeyRange, StateError};

pub use mem::MemEngine;
#[cfg(feature = "rocksdb")]
pub use rocks::{RocksEngine, RocksOptions};

/// Names a family (a key space of its own) inside an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FamilyIx(pub u16);

/// Keeps committed bytes in families of sorted keys.
///
/// An engine knows nothing of uncommitted writes; those live in
/// [`TaskState`](crate::TaskState), which is the only caller of [`write`](Engine::write).
pub trait Engine: Send {
    /// Finds the family of that name, or makes it.
    ///
    /// # Errors
    /// If the family cannot be made.
    fn family(&mut self, name: &str) -> Result<FamilyIx, StateError>;

    /// Reads a value into `value`, replacing what is there, and says whether the key exists.
    ///
    /// # Errors
    /// If reading fails.
    fn get(&self, family: FamilyIx, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StateError>;

    /// Starts an iteration. The cursor stands on the first entry, if there is one.
    ///
    /// # Errors
    /// If reading fails.
    fn iterate<'a>(
        &'a self,
        family: FamilyIx,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn EngineCursor + 'a>, StateError>;

    /// Applies all operations, in order, or none of them.
    ///
    /// # Errors
    /// If writing fails; then nothing was applied.
    fn write(&mut self, ops: &WriteOps<'_>) -> Result<(), StateError>;

    /// Moves everything written so far to its final place on disk.
    ///
    /// # Errors
    /// If writing fails.
    fn flush(&mut self) -> Result<(), StateError>;

    /// Whether reading costs no more than reading a cache, and writing no less in sorted order.
    fn in_memory(&self) -> bool {
        false
    }

    /// Estimates how many entries a family has.
    ///
    /// # Errors
    /// If reading fails.
    fn approximate_entries(&self, family: FamilyIx) -> Result<u64, StateError>;
}

/// A key and its value.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// A position in an iteration over an engine's family.
pub trait EngineCursor {
    /// The entry under the cursor; `None` at the end.
    fn entry(&self) -> Option<Entry<'_>>;

    /// Moves to the next entry.
    ///
    /// # Errors
    /// If reading fails.
    fn advance(&mut self) -> Result<(), StateError>;
}

/// One operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteOp<'a> {
    /// Sets a value.
    Put(FamilyIx, &'a [u8], &'a [u8]),
    /// Removes a key.
    Delete(FamilyIx, &'a [u8]),
    /// Removes the keys from the first up to, but without, the second; `None` is the end of all. In a
    /// batch it comes before any put into its family.
    DeleteRange(FamilyIx, &'a [u8], Option<&'a [u8]>),
}

/// A batch: applied in order, all or nothing.
#[derive(Debug, Clone, Default)]
pub struct WriteOps<'a> {
    /// The operations.
    pub ops: Vec<WriteOp<'a>>,
    /// Whether the batch can be had again from elsewhere (a changelog), so that it may skip the
    /// engine's write-ahead log. What the log holds never survives without it all the same.
    pub restorable: bool,
}
