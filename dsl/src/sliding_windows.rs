//! [`SlidingWindows`]: windows that end, or begin, with a record.

use std::marker::PhantomData;
use std::time::Duration;

use crate::windows::{GraceStated, GraceUnstated, TimeWindow, millis};

/// Windows of a fixed length, both ends included, that move with the records: for each record one that ends with it, and one that
/// begins right behind it, as far as there are records in it. So every two records of a key that are no further apart than the
/// difference are together in some window, and windows with the same records are not repeated.
///
/// Sliding windows cost more than hopping ones: a record is folded into each window it lies in, at most one per record around it.
///
/// ```
/// use std::time::Duration;
/// use thalweg::SlidingWindows;
///
/// let minutes = SlidingWindows::of_difference(Duration::from_secs(60)).grace(Duration::from_secs(10));
/// # let _ = minutes;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlidingWindows<G = GraceStated> {
    difference_ms: i64,
    grace_ms: i64,
    stated: PhantomData<fn() -> G>,
}

impl SlidingWindows {
    /// Windows of records up to that far apart. State the grace period next.
    pub fn of_difference(difference: Duration) -> SlidingWindows<GraceUnstated> {
        SlidingWindows { difference_ms: millis(difference), grace_ms: 0, stated: PhantomData }
    }

    pub(crate) fn difference_ms(&self) -> i64 {
        self.difference_ms
    }

    pub(crate) fn grace_ms(&self) -> i64 {
        self.grace_ms
    }

    /// The window that starts there.
    pub(crate) fn window_at(&self, start_ms: i64) -> TimeWindow {
        TimeWindow { start_ms, end_ms: start_ms.saturating_add(self.difference_ms) }
    }

    /// How long windows have to be kept at least: a late record looks for those that end up to a length before it.
    pub(crate) fn retention_ms(&self) -> i64 {
        self.difference_ms.saturating_mul(2).saturating_add(self.grace_ms)
    }

    /// The starts of the windows that close when the close time moves from `last` to `close`; `None` if none can.
    pub(crate) fn closed_starts(&self, last: Option<i64>, close_ms: i64) -> Option<(i64, i64)> {
        let to = close_ms.saturating_sub(self.difference_ms).saturating_sub(1);
        let from = last.map_or(0, |last| last.saturating_sub(self.difference_ms).max(0));
        (to >= 0 && from <= to).then_some((from, to))
    }
}

impl SlidingWindows<GraceUnstated> {
    /// A window takes late records for that long after its end, in stream time.
    #[must_use]
    pub fn grace(self, grace: Duration) -> SlidingWindows {
        let difference_ms = self.difference_ms;
        SlidingWindows { difference_ms, grace_ms: millis(grace), stated: PhantomData }
    }

    /// A window closes when stream time has passed its end.
    #[must_use]
    pub fn no_grace(self) -> SlidingWindows {
        self.grace(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_close_when_the_close_time_has_passed_their_end() {
        let windows = SlidingWindows::of_difference(Duration::from_millis(10)).no_grace();
        assert_eq!(windows.closed_starts(None, 10), None);
        assert_eq!(windows.closed_starts(None, 11), Some((0, 0)));
        assert_eq!(windows.closed_starts(Some(11), 30), Some((1, 19)));
        assert_eq!(windows.retention_ms(), 20);
    }
}
