//! Failures that a test plans: the n-th call of a kind goes wrong in a given way.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::lock;
use crate::ports::{PortError, PortErrorKind, PortResult};

/// A kind of call that can go wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Call {
    /// [`Consumer::poll`](crate::Consumer::poll).
    Poll,
    /// [`Consumer::committed`](crate::Consumer::committed).
    Committed,
    /// [`Producer::init_transactions`](crate::Producer::init_transactions).
    Init,
    /// [`Producer::begin`](crate::Producer::begin).
    Begin,
    /// [`Producer::flush`](crate::Producer::flush), also the one inside a commit.
    Flush,
    /// [`Producer::send_offsets`](crate::Producer::send_offsets).
    SendOffsets,
    /// [`Producer::commit`](crate::Producer::commit).
    Commit,
    /// [`Producer::abort`](crate::Producer::abort).
    Abort,
    /// [`Producer::commit_offsets`](crate::Producer::commit_offsets).
    CommitOffsets,
    /// Any call of [`Admin`](crate::Admin).
    Admin,
}

/// How it goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing happens; the call fails with this kind.
    Fails(PortErrorKind),
    /// Nothing happens, and nobody can tell: [`PortErrorKind::Unknown`].
    RequestLost,
    /// It happens, and nobody can tell: [`PortErrorKind::Unknown`].
    AnswerLost,
    /// A commit or abort succeeds, and takes effect only this much later (by the broker's clock).
    /// Offsets stay pending and readers stop at the transaction until then.
    TakesEffectAfter(Duration),
    /// A commit or abort succeeds; the same request arrives once more before the producer's n-th
    /// later call to the broker, and ends whatever transaction is open then (a flush with records,
    /// offsets and an end are such calls).
    ArrivesAgainBefore(u32),
}

/// Which calls fail. Calls are counted per kind, over all clients, from the moment the plan is set.
///
/// ```
/// use thalweg_connectors::{Call, Fault, FaultPlan, MemBroker, PortErrorKind};
/// let broker = MemBroker::new();
/// broker.set_faults(
///     FaultPlan::new()
///         .on(Call::Commit, 3, Fault::AnswerLost)
///         .on(Call::Flush, 1, Fault::Fails(PortErrorKind::Abortable)),
/// );
/// assert_eq!(broker.faults_left(), 2);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaultPlan {
    planned: BTreeMap<(Call, u64), Fault>,
    counts: BTreeMap<Call, u64>,
}

impl FaultPlan {
    /// A plan without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the `nth` call of this kind (from 1) go wrong.
    #[must_use]
    pub fn on(mut self, call: Call, nth: u64, fault: Fault) -> Self {
        self.planned.insert((call, nth), fault);
        self
    }

    /// Counts a call and tells its fault.
    fn next(&mut self, call: Call) -> Option<Fault> {
        let count = self.counts.entry(call).or_default();
        *count += 1;
        self.planned.remove(&(call, *count))
    }
}

/// The plan in force; costs one load per call while there is none.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    armed: AtomicBool,
    plan: Mutex<FaultPlan>,
}

impl Faults {
    pub(crate) fn set(&self, plan: FaultPlan) {
        let armed = !plan.planned.is_empty();
        *lock(&self.plan) = plan;
        self.armed.store(armed, Ordering::SeqCst);
    }

    pub(crate) fn left(&self) -> usize {
        lock(&self.plan).planned.len()
    }

    pub(crate) fn next(&self, call: Call) -> Option<Fault> {
        if !self.armed.load(Ordering::SeqCst) {
            return None;
        }
        lock(&self.plan).next(call)
    }

    /// Makes the call, or lets it go wrong as planned.
    pub(crate) fn around<T>(
        &self,
        call: Call,
        work: impl FnOnce() -> PortResult<T>,
    ) -> PortResult<T> {
        match self.next(call) {
            None | Some(Fault::TakesEffectAfter(_) | Fault::ArrivesAgainBefore(_)) => work(),
            Some(fault) => Err(fault.strike(call, work)),
        }
    }
}

impl Fault {
    /// Lets a call go wrong: its error.
    pub(crate) fn strike<T>(self, call: Call, work: impl FnOnce() -> PortResult<T>) -> PortError {
        match self {
            Self::Fails(kind) => {
                PortError::new(kind, format!("{call:?} failed: the fault plan says so"))
            }
            Self::AnswerLost => match work() {
                Ok(_) => unanswered(call),
                Err(e) => unanswered(call).caused_by(e),
            },
            Self::RequestLost | Self::TakesEffectAfter(_) | Self::ArrivesAgainBefore(_) => {
                unanswered(call)
            }
        }
    }
}

fn unanswered(call: Call) -> PortError {
    PortError::new(PortErrorKind::Unknown, format!("no answer to {call:?}: the fault plan says so"))
}
