//! The uncommitted writes of one store.
//!
//! What is known about single keys lies in a map; ranges that were deleted as a whole lie beside it as
//! tombstones. A key of the map wins over a tombstone, because deleting a range forgets the keys in it.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::bytemap::{ByteMap, Cursor, head};
use crate::cache::Cache;
use crate::{Direction, FamilyIx, KeyRange, WriteOp};

/// What an overlay says about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known<'a> {
    /// Nothing: ask the engine.
    Nothing,
    /// It was deleted.
    Deleted,
    /// It was set.
    Value(&'a [u8]),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    pub(crate) map: ByteMap,
    tombstones: Tombstones,
    /// Lowest and highest first eight bytes of the map's keys: tells most ranges that do not meet the
    /// map from those that do, without putting the map in order. The first eight bytes of a window
    /// store's keys are the segment, so that old segments are always told apart.
    fence: Option<(u64, u64)>,
}

impl Overlay {
    pub(crate) fn is_empty(&self) -> bool {
        self.map.is_empty() && self.tombstones.ranges.is_empty()
    }

    pub(crate) fn weight(&self) -> usize {
        self.map.weight() + self.tombstones.bytes
    }

    /// How many keys have an uncommitted write.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Known<'_> {
        match self.map.get(key) {
            Some(Some(value)) => Known::Value(value),
            Some(None) => Known::Deleted,
            None if self.covers(key) => Known::Deleted,
            None => Known::Nothing,
        }
    }

    /// Whether a deleted range holds the key.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.tombstones.cover(key)
    }

    /// Sets or deletes a key; tells the entry of the map.
    pub(crate) fn set(&mut self, key: &[u8], value: Option<&[u8]>) -> u32 {
        let head = head(key);
        let (low, high) = self.fence.unwrap_or((head, head));
        self.fence = Some((low.min(head), high.max(head)));
        self.map.set(key, value)
    }

    pub(crate) fn delete_range(&mut self, range: &KeyRange) {
        if range.is_empty() {
            return;
        }
        if self.meets(range) {
            self.map.remove_range(range);
        }
        self.tombstones.add(range);
    }

    pub(crate) fn clear(&mut self) {
        self.map.clear();
        self.tombstones = Tombstones::default();
        self.fence = None;
    }

    /// Stands on the first written key of a range; `None` if surely no key of it was written.
    pub(crate) fn cursor(&self, range: &KeyRange, direction: Direction) -> Option<Cursor<'_>> {
        self.meets(range).then(|| self.map.cursor(range, direction))
    }

    /// Appends what brings an engine up to date: tombstones first, then the keys, in order if asked.
    pub(crate) fn append_ops<'a>(
        &'a self,
        family: FamilyIx,
        sorted: bool,
        ops: &mut Vec<WriteOp<'a>>,
    ) {
        ops.reserve(self.map.len() + self.tombstones.ranges.len());
        for (from, to) in &self.tombstones.ranges {
            ops.push(WriteOp::DeleteRange(family, from, to.as_deref()));
        }
        let op = |(key, value): (&'a [u8], Option<&'a [u8]>)| match value {
            Some(value) => WriteOp::Put(family, key, value),
            None => WriteOp::Delete(family, key),
        };
        if sorted {
            ops.extend(self.map.sorted().map(op));
        } else {
            ops.extend(self.map.entries().map(op));
        }
    }

    /// Tells a cache what is true once the overlay is committed.
    pub(crate) fn update(&self, cache: &mut Cache) {
        for (from, to) in &self.tombstones.ranges {
            cache.forget_range(&KeyRange::half_open(from.as_slice(), to.clone()));
        }
        for (key, value) in self.map.entries() {
            cache.put(key, value);
        }
    }

    fn meets(&self, range: &KeyRange) -> bool {
        self.fence.is_some_and(|(low, high)| {
            head(range.from()) <= high && range.to().is_none_or(|to| head(to) >= low)
        })
    }
}

/// Deleted ranges: sorted, disjoint and not adjacent.
#[derive(Debug, Default)]
struct Tombstones {
    /// From the lowest key inside to the first above; `None` is the end of all keys.
    ranges: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    bytes: usize,
}

impl Tombstones {
    fn cover(&self, key: &[u8]) -> bool {
        let below = (Bound::Unbounded, Bound::Included(key));
        let nearest = self.ranges.range::<[u8], _>(below).next_back();
        nearest.is_some_and(|(_, to)| to.as_deref().is_none_or(|to| key < to))
    }

    /// Adds a range, uniting it with those it touches.
    fn add(&mut self, range: &KeyRange) {
        let mut from = range.from().to_vec();
        let mut to = range.to().map(<[u8]>::to_vec);
        while let Some((low, high)) = self.touching(&from, to.as_deref()) {
            self.ranges.remove(&low);
            self.bytes -= weight(&low, high.as_deref());
            from = from.min(low);
            to = match (to, high) {
                (Some(a), Some(b)) => Some(a.max(b)),
                _ => None,
            };
        }
        self.bytes += weight(&from, to.as_deref());
        self.ranges.insert(from, to);
    }

    /// A range that overlaps the given one or ends where it begins.
    fn touching(&self, from: &[u8], to: Option<&[u8]>) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let up_to = (Bound::Unbounded, to.map_or(Bound::Unbounded, Bound::Included));
        let (low, high) = self.ranges.range::<[u8], _>(up_to).next_back()?;
        let touches = high.as_deref().is_none_or(|high| high >= from);
        touches.then(|| (low.clone(), high.clone()))
    }
}

fn weight(from: &[u8], to: Option<&[u8]>) -> usize {
    const NODE_BYTES: usize = 64;
    from.len() + to.map_or(0, <[u8]>::len) + NODE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(overlay: &Overlay) -> Vec<(&str, Option<&str>)> {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        overlay.tombstones.ranges.iter().map(|(a, b)| (text(a), b.as_deref().map(text))).collect()
    }

    fn delete(overlay: &mut Overlay, from: &str, to: Option<&str>) {
        overlay.delete_range(&KeyRange::half_open(from, to.map(|to| to.as_bytes().to_vec())));
    }

    #[test]
    fn touching_tombstones_become_one() {
        let mut overlay = Overlay::default();
        delete(&mut overlay, "b", Some("d"));
        delete(&mut overlay, "f", Some("h"));
        assert_eq!(ranges(&overlay), [("b", Some("d")), ("f", Some("h"))]);
        delete(&mut overlay, "d", Some("e"));
        assert_eq!(ranges(&overlay), [("b", Some("e")), ("f", Some("h"))]);
        delete(&mut overlay, "c", Some("g"));
        assert_eq!(ranges(&overlay), [("b", Some("h"))]);
        delete(&mut overlay, "x", None);
        delete(&mut overlay, "a", Some("z"));
        assert_eq!(ranges(&overlay), [("a", None)]);
    }

    #[test]
    fn tombstone_weight_returns_to_that_of_what_is_left() {
        let mut overlay = Overlay::default();
        delete(&mut overlay, "a", Some("z"));
        let one = overlay.weight();
        for from in ["b", "c", "d"] {
            delete(&mut overlay, from, Some("z"));
        }
        assert_eq!(overlay.weight(), one);
        overlay.clear();
        assert_eq!(overlay.weight(), 0);
    }

    #[test]
    fn written_key_wins_over_the_tombstone_made_before_it_and_loses_to_one_made_after() {
        let mut overlay = Overlay::default();
        overlay.set(b"k", Some(b"old"));
        delete(&mut overlay, "a", Some("z"));
        assert_eq!(overlay.get(b"k"), Known::Deleted);
        overlay.set(b"k", Some(b"new"));
        assert_eq!(overlay.get(b"k"), Known::Value(b"new"));
        assert_eq!(overlay.get(b"z"), Known::Nothing);
    }

    #[test]
    fn range_below_or_above_every_written_key_does_not_meet_the_overlay() {
        let mut overlay = Overlay::default();
        overlay.set(b"mmmmmmmm-1", Some(b""));
        assert!(
            overlay
                .cursor(&KeyRange::half_open("a", Some(b"l".to_vec())), Direction::Forward)
                .is_none()
        );
        assert!(overlay.cursor(&KeyRange::half_open("n", None), Direction::Forward).is_none());
        assert!(overlay.cursor(&KeyRange::prefix(b"mmmm"), Direction::Forward).is_some());
    }
}
