//! What is kept in memory of a partition: its bounds, and the runs appended last.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::batch::{RecordBatch, Records};
use crate::local::Bounds;
use crate::wire::{Offset, Timestamp};

/// How much of what was appended last is kept decoded, over all partitions: a repartition hop in
/// the same process then reads what was just written without going to the storage.
pub(super) const TAIL_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Partition {
    /// The number of its topic.
    pub(super) topic: u32,
    pub(super) start: Offset,
    pub(super) end: Offset,
    /// The highest timestamp so far.
    pub(super) highest: Timestamp,
    tail: VecDeque<Arc<RecordBatch>>,
}

impl Partition {
    pub(super) fn new(topic: u32) -> Self {
        Self {
            topic,
            start: Offset(0),
            end: Offset(0),
            highest: Timestamp(i64::MIN),
            tail: VecDeque::new(),
        }
    }

    pub(super) fn bounds(&self) -> Bounds {
        Bounds { start: self.start, stable: self.end, end: self.end }
    }

    /// The run that holds the offset, if it is among the last ones.
    pub(super) fn recent(&self, offset: Offset) -> Option<&Arc<RecordBatch>> {
        let index = self.tail.partition_point(|b| b.next_offset() <= offset);
        self.tail.get(index).filter(|b| b.base() <= offset)
    }

    pub(super) fn remember(&mut self, batch: Arc<RecordBatch>) {
        self.tail.push_back(batch);
    }

    /// Forgets the oldest run that is kept.
    pub(super) fn forget_oldest(&mut self) {
        self.tail.pop_front();
    }
}

/// The bytes a run takes in memory.
pub(super) fn weight(batch: &RecordBatch) -> usize {
    batch.byte_len() + batch.len() * 32
}
