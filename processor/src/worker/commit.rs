//! One commit of all tasks of a worker: outputs, changelogs and input offsets together, then state. And what follows from it:
//! consumed repartition records are deleted, tasks that came to their bounds are finished.

use std::collections::BTreeMap;

use thalweg_connectors::{GroupMetadata, Isolation, Offset, TopicPartition};
use thalweg_txn::{CommitPlan, Committed, Guarantee};

use super::failure::persist_error;
use super::slot::{Slot, Stage};
use super::{Failure, Phase, Worker};
use crate::collector::Collector;
use crate::task::Task;
use crate::topology::TaskId;

/// What became of an attempt to commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attempt {
    /// There was nothing to commit.
    Nothing,
    /// It is committed.
    Committed,
    /// Not now: the group is between two generations, and neither of them may commit. Work goes on meanwhile.
    Deferred,
}

impl Worker {
    /// Tells whether something was committed.
    pub(super) fn commit_if_due(&mut self) -> Phase<bool> {
        let sent = self.collector.as_ref().map_or(0, Collector::uncommitted_bytes);
        let mut asked = sent > self.around.config.transaction_bytes_max;
        for task in self.slots.values_mut().filter_map(Slot::running) {
            asked |= task.take_commit_request();
        }
        if !asked && self.around.clock.elapsed() < self.commit_at {
            return Ok(false);
        }
        Ok(self.commit()? == Attempt::Committed)
    }

    /// Commits what all tasks did since the last commit.
    pub(super) fn commit(&mut self) -> Phase<Attempt> {
        let begun = self.around.clock.elapsed();
        let attempt = match self.is_uncommitted() {
            true => match self.assignment.hold()? {
                Some(member) => {
                    let committed = self.commit_as(member);
                    self.assignment.let_go();
                    committed?
                }
                None => {
                    self.commit_at = self.commit_at.min(begun);
                    self.deferred_since.get_or_insert(begun);
                    return Ok(Attempt::Deferred);
                }
            },
            false => Attempt::Nothing,
        };
        self.commit_at = begun + self.around.config.commit_interval();
        self.deferred_since = None;
        if attempt == Attempt::Committed {
            self.around.metrics.committed(self.around.clock.elapsed().saturating_sub(begun));
        }
        Ok(attempt)
    }

    /// Has a commit been put off for so long that more work would be in danger, or too much for memory? It then has to wait for
    /// the group: half of the time that a transaction has, or of the bytes that one may send.
    pub(super) fn is_held_up(&mut self) -> bool {
        let Some(since) = self.deferred_since else { return false };
        let config = &self.around.config;
        let waited = self.around.clock.elapsed().saturating_sub(since);
        let sent = self.collector.as_ref().map_or(0, Collector::uncommitted_bytes);
        let late = waited > config.transaction_timeout / 2;
        (late && config.guarantee == Guarantee::ExactlyOnce) || sent > config.transaction_bytes_max
    }

    /// Is there anything that a commit would have to do?
    fn is_uncommitted(&mut self) -> bool {
        let worked =
            self.slots.values_mut().filter_map(Slot::running).any(|task| task.has_worked());
        worked || self.collector.as_mut().is_some_and(|output| output.parts().1.is_open())
    }

    /// Commits as this member of the group, in this generation.
    fn commit_as(&mut self, member: GroupMetadata) -> Phase<Attempt> {
        let Some(output) = &mut self.collector else { return Ok(Attempt::Nothing) };
        let running = self.slots.iter_mut().filter_map(|(id, slot)| Some((*id, slot.running()?)));
        let (mut worked, others): (Vec<(TaskId, &mut Task)>, Vec<_>) =
            running.partition(|(_, task)| task.has_worked());
        if worked.is_empty() {
            // A node wrote when it was initialized: it is fenced by the positions of all.
            worked = others;
        }
        for (id, task) in &mut worked {
            let flushed = task.flush_caches(output);
            flushed.map_err(|e| Failure::from(e).of(*id).half_done())?;
        }
        let mut plan = CommitPlan::new(member);
        for (id, task) in &worked {
            let offsets = task.offsets().map_err(|e| Failure::from(e).of(*id).half_done())?;
            let own = &self.around.plan.part(id.subtopology).own;
            let ids = own.iter().filter_map(|topic| self.topic_ids.get_key_value(&topic.key));
            for (tp, offset, mut metadata) in offsets {
                metadata.processor.extend(ids.clone().map(|(key, id)| (key.to_string(), *id)));
                plan.add(tp, offset, &metadata);
            }
        }
        let (now, mut failed) = (self.around.clock.now(), None);
        let (producer, committer) = output.parts();
        let committed = committer.commit(producer, &plan, &mut |permit| {
            worked.iter_mut().try_for_each(|(id, task)| {
                task.persist(permit, now).map_err(|error| {
                    failed = Some(*id);
                    persist_error(error)
                })
            })
        });
        let committed = committed.map_err(|error| {
            let failure = Failure::from(error).half_done();
            match failed {
                Some(id) => failure.of(id),
                None => failure,
            }
        })?;
        if committed == Committed::Nothing {
            return Ok(Attempt::Nothing);
        }
        for input in self.slots.values_mut().flat_map(|slot| &mut slot.inputs) {
            if let Some(committed) = plan.offsets().get(&input.tp) {
                input.committed = Some(committed.offset);
            }
        }
        Ok(Attempt::Committed)
    }

    /// Deletes what has been consumed of repartition topics, up to the committed offsets, now and then. Nobody waits for it.
    pub(super) fn purge_consumed(&mut self) {
        if self.around.clock.elapsed() < self.purge_at {
            return;
        }
        self.purge_at = self.around.clock.elapsed() + self.around.config.purge_interval;
        let inputs = self.slots.values().flat_map(|slot| &slot.inputs);
        let before: BTreeMap<TopicPartition, Offset> = inputs
            .filter(|input| input.internal)
            .filter_map(|input| Some((input.tp.clone(), input.committed?)))
            .collect();
        if before.is_empty() {
            return;
        }
        if let Err(error) = self.admin.begin_delete_records(&before) {
            tracing::warn!(worker = self.index, %error, "consumed repartition records could not be deleted");
        }
    }

    /// In a run that ends by itself: sets the bounds of internal inputs whose writers have finished, and finishes the tasks that
    /// came to theirs, with a commit.
    pub(super) fn settle_ends(&mut self) -> Phase {
        let Some(ends) = self.around.ends.clone() else { return Ok(()) };
        for (id, slot) in &mut self.slots {
            let Stage::Running(task) = &mut slot.stage else { continue };
            let open = |tp: &TopicPartition| ends.bound(tp).is_none();
            let unbounded: Vec<TopicPartition> =
                task.inputs().filter(|tp| open(tp)).cloned().collect();
            if !unbounded.is_empty() && ends.upstream_finished(*id) {
                let found = self.consumer.end_offsets(&unbounded, Isolation::ReadUncommitted)?;
                ends.set_bounds(found);
            }
            // Another worker may have set it.
            let bounds: Vec<_> =
                unbounded.iter().filter_map(|tp| Some((tp, ends.bound(tp)?))).collect();
            bounds.into_iter().for_each(|(tp, end)| task.end_at(tp, end));
        }
        let done = |slot: &Slot| matches!(&slot.stage, Stage::Running(task) if task.is_finished());
        let finished: Vec<TaskId> =
            self.slots.iter().filter(|(_, slot)| done(slot)).map(|(id, _)| *id).collect();
        if finished.is_empty() {
            return Ok(());
        }
        if self.commit()? == Attempt::Deferred {
            return Ok(());
        }
        for id in finished {
            self.finish(id)?;
            ends.finish(id);
        }
        Ok(())
    }

    fn finish(&mut self, id: TaskId) -> Phase {
        let Some(slot) = self.slots.get_mut(&id) else { return Ok(()) };
        tracing::info!(worker = self.index, task = %id, "task finished");
        slot.reset();
        slot.stage = Stage::Finished;
        let inputs = super::slot::partitions(std::iter::once(&*slot));
        self.owners.retain(|tp, _| !inputs.contains(tp));
        Ok(self.consumer.unassign(&inputs)?)
    }

    /// Has the run come to its end, for all workers?
    pub(super) fn is_at_end(&self) -> bool {
        self.around.ends.as_ref().is_some_and(|ends| ends.all_finished())
    }
}
