//! [`JoinWindows`]: which records of two streams meet.

use std::marker::PhantomData;
use std::time::Duration;

use thalweg_processor::TopologyError;

use crate::windows::{GraceStated, GraceUnstated, millis};

/// How far apart two records may be to be joined: by default as far before as after, both ends included.
///
/// ```
/// use std::time::Duration;
/// use thalweg::JoinWindows;
///
/// let minute = Duration::from_secs(60);
/// // a payment up to an hour behind its order, or a minute in front of it
/// let windows = JoinWindows::of_difference(minute).after(60 * minute).grace(minute);
/// # let _ = windows;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JoinWindows<G = GraceStated> {
    before_ms: i64,
    after_ms: i64,
    grace_ms: i64,
    stated: PhantomData<fn() -> G>,
}

impl JoinWindows {
    /// Records up to that far apart. State the grace period next.
    pub fn of_difference(difference: Duration) -> JoinWindows<GraceUnstated> {
        let ms = millis(difference);
        JoinWindows { before_ms: ms, after_ms: ms, grace_ms: 0, stated: PhantomData }
    }
}

impl JoinWindows<GraceUnstated> {
    /// How long stream time may have passed a record's window before the record is given up: results of left and outer joins
    /// without a partner wait that long, and records are kept that long for late ones.
    #[must_use]
    pub fn grace(self, grace: Duration) -> JoinWindows {
        let Self { before_ms, after_ms, .. } = self;
        JoinWindows { before_ms, after_ms, grace_ms: millis(grace), stated: PhantomData }
    }

    /// A record is given up as soon as stream time has passed its window.
    #[must_use]
    pub fn no_grace(self) -> JoinWindows {
        self.grace(Duration::ZERO)
    }
}

impl<G> JoinWindows<G> {
    /// How far the other stream's record may lie before this stream's.
    #[must_use]
    pub fn before(self, before: Duration) -> Self {
        self.before_ms(millis(before))
    }

    /// How far the other stream's record may lie after this stream's.
    #[must_use]
    pub fn after(self, after: Duration) -> Self {
        self.after_ms(millis(after))
    }

    /// As [`before`](Self::before), in ms. Below 0 the other record has to lie after this one by at least as much.
    #[must_use]
    pub fn before_ms(self, before_ms: i64) -> Self {
        Self { before_ms, ..self }
    }

    /// As [`after`](Self::after), in ms. Below 0 the other record has to lie before this one by at least as much.
    #[must_use]
    pub fn after_ms(self, after_ms: i64) -> Self {
        Self { after_ms, ..self }
    }
}

/// The windows as one side of the join sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SideWindows {
    /// How far the other side's record may lie before this side's.
    pub(crate) before_ms: i64,
    /// How far it may lie after.
    pub(crate) after_ms: i64,
    pub(crate) grace_ms: i64,
}

impl SideWindows {
    /// The times of records that meet one of this time; none is before the epoch.
    pub(crate) fn around(self, time_ms: i64) -> (i64, i64) {
        let from = time_ms.saturating_sub(self.before_ms).max(0);
        (from, time_ms.saturating_add(self.after_ms).max(0))
    }

    /// Whether a record of this time, on this side, can still meet one, at that stream time.
    pub(crate) fn is_open(self, time_ms: i64, stream_time_ms: i64) -> bool {
        let closes = time_ms.saturating_add(self.after_ms).saturating_add(self.grace_ms);
        closes >= stream_time_ms
    }
}

impl JoinWindows {
    /// As the left stream sees them.
    pub(crate) fn left(self) -> SideWindows {
        let Self { before_ms, after_ms, grace_ms, .. } = self;
        SideWindows { before_ms, after_ms, grace_ms }
    }

    /// As the right stream sees them.
    pub(crate) fn right(self) -> SideWindows {
        let Self { before_ms, after_ms, grace_ms, .. } = self;
        SideWindows { before_ms: after_ms, after_ms: before_ms, grace_ms }
    }

    /// From the first time inside to the last.
    pub(crate) fn size_ms(self) -> i64 {
        self.before_ms.saturating_add(self.after_ms)
    }

    /// How long records have to be kept.
    pub(crate) fn retention_ms(self) -> i64 {
        self.size_ms().saturating_add(self.grace_ms)
    }

    /// What is wrong with them.
    pub(crate) fn check(self) -> Result<(), TopologyError> {
        if self.size_ms() >= 0 {
            return Ok(());
        }
        let Self { before_ms, after_ms, .. } = self;
        Err(TopologyError::IllegalArgument(format!(
            "the join window from {before_ms} ms before to {after_ms} ms after ends before it starts: no records would meet"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_see_the_windows_mirrored() {
        let ms = Duration::from_millis;
        let windows = JoinWindows::of_difference(ms(10)).after(ms(2)).grace(ms(5));
        assert_eq!(windows.left().around(100), (90, 102));
        assert_eq!(windows.right().around(100), (98, 110));
        assert_eq!(windows.left().around(3), (0, 5));
        assert!(windows.left().is_open(100, 107) && !windows.left().is_open(100, 108));
        assert!(windows.right().is_open(100, 115) && !windows.right().is_open(100, 116));
        assert_eq!(windows.retention_ms(), 17);
    }

    #[test]
    fn windows_that_end_before_they_start_are_refused() {
        let five = JoinWindows::of_difference(Duration::from_millis(5));
        assert!(five.after_ms(-5).no_grace().check().is_ok());
        assert!(five.after_ms(-6).no_grace().check().is_err());
        let endless = JoinWindows::of_difference(Duration::MAX).grace(Duration::MAX);
        assert_eq!((endless.retention_ms(), endless.check().is_ok()), (i64::MAX, true));
    }
}
