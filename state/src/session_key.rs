//! The bytes of session keys.
//!
//! In a changelog and in topics: key, session end (8 bytes), session start (8 bytes), all big-endian, as Kafka Streams writes them.
//! Locally the segment (8 bytes) stands in front.

/// Bytes in front of the local key: the segment.
const SEGMENT_BYTES: usize = 8;

/// The parts of a session key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionKey<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// The time of the session's first record, in milliseconds since the epoch.
    pub start_ms: i64,
    /// The time of its last one.
    pub end_ms: i64,
}

/// Appends the changelog form of a session key to `out`.
///
/// ```
/// use thalweg_state::session::{SessionKey, parse_session_key, session_key};
///
/// let mut bytes = Vec::new();
/// session_key(b"k", 10, 25, &mut bytes);
/// let parsed = parse_session_key(&bytes);
/// assert_eq!(parsed, Some(SessionKey { key: b"k", start_ms: 10, end_ms: 25 }));
/// ```
pub fn session_key(key: &[u8], start_ms: i64, end_ms: i64, out: &mut Vec<u8>) {
    out.reserve(key.len() + 16);
    out.extend_from_slice(key);
    out.extend_from_slice(&end_ms.to_be_bytes());
    out.extend_from_slice(&start_ms.to_be_bytes());
}

/// Takes the changelog form of a session key apart; `None` if it is too short to be one.
#[must_use]
pub fn parse_session_key(bytes: &[u8]) -> Option<SessionKey<'_>> {
    let (rest, start_ms) = bytes.split_last_chunk()?;
    let (key, end_ms) = rest.split_last_chunk()?;
    let (start_ms, end_ms) = (i64::from_be_bytes(*start_ms), i64::from_be_bytes(*end_ms));
    Some(SessionKey { key, start_ms, end_ms })
}

/// Appends the local form of a session key to `out`.
pub(crate) fn local_key(segment: i64, key: &[u8], start_ms: i64, end_ms: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&segment.to_be_bytes());
    session_key(key, start_ms, end_ms, out);
}

/// Takes the local form apart.
pub(crate) fn parse_local_key(bytes: &[u8]) -> Option<SessionKey<'_>> {
    parse_session_key(bytes.get(SEGMENT_BYTES..)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors that Kafka Streams itself produced.
    #[test]
    fn session_keys_have_the_bytes_of_kafka_streams() {
        let cases: [(&[u8], i64, i64, &str); 2] = [
            (b"a", 0, 0, "6100000000000000000000000000000000"),
            (b"abc", 10, 25, "6162630000000000000019000000000000000a"),
        ];
        for (key, start_ms, end_ms, expected) in cases {
            let mut bytes = Vec::new();
            session_key(key, start_ms, end_ms, &mut bytes);
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected);
            assert_eq!(parse_session_key(&bytes), Some(SessionKey { key, start_ms, end_ms }));
        }
    }

    #[test]
    fn too_few_bytes_are_no_key() {
        assert_eq!(parse_session_key(&[0; 15]), None);
        assert_eq!(parse_local_key(&[0; 23]), None);
    }
}
