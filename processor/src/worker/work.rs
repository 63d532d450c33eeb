//! Whose turn it is to process and punctuate.

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_connectors::{Isolation, Timestamp, TopicPartition};

use super::slot::{Input, Slot, Stage};
use super::{Failure, Order, Phase, Worker};
use crate::collector::Collector;
use crate::task::Task;
use crate::topology::TaskId;

impl Worker {
    /// Processes, punctuates and commits until nothing is left or the cycle's time is over; tells whether anything was done.
    pub(super) fn work(&mut self) -> Phase<bool> {
        let deadline = self.around.clock.elapsed() + self.around.config.cycle_max;
        let mut worked = false;
        self.share_cache();
        loop {
            self.settle_ends()?;
            if self.is_stale() {
                worked = true;
                break;
            }
            if self.is_held_up() && !self.commit_if_due()? {
                break;
            }
            self.look_for_more()?;
            let begun = self.around.clock.elapsed();
            let processed = match self.order() {
                Order::Free => self.process_in_turn(),
                Order::ByTime => self.process_by_time(),
            };
            let processed = processed.map_err(Failure::half_done)?;
            self.pace.took(processed, self.around.clock.elapsed().saturating_sub(begun));
            let punctuated = self.punctuate().map_err(Failure::half_done)?;
            self.processed += processed as u64;
            let committed = self.commit_if_due()?;
            let did = processed > 0 || punctuated || committed;
            worked |= did;
            if !did || self.is_stale() || self.around.clock.elapsed() >= deadline {
                break;
            }
        }
        self.balance_inputs()?;
        Ok(worked)
    }

    /// The tasks of a worker have its cache together, each an equal part.
    fn share_cache(&mut self) {
        let caching = |slot: &mut Slot| slot.running().filter(|task| task.is_caching()).is_some();
        let tasks = self.slots.values_mut().map(caching).filter(|caching| *caching).count();
        let part = self.task_config.cache_max_bytes / tasks.max(1);
        for task in self.slots.values_mut().filter_map(Slot::running) {
            task.set_cache_max(part);
        }
    }

    fn order(&self) -> Order {
        self.around.ends.as_ref().map_or(Order::Free, |ends| ends.order())
    }

    /// The producer has to be replaced before anything is written again.
    fn is_stale(&mut self) -> bool {
        self.collector.as_mut().is_none_or(|collector| {
            let (producer, committer) = collector.parts();
            committer.needs_replacement(producer)
        })
    }

    /// The tasks that run, and the producer they write to.
    fn running(&mut self) -> (impl Iterator<Item = (TaskId, &mut Task)>, &mut Collector) {
        let output = self.collector.as_mut().expect("a producer was made before tasks are opened");
        let running = self.slots.iter_mut().filter_map(|(id, slot)| Some((*id, slot.running()?)));
        (running, output)
    }

    fn process_in_turn(&mut self) -> Phase<usize> {
        let (max, now) = (self.pace.records(), self.around.clock.now());
        let waits = self.around.config.task_idle_max.is_some();
        let (running, output) = self.running();
        let mut done = 0;
        for (id, task) in running {
            let several = waits && task.inputs().nth(1).is_some();
            let processed = match several {
                true => task.process_known(max, output, now),
                false => task.process(max, output, now),
            };
            done += processed.map_err(|e| Failure::from(e).of(id))?;
        }
        Ok(done)
    }

    /// Processes the earliest record of all tasks whose inputs have bounds, again and again, as long as all of them are known.
    fn process_by_time(&mut self) -> Phase<usize> {
        let (max, now) = (self.pace.records(), self.around.clock.now());
        let ends = self.around.ends.clone();
        let opening = |slot: &Slot| matches!(slot.stage, Stage::Waiting(_) | Stage::Restoring(..));
        if self.slots.values().any(opening) {
            return Ok(0);
        }
        let (running, output) = self.running();
        let bounded = |task: &Task| {
            ends.as_ref().is_none_or(|ends| task.inputs().all(|tp| ends.bound(tp).is_some()))
        };
        let mut tasks: Vec<(TaskId, &mut Task)> = running.filter(|(_, t)| bounded(t)).collect();
        if tasks.iter().any(|(_, task)| task.unknown_inputs().next().is_some()) {
            return Ok(0);
        }
        let mut turns: BTreeSet<(Timestamp, usize)> = BTreeSet::new();
        for (at, (_, task)) in tasks.iter_mut().enumerate() {
            turns.extend(task.next_time(now).map(|time| (time, at)));
        }
        let mut done = 0;
        while let Some((_, at)) = turns.pop_first() {
            let (id, task) = &mut tasks[at];
            done += task.process(1, output, now).map_err(|e| Failure::from(e).of(*id))?;
            if done >= max || task.unknown_inputs().next().is_some() {
                break;
            }
            turns.extend(task.next_time(now).map(|time| (time, at)));
        }
        Ok(done)
    }

    /// Runs the punctuations that are due. Where time alone decides the order, the clock has no say, and those on stream time run
    /// with the records.
    fn punctuate(&mut self) -> Phase<bool> {
        if self.order() == Order::ByTime {
            return Ok(false);
        }
        let now = self.around.clock.now();
        let (running, output) = self.running();
        let mut ran = false;
        for (id, task) in running {
            ran |= task.punctuate(output, now).map_err(|e| Failure::from(e).of(id))?;
        }
        Ok(ran)
    }

    /// Finds out of inputs that hold up their task whether the log holds more of them. One that has been read to its end is
    /// waited for `max.task.idle.ms` longer, then the others go on.
    fn look_for_more(&mut self) -> Phase {
        let Some(idle_max) = self.around.config.task_idle_max else { return Ok(()) };
        if self.order() == Order::ByTime {
            return Ok(());
        }
        let held_up: BTreeSet<TopicPartition> =
            self.slots.values().filter_map(holdups).flatten().collect();
        if held_up.is_empty() {
            return Ok(());
        }
        let all: Vec<TopicPartition> = held_up.into_iter().collect();
        let ends = self.consumer.end_offsets(&all, Isolation::ReadCommitted)?;
        let elapsed = self.around.clock.elapsed();
        for slot in self.slots.values_mut() {
            let Stage::Running(task) = &mut slot.stage else { continue };
            let read = |tp: &TopicPartition, position| ends.get(tp).is_some_and(|e| position >= *e);
            let at_end: Vec<TopicPartition> = task
                .unknown_inputs()
                .filter(|(tp, position)| read(tp, *position))
                .map(|(tp, _)| tp.clone())
                .collect();
            for tp in at_end {
                let input = slot.inputs.iter_mut().find(|i| i.tp == tp);
                if input.is_none_or(|input| has_idled(input, elapsed, idle_max)) {
                    task.set_caught_up(&tp);
                }
            }
        }
        Ok(())
    }
}

fn has_idled(input: &mut Input, elapsed: Duration, max: Duration) -> bool {
    let since = *input.idle_since.get_or_insert(elapsed);
    elapsed.saturating_sub(since) >= max
}

/// The inputs for which a task waits although others have records; `None` when it does not.
fn holdups(slot: &Slot) -> Option<Vec<TopicPartition>> {
    let Stage::Running(task) = &slot.stage else { return None };
    let waiting = slot.inputs.len() > 1 && slot.inputs.iter().any(|i| task.buffered(&i.tp) > 0);
    waiting.then(|| task.unknown_inputs().map(|(tp, _)| tp.clone()).collect())
}
