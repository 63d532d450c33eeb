//! How a grouped stream is cut into windows of time: what the aggregations need to know of any kind of them.

use std::sync::Arc;

use thalweg_connectors::{Datum, SharedSerde};
use thalweg_processor::{NodeSupplier, StoreDef, TopologyError};

use crate::custom_windows::{CustomWindows, UnlimitedWindows, window_at};
use crate::emit::EmitStrategy;
use crate::nodes::aggregate_fold::Fold;
use crate::nodes::sliding_aggregate::sliding_aggregate;
use crate::nodes::table::Switch;
use crate::nodes::window_aggregate::{WindowStore, window_aggregate};
use crate::sliding_windows::SlidingWindows;
use crate::windows::{TimeWindow, TimeWindowedSerde, TimeWindows, WindowKey};

/// Windows that a time alone decides.
pub(crate) trait Cuts: Clone + Send + Sync + 'static {
    /// The windows that hold a time, earliest first.
    fn windows_for(&self, timestamp_ms: i64) -> impl Iterator<Item = TimeWindow>;
    /// The window that starts there.
    fn window_at(&self, start_ms: i64) -> TimeWindow;
    /// How long a window takes late records.
    fn grace_ms(&self) -> i64;
    /// Starts among which are those of all windows that close when the close time moves from `last` to `close`; `None` if none does.
    fn closed_starts(&self, last: Option<i64>, close_ms: i64) -> Option<(i64, i64)>;
}

impl Cuts for TimeWindows {
    fn windows_for(&self, timestamp_ms: i64) -> impl Iterator<Item = TimeWindow> {
        self.windows_for(timestamp_ms)
    }

    fn window_at(&self, start_ms: i64) -> TimeWindow {
        self.window_at(start_ms)
    }

    fn grace_ms(&self) -> i64 {
        self.grace_ms()
    }

    fn closed_starts(&self, last: Option<i64>, close_ms: i64) -> Option<(i64, i64)> {
        self.closed_starts(last, close_ms)
    }
}

impl Cuts for UnlimitedWindows {
    fn windows_for(&self, timestamp_ms: i64) -> impl Iterator<Item = TimeWindow> {
        let window = self.window();
        (timestamp_ms >= window.start_ms).then_some(window).into_iter()
    }

    fn window_at(&self, _: i64) -> TimeWindow {
        self.window()
    }

    fn grace_ms(&self) -> i64 {
        0
    }

    fn closed_starts(&self, _: Option<i64>, _: i64) -> Option<(i64, i64)> {
        None
    }
}

impl Cuts for CustomWindows {
    fn windows_for(&self, timestamp_ms: i64) -> impl Iterator<Item = TimeWindow> {
        self.scheme().windows_for(timestamp_ms).into_iter()
    }

    fn window_at(&self, start_ms: i64) -> TimeWindow {
        window_at(&**self.scheme(), start_ms)
    }

    fn grace_ms(&self) -> i64 {
        self.grace_ms()
    }

    fn closed_starts(&self, last: Option<i64>, close_ms: i64) -> Option<(i64, i64)> {
        let from = last.map_or(0, |last| last.saturating_sub(self.longest_ms()).max(0));
        (close_ms > from).then_some((from, close_ms.saturating_sub(1)))
    }
}

/// Any kind of windows of time.
#[derive(Clone, Debug)]
pub(crate) enum Cut {
    Time(TimeWindows),
    Sliding(SlidingWindows),
    Unlimited(UnlimitedWindows),
    Custom(CustomWindows),
}

/// What a node of an aggregation is made of, but for the windows.
pub(crate) struct Folding<K, S, F> {
    pub(crate) fold: F,
    pub(crate) emit: EmitStrategy,
    pub(crate) store: WindowStore<K, S>,
    pub(crate) send_old: Switch,
}

impl Cut {
    /// How long a window is, for what is told of the store.
    pub(crate) fn size_ms(&self) -> i64 {
        match self {
            Self::Time(windows) => windows.size_ms(),
            Self::Sliding(windows) => windows.difference_ms(),
            Self::Unlimited(_) => i64::MAX,
            Self::Custom(windows) => windows.longest_ms(),
        }
    }

    /// How long windows have to be kept at least.
    pub(crate) fn retention_ms(&self) -> i64 {
        match self {
            Self::Time(windows) => windows.retention_ms(),
            Self::Sliding(windows) => windows.retention_ms(),
            Self::Unlimited(_) => i64::MAX,
            Self::Custom(windows) => windows.longest_ms().saturating_add(windows.grace_ms()),
        }
    }

    /// How long a window takes late records.
    pub(crate) fn grace_ms(&self) -> i64 {
        match self {
            Self::Time(windows) => windows.grace_ms(),
            Self::Sliding(windows) => windows.grace_ms(),
            Self::Unlimited(_) => 0,
            Self::Custom(windows) => windows.grace_ms(),
        }
    }

    /// What the store of their rows needs.
    pub(crate) fn apply(&self, mut def: StoreDef) -> StoreDef {
        // The neighbours of a record that is just not late lie at the very edge of the retention.
        def.keeps_edge = matches!(self, Self::Sliding(_));
        def
    }

    /// What is wrong with them.
    pub(crate) fn check(&self) -> Result<(), TopologyError> {
        match self {
            Self::Time(windows) => windows.check(),
            _ => Ok(()),
        }
    }

    /// What is wrong with telling their results then.
    pub(crate) fn check_emit(&self, emit: EmitStrategy) -> Result<(), TopologyError> {
        if matches!(self, Self::Unlimited(_)) && emit == EmitStrategy::OnWindowClose {
            let what = "unlimited windows never close: their results cannot wait for it";
            return Err(TopologyError::IllegalArgument(what.to_owned()));
        }
        Ok(())
    }

    /// The serde of keys with a window.
    pub(crate) fn serde<K: 'static, WK: WindowKey<K>>(
        &self,
        key: SharedSerde<K>,
    ) -> SharedSerde<WK> {
        Arc::new(match self {
            Self::Custom(windows) => TimeWindowedSerde::found_by(key, Arc::clone(windows.scheme())),
            _ => TimeWindowedSerde::shared(key, self.size_ms()),
        })
    }

    /// Makes the node that folds a stream into these windows.
    pub(crate) fn aggregate<K, V, WK, S, F>(&self, folding: Folding<K::Inner, S, F>) -> NodeSupplier
    where
        K: Datum,
        V: Datum,
        WK: WindowKey<K::Inner>,
        S: Datum,
        F: Fold<K::Inner, V, S>,
    {
        let Folding { fold, emit, store, send_old } = folding;
        match self.clone() {
            Self::Time(windows) => {
                window_aggregate::<K, V, WK, S, F, _>(fold, (windows, emit), store, send_old)
            }
            Self::Unlimited(windows) => {
                window_aggregate::<K, V, WK, S, F, _>(fold, (windows, emit), store, send_old)
            }
            Self::Custom(windows) => {
                window_aggregate::<K, V, WK, S, F, _>(fold, (windows, emit), store, send_old)
            }
            Self::Sliding(windows) => {
                sliding_aggregate::<K, V, WK, S, F>(fold, (windows, emit), store, send_old)
            }
        }
    }
}
