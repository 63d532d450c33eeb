//! Wakes readers that wait for records, so that an idle reader costs nothing.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::lock;

/// What a reader had seen when it last looked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    /// Records that became visible, counted per call.
    arrivals: u64,
    /// Other news: a group changed.
    nudges: u64,
}

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wake {
    Arrival,
    Nudge,
    TimedOut,
}

#[derive(Debug, Default)]
pub(crate) struct Signal {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Signal {
    pub(crate) fn seen(&self) -> Seen {
        *lock(&self.seen)
    }

    /// Records became visible.
    pub(crate) fn arrived(&self) {
        lock(&self.seen).arrivals += 1;
        self.changed.notify_all();
    }

    /// Something else changed that a waiting worker wants to know.
    pub(crate) fn nudge(&self) {
        lock(&self.seen).nudges += 1;
        self.changed.notify_all();
    }

    /// Waits until something changed since `seen`.
    pub(crate) fn wait(&self, seen: Seen, until: Instant) -> Wake {
        let left = until.saturating_duration_since(Instant::now());
        let (now, _) = self
            .changed
            .wait_timeout_while(lock(&self.seen), left, |now| *now == seen)
            .unwrap_or_else(PoisonError::into_inner);
        if now.nudges != seen.nudges {
            Wake::Nudge
        } else if now.arrivals != seen.arrivals {
            Wake::Arrival
        } else {
            Wake::TimedOut
        }
    }
}

/// The end of a wait that begins now; a day at most.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    Instant::now() + timeout.min(Duration::from_secs(86_400))
}
