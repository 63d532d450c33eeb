//! From assigned to running: committed offsets, engine, restore, inputs. The order is the protocol's (see `restore`).

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_connectors::{
    CommittedOffset, Isolation, Offset, OffsetReset, PortError, PortErrorKind, ProducerOptions,
    TopicPartition,
};
use thalweg_state::{MemEngine, TaskState};
use thalweg_txn::{Committer, Guarantee, OffsetMetadata};

use super::slot::{Input, Slot, Stage, partitions};
use super::{Failure, Phase, Worker};
use crate::collector::Collector;
use crate::error::ErrorClass;
use crate::restore::{Opened, RestoreContext};
use crate::runtime::{Needs, chain};
use crate::task::{Task, TaskSpec};
use crate::topology::TaskId;

/// How long tasks wait that could not be opened while others run.
const OPEN_RETRY: Duration = Duration::from_millis(50);

/// Room for what the stores on disk of all tasks have read lately.
const READ_CACHES_BYTES: usize = 256 << 20;

/// A task's part of it.
fn read_cache_bytes(tasks: usize) -> usize {
    TaskState::CACHE_BYTES.min(READ_CACHES_BYTES / tasks.max(1))
}

/// Where an input goes on.
pub(super) struct Start {
    offset: Offset,
    /// What was committed with it; `None` where nothing was.
    pub(super) committed: Option<OffsetMetadata>,
}

/// Where inputs go on.
pub(super) type Starts = BTreeMap<TopicPartition, Start>;

impl Worker {
    /// Sees to it that there is a producer to write with: at the start, after a failure, and when its connection broke.
    pub(super) fn keep_producer(&mut self) -> Phase {
        let stale = self.collector.as_mut().map(|collector| {
            let (producer, committer) = collector.parts();
            committer.needs_replacement(producer)
        });
        if stale == Some(false) {
            return Ok(());
        }
        let producer = self.new_producer()?;
        match &mut self.collector {
            Some(collector) => Ok(collector.replace_producer(producer)?),
            None => {
                let committer = Committer::new(self.around.config.guarantee);
                let mut collector = Collector::new(producer, committer);
                collector.globals = self.globals.take();
                self.collector = Some(collector);
                Ok(())
            }
        }
    }

    fn new_producer(&self) -> Phase<Box<dyn thalweg_connectors::Producer>> {
        let config = &self.around.config;
        let transactional = config.guarantee == Guarantee::ExactlyOnce;
        let mut producer = self.around.backend.producer(&ProducerOptions {
            transactional_id: transactional.then(|| self.transactional_id()),
            transaction_timeout: config.transaction_timeout,
            client_id: format!("{}-{}", self.around.plan.application_id(), self.index),
        })?;
        if transactional {
            producer.init_transactions()?;
        }
        Ok(producer)
    }

    pub(super) fn new_slot(&self, id: TaskId) -> Slot {
        let plan = &self.around.plan;
        let inputs = plan.part(id.subtopology).inputs.iter();
        let own = inputs.filter(|input| id.partition < plan.partitions()[&input.name]);
        let input = own.map(|input| {
            let tp = TopicPartition::new(input.name.clone(), id.partition);
            let cell = self.around.metrics.partition(&tp);
            let internal = input.internal;
            Input {
                tp,
                internal,
                cell,
                paused: false,
                committed: None,
                idle_since: None,
                fetched: 0,
                sampled: 0,
            }
        });
        let mut slot = Slot::new(input.collect());
        if self.around.ends.as_ref().is_some_and(|ends| ends.is_finished(id)) {
            slot.stage = Stage::Finished;
        }
        slot
    }

    /// Opens tasks that wait; tells whether it did. While that fails in passing, such as when the open transaction of a member that
    /// was killed still holds a committed offset, the tasks that run go on.
    pub(super) fn open_waiting(&mut self) -> Phase<bool> {
        let elapsed = self.around.clock.elapsed();
        let waits = |slot: &Slot| matches!(slot.stage, Stage::Waiting(_));
        let waiting: Vec<TaskId> =
            self.slots.iter().filter(|(_, slot)| waits(slot)).map(|(id, _)| *id).collect();
        if waiting.is_empty() {
            self.opening_since = None;
            return Ok(false);
        }
        if elapsed < self.open_at {
            return Ok(false);
        }
        let Err(failure) = self.open(waiting) else {
            self.opening_since = None;
            return Ok(true);
        };
        if failure.class != ErrorClass::Retriable || !self.slots.values().any(Slot::is_running) {
            return Err(failure);
        }
        let since = *self.opening_since.get_or_insert(elapsed);
        if elapsed.saturating_sub(since) >= self.around.config.task_timeout {
            self.failing_since = Some(since);
            return Err(failure);
        }
        tracing::debug!(worker = self.index, error = %chain(&failure.error), "tasks wait to be opened");
        // An attempt may have taken long: the others get at least as much time.
        let now = self.around.clock.elapsed();
        self.open_at = now + OPEN_RETRY.max(now.saturating_sub(elapsed));
        Ok(false)
    }

    /// Opens tasks, the first at least, and as many more as there is time for while others run.
    fn open(&mut self, waiting: Vec<TaskId>) -> Phase {
        let starts = self.starts(&waiting)?;
        let running = self.slots.values().any(Slot::is_running);
        let deadline = self.around.clock.elapsed() + self.around.config.cycle_max;
        let mut opened = Vec::with_capacity(waiting.len());
        for id in waiting {
            if running && !opened.is_empty() && self.around.clock.elapsed() >= deadline {
                break;
            }
            opened.push(self.build(id, &starts).map_err(|failure| failure.of(id))?);
        }
        let begun = self.identify_topics(&mut opened, &starts).and_then(|topics| {
            let context = RestoreContext {
                topics: &topics,
                metrics: &self.around.metrics,
                now: self.around.clock.now(),
                state_age_max: self.around.config.state_age_max,
            };
            self.restorer.begin(&mut opened, &context)
        });
        for Opened { id, task, inputs } in opened {
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            if begun.is_ok() {
                slot.show_positions(&inputs);
                slot.stage = Stage::Restoring(task, inputs);
            } else {
                self.restorer.forget(id)?;
                slot.stage = Stage::Waiting(Some(task.into_engine()));
            }
        }
        begun
    }

    /// Where the inputs of tasks go on: at the committed offset, else as the reset policy says.
    fn starts(&mut self, tasks: &[TaskId]) -> Phase<Starts> {
        let all = partitions(tasks.iter().filter_map(|id| self.slots.get(id)));
        let group = self.around.plan.application_id();
        let committed = self.consumer.committed(group, &all)?;
        let missing: Vec<TopicPartition> =
            all.iter().filter(|tp| !committed.contains_key(tp)).cloned().collect();
        let mut starts: Starts =
            committed.into_iter().map(|(tp, committed)| (tp, start(committed))).collect();
        for (tp, offset) in self.reset(tasks, missing)? {
            starts.insert(tp, Start { offset, committed: None });
        }
        Ok(starts)
    }

    fn reset(
        &mut self,
        tasks: &[TaskId],
        missing: Vec<TopicPartition>,
    ) -> Phase<BTreeMap<TopicPartition, Offset>> {
        let plan = &self.around.plan;
        let mut policies = BTreeMap::new();
        for id in tasks {
            for input in &plan.part(id.subtopology).inputs {
                // What was written for us before anybody read it must not be skipped.
                let policy = match input.internal {
                    true => OffsetReset::Earliest,
                    false => input.offset_reset.unwrap_or(self.around.config.auto_offset_reset),
                };
                policies.insert(&*input.name, policy);
            }
        }
        let by = |policy| {
            let wanted = missing.iter().filter(|tp| policies.get(&*tp.topic) == Some(&policy));
            wanted.cloned().collect::<Vec<_>>()
        };
        if let Some(tp) = by(OffsetReset::None).first() {
            return Err(no_offset(tp).into());
        }
        let mut starts = self.consumer.beginning_offsets(&by(OffsetReset::Earliest))?;
        let latest = by(OffsetReset::Latest);
        starts.extend(self.consumer.end_offsets(&latest, Isolation::ReadCommitted)?);
        Ok(starts)
    }

    /// Builds a task on its engine and tells it where its inputs go on.
    fn build(&mut self, id: TaskId, starts: &Starts) -> Phase<Opened> {
        let around = &self.around;
        let sub = around.plan.sub_topology(id);
        let engine = match self.slots.get_mut(&id).map(|slot| &mut slot.stage) {
            Some(Stage::Waiting(engine)) => engine.take(),
            _ => None,
        };
        let engine = match engine {
            Some(engine) => engine,
            None => match &around.plan.kept_stores(sub)[..] {
                [] => Box::new(MemEngine::new()),
                stores => around.engines.open(id, &Needs { stores, tasks: self.keeping_tasks })?,
            },
        };
        let spec = TaskSpec {
            topology: around.plan.topology(),
            nodes: &sub.nodes,
            stores: &sub.stores,
            id,
            partitions: around.plan.partitions(),
            config: self.task_config.clone(),
        };
        let output = self.collector.as_mut().expect("a producer was made before tasks are opened");
        let mut task = Box::new(spec.build(engine, output)?);
        task.state().set_cache_bytes(read_cache_bytes(self.keeping_tasks));
        let nothing = OffsetMetadata::default();
        let inputs: Vec<TopicPartition> = task.inputs().cloned().collect();
        let inputs = inputs.into_iter().map(|tp| {
            let Start { offset, committed } = &starts[&tp];
            task.start_at(&tp, *offset, committed.as_ref().unwrap_or(&nothing));
            if let Some(end) = around.ends.as_ref().and_then(|ends| ends.bound(&tp)) {
                task.end_at(&tp, end);
            }
            (tp, *offset)
        });
        let inputs = inputs.collect();
        Ok(Opened { id, task, inputs })
    }

    /// Advances restores; tasks whose stores are complete begin to run. Waits only when nothing else is there to do.
    pub(super) fn restore(&mut self) -> Phase<bool> {
        let running = self.slots.values().any(Slot::is_running);
        let config = &self.around.config;
        let timeout = if running || self.busy { Duration::ZERO } else { config.poll_timeout };
        let records_max = config.restore_records_max;
        let mut worked = self.restorer.advance(timeout, records_max, &mut self.slots)?;
        self.has_restored = worked;
        self.restorer.report(self.around.clock.elapsed());
        let restoring = |slot: &Slot| matches!(slot.stage, Stage::Restoring(..));
        let restored =
            self.slots.iter().filter(|(id, s)| restoring(s) && self.restorer.is_done(**id));
        let restored: Vec<TaskId> = restored.map(|(id, _)| *id).collect();
        for id in restored {
            self.start(id).map_err(|failure| failure.of(id).half_done())?;
            worked = true;
        }
        Ok(worked)
    }

    fn start(&mut self, id: TaskId) -> Phase {
        let now = self.around.clock.now();
        let Some(slot) = self.slots.get_mut(&id) else { return Ok(()) };
        let (mut task, inputs) = match std::mem::replace(&mut slot.stage, Stage::Waiting(None)) {
            Stage::Restoring(task, inputs) => (task, inputs),
            before => {
                slot.stage = before;
                return Ok(());
            }
        };
        let output = self.collector.as_mut().expect("a producer was made before tasks are opened");
        let begun = init(&mut task, output, now);
        slot.stage = Stage::Running(task);
        begun?;
        tracing::info!(worker = self.index, task = %id, "task runs");
        self.owners.extend(inputs.iter().map(|(tp, _)| (tp.clone(), id)));
        Ok(self.consumer.assign(&inputs)?)
    }
}

fn init(
    task: &mut Task,
    output: &mut Collector,
    now: thalweg_connectors::Timestamp,
) -> Result<(), Failure> {
    Ok(task.init(output, now)?)
}

/// A committed position, with the times that were committed with it.
fn start(committed: CommittedOffset) -> Start {
    let metadata = OffsetMetadata::decode(&committed.metadata).unwrap_or_else(|error| {
        tracing::warn!(%error, "stream times of a committed offset are unknown");
        OffsetMetadata::default()
    });
    Start { offset: committed.offset, committed: Some(metadata) }
}

fn no_offset(tp: &TopicPartition) -> PortError {
    let message = format!(
        "no offset is committed for {tp}, and `auto.offset.reset` is `none`; set it to `earliest` or `latest`, or commit one"
    );
    PortError::new(PortErrorKind::Fatal, message)
}
