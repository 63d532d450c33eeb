//! Timers of a task on stream time and wall-clock time, with Kafka Streams' rules for missed intervals.

use std::time::Duration;

use thalweg_connectors::Timestamp;

use crate::topology::NodeIx;

/// Which time a punctuation follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PunctuationType {
    /// The highest timestamp the task has seen; stands still while no record comes.
    StreamTime,
    /// The clock's time.
    WallClockTime,
}

/// Names a scheduled punctuation; cancels it with [`Context::cancel`](crate::Context::cancel). Dropping it does not cancel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TimerId(u64);

#[derive(Debug)]
struct Timer {
    id: TimerId,
    node: NodeIx,
    kind: PunctuationType,
    due: i64,
    interval_ms: i64,
}

/// All timers of a task.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    timers: Vec<Timer>,
    next: u64,
    /// The earliest due time per kind, so that a record costs one comparison.
    earliest: [Option<i64>; 2],
}

/// A punctuation to be run now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    pub(crate) timer: TimerId,
    pub(crate) node: NodeIx,
}

impl Timers {
    /// Adds a timer that is due first at `start`.
    pub(crate) fn schedule(
        &mut self,
        node: NodeIx,
        kind: PunctuationType,
        start: i64,
        interval: Duration,
    ) -> TimerId {
        let id = TimerId(self.next);
        self.next += 1;
        let interval_ms = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX);
        self.timers.push(Timer { id, node, kind, due: start, interval_ms });
        self.note_earliest(kind);
        id
    }

    pub(crate) fn cancel(&mut self, id: TimerId) {
        self.timers.retain(|t| t.id != id);
        self.note_earliest(PunctuationType::StreamTime);
        self.note_earliest(PunctuationType::WallClockTime);
    }

    /// Is anything due? One comparison.
    pub(crate) fn is_due(&self, kind: PunctuationType, now: Timestamp) -> bool {
        self.earliest[kind as usize].is_some_and(|at| at <= now.0)
    }

    /// Takes the most overdue timer and moves it on: to its next interval after `now`, skipping those that were missed.
    pub(crate) fn pop(&mut self, kind: PunctuationType, now: Timestamp) -> Option<Due> {
        let timer = self
            .timers
            .iter_mut()
            .filter(|t| t.kind == kind && t.due <= now.0)
            .min_by_key(|t| (t.due, t.id))?;
        let missed = (now.0 - timer.due) / timer.interval_ms;
        timer.due = timer.due.saturating_add((missed + 1).saturating_mul(timer.interval_ms));
        let due = Due { timer: timer.id, node: timer.node };
        self.note_earliest(kind);
        Some(due)
    }

    fn note_earliest(&mut self, kind: PunctuationType) {
        self.earliest[kind as usize] =
            self.timers.iter().filter(|t| t.kind == kind).map(|t| t.due).min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_intervals_run_once_and_stay_aligned() {
        let mut timers = Timers::default();
        let (kind, node) = (PunctuationType::StreamTime, NodeIx(0));
        let timer = timers.schedule(node, kind, 0, Duration::from_millis(10));
        for (now, runs) in [(0, true), (5, false), (10, true), (47, true), (49, false), (50, true)]
        {
            assert_eq!(timers.is_due(kind, Timestamp(now)), runs, "at {now}");
            let due = runs.then_some(Due { timer, node });
            assert_eq!(timers.pop(kind, Timestamp(now)), due, "at {now}");
            assert_eq!(timers.pop(kind, Timestamp(now)), None, "once at {now}");
        }
        timers.cancel(timer);
        assert!(!timers.is_due(kind, Timestamp(i64::MAX)));
    }
}
