//! From the consumer to the tasks. A partition with enough waiting is paused, so that memory stays bounded.

use std::time::Duration;

use thalweg_connectors::{PortError, PortErrorKind, TopicPartition};

use super::slot::Stage;
use super::{Failure, Phase, Worker};
use crate::error::ErrorClass;

/// How often a worker that has nothing to do looks whether the group lets it commit.
const DEFERRED_RETRY: Duration = Duration::from_millis(5);

/// So often within so long a position that is not in the log is looked up again.
const OUT_OF_RANGE_MAX: usize = 3;
const OUT_OF_RANGE_WITHIN: Duration = Duration::from_secs(60);

impl Worker {
    /// Polls the consumer; waits only when the last cycle had nothing to do.
    pub(super) fn fetch(&mut self) -> Phase<bool> {
        let mut fetched = std::mem::take(&mut self.fetched);
        let (timeout, records_max) = (self.patience(), self.around.config.poll_records_max);
        let polled = self.consumer.poll(timeout, records_max, &mut fetched);
        let any = !fetched.is_empty();
        for run in fetched.drain(..) {
            let Some(run) = self.for_tasks(run) else { continue };
            let owner = self.owners.get(&run.partition);
            let Some(slot) = owner.and_then(|id| self.slots.get_mut(id)) else { continue };
            if let Some(input) = slot.inputs.iter_mut().find(|i| i.tp == run.partition) {
                input.fetched += run.records.len() as u64;
                input.idle_since = None;
            }
            if let Stage::Running(task) = &mut slot.stage {
                // A partition that is owned is an input of its task.
                task.add(run).ok();
            }
        }
        self.fetched = fetched;
        polled.map_err(|error| self.judge_range(error))?;
        self.follow_globals()?;
        self.balance_inputs()?;
        Ok(any)
    }

    /// Records behind the position may be gone because somebody else has had the task meanwhile, has done them, and deleted them:
    /// then the group knows, and the committed position has moved on. When that is not in the log either, data is lost.
    fn judge_range(&mut self, error: PortError) -> Failure {
        let is_out_of_range = error.kind() == PortErrorKind::OffsetOutOfRange;
        let mut failure = Failure::from(error);
        if is_out_of_range {
            let now = self.around.clock.elapsed();
            self.out_of_range.retain(|at| now.saturating_sub(*at) < OUT_OF_RANGE_WITHIN);
            self.out_of_range.push(now);
            if self.out_of_range.len() <= OUT_OF_RANGE_MAX {
                failure.class = ErrorClass::Abortable;
            }
        }
        failure
    }

    /// How long a poll may wait.
    fn patience(&self) -> Duration {
        if self.busy || self.restorer.is_active() {
            return Duration::ZERO;
        }
        let uncommitted = self.slots.values().any(|slot| match &slot.stage {
            Stage::Running(task) => task.has_worked(),
            _ => false,
        });
        let until_commit = self.commit_at.saturating_sub(self.around.clock.elapsed());
        let timeout = self.around.config.poll_timeout;
        match (uncommitted, self.deferred_since) {
            (true, Some(_)) => timeout.min(DEFERRED_RETRY),
            (true, None) => timeout.min(until_commit),
            (false, _) => timeout,
        }
    }

    /// Pauses partitions that have enough waiting, resumes those that do not.
    pub(super) fn balance_inputs(&mut self) -> Phase {
        let max = self.around.config.task.buffered_records_max;
        let mut changes: [Vec<TopicPartition>; 2] = Default::default();
        for slot in self.slots.values() {
            let Stage::Running(task) = &slot.stage else { continue };
            for input in &slot.inputs {
                let full = task.buffered(&input.tp) > max;
                if full != input.paused {
                    changes[usize::from(full)].push(input.tp.clone());
                }
            }
        }
        let [resume, pause] = changes;
        if resume.is_empty() && pause.is_empty() {
            return Ok(());
        }
        if !resume.is_empty() {
            self.consumer.set_paused(&resume, false)?;
        }
        if !pause.is_empty() {
            self.consumer.set_paused(&pause, true)?;
        }
        // Only now: after a failure all of it is asked for again.
        for input in self.slots.values_mut().flat_map(|slot| &mut slot.inputs) {
            input.paused ^= resume.contains(&input.tp) || pause.contains(&input.tp);
        }
        Ok(())
    }
}
