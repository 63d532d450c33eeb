//! The keys of a buffer whose changes are not logged yet.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Keys to be logged at the next commit, each once.
///
/// They come out in the order of a Java `HashSet`, in which Kafka Streams logs them: so changelogs can be compared record by record.
pub(crate) struct DirtyKeys {
    /// With the order in which they came.
    keys: BTreeMap<Arc<[u8]>, usize>,
    /// How many buckets the set has: it grows and never shrinks.
    buckets: usize,
}

impl Default for DirtyKeys {
    fn default() -> Self {
        Self { keys: BTreeMap::new(), buckets: 16 }
    }
}

fn hash(key: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| {
        hash.wrapping_mul(31).wrapping_add(i32::from(*byte as i8).cast_unsigned())
    };
    let hash = key.iter().fold(1, step);
    hash ^ (hash >> 16)
}

impl DirtyKeys {
    pub(crate) fn insert(&mut self, key: &Arc<[u8]>) {
        if self.keys.contains_key(key) {
            return;
        }
        self.keys.insert(Arc::clone(key), self.keys.len());
        if self.keys.len() > self.buckets / 4 * 3 {
            self.buckets *= 2;
        }
    }

    /// Takes all keys.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Arc<[u8]>> + use<> {
        let mask = self.buckets as u32 - 1;
        let keys = std::mem::take(&mut self.keys).into_iter();
        let mut keys: Vec<_> = keys.map(|(key, came)| (hash(&key) & mask, came, key)).collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, _, key)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_out_once_and_in_the_order_of_a_java_hash_set() {
        let mut keys = DirtyKeys::default();
        for key in ["b", "a", "ab", "b"] {
            keys.insert(&key.as_bytes().into());
        }
        // hashes 31 + 97 = 128 and 129, and (31 + 97) * 31 + 98 = 4066: buckets 0, 1 and 2
        let taken: Vec<_> = keys.take().collect();
        assert_eq!(taken.iter().map(|key| &**key).collect::<Vec<_>>(), [&b"a"[..], b"b", b"ab"]);
        assert_eq!(keys.take().count(), 0);
    }
}
