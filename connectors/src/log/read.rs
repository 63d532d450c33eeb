//! Reading: from what was appended last, from what the reader holds, or from the storage.

use std::sync::Arc;

use super::engine::LogEngine;
use super::format;
use super::storage::Family;
use crate::batch::{BatchSlice, RecordBatch, Records};
use crate::local::{Engine, FetchedRun, Held};
use crate::ports::{PortError, PortErrorKind, PortResult};
use crate::wire::{Offset, Timestamp, TopicPartition};

impl LogEngine {
    /// Reads from `position`; nothing at the end.
    pub(super) fn read(
        &self,
        tp: &TopicPartition,
        position: Offset,
        held: &mut Option<Held>,
        max_records: usize,
    ) -> PortResult<Option<FetchedRun>> {
        let bounds = self.bounds(tp)?;
        bounds.check(tp, position)?;
        if position >= bounds.end {
            *held = None;
            return Ok(None);
        }
        let run = self.run_at(tp, position, held.as_ref())?;
        let from = run.batch.index_of(position);
        let to = run.batch.len().min(from + max_records);
        let batch = Arc::clone(&run.batch);
        let next = if to < run.batch.len() {
            let next = run.batch.get(to).offset;
            *held = Some(run);
            next
        } else {
            *held = None;
            run.batch.next_offset()
        };
        Ok(Some(FetchedRun { records: BatchSlice::new(batch, from..to), next }))
    }

    /// The first record that is not older than the time.
    pub(super) fn first_not_before(
        &self,
        tp: &TopicPartition,
        time: Timestamp,
    ) -> PortResult<Option<Offset>> {
        let (topic, bounds, highest) = {
            let state = self.state();
            let partition = state.catalog.partition(tp)?;
            (partition.topic, partition.bounds(), partition.highest)
        };
        if highest < time {
            return Ok(None);
        }
        let key = format::time_key(topic, tp.partition, time);
        let found = self.storage.seek(Family::Times, &key)?;
        let found = found.filter(|(key, _)| format::is_of(key, topic, tp.partition));
        let first = found.and_then(|(_, value)| format::offset_of(&value));
        // The record sought lies in the first run that rose above the time. When that one is
        // deleted, any later may hold it.
        let mut from = first.unwrap_or_default().max(bounds.start);
        while from < bounds.end {
            let run = self.run_at(tp, from, None)?;
            if let Some(offset) = run.batch.first_not_before(time, from) {
                return Ok(Some(offset));
            }
            from = run.batch.next_offset();
        }
        Ok(None)
    }

    /// The run that holds an offset which lies within the bounds, and the number of its topic.
    fn run_at(&self, tp: &TopicPartition, offset: Offset, held: Option<&Held>) -> PortResult<Held> {
        let state = self.state();
        let partition = state.catalog.partition(tp)?;
        partition.bounds().check(tp, offset)?;
        let topic = partition.topic;
        if let Some(batch) = partition.recent(offset) {
            let batch = Arc::clone(batch);
            return Ok(Held { topic, batch });
        }
        drop(state);
        let holds = |b: &RecordBatch| b.base() <= offset && offset < b.next_offset();
        if let Some(held) = held.filter(|h| h.topic == topic && holds(&h.batch)) {
            return Ok(held.clone());
        }
        let key = format::run_key(topic, tp.partition, offset);
        let found = match self.storage.get(Family::Records, &key)? {
            Some(blob) => Some((key, blob)),
            None => self.storage.seek_back(Family::Records, &key)?,
        };
        let run = found
            .filter(|(key, _)| format::is_of(key, topic, tp.partition))
            .and_then(|(key, blob)| format::run_of(format::base_of(&key)?, &blob));
        match run.filter(holds) {
            Some(batch) => Ok(Held { topic, batch: Arc::new(batch) }),
            None => {
                // It may have been deleted since the bounds were looked at.
                self.bounds(tp)?.check(tp, offset)?;
                Err(self.corrupt(tp, offset))
            }
        }
    }

    fn corrupt(&self, tp: &TopicPartition, offset: Offset) -> PortError {
        PortError::new(
            PortErrorKind::Corrupt,
            format!(
                "the record at offset {offset} of {tp} in the log {:?} is unreadable: its run is missing or \
                 its checksum is wrong; restore the directory from a copy, or delete records before a later offset",
                self.place
            ),
        )
    }
}
