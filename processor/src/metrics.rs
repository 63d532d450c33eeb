//! The numbers of a run: one registry of plain atomics, published by each worker once per cycle, never per record.
//!
//! [`Metrics::snapshot`] reads them all at one moment; whoever shows them (an endpoint, a page, a test) formats them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thalweg_connectors::TopicPartition;

use crate::topology::TaskId;

/// Where a run stands.
///
/// ```text
/// Created ──► Restoring ◄──► Running ──► Stopping ──► Stopped
///    any ──► Failed
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum StreamsState {
    /// No worker has taken up work yet.
    Created,
    /// Some task waits for its committed offsets or its stores.
    Restoring,
    /// All tasks process.
    Running,
    /// A clean shutdown is under way.
    Stopping,
    /// It has ended cleanly.
    Stopped,
    /// It has ended with an error.
    Failed,
}

impl StreamsState {
    const ALL: [Self; 6] = [
        Self::Created,
        Self::Restoring,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::Failed,
    ];

    /// Its name in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Restoring => "restoring",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// An input partition, as its worker sees it.
#[derive(Debug)]
pub(crate) struct PartitionCell {
    /// Negative while it is not known; so is the end.
    pub(crate) position: AtomicI64,
    pub(crate) end: AtomicI64,
    pub(crate) consumed: AtomicU64,
    pub(crate) rate_per_1000_s: AtomicU64,
}

impl PartitionCell {
    fn new() -> Self {
        let (unknown, none) = (|| AtomicI64::new(-1), || AtomicU64::new(0));
        Self { position: unknown(), end: unknown(), consumed: none(), rate_per_1000_s: none() }
    }
}

/// Work that went from one member of the group to another.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    tasks: AtomicU64,
    partitions: AtomicU64,
}

impl Moved {
    pub(crate) fn add(&self, tasks: usize, partitions: usize) {
        self.tasks.fetch_add(tasks as u64, Relaxed);
        self.partitions.fetch_add(partitions as u64, Relaxed);
    }
}

/// The restore of one store.
#[derive(Debug, Default)]
pub(crate) struct RestoreCell {
    pub(crate) restored: AtomicU64,
    pub(crate) remaining: AtomicU64,
    pub(crate) changelog_length: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct WorkerCell {
    state: AtomicU8,
    pub(crate) tasks: AtomicU64,
}

/// Names the restore of a store: its task and its name.
type RestoreKey = (TaskId, Arc<str>);

/// The registry of one run.
#[derive(Debug)]
pub struct Metrics {
    pub(crate) workers: Vec<WorkerCell>,
    stopping: AtomicBool,
    failed: AtomicBool,
    /// Some worker ended without its last commit.
    uncommitted: AtomicBool,
    pub(crate) processed: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) commits: AtomicU64,
    commit_last_us: AtomicU64,
    commit_max_us: AtomicU64,
    commit_total_us: AtomicU64,
    pub(crate) rebalances: AtomicU64,
    pub(crate) assigned: Moved,
    pub(crate) revoked: Moved,
    pub(crate) lost: Moved,
    pub(crate) recoveries: AtomicU64,
    partitions: Mutex<BTreeMap<TopicPartition, Arc<PartitionCell>>>,
    restores: Mutex<BTreeMap<RestoreKey, (TopicPartition, Arc<RestoreCell>)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    /// An empty registry for that many workers.
    pub fn new(workers: usize) -> Arc<Self> {
        let worker = |_| WorkerCell { state: AtomicU8::new(0), tasks: AtomicU64::new(0) };
        Arc::new(Self {
            workers: (0..workers).map(worker).collect(),
            stopping: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            uncommitted: AtomicBool::new(false),
            processed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            commit_last_us: AtomicU64::new(0),
            commit_max_us: AtomicU64::new(0),
            commit_total_us: AtomicU64::new(0),
            rebalances: AtomicU64::new(0),
            assigned: Moved::default(),
            revoked: Moved::default(),
            lost: Moved::default(),
            recoveries: AtomicU64::new(0),
            partitions: Mutex::new(BTreeMap::new()),
            restores: Mutex::new(BTreeMap::new()),
        })
    }

    pub(crate) fn set_state(&self, worker: usize, state: StreamsState) {
        self.workers[worker].state.store(state as u8, Relaxed);
    }

    pub(crate) fn set_stopping(&self) {
        self.stopping.store(true, Relaxed);
    }

    pub(crate) fn set_failed(&self) {
        self.failed.store(true, Relaxed);
    }

    pub(crate) fn set_uncommitted(&self) {
        self.uncommitted.store(true, Relaxed);
    }

    /// Has every worker that ended made its last commit?
    pub(crate) fn is_all_committed(&self) -> bool {
        !self.uncommitted.load(Relaxed)
    }

    pub(crate) fn committed(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.commits.fetch_add(1, Relaxed);
        self.commit_last_us.store(us, Relaxed);
        self.commit_max_us.fetch_max(us, Relaxed);
        self.commit_total_us.fetch_add(us, Relaxed);
    }

    /// The cell of an input partition that a worker takes up.
    pub(crate) fn partition(&self, tp: &TopicPartition) -> Arc<PartitionCell> {
        let cell = Arc::new(PartitionCell::new());
        locked(&self.partitions).insert(tp.clone(), Arc::clone(&cell));
        cell
    }

    /// Forgets an input partition that its worker has given up, unless another worker has taken it up already.
    pub(crate) fn forget(&self, tp: &TopicPartition, cell: &Arc<PartitionCell>) {
        let mut partitions = locked(&self.partitions);
        if partitions.get(tp).is_some_and(|current| Arc::ptr_eq(current, cell)) {
            partitions.remove(tp);
        }
    }

    /// Nothing is left to restore for a task that its worker has given up.
    pub(crate) fn forget_restores(&self, task: TaskId) {
        for ((of, _), (_, cell)) in &*locked(&self.restores) {
            if *of == task {
                cell.remaining.store(0, Relaxed);
            }
        }
    }

    pub(crate) fn restore(
        &self,
        task: TaskId,
        store: &str,
        changelog: &TopicPartition,
    ) -> Arc<RestoreCell> {
        let mut restores = locked(&self.restores);
        let entry = restores.entry((task, store.into()));
        let (_, cell) = entry.or_insert_with(|| (changelog.clone(), Arc::default()));
        Arc::clone(cell)
    }

    /// Where the run stands: the state of the worker that is least far.
    pub fn state(&self) -> StreamsState {
        if self.failed.load(Relaxed) {
            return StreamsState::Failed;
        }
        let states = self.workers.iter().map(|w| w.state.load(Relaxed));
        let least =
            states.min().map_or(StreamsState::Stopped, |s| StreamsState::ALL[usize::from(s)]);
        match self.stopping.load(Relaxed) {
            true if least < StreamsState::Stopped => StreamsState::Stopping,
            _ => least,
        }
    }

    /// Reads all numbers.
    pub fn snapshot(&self) -> MetricsSnapshot {
        let micros = |of: &AtomicU64| Duration::from_micros(of.load(Relaxed));
        let partitions = locked(&self.partitions);
        let restores = locked(&self.restores);
        MetricsSnapshot {
            state: self.state(),
            workers: self.workers.len(),
            tasks: self.workers.iter().map(|w| w.tasks.load(Relaxed)).sum(),
            records_processed: self.processed.load(Relaxed),
            records_dropped: self.dropped.load(Relaxed),
            commits: self.commits.load(Relaxed),
            commit_latency: CommitLatency {
                last: micros(&self.commit_last_us),
                max: micros(&self.commit_max_us),
                total: micros(&self.commit_total_us),
            },
            rebalances: self.rebalances.load(Relaxed),
            tasks_assigned: self.assigned.tasks.load(Relaxed),
            tasks_revoked: self.revoked.tasks.load(Relaxed),
            tasks_lost: self.lost.tasks.load(Relaxed),
            partitions_assigned: self.assigned.partitions.load(Relaxed),
            partitions_revoked: self.revoked.partitions.load(Relaxed),
            partitions_lost: self.lost.partitions.load(Relaxed),
            recoveries: self.recoveries.load(Relaxed),
            partitions: partitions
                .iter()
                .map(|(tp, cell)| (tp.clone(), PartitionMetrics::read(cell)))
                .collect(),
            restores: restores
                .iter()
                .map(|((task, store), (changelog, cell))| RestoreMetrics {
                    task: *task,
                    store: Arc::clone(store),
                    changelog: changelog.clone(),
                    records_restored: cell.restored.load(Relaxed),
                    remaining: cell.remaining.load(Relaxed),
                    changelog_length: cell.changelog_length.load(Relaxed),
                })
                .collect(),
        }
    }
}

/// How long commits took, flush to persisted state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CommitLatency {
    /// The last one.
    pub last: Duration,
    /// The longest.
    pub max: Duration,
    /// All together; divided by the number of commits it is the mean.
    pub total: Duration,
}

/// An input partition.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PartitionMetrics {
    /// The next offset to process; -1 until its task has been opened.
    pub position: i64,
    /// The last stable offset when it was last looked at; -1 until then, which is at most `metrics_interval` later.
    pub end: i64,
    /// Offsets between the two; `None` while one of them is not known.
    pub lag: Option<u64>,
    /// Records read by the worker that has the partition since it took it up.
    pub consumed: u64,
    /// Records per second, over the last interval of at least a second.
    pub rate: f64,
}

impl PartitionMetrics {
    fn read(cell: &PartitionCell) -> Self {
        let (position, end) = (cell.position.load(Relaxed), cell.end.load(Relaxed));
        Self {
            position,
            end,
            lag: (position >= 0 && end >= 0).then(|| u64::try_from(end - position).unwrap_or(0)),
            consumed: cell.consumed.load(Relaxed),
            rate: cell.rate_per_1000_s.load(Relaxed) as f64 / 1000.0,
        }
    }
}

/// The restore of one store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestoreMetrics {
    /// The task.
    pub task: TaskId,
    /// The store.
    pub store: Arc<str>,
    /// What it is restored from.
    pub changelog: TopicPartition,
    /// Changelog records applied by this process, over all restores.
    pub records_restored: u64,
    /// Offsets still to be read; 0 when done.
    pub remaining: u64,
    /// Offsets from the changelog's start to its end when the last restore began: what a full restore would read.
    pub changelog_length: u64,
}

/// All numbers at one moment.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct MetricsSnapshot {
    /// Where the run stands.
    pub state: StreamsState,
    /// How many workers it was started with.
    pub workers: usize,
    /// Tasks that its workers hold.
    pub tasks: u64,
    /// Records processed.
    pub records_processed: u64,
    /// Records dropped: late, null key, undecodable and so on.
    pub records_dropped: u64,
    /// Commits that had something to commit.
    pub commits: u64,
    /// How long they took.
    pub commit_latency: CommitLatency,
    /// How often the group shared its work anew, counted by each worker of this process.
    pub rebalances: u64,
    /// Tasks taken up.
    pub tasks_assigned: u64,
    /// Tasks given up for another member.
    pub tasks_revoked: u64,
    /// Tasks lost without a chance to commit.
    pub tasks_lost: u64,
    /// Input partitions of the tasks taken up.
    pub partitions_assigned: u64,
    /// Input partitions of the tasks given up.
    pub partitions_revoked: u64,
    /// Input partitions of the tasks lost.
    pub partitions_lost: u64,
    /// How often workers went back to the last commit.
    pub recoveries: u64,
    /// Input partitions.
    pub partitions: BTreeMap<TopicPartition, PartitionMetrics>,
    /// Restores, by task and store.
    pub restores: Vec<RestoreMetrics>,
}

impl MetricsSnapshot {
    /// Changelog records applied, all stores together.
    pub fn records_restored(&self) -> u64 {
        self.restores.iter().map(|r| r.records_restored).sum()
    }

    /// Offsets of all changelogs together, when their last restore began.
    pub fn changelogs_length(&self) -> u64 {
        self.restores.iter().map(|r| r.changelog_length).sum()
    }
}
