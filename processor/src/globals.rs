//! Global stores: every worker keeps all partitions of their topics, and lends them to its tasks for reading.
//!
//! They are filled by nodes of their own, from the topics' beginning at each start; tasks begin when that is done, and from then on
//! the stores follow their topics as records come. They are kept in memory, belong to no transaction, and write nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_connectors::{
    Acknowledged, CommittedOffset, Fetched, GroupMetadata, NewRecord, Offset, PortError,
    PortErrorKind, PortResult, Producer, Timestamp, TopicPartition, TopicSlot,
};
use thalweg_state::MemEngine;
use thalweg_txn::{Committer, Guarantee};

use crate::collector::Collector;
use crate::config::{OnError, TaskConfig};
use crate::context::Shared;
use crate::error::TaskError;
use crate::task::{Task, TaskSpec};
use crate::topology::{TaskId, Topology};

/// The global stores of a worker, and the nodes that fill them.
pub(crate) struct Globals {
    task: Task,
    output: Collector,
    /// How far each topic was at the start, until that is read.
    targets: BTreeMap<TopicPartition, Offset>,
}

impl Globals {
    /// Those of a topology; `None` when it has none. `partitions` has the topics by full name.
    pub(crate) fn build(
        topology: &Topology,
        config: &TaskConfig,
        partitions: &BTreeMap<Arc<str>, i32>,
    ) -> Result<Option<Box<Self>>, TaskError> {
        let parts = topology.sub_topologies().iter().enumerate();
        let parts: Vec<_> = parts.filter(|(_, part)| part.is_global).collect();
        let Some((number, _)) = parts.first() else { return Ok(None) };
        let nodes: Vec<_> = parts.iter().flat_map(|(_, part)| part.nodes.clone()).collect();
        let stores: Vec<_> = parts.iter().flat_map(|(_, part)| part.stores.clone()).collect();
        let mut config = config.clone();
        config.dead_letter_topic = None;
        config.cache_max_bytes = 0;
        if !config.processing_handler_covers_globals {
            config.on_processing_error = OnError::Fail;
        }
        let spec = TaskSpec {
            topology,
            nodes: &nodes,
            stores: &stores,
            id: TaskId { subtopology: *number as u32, partition: TaskId::ALL_PARTITIONS },
            partitions,
            config: Arc::new(config),
        };
        let committer = Committer::new(Guarantee::AtLeastOnce);
        let mut output = Collector::new(Box::new(NoProducer), committer);
        let task = spec.build(Box::new(MemEngine::new()), &mut output)?;
        Ok(Some(Box::new(Self { task, output, targets: BTreeMap::new() })))
    }

    /// Prepares the nodes, and says from where to where their topics are to be read before any task begins.
    pub(crate) fn begin(
        &mut self,
        starts: &BTreeMap<TopicPartition, Offset>,
        ends: BTreeMap<TopicPartition, Offset>,
        now: Timestamp,
    ) -> Result<(), TaskError> {
        for (tp, start) in starts {
            self.task.start_at(tp, *start, &thalweg_txn::OffsetMetadata::default());
        }
        self.targets = ends;
        self.task.init(&mut self.output, now).map_err(failed)
    }

    /// All partitions of their topics.
    pub(crate) fn inputs(&self) -> Vec<TopicPartition> {
        self.task.inputs().cloned().collect()
    }

    /// Where reading goes on, by partition.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (&TopicPartition, Offset)> {
        self.task.positions()
    }

    /// Buffers fetched records; hands them back when they are of another topic.
    pub(crate) fn add(&mut self, fetched: Fetched) -> Result<(), Fetched> {
        self.task.add(fetched)
    }

    /// Brings everything that is buffered into the stores; tells whether there was anything.
    pub(crate) fn process(&mut self, now: Timestamp) -> Result<bool, TaskError> {
        let done = self.task.process(usize::MAX, &mut self.output, now).map_err(failed)?;
        if done > 0 {
            self.task.keep(now)?;
        }
        if !self.targets.is_empty() {
            let position: BTreeMap<_, _> = self.task.positions().collect();
            self.targets.retain(|tp, end| position.get(tp).is_some_and(|at| at < end));
        }
        Ok(done > 0)
    }

    /// Do the stores hold what their topics held at the start?
    pub(crate) fn is_ready(&self) -> bool {
        self.targets.is_empty()
    }

    /// Records dropped on the way into the stores.
    pub(crate) fn dropped_records(&self) -> u64 {
        self.task.dropped_records()
    }

    /// The task that fills the stores.
    pub(crate) fn task(&mut self) -> &mut Task {
        &mut self.task
    }

    /// What is lent for a look into the stores.
    pub(crate) fn lend(&mut self) -> (&mut Shared, &mut Collector) {
        (self.task.shared(), &mut self.output)
    }

    /// Closes the nodes.
    pub(crate) fn close(&mut self) {
        self.task.close();
    }
}

fn failed(error: TaskError) -> TaskError {
    TaskError::Global { source: Box::new(error) }
}

/// Stands where nothing is ever sent.
struct NoProducer;

fn nothing_is_sent<T>() -> PortResult<T> {
    Err(PortError::new(PortErrorKind::Unsupported, "nodes of global stores send nothing"))
}

impl Producer for NoProducer {
    fn init_transactions(&mut self) -> PortResult<()> {
        nothing_is_sent()
    }

    fn begin(&mut self) -> PortResult<()> {
        nothing_is_sent()
    }

    fn topic(&mut self, _: &str) -> PortResult<(TopicSlot, i32)> {
        nothing_is_sent()
    }

    fn send(&mut self, _: TopicSlot, _: i32, _: &NewRecord<'_>) -> PortResult<()> {
        nothing_is_sent()
    }

    fn flush(&mut self) -> PortResult<Acknowledged> {
        nothing_is_sent()
    }

    fn send_offsets(
        &mut self,
        _: &BTreeMap<TopicPartition, CommittedOffset>,
        _: &GroupMetadata,
    ) -> PortResult<()> {
        nothing_is_sent()
    }

    fn commit(&mut self) -> PortResult<Acknowledged> {
        nothing_is_sent()
    }

    fn abort(&mut self) -> PortResult<()> {
        nothing_is_sent()
    }

    fn commit_offsets(
        &mut self,
        _: &BTreeMap<TopicPartition, CommittedOffset>,
        _: &GroupMetadata,
    ) -> PortResult<()> {
        nothing_is_sent()
    }
}
