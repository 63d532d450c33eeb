//! The Processor API: custom logic with stores, timers and its own forwarding.

use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::Timestamp;

use crate::config::TaskConfig;
use crate::context::Context;
use crate::error::{BoxError, NodeError, NodeResult, UsageError};
use crate::node::{Node, take};
use crate::punctuate::{PunctuationType, TimerId};
use crate::record::{Record, RecordMetadata};
use crate::setup::Setup;
use crate::stores::StoreHandle;
use crate::topology::{NodeSupplier, TaskId};

/// A scheduled call that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Punctuation {
    /// Which one.
    pub timer: TimerId,
    /// Stream time or wall-clock time, as it was scheduled.
    pub now: Timestamp,
}

/// Custom logic. One is built per task by its supplier, complete with its store handles; it is never called from two threads.
///
/// ```
/// use thalweg_processor::{BoxError, Handle, Processor, ProcessorContext, Record, Setup, Store};
///
/// /// Lets each key pass once.
/// struct Dedupe { seen: Handle<String, i64> }
///
/// impl Processor for Dedupe {
///     type KIn = String;
///     type VIn = i64;
///     type KOut = String;
///     type VOut = i64;
///
///     fn process(&mut self, context: &mut ProcessorContext<'_, '_, String, i64>, record: Record<String, i64>) -> Result<(), BoxError> {
///         if context.store(&self.seen).put_if_absent(&record.key, &record.value)?.is_none() {
///             context.forward(record)?;
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait Processor: Send + 'static {
    /// Keys it takes.
    type KIn: Clone + Send + 'static;
    /// Values it takes.
    type VIn: Clone + Send + 'static;
    /// Keys it forwards.
    type KOut: Clone + Send + 'static;
    /// Values it forwards.
    type VOut: Clone + Send + 'static;

    /// Called once, before the first record: the place to schedule punctuations.
    ///
    /// # Errors
    /// Whatever it wants to report; the task then fails.
    fn init(
        &mut self,
        _context: &mut ProcessorContext<'_, '_, Self::KOut, Self::VOut>,
    ) -> Result<(), BoxError> {
        Ok(())
    }

    /// Processes a record.
    ///
    /// # Errors
    /// Whatever it wants to report; the processing exception handler decides.
    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, '_, Self::KOut, Self::VOut>,
        record: Record<Self::KIn, Self::VIn>,
    ) -> Result<(), BoxError>;

    /// A punctuation is due.
    ///
    /// # Errors
    /// As for [`process`](Self::process).
    fn punctuate(
        &mut self,
        _context: &mut ProcessorContext<'_, '_, Self::KOut, Self::VOut>,
        _punctuation: Punctuation,
    ) -> Result<(), BoxError> {
        Ok(())
    }

    /// Times to remember over a restart, such as how far a sweep has come; read back with
    /// [`ProcessorContext::remembered`].
    fn remember(&self) -> BTreeMap<&'static str, i64> {
        BTreeMap::new()
    }

    /// Called when the task is closed.
    fn close(&mut self) {}
}

/// A processor's view of its task.
pub struct ProcessorContext<'a, 'c, KOut, VOut> {
    inner: &'a mut Context<'c>,
    out: PhantomData<fn(KOut, VOut)>,
}

impl<'a, 'c, KOut, VOut> ProcessorContext<'a, 'c, KOut, VOut>
where
    KOut: Clone + Send + 'static,
    VOut: Clone + Send + 'static,
{
    pub(crate) fn new(inner: &'a mut Context<'c>) -> Self {
        Self { inner, out: PhantomData }
    }

    /// Hands a record to all children.
    ///
    /// # Errors
    /// Failures below, boxed with their decision; pass them on with `?`.
    pub fn forward(&mut self, record: Record<KOut, VOut>) -> Result<(), NodeError> {
        self.inner.forward(record)
    }

    /// Hands a record to one child, by name.
    ///
    /// # Errors
    /// As for [`forward`](Self::forward); a child that the node does not have.
    pub fn forward_to(&mut self, child: &str, record: Record<KOut, VOut>) -> Result<(), NodeError> {
        self.inner.forward_to(child, record)
    }

    /// Opens a store.
    pub fn store<'s, H: StoreHandle>(&'s mut self, handle: &'s H) -> H::View<'s> {
        self.inner.store(handle)
    }

    /// Schedules [`Processor::punctuate`] every `interval`: see [`Context::schedule`].
    ///
    /// # Errors
    /// When the interval is below 1 ms.
    pub fn schedule(
        &mut self,
        kind: PunctuationType,
        interval: Duration,
    ) -> Result<TimerId, UsageError> {
        self.inner.schedule(kind, interval)
    }

    /// Schedules with a first due time: see [`Context::schedule_at`].
    ///
    /// # Errors
    /// When the interval is below 1 ms.
    pub fn schedule_at(
        &mut self,
        kind: PunctuationType,
        start: Timestamp,
        interval: Duration,
    ) -> Result<TimerId, UsageError> {
        self.inner.schedule_at(kind, start, interval)
    }

    /// Cancels a punctuation.
    pub fn cancel(&mut self, timer: TimerId) {
        self.inner.cancel(timer);
    }

    /// Which source record is being processed; `None` inside punctuations.
    pub fn metadata(&self) -> Option<RecordMetadata> {
        self.inner.metadata()
    }

    /// The highest timestamp this task has seen; -1 before the first record.
    pub fn stream_time(&self) -> Timestamp {
        self.inner.stream_time()
    }

    /// The clock's time when the worker took up this round of records.
    pub fn wall_time(&self) -> Timestamp {
        self.inner.wall_time()
    }

    /// Asks for a commit soon.
    pub fn request_commit(&mut self) {
        self.inner.request_commit();
    }

    /// The task.
    pub fn task_id(&self) -> TaskId {
        self.inner.task_id()
    }

    /// The configuration of the application's tasks.
    pub fn config(&self) -> &TaskConfig {
        self.inner.config()
    }

    /// What [`Processor::remember`] said at the last commit before a restart.
    pub fn remembered(&self, name: &str) -> Option<i64> {
        self.inner.remembered(name)
    }
}

/// Lets a [`Processor`] work as a node.
struct ProcessorNode<P>(P);

/// A failure below a processor came back through its own code: unwrap it, so that it is not judged a second time.
fn unbox(error: BoxError) -> NodeError {
    match error.downcast::<NodeError>() {
        Ok(node_error) => *node_error,
        Err(user) => NodeError::user(user),
    }
}

impl<P: Processor> Node for ProcessorNode<P> {
    fn init(&mut self, context: &mut Context<'_>) -> NodeResult {
        self.0.init(&mut ProcessorContext::new(context)).map_err(unbox)
    }

    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let record = take::<P::KIn, P::VIn>(slot);
        self.0.process(&mut ProcessorContext::new(context), record).map_err(unbox)
    }

    fn punctuate(
        &mut self,
        timer: TimerId,
        now: Timestamp,
        context: &mut Context<'_>,
    ) -> NodeResult {
        let punctuation = Punctuation { timer, now };
        self.0.punctuate(&mut ProcessorContext::new(context), punctuation).map_err(unbox)
    }

    fn remember(&self, facts: &mut dyn FnMut(&'static str, i64)) {
        self.0.remember().into_iter().for_each(|(name, value)| facts(name, value));
    }

    fn close(&mut self) {
        self.0.close();
    }
}

/// Makes a node supplier from a closure that builds a [`Processor`] per task.
pub fn supply<P: Processor>(
    build: impl Fn(&mut Setup<'_>) -> Result<P, UsageError> + Send + Sync + 'static,
) -> NodeSupplier {
    Arc::new(move |setup| Ok(Box::new(ProcessorNode(build(setup)?))))
}
