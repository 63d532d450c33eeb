//! What the log asks of the storage below it: ordered bytes in a few families, written in atomic
//! batches.

use std::fmt;

use crate::ports::PortResult;

/// A part of the storage with its own keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Family {
    /// Format, topics, ends, transactional ids.
    Meta,
    /// Runs of records, by topic, partition and first offset.
    Records,
    /// Where a partition's highest timestamp rises, by topic, partition and timestamp.
    Times,
    /// Committed offsets, by group, topic and partition.
    Offsets,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Put(Family, Vec<u8>, Vec<u8>),
    Delete(Family, Vec<u8>),
    /// From the first key up to but without the second.
    DeleteRange(Family, Vec<u8>, Vec<u8>),
}

/// Changes that happen together or not at all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Changes(pub(crate) Vec<Change>);

impl Changes {
    pub(crate) fn put(&mut self, family: Family, key: Vec<u8>, value: Vec<u8>) {
        self.0.push(Change::Put(family, key, value));
    }

    pub(crate) fn delete(&mut self, family: Family, key: Vec<u8>) {
        self.0.push(Change::Delete(family, key));
    }

    pub(crate) fn delete_range(&mut self, family: Family, from: Vec<u8>, to: Vec<u8>) {
        self.0.push(Change::DeleteRange(family, from, to));
    }
}

/// How sure a write has to be when the call returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Write {
    /// It survives the death of the process.
    Process,
    /// It survives the loss of power.
    Sync,
}

/// What a scan calls with each key and value.
pub(crate) type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> PortResult<Scan> + 'a;

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

pub(crate) trait Storage: Send + Sync + fmt::Debug {
    fn get(&self, family: Family, key: &[u8]) -> PortResult<Option<Vec<u8>>>;

    /// The first entry at or after the key.
    fn seek(&self, family: Family, key: &[u8]) -> PortResult<Option<Pair>>;

    /// The last entry at or before the key.
    fn seek_back(&self, family: Family, key: &[u8]) -> PortResult<Option<Pair>>;

    /// All entries from the first key up to but without the second, one by one, until `each` has
    /// had enough.
    fn scan(&self, family: Family, from: &[u8], to: &[u8], each: &mut Visit<'_>) -> PortResult<()>;

    /// Writes all changes or none; an error may mean either.
    fn write(&self, changes: Changes, write: Write) -> PortResult<()>;
}

/// Does a scan go on?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scan {
    Next,
    Enough,
}
