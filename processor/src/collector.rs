//! What leaves the tasks of one worker: one producer, one open transaction, topics resolved once.

use std::sync::Arc;

use indexmap::IndexMap;
use thalweg_connectors::{NewRecord, PortError, PortErrorKind, PortResult, Producer, TopicSlot};
use thalweg_txn::Committer;

use crate::context::Shared;
use crate::drops::DropLog;
use crate::error::{NodeError, NodeResult, TaskError};
use crate::globals::Globals;

/// A topic as the producer knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResolvedTopic {
    pub(crate) slot: TopicSlot,
    /// How many partitions it has.
    pub partitions: i32,
}

/// Sends records inside the worker's transaction, which it begins at the first one.
pub struct Collector {
    producer: Box<dyn Producer>,
    committer: Committer,
    /// In the order they were resolved.
    topics: IndexMap<Arc<str>, ResolvedTopic, foldhash::fast::FixedState>,
    sent: u64,
    /// Bytes of keys, values and headers in what is open.
    open_bytes: usize,
    pub(crate) drops: DropLog,
    /// The worker's global stores: all that its tasks do has this at hand.
    pub(crate) globals: Option<Box<Globals>>,
}

impl Collector {
    /// Joins a producer and the protocol it is committed by.
    pub fn new(producer: Box<dyn Producer>, committer: Committer) -> Self {
        let topics = IndexMap::with_hasher(foldhash::fast::FixedState::with_seed(0));
        let drops = DropLog::default();
        Self { producer, committer, topics, sent: 0, open_bytes: 0, drops, globals: None }
    }

    /// The global stores, opened for reading.
    pub(crate) fn global_stores(&mut self) -> (&mut Shared, &mut Self) {
        let globals = self.globals.as_mut();
        globals.expect("tasks begin when the global stores are there").lend()
    }

    /// Resolves a topic by its full name.
    ///
    /// # Errors
    /// When it is not there.
    pub fn topic(&mut self, name: &str) -> PortResult<ResolvedTopic> {
        if let Some(topic) = self.topics.get(name) {
            return Ok(*topic);
        }
        let (slot, partitions) = self.producer.topic(name)?;
        let topic = ResolvedTopic { slot, partitions };
        self.topics.insert(name.into(), topic);
        Ok(topic)
    }

    /// Sends a record.
    ///
    /// # Errors
    /// When the producer refuses it, or the transaction cannot begin.
    #[inline(always)]
    pub fn send(&mut self, topic: TopicSlot, partition: i32, record: &NewRecord<'_>) -> NodeResult {
        if !self.committer.is_open() {
            self.open()?;
        }
        self.sent += 1;
        self.open_bytes += record.payload_len();
        match self.producer.send(topic, partition, record) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// As [`send`](Self::send), for records that may be left out: one that the producer refuses for what it is has done no harm to
    /// what is open, and is reported as an error of user code.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    #[inline(always)]
    pub(crate) fn send_output(
        &mut self,
        topic: TopicSlot,
        partition: i32,
        record: &NewRecord<'_>,
    ) -> NodeResult {
        if !self.committer.is_open() {
            self.open()?;
        }
        match self.producer.send(topic, partition, record) {
            Ok(()) => {
                self.sent += 1;
                self.open_bytes += record.payload_len();
                Ok(())
            }
            Err(error) if error.kind() == PortErrorKind::Refused => Err(NodeError::user(error)),
            Err(error) => Err(self.failed(error)),
        }
    }

    #[cold]
    fn open(&mut self) -> NodeResult {
        self.open_bytes = 0;
        let opened = self.committer.before_write(&mut *self.producer);
        opened.map_err(|error| NodeError::failed(error.into()))
    }

    #[cold]
    fn failed(&mut self, error: PortError) -> NodeError {
        NodeError::failed(self.committer.send_failed(error).into())
    }

    /// Bytes of keys, values and headers sent since the last commit.
    pub(crate) fn uncommitted_bytes(&self) -> usize {
        if self.committer.is_open() { self.open_bytes } else { 0 }
    }

    /// How many records were sent since it was made.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Goes on with a fresh producer after a commit, once the protocol asks for it; tasks keep the slots they resolved.
    ///
    /// # Errors
    /// When a topic is not there any more, or the new producer numbers topics otherwise; the tasks then have to be reopened.
    pub fn replace_producer(&mut self, mut producer: Box<dyn Producer>) -> Result<(), TaskError> {
        for (name, known) in &self.topics {
            let (slot, _) = producer.topic(name)?;
            if slot != known.slot {
                let message = format!("the new producer gave topic `{name}` another slot");
                return Err(PortError::new(PortErrorKind::Abortable, message).into());
            }
        }
        self.producer = producer;
        Ok(self.committer.producer_replaced()?)
    }

    /// Producer and protocol, for the commit.
    pub fn parts(&mut self) -> (&mut dyn Producer, &mut Committer) {
        (&mut *self.producer, &mut self.committer)
    }
}
