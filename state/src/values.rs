//! The local value of a store that keeps timestamps: the timestamp (8 bytes, big-endian), then the
//! plain value.
//!
//! Only local: the changelog holds the plain value, and the timestamp is that of the record.

/// The length of the timestamp in front of a value.
pub const TIMESTAMP_BYTES: usize = 8;

/// Appends timestamp and value to `out`.
///
/// ```
/// let mut local = Vec::new();
/// thalweg_state::values::encode_timestamped(10, b"v", &mut local);
/// assert_eq!(thalweg_state::values::decode_timestamped(&local), Some((10, &b"v"[..])));
/// ```
pub fn encode_timestamped(timestamp_ms: i64, value: &[u8], out: &mut Vec<u8>) {
    out.reserve(TIMESTAMP_BYTES + value.len());
    out.extend_from_slice(&timestamp_ms.to_be_bytes());
    out.extend_from_slice(value);
}

/// Splits a local value into timestamp and plain value; `None` if it is too short to be one.
#[must_use]
pub fn decode_timestamped(local: &[u8]) -> Option<(i64, &[u8])> {
    let (timestamp, value) = local.split_first_chunk::<TIMESTAMP_BYTES>()?;
    Some((i64::from_be_bytes(*timestamp), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors that Kafka Streams itself produced.
    #[test]
    fn timestamped_values_have_the_bytes_of_kafka_streams() {
        let cases: [(i64, &[u8], &[u8]); 3] = [
            (10, b"v", &[0, 0, 0, 0, 0, 0, 0, 0x0a, 0x76]),
            (1_700_000_000_000, b"", &[0, 0, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0]),
            (
                20,
                &[0, 0, 0, 0, 0, 0, 0, 3],
                &[0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0, 0, 0x03],
            ),
        ];
        for (timestamp_ms, value, expected) in cases {
            let mut local = Vec::new();
            encode_timestamped(timestamp_ms, value, &mut local);
            assert_eq!(local, expected);
            assert_eq!(decode_timestamped(&local), Some((timestamp_ms, value)));
        }
    }

    #[test]
    fn value_shorter_than_a_timestamp_is_refused() {
        assert_eq!(decode_timestamped(&[0; 7]), None);
    }
}
