//! The whole table: every state that can be reached with every fact, under both guarantees.

use super::*;
use Decision as D;
use Fact as F;
use State as S;

const REOPEN: S = S::Failed(Recovery::Reopen);
const REJOIN: S = S::Failed(Recovery::Rejoin);
const STOP: S = S::Failed(Recovery::Stop);

const FACTS: [F; 18] = [
    F::Wrote,
    F::Begun,
    F::CommitRequested { offsets: false },
    F::CommitRequested { offsets: true },
    F::Flushed,
    F::OffsetsSent,
    F::Committed,
    F::Persisted,
    F::OffsetsCommitted,
    F::AbortRequested,
    F::Aborted,
    F::Tainted,
    F::ProducerReplaced,
    F::Failed(Failure::Retriable),
    F::Failed(Failure::Abortable),
    F::Failed(Failure::Fenced),
    F::Failed(Failure::Fatal),
    F::OutcomeUnknown,
];

type Row = (S, F, S, D);

/// The table under exactly-once; what is not in it is a failure, or cannot be.
#[rustfmt::skip]
const EXACTLY_ONCE: &[Row] = &[
    (S::Idle, F::Wrote, S::Beginning { commit: false }, D::Begin),
    (S::Idle, F::CommitRequested { offsets: false }, S::Idle, D::Done),
    (S::Idle, F::CommitRequested { offsets: true }, S::Beginning { commit: true }, D::Begin),
    (S::Idle, F::AbortRequested, S::Idle, D::Done),
    (S::Idle, F::Tainted, S::Stale, D::ReplaceProducer),
    (S::Idle, F::ProducerReplaced, S::Idle, D::Proceed),
    (S::Beginning { commit: false }, F::Begun, S::Open, D::Proceed),
    (S::Beginning { commit: true }, F::Begun, S::Flushing { offsets: true }, D::Flush),
    (S::Open, F::Wrote, S::Open, D::Proceed),
    (S::Open, F::CommitRequested { offsets: true }, S::Flushing { offsets: true }, D::Flush),
    (S::Open, F::AbortRequested, S::Aborting, D::Abort),
    (S::Open, F::Tainted, S::Open, D::Proceed),
    (S::Open, F::ProducerReplaced, S::Idle, D::Proceed),
    (S::Flushing { offsets: true }, F::Flushed, S::SendingOffsets, D::SendOffsets),
    (S::SendingOffsets, F::OffsetsSent, S::Ending, D::EndTransaction),
    (S::Ending, F::Committed, S::Persisting { offsets_owed: false }, D::Persist),
    (S::Persisting { offsets_owed: false }, F::Persisted, S::Idle, D::Done),
    (S::Aborting, F::Aborted, S::Idle, D::Done),
    (S::Stale, F::Wrote, REOPEN, D::Reopen),
    (S::Stale, F::CommitRequested { offsets: false }, S::Stale, D::ReplaceProducer),
    (S::Stale, F::CommitRequested { offsets: true }, REOPEN, D::Reopen),
    (S::Stale, F::AbortRequested, S::Stale, D::Done),
    (S::Stale, F::Tainted, S::Stale, D::ReplaceProducer),
    (S::Stale, F::ProducerReplaced, S::Idle, D::Proceed),
];

/// The table under at-least-once; what is not in it is a failure, or cannot be.
#[rustfmt::skip]
const AT_LEAST_ONCE: &[Row] = &[
    (S::Idle, F::Wrote, S::Open, D::Proceed),
    (S::Idle, F::CommitRequested { offsets: false }, S::Idle, D::Done),
    (S::Idle, F::CommitRequested { offsets: true }, S::Flushing { offsets: true }, D::Flush),
    (S::Idle, F::AbortRequested, S::Idle, D::Done),
    (S::Idle, F::Tainted, S::Idle, D::Proceed),
    (S::Idle, F::ProducerReplaced, S::Idle, D::Proceed),
    (S::Open, F::Wrote, S::Open, D::Proceed),
    (S::Open, F::CommitRequested { offsets: false }, S::Flushing { offsets: false }, D::Flush),
    (S::Open, F::CommitRequested { offsets: true }, S::Flushing { offsets: true }, D::Flush),
    (S::Open, F::AbortRequested, S::Aborting, D::Flush),
    (S::Open, F::Tainted, S::Open, D::Proceed),
    (S::Open, F::ProducerReplaced, S::Idle, D::Proceed),
    (S::Flushing { offsets: false }, F::Flushed, S::Persisting { offsets_owed: false }, D::Persist),
    (S::Flushing { offsets: true }, F::Flushed, S::Persisting { offsets_owed: true }, D::Persist),
    (S::Persisting { offsets_owed: false }, F::Persisted, S::Idle, D::Done),
    (S::Persisting { offsets_owed: true }, F::Persisted, S::CommittingOffsets { repeats: 0 }, D::CommitOffsets),
    (S::CommittingOffsets { repeats: 0 }, F::Failed(Failure::Retriable), S::CommittingOffsets { repeats: 1 }, D::CommitOffsets),
    (S::CommittingOffsets { repeats: 1 }, F::Failed(Failure::Retriable), S::CommittingOffsets { repeats: 2 }, D::CommitOffsets),
    (S::CommittingOffsets { repeats: 2 }, F::Failed(Failure::Retriable), S::CommittingOffsets { repeats: 3 }, D::CommitOffsets),
    (S::CommittingOffsets { repeats: 0 }, F::OffsetsCommitted, S::Idle, D::Done),
    (S::CommittingOffsets { repeats: 1 }, F::OffsetsCommitted, S::Idle, D::Done),
    (S::CommittingOffsets { repeats: 2 }, F::OffsetsCommitted, S::Idle, D::Done),
    (S::CommittingOffsets { repeats: 3 }, F::OffsetsCommitted, S::Idle, D::Done),
    (S::Aborting, F::Flushed, S::Idle, D::Done),
];

/// After a failure: under both guarantees the same.
#[rustfmt::skip]
const FAILED: &[Row] = &[
    (REOPEN, F::AbortRequested, REOPEN, D::Done),
    (REOPEN, F::ProducerReplaced, S::Idle, D::Proceed),
    (REJOIN, F::AbortRequested, REJOIN, D::Done),
    (REJOIN, F::ProducerReplaced, S::Idle, D::Proceed),
    (STOP, F::AbortRequested, STOP, D::Done),
];

/// Everything that can be reached from the start, by any facts.
fn reachable(guarantee: Guarantee) -> Vec<S> {
    let mut states = vec![S::Idle];
    let mut next = 0;
    while next < states.len() {
        for fact in FACTS {
            let (to, _) = transition(guarantee, states[next], fact);
            if !states.contains(&to) {
                states.push(to);
            }
        }
        next += 1;
    }
    states
}

fn expected(table: &[Row], state: S, fact: F) -> (S, D) {
    let row = table.iter().chain(FAILED).find(|row| (row.0, row.1) == (state, fact));
    match (row, state, fact) {
        (Some(row), ..) => (row.2, row.3),
        // The first failure decides.
        (_, S::Failed(Recovery::Reopen), _) => (state, D::Reopen),
        (_, S::Failed(Recovery::Rejoin), _) => (state, D::Rejoin),
        (_, S::Failed(Recovery::Stop), _) => (state, D::Stop),
        (_, _, F::OutcomeUnknown | F::Failed(Failure::Retriable | Failure::Abortable)) => {
            (REOPEN, D::Reopen)
        }
        (_, _, F::Failed(Failure::Fenced)) => (REJOIN, D::Rejoin),
        // Fatal, or a fact that cannot be.
        _ => (STOP, D::Stop),
    }
}

fn tables() -> [(Guarantee, &'static [Row]); 2] {
    [(Guarantee::ExactlyOnce, EXACTLY_ONCE), (Guarantee::AtLeastOnce, AT_LEAST_ONCE)]
}

#[test]
fn every_state_and_fact_leads_where_the_table_says() {
    for (guarantee, table) in tables() {
        for state in reachable(guarantee) {
            for fact in FACTS {
                assert_eq!(
                    transition(guarantee, state, fact),
                    expected(table, state, fact),
                    "{guarantee}: {state:?} × {fact:?}"
                );
            }
        }
    }
}

#[test]
fn every_state_of_the_table_can_be_reached_and_no_other() {
    for (guarantee, table) in tables() {
        let reached = reachable(guarantee);
        let named = |state: &S| table.iter().chain(FAILED).any(|row| row.0 == *state);
        assert!(reached.iter().all(named), "{guarantee}: {reached:?}");
        assert!(table.iter().all(|row| reached.contains(&row.0)), "{guarantee}: {reached:?}");
    }
}

/// Walks every path from a state and collects the decisions on the way, without passing `until`.
fn decisions_after(guarantee: Guarantee, start: S, until: F) -> Vec<D> {
    let (mut states, mut decisions, mut next) = (vec![start], Vec::new(), 0);
    while next < states.len() {
        for fact in FACTS.into_iter().filter(|fact| *fact != until) {
            let (to, decision) = transition(guarantee, states[next], fact);
            decisions.push(decision);
            if !states.contains(&to) {
                states.push(to);
            }
        }
        next += 1;
    }
    decisions
}

#[test]
fn nothing_is_begun_flushed_committed_or_persisted_between_a_failure_and_its_recovery() {
    for (guarantee, _) in tables() {
        for failed in [REOPEN, REJOIN, STOP] {
            let decisions = decisions_after(guarantee, failed, F::ProducerReplaced);
            assert!(
                decisions.iter().all(|d| matches!(d, D::Reopen | D::Rejoin | D::Stop | D::Done)),
                "{guarantee}: {decisions:?}"
            );
        }
    }
}

#[test]
fn state_is_persisted_only_after_the_outputs_count() {
    let count = |guarantee, proof| {
        let persists = decisions_after(guarantee, S::Idle, proof);
        persists.iter().filter(|d| **d == D::Persist).count()
    };
    assert_eq!(count(Guarantee::ExactlyOnce, F::Committed), 0);
    assert_eq!(count(Guarantee::AtLeastOnce, F::Flushed), 0);
}

#[test]
fn no_transaction_is_committed_without_its_offsets() {
    let decisions = decisions_after(Guarantee::ExactlyOnce, S::Idle, F::OffsetsSent);
    assert!(!decisions.contains(&D::EndTransaction));
}

#[test]
fn offsets_outside_a_transaction_follow_state() {
    let decisions = decisions_after(Guarantee::AtLeastOnce, S::Idle, F::Persisted);
    assert!(!decisions.contains(&D::CommitOffsets));
    let decisions = decisions_after(Guarantee::ExactlyOnce, S::Idle, F::Wrote);
    assert!(!decisions.contains(&D::CommitOffsets));
}
