//! The driver: carries out what the [machine](crate::State) decides, on one worker's producer.

use std::mem;

use thalweg_connectors::{Acknowledged, PortError, PortResult, Producer};

use crate::error::{PersistError, Step, TxnError};
use crate::guarantee::Guarantee;
use crate::machine::{Decision, Fact, Recovery, State, transition};
use crate::plan::{CommitPermit, CommitPlan};

/// How a commit ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a producer that has to be replaced must not be written to"]
pub enum Committed {
    /// There was nothing to commit.
    Nothing,
    /// It is done.
    Done,
    /// It is done; replace the producer before the next write and call
    /// [`Committer::producer_replaced`].
    ReplaceProducer,
}

/// Runs the commit protocol of one worker: all tasks of a worker commit together.
///
/// The producer stays with the worker, which passes it in and makes a new one when told to. After
/// any error the worker drops the overlays of all its tasks, acts by [`TxnError::class`], and calls
/// [`producer_replaced`](Self::producer_replaced) once a new producer is there; until then every
/// call is refused. Errors of calls that the worker makes on the producer itself, such as
/// [`Producer::send`], go through [`send_failed`](Self::send_failed).
#[derive(Debug)]
pub struct Committer {
    guarantee: Guarantee,
    state: State,
}

impl Committer {
    /// A committer for a fresh producer, whose `init_transactions` was called if it has a
    /// transactional id.
    pub const fn new(guarantee: Guarantee) -> Self {
        Self { guarantee, state: State::Idle }
    }

    /// The guarantee.
    pub const fn guarantee(&self) -> Guarantee {
        self.guarantee
    }

    /// Where the protocol stands.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Has something been written since the last commit?
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Is a recovery due before anything else?
    pub const fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }

    /// Has to be called before every [`Producer::send`]: begins a transaction when none is open.
    /// One branch otherwise.
    ///
    /// # Errors
    /// When no transaction can be begun.
    #[inline]
    pub fn before_write(&mut self, producer: &mut dyn Producer) -> Result<(), TxnError> {
        if self.is_open() {
            return Ok(());
        }
        self.open(producer)
    }

    #[cold]
    fn open(&mut self, producer: &mut dyn Producer) -> Result<(), TxnError> {
        self.check_taint(producer);
        let before = self.state;
        match self.apply(Fact::Wrote) {
            Decision::Proceed => Ok(()),
            Decision::Begin => self.conclude(Step::Begin, producer.begin(), Fact::Begun),
            _ => Err(refusal(before, Fact::Wrote)),
        }
    }

    /// Tells of a failed call that the worker itself made on the producer, such as
    /// [`Producer::send`]; not of a record that a handler chose to skip. What is open cannot be
    /// committed any more.
    pub fn send_failed(&mut self, error: PortError) -> TxnError {
        self.failed(Cause::Port(Step::Send, error))
    }

    /// Commits everything since the last commit: outputs, offsets, and state, which `persist`
    /// writes when it is called, at most once, with the permit. Nothing written and no offsets:
    /// nothing is done, and `persist` is not called.
    ///
    /// # Errors
    /// Any error means that the worker must drop the overlays of all tasks; never commit again what
    /// was meant here.
    pub fn commit(
        &mut self,
        producer: &mut dyn Producer,
        plan: &CommitPlan,
        persist: &mut dyn FnMut(&CommitPermit) -> Result<(), PersistError>,
    ) -> Result<Committed, TxnError> {
        let offsets = !plan.is_empty();
        if offsets {
            self.check_taint(producer);
        }
        let mut fact = Fact::CommitRequested { offsets };
        let mut cause = None;
        let mut acknowledged = Acknowledged::new();
        loop {
            let before = self.state;
            let decision = self.apply(fact);
            let outcome = match decision {
                Decision::Begin => call(Step::Begin, producer.begin(), Fact::Begun),
                Decision::Flush => {
                    let flushed = producer.flush().map(|all| acknowledged = all);
                    call(Step::Flush, flushed, Fact::Flushed)
                }
                Decision::SendOffsets => {
                    let sent = producer.send_offsets(plan.offsets(), plan.group());
                    call(Step::SendOffsets, sent, Fact::OffsetsSent)
                }
                Decision::EndTransaction => {
                    let committed = producer.commit().map(|all| acknowledged = all);
                    call(Step::EndTransaction, committed, Fact::Committed)
                }
                Decision::Persist => {
                    let permit = CommitPermit::new(mem::take(&mut acknowledged));
                    persist(&permit).map(|()| Fact::Persisted).map_err(Cause::Persist)
                }
                Decision::CommitOffsets => {
                    let committed = producer.commit_offsets(plan.offsets(), plan.group());
                    call(Step::CommitOffsets, committed, Fact::OffsetsCommitted)
                }
                Decision::Done if matches!(before, State::Idle) => return Ok(Committed::Nothing),
                Decision::Done => return Ok(self.rest(producer)),
                Decision::ReplaceProducer => return Ok(Committed::ReplaceProducer),
                _ => return Err(self.error(cause, before, fact)),
            };
            fact = outcome.unwrap_or_else(|error| {
                let failure = error.fact();
                cause = Some(error);
                failure
            });
        }
    }

    /// Takes back what is open: the transaction is aborted; outside one, what was sent stays, and
    /// is acknowledged when this returns, so that a restore that follows sees it. The worker drops
    /// the overlays of all tasks and opens them at the last commit. Nothing open: nothing is done.
    ///
    /// # Errors
    /// When the producer cannot; then it has to be replaced, which takes back what is open, too.
    pub fn abort(&mut self, producer: &mut dyn Producer) -> Result<Committed, TxnError> {
        let before = self.state;
        match self.apply(Fact::AbortRequested) {
            Decision::Abort => self.conclude(Step::Abort, producer.abort(), Fact::Aborted)?,
            Decision::Flush => {
                let flushed = producer.flush().map(drop);
                self.conclude(Step::Flush, flushed, Fact::Flushed)?;
            }
            Decision::Done if matches!(before, State::Idle) => return Ok(Committed::Nothing),
            Decision::Done => {}
            _ => return Err(refusal(before, Fact::AbortRequested)),
        }
        Ok(self.rest(producer))
    }

    /// Has the producer to be replaced before the next write? Ask once per cycle of the worker: a
    /// connection may break while nothing is open. One branch while something is.
    pub fn needs_replacement(&mut self, producer: &mut dyn Producer) -> bool {
        self.check_taint(producer);
        matches!(self.state, State::Stale | State::Failed(Recovery::Reopen | Recovery::Rejoin))
    }

    /// Tells that a fresh producer is there, whose `init_transactions` was called if it has a
    /// transactional id. After a failure, and when something was open, the overlays of all tasks
    /// must have been dropped.
    ///
    /// # Errors
    /// [`TxnError::HasFailed`] after a failure that only stopping answers.
    pub fn producer_replaced(&mut self) -> Result<(), TxnError> {
        let before = self.state;
        match self.apply(Fact::ProducerReplaced) {
            Decision::Proceed => Ok(()),
            _ => Err(refusal(before, Fact::ProducerReplaced)),
        }
    }

    fn apply(&mut self, fact: Fact) -> Decision {
        let (state, decision) = transition(self.guarantee, self.state, fact);
        self.state = state;
        decision
    }

    /// At rest, what a producer's connections went through is known to the end.
    fn check_taint(&mut self, producer: &mut dyn Producer) {
        let at_rest = self.state == State::Idle && self.guarantee == Guarantee::ExactlyOnce;
        if at_rest && producer.is_tainted() {
            let _ = self.apply(Fact::Tainted);
        }
    }

    fn rest(&mut self, producer: &mut dyn Producer) -> Committed {
        if self.needs_replacement(producer) { Committed::ReplaceProducer } else { Committed::Done }
    }

    fn conclude(&mut self, step: Step, result: PortResult<()>, then: Fact) -> Result<(), TxnError> {
        match result {
            Ok(()) => {
                let _ = self.apply(then);
                Ok(())
            }
            Err(error) => Err(self.failed(Cause::Port(step, error))),
        }
    }

    fn failed(&mut self, cause: Cause) -> TxnError {
        let before = self.state;
        let fact = cause.fact();
        let _ = self.apply(fact);
        self.error(Some(cause), before, fact)
    }

    /// The error of a decision to recover.
    fn error(&self, cause: Option<Cause>, before: State, fact: Fact) -> TxnError {
        match (cause, self.state) {
            (Some(Cause::Port(step, source)), State::Failed(recovery)) => {
                TxnError::Port { step, recovery, source }
            }
            (Some(Cause::Persist(error)), _) => TxnError::Persist(error),
            _ => refusal(before, fact),
        }
    }
}

/// Why a call failed, until the machine has said what that means.
enum Cause {
    Port(Step, PortError),
    Persist(PersistError),
}

impl Cause {
    fn fact(&self) -> Fact {
        match self {
            Self::Port(_, error) => error.kind().into(),
            Self::Persist(error) => error.class().into(),
        }
    }
}

fn call(step: Step, result: PortResult<()>, then: Fact) -> Result<Fact, Cause> {
    match result {
        Ok(()) => Ok(then),
        Err(error) => Err(Cause::Port(step, error)),
    }
}

/// Why a fact was refused, that no call failed for.
const fn refusal(state: State, fact: Fact) -> TxnError {
    match (state, fact) {
        (State::Failed(recovery), _) => TxnError::HasFailed(recovery),
        (State::Stale, _) => TxnError::ProducerStale,
        (State::Open, Fact::CommitRequested { offsets: false }) => TxnError::OffsetsMissing,
        _ => TxnError::OutOfOrder { state, fact },
    }
}

#[cfg(test)]
#[path = "committer_tests.rs"]
mod tests;
