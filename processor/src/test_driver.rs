//! [`TestDriver`]: any topology without a broker, one record at a time, with time set by the test.
//!
//! # What it does
//!
//! Everything runs in the calling thread. All sub-topologies form one task with one stream time; with several partitions there is
//! one such task per partition number. A step (one input record, or a move of the clock) is handled to the very end: while there
//! are records, the task takes the earliest one, runs the stream-time punctuations that are due, and commits, which empties the
//! record caches; what it sent to topics that the topology reads itself comes back as new records. Offsets count from 0.
//!
//! # What is real and what is not
//!
//! Tasks, stores, overlay, record cache, changelogs and the commit protocol (exactly-once, a transaction per record) are those of
//! a running application. The topics are a log of the driver's own behind the [`Producer`](thalweg_connectors::Producer) port, and
//! not `mem://`, for three reasons: a test sees records as they were sent, while a broker stamps those without a timestamp; topics
//! come into being when they are first written, so that topic extractors need no set-up; and offsets have no gaps for transaction
//! markers. The run loop, groups and read-committed are not here: run the application on `mem://` for those.

mod edges;
mod log;
mod run;
mod stores;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg_connectors::{NewRecord, PortError, PortErrorKind, Timestamp, Topic};
use thalweg_state::{Engine, MemEngine, StateError};

use crate::collector::Collector;
use crate::config::TaskConfig;
use crate::error::{BoxError, TaskError};
use crate::task::Task;
use crate::topology::{NodeKind, Topology};
use log::{Log, Recorder, SharedLog, lock};

pub use edges::{TestInput, TestOutput};
pub use log::SentRecord;
pub use stores::{StoredEntry, TestEntry, TestStore};

/// Makes the engine of the task of a partition.
type EngineFactory = Box<dyn FnMut(i32) -> Result<Box<dyn Engine>, StateError>>;

/// What a [restart](TestDriver::restart) finds of the stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocalState {
    /// What was committed, as after a crash of the process.
    Kept,
    /// Nothing, as after a move to another machine: all stores are rebuilt from their changelogs.
    Lost,
}

/// Runs a topology in a test.
///
/// ```
/// use std::sync::Arc;
/// use thalweg_connectors::Topic;
/// use thalweg_processor::{
///     Record, SinkDef, SourceDef, TaskConfig, TestDriver, TopicRef, TopologyBuilder,
/// };
///
/// let lines = Topic::<String, String>::new("lines");
/// let copies = Topic::<String, String>::new("copies");
///
/// let mut builder = TopologyBuilder::new();
/// builder.add_source("in", SourceDef::typed(&lines))?;
/// let sink = SinkDef::<String, String>::fixed(TopicRef::External("copies".into()), Arc::new(copies.clone()));
/// let (topic, supplier) = sink.build();
/// builder.add_sink("out", topic, supplier, &["in"])?;
/// let topology = builder.build()?;
///
/// let mut driver = TestDriver::new(&topology, TaskConfig::new("app"))?;
/// let mut read = driver.output(&copies);
/// driver.input(&lines).pipe("k", "hello", 10)?.pipe("k", "again", 20)?;
///
/// let first = read.read_record()?;
/// assert_eq!(first, Some(Record::new("k".to_owned(), "hello".to_owned(), 10)));
/// assert_eq!(read.read_pairs()?, [("k".to_owned(), "again".to_owned())]);
/// assert_eq!(driver.stream_time().0, 20);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct TestDriver {
    topology: Topology,
    config: Arc<TaskConfig>,
    engine: EngineFactory,
    default_partitions: i32,
    now: Timestamp,
    log: SharedLog,
    output: Collector,
    /// By partition number.
    tasks: Vec<Task>,
    /// Of tasks before the last restart.
    dropped_before: u64,
    has_failed: bool,
}

/// Sets up a [`TestDriver`].
pub struct TestDriverBuilder {
    topology: Topology,
    config: TaskConfig,
    engine: EngineFactory,
    default_partitions: i32,
    partitions: BTreeMap<Arc<str>, i32>,
    wall_clock: Timestamp,
}

impl TestDriverBuilder {
    /// Where the clock stands at first; 0 if not said.
    #[must_use]
    pub fn wall_clock(mut self, at: impl Into<Timestamp>) -> Self {
        self.wall_clock = at.into();
        self
    }

    /// How many partitions a topic has, by its full name.
    #[must_use]
    pub fn partitions(mut self, topic: impl Into<Arc<str>>, partitions: i32) -> Self {
        self.partitions.insert(topic.into(), partitions.max(1));
        self
    }

    /// How many partitions all other topics have; 1 if not said. A repartition topic that has a number of its own keeps it.
    #[must_use]
    pub fn default_partitions(mut self, partitions: i32) -> Self {
        self.default_partitions = partitions.max(1);
        self
    }

    /// What stores are kept in; [`MemEngine`] if not said. Called once per partition number, and again after a restart that lost
    /// the state.
    #[must_use]
    pub fn engine(
        mut self,
        engine: impl FnMut(i32) -> Result<Box<dyn Engine>, StateError> + 'static,
    ) -> Self {
        self.engine = Box::new(engine);
        self
    }

    /// Starts the topology.
    ///
    /// # Errors
    /// Whatever processors report when they are made and initialized.
    pub fn start(self) -> Result<TestDriver, TaskError> {
        let log: SharedLog = Arc::new(Mutex::new(Log::default()));
        let output = run::collector(&log, self.default_partitions)?;
        let mut driver = TestDriver {
            topology: self.topology,
            config: Arc::new(self.config),
            engine: self.engine,
            default_partitions: self.default_partitions,
            now: self.wall_clock,
            log,
            output,
            tasks: Vec::new(),
            dropped_before: 0,
            has_failed: false,
        };
        driver.create_topics(&self.partitions);
        driver.open(None)?;
        driver.step(TestDriver::commit_all)?;
        Ok(driver)
    }
}

impl TestDriver {
    /// Starts a topology: the clock at 0, every topic with one partition, stores in memory.
    ///
    /// # Errors
    /// Whatever processors report when they are made and initialized.
    pub fn new(topology: &Topology, config: TaskConfig) -> Result<Self, TaskError> {
        Self::builder(topology, config).start()
    }

    /// Sets up a driver that needs more.
    pub fn builder(topology: &Topology, config: TaskConfig) -> TestDriverBuilder {
        TestDriverBuilder {
            topology: topology.clone(),
            config,
            engine: Box::new(|_| Ok(Box::new(MemEngine::new()))),
            default_partitions: 1,
            partitions: BTreeMap::new(),
            wall_clock: Timestamp(0),
        }
    }

    /// The typed end of a topic that the topology reads.
    pub fn input<K: 'static, V: 'static>(&mut self, topic: &Topic<K, V>) -> TestInput<'_, K, V> {
        TestInput::new(self, topic.clone())
    }

    /// Puts a record on a topic that the topology reads, and handles it to the very end.
    ///
    /// # Errors
    /// Whatever the topology reports; a topic that it does not read, or a partition that the topic does not have.
    pub fn pipe_raw(
        &mut self,
        topic: &str,
        partition: i32,
        record: &NewRecord<'_>,
    ) -> Result<(), TaskError> {
        let partitions = self.source_partitions(topic)?;
        if !(0..partitions).contains(&partition) {
            let message = format!(
                "topic `{topic}` has {partitions} partitions in this test, so there is no partition {partition}"
            );
            return Err(PortError::new(PortErrorKind::UnknownTopic, message).into());
        }
        let sent = SentRecord::new(partition, record, self.now);
        self.step(|driver| {
            lock(&driver.log).append(topic, sent);
            Ok(())
        })
    }

    /// Reads a topic from its first record on.
    pub fn output<K: 'static, V: 'static>(&self, topic: &Topic<K, V>) -> TestOutput<K, V> {
        TestOutput::new(Arc::clone(&self.log), topic.clone())
    }

    /// All records of a topic, in the order they were sent, internal topics and changelogs included (by their full names). What a
    /// failed step did is left out.
    pub fn read_raw(&self, topic: &str) -> Vec<SentRecord> {
        lock(&self.log).visible(topic).to_vec()
    }

    /// What the step that failed had sent to a topic; empty when the last step succeeded. Under exactly-once it does not count.
    pub fn read_failed_step(&self, topic: &str) -> Vec<SentRecord> {
        lock(&self.log).of_failed_step(topic)
    }

    /// The topics there are: those of the topology, and those it wrote to.
    pub fn topics(&self) -> Vec<Arc<str>> {
        lock(&self.log).names().cloned().collect()
    }

    /// Moves the clock: runs each wall-clock punctuation that is due once, commits, and handles what they sent.
    ///
    /// # Errors
    /// Whatever the topology reports.
    pub fn advance_wall_clock(&mut self, by: Duration) -> Result<(), TaskError> {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.step(|driver| {
            driver.now = Timestamp(driver.now.0.saturating_add(by));
            lock(&driver.log).now = driver.now;
            driver.punctuate()
        })
    }

    /// Where the clock stands.
    pub fn wall_clock(&self) -> Timestamp {
        self.now
    }

    /// The highest timestamp that the topology has seen in any partition; -1 before the first record.
    pub fn stream_time(&self) -> Timestamp {
        let times = self.tasks.iter().map(Task::stream_time);
        times.max().unwrap_or(Timestamp::NONE)
    }

    /// How many records were dropped since the start: late, null key, undecodable and so on.
    pub fn dropped_records(&self) -> u64 {
        let now: u64 = self.tasks.iter().map(Task::dropped_records).sum();
        let globals = self.output.globals.as_ref().map_or(0, |globals| globals.dropped_records());
        self.dropped_before + now + globals
    }

    /// Drops the tasks with everything uncommitted, and starts anew from the last commit: its offsets, and its stores, kept or
    /// rebuilt from the changelogs. Then handles input that is not committed yet: after a failed step, its record once more.
    ///
    /// # Errors
    /// Whatever the topology reports.
    pub fn restart(&mut self, state: LocalState) -> Result<(), TaskError> {
        let tasks: u64 = self.tasks.iter().map(Task::dropped_records).sum();
        // Those of the global stores come again.
        self.dropped_before += tasks;
        let engines: Vec<_> = self.tasks.drain(..).map(Task::into_engine).collect();
        self.has_failed = true;
        self.output = run::collector(&self.log, self.default_partitions)?;
        self.open((state == LocalState::Kept).then_some(engines))?;
        self.has_failed = false;
        self.step(Self::commit_all)
    }

    /// Closes all processors.
    pub fn close(mut self) {
        self.tasks.iter_mut().for_each(Task::close);
        if let Some(globals) = &mut self.output.globals {
            globals.close();
        }
    }

    fn partitions_of(&self, topic: &str) -> Option<i32> {
        lock(&self.log).partitions(topic)
    }

    /// How many partitions a topic has that the topology reads.
    fn source_partitions(&self, topic: &str) -> Result<i32, TaskError> {
        let sources: Vec<_> = self.sources().collect();
        if !sources.iter().any(|name| **name == *topic) {
            let message = format!(
                "the topology does not read topic `{topic}`; it reads {}",
                sources.join(", ")
            );
            return Err(PortError::new(PortErrorKind::UnknownTopic, message).into());
        }
        Ok(self.partitions_of(topic).unwrap_or(1))
    }

    /// The topics that the topology reads, by full name.
    fn sources(&self) -> impl Iterator<Item = Arc<str>> {
        let app = &self.config.application_id;
        self.topology
            .nodes()
            .filter_map(|node| match &node.kind {
                NodeKind::Source(def) => Some(&def.topics),
                _ => None,
            })
            .flatten()
            .map(|topic| topic.resolve(app))
    }
}

fn refused(what: &str, cause: impl Into<BoxError>) -> TaskError {
    let error = PortError::new(PortErrorKind::Refused, format!("{what} in this test"));
    error.caused_by(cause).into()
}

#[cfg(test)]
#[path = "test_driver_tests.rs"]
mod tests;
