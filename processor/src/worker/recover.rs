//! What is done about a failure. Only its class decides.

use std::time::Duration;

use super::slot::{Slot, Stage};
use super::{Cycle, Failure, Worker};
use crate::error::{ErrorClass, TaskError};
use crate::runtime::{RunError, chain};
use crate::topology::TaskId;

/// So often within so long may another producer take over the transactional id. A process that stood still is taken over once, and
/// takes over in turn; two that have the same id do it for ever.
const TAKEOVERS_MAX: usize = 5;
const TAKEOVERS_WITHIN: Duration = Duration::from_secs(60);

/// Does a failure of this class end the worker?
pub(super) fn is_final(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::User | ErrorClass::Fatal)
}

impl Worker {
    /// Goes back to where it is safe to go on, or says why it cannot.
    pub(super) fn recover(&mut self, failure: Failure) -> Result<Cycle, RunError> {
        if is_final(failure.class) {
            return Err(self.stopped_by(failure));
        }
        let elapsed = self.around.clock.elapsed();
        let again = self.failing_since.is_some() || failure.class == ErrorClass::Retriable;
        let since = *self.failing_since.get_or_insert(elapsed);
        if elapsed.saturating_sub(since) >= self.around.config.task_timeout {
            let (worker, tried) = (self.index, elapsed.saturating_sub(since));
            return Err(RunError::GaveUp { worker, tried, source: failure.error });
        }
        let failure = self.note_takeover(failure, elapsed)?;
        let error = chain(&failure.error);
        self.busy = false;
        match failure.class {
            ErrorClass::Retriable => tracing::debug!(worker = self.index, %error, "trying again"),
            ErrorClass::Fenced => {
                tracing::warn!(worker = self.index, %error, "a newer owner exists: closing all tasks and joining anew");
                self.give_up_all();
            }
            _ => {
                tracing::warn!(worker = self.index, %error, "going back to the last commit");
                self.take_back();
            }
        }
        if failure.class == ErrorClass::TaskCorrupted {
            self.discard_state(&failure)?;
        }
        if again {
            self.back_off();
        }
        self.counted_until = self.around.clock.elapsed();
        if failure.class == ErrorClass::Retriable {
            return Ok(Cycle::Idle);
        }
        super::publish::count(&self.around.metrics.recoveries, 1);
        Ok(Cycle::Worked)
    }

    /// Counts how often the producer was taken over; ends the worker when that is too often.
    fn note_takeover(&mut self, failure: Failure, elapsed: Duration) -> Result<Failure, RunError> {
        if !failure.error.is_takeover() {
            return Ok(failure);
        }
        self.takeovers.retain(|at| elapsed.saturating_sub(*at) < TAKEOVERS_WITHIN);
        self.takeovers.push(elapsed);
        let (times, within) = (self.takeovers.len(), TAKEOVERS_WITHIN);
        if times < TAKEOVERS_MAX {
            return Ok(failure);
        }
        let (transactional_id, source) = (self.transactional_id(), Box::new(failure.error));
        let source = TaskError::TakenOver { transactional_id, times, within, source };
        Err(RunError::Task { worker: self.index, source })
    }

    /// Waits a little, so that a failure that stays is not met at full speed.
    fn back_off(&mut self) {
        if let Err(failure) = self.fetch() {
            tracing::debug!(worker = self.index, error = %chain(&failure.error), "polling failed");
        }
    }

    /// Forgets earlier failures once what runs is committed and nothing is restored. The time in which a restore advances does not
    /// count towards the time that failures may take: a long restore is no failure.
    pub(super) fn note_success(&mut self) {
        let Some(since) = &mut self.failing_since else { return };
        let is_retried = self.opening_since.is_some();
        let settled = |slot: &Slot| match &slot.stage {
            Stage::Running(task) => !task.has_worked(),
            Stage::Finished => true,
            // It has a time of its own.
            Stage::Waiting(_) => is_retried,
            Stage::Restoring(..) => false,
        };
        if self.slots.values().all(settled) {
            self.failing_since = None;
            return;
        }
        let now = self.around.clock.elapsed();
        if self.has_restored {
            *since += now.saturating_sub(self.counted_until);
        }
        self.counted_until = now;
    }

    /// Drops everything uncommitted, of all tasks, and the producer: the next cycle opens them anew.
    pub(super) fn take_back(&mut self) {
        if let Some(mut collector) = self.collector.take() {
            collector.drops.finish(self.around.clock.now());
            self.globals = collector.globals.take();
            let (producer, committer) = collector.parts();
            if committer.is_open()
                && let Err(error) = committer.abort(producer)
            {
                tracing::debug!(worker = self.index, error = %chain(&error), "the next producer aborts");
            }
        }
        let inputs = super::slot::partitions(self.slots.values());
        self.owners.clear();
        if let Err(error) = self.consumer.unassign(&inputs) {
            tracing::warn!(worker = self.index, %error, "inputs could not be given back");
        }
        for (id, slot) in &mut self.slots {
            slot.reset();
            if let Err(failure) = self.restorer.forget(*id) {
                tracing::warn!(worker = self.index, error = %failure.error, "changelogs could not be given back");
            }
        }
    }

    fn give_up_all(&mut self) {
        self.take_back();
        let all: Vec<TaskId> = self.slots.keys().copied().collect();
        self.count_moved(|metrics| &metrics.lost, &all);
        self.forget_numbers(&all);
        self.slots.clear();
        self.assignment.expelled();
    }

    /// Discards the local state of the task that is corrupted; of all tasks when nobody knows which.
    fn discard_state(&mut self, failure: &Failure) -> Result<(), RunError> {
        let worker = self.index;
        for (id, slot) in &mut self.slots {
            if failure.task.is_none_or(|task| task == *id) {
                tracing::warn!(worker, task = %id, "local state is damaged: discarding it");
                reset_engine(slot);
                let discarded = self.around.engines.discard(*id);
                discarded.map_err(|e| RunError::Task { worker, source: e.into() })?;
            }
        }
        Ok(())
    }

    pub(super) fn stopped_by(&self, failure: Failure) -> RunError {
        RunError::Task { worker: self.index, source: failure.error }
    }
}

fn reset_engine(slot: &mut Slot) {
    if let Stage::Waiting(engine) = &mut slot.stage {
        *engine = None;
    }
}
