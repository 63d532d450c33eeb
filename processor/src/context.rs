//! What a node sees of its task while it works: forwarding, stores, time, timers.

use std::any::Any;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{Headers, HeadersRef, Offset, Timestamp, TopicPartition};
use thalweg_state::TaskState;

use crate::cache::RecordCache;
use crate::collector::Collector;
use crate::config::{OnError, TaskConfig};
use crate::dead_letters::{DeadLetters, Failure, SourceBytes};
use crate::error::{
    BoxError, ErrorClass, NodeError, NodeErrorKind, NodeResult, TaskError, UsageError,
};
use crate::node::Node;
use crate::punctuate::{PunctuationType, TimerId, Timers};
use crate::record::{Record, RecordContext, RecordMetadata};
use crate::stores::{LocalStore, StoreHandle, TaskStore};
use crate::topology::{NodeIx, TaskId};

/// A node of a task and where its records go.
pub(crate) struct Slot {
    pub(crate) name: Arc<str>,
    /// Taken out while the node works, so that it can be lent the rest of the task.
    pub(crate) node: Option<Box<dyn Node>>,
    pub(crate) children: Box<[NodeIx]>,
    /// What a sink cannot send is a failure of the node that forwarded it.
    pub(crate) is_sink: bool,
}

/// Everything of a task that nodes share.
pub(crate) struct Shared {
    pub(crate) task: TaskId,
    pub(crate) config: Arc<TaskConfig>,
    pub(crate) state: TaskState,
    pub(crate) stores: Vec<TaskStore>,
    pub(crate) cache: RecordCache,
    pub(crate) timers: Timers,
    /// Where the record under way came from; `None` inside punctuations.
    pub(crate) origin: Option<TopicPartition>,
    pub(crate) offset: Offset,
    pub(crate) timestamp: Timestamp,
    pub(crate) headers: Headers,
    pub(crate) stream_time: Timestamp,
    pub(crate) wall_time: Timestamp,
    pub(crate) dropped: u64,
    pub(crate) dead_letters: Option<Box<DeadLetters>>,
    pub(crate) commit_requested: bool,
    /// What the nodes asked to remember at the last commit, by `node/name`.
    pub(crate) remembered: std::collections::BTreeMap<String, i64>,
    pub(crate) key_buffer: Vec<u8>,
    pub(crate) value_buffer: Vec<u8>,
    pub(crate) window_key_buffer: Vec<u8>,
}

impl Shared {
    pub(crate) fn metadata(&self) -> Option<RecordMetadata> {
        self.origin.as_ref().map(|tp| RecordMetadata {
            topic: Arc::clone(&tp.topic),
            partition: tp.partition,
            offset: self.offset,
        })
    }

    /// Makes a record the current one; hands back its headers.
    #[inline]
    pub(crate) fn take_up(
        &mut self,
        origin: &TopicPartition,
        offset: Offset,
        time: Timestamp,
        headers: HeadersRef<'_>,
    ) -> Headers {
        let known = self.origin.as_ref().is_some_and(|known| {
            // Usually a clone of the same: cheaper than to compare names.
            known.partition == origin.partition && Arc::ptr_eq(&known.topic, &origin.topic)
        });
        if !known {
            self.set_origin(origin);
        }
        (self.offset, self.timestamp) = (offset, time);
        self.stream_time = self.stream_time.max(time);
        if headers.is_empty() && self.headers.is_empty() {
            return Headers::new();
        }
        self.take_up_headers(headers)
    }

    #[cold]
    fn set_origin(&mut self, origin: &TopicPartition) {
        self.origin = Some(origin.clone());
    }

    #[inline(never)]
    fn take_up_headers(&mut self, headers: HeadersRef<'_>) -> Headers {
        self.headers = headers.to_owned();
        self.headers.clone()
    }

    #[inline(never)]
    fn replace_headers(&mut self, headers: &Headers) -> Headers {
        mem::replace(&mut self.headers, headers.clone())
    }

    pub(crate) fn record_context(&self) -> RecordContext {
        let (metadata, timestamp) = (self.metadata(), self.timestamp);
        RecordContext { metadata, timestamp, headers: self.headers.clone() }
    }

    /// ` at TOPIC-PARTITION@OFFSET` for messages; nothing inside a punctuation.
    pub(crate) fn place(&self) -> String {
        self.source_record().map_or_else(String::new, |record| format!(" at {record}"))
    }

    /// Says which node made a record that its topic refuses, and of which record.
    #[cold]
    pub(crate) fn located(&self, node: &Arc<str>, error: TaskError) -> TaskError {
        match error {
            TaskError::Txn(refused) if refused.class() == ErrorClass::User => {
                let (task, node, at) = (self.task, Arc::clone(node), self.place());
                TaskError::Processing { task, node, at, source: Box::new(refused) }
            }
            error => error,
        }
    }

    /// The failure of a node at the record under way.
    #[cold]
    pub(crate) fn user_code_failed(&self, node: Arc<str>, source: BoxError) -> TaskError {
        TaskError::Processing { task: self.task, node, at: self.place(), source }
    }

    /// `TOPIC-PARTITION@OFFSET` of the record under way; `None` inside a punctuation.
    pub(crate) fn source_record(&self) -> Option<String> {
        self.origin.as_ref().map(|tp| format!("{tp}@{}", self.offset))
    }
}

/// The nodes of a task and what they share.
pub(crate) struct Graph {
    pub(crate) slots: Vec<Slot>,
    pub(crate) shared: Shared,
}

impl Graph {
    pub(crate) fn node_name(&self, node: NodeIx) -> Arc<str> {
        Arc::clone(&self.slots[node.0 as usize].name)
    }
}

/// A node's view of its task. Processors of the Processor API see it as [`ProcessorContext`](crate::ProcessorContext).
pub struct Context<'a> {
    pub(crate) graph: &'a mut Graph,
    pub(crate) output: &'a mut Collector,
    pub(crate) node: NodeIx,
}

/// What has to be put back after a forward.
struct Entered(Timestamp, Option<Headers>);

impl Context<'_> {
    /// Hands a record to all children; cloned for all but the last.
    ///
    /// # Errors
    /// The failure of a node below, unless the processing handler said continue; a negative timestamp.
    #[inline]
    pub fn forward<K, V>(&mut self, record: Record<K, V>) -> NodeResult
    where
        K: Clone + Send + 'static,
        V: Clone + Send + 'static,
    {
        // Inlined, so that the caller makes the record in the slot itself.
        self.forward_slot(&mut Some(record))
    }

    /// Hands the record in a slot to all children, as [`forward`](Self::forward) does, but does not move it: for nodes that
    /// found it there with [`slot_of`](crate::slot_of). An empty slot goes nowhere.
    ///
    /// # Errors
    /// As for [`forward`](Self::forward).
    #[inline]
    pub fn forward_slot<K, V>(&mut self, slot: &mut Option<Record<K, V>>) -> NodeResult
    where
        K: Clone + Send + 'static,
        V: Clone + Send + 'static,
    {
        let Some(record) = slot else {
            return Ok(());
        };
        let shared = &self.graph.shared;
        let is_current = record.timestamp == shared.timestamp
            && record.timestamp.0 >= 0
            && record.headers.is_empty()
            && shared.headers.is_empty();
        match *self.graph.slots[self.node.0 as usize].children {
            [only] if is_current => self.call(only, slot),
            _ => self.pass_on(slot),
        }
    }

    /// Notes the bytes of the source record under way, for a record that is kept back; nothing unless there is a topic of dead
    /// letters.
    pub fn note_source(&self, noted: &mut SourceBytes) {
        noted.note(self.graph.shared.dead_letters.as_deref());
    }

    /// Hands a record that was kept back to all children, with the origin that it had then, and the bytes of its source record for
    /// dead letters; its time and headers are its own.
    ///
    /// # Errors
    /// As for [`forward`](Self::forward).
    pub fn forward_from<K, V>(
        &mut self,
        origin: Option<&RecordMetadata>,
        mut source: SourceBytes,
        record: Record<K, V>,
    ) -> NodeResult
    where
        K: Clone + Send + 'static,
        V: Clone + Send + 'static,
    {
        let shared = &mut self.graph.shared;
        let topic = |m: &RecordMetadata| TopicPartition::new(Arc::clone(&m.topic), m.partition);
        let before = mem::replace(&mut shared.origin, origin.map(topic));
        let offset = mem::replace(&mut shared.offset, origin.map_or(Offset(-1), |m| m.offset));
        shared.swap_raw(&mut source);
        let result = self.forward(record);
        let shared = &mut self.graph.shared;
        (shared.origin, shared.offset) = (before, offset);
        shared.swap_raw(&mut source);
        result
    }

    /// Hands a record to one child, by name.
    ///
    /// # Errors
    /// As for [`forward`](Self::forward); a child that the node does not have.
    pub fn forward_to<K, V>(&mut self, child: &str, record: Record<K, V>) -> NodeResult
    where
        K: Clone + Send + 'static,
        V: Clone + Send + 'static,
    {
        let children = &self.graph.slots[self.node.0 as usize].children;
        let found = children.iter().find(|c| *self.graph.slots[c.0 as usize].name == *child);
        let Some(&found) = found else {
            return Err(self.unknown_child(child).into());
        };
        let entered = self.enter(&record)?;
        let mut slot = Some(record);
        let result = self.call(found, &mut slot);
        self.leave(entered);
        result
    }

    /// Hands a record to the child of that index, in the order in which the children were added; none there: nowhere.
    ///
    /// # Errors
    /// As for [`forward`](Self::forward).
    pub fn forward_nth<K, V>(&mut self, child: usize, record: Record<K, V>) -> NodeResult
    where
        K: Clone + Send + 'static,
        V: Clone + Send + 'static,
    {
        let Some(&found) = self.graph.slots[self.node.0 as usize].children.get(child) else {
            return Ok(());
        };
        let entered = self.enter(&record)?;
        let result = self.call(found, &mut Some(record));
        self.leave(entered);
        result
    }

    fn unknown_child(&self, child: &str) -> UsageError {
        let slot = &self.graph.slots[self.node.0 as usize];
        let names: Vec<&str> =
            slot.children.iter().map(|c| &*self.graph.slots[c.0 as usize].name).collect();
        UsageError::UnknownChild {
            node: Arc::clone(&slot.name),
            child: child.to_owned(),
            children: names.join(", "),
        }
    }

    /// Hands the record in the slot to all children, with its time and headers as the current ones.
    fn pass_on<K, V>(&mut self, slot: &mut Option<Record<K, V>>) -> NodeResult
    where
        K: Clone + Send + 'static,
        V: Clone + Send + 'static,
    {
        let Some(record) = slot else {
            return Ok(());
        };
        let entered = self.enter(record)?;
        let result = match *self.graph.slots[self.node.0 as usize].children {
            [] => Ok(()),
            [only] => self.call(only, slot),
            [.., last] => self.pass_copies(record).and_then(|()| self.call(last, slot)),
        };
        self.leave(entered);
        result
    }

    /// Hands copies of a record to all children but the last.
    fn pass_copies<K, V>(&mut self, record: &Record<K, V>) -> NodeResult
    where
        K: Clone + Send + 'static,
        V: Clone + Send + 'static,
    {
        let children = self.graph.slots[self.node.0 as usize].children.len();
        for i in 0..children.saturating_sub(1) {
            let child = self.graph.slots[self.node.0 as usize].children[i];
            self.call(child, &mut Some(record.clone()))?;
        }
        Ok(())
    }

    /// Lends the task to a child for one record.
    #[inline(always)]
    fn call(&mut self, child: NodeIx, slot: &mut dyn Any) -> NodeResult {
        self.visit(child, |node, context| node.process(slot, context))
    }

    /// Takes a node out of the arena, lets it work, and puts it back; asks the handler about failures of user code.
    #[inline(always)]
    pub(crate) fn visit(
        &mut self,
        ix: NodeIx,
        work: impl FnOnce(&mut dyn Node, &mut Context<'_>) -> NodeResult,
    ) -> NodeResult {
        let mut node = self.graph.slots[ix.0 as usize]
            .node
            .take()
            .expect("a node is not entered twice: the graph has no cycle");
        let mut context = Context { graph: &mut *self.graph, output: &mut *self.output, node: ix };
        let result = work(&mut *node, &mut context);
        // Nothing is there to be dropped.
        mem::forget(self.graph.slots[ix.0 as usize].node.replace(node));
        match result {
            Ok(()) => Ok(()),
            Err(error) => self.judge(ix, error),
        }
    }

    #[cold]
    fn judge(&mut self, ix: NodeIx, error: NodeError) -> NodeResult {
        let source = match error.into_kind() {
            NodeErrorKind::Failed(error) => {
                let node = &self.graph.slots[ix.0 as usize].name;
                return Err(NodeError::failed(self.graph.shared.located(node, error)));
            }
            NodeErrorKind::User(source) if self.graph.slots[ix.0 as usize].is_sink => {
                return Err(NodeError::user(source));
            }
            NodeErrorKind::Answered(source) if self.graph.slots[ix.0 as usize].is_sink => {
                return Err(NodeError::answered(source));
            }
            NodeErrorKind::Answered(source) => {
                let node = self.graph.node_name(ix);
                return Err(NodeError::failed(self.graph.shared.user_code_failed(node, source)));
            }
            NodeErrorKind::User(source) => source,
        };
        let node = self.graph.node_name(ix);
        let shared = &mut self.graph.shared;
        shared.send_dead_letter(self.output, &node, Failure::Processing, &*source)?;
        match shared.config.on_processing_error {
            OnError::Fail => Err(NodeError::failed(shared.user_code_failed(node, source))),
            OnError::Continue => {
                let log = &mut self.output.drops;
                shared.drop_record(log, &node, "user code failed", Some(&source));
                Ok(())
            }
        }
    }

    fn enter<K, V>(&mut self, record: &Record<K, V>) -> Result<Entered, UsageError> {
        if record.timestamp.0 < 0 {
            return Err(UsageError::NegativeTimestamp(record.timestamp.0));
        }
        let shared = &mut self.graph.shared;
        let timestamp = mem::replace(&mut shared.timestamp, record.timestamp);
        let headers = (!record.headers.is_empty() || !shared.headers.is_empty())
            .then(|| shared.replace_headers(&record.headers));
        Ok(Entered(timestamp, headers))
    }

    #[inline]
    fn leave(&mut self, Entered(timestamp, headers): Entered) {
        self.graph.shared.timestamp = timestamp;
        if let Some(headers) = headers {
            self.graph.shared.headers = headers;
        }
    }

    /// Which source record is being processed; `None` inside punctuations.
    pub fn metadata(&self) -> Option<RecordMetadata> {
        self.graph.shared.metadata()
    }

    /// Origin, time and headers of the record under way.
    pub fn record_context(&self) -> RecordContext {
        self.graph.shared.record_context()
    }

    /// The highest timestamp this task has seen; -1 before the first record.
    pub fn stream_time(&self) -> Timestamp {
        self.graph.shared.stream_time
    }

    /// The clock's time when the worker took up this round of records.
    pub fn wall_time(&self) -> Timestamp {
        self.graph.shared.wall_time
    }

    /// The task.
    pub fn task_id(&self) -> TaskId {
        self.graph.shared.task
    }

    /// The configuration of the application's tasks.
    pub fn config(&self) -> &TaskConfig {
        &self.graph.shared.config
    }

    /// The node's name.
    pub fn node_name(&self) -> &Arc<str> {
        &self.graph.slots[self.node.0 as usize].name
    }

    /// Counts the record under way as dropped, and says why: `late`, `null key` and so on. A node's drops for one reason are
    /// logged together, now and then.
    pub fn drop_record(&mut self, why: &'static str) {
        let node = self.graph.node_name(self.node);
        self.graph.shared.drop_record(&mut self.output.drops, &node, why, None);
    }

    /// As [`drop_record`](Self::drop_record), with what is peculiar to this record.
    pub fn drop_record_with(&mut self, why: &'static str, detail: impl std::fmt::Display) {
        let node = self.graph.node_name(self.node);
        self.graph.shared.drop_record(&mut self.output.drops, &node, why, Some(&detail));
    }

    /// Asks for a commit soon.
    pub fn request_commit(&mut self) {
        self.graph.shared.commit_requested = true;
    }

    /// Opens a store for reading and writing.
    pub fn store<'s, H: StoreHandle>(&'s mut self, handle: &'s H) -> H::View<'s> {
        handle.view(&mut self.graph.shared, &mut *self.output)
    }

    /// Schedules [`punctuate`](Node::punctuate) calls of this node every `interval`.
    ///
    /// On stream time they are aligned to 0 and the first is due with the first record; on wall-clock time the first is due after
    /// one interval. Missed ones run once.
    ///
    /// A commit remembers how far timers on stream time have come: one of the same start and interval that the node schedules after
    /// a restart goes on from there, so that a restart adds no call.
    ///
    /// # Errors
    /// When the interval is below 1 ms.
    pub fn schedule(
        &mut self,
        kind: PunctuationType,
        interval: Duration,
    ) -> Result<TimerId, UsageError> {
        let start = match kind {
            PunctuationType::StreamTime => Timestamp(0),
            PunctuationType::WallClockTime => {
                Timestamp(self.wall_time().0.saturating_add(interval.as_millis() as i64))
            }
        };
        self.schedule_at(kind, start, interval)
    }

    /// As [`schedule`](Self::schedule), with the first call due at `start` (KIP-1146).
    ///
    /// # Errors
    /// When the interval is below 1 ms.
    pub fn schedule_at(
        &mut self,
        kind: PunctuationType,
        start: Timestamp,
        interval: Duration,
    ) -> Result<TimerId, UsageError> {
        if interval.as_millis() == 0 {
            return Err(UsageError::ZeroInterval);
        }
        let node = self.graph.node_name(self.node);
        let shared = &mut self.graph.shared;
        let timer = shared.timers.schedule(self.node, kind, start.0, interval);
        if kind == PunctuationType::StreamTime && !shared.remembered.is_empty() {
            let progress = format!("{node}/{}", shared.timers.progress_name(timer));
            if let Some(due) = shared.remembered.remove(&progress) {
                shared.timers.resume(timer, due);
            }
        }
        Ok(timer)
    }

    /// Cancels a punctuation; one that is cancelled already is fine.
    pub fn cancel(&mut self, timer: TimerId) {
        self.graph.shared.timers.cancel(timer);
    }

    /// What this node asked to remember under that name at the last commit before a restart.
    pub fn remembered(&self, name: &str) -> Option<i64> {
        self.graph.shared.remembered.get(&format!("{}/{name}", self.node_name())).copied()
    }

    /// The bytes of a store's value, for operators that have no typed handle.
    ///
    /// # Errors
    /// When the store fails.
    pub fn store_bytes(&mut self, store: LocalStore, key: &[u8]) -> NodeResult<Option<&[u8]>> {
        let shared = &mut self.graph.shared;
        let ix = shared.stores[store.0].ix;
        Ok(shared.state.get(ix, key)?)
    }
}
