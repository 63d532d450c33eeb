//! What a run is told. The dotted names are Kafka Streams'.

use std::path::PathBuf;
use std::time::Duration;

use thalweg_connectors::{OffsetReset, Timestamp};
use thalweg_txn::Guarantee;

use crate::config::TaskConfig;

/// Which engine keeps committed state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StateEngine {
    /// On disk when the feature `rocksdb` is there, else in memory.
    #[default]
    Disk,
    /// In memory: every start restores from the changelogs.
    Memory,
}

/// Where state lies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StateConfig {
    /// `state.dir`: the application's own directory is made below it, and locked. `None`: nothing touches the disk; the identity of
    /// the instance's producers is a new one each time, so a transaction that a killed instance left open ends by its time-out, and
    /// its inputs wait for that.
    pub directory: Option<PathBuf>,
    /// Which engine keeps it.
    pub engine: StateEngine,
}

/// Where a replay begins reading the external topics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayFrom {
    /// At the first record of each partition.
    Beginning,
    /// At the first record that is not older.
    Time(Timestamp),
    /// At this offset of each partition, or the nearest there is.
    Offset(i64),
}

/// Where reading begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StartAt {
    /// At the committed offsets, and where there are none as `auto.offset.reset` says.
    #[default]
    Committed,
    /// Anew: offsets, internal topics, output topics and local state of this application id are made fresh. The application
    /// id and the output suffix have to be the replay's own; an output suffix is demanded. Sinks that choose their topic by
    /// record are refused, because nobody knows which topics to make fresh.
    ///
    /// With an end ([`Until`]), records are processed strictly by time and no clock decides anything, so that two replays of
    /// the same range give the same records in the same order: caches are off, and punctuations on wall-clock time do not run.
    Replay {
        /// Where to begin.
        from: ReplayFrom,
        /// How much earlier to read in order to fill windows and tables; nothing before `from` is written to outputs. Needs
        /// [`ReplayFrom::Time`].
        warm_up: Duration,
    },
}

/// When a run ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Until {
    /// Never.
    #[default]
    Forever,
    /// When everything that was in the external topics at the start has been processed, through all internal topics, and
    /// committed.
    ///
    /// All workers of the run share what they know of ends, other processes do not: run one process of the application. In a
    /// group of several processes each waits for the tasks of the others to finish, which it never hears of, and does not end.
    EndAtStart,
    /// The same, up to the first record of each partition that is not older than this.
    Time(Timestamp),
}

/// What happens when a topic that a sink writes is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MissingOutputs {
    /// The start fails and names it.
    #[default]
    Fail,
    /// It is made, with as many partitions as tasks write it.
    Create,
    /// Nothing: the backend makes it, or the first record fails.
    Ignore,
}

/// Configuration of a run. Every limit of the workers is here.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuntimeConfig {
    /// Of the tasks; holds the application id. What it says of the record cache is for all workers together, who share it evenly.
    pub task: TaskConfig,
    /// `processing.guarantee`.
    pub guarantee: Guarantee,
    /// `num.stream.threads`. Default 1.
    pub workers: usize,
    /// `commit.interval.ms`. `None`, the default: 100 ms under exactly-once, else 30 s, as in Kafka Streams.
    pub commit_interval: Option<Duration>,
    /// Where state lies.
    pub state: StateConfig,
    /// `auto.offset.reset` where a source does not say otherwise.
    pub auto_offset_reset: OffsetReset,
    /// `poll.ms`: how long an idle worker waits for records. Default 100 ms.
    pub poll_timeout: Duration,
    /// `max.poll.records`: about how many records one poll takes over. Default 4000, several times Kafka's: a poll of an
    /// embedded backend copies nothing.
    pub poll_records_max: usize,
    /// How many records a task processes at most before it is the next one's turn. Default 500; fewer when records take long, so
    /// that commits are made in time and a wish to stop is soon heard.
    pub turn_records_max: usize,
    /// How long a worker works on what it has before it looks at its group and its inputs again. Default 100 ms.
    pub cycle_max: Duration,
    /// How many records a restore takes over at once. Default 10 000.
    pub restore_records_max: usize,
    /// `max.task.idle.ms`: how much longer a task waits for an input that has been read to its end; zero, the default, only
    /// waits for what is known to be there; `None` never waits.
    pub task_idle_max: Option<Duration>,
    /// `task.timeout.ms`: how long a worker tries again before it gives up. Default 5 minutes.
    pub task_timeout: Duration,
    /// About how many bytes a worker sends before it asks for an early commit: backends may hold an open transaction in memory.
    /// Looked at after every turn. Default 64 MiB.
    pub transaction_bytes_max: usize,
    /// How long a transaction may stay open. Default 10 s, as in Kafka Streams.
    pub transaction_timeout: Duration,
    /// `repartition.purge.interval.ms`: how often consumed repartition records are deleted. Default 30 s.
    pub purge_interval: Duration,
    /// How often lag and rates are looked at. Default 1 s.
    pub metrics_interval: Duration,
    /// Local state whose last commit is older is discarded: the changelog may have lost its tombstones since (half of its
    /// `delete.retention.ms`). `None`, the default: that half on backends that compact,
    /// never on others.
    pub state_age_max: Option<Duration>,
    /// What happens when a topic that a sink writes is not there.
    pub missing_outputs: MissingOutputs,
    /// Where reading begins.
    pub start: StartAt,
    /// When the run ends by itself.
    pub until: Until,
}

impl RuntimeConfig {
    /// The defaults of Kafka Streams.
    pub fn new(task: TaskConfig) -> Self {
        Self {
            task,
            guarantee: Guarantee::default(),
            workers: 1,
            commit_interval: None,
            state: StateConfig::default(),
            auto_offset_reset: OffsetReset::Earliest,
            poll_timeout: Duration::from_millis(100),
            poll_records_max: 4000,
            turn_records_max: 500,
            cycle_max: Duration::from_millis(100),
            restore_records_max: 10_000,
            task_idle_max: Some(Duration::ZERO),
            task_timeout: Duration::from_secs(300),
            transaction_bytes_max: 64 << 20,
            transaction_timeout: Duration::from_secs(10),
            purge_interval: Duration::from_secs(30),
            metrics_interval: Duration::from_secs(1),
            state_age_max: None,
            missing_outputs: MissingOutputs::Fail,
            start: StartAt::Committed,
            until: Until::Forever,
        }
    }

    /// The commit interval in force.
    pub fn commit_interval(&self) -> Duration {
        self.commit_interval.unwrap_or(match self.guarantee {
            Guarantee::ExactlyOnce => Duration::from_millis(100),
            Guarantee::AtLeastOnce => Duration::from_secs(30),
        })
    }
}
