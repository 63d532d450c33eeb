//! Appending: batches get their offsets, and a transaction becomes one write.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use super::engine::{LogEngine, State};
use super::format;
use super::partition::{TAIL_BYTES_MAX, weight};
use super::storage::{Changes, Family};
use crate::batch::RecordBatch;
use crate::local::{Ended, Owner, lock};
use crate::ports::{Acknowledged, CommittedOffset, PortResult};
use crate::wire::{Offset, Timestamp, TopicPartition};

/// A batch that has been handed over: without offsets still, but encoded.
#[derive(Debug)]
pub(super) struct Stashed {
    tp: TopicPartition,
    batch: RecordBatch,
    blob: Vec<u8>,
}

/// Where batches go: what is written, and what then changes in memory.
#[derive(Default)]
struct Placement {
    changes: Changes,
    batches: Vec<(TopicPartition, RecordBatch)>,
    ends: BTreeMap<TopicPartition, PlacedEnd>,
}

#[derive(Clone, Copy)]
struct PlacedEnd {
    topic: u32,
    end: Offset,
    highest: Timestamp,
}

impl LogEngine {
    /// Decides where batches go. The caller holds the writing lock.
    fn place(&self, state: &State, stashed: Vec<Stashed>) -> PortResult<Placement> {
        let mut placement = Placement::default();
        let Placement { changes, batches, ends } = &mut placement;
        for Stashed { tp, mut batch, blob } in stashed {
            let partition = state.catalog.partition(&tp)?;
            let end = ends.entry(tp.clone()).or_insert(PlacedEnd {
                topic: partition.topic,
                end: partition.end,
                highest: partition.highest,
            });
            batch.set_base(end.end);
            let key = format::run_key(end.topic, tp.partition, end.end);
            changes.put(Family::Records, key, blob);
            let highest = batch.max_timestamp();
            if highest > end.highest {
                end.highest = highest;
                let key = format::time_key(end.topic, tp.partition, highest);
                changes.put(Family::Times, key, format::offset_value(end.end));
            }
            end.end = batch.next_offset();
            batches.push((tp, batch));
        }
        for (tp, end) in ends {
            let key = format::end_key(end.topic, tp.partition);
            changes.put(Family::Meta, key, format::offset_value(end.end));
        }
        Ok(placement)
    }

    /// Carries out commits that were delayed. Only a planned fault delays one, and nobody waits for
    /// its answer. The caller holds the writing lock.
    pub(super) fn commit_late(&self, state: &mut State, ended: Ended<Vec<Stashed>>) {
        let placed = self.place(state, ended.work).and_then(|mut placement| {
            note_commit(&mut placement.changes, state, &ended.owner, &ended.offsets);
            let changes = mem::take(&mut placement.changes);
            self.store(changes)?;
            Ok(placement)
        });
        match placed {
            Ok(placement) => {
                state.publish(placement);
                state.count_commit(&ended.owner);
                for (group, offsets) in ended.offsets {
                    state.coordinator.commit_offsets(&group, offsets);
                }
            }
            Err(error) => tracing::warn!(%error, "a delayed commit failed"),
        }
    }

    /// Encodes batches, stamped.
    pub(super) fn stash(
        &self,
        batches: Vec<(TopicPartition, RecordBatch)>,
    ) -> PortResult<Vec<Stashed>> {
        let now = self.shared.clock.now();
        let mut stamps = Vec::with_capacity(batches.len());
        {
            let state = self.state();
            for (tp, _) in &batches {
                stamps.push(state.catalog.stamps(tp)?);
            }
        }
        let stash = |((tp, mut batch), stamps): ((_, RecordBatch), bool)| {
            if stamps {
                batch.restamp(now);
            } else {
                batch.stamp(now);
            }
            let blob = format::run_value(&batch);
            Stashed { tp, batch, blob }
        };
        Ok(batches.into_iter().zip(stamps).map(stash).collect())
    }

    /// Writes batches that belong to no transaction.
    pub(super) fn append_plain(&self, stashed: Vec<Stashed>) -> PortResult<Acknowledged> {
        let writing = lock(&self.writing);
        let mut placement = self.place(&lock(&self.state), stashed)?;
        let changes = mem::take(&mut placement.changes);
        self.store(changes)?;
        let went = lock(&self.state).publish(placement);
        drop(writing);
        self.shared.signal.arrived();
        Ok(went)
    }

    pub(super) fn commit(&self, owner: &Owner) -> PortResult<Acknowledged> {
        // Ends what is due before the locks are taken.
        drop(self.state());
        let writing = lock(&self.writing);
        let mut state = lock(&self.state);
        let Some((stashed, offsets)) = state.coordinator.begin_commit(owner)? else {
            return Ok(Acknowledged::new());
        };
        let placed = self.place(&state, stashed);
        let placed = placed.map(|mut placement| {
            note_commit(&mut placement.changes, &state, owner, &offsets);
            placement
        });
        drop(state);
        let written = placed.and_then(|mut placement| {
            let changes = mem::take(&mut placement.changes);
            self.store(changes)?;
            Ok(placement)
        });
        let mut state = lock(&self.state);
        state.coordinator.finish_commit(owner, written.is_ok());
        let went = written.map(|placement| {
            state.count_commit(owner);
            state.publish(placement)
        });
        drop((state, writing));
        self.shared.signal.arrived();
        went
    }
}

/// Adds the offsets and the marker of a transaction to what is written.
fn note_commit(
    changes: &mut Changes,
    state: &State,
    owner: &Owner,
    offsets: &BTreeMap<String, BTreeMap<TopicPartition, CommittedOffset>>,
) {
    for (group, offsets) in offsets {
        note_offsets(changes, group, offsets);
    }
    let committed = state.markers.get(&owner.id).copied().unwrap_or(0) + 1;
    let key = format::named(format::PRODUCER_PREFIX, &owner.id);
    changes.put(Family::Meta, key, format::marker(owner.epoch, committed));
}

pub(super) fn note_offsets(
    changes: &mut Changes,
    group: &str,
    offsets: &BTreeMap<TopicPartition, CommittedOffset>,
) {
    for (tp, offset) in offsets {
        let key = format::group_key(group, tp);
        changes.put(Family::Offsets, key, format::committed_value(offset));
    }
}

impl State {
    /// Makes written batches visible; tells where they went.
    fn publish(&mut self, placement: Placement) -> Acknowledged {
        let mut went = Acknowledged::new();
        for (tp, placed) in placement.ends {
            if let Ok((partition, _)) = self.catalog.partition_mut(&tp) {
                partition.end = placed.end;
                partition.highest = placed.highest;
            }
            went.insert(tp, placed.end);
        }
        for (tp, batch) in placement.batches {
            let weight = weight(&batch);
            if let Ok((partition, _)) = self.catalog.partition_mut(&tp) {
                partition.remember(Arc::new(batch));
                self.tail_bytes += weight;
                let topic = partition.topic;
                self.tail.push_back((tp, topic, weight));
            }
        }
        while self.tail_bytes > TAIL_BYTES_MAX {
            let Some((tp, topic, weight)) = self.tail.pop_front() else {
                break;
            };
            self.tail_bytes -= weight;
            let partition = self.catalog.partition_mut(&tp);
            if let Some((partition, _)) = partition.ok().filter(|(p, _)| p.topic == topic) {
                partition.forget_oldest();
            }
        }
        went
    }

    fn count_commit(&mut self, owner: &Owner) {
        *self.markers.entry(Arc::clone(&owner.id)).or_default() += 1;
    }
}
