//! The commit protocol: facts in, decision out, no I/O.
//!
//! ```text
//! exactly once                                   at least once
//!
//! Idle ◄───────────────────────────┐             Idle ◄───────────────────────────┐
//!  │ Wrote: begin                  │              │ Wrote                         │
//!  ▼                               │              ▼  AbortRequested: flush        │
//! Beginning                        │             Open ────────────────► Aborting ─┤
//!  │ Begun                         │              │                      Flushed  │
//!  ▼  AbortRequested: abort        │              │ CommitRequested: flush        │
//! Open ────────────────► Aborting ─┤              ▼                               │
//!  │                      Aborted  │             Flushing                         │
//!  │ CommitRequested: flush        │              │ Flushed: persist              │
//!  ▼                               │              ▼                               │
//! Flushing                         │             Persisting                       │
//!  │ Flushed: send offsets         │              │ Persisted: commit offsets     │
//!  ▼                               │              ▼                               │
//! SendingOffsets                   │             CommittingOffsets ───────────────┘
//!  │ OffsetsSent: end transaction  │                    OffsetsCommitted
//!  ▼                               │
//! Ending                           │             Offsets without a write: Idle goes the same way,
//!  │ Committed: persist            │             through Beginning or straight to Flushing.
//!  ▼                               │
//! Persisting ──────────────────────┘
//!            Persisted
//!
//! both
//!
//! Idle ── Tainted ──► Stale ── ProducerReplaced ──► Idle             nothing is lost
//! any ─── failure ──► Failed ─ ProducerReplaced ──► Idle             tasks go back to the last commit
//! ```
//!
//! There is no way from `Failed` to another commit attempt: what a call without an answer did is
//! found out by opening anew.

use crate::guarantee::Guarantee;

/// How often a refused call to commit offsets is made again, outside transactions. Three, as a
/// coordinator that moves needs one or two; backends wait inside the call.
pub const OFFSET_REPEATS_MAX: u8 = 3;

/// Where the protocol stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing was written since the last commit.
    Idle,
    /// A transaction is asked for.
    Beginning {
        /// A commit asked for it, not a write: input was consumed and nothing written.
        commit: bool,
    },
    /// Something was written and can still be taken back: in the open transaction, or since the
    /// last flush.
    Open,
    /// Everything sent has to be acknowledged.
    Flushing {
        /// Are there offsets to commit?
        offsets: bool,
    },
    /// The offsets go into the transaction.
    SendingOffsets,
    /// The transaction is being committed.
    Ending,
    /// The outputs count. State may be persisted, here and nowhere else.
    Persisting {
        /// Are there offsets still to commit? Never in a transaction, which has them.
        offsets_owed: bool,
    },
    /// The offsets are being committed, outside a transaction.
    CommittingOffsets {
        /// How often the call was made again.
        repeats: u8,
    },
    /// What is open is being taken back: aborted, or outside a transaction at least flushed, so
    /// that nothing arrives later.
    Aborting,
    /// The last commit stands, but a late request of this producer may be under way: no transaction
    /// may follow on it.
    Stale,
    /// Nothing may be written or committed before the recovery has been done.
    Failed(Recovery),
}

/// What a failure asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// Drop the overlays of all tasks and the producer; make a new one; open the tasks at the last
    /// commit.
    Reopen,
    /// Drop the overlays and the producer, close all tasks without a commit, join the group anew.
    Rejoin,
    /// Stop; nothing is committed any more.
    Stop,
}

/// What has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// A record is about to be written.
    Wrote,
    /// The transaction has begun.
    Begun,
    /// A commit is wanted.
    CommitRequested {
        /// Are there offsets to commit?
        offsets: bool,
    },
    /// Everything sent is acknowledged.
    Flushed,
    /// The transaction has the offsets.
    OffsetsSent,
    /// The transaction is committed.
    Committed,
    /// The state of all tasks is persisted.
    Persisted,
    /// The offsets are committed, outside a transaction.
    OffsetsCommitted,
    /// What is open shall be taken back.
    AbortRequested,
    /// The transaction is aborted.
    Aborted,
    /// The producer has seen trouble on its connections; asked for while nothing is open.
    Tainted,
    /// A fresh producer is there; after a failure the tasks have been opened anew, too.
    ProducerReplaced,
    /// The call failed.
    Failed(Failure),
    /// Nobody knows whether the call took effect.
    OutcomeUnknown,
}

/// How a call failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Nothing happened.
    Retriable,
    /// What is open cannot be committed.
    Abortable,
    /// A newer owner exists.
    Fenced,
    /// Nothing of the above.
    Fatal,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Decision {
    /// Go on processing.
    Proceed,
    /// Begin a transaction.
    Begin,
    /// Wait until everything sent is acknowledged.
    Flush,
    /// Add the offsets to the transaction.
    SendOffsets,
    /// Commit the transaction.
    EndTransaction,
    /// Persist the state of all tasks.
    Persist,
    /// Commit the offsets, outside a transaction.
    CommitOffsets,
    /// Abort the transaction.
    Abort,
    /// What was asked for is done.
    Done,
    /// Replace the producer before the next write; nothing is lost.
    ReplaceProducer,
    /// See [`Recovery::Reopen`].
    Reopen,
    /// See [`Recovery::Rejoin`].
    Rejoin,
    /// See [`Recovery::Stop`].
    Stop,
}

/// The one transition function: a table over both guarantees.
///
/// A fact that cannot be true in a state is an error of the driver and stops the worker.
pub const fn transition(guarantee: Guarantee, state: State, fact: Fact) -> (State, Decision) {
    use Fact as F;
    use State as S;
    let exactly_once = matches!(guarantee, Guarantee::ExactlyOnce);
    match (state, fact) {
        // P1: a transaction begins at the first write.
        (S::Idle, F::Wrote) if exactly_once => (S::Beginning { commit: false }, Decision::Begin),
        (S::Idle | S::Open, F::Wrote) => (S::Open, Decision::Proceed),
        (S::Beginning { commit: false }, F::Begun) => (S::Open, Decision::Proceed),
        (S::Beginning { commit: true }, F::Begun) => {
            (S::Flushing { offsets: true }, Decision::Flush)
        }

        // C2: also when nothing was written, input may have been consumed.
        (S::Idle, F::CommitRequested { offsets: false }) => (S::Idle, Decision::Done),
        (S::Idle, F::CommitRequested { .. }) if exactly_once => {
            (S::Beginning { commit: true }, Decision::Begin)
        }
        // A transaction without offsets would not be fenced by the group.
        (S::Open, F::CommitRequested { offsets: false }) if exactly_once => fail(Recovery::Stop),
        (S::Idle | S::Open, F::CommitRequested { offsets }) => {
            (S::Flushing { offsets }, Decision::Flush)
        }

        // C3 and C4: offsets and outputs take effect together.
        (S::Flushing { .. }, F::Flushed) if exactly_once => {
            (S::SendingOffsets, Decision::SendOffsets)
        }
        (S::SendingOffsets, F::OffsetsSent) => (S::Ending, Decision::EndTransaction),
        (S::Ending, F::Committed) => (S::Persisting { offsets_owed: false }, Decision::Persist),

        // C5: state follows what it was derived from; outside a transaction the offsets follow
        // last.
        (S::Flushing { offsets }, F::Flushed) => {
            let offsets_owed = offsets;
            (S::Persisting { offsets_owed }, Decision::Persist)
        }
        (S::Persisting { offsets_owed: false }, F::Persisted) => (S::Idle, Decision::Done),
        (S::Persisting { offsets_owed: true }, F::Persisted) => {
            (S::CommittingOffsets { repeats: 0 }, Decision::CommitOffsets)
        }
        (S::CommittingOffsets { .. }, F::OffsetsCommitted) => (S::Idle, Decision::Done),
        (S::CommittingOffsets { repeats }, F::Failed(Failure::Retriable))
            if repeats < OFFSET_REPEATS_MAX =>
        {
            let repeats = repeats + 1;
            (S::CommittingOffsets { repeats }, Decision::CommitOffsets)
        }

        // C7: no transaction on a producer whose late requests could end it.
        (S::Idle, F::Tainted) if exactly_once => (S::Stale, Decision::ReplaceProducer),
        (S::Idle | S::Open, F::Tainted) => (state, Decision::Proceed),
        (S::Stale, F::Tainted | F::CommitRequested { offsets: false }) => {
            (S::Stale, Decision::ReplaceProducer)
        }
        (S::Stale, F::Wrote | F::CommitRequested { offsets: true }) => fail(Recovery::Reopen),

        // Taking back.
        (S::Open, F::AbortRequested) if exactly_once => (S::Aborting, Decision::Abort),
        (S::Open, F::AbortRequested) => (S::Aborting, Decision::Flush),
        (S::Aborting, F::Aborted) if exactly_once => (S::Idle, Decision::Done),
        (S::Aborting, F::Flushed) if !exactly_once => (S::Idle, Decision::Done),
        (S::Idle | S::Stale | S::Failed(_), F::AbortRequested) => (state, Decision::Done),

        // Starting anew. Dropping a producer takes back what is open, too.
        (S::Failed(Recovery::Stop), _) => fail(Recovery::Stop),
        (S::Idle | S::Open | S::Stale | S::Failed(_), F::ProducerReplaced) => {
            (S::Idle, Decision::Proceed)
        }

        // Failures. The first one decides: a fenced producer stays fenced whatever follows.
        (S::Failed(recovery), _) => fail(recovery),
        (_, F::Failed(Failure::Fenced)) => fail(Recovery::Rejoin),
        (_, F::Failed(Failure::Fatal)) => fail(Recovery::Stop),
        (_, F::Failed(Failure::Retriable | Failure::Abortable) | F::OutcomeUnknown) => {
            fail(Recovery::Reopen)
        }
        _ => fail(Recovery::Stop),
    }
}

const fn fail(recovery: Recovery) -> (State, Decision) {
    let decision = match recovery {
        Recovery::Reopen => Decision::Reopen,
        Recovery::Rejoin => Decision::Rejoin,
        Recovery::Stop => Decision::Stop,
    };
    (State::Failed(recovery), decision)
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
