//! [`Suppressed`]: how long the updates of a table wait.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::Datum;

use crate::nodes::suppress::BufferTime;
use crate::windows::{WindowKey, millis};

/// What a suppression does when its buffer is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum WhenFull {
    /// The updates that have waited longest leave early.
    #[default]
    EmitEarly,
    /// The task fails: no result that is not final leaves.
    ShutDown,
}

/// How long the updates of a table wait, and how many may wait.
///
/// ```
/// use std::time::Duration;
/// use thalweg::{Suppressed, Windowed};
///
/// let final_results = Suppressed::<Windowed<String>>::until_window_closes();
/// let slower = Suppressed::<String>::until_time_limit(Duration::from_secs(60)).max_records(10_000);
/// # let _ = (final_results, slower);
/// ```
pub struct Suppressed<K> {
    pub(crate) time: BufferTime<K>,
    /// How long an update waits after that time; `None`: the grace period of the windows.
    pub(crate) wait_ms: Option<i64>,
    pub(crate) max_records: usize,
    pub(crate) max_bytes: usize,
    pub(crate) when_full: WhenFull,
    /// Topic configuration of the changelog; `None`: no changelog.
    pub(crate) changelog: Option<BTreeMap<String, String>>,
}

impl<K: Datum> Suppressed<K> {
    fn new(time: BufferTime<K>, wait_ms: Option<i64>, when_full: WhenFull) -> Self {
        let (max_records, max_bytes) = (usize::MAX, usize::MAX);
        let changelog = Some(BTreeMap::new());
        Self { time, wait_ms, max_records, max_bytes, when_full, changelog }
    }

    /// Until the window of the key has closed: its end and the grace period have passed. One final result per key and window is
    /// left. A buffer that is limited shuts the task down when it is full.
    pub fn until_window_closes<IK>() -> Self
    where
        K: WindowKey<IK>,
    {
        let end = |key: &K| key.window().end_ms;
        Self::new(BufferTime::Key(Arc::new(end)), None, WhenFull::ShutDown)
    }

    /// Until this long after the first of them, in stream time: of all updates of a key in that time the last is left. A buffer that
    /// is limited lets the oldest updates go early when it is full.
    pub fn until_time_limit(limit: Duration) -> Self {
        Self::new(BufferTime::Record, Some(millis(limit)), WhenFull::EmitEarly)
    }

    /// Limits how many keys wait; without a limit as many as there are.
    #[must_use]
    pub fn max_records(mut self, max: usize) -> Self {
        self.max_records = max;
        self
    }

    /// Limits how much the waiting keys, values, and origins of records count for, in bytes; without a limit as much as there is.
    #[must_use]
    pub fn max_bytes(mut self, max: usize) -> Self {
        self.max_bytes = max;
        self
    }

    /// What happens when there is more than the limits allow.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Switches the changelog off: what waits is lost when the task moves to another machine.
    #[must_use]
    pub fn without_changelog(mut self) -> Self {
        self.changelog = None;
        self
    }

    /// Sets topic configuration of the changelog, such as `segment.bytes`.
    #[must_use]
    pub fn changelog_config<A: Into<String>, B: Into<String>>(
        mut self,
        config: impl IntoIterator<Item = (A, B)>,
    ) -> Self {
        self.changelog = Some(config.into_iter().map(|(k, v)| (k.into(), v.into())).collect());
        self
    }
}

impl<K> fmt::Debug for Suppressed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = f.debug_struct("Suppressed");
        told.field("wait_ms", &self.wait_ms).field("when_full", &self.when_full).finish()
    }
}
