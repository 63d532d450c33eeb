//! The bytes of window keys.
//!
//! In a changelog: key, window start (8 bytes), sequence number (4 bytes), all big-endian, as Kafka
//! Streams writes them. Locally the segment (8 bytes) stands in front, so that the entries of a segment
//! lie together and leave together.

/// Bytes behind the key: start and sequence number.
const TAIL_BYTES: usize = 12;

/// Bytes in front of the local key: the segment.
const SEGMENT_BYTES: usize = 8;

/// The parts of a window key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowKey<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// The window's start, in milliseconds since the epoch.
    pub start_ms: i64,
    /// Tells duplicates apart; 0 in a store that keeps none.
    pub seq: u32,
}

/// Appends the changelog form of a window key to `out`.
///
/// ```
/// use thalweg_state::window::{WindowKey, parse_window_store_key, window_store_key};
///
/// let mut bytes = Vec::new();
/// window_store_key(b"k", 10, 1, &mut bytes);
/// let parsed = parse_window_store_key(&bytes);
/// assert_eq!(parsed, Some(WindowKey { key: b"k", start_ms: 10, seq: 1 }));
/// ```
pub fn window_store_key(key: &[u8], start_ms: i64, seq: u32, out: &mut Vec<u8>) {
    out.reserve(key.len() + TAIL_BYTES);
    out.extend_from_slice(key);
    out.extend_from_slice(&start_ms.to_be_bytes());
    out.extend_from_slice(&seq.to_be_bytes());
}

/// Takes the changelog form of a window key apart; `None` if it is too short to be one.
#[must_use]
pub fn parse_window_store_key(bytes: &[u8]) -> Option<WindowKey<'_>> {
    let (rest, seq) = bytes.split_last_chunk()?;
    let (key, start_ms) = rest.split_last_chunk()?;
    Some(WindowKey { key, start_ms: i64::from_be_bytes(*start_ms), seq: u32::from_be_bytes(*seq) })
}

/// Appends the local form of a window key to `out`.
pub(crate) fn local_key(segment: i64, key: &[u8], start_ms: i64, seq: u32, out: &mut Vec<u8>) {
    out.reserve(SEGMENT_BYTES + key.len() + TAIL_BYTES);
    out.extend_from_slice(&segment.to_be_bytes());
    window_store_key(key, start_ms, seq, out);
}

/// Takes the local form apart.
pub(crate) fn parse_local_key(bytes: &[u8]) -> Option<WindowKey<'_>> {
    parse_window_store_key(bytes.get(SEGMENT_BYTES..)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors that Kafka Streams itself produced.
    #[test]
    fn window_store_keys_have_the_bytes_of_kafka_streams() {
        let cases: [(&[u8], i64, u32, &str); 5] = [
            (b"a", 0, 0, "61000000000000000000000000"),
            (b"abc", 1_700_000_000_000, 0, "6162630000018bcfe5680000000000"),
            (b"k", 10, 1, "6b000000000000000a00000001"),
            (b"k", 10, 0x7fff_ffff, "6b000000000000000a7fffffff"),
            (b"", 5, 3, "000000000000000500000003"),
        ];
        for (key, start_ms, seq, expected) in cases {
            let mut bytes = Vec::new();
            window_store_key(key, start_ms, seq, &mut bytes);
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected);
            assert_eq!(parse_window_store_key(&bytes), Some(WindowKey { key, start_ms, seq }));
        }
    }

    #[test]
    fn local_key_is_the_segment_and_then_the_changelog_key() {
        let mut local = Vec::new();
        local_key(2, b"k", 150, 7, &mut local);
        assert_eq!(local[..8], [0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(parse_local_key(&local), Some(WindowKey { key: b"k", start_ms: 150, seq: 7 }));
        assert_eq!(parse_window_store_key(&local[8..]), parse_local_key(&local));
    }

    #[test]
    fn too_few_bytes_are_no_key() {
        assert_eq!(parse_window_store_key(&[0; 11]), None);
        assert_eq!(parse_local_key(&[0; 19]), None);
    }
}
