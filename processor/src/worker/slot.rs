//! A task in its worker's hands, and how far it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use thalweg_connectors::{Offset, TopicPartition};
use thalweg_state::Engine;

use crate::metrics::PartitionCell;
use crate::task::Task;

/// How far a task is.
///
/// ```text
/// Waiting ──committed offsets, engine──► Restoring ──stores at their targets──► Running ──bounds reached──► Finished
///    ▲                                       │                                      │
///    ╰──────────────── back to the last commit ◄────────────────────────────────────╯
/// ```
pub(crate) enum Stage {
    /// Waits for its committed offsets. Holds its engine when it was open before.
    Waiting(Option<Box<dyn Engine>>),
    /// Its stores are being restored.
    Restoring(Box<Task>, Vec<(TopicPartition, Offset)>),
    /// It processes.
    Running(Box<Task>),
    /// It came to the bounds of its inputs, and all of it is committed.
    Finished,
}

/// A task of this worker.
pub(crate) struct Slot {
    pub(crate) stage: Stage,
    pub(crate) inputs: Vec<Input>,
    /// Records that the task dropped and the registry knows of.
    pub(crate) dropped: u64,
}

/// What the worker keeps of an input partition.
pub(crate) struct Input {
    pub(crate) tp: TopicPartition,
    pub(crate) internal: bool,
    pub(crate) cell: Arc<PartitionCell>,
    pub(crate) paused: bool,
    /// What this worker committed last; where the task stands may be further on, past records that were aborted.
    pub(crate) committed: Option<Offset>,
    /// Since when it has been read to its end, while the task waits for it.
    pub(crate) idle_since: Option<Duration>,
    /// Records fetched that the registry does not know of.
    pub(crate) fetched: u64,
    /// Records fetched when the rate was last looked at.
    pub(crate) sampled: u64,
}

impl Slot {
    pub(crate) fn new(inputs: Vec<Input>) -> Self {
        Self { stage: Stage::Waiting(None), inputs, dropped: 0 }
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running(_))
    }

    pub(crate) fn running(&mut self) -> Option<&mut Task> {
        match &mut self.stage {
            Stage::Running(task) => Some(task),
            _ => None,
        }
    }

    /// Publishes where its inputs go on.
    pub(crate) fn show_positions(&self, starts: &[(TopicPartition, Offset)]) {
        for input in &self.inputs {
            if let Some((_, offset)) = starts.iter().find(|(tp, _)| *tp == input.tp) {
                input.cell.position.store(offset.0, Relaxed);
            }
        }
    }

    /// Goes back to waiting; keeps the engine, whose content is that of the last commit.
    pub(crate) fn reset(&mut self) {
        for input in &mut self.inputs {
            (input.paused, input.idle_since) = (false, None);
        }
        self.dropped = 0;
        self.stage = match std::mem::replace(&mut self.stage, Stage::Waiting(None)) {
            Stage::Restoring(task, _) => Stage::Waiting(Some(task.into_engine())),
            Stage::Running(mut task) => {
                task.close();
                Stage::Waiting(Some(task.into_engine()))
            }
            before @ (Stage::Waiting(_) | Stage::Finished) => before,
        };
    }
}

/// The input partitions of some slots.
pub(crate) fn partitions<'a>(slots: impl Iterator<Item = &'a Slot>) -> Vec<TopicPartition> {
    let inputs = slots.flat_map(|slot| &slot.inputs);
    let unique: BTreeSet<TopicPartition> = inputs.map(|input| input.tp.clone()).collect();
    unique.into_iter().collect()
}

/// The tasks of a worker, by id.
pub(crate) type Slots = BTreeMap<crate::topology::TaskId, Slot>;
