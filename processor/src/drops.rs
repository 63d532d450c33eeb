//! What is logged of dropped records: a line per node, reason and interval, with their number. The counts are the tasks' own.

use std::fmt::Display;
use std::sync::Arc;

use thalweg_connectors::Timestamp;

use crate::context::Shared;

/// How long a node's drops for one reason are summed up before the next line.
pub(crate) const INTERVAL_MS: i64 = 10_000;

/// The drops of one node for one reason.
#[derive(Debug)]
struct Reason {
    node: Arc<str>,
    why: &'static str,
    /// When the last line was written.
    logged_at: Timestamp,
    /// Drops since.
    silent: u64,
}

impl Reason {
    /// Is it time for a line? A clock that was set back must not silence it for long.
    fn is_due(&self, now: Timestamp) -> bool {
        let next = self.logged_at.0.saturating_add(INTERVAL_MS);
        !(self.logged_at.0..next).contains(&now.0)
    }

    fn take(&mut self, now: Timestamp) -> u64 {
        self.logged_at = now;
        std::mem::take(&mut self.silent)
    }
}

/// What the tasks of one worker have logged of drops.
#[derive(Debug, Default)]
pub(crate) struct DropLog(Vec<Reason>);

impl DropLog {
    /// Notes a drop; tells how many a line has to speak of if one is due.
    fn note(&mut self, node: &Arc<str>, why: &'static str, now: Timestamp) -> Option<u64> {
        let known = self.0.iter_mut().find(|known| known.why == why && known.node == *node);
        let Some(reason) = known else {
            self.0.push(Reason { node: Arc::clone(node), why, logged_at: now, silent: 0 });
            return Some(1);
        };
        reason.silent += 1;
        reason.is_due(now).then(|| reason.take(now))
    }

    /// Writes the lines that are due.
    pub(crate) fn report(&mut self, now: Timestamp) {
        self.write(now, |reason| reason.is_due(now));
    }

    /// Writes what was not told yet, before the log is dropped.
    pub(crate) fn finish(&mut self, now: Timestamp) {
        self.write(now, |_| true);
    }

    fn write(&mut self, now: Timestamp, is_due: impl Fn(&Reason) -> bool) {
        for reason in self.0.iter_mut().filter(|reason| reason.silent > 0 && is_due(reason)) {
            let records = reason.take(now);
            tracing::warn!(node = %reason.node, why = reason.why, records, "dropped records");
        }
    }
}

impl Shared {
    /// Logs, when a line is due, that the dead letter of a record is lost; the record itself is for its node to count.
    #[cold]
    pub(crate) fn log_lost_letter(&self, log: &mut DropLog, node: &Arc<str>, why: &dyn Display) {
        if let Some(records) = log.note(node, "dead letter refused", self.wall_time) {
            let (why, at) = (tracing::field::display(why), self.source_record());
            let at = at.map(tracing::field::display);
            tracing::warn!(task = %self.task, %node, at, why, records, "lost dead letters");
        }
    }

    /// Counts a record as dropped by a node, and logs it when a line is due.
    #[cold]
    pub(crate) fn drop_record(
        &mut self,
        log: &mut DropLog,
        node: &Arc<str>,
        why: &'static str,
        detail: Option<&dyn Display>,
    ) {
        self.dropped += 1;
        if let Some(records) = log.note(node, why, self.wall_time) {
            let detail = detail.map(tracing::field::display);
            let at = self.source_record().map(tracing::field::display);
            tracing::warn!(task = %self.task, %node, at, why, detail, records, "dropped records");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(log: &mut DropLog, node: &str, at: i64) -> Option<u64> {
        log.note(&node.into(), "late", Timestamp(at))
    }

    #[test]
    fn a_line_speaks_of_all_drops_since_the_last_one() {
        let mut log = DropLog::default();
        assert_eq!(late(&mut log, "a", 0), Some(1));
        for at in 1..INTERVAL_MS {
            assert_eq!(late(&mut log, "a", at), None, "at {at}");
        }
        assert_eq!(late(&mut log, "a", INTERVAL_MS), Some(10_000));
        assert_eq!(late(&mut log, "a", INTERVAL_MS + 1), None);
    }

    #[test]
    fn nodes_and_reasons_do_not_silence_each_other() {
        let mut log = DropLog::default();
        assert_eq!(late(&mut log, "a", 0), Some(1));
        assert_eq!(late(&mut log, "b", 0), Some(1));
        assert_eq!(log.note(&"a".into(), "null key", Timestamp(0)), Some(1));
        assert_eq!(late(&mut log, "a", 0), None);
    }

    #[test]
    fn a_clock_that_was_set_back_silences_nothing() {
        let mut log = DropLog::default();
        assert_eq!(late(&mut log, "a", 1_000_000), Some(1));
        assert_eq!(late(&mut log, "a", 500), Some(1));
    }

    #[test]
    fn drops_that_no_other_follows_are_reported_once() {
        let mut log = DropLog::default();
        let silent = |log: &DropLog| log.0[0].silent;
        for at in 0..3 {
            late(&mut log, "a", at);
        }
        log.report(Timestamp(INTERVAL_MS - 1));
        assert_eq!(silent(&log), 2);
        log.report(Timestamp(INTERVAL_MS));
        assert_eq!(silent(&log), 0);
        late(&mut log, "a", INTERVAL_MS + 1);
        log.finish(Timestamp(INTERVAL_MS + 2));
        assert_eq!(silent(&log), 0);
    }
}
