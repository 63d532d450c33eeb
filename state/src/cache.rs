//! Committed entries of one store that were used lately.
//!
//! Two generations: what is used goes into the young one; when that is full it becomes the old one, and
//! the old one is forgotten. A use of an old entry makes it young again.

use crate::KeyRange;
use crate::bytemap::ByteMap;

/// More ranges than this are not taken out one by one.
const RANGES_MAX: u32 = 16;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    young: ByteMap,
    old: ByteMap,
    /// Room for both generations together; 0 keeps nothing.
    bytes_max: usize,
    /// Ranges taken out since the last change of generations.
    ranges: u32,
}

impl Cache {
    pub(crate) fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.clear();
    }

    pub(crate) fn has_room(&self) -> bool {
        self.bytes_max > 0
    }

    /// Finds what is known about a key, for [`value`](Self::value).
    pub(crate) fn find(&mut self, key: &[u8]) -> Option<u32> {
        if !self.has_room() {
            return None;
        }
        if let Some(id) = self.young.find(key) {
            return Some(id);
        }
        let value = self.old.get(key)?;
        self.young.set(key, value);
        self.young.find(key)
    }

    /// The value that was found; `None` if the key is known to have none.
    pub(crate) fn value(&self, id: u32) -> Option<&[u8]> {
        self.young.value(id)
    }

    /// Remembers the value of a key, or that it has none.
    pub(crate) fn put(&mut self, key: &[u8], value: Option<&[u8]>) {
        if !self.has_room() {
            return;
        }
        if self.young.weight() >= self.bytes_max / 2 {
            self.age();
        }
        self.young.set(key, value);
    }

    /// Makes the young generation the old one.
    pub(crate) fn age(&mut self) {
        std::mem::swap(&mut self.young, &mut self.old);
        self.young.clear();
        self.ranges = 0;
    }

    pub(crate) fn weight(&self) -> usize {
        self.young.weight() + self.old.weight()
    }

    /// Forgets the keys of a range.
    pub(crate) fn forget_range(&mut self, range: &KeyRange) {
        self.ranges += 1;
        if self.ranges > RANGES_MAX {
            return self.clear();
        }
        self.young.remove_range(range);
        self.old.remove_range(range);
    }

    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
        self.ranges = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Cache {
        fn get(&mut self, key: &[u8]) -> Option<Option<&[u8]>> {
            self.find(key).map(|id| self.value(id))
        }
    }

    #[test]
    fn entries_in_use_stay_and_the_others_leave() {
        let mut cache = Cache::default();
        cache.set_bytes_max(20_000);
        cache.put(b"hot", Some(b"1"));
        cache.put(b"cold", Some(b"1"));
        cache.put(b"none", None);
        assert_eq!(cache.get(b"none"), Some(None));
        for number in 0..10_000_u32 {
            cache.put(&number.to_be_bytes(), Some(b"value"));
            assert_eq!(cache.get(b"hot"), Some(Some(&b"1"[..])));
        }
        assert_eq!(cache.get(b"cold"), None);
        assert!(cache.weight() <= 20_200);
    }

    #[test]
    fn changed_entry_is_not_found_in_its_old_form() {
        let mut cache = Cache::default();
        cache.set_bytes_max(1 << 20);
        cache.put(b"a", Some(b"1"));
        std::mem::swap(&mut cache.young, &mut cache.old);
        cache.put(b"a", Some(b"2"));
        assert_eq!(cache.get(b"a"), Some(Some(&b"2"[..])));
        cache.forget_range(&KeyRange::prefix(b"a"));
        assert_eq!(cache.get(b"a"), None);
    }

    #[test]
    fn cache_without_room_keeps_nothing() {
        let mut cache = Cache::default();
        cache.put(b"a", Some(b"1"));
        assert_eq!(cache.get(b"a"), None);
        assert!(cache.young.is_empty());
    }
}
