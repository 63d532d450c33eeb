//! A worker: the loop that drives the tasks of one thread.
//!
//! [`Worker::run_once`] is one cycle: follow the group, open and restore what is new, fetch, then process, punctuate and commit
//! until nothing is left or the cycle's time is over. External events are noted down and handled at the loop's own pace. The only
//! place where it waits is the consumer's poll.
//!
//! | module | what it is |
//! | --- | --- |
//! | `slot` | a task in the worker's hands, and how far it is |
//! | `identify` | whether internal topics are those that were committed with |
//! | `open` | from assigned to running: committed offsets, engine, restore, inputs |
//! | `global` | the global stores, filled before any task begins |
//! | `fetch` | from the consumer to the tasks, and back-pressure |
//! | `work` | whose turn it is to process and punctuate |
//! | `pace` | how many records make a turn |
//! | `commit` | one commit of all tasks, and what follows from it |
//! | `failure` | a failure, its class, and whose state it concerns |
//! | `recover` | what is done about a failure, by its class |
//! | `ends` | where a run ends that ends by itself |
//! | `publish` | numbers for the registry |

mod commit;
mod ends;
mod failure;
mod fetch;
mod global;
mod identify;
mod open;
mod pace;
mod publish;
mod recover;
mod slot;
#[cfg(test)]
pub(crate) mod tests;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{
    Admin, Clock, Consumer, ConsumerOptions, Fetched, Isolation, MembershipOptions, PortResult,
    SharedBackend, TopicPartition,
};
use thalweg_txn::transactional_id;

use self::commit::Attempt;
use self::pace::Pace;
use crate::assignment::Assignment;
use crate::collector::Collector;
use crate::config::TaskConfig;
use crate::globals::Globals;
use crate::metrics::{Metrics, StreamsState};
use crate::plan::Plan;
use crate::restore::Restorer;
use crate::runtime::{Engines, RunError, RuntimeConfig, chain};
use crate::topology::TaskId;

pub(crate) use ends::{Ends, Order};
pub(crate) use failure::{Failure, Phase};
pub(crate) use slot::{Slot, Slots, Stage};

/// What all workers of a run share.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) plan: Arc<Plan>,
    pub(crate) backend: SharedBackend,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Arc<RuntimeConfig>,
    pub(crate) engines: Arc<dyn Engines>,
    pub(crate) metrics: Arc<Metrics>,
    /// Given when the run ends by itself.
    pub(crate) ends: Option<Arc<Ends>>,
}

/// What a cycle came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cycle {
    /// Something was done; there may be more.
    Worked,
    /// There was nothing to do.
    Idle,
    /// The run has come to its end: close the worker.
    Finished,
}

/// Runs tasks on one thread.
pub(crate) struct Worker {
    around: Surroundings,
    /// Its number, from 0.
    index: usize,
    task_config: Arc<TaskConfig>,
    /// How many tasks of the application keep stores on disk.
    keeping_tasks: usize,
    consumer: Box<dyn Consumer>,
    admin: Box<dyn Admin>,
    assignment: Assignment,
    restorer: Restorer,
    /// The producer and its protocol; made anew after a failure.
    collector: Option<Collector>,
    /// The global stores while there is no producer; else they are with it.
    globals: Option<Box<Globals>>,
    slots: Slots,
    /// Whose an input partition is.
    owners: BTreeMap<TopicPartition, TaskId>,
    /// Digests of the identities of internal topics, by what they are called beside committed offsets.
    topic_ids: BTreeMap<Arc<str>, i64>,
    fetched: Vec<Fetched>,
    /// The last cycle did something, so the next one does not wait.
    busy: bool,
    commit_at: Duration,
    /// Since when a commit waits for the group.
    deferred_since: Option<Duration>,
    /// When tasks that could not be opened are tried again.
    open_at: Duration,
    purge_at: Duration,
    sampled_at: Duration,
    /// Since when it has failed without a commit in between; moved on by the time in which restores advance.
    failing_since: Option<Duration>,
    /// Up to when that time is counted.
    counted_until: Duration,
    /// Since when tasks could not be opened beside those that run.
    opening_since: Option<Duration>,
    /// The last cycle brought a restore forward.
    has_restored: bool,
    /// When the producer was taken over by another one of its transactional id.
    takeovers: Vec<Duration>,
    /// When positions were not in the log.
    out_of_range: Vec<Duration>,
    processed: u64,
    pace: Pace,
}

impl Worker {
    /// Connects to the backend and joins the group.
    pub(crate) fn new(around: Surroundings, index: usize) -> PortResult<Self> {
        let application_id = around.plan.application_id();
        let client_id = format!("{application_id}-{index}");
        let reader = |role: &str| {
            let client_id = format!("{client_id}-{role}");
            around
                .backend
                .consumer(&ConsumerOptions { isolation: Isolation::ReadCommitted, client_id })
        };
        let (consumer, restorer) = (reader("consumer")?, Restorer::new(reader("restore")?));
        let admin = around.backend.admin()?;
        let group = application_id.to_string();
        let (shares, topics) = (around.plan.shares(), around.plan.topics());
        let options = MembershipOptions { group, client_id, shares, topics };
        let assignment = Assignment::join(Arc::clone(&around.backend), options)?;
        let now = around.clock.elapsed();
        Ok(Self {
            index,
            task_config: Arc::new(around.config.task.clone()),
            keeping_tasks: around.plan.keeping_tasks(),
            consumer,
            admin,
            assignment,
            restorer,
            collector: None,
            globals: None,
            slots: Slots::new(),
            owners: BTreeMap::new(),
            topic_ids: BTreeMap::new(),
            fetched: Vec::new(),
            busy: true,
            commit_at: now + around.config.commit_interval(),
            deferred_since: None,
            open_at: now,
            purge_at: now + around.config.purge_interval,
            sampled_at: now,
            failing_since: None,
            counted_until: now,
            opening_since: None,
            has_restored: false,
            takeovers: Vec::new(),
            out_of_range: Vec::new(),
            processed: 0,
            pace: Pace::new(around.config.turn_records_max, around.config.cycle_max),
            around,
        })
    }

    /// One cycle. An error is final: [`abandon`](Self::abandon) the worker.
    pub(crate) fn run_once(&mut self) -> Result<Cycle, RunError> {
        match self.cycle() {
            Ok(cycle) => {
                self.busy = cycle == Cycle::Worked;
                self.note_success();
                Ok(cycle)
            }
            Err(failure) => self.recover(failure),
        }
    }

    fn cycle(&mut self) -> Phase<Cycle> {
        self.follow_group()?;
        // After the group: its news may cost the producer.
        self.keep_producer()?;
        if !self.has_globals()? {
            // No task begins before the global stores are filled.
            let worked = self.fetch()?;
            return Ok(if worked { Cycle::Worked } else { Cycle::Idle });
        }
        let mut worked = self.open_waiting()?;
        worked |= self.restore()?;
        worked |= self.fetch()?;
        worked |= self.work()?;
        self.purge_consumed();
        self.publish();
        Ok(match (self.is_at_end(), worked) {
            (true, _) => Cycle::Finished,
            (false, true) => Cycle::Worked,
            (false, false) => Cycle::Idle,
        })
    }

    /// Carries out what is heard of the group.
    fn follow_group(&mut self) -> Phase {
        let news = self.assignment.poll()?;
        if news.is_rebalanced {
            publish::count(&self.around.metrics.rebalances, 1);
        }
        for id in &news.assigned {
            tracing::info!(worker = self.index, task = %id, "task assigned");
            let slot = self.new_slot(*id);
            self.slots.insert(*id, slot);
        }
        self.count_moved(|metrics| &metrics.assigned, &news.assigned);
        if !news.lost.is_empty() {
            self.lose(&news.lost)?;
        }
        // Not given up before the last commit: it is told again.
        if !news.revoked.is_empty() && self.commit()? != Attempt::Deferred {
            self.count_moved(|metrics| &metrics.revoked, &news.revoked);
            self.give_up(&news.revoked)?;
            self.assignment.release()?;
        }
        Ok(())
    }

    /// Drops tasks that another member has already; the open transaction holds their work, too, so all go back.
    fn lose(&mut self, lost: &[TaskId]) -> Phase {
        tracing::warn!(worker = self.index, tasks = lost.len(), "tasks lost without a commit");
        self.count_moved(|metrics| &metrics.lost, lost);
        self.take_back();
        self.give_up(lost)
    }

    /// Closes tasks that are another member's from now on.
    fn give_up(&mut self, tasks: &[TaskId]) -> Phase {
        self.forget_numbers(tasks);
        self.close_tasks(tasks)
    }

    /// Closes tasks for which nothing is open.
    fn close_tasks(&mut self, tasks: &[TaskId]) -> Phase {
        for id in tasks {
            let Some(mut slot) = self.slots.remove(id) else { continue };
            tracing::info!(worker = self.index, task = %id, "task closed");
            slot.reset();
            self.restorer.forget(*id)?;
            let inputs = slot::partitions(std::iter::once(&slot));
            self.owners.retain(|tp, _| !inputs.contains(tp));
            self.consumer.unassign(&inputs)?;
        }
        Ok(())
    }

    /// Ends cleanly: commits, closes, leaves. What could not be committed is processed again at the next start. `None` while the
    /// group is between two generations: to be called again shortly.
    pub(crate) fn try_close(&mut self) -> Option<Result<(), RunError>> {
        match self.follow_group().and_then(|()| self.commit()) {
            Ok(Attempt::Deferred) => return None,
            Ok(Attempt::Nothing | Attempt::Committed) => {}
            Err(failure) if recover::is_final(failure.class) => {
                return Some(Err(self.stopped_by(failure)));
            }
            Err(failure) => {
                self.around.metrics.set_uncommitted();
                tracing::warn!(worker = self.index, error = %chain(&failure.error),
                    "the last commit failed; its records will be processed again");
            }
        }
        self.publish();
        self.leave();
        Some(Ok(()))
    }

    /// Ends without waiting any longer: as [`try_close`](Self::try_close), if that is possible now.
    pub(crate) fn close(mut self) -> Result<(), RunError> {
        self.try_close().unwrap_or_else(|| {
            self.around.metrics.set_uncommitted();
            tracing::warn!(
                worker = self.index,
                "the group does not settle: what is not committed will be processed again"
            );
            self.leave();
            Ok(())
        })
    }

    /// Ends without a commit, after an error.
    pub(crate) fn abandon(mut self) {
        self.leave();
    }

    fn leave(&mut self) {
        self.take_back();
        if let Some(mut globals) = self.globals.take() {
            globals.close();
        }
        let all: Vec<TaskId> = self.slots.keys().copied().collect();
        if let Err(failure) = self.close_tasks(&all) {
            tracing::warn!(worker = self.index, error = %failure.error, "closing tasks failed");
        }
        self.assignment.leave();
        self.around.metrics.set_state(self.index, StreamsState::Stopped);
    }

    /// Its producer's transactional id: the same after a restart.
    fn transactional_id(&self) -> String {
        let instance = self.around.engines.instance_id();
        transactional_id(self.around.plan.application_id(), instance, self.index)
    }
}
