//! Where a run ends that ends by itself: the bounds of all inputs, and which tasks have come to them. Shared by all workers.
//!
//! External inputs end where they ended at the start. An internal input ends where it ends once all tasks that write it have
//! finished, their last commit included; so tasks finish from upstream to downstream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_connectors::{Offset, TopicPartition};

use crate::plan::Plan;
use crate::topology::TaskId;

/// In which order the tasks of a worker process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Each at its own pace.
    Free,
    /// A replay's: strictly by time over all tasks whose inputs have bounds, so that the result does not depend on when what
    /// was fetched.
    ByTime,
}

#[derive(Debug, Default)]
struct Reached {
    bounds: BTreeMap<TopicPartition, Offset>,
    finished: BTreeSet<TaskId>,
}

/// The bounds of a run.
#[derive(Debug)]
pub(crate) struct Ends {
    plan: Arc<Plan>,
    order: Order,
    reached: Mutex<Reached>,
}

impl Ends {
    pub(crate) fn new(
        plan: Arc<Plan>,
        order: Order,
        bounds: BTreeMap<TopicPartition, Offset>,
    ) -> Self {
        let reached = Reached { bounds, finished: BTreeSet::new() };
        Self { plan, order, reached: Mutex::new(reached) }
    }

    fn reached(&self) -> MutexGuard<'_, Reached> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    pub(crate) fn bound(&self, tp: &TopicPartition) -> Option<Offset> {
        self.reached().bounds.get(tp).copied()
    }

    /// Sets the final end of internal inputs; the first to find out decides.
    pub(crate) fn set_bounds(&self, ends: BTreeMap<TopicPartition, Offset>) {
        let mut reached = self.reached();
        for (tp, end) in ends {
            reached.bounds.entry(tp).or_insert(end);
        }
    }

    /// Have all tasks that write internal inputs of this one finished?
    pub(crate) fn upstream_finished(&self, task: TaskId) -> bool {
        let upstream = &self.plan.part(task.subtopology).upstream;
        let reached = self.reached();
        let mut tasks = self.plan.tasks().filter(|t| upstream.contains(&t.subtopology));
        tasks.all(|t| reached.finished.contains(&t))
    }

    pub(crate) fn is_finished(&self, task: TaskId) -> bool {
        self.reached().finished.contains(&task)
    }

    /// A task has come to its bounds, and all it did is committed.
    pub(crate) fn finish(&self, task: TaskId) {
        self.reached().finished.insert(task);
    }

    pub(crate) fn all_finished(&self) -> bool {
        let reached = self.reached();
        self.plan.tasks().all(|t| reached.finished.contains(&t))
    }
}
