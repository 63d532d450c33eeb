//! One partition: runs of records, the transactions open on it, and where readers have to stop.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::batch::{BatchSlice, RecordBatch, Records};
use crate::local::{Bounds, FetchedRun};
use crate::ports::{Isolation, PortResult};
use crate::wire::{Offset, Timestamp, TopicPartition};

/// What became of the transaction that a run belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Fate {
    Committed,
    /// Of the transactional id.
    Open(Arc<str>),
    Aborted,
}

#[derive(Debug)]
struct Run {
    base: Offset,
    next: Offset,
    fate: Fate,
    max_timestamp: Timestamp,
    /// The highest timestamp of this run and all before it.
    highest: Timestamp,
    batch: Arc<RecordBatch>,
}

#[derive(Debug, Default)]
pub(super) struct Partition {
    runs: VecDeque<Run>,
    start: Offset,
    end: Offset,
    /// The first offset of each open transaction.
    open: BTreeMap<Arc<str>, Offset>,
}

impl Partition {
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            start: self.start,
            stable: self.open.values().min().copied().unwrap_or(self.end),
            end: self.end,
        }
    }

    /// Appends a batch, in the open transaction of an id if there is one. Tells the offset after
    /// it.
    pub(super) fn append(&mut self, mut batch: RecordBatch, id: Option<&Arc<str>>) -> Offset {
        batch.set_base(self.end);
        let max_timestamp = batch.max_timestamp();
        let before = self.runs.back().map_or(Timestamp::NONE, |r| r.highest);
        if let Some(id) = id {
            self.open.entry(Arc::clone(id)).or_insert(self.end);
        }
        let run = Run {
            base: self.end,
            next: batch.next_offset(),
            fate: id.map_or(Fate::Committed, |id| Fate::Open(Arc::clone(id))),
            max_timestamp,
            highest: max_timestamp.max(before),
            batch: Arc::new(batch),
        };
        self.end = run.next;
        self.runs.push_back(run);
        self.end
    }

    /// Ends the id's transaction here; the marker takes an offset.
    pub(super) fn end_transaction(&mut self, id: &Arc<str>, commit: bool) {
        let Some(first) = self.open.remove(id) else {
            return;
        };
        let fate = if commit { Fate::Committed } else { Fate::Aborted };
        let from = self.runs.partition_point(|r| r.base < first);
        let mine = self.runs.iter_mut().skip(from);
        for run in mine.filter(|r| matches!(&r.fate, Fate::Open(of) if of == id)) {
            run.fate = fate.clone();
        }
        self.end = Offset(self.end.0 + 1);
    }

    /// Removes what lies before the offset; a run goes when all of it does.
    pub(super) fn delete_before(&mut self, before: Offset) {
        self.start = self.start.max(before);
        while self.runs.front().is_some_and(|r| r.next <= self.start) {
            self.runs.pop_front();
        }
    }

    pub(super) fn fetch(
        &self,
        tp: &TopicPartition,
        position: Offset,
        isolation: Isolation,
        max_records: usize,
    ) -> PortResult<Option<FetchedRun>> {
        let bounds = self.bounds();
        bounds.check(tp, position)?;
        let limit = bounds.limit(isolation);
        if position >= limit {
            return Ok(None);
        }
        let first = self.runs.partition_point(|r| r.next <= position);
        let mut below = self.runs.range(first..).take_while(|r| r.base < limit);
        let visible =
            |run: &&Run| isolation == Isolation::ReadUncommitted || run.fate == Fate::Committed;
        let Some(run) = below.find(visible) else {
            // Only markers and aborted records lie here.
            return Ok(Some(FetchedRun { records: BatchSlice::default(), next: limit }));
        };
        let from = run.batch.index_of(position);
        let to = run.batch.len().min(from + max_records);
        let next = if to < run.batch.len() {
            run.batch.get(to).offset
        } else {
            below.find(visible).map_or(limit, |r| r.base)
        };
        Ok(Some(FetchedRun { records: BatchSlice::new(Arc::clone(&run.batch), from..to), next }))
    }

    /// The first record whose timestamp is not below `time`.
    pub(super) fn offset_for_time(&self, time: Timestamp, isolation: Isolation) -> Option<Offset> {
        let limit = self.bounds().limit(isolation);
        let first = self.runs.partition_point(|r| r.highest < time);
        let mut runs = self.runs.range(first..).take_while(|r| r.base < limit);
        runs.find_map(|run| {
            let visible = isolation == Isolation::ReadUncommitted || run.fate == Fate::Committed;
            (visible && run.max_timestamp >= time)
                .then(|| run.batch.first_not_before(time, self.start))
                .flatten()
        })
    }
}
