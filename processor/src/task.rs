//! A task: one sub-topology on one partition number, advanced record by record.
//!
//! The way of a record: [`Task::add`] buffers what the worker fetched; [`Task::process`] takes the earliest, lets its source decode
//! it and hand it down the graph; [`Task::flush_caches`], [`Task::offsets`] and [`Task::persist`] are its part of a commit.

mod advance;
mod build;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_connectors::{Fetched, Headers, Offset, Timestamp, TopicPartition};
use thalweg_state::{CommitFacts, TaskState};
use thalweg_txn::{CommitPermit, OffsetMetadata};

use crate::cache::Key;
use crate::collector::Collector;
use crate::context::{Context, Graph};
use crate::error::{NodeError, NodeErrorKind, NodeResult, TaskError, caught};
use crate::group::{Input, PartitionGroup};
use crate::node::Flushed;
use crate::punctuate::PunctuationType;
use crate::source::Source;
use crate::stores::{LocalStore, StoreHandle, TaskStore, flush_entry};
use crate::topology::{NodeIx, TaskId, Topology};

pub use build::TaskSpec;

/// A sub-topology at work on one partition number.
pub struct Task {
    topology: Topology,
    graph: Graph,
    group: PartitionGroup,
    sources: Vec<Box<dyn Source>>,
    /// The source nodes' places in the graph, by source.
    source_nodes: Vec<NodeIx>,
    /// Changelog partition per store, for its position at a commit.
    changelogs: Vec<Option<TopicPartition>>,
    /// Bytes of waiting updates above which they leave the record cache.
    cache_max_bytes: usize,
    /// Were there records or punctuations since the last commit?
    worked: bool,
}

impl Task {
    /// Its id.
    pub fn id(&self) -> TaskId {
        self.graph.shared.task
    }

    /// The topology it is a part of.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Its input partitions.
    pub fn inputs(&self) -> impl Iterator<Item = &TopicPartition> {
        self.group.inputs.iter().map(|i| &i.tp)
    }

    /// Its stores, for restoring them before [`init`](Self::init).
    pub fn state(&mut self) -> &mut TaskState {
        &mut self.graph.shared.state
    }

    /// The changelog partition of each store, in the order of the state's stores; `None` when it has none.
    pub fn changelogs(&self) -> &[Option<TopicPartition>] {
        &self.changelogs
    }

    /// Sets where an input goes on, from what was committed for it.
    pub fn start_at(&mut self, tp: &TopicPartition, position: Offset, metadata: &OffsetMetadata) {
        let shared = &mut self.graph.shared;
        shared.stream_time = shared.stream_time.max(metadata.partition_time);
        for (name, value) in &metadata.processor {
            shared.remembered.insert(name.clone(), *value);
        }
        if let Some(input) = self.group.find(tp) {
            input.start_at(position, metadata.partition_time);
        }
    }

    /// Ends an input at an offset: a replay's or `--until-end`'s bound.
    pub fn end_at(&mut self, tp: &TopicPartition, until: Offset) {
        if let Some(input) = self.group.find(tp) {
            input.until = Some(until);
        }
    }

    /// Have all inputs come to their bounds? False for inputs without one.
    pub fn is_finished(&self) -> bool {
        self.group.inputs.iter().all(Input::is_finished)
    }

    /// Prepares all nodes: resolves sinks, lets processors schedule their punctuations.
    ///
    /// # Errors
    /// Whatever a node reports.
    pub fn init(&mut self, output: &mut Collector, now: Timestamp) -> Result<(), TaskError> {
        self.graph.shared.wall_time = now;
        self.contained(|task| {
            task.each_node(|task, node| {
                task.visit(node, output, |node, context| node.init(context))
            })
        })
    }

    /// Buffers fetched records; hands them back when the partition is not of this task.
    ///
    /// # Errors
    /// The records themselves.
    pub fn add(&mut self, fetched: Fetched) -> Result<(), Fetched> {
        self.group.add(fetched)
    }

    /// Records that wait in an input.
    pub fn buffered(&self, tp: &TopicPartition) -> usize {
        self.group.inputs.iter().find(|i| i.tp == *tp).map_or(0, Input::buffered)
    }

    /// The position of each input: the next offset to process.
    pub fn positions(&self) -> impl Iterator<Item = (&TopicPartition, Offset)> {
        self.group.inputs.iter().map(|i| (&i.tp, i.position))
    }

    /// Inputs that may hold the earliest record without our knowing: the task waits for them, until data comes or
    /// [`set_caught_up`](Self::set_caught_up) says that there is none.
    pub fn unknown_inputs(&self) -> impl Iterator<Item = (&TopicPartition, Offset)> {
        self.group.unknown().map(|i| (&i.tp, i.position))
    }

    /// Notes that the log holds nothing more of an input than was fetched.
    pub fn set_caught_up(&mut self, tp: &TopicPartition) {
        self.group.set_caught_up(tp);
    }

    /// Runs the punctuations that are due; `now` is the clock's time. Returns whether any ran.
    ///
    /// # Errors
    /// Whatever a node reports.
    pub fn punctuate(&mut self, output: &mut Collector, now: Timestamp) -> Result<bool, TaskError> {
        self.graph.shared.wall_time = now;
        self.contained(|task| {
            let stream = task.run_timers(PunctuationType::StreamTime, output)?;
            Ok(task.run_timers(PunctuationType::WallClockTime, output)? | stream)
        })
    }

    fn run_timers(
        &mut self,
        kind: PunctuationType,
        output: &mut Collector,
    ) -> Result<bool, TaskError> {
        let mut ran = false;
        loop {
            let shared = &mut self.graph.shared;
            let now = match kind {
                PunctuationType::StreamTime if shared.stream_time.0 < 0 => break,
                PunctuationType::StreamTime => shared.stream_time,
                PunctuationType::WallClockTime => shared.wall_time,
            };
            let Some(due) = shared.timers.pop(kind, now) else {
                break;
            };
            (shared.origin, shared.offset, shared.headers) = (None, Offset(-1), Headers::new());
            shared.timestamp = now;
            shared.set_raw(None);
            ran = true;
            self.visit(due.node, output, |node, context| node.punctuate(due.timer, now, context))?;
        }
        self.worked |= ran;
        Ok(ran)
    }

    /// Sends what waits in record caches downstream, store by store in topology order, until nothing waits; then lets the nodes log
    /// what they kept back.
    ///
    /// # Errors
    /// Whatever a node reports.
    pub fn flush_caches(&mut self, output: &mut Collector) -> Result<(), TaskError> {
        self.contained(|task| {
            task.flush_all(output)?;
            task.each_node(|task, node| {
                task.visit(node, output, |node, context| node.before_commit(context))
            })
        })
    }

    /// Does something with each node that is at home.
    fn each_node(
        &mut self,
        mut work: impl FnMut(&mut Self, NodeIx) -> Result<(), TaskError>,
    ) -> Result<(), TaskError> {
        for ix in 0..self.graph.slots.len() {
            if self.graph.slots[ix].node.is_some() {
                work(self, NodeIx(ix as u32))?;
            }
        }
        Ok(())
    }

    fn flush_all(&mut self, output: &mut Collector) -> Result<(), TaskError> {
        while !self.graph.shared.cache.is_empty() {
            for store in (0..self.graph.shared.stores.len()).map(LocalStore) {
                self.flush_store(store, output)?;
            }
        }
        Ok(())
    }

    fn flush_store(&mut self, store: LocalStore, output: &mut Collector) -> Result<(), TaskError> {
        let TaskStore { ix, owner, .. } = self.graph.shared.stores[store.0];
        let mut written = Vec::new();
        for (key, mut dirty) in self.graph.shared.cache.drain(store) {
            let shared = &mut self.graph.shared;
            let key: &[u8] = match &key {
                Key::Window(key) => key,
                Key::Written(place) => {
                    written.clear();
                    let key = shared.state.written_key(ix, *place);
                    written
                        .extend_from_slice(key.expect("writes leave their store after the cache"));
                    &written
                }
            };
            let context = &dirty.context;
            shared.origin = context
                .metadata
                .as_ref()
                .map(|m| TopicPartition::new(m.topic.clone(), m.partition));
            shared.offset = context.metadata.as_ref().map_or(Offset(-1), |m| m.offset);
            (shared.timestamp, shared.headers) = (context.timestamp, context.headers.clone());
            shared.set_raw(dirty.raw.as_deref());
            let timestamp = context.timestamp;
            let new = flush_entry(shared, output, store, (key, &mut dirty), timestamp);
            let new = new.map_err(|error| {
                let store = || Arc::clone(&self.graph.shared.stores[store.0].name);
                let name = owner.map_or_else(store, |node| self.graph.node_name(node));
                task_error(&self.graph, name, error)
            })?;
            if new.is_none() && dirty.old.is_none() {
                continue;
            }
            if let Some(owner) = owner {
                let (new, old, context) = (new.as_deref(), dirty.old.as_deref(), &dirty.context);
                let entry = Flushed { key, new, old, context };
                self.visit(owner, output, |node, context| node.flush(entry, context))?;
            }
        }
        Ok(())
    }

    fn visit(
        &mut self,
        node: NodeIx,
        output: &mut Collector,
        work: impl FnOnce(&mut dyn crate::node::Node, &mut Context<'_>) -> NodeResult,
    ) -> Result<(), TaskError> {
        let mut context = Context { graph: &mut self.graph, output, node };
        let result = context.visit(node, work);
        result.map_err(|error| task_error(&self.graph, self.graph.node_name(node), error))
    }

    /// Runs user code; a panic in it becomes an error of this task.
    fn contained<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, TaskError>,
    ) -> Result<T, TaskError> {
        caught(|| work(self))
            .unwrap_or_else(|message| Err(self.panicked(self.node_under_way(), message)))
    }

    fn panicked(&self, node: Option<Arc<str>>, message: String) -> TaskError {
        let shared = &self.graph.shared;
        TaskError::Panicked { task: shared.task, node, at: shared.place(), message }
    }

    /// The innermost node that is at work: of those whose places are empty the last, because parents come before their children.
    /// Places of other tasks' nodes are empty, too; none of ours leads to them.
    fn node_under_way(&self) -> Option<Arc<str>> {
        let slots = &self.graph.slots;
        let mut ours: BTreeSet<NodeIx> = BTreeSet::new();
        let mut found: Vec<NodeIx> = self.source_nodes.clone();
        while let Some(node) = found.pop() {
            let children = slots[node.0 as usize].children.iter();
            found.extend(children.copied().filter(|child| ours.insert(*child)));
        }
        let at_work = ours.into_iter().rev().find(|ix| slots[ix.0 as usize].node.is_none());
        at_work.map(|ix| self.graph.node_name(ix))
    }

    /// Brings what was written into the engine, of a task that belongs to no transaction.
    pub(crate) fn keep(&mut self, now: Timestamp) -> Result<(), TaskError> {
        self.graph.shared.state.commit(&CommitFacts::new().committed_at(now.0))?;
        self.worked = false;
        Ok(())
    }

    /// What its nodes share.
    pub(crate) fn shared(&mut self) -> &mut crate::context::Shared {
        &mut self.graph.shared
    }

    /// Does any of its stores have a record cache?
    pub(crate) fn is_caching(&self) -> bool {
        self.graph.shared.stores.iter().any(|store| store.cached)
    }

    /// Sets its part of `statestore.cache.max.bytes`; all of it at first.
    pub(crate) fn set_cache_max(&mut self, bytes: usize) {
        self.cache_max_bytes = bytes;
    }

    /// Did anything happen since the last commit?
    pub fn has_worked(&self) -> bool {
        self.worked
    }

    /// Takes the wish of a processor for an early commit, or the need for one.
    pub fn take_commit_request(&mut self) -> bool {
        let shared = &mut self.graph.shared;
        let full = shared.state.uncommitted_bytes() > shared.config.uncommitted_bytes_max;
        std::mem::take(&mut shared.commit_requested) || full
    }

    /// What a commit says of the inputs: next offset, and the times in its metadata. They travel with the offset and not with the
    /// stores, so that they survive a move, and a task has them that has no store.
    ///
    /// # Errors
    /// When a node panics that is asked what it wants remembered.
    pub fn offsets(&self) -> Result<Vec<(TopicPartition, Offset, OffsetMetadata)>, TaskError> {
        let processor = self.facts()?;
        let metadata = |time| OffsetMetadata { partition_time: time, processor: processor.clone() };
        let inputs = self.group.inputs.iter();
        Ok(inputs.map(|i| (i.tp.clone(), i.position, metadata(i.partition_time))).collect())
    }

    /// What the nodes want remembered, and how far their timers have come, by `node/name`.
    fn facts(&self) -> Result<BTreeMap<String, i64>, TaskError> {
        let mut facts = BTreeMap::new();
        for slot in &self.graph.slots {
            let Some(node) = &slot.node else { continue };
            let asked = caught(|| {
                node.remember(&mut |name, value| {
                    facts.insert(format!("{}/{name}", slot.name), value);
                });
            });
            asked.map_err(|message| {
                let (task, node) = (self.id(), Some(Arc::clone(&slot.name)));
                TaskError::Panicked { task, node, at: String::new(), message }
            })?;
        }
        for (node, name, due) in self.graph.shared.timers.progress() {
            facts.insert(format!("{}/{name}", self.graph.node_name(node)), due);
        }
        Ok(facts)
    }

    /// Writes state and positions in one batch: only with a permit, that is after the outputs are committed.
    ///
    /// # Errors
    /// When the store fails; the outputs count nevertheless, and a restart repairs the store from its changelog.
    pub fn persist(&mut self, permit: &CommitPermit, now: Timestamp) -> Result<(), TaskError> {
        let mut facts = CommitFacts::new().committed_at(now.0);
        for (store, changelog) in self.graph.shared.stores.iter().zip(&self.changelogs) {
            let position = changelog.as_ref().and_then(|tp| self.changelog_position(tp, permit));
            if let Some(position) = position {
                facts = facts.position(store.ix, position.0);
            }
        }
        self.graph.shared.state.commit(&facts)?;
        self.worked = false;
        Ok(())
    }

    /// How much of a changelog is in its store. One that is an input is not written, but has been read up to its position.
    fn changelog_position(&self, tp: &TopicPartition, permit: &CommitPermit) -> Option<Offset> {
        let read = || self.group.inputs.iter().find(|i| i.tp == *tp).map(|i| i.position);
        permit.position_of(tp).or_else(read)
    }

    /// Records dropped since it was made: late, null key, undecodable and so on.
    pub fn dropped_records(&self) -> u64 {
        self.graph.shared.dropped
    }

    /// The highest timestamp it has seen; -1 before the first record.
    pub fn stream_time(&self) -> Timestamp {
        self.graph.shared.stream_time
    }

    /// Opens a store from outside, for tests and tools: sees uncommitted writes.
    pub fn store<'s, H: StoreHandle>(
        &'s mut self,
        handle: &'s H,
        output: &'s mut Collector,
    ) -> H::View<'s> {
        handle.view(&mut self.graph.shared, output)
    }

    /// The place of a store in this task, by name.
    pub fn local_store(&self, name: &str) -> Option<LocalStore> {
        self.graph.shared.stores.iter().position(|s| *s.name == *name).map(LocalStore)
    }

    /// Drops everything but what was committed.
    pub(crate) fn into_engine(self) -> Box<dyn thalweg_state::Engine> {
        self.graph.shared.state.into_engine()
    }

    /// Closes all nodes; one that panics does not keep the others from it.
    pub fn close(&mut self) {
        for ix in 0..self.graph.slots.len() {
            let Some(mut node) = self.graph.slots[ix].node.take() else { continue };
            let closed = self.contained(|_| {
                node.close();
                Ok(())
            });
            if let Err(error) = closed {
                tracing::warn!(node = %self.graph.slots[ix].name, %error, "closing a node failed");
            }
            self.graph.slots[ix].node = Some(node);
        }
    }
}

/// What a node's error is to the task.
fn task_error(graph: &Graph, node: Arc<str>, error: NodeError) -> TaskError {
    match error.into_kind() {
        NodeErrorKind::Failed(error) => graph.shared.located(&node, error),
        NodeErrorKind::User(source) | NodeErrorKind::Answered(source) => {
            graph.shared.user_code_failed(node, source)
        }
    }
}
