//! Windows of your own making, and the one that never ends: [`CustomWindows`], [`UnlimitedWindows`].

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::windows::{GraceStated, GraceUnstated, TimeWindow, millis};

/// How time is cut into windows of your own making.
///
/// The same time must always give the same windows, in every process and version of the program: rows are kept by the starts of
/// their windows, and a window's end is found again from its start.
///
/// ```
/// use std::time::Duration;
/// use jiff::{Timestamp, Unit, tz::TimeZone};
/// use thalweg::{TimeWindow, WindowScheme};
///
/// /// The days of a place's calendar: 23 or 25 hours long when clocks are changed.
/// struct Days(TimeZone);
///
/// impl WindowScheme for Days {
///     fn windows_for(&self, time_ms: i64) -> Vec<TimeWindow> {
///         let day = || {
///             let start = Timestamp::from_millisecond(time_ms)?.to_zoned(self.0.clone()).start_of_day()?;
///             let (start_ms, end) = (start.timestamp().as_millisecond(), start.tomorrow()?);
///             Ok::<_, jiff::Error>(TimeWindow { start_ms, end_ms: end.timestamp().as_millisecond() })
///         };
///         day().into_iter().collect()
///     }
///
///     fn longest(&self) -> Duration {
///         Duration::from_secs(25 * 60 * 60)
///     }
/// }
///
/// let days = Days(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3")?);
/// let change: Timestamp = "2026-03-29T12:00:00Z".parse()?;
/// let [day] = days.windows_for(change.as_millisecond())[..] else { panic!("one day") };
/// assert_eq!(day.end_ms - day.start_ms, 23 * 60 * 60 * 1000);
/// # Ok::<_, jiff::Error>(())
/// ```
pub trait WindowScheme: Send + Sync + 'static {
    /// The windows that hold a time, earliest first. None is fine: the record is then in no window. None may start before the epoch.
    fn windows_for(&self, time_ms: i64) -> Vec<TimeWindow>;

    /// How long a window is at most: windows are kept for that long, and the grace period.
    fn longest(&self) -> Duration;
}

/// Windows that a [`WindowScheme`] makes.
///
/// ```
/// # use std::time::Duration;
/// # use thalweg::{CustomWindows, TimeWindow, WindowScheme};
/// # struct Days;
/// # impl WindowScheme for Days {
/// #     fn windows_for(&self, time_ms: i64) -> Vec<TimeWindow> { vec![] }
/// #     fn longest(&self) -> Duration { Duration::from_secs(90_000) }
/// # }
/// let days = CustomWindows::of(Days).grace(Duration::from_secs(3600));
/// # let _ = days;
/// ```
pub struct CustomWindows<G = GraceStated> {
    scheme: Arc<dyn WindowScheme>,
    grace_ms: i64,
    stated: PhantomData<fn() -> G>,
}

impl CustomWindows {
    /// Windows that this scheme makes. State the grace period next.
    pub fn of(scheme: impl WindowScheme) -> CustomWindows<GraceUnstated> {
        CustomWindows { scheme: Arc::new(scheme), grace_ms: 0, stated: PhantomData }
    }

    pub(crate) fn scheme(&self) -> &Arc<dyn WindowScheme> {
        &self.scheme
    }

    pub(crate) fn grace_ms(&self) -> i64 {
        self.grace_ms
    }

    pub(crate) fn longest_ms(&self) -> i64 {
        millis(self.scheme.longest())
    }
}

impl CustomWindows<GraceUnstated> {
    /// A window takes late records for that long after its end, in stream time.
    #[must_use]
    pub fn grace(self, grace: Duration) -> CustomWindows {
        CustomWindows { scheme: self.scheme, grace_ms: millis(grace), stated: PhantomData }
    }

    /// A window closes at its end.
    #[must_use]
    pub fn no_grace(self) -> CustomWindows {
        self.grace(Duration::ZERO)
    }
}

impl<G> Clone for CustomWindows<G> {
    fn clone(&self) -> Self {
        let (scheme, grace_ms) = (Arc::clone(&self.scheme), self.grace_ms);
        Self { scheme, grace_ms, stated: PhantomData }
    }
}

impl<G> fmt::Debug for CustomWindows<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomWindows").field("grace_ms", &self.grace_ms).finish_non_exhaustive()
    }
}

/// The window that a scheme's windows have at that start; an empty one if it makes none there.
pub(crate) fn window_at(scheme: &dyn WindowScheme, start_ms: i64) -> TimeWindow {
    let found = scheme.windows_for(start_ms).into_iter().find(|w| w.start_ms == start_ms);
    found.unwrap_or(TimeWindow { start_ms, end_ms: start_ms })
}

/// One window from a time on, without an end: everything before is left out, and nothing is ever late.
///
/// ```
/// use thalweg::UnlimitedWindows;
/// let since_launch = UnlimitedWindows::from_ms(1_767_225_600_000);
/// # let _ = since_launch;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnlimitedWindows {
    start_ms: i64,
}

impl UnlimitedWindows {
    /// From the epoch on.
    pub fn new() -> Self {
        Self::default()
    }

    /// From that time on, in ms since the epoch; a time before the epoch is the epoch.
    pub fn from_ms(start_ms: i64) -> Self {
        Self { start_ms: start_ms.max(0) }
    }

    pub(crate) fn window(self) -> TimeWindow {
        TimeWindow { start_ms: self.start_ms, end_ms: i64::MAX }
    }
}
