//! Numbers for the registry: once per cycle, and what has to be asked for once per interval.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use thalweg_connectors::Isolation;

use super::Worker;
use super::slot::{Slot, Stage, partitions};
use crate::metrics::{Metrics, Moved, StreamsState};
use crate::topology::TaskId;

pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Relaxed);
}

impl Worker {
    /// Counts tasks of this worker that came or went, and their inputs.
    pub(super) fn count_moved(&self, kind: impl Fn(&Metrics) -> &Moved, tasks: &[TaskId]) {
        let slots = tasks.iter().filter_map(|id| self.slots.get(id));
        let partitions = slots.map(|slot| slot.inputs.len()).sum();
        kind(&self.around.metrics).add(tasks.len(), partitions);
    }

    /// Takes tasks that are another member's from now on out of the registry.
    pub(super) fn forget_numbers(&self, tasks: &[TaskId]) {
        let metrics = &self.around.metrics;
        for (id, slot) in tasks.iter().filter_map(|id| Some((id, self.slots.get(id)?))) {
            slot.inputs.iter().for_each(|input| metrics.forget(&input.tp, &input.cell));
            metrics.forget_restores(*id);
        }
    }

    pub(super) fn publish(&mut self) {
        let metrics = &self.around.metrics;
        count(&metrics.processed, std::mem::take(&mut self.processed));
        metrics.workers[self.index].tasks.store(self.slots.len() as u64, Relaxed);
        // A worker without tasks is ready when none is meant for it.
        let mut ready = !self.slots.is_empty() || self.assignment.is_settled();
        for slot in self.slots.values_mut() {
            for input in &mut slot.inputs {
                count(&input.cell.consumed, std::mem::take(&mut input.fetched));
            }
            ready &= matches!(slot.stage, Stage::Running(_) | Stage::Finished);
            let Stage::Running(task) = &slot.stage else { continue };
            count(&metrics.dropped, task.dropped_records().saturating_sub(slot.dropped));
            slot.dropped = task.dropped_records();
            for (tp, position) in task.positions() {
                if let Some(input) = slot.inputs.iter().find(|i| i.tp == *tp) {
                    input.cell.position.store(position.0, Relaxed);
                }
            }
        }
        let state = if ready { StreamsState::Running } else { StreamsState::Restoring };
        metrics.set_state(self.index, state);
        if let Some(collector) = &mut self.collector {
            collector.drops.report(self.around.clock.now());
        }
        self.sample();
    }

    /// Ends of partitions and rates.
    fn sample(&mut self) {
        let elapsed = self.around.clock.elapsed();
        let since = elapsed.saturating_sub(self.sampled_at);
        if since < self.around.config.metrics_interval {
            return;
        }
        let opened = |slot: &&Slot| matches!(slot.stage, Stage::Restoring(..) | Stage::Running(_));
        let opened = partitions(self.slots.values().filter(opened));
        let ends = match self.consumer.look_at_ends(&opened, Isolation::ReadCommitted) {
            Ok(Some(ends)) => ends,
            Ok(None) => return,
            Err(error) => {
                self.sampled_at = elapsed;
                tracing::debug!(worker = self.index, %error, "lag could not be looked at");
                return;
            }
        };
        self.sampled_at = elapsed;
        let ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX).max(1);
        for input in self.slots.values_mut().flat_map(|slot| &mut slot.inputs) {
            let consumed = input.cell.consumed.load(Relaxed);
            let since_last = consumed.saturating_sub(input.sampled);
            input.sampled = consumed;
            input.cell.rate_per_1000_s.store(since_last.saturating_mul(1_000_000) / ms, Relaxed);
            if let Some(end) = ends.get(&input.tp) {
                input.cell.end.store(end.0, Relaxed);
            }
        }
    }
}
