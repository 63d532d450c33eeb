//! Kafka's default partitioning, to the byte: BINARY.md §2.

/// The 32-bit murmur2 hash of Kafka's Java client (seed 0x9747b28c).
pub fn murmur2(data: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    let mut h = 0x9747_b28c_u32 ^ data.len() as u32;
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (i, byte) in tail.iter().enumerate() {
            h ^= u32::from(*byte) << (8 * i);
        }
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    (h ^ (h >> 15)) as i32
}

/// The partition of a key: `(murmur2 & 0x7fffffff) % partitions`.
///
/// ```
/// assert_eq!(thalweg_connectors::partition_for(b"hello", 10), 9);
/// ```
///
/// # Panics
/// When `partitions` is not positive.
pub fn partition_for(key: &[u8], partitions: i32) -> i32 {
    assert!(partitions > 0, "a topic has at least one partition");
    (murmur2(key) & 0x7fff_ffff) % partitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur2_matches_the_java_client() {
        for (text, hash) in [
            ("", 275_646_681),
            ("a", -1_563_381_124),
            ("ab", 316_155_434),
            ("abc", 479_470_107),
            ("abcd", -1_323_649_548),
            ("hello", 2_132_663_229),
            ("key-17", 956_945_460),
            ("ä€😀", -565_103_750),
            ("0123456789abcdef", 1_438_427_052),
            ("the quick brown fox", 2_136_040_129),
        ] {
            assert_eq!(murmur2(text.as_bytes()), hash, "{text}");
        }
        assert_eq!(murmur2(&42i64.to_be_bytes()), 506_863_552);
        assert_eq!(murmur2(&[0xff, 0x00, 0xff]), -147_811_388);
    }

    #[test]
    fn partitions_match_the_java_client() {
        for (key, partitions, partition) in
            [("", 7, 2), ("a", 50, 24), ("abc", 16, 11), ("ä€😀", 100, 98)]
        {
            assert_eq!(partition_for(key.as_bytes(), partitions), partition);
        }
    }
}
