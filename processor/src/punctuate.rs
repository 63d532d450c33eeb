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
    /// When it was due first.
    start: i64,
    due: i64,
    interval_ms: i64,
}

impl Timer {
    fn is_like(&self, other: &Self) -> bool {
        let traits = |t: &Self| (t.node, t.kind, t.start, t.interval_ms);
        traits(self) == traits(other)
    }
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
        self.timers.push(Timer { id, node, kind, start, due: start, interval_ms });
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

    /// What the progress of a timer is remembered by: its start and interval, and how many like it its node has scheduled before.
    pub(crate) fn progress_name(&self, id: TimerId) -> String {
        let timer = self.timers.iter().find(|t| t.id == id).expect("it is scheduled");
        let nth = self.timers.iter().filter(|t| t.id < id && t.is_like(timer)).count();
        format!("timer@{}+{}#{nth}", timer.start, timer.interval_ms)
    }

    /// Lets a timer go on where it stood before a restart.
    pub(crate) fn resume(&mut self, id: TimerId, due: i64) {
        if let Some(timer) = self.timers.iter_mut().find(|t| t.id == id) {
            timer.due = due.max(timer.start);
            let kind = timer.kind;
            self.note_earliest(kind);
        }
    }

    /// The timers on stream time that have run already, with when they are due next. One that has not is scheduled anew as it
    /// was, and one that is cancelled when it runs leaves nothing behind, so this stays small.
    pub(crate) fn progress(&self) -> impl Iterator<Item = (NodeIx, String, i64)> {
        let began = |t: &&Timer| t.kind == PunctuationType::StreamTime && t.due > t.start;
        self.timers.iter().filter(began).map(|t| (t.node, self.progress_name(t.id), t.due))
    }

    fn note_earliest(&mut self, kind: PunctuationType) {
        self.earliest[kind as usize] =
            self.timers.iter().filter(|t| t.kind == kind).map(|t| t.due).min();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test panics on failure")]

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

    #[test]
    fn timers_of_a_node_go_on_where_those_like_them_stood() {
        let (kind, ms) = (PunctuationType::StreamTime, Duration::from_millis);
        let schedule = |timers: &mut Timers| {
            let wanted = [(0, 0, 10), (0, 0, 10), (0, 5, 10), (1, 0, 10), (0, 0, 20), (0, 90, 10)];
            wanted.map(|(node, start, every)| timers.schedule(NodeIx(node), kind, start, ms(every)))
        };
        let mut before = Timers::default();
        let ids = schedule(&mut before);
        before.schedule(NodeIx(0), PunctuationType::WallClockTime, 0, ms(10));
        while before.pop(kind, Timestamp(34)).is_some() {}
        let progress: Vec<_> = before.progress().collect();
        assert_eq!(progress.len(), 5, "{progress:?}");

        let mut after = Timers::default();
        for (id, before_id) in schedule(&mut after).into_iter().zip(ids) {
            let name = after.progress_name(id);
            assert_eq!(name, before.progress_name(before_id));
            let timer = after.timers.iter().find(|t| t.id == id).unwrap();
            let known = progress.iter().find(|(node, of, _)| *node == timer.node && *of == name);
            if let Some((_, _, due)) = known {
                after.resume(id, *due);
            }
        }
        let due = |timers: &Timers| timers.timers.iter().map(|t| t.due).collect::<Vec<_>>();
        assert_eq!(due(&after), [40, 40, 35, 40, 40, 90]);
        assert!(!after.is_due(kind, Timestamp(34)) && after.is_due(kind, Timestamp(35)));
    }
}
