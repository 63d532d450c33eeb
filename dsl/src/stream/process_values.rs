//! `process_values`: custom logic that cannot change the key.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use thalweg_connectors::{Datum, Headers, Timestamp};
use thalweg_processor::{
    BoxError, NodeError, Processor, ProcessorContext, Punctuation, PunctuationType, Record,
    RecordMetadata, Setup, StoreHandle, TaskConfig, TaskId, TimerId, UsageError, supply,
};

use super::KStream;
use super::process::processor;
use crate::graph::Effect;
use crate::marker::Keys;
use crate::options::Stores;

/// A record whose key cannot be changed.
#[derive(Clone, Debug, PartialEq)]
pub struct FixedKeyRecord<K, V> {
    key: K,
    /// The value.
    pub value: V,
    /// When it happened.
    pub timestamp: Timestamp,
    /// Headers.
    pub headers: Headers,
}

impl<K, V> FixedKeyRecord<K, V> {
    fn new(record: Record<K, V>) -> Self {
        let Record { key, value, timestamp, headers } = record;
        Self { key, value, timestamp, headers }
    }

    fn into_record(self) -> Record<K, V> {
        let Self { key, value, timestamp, headers } = self;
        Record { key, value, timestamp, headers }
    }

    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The same record with another value.
    pub fn with_value<W>(self, value: W) -> FixedKeyRecord<K, W> {
        let Self { key, timestamp, headers, .. } = self;
        FixedKeyRecord { key, value, timestamp, headers }
    }
}

/// Custom logic that keeps each record's key, so that the keys stay in place. Otherwise as [`Processor`].
pub trait FixedKeyProcessor: Send + 'static {
    /// The keys.
    type Key: Datum;
    /// Values it takes.
    type VIn: Datum;
    /// Values it forwards.
    type VOut: Datum;

    /// Called once, before the first record: the place to schedule punctuations.
    ///
    /// # Errors
    /// Whatever it wants to report; the task then fails.
    fn init(
        &mut self,
        _context: &mut FixedKeyContext<'_, '_, '_, Self::Key, Self::VOut>,
    ) -> Result<(), BoxError> {
        Ok(())
    }

    /// Processes a record.
    ///
    /// # Errors
    /// Whatever it wants to report; the processing exception handler decides.
    fn process(
        &mut self,
        context: &mut FixedKeyContext<'_, '_, '_, Self::Key, Self::VOut>,
        record: FixedKeyRecord<Self::Key, Self::VIn>,
    ) -> Result<(), BoxError>;

    /// A punctuation is due. There is no record to forward then, unless one was kept.
    ///
    /// # Errors
    /// As for [`process`](Self::process).
    fn punctuate(
        &mut self,
        _context: &mut FixedKeyContext<'_, '_, '_, Self::Key, Self::VOut>,
        _punctuation: Punctuation,
    ) -> Result<(), BoxError> {
        Ok(())
    }

    /// Times to remember over a restart; read back with [`FixedKeyContext::remembered`].
    fn remember(&self) -> BTreeMap<&'static str, i64> {
        BTreeMap::new()
    }

    /// Called when the task is closed.
    fn close(&mut self) {}
}

/// A fixed-key processor's view of its task.
pub struct FixedKeyContext<'x, 'a, 'c, K, V>(&'x mut ProcessorContext<'a, 'c, K, V>);

impl<K: Datum, V: Datum> FixedKeyContext<'_, '_, '_, K, V> {
    /// Hands a record to all children.
    ///
    /// # Errors
    /// Failures below, with their decision; pass them on with `?`.
    pub fn forward(&mut self, record: FixedKeyRecord<K, V>) -> Result<(), NodeError> {
        self.0.forward(record.into_record())
    }

    /// Hands a record to one child, by name.
    ///
    /// # Errors
    /// As for [`forward`](Self::forward); a child that the node does not have.
    pub fn forward_to(
        &mut self,
        child: &str,
        record: FixedKeyRecord<K, V>,
    ) -> Result<(), NodeError> {
        self.0.forward_to(child, record.into_record())
    }

    /// Opens a store.
    pub fn store<'s, H: StoreHandle>(&'s mut self, handle: &'s H) -> H::View<'s> {
        self.0.store(handle)
    }

    /// Schedules [`FixedKeyProcessor::punctuate`] every `interval`.
    ///
    /// # Errors
    /// When the interval is below 1 ms.
    pub fn schedule(
        &mut self,
        kind: PunctuationType,
        interval: Duration,
    ) -> Result<TimerId, UsageError> {
        self.0.schedule(kind, interval)
    }

    /// Schedules with a first due time.
    ///
    /// # Errors
    /// When the interval is below 1 ms.
    pub fn schedule_at(
        &mut self,
        kind: PunctuationType,
        start: Timestamp,
        interval: Duration,
    ) -> Result<TimerId, UsageError> {
        self.0.schedule_at(kind, start, interval)
    }

    /// Cancels a punctuation.
    pub fn cancel(&mut self, timer: TimerId) {
        self.0.cancel(timer);
    }

    /// Which source record is being processed; `None` inside punctuations.
    pub fn metadata(&self) -> Option<RecordMetadata> {
        self.0.metadata()
    }

    /// The highest timestamp this task has seen; -1 before the first record.
    pub fn stream_time(&self) -> Timestamp {
        self.0.stream_time()
    }

    /// The clock's time when the worker took up this round of records.
    pub fn wall_time(&self) -> Timestamp {
        self.0.wall_time()
    }

    /// Asks for a commit soon.
    pub fn request_commit(&mut self) {
        self.0.request_commit();
    }

    /// The task.
    pub fn task_id(&self) -> TaskId {
        self.0.task_id()
    }

    /// The configuration of the application's tasks.
    pub fn config(&self) -> &TaskConfig {
        self.0.config()
    }

    /// What [`FixedKeyProcessor::remember`] said at the last commit before a restart.
    pub fn remembered(&self, name: &str) -> Option<i64> {
        self.0.remembered(name)
    }
}

impl<K, V> fmt::Debug for FixedKeyContext<'_, '_, '_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FixedKeyContext")
    }
}

/// Lets a fixed-key processor work as a processor.
struct KeepsKeys<P>(P);

impl<P: FixedKeyProcessor> Processor for KeepsKeys<P> {
    type KIn = P::Key;
    type VIn = P::VIn;
    type KOut = P::Key;
    type VOut = P::VOut;

    fn init(
        &mut self,
        context: &mut ProcessorContext<'_, '_, P::Key, P::VOut>,
    ) -> Result<(), BoxError> {
        self.0.init(&mut FixedKeyContext(context))
    }

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, '_, P::Key, P::VOut>,
        record: Record<P::Key, P::VIn>,
    ) -> Result<(), BoxError> {
        self.0.process(&mut FixedKeyContext(context), FixedKeyRecord::new(record))
    }

    fn punctuate(
        &mut self,
        context: &mut ProcessorContext<'_, '_, P::Key, P::VOut>,
        punctuation: Punctuation,
    ) -> Result<(), BoxError> {
        self.0.punctuate(&mut FixedKeyContext(context), punctuation)
    }

    fn remember(&self) -> BTreeMap<&'static str, i64> {
        self.0.remember()
    }

    fn close(&mut self) {
        self.0.close();
    }
}

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Hands the records to a [`FixedKeyProcessor`] of yours, which `build` makes for each task. It cannot change keys, so they stay
    /// in place.
    #[track_caller]
    pub fn process_values<P>(
        &self,
        stores: impl Into<Stores>,
        build: impl Fn(&mut Setup<'_>) -> Result<P, UsageError> + Send + Sync + 'static,
    ) -> KStream<K, P::VOut, M>
    where
        P: FixedKeyProcessor<Key = K, VIn = V>,
    {
        let name = self.place.graph.processor_name("KSTREAM-PROCESSVALUES-");
        let supplier = supply(move |setup| Ok(KeepsKeys(build(setup)?)));
        let spec = processor(name, supplier, stores.into())
            .effect(Effect::ChangesValues)
            .named_without_number();
        self.then(spec, self.place.serdes.key_only())
    }
}
