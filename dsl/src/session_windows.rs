//! Sessions: [`SessionWindows`], and keys of sessions in topics: [`SessionWindowedSerde`].

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{Field, Serde, SerdeError, SharedSerde};

use crate::windows::{GraceStated, GraceUnstated, TimeWindow, WindowKey, millis};

/// Sessions: records of a key belong together as long as no two neighbours are more than a gap apart.
///
/// A session is the time from its first record to its last one, both included; it grows, and a record between two sessions makes
/// them one. It takes records until stream time has passed its end by more than gap and grace.
///
/// ```
/// use std::time::Duration;
/// use thalweg::SessionWindows;
///
/// let visits = SessionWindows::with_gap(Duration::from_secs(30 * 60)).grace(Duration::from_secs(60));
/// # let _ = visits;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionWindows<G = GraceStated> {
    gap_ms: i64,
    grace_ms: i64,
    stated: PhantomData<fn() -> G>,
}

impl SessionWindows {
    /// Sessions that end when a key has had no record for longer than `gap`. State the grace period next.
    pub fn with_gap(gap: Duration) -> SessionWindows<GraceUnstated> {
        SessionWindows { gap_ms: millis(gap), grace_ms: 0, stated: PhantomData }
    }

    pub(crate) fn gap_ms(&self) -> i64 {
        self.gap_ms
    }

    /// Sessions that end before this are closed, at that stream time.
    pub(crate) fn closed_before_ms(&self, stream_time_ms: i64) -> i64 {
        stream_time_ms.saturating_sub(self.grace_ms).saturating_sub(self.gap_ms)
    }

    /// The ends of the sessions that close when the close time moves from `last` to `close`; `None` if none can.
    pub(crate) fn closed_ends(last: Option<i64>, close_ms: i64) -> Option<(i64, i64)> {
        let (from, to) = (last.unwrap_or(0).max(0), close_ms.saturating_sub(1));
        (to >= 0 && from <= to).then_some((from, to))
    }

    /// How long sessions have to be kept at least after their end.
    pub(crate) fn retention_ms(&self) -> i64 {
        self.gap_ms.saturating_add(self.grace_ms)
    }
}

impl SessionWindows<GraceUnstated> {
    /// A session takes late records for that long after its gap, in stream time.
    #[must_use]
    pub fn grace(self, grace: Duration) -> SessionWindows {
        SessionWindows { gap_ms: self.gap_ms, grace_ms: millis(grace), stated: PhantomData }
    }

    /// A session closes with its gap.
    #[must_use]
    pub fn no_grace(self) -> SessionWindows {
        self.grace(Duration::ZERO)
    }
}

/// Writes keys of sessions into topics as Kafka Streams does: the key, then the session's end and its start, 8 bytes each.
///
/// A record stays in the partition of the key inside.
///
/// ```
/// use thalweg::{I64Be, SessionWindowedSerde, Topic, Utf8, Windowed};
/// let visits = Topic::<Windowed<String>, i64>::with("visits", SessionWindowedSerde::new(Utf8), I64Be);
/// # let _ = visits;
/// ```
pub struct SessionWindowedSerde<K> {
    inner: SharedSerde<K>,
}

impl<K> Clone for SessionWindowedSerde<K> {
    fn clone(&self) -> Self {
        Self { inner: SharedSerde::clone(&self.inner) }
    }
}

impl<K> fmt::Debug for SessionWindowedSerde<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionWindowedSerde").finish_non_exhaustive()
    }
}

/// Bytes of end and start behind the key.
const TIMES_BYTES: usize = 16;

impl<K> SessionWindowedSerde<K> {
    /// Around the key's own serde.
    pub fn new(inner: impl Serde<K>) -> Self {
        Self::shared(Arc::new(inner))
    }

    pub(crate) fn shared(inner: SharedSerde<K>) -> Self {
        Self { inner }
    }
}

impl<K: 'static, WK: WindowKey<K>> Serde<WK> for SessionWindowedSerde<K> {
    fn write(&self, value: &WK, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        match self.inner.write(value.key(), out)? {
            Field::Null => Ok(Field::Null),
            Field::Bytes => {
                let TimeWindow { start_ms, end_ms } = value.window();
                out.extend_from_slice(&end_ms.to_be_bytes());
                out.extend_from_slice(&start_ms.to_be_bytes());
                Ok(Field::Bytes)
            }
        }
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<WK, SerdeError> {
        const OF: &str = "key of a session";
        let bytes = bytes.ok_or(SerdeError::UnexpectedNull { expected: OF })?;
        let short =
            || SerdeError::WrongLength { of: OF, expected: TIMES_BYTES, found: bytes.len() };
        let (rest, start) = bytes.split_last_chunk().ok_or_else(short)?;
        let (key, end) = rest.split_last_chunk().ok_or_else(short)?;
        let window =
            TimeWindow { start_ms: i64::from_be_bytes(*start), end_ms: i64::from_be_bytes(*end) };
        Ok(WK::make(self.inner.read(Some(key))?, window))
    }

    fn partition_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        let inner = key.len().saturating_sub(TIMES_BYTES);
        self.inner.partition_key(&key[..inner])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use thalweg_connectors::Utf8;

    use super::*;
    use crate::windows::Windowed;

    #[test]
    fn keys_of_sessions_have_the_bytes_of_kafka_streams() {
        let serde = SessionWindowedSerde::<String>::new(Utf8);
        let serde: &dyn Serde<Windowed<String>> = &serde;
        let bytes = b"abc\0\0\0\0\0\0\0\x19\0\0\0\0\0\0\0\x0a";
        let window = TimeWindow { start_ms: 10, end_ms: 25 };
        let key = Windowed { key: "abc".to_owned(), window };
        let mut out = Vec::new();
        assert_eq!(serde.write(&key, &mut out), Ok(Field::Bytes));
        assert_eq!(out, bytes);
        assert_eq!(serde.read(Some(bytes)), Ok(key));
        assert_eq!(serde.partition_key(bytes), b"abc");
    }

    #[test]
    fn key_without_times_is_refused() {
        let serde = SessionWindowedSerde::<String>::new(Utf8);
        let serde: &dyn Serde<Windowed<String>> = &serde;
        assert!(serde.read(Some(&[0; 15])).is_err());
        assert!(serde.read(None).is_err());
    }

    #[test]
    fn sessions_close_after_gap_and_grace() {
        let ms = Duration::from_millis;
        let sessions = SessionWindows::with_gap(ms(10)).grace(ms(5));
        assert_eq!(sessions.closed_before_ms(100), 85);
        assert_eq!(sessions.retention_ms(), 15);
        let endless = SessionWindows::with_gap(Duration::MAX).grace(Duration::MAX);
        assert_eq!(endless.retention_ms(), i64::MAX);
    }
}
