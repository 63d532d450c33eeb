//! A hash map from bytes to bytes that can also be walked in key order.
//!
//! Look-ups take a borrowed key; a hit updates in place and allocates nothing. Keys and values lie in
//! one buffer. The order is made when somebody first asks for it, kept up to date from then on, and
//! forgotten with [`ByteMap::clear`]: a store that is only read by key never pays for it.

use std::cell::{Cell, OnceCell};
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::order::{Order, Place};
use crate::{Direction, KeyRange};

/// What an entry costs beside its bytes.
const ENTRY_OVERHEAD_BYTES: usize = size_of::<Slot>() + 8;

/// Bytes that no entry uses any more are taken back when there are at least so many.
const GARBAGE_BYTES_MIN: usize = 1 << 20;

/// A fixed seed: equal runs stay equal. The order of hashes is never visible anyhow.
const SEED: u64 = 0x7468_616c_7765_6721;

/// Ranges are taken out by looking at every entry as long as that stays within this many looks per
/// entry; then the order is made, which pays from there on.
const LOOKS_PER_ENTRY_MAX: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Slot {
    key_at: usize,
    value_at: usize,
    /// The first eight bytes of the key, see [`head`].
    head: u64,
    /// [`UNUSED`]: there is no entry.
    key_len: u32,
    /// Bytes reserved for the value.
    value_room: u32,
    /// [`NO_VALUE`]: the key is known to have no value.
    value_len: u32,
    /// The user's own, 0 at first.
    tag: u32,
}

impl Slot {
    fn is_used(&self) -> bool {
        self.key_len != UNUSED
    }
}

const NO_VALUE: u32 = u32::MAX;
const UNUSED: u32 = u32::MAX;

fn length(bytes: &[u8]) -> u32 {
    let length = u32::try_from(bytes.len()).ok().filter(|&length| length < NO_VALUE / 2);
    length.expect("a record is smaller than two gigabytes")
}

/// The first eight bytes of a key as a number; shorter keys are filled up with zeros. Different heads
/// order keys, equal ones say nothing.
pub(crate) fn head(key: &[u8]) -> u64 {
    if let Some(head) = key.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    head[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(head)
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct ByteMap {
    table: HashTable<u32>,
    slots: Vec<Slot>,
    /// Slots that no key uses.
    free: Vec<u32>,
    bytes: Vec<u8>,
    /// How many of `bytes` no slot uses.
    garbage: usize,
    order: OnceCell<Order>,
    /// How many entries were looked at to find those of a range.
    looks: usize,
    /// The entry that was found last: a key that is read is often written next.
    last: Cell<u32>,
    hash: FixedState,
}

impl Default for ByteMap {
    fn default() -> Self {
        Self {
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            bytes: Vec::new(),
            garbage: 0,
            order: OnceCell::new(),
            looks: 0,
            last: Cell::new(0),
            hash: FixedState::with_seed(SEED),
        }
    }
}

fn hash_of(state: &FixedState, key: &[u8]) -> u64 {
    let mut hasher = state.build_hasher();
    hasher.write(key);
    hasher.finish()
}

fn key_in<'a>(slots: &[Slot], bytes: &'a [u8], id: u32) -> &'a [u8] {
    let slot = &slots[id as usize];
    &bytes[slot.key_at..slot.key_at + slot.key_len as usize]
}

impl ByteMap {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Bytes of keys and values, and what the map itself needs for them.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.len() - self.garbage + self.len() * ENTRY_OVERHEAD_BYTES
    }

    /// What is known about a key: nothing, that it has no value, or its value.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.find(key).map(|id| self.value(id))
    }

    /// Finds the entry of a key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        let hash = hash_of(&self.hash, key);
        let found = self.table.find(hash, |&id| self.key(id) == key).copied();
        if let Some(id) = found {
            self.last.set(id);
        }
        found
    }

    /// Finds the entry of a key that was probably found just before.
    pub(crate) fn find_again(&self, key: &[u8]) -> Option<u32> {
        self.found_last(key).or_else(|| self.find(key))
    }

    /// Finds the entry of a key, if it is the one that was found last.
    fn found_last(&self, key: &[u8]) -> Option<u32> {
        let id = self.last.get();
        let slot = self.slots.get(id as usize)?;
        (slot.is_used() && self.key(id) == key).then_some(id)
    }

    /// The key of an entry; `None` when there is none.
    pub(crate) fn key_of(&self, id: u32) -> Option<&[u8]> {
        self.slots.get(id as usize)?.is_used().then(|| self.key(id))
    }

    /// What the user has noted at an entry; 0 when nothing.
    pub(crate) fn tag(&self, id: u32) -> u32 {
        self.slots.get(id as usize).map_or(0, |slot| slot.tag)
    }

    /// Notes something at an entry.
    pub(crate) fn set_tag(&mut self, id: u32, tag: u32) {
        if let Some(slot) = self.slots.get_mut(id as usize) {
            slot.tag = tag;
        }
    }

    /// The value of an entry.
    pub(crate) fn value(&self, id: u32) -> Option<&[u8]> {
        let slot = &self.slots[id as usize];
        let known = slot.value_len != NO_VALUE;
        known.then(|| &self.bytes[slot.value_at..slot.value_at + slot.value_len as usize])
    }

    /// Sets what is known about a key; tells its entry.
    pub(crate) fn set(&mut self, key: &[u8], value: Option<&[u8]>) -> u32 {
        if let Some(id) = self.found_last(key) {
            return self.replace(id, value);
        }
        let Self { table, slots, free, bytes, order, hash, .. } = self;
        let entry = table.entry(
            hash_of(hash, key),
            |&id| key_in(slots, bytes, id) == key,
            |&id| hash_of(hash, key_in(slots, bytes, id)),
        );
        let vacant = match entry {
            Entry::Occupied(found) => {
                let id = *found.get();
                return self.replace(id, value);
            }
            Entry::Vacant(vacant) => vacant,
        };
        let slot = append(key, value, bytes);
        let id = if let Some(id) = free.pop() {
            slots[id as usize] = slot;
            id
        } else {
            slots.push(slot);
            u32::try_from(slots.len() - 1).expect("a map of four billion entries exceeds memory")
        };
        vacant.insert(id);
        if let Some(order) = order.get_mut() {
            order.insert(id, |id| key_in(slots, bytes, id));
        }
        id
    }

    /// Sets what is known about the key of an entry; tells the entry.
    fn replace(&mut self, id: u32, value: Option<&[u8]>) -> u32 {
        replace_value(&mut self.slots[id as usize], &mut self.bytes, &mut self.garbage, value);
        self.collect_garbage();
        id
    }

    /// Forgets a key.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        if let Some(id) = self.find(key) {
            self.remove_entry(id);
            self.collect_garbage();
        }
    }

    fn remove_entry(&mut self, id: u32) {
        let Self { table, slots, bytes, order, hash, .. } = self;
        let key = key_in(slots, bytes, id);
        if let Some(order) = order.get_mut() {
            let place = order.seek(key, |id| key_in(slots, bytes, id));
            order.remove(place);
        }
        if let Ok(found) = table.find_entry(hash_of(hash, key), |&other| other == id) {
            found.remove();
        }
        let slot = &mut slots[id as usize];
        self.garbage += slot.key_len as usize + slot.value_room as usize;
        slot.key_len = UNUSED;
        self.free.push(id);
    }

    /// Forgets the keys of a range.
    pub(crate) fn remove_range(&mut self, range: &KeyRange) {
        if self.is_empty() || range.is_empty() {
            return;
        }
        let doomed = self.ids_in(range);
        if doomed.len() == self.len() {
            return self.clear();
        }
        for id in doomed {
            self.remove_entry(id);
        }
        self.collect_garbage();
    }

    fn ids_in(&mut self, range: &KeyRange) -> Vec<u32> {
        let mut ids = Vec::new();
        if self.order.get().is_none() && self.looks < LOOKS_PER_ENTRY_MAX * self.slots.len() {
            self.looks += self.slots.len();
            let (low, high) = (head(range.from()), range.to().map_or(u64::MAX, head));
            for (id, slot) in (0..).zip(&self.slots) {
                let near = slot.is_used() && (low..=high).contains(&slot.head);
                if near && range.contains(self.key(id)) {
                    ids.push(id);
                }
            }
        } else {
            let mut cursor = self.cursor(range, Direction::Forward);
            while let Some(id) = cursor.id {
                ids.push(id);
                cursor.advance();
            }
        }
        ids
    }

    /// Forgets everything. Keeps memory for as much again, unless that was little of what there is.
    pub(crate) fn clear(&mut self) {
        const SHRINK_FACTOR: usize = 8;
        let (entries, used) = (self.slots.len(), self.bytes.len());
        self.table.clear();
        self.slots.clear();
        self.free.clear();
        self.bytes.clear();
        self.garbage = 0;
        self.order = OnceCell::new();
        self.looks = 0;
        if entries < self.slots.capacity() / SHRINK_FACTOR {
            self.slots.shrink_to(entries * 2);
            self.table.shrink_to(entries * 2, |_| 0);
        }
        if used < self.bytes.capacity() / SHRINK_FACTOR {
            self.bytes.shrink_to(used * 2);
        }
    }

    /// Entries in the order of their slots: the same in equal runs, and nothing else.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let used = (0..).zip(&self.slots).filter(|(_, slot)| slot.is_used());
        used.map(|(id, _)| (self.key(id), self.value(id)))
    }

    /// Entries in key order.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.order().ids().map(|id| (self.key(id), self.value(id)))
    }

    /// Stands on the first entry of a range.
    pub(crate) fn cursor(&self, range: &KeyRange, direction: Direction) -> Cursor<'_> {
        let order = self.order();
        let seek = |key| order.seek(key, |id| self.key(id));
        let (place, bound) = match direction {
            Direction::Forward => (Some(seek(range.from())), range.to()),
            Direction::Reverse => {
                let above = range.to().map_or_else(|| order.end(), seek);
                (order.before(above), Some(range.from()))
            }
        };
        let bound = bound.map(<[u8]>::to_vec);
        let mut cursor = Cursor { map: self, order, place, id: None, bound, direction };
        cursor.settle();
        cursor
    }

    fn order(&self) -> &Order {
        self.order.get_or_init(|| Order::sort(self.table.iter().copied(), |id| self.key(id)))
    }

    fn key(&self, id: u32) -> &[u8] {
        key_in(&self.slots, &self.bytes, id)
    }

    /// Takes back unused bytes once they are more than half of all.
    fn collect_garbage(&mut self) {
        if self.garbage < GARBAGE_BYTES_MIN || self.garbage < self.bytes.len() / 2 {
            return;
        }
        let mut kept = Vec::with_capacity(self.bytes.len() - self.garbage);
        for slot in self.slots.iter_mut().filter(|slot| slot.is_used()) {
            let value_len = if slot.value_len == NO_VALUE { 0 } else { slot.value_len };
            let key = &self.bytes[slot.key_at..slot.key_at + slot.key_len as usize];
            let value = &self.bytes[slot.value_at..slot.value_at + value_len as usize];
            slot.key_at = kept.len();
            kept.extend_from_slice(key);
            slot.value_at = kept.len();
            kept.extend_from_slice(value);
            slot.value_room = value_len;
        }
        self.bytes = kept;
        self.garbage = 0;
    }
}

/// Puts key and value at the end of `bytes`.
fn append(key: &[u8], value: Option<&[u8]>, bytes: &mut Vec<u8>) -> Slot {
    let key_at = bytes.len();
    bytes.extend_from_slice(key);
    let value_at = bytes.len();
    bytes.extend_from_slice(value.unwrap_or_default());
    Slot {
        key_at,
        value_at,
        head: head(key),
        key_len: length(key),
        value_room: value.map_or(0, length),
        value_len: value.map_or(NO_VALUE, length),
        tag: 0,
    }
}

/// Writes over the old value if there is room, else moves it to a roomier place.
fn replace_value(slot: &mut Slot, bytes: &mut Vec<u8>, garbage: &mut usize, value: Option<&[u8]>) {
    slot.value_len = value.map_or(NO_VALUE, length);
    let value = value.unwrap_or_default();
    if value.len() > slot.value_room as usize {
        // Twice the need, so that a value that keeps growing is moved rarely.
        *garbage += slot.value_room as usize;
        slot.value_at = bytes.len();
        slot.value_room = length(value) * 2;
        bytes.resize(slot.value_at + slot.value_room as usize, 0);
    }
    bytes[slot.value_at..slot.value_at + value.len()].copy_from_slice(value);
}

/// Walks a range of a [`ByteMap`].
pub(crate) struct Cursor<'a> {
    map: &'a ByteMap,
    order: &'a Order,
    place: Option<Place>,
    /// The entry at that place, if it lies in the range.
    id: Option<u32>,
    /// Where the walk ends: the first key above, or the lowest inside.
    bound: Option<Vec<u8>>,
    direction: Direction,
}

impl<'a> Cursor<'a> {
    /// The entry under the cursor.
    pub(crate) fn entry(&self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let id = self.id?;
        Some((self.map.key(id), self.map.value(id)))
    }

    /// Moves on by one.
    pub(crate) fn advance(&mut self) {
        let Some(place) = self.place else { return };
        self.place = match self.direction {
            Direction::Forward => self.order.after(place),
            Direction::Reverse => self.order.before(place),
        };
        self.settle();
    }

    fn settle(&mut self) {
        let id = self.place.and_then(|place| self.order.id_after(place));
        self.id = id.filter(|&id| {
            let (key, bound) = (self.map.key(id), self.bound.as_deref());
            bound.is_none_or(|bound| match self.direction {
                Direction::Forward => key < bound,
                Direction::Reverse => key >= bound,
            })
        });
        if self.id.is_none() {
            self.place = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn walk(map: &ByteMap, range: &KeyRange, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut cursor = map.cursor(range, direction);
        let mut entries = Vec::new();
        while let Some((key, value)) = cursor.entry() {
            entries.push((key.to_vec(), value.unwrap().to_vec()));
            cursor.advance();
        }
        entries
    }

    /// Many runs, splits, emptied runs, reused slots and garbage collections.
    #[test]
    fn large_map_equals_a_sorted_map_through_inserts_removals_and_growing_values() {
        let mut map = ByteMap::default();
        let mut model = BTreeMap::new();
        let mut random = 1_u64;
        for step in 0..60_000_u32 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let key = (random % 7_000).to_be_bytes();
            // Phases of growing and of shrinking, with the order made in the first.
            if random >> 32 & 7 < if step / 10_000 % 2 == 0 { 6 } else { 2 } {
                let value = vec![step.to_le_bytes()[0]; (random >> 40) as usize % 300];
                map.set(&key, Some(&value));
                model.insert(key.to_vec(), value);
            } else {
                map.remove(&key);
                model.remove(key.as_slice());
            }
            if step % 5_000 == 0 {
                let all: Vec<_> = model.clone().into_iter().collect();
                assert_eq!(walk(&map, &KeyRange::all(), Direction::Forward), all);
            }
        }
        for number in 0..7_000_u64 {
            let from = KeyRange::half_open(number.to_be_bytes(), None);
            let above = map.cursor(&from, Direction::Forward).entry().map(|(key, _)| key.to_vec());
            assert_eq!(
                above.as_ref(),
                model.range(from.from().to_vec()..).next().map(|(key, _)| key)
            );
            let up_to = KeyRange::half_open("", Some(number.to_be_bytes().to_vec()));
            let below = map.cursor(&up_to, Direction::Reverse).entry().map(|(key, _)| key.to_vec());
            assert_eq!(
                below.as_ref(),
                model.range(..from.from().to_vec()).next_back().map(|(key, _)| key)
            );
        }
        let range =
            KeyRange::half_open(2_000_u64.to_be_bytes(), Some(5_000_u64.to_be_bytes().to_vec()));
        let mut part: Vec<_> =
            model.clone().into_iter().filter(|(key, _)| range.contains(key)).collect();
        assert_eq!(walk(&map, &range, Direction::Forward), part);
        part.reverse();
        assert_eq!(walk(&map, &range, Direction::Reverse), part);
        map.remove_range(&range);
        model.retain(|key, _| !range.contains(key));
        assert_eq!(map.len(), model.len());
        assert_eq!(
            walk(&map, &KeyRange::all(), Direction::Forward),
            model.into_iter().collect::<Vec<_>>()
        );
    }

    #[test]
    fn bytes_of_replaced_values_are_taken_back() {
        let mut map = ByteMap::default();
        for round in 0..100_usize {
            for key in 0..100_u8 {
                map.set(&[key], Some(&vec![key; 100 * round]));
            }
            for key in 0..50_u8 {
                map.remove(&[key]);
            }
        }
        let live = 50 * 100 * 99;
        assert!(map.bytes.len() < 4 * live + GARBAGE_BYTES_MIN, "{}", map.bytes.len());
        assert_eq!(map.get(&[99]), Some(Some(&[99; 9_900][..])));
    }

    #[test]
    fn clearing_gives_back_what_a_small_round_does_not_need() {
        let mut map = ByteMap::default();
        for key in 0..100_000_u32 {
            map.set(&key.to_be_bytes(), Some(&[0; 50]));
        }
        map.clear();
        let roomy = map.bytes.capacity();
        assert!(roomy >= 5_000_000, "a round like the last needs no new memory: {roomy}");
        map.set(b"a", Some(b"1"));
        map.clear();
        assert!(map.bytes.capacity() < 1_000 && map.slots.capacity() < 1_000);
        assert_eq!((map.weight(), map.len(), map.get(b"a")), (0, 0, None));
    }
}
