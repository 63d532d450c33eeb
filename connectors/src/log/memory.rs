//! Storage in memory that forgets what was not synced: a machine that loses power.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::storage::{Change, Changes, Family, Pair, Scan, Storage, Visit, Write};
use crate::local::lock;
use crate::ports::{PortError, PortErrorKind, PortResult};

type Image = BTreeMap<(Family, Vec<u8>), Vec<u8>>;

#[derive(Debug, Default)]
struct Images {
    now: Image,
    synced: Image,
    /// The next write fails; does it happen all the same?
    fails: Option<bool>,
}

/// What a log keeps when it runs in memory: [`LogBroker::on_memory`](crate::LogBroker::on_memory)
/// opens it, also again. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct LogMemory(Arc<Mutex<Images>>);

impl LogMemory {
    /// Empty memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Loses power: what was not written with [`Durability::Sync`](crate::Durability::Sync), or
    /// before such a write, is gone. Do it while no log is open on it.
    pub fn lose_power(&self) {
        let mut images = lock(&self.0);
        images.now = images.synced.clone();
    }

    /// Lets the next write fail with an unknown outcome: it happened, or it did not.
    pub fn fail_next_write(&self, happens: bool) {
        lock(&self.0).fails = Some(happens);
    }

    /// Flips bits: the stored value number `nth` (in key order, over everything stored) is changed
    /// at a byte counted modulo its length.
    pub fn flip(&self, nth: usize, byte: usize, mask: u8) {
        let mut images = lock(&self.0);
        let count = images.now.len().max(1);
        if let Some(value) = images.now.values_mut().nth(nth % count) {
            let length = value.len().max(1);
            if let Some(b) = value.get_mut(byte % length) {
                *b ^= mask;
            }
        }
    }
}

impl Storage for LogMemory {
    fn get(&self, family: Family, key: &[u8]) -> PortResult<Option<Vec<u8>>> {
        let images = lock(&self.0);
        Ok(images.now.get(&(family, key.to_vec())).cloned())
    }

    fn seek(&self, family: Family, key: &[u8]) -> PortResult<Option<Pair>> {
        let images = lock(&self.0);
        let mut after = images.now.range((family, key.to_vec())..);
        Ok(after.next().and_then(|entry| pair(family, entry)))
    }

    fn seek_back(&self, family: Family, key: &[u8]) -> PortResult<Option<Pair>> {
        let images = lock(&self.0);
        let mut before = images.now.range(..=(family, key.to_vec()));
        Ok(before.next_back().and_then(|entry| pair(family, entry)))
    }

    fn scan(&self, family: Family, from: &[u8], to: &[u8], each: &mut Visit<'_>) -> PortResult<()> {
        let images = lock(&self.0);
        for ((_, key), value) in images.now.range((family, from.to_vec())..(family, to.to_vec())) {
            if each(key, value)? == Scan::Enough {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, changes: Changes, write: Write) -> PortResult<()> {
        let mut images = lock(&self.0);
        let failure = images.fails.take().map(|happens| {
            (happens, PortError::new(PortErrorKind::Unknown, "cannot write the log \"memory\""))
        });
        if let Some((false, error)) = failure {
            return Err(error);
        }
        for change in changes.0 {
            match change {
                Change::Put(family, key, value) => {
                    images.now.insert((family, key), value);
                }
                Change::Delete(family, key) => {
                    images.now.remove(&(family, key));
                }
                Change::DeleteRange(family, from, to) => {
                    let range = (family, from)..(family, to);
                    images.now.retain(|key, _| !range.contains(key));
                }
            }
        }
        if write == Write::Sync {
            images.synced = images.now.clone();
        }
        failure.map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// An entry, unless it is of another family.
fn pair(family: Family, entry: (&(Family, Vec<u8>), &Vec<u8>)) -> Option<Pair> {
    let ((of, key), value) = entry;
    (*of == family).then(|| (key.clone(), value.clone()))
}
