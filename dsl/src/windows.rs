//! Windows of time, and keys that name one: [`TimeWindows`], [`Windowed`], [`TimeWindowedSerde`].

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{Datum, Field, Serde, SerdeError, SharedSerde};
use thalweg_processor::TopologyError;

use crate::custom_windows::{self, CustomWindows, WindowScheme};
use crate::grouped::KGroupedStream;

/// A span of time, in ms since the epoch. A window of time goes from its start up to, not including, its end; of a session both are
/// inside: the times of its first and its last record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimeWindow {
    /// The first ms inside.
    pub start_ms: i64,
    /// The first ms behind, or the time of a session's last record.
    pub end_ms: i64,
}

impl fmt::Display for TimeWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start_ms, self.end_ms)
    }
}

/// A key in a window: the key of a windowed table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Windowed<K> {
    /// The key.
    pub key: K,
    /// The window.
    pub window: TimeWindow,
}

impl<K: Datum> Datum for Windowed<K> {
    type Inner = Self;
    type Opt = Option<Self>;

    fn into_inner(self) -> Option<Self> {
        Some(self)
    }

    fn inner(&self) -> Option<&Self> {
        Some(self)
    }

    fn from_inner(inner: Self) -> Self {
        inner
    }

    fn opt(inner: Option<Self>) -> Option<Self> {
        inner
    }
}

/// A key type that can name a key in a window: [`Windowed<K>`](Windowed), or a dynamic type that has a form for it.
pub trait WindowKey<K>: Datum<Inner = Self> {
    /// Puts key and window together.
    fn make(key: K, window: TimeWindow) -> Self;
    /// The key.
    fn key(&self) -> &K;
    /// The window.
    fn window(&self) -> TimeWindow;
}

impl<K: Datum> WindowKey<K> for Windowed<K> {
    fn make(key: K, window: TimeWindow) -> Self {
        Self { key, window }
    }

    fn key(&self) -> &K {
        &self.key
    }

    fn window(&self) -> TimeWindow {
        self.window
    }
}

/// Marks windows whose grace period is not stated yet.
#[derive(Clone, Copy, Debug)]
pub struct GraceUnstated(());

/// Marks windows whose grace period is stated.
#[derive(Clone, Copy, Debug)]
pub struct GraceStated(());

/// Windows of a fixed size, aligned to the epoch: tumbling, or hopping when they advance by less than their size.
///
/// How long a window waits for late records has to be stated, because every choice surprises somebody: without grace a record
/// that is out of order can be too late at once.
///
/// ```
/// use std::time::Duration;
/// use thalweg::TimeWindows;
///
/// let minutes = TimeWindows::of_size(Duration::from_secs(60)).grace(Duration::from_secs(10));
/// let hopping = TimeWindows::of_size(Duration::from_secs(60)).advance_by(Duration::from_secs(20)).no_grace();
/// assert_eq!(hopping.windows_for(70_000).map(|w| w.start_ms).collect::<Vec<_>>(), [20_000, 40_000, 60_000]);
/// # let _ = minutes;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeWindows<G = GraceStated> {
    size_ms: i64,
    advance_ms: i64,
    grace_ms: i64,
    stated: PhantomData<fn() -> G>,
}

/// A duration in ms; one that does not fit is as good as endless.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl TimeWindows {
    /// Windows of that size, one after the other. State the grace period next.
    pub fn of_size(size: Duration) -> TimeWindows<GraceUnstated> {
        let size_ms = millis(size);
        TimeWindows { size_ms, advance_ms: size_ms, grace_ms: 0, stated: PhantomData }
    }
}

impl TimeWindows<GraceUnstated> {
    /// A window takes late records for that long after its end, in stream time.
    #[must_use]
    pub fn grace(self, grace: Duration) -> TimeWindows {
        let Self { size_ms, advance_ms, .. } = self;
        TimeWindows { size_ms, advance_ms, grace_ms: millis(grace), stated: PhantomData }
    }

    /// A window closes at its end.
    #[must_use]
    pub fn no_grace(self) -> TimeWindows {
        self.grace(Duration::ZERO)
    }
}

impl<G> TimeWindows<G> {
    /// Lets a window start at each multiple of `advance`: they overlap when it is below the size.
    #[must_use]
    pub fn advance_by(self, advance: Duration) -> Self {
        Self { advance_ms: millis(advance), ..self }
    }
}

impl TimeWindows {
    /// The windows that hold a time, earliest first.
    pub fn windows_for(&self, timestamp_ms: i64) -> impl Iterator<Item = TimeWindow> + use<> {
        let windows = *self;
        let size_and_step = self.size_ms.saturating_sub(self.advance_ms);
        let first = timestamp_ms.saturating_sub(size_and_step).max(0) / self.advance_ms;
        let mut next = Some(first.saturating_mul(self.advance_ms));
        std::iter::from_fn(move || {
            let start_ms = next.filter(|start| *start <= timestamp_ms)?;
            next = start_ms.checked_add(windows.advance_ms);
            Some(windows.window_at(start_ms))
        })
    }

    /// The window that starts there.
    pub(crate) fn window_at(&self, start_ms: i64) -> TimeWindow {
        TimeWindow { start_ms, end_ms: start_ms.saturating_add(self.size_ms) }
    }

    pub(crate) fn size_ms(&self) -> i64 {
        self.size_ms
    }

    pub(crate) fn grace_ms(&self) -> i64 {
        self.grace_ms
    }

    /// The starts of the windows that close when the close time moves from `last` to `close`; `None` if none does.
    pub(crate) fn closed_starts(&self, last: Option<i64>, close_ms: i64) -> Option<(i64, i64)> {
        let to = close_ms.saturating_sub(self.size_ms);
        let from = last.map_or(0, |last| last.saturating_sub(self.size_ms).max(0) + 1);
        let begins = to - to.max(0) % self.advance_ms;
        (to >= 0 && from <= begins).then_some((from, to))
    }

    /// How long windows have to be kept at least.
    pub(crate) fn retention_ms(&self) -> i64 {
        self.size_ms.saturating_add(self.grace_ms)
    }

    /// What is wrong with them.
    pub(crate) fn check(&self) -> Result<(), TopologyError> {
        let Self { size_ms, advance_ms, .. } = *self;
        if size_ms <= 0 {
            return Err(TopologyError::IllegalArgument(
                "the size of time windows is below 1 ms".to_owned(),
            ));
        }
        if !(1..=size_ms).contains(&advance_ms) {
            return Err(TopologyError::IllegalArgument(format!(
                "time windows of {size_ms} ms cannot advance by {advance_ms} ms: choose 1 ms up to their size"
            )));
        }
        Ok(())
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::TimeWindows {}
    impl Sealed for crate::session_windows::SessionWindows {}
    impl Sealed for crate::sliding_windows::SlidingWindows {}
    impl Sealed for crate::custom_windows::UnlimitedWindows {}
    impl Sealed for crate::custom_windows::CustomWindows {}
}

/// Windows that a grouped stream can be cut into. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say yet how a stream is cut into windows",
    label = "no complete windows",
    note = "state how long windows wait for late records: `TimeWindows::of_size(size).grace(wait)`, or `.no_grace()`"
)]
pub trait WindowedBy<K, V>: sealed::Sealed {
    /// The stream cut into windows.
    type Stream;

    /// Cuts a grouped stream.
    fn over(self, grouped: &KGroupedStream<K, V>) -> Self::Stream;
}

/// Writes windowed keys into topics as Kafka Streams does: the key, then the window's start in 8 bytes. The end is not written,
/// so the reader has to know the size.
///
/// A record stays in the partition of the key inside.
pub struct TimeWindowedSerde<K> {
    inner: SharedSerde<K>,
    ends: Ends,
}

/// How the end of a window is found from its start.
#[derive(Clone)]
enum Ends {
    /// All are as long, in ms.
    After(i64),
    /// A scheme knows.
    By(Arc<dyn WindowScheme>),
}

impl<K> Clone for TimeWindowedSerde<K> {
    fn clone(&self) -> Self {
        Self { inner: SharedSerde::clone(&self.inner), ends: self.ends.clone() }
    }
}

impl<K> fmt::Debug for TimeWindowedSerde<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TimeWindowedSerde");
        if let Ends::After(size_ms) = self.ends {
            shown.field("size_ms", &size_ms);
        }
        shown.finish_non_exhaustive()
    }
}

/// Bytes of the window's start behind the key.
const START_BYTES: usize = 8;

impl<K> TimeWindowedSerde<K> {
    /// For windows of that size, around the key's own serde.
    pub fn new(inner: impl Serde<K>, size: Duration) -> Self {
        Self::shared(Arc::new(inner), millis(size))
    }

    /// For windows of your own making, around the key's own serde.
    pub fn custom(inner: impl Serde<K>, windows: &CustomWindows) -> Self {
        Self::found_by(Arc::new(inner), Arc::clone(windows.scheme()))
    }

    pub(crate) fn shared(inner: SharedSerde<K>, size_ms: i64) -> Self {
        Self { inner, ends: Ends::After(size_ms) }
    }

    pub(crate) fn found_by(inner: SharedSerde<K>, scheme: Arc<dyn WindowScheme>) -> Self {
        Self { inner, ends: Ends::By(scheme) }
    }
}

impl<K: 'static, WK: WindowKey<K>> Serde<WK> for TimeWindowedSerde<K> {
    fn write(&self, value: &WK, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        match self.inner.write(value.key(), out)? {
            Field::Null => Ok(Field::Null),
            Field::Bytes => {
                out.extend_from_slice(&value.window().start_ms.to_be_bytes());
                Ok(Field::Bytes)
            }
        }
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<WK, SerdeError> {
        const OF: &str = "windowed key";
        let bytes = bytes.ok_or(SerdeError::UnexpectedNull { expected: OF })?;
        let (key, start) = bytes
            .split_last_chunk::<START_BYTES>()
            .ok_or(SerdeError::WrongLength { of: OF, expected: START_BYTES, found: bytes.len() })?;
        let start_ms = i64::from_be_bytes(*start);
        let window = match &self.ends {
            Ends::After(size_ms) => {
                TimeWindow { start_ms, end_ms: start_ms.saturating_add(*size_ms) }
            }
            Ends::By(scheme) => custom_windows::window_at(&**scheme, start_ms),
        };
        Ok(WK::make(self.inner.read(Some(key))?, window))
    }

    fn partition_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        let inner = key.len().saturating_sub(START_BYTES);
        self.inner.partition_key(&key[..inner])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use thalweg_connectors::Utf8;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn windows_hold_the_times_from_their_start_up_to_their_end() {
        let cases: [(u64, u64, i64, &[i64]); 9] = [
            (10, 10, 0, &[0]),
            (10, 10, 9, &[0]),
            (10, 10, 10, &[10]),
            (10, 5, 0, &[0]),
            (10, 5, 4, &[0]),
            (10, 5, 5, &[0, 5]),
            (10, 5, 12, &[5, 10]),
            (10, 3, 10, &[3, 6, 9]),
            (10, 1, 3, &[0, 1, 2, 3]),
        ];
        for (size, advance, time, starts) in cases {
            let windows = TimeWindows::of_size(ms(size)).advance_by(ms(advance)).no_grace();
            let found: Vec<_> = windows.windows_for(time).collect();
            assert_eq!(found.iter().map(|w| w.start_ms).collect::<Vec<_>>(), starts);
            assert!(found.iter().all(|w| w.start_ms <= time && time < w.end_ms), "{found:?}");
        }
    }

    #[test]
    fn windows_at_the_end_of_time_do_not_overflow() {
        let windows = TimeWindows::of_size(ms(10)).advance_by(ms(3)).grace(Duration::MAX);
        assert_eq!(windows.windows_for(i64::MAX).count(), 3);
        assert_eq!(windows.retention_ms(), i64::MAX);
    }

    #[test]
    fn sizes_and_advances_that_make_no_windows_are_refused() {
        let good = [(1, 1), (10, 10), (10, 1)];
        let bad = [(0, 0), (10, 0), (10, 11), (0, 1)];
        for (cases, ok) in [(&good[..], true), (&bad[..], false)] {
            for (size, advance) in cases {
                let windows = TimeWindows::of_size(ms(*size)).advance_by(ms(*advance)).no_grace();
                assert_eq!(windows.check().is_ok(), ok, "{size} {advance}");
            }
        }
    }

    #[test]
    fn windowed_keys_have_the_bytes_of_kafka_streams() {
        let cases: [(&str, i64, u64, &[u8]); 2] = [
            ("a", 0, 10, b"a\0\0\0\0\0\0\0\0"),
            ("abc", 1_700_000_000_000, 60_000, b"abc\x00\x00\x01\x8b\xcf\xe5\x68\x00"),
        ];
        for (key, start_ms, size, bytes) in cases {
            let serde = TimeWindowedSerde::<String>::new(Utf8, ms(size));
            let window = TimeWindow { start_ms, end_ms: start_ms + size as i64 };
            let key = Windowed { key: key.to_owned(), window };
            let mut out = Vec::new();
            assert_eq!(serde.write(&key, &mut out), Ok(Field::Bytes));
            assert_eq!(out, bytes);
            assert_eq!(serde.read(Some(bytes)), Ok(key.clone()));
            let serde: &dyn Serde<Windowed<String>> = &serde;
            assert_eq!(serde.partition_key(bytes), key.key.as_bytes());
        }
    }

    #[test]
    fn windowed_key_without_a_start_is_refused() {
        let serde = TimeWindowedSerde::<String>::new(Utf8, ms(10));
        let serde: &dyn Serde<Windowed<String>> = &serde;
        assert!(serde.read(Some(b"short")).is_err());
        assert!(serde.read(None).is_err());
    }
}
