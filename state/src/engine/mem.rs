//! An engine that keeps everything in memory.

use crate::bytemap::{ByteMap, Cursor};
use crate::{
    Direction, Engine, EngineCursor, Entry, FamilyIx, KeyRange, StateError, WriteOp, WriteOps,
};

/// Keeps committed bytes in memory; what it holds is lost with it.
///
/// A clone is a copy of its own, so a test can keep the state of one moment.
#[derive(Debug, Clone, Default)]
pub struct MemEngine {
    families: Vec<(String, ByteMap)>,
}

impl MemEngine {
    /// Makes an empty engine.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn map(&self, family: FamilyIx) -> &ByteMap {
        &self.families[usize::from(family.0)].1
    }

    fn map_mut(&mut self, family: FamilyIx) -> &mut ByteMap {
        &mut self.families[usize::from(family.0)].1
    }
}

impl Engine for MemEngine {
    fn family(&mut self, name: &str) -> Result<FamilyIx, StateError> {
        let found = self.families.iter().position(|(known, _)| known == name);
        let index = found.unwrap_or_else(|| {
            self.families.push((name.to_owned(), ByteMap::default()));
            self.families.len() - 1
        });
        Ok(FamilyIx(u16::try_from(index).expect("a task has fewer than 65536 stores")))
    }

    fn get(&self, family: FamilyIx, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StateError> {
        value.clear();
        let found = self.map(family).get(key).flatten();
        value.extend_from_slice(found.unwrap_or_default());
        Ok(found.is_some())
    }

    fn iterate<'a>(
        &'a self,
        family: FamilyIx,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn EngineCursor + 'a>, StateError> {
        Ok(Box::new(MemCursor(self.map(family).cursor(range, direction))))
    }

    fn write(&mut self, ops: &WriteOps<'_>) -> Result<(), StateError> {
        for op in &ops.ops {
            match *op {
                WriteOp::Put(family, key, value) => {
                    self.map_mut(family).set(key, Some(value));
                }
                WriteOp::Delete(family, key) => self.map_mut(family).remove(key),
                WriteOp::DeleteRange(family, from, to) => {
                    let range = KeyRange::half_open(from, to.map(<[u8]>::to_vec));
                    self.map_mut(family).remove_range(&range);
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StateError> {
        Ok(())
    }

    fn in_memory(&self) -> bool {
        true
    }

    fn approximate_entries(&self, family: FamilyIx) -> Result<u64, StateError> {
        Ok(self.map(family).len() as u64)
    }
}

struct MemCursor<'a>(Cursor<'a>);

impl EngineCursor for MemCursor<'_> {
    fn entry(&self) -> Option<Entry<'_>> {
        // Every entry of an engine has a value: a delete removes the key.
        self.0.entry().map(|(key, value)| (key, value.unwrap_or_default()))
    }

    fn advance(&mut self) -> Result<(), StateError> {
        self.0.advance();
        Ok(())
    }
}
