//! A hash map from bytes to bytes that can also be walked in key order.
//!
//! Look-ups take a borrowed key; a hit updates in place and allocates nothing. Keys and values lie in
//! one buffer. The order is made when somebody first asks for it, kept up to date from then on, and
//! forgotten with [`ByteMap::clear`]: a store that is only read by key never pays for it.

use std::cell::OnceCell;
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

#[derive(Debug, Clone, Copy)]
struct Slot {
    key_at: usize,
    key_len: usize,
    value_at: usize,
    /// Bytes reserved for the value.
    value_room: usize,
    /// `None`: the key is known to have no value.
    value_len: Option<usize>,
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
    &bytes[slot.key_at..slot.key_at + slot.key_len]
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
        let hash = hash_of(&self.hash, key);
        let id = *self.table.find(hash, |&id| self.key(id) == key)?;
        Some(self.value(id))
    }

    /// Sets what is known about a key.
    pub(crate) fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        let Self {
            table,
            slots,
            free,
            bytes,
            garbage,
            order,
            hash,
        } = self;
        let entry = table.entry(
            hash_of(hash, key),
            |&id| key_in(slots, bytes, id) == key,
            |&id| hash_of(hash, key_in(slots, bytes, id)),
        );
        let vacant = match entry {
            Entry::Occupied(found) => {
                let slot = &mut slots[*found.get() as usize];
                replace_value(slot, bytes, garbage, value);
                return self.collect_garbage();
            }
            Entry::Vacant(vacant) => vacant,
        };
        let key_at = bytes.len();
        bytes.extend_from_slice(key);
        let value_at = bytes.len();
        bytes.extend_from_slice(value.unwrap_or_default());
        let room = bytes.len() - value_at;
        let slot = Slot {
            key_at,
            key_len: key.len(),
            value_at,
            value_room: room,
            value_len: value.map(<[u8]>::len),
        };
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
    }

    /// Forgets a key.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        let hash = hash_of(&self.hash, key);
        let Self {
            table,
            slots,
            bytes,
            ..
        } = self;
        let Ok(found) = table.find_entry(hash, |&id| key_in(slots, bytes, id) == key) else {
            return;
        };
        let (id, _) = found.remove();
        if let Some(order) = self.order.get_mut() {
            let place = order.seek(key, |id| key_in(slots, bytes, id));
            order.remove(place);
        }
        let slot = &self.slots[id as usize];
        self.garbage += slot.key_len + slot.value_room;
        self.free.push(id);
        self.collect_garbage();
    }

    /// Forgets the keys of a range.
    pub(crate) fn remove_range(&mut self, range: &KeyRange) {
        if self.is_empty() || range.is_empty() {
            return;
        }
        let mut doomed = Vec::new();
        let mut cursor = self.cursor(range, Direction::Forward);
        while let Some(id) = cursor.id() {
            doomed.push(self.key(id).to_vec());
            cursor.advance();
        }
        if doomed.len() == self.len() {
            return self.clear();
        }
        for key in doomed {
            self.remove(&key);
        }
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
        if entries < self.slots.capacity() / SHRINK_FACTOR {
            self.slots.shrink_to(entries * 2);
            self.table.shrink_to(entries * 2, |_| 0);
        }
        if used < self.bytes.capacity() / SHRINK_FACTOR {
            self.bytes.shrink_to(used * 2);
        }
    }

    /// Entries in key order.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.order().ids().map(|id| (self.key(id), self.value(id)))
    }

    /// Stands on the first entry of a range.
    pub(crate) fn cursor(&self, range: &KeyRange, direction: Direction) -> Cursor<'_> {
        let order = self.order();
        let low = order.seek(range.from(), |id| self.key(id));
        let high = range
            .to()
            .map_or_else(|| order.end(), |to| order.seek(to, |id| self.key(id)));
        let empty = range.is_empty() || low == high;
        let place = match direction {
            _ if empty => None,
            Direction::Forward => Some(low),
            Direction::Reverse => order.before(high),
        };
        let last = match direction {
            Direction::Forward => order.before(high),
            Direction::Reverse => Some(low),
        };
        Cursor {
            map: self,
            order,
            place,
            last,
            direction,
        }
    }

    fn order(&self) -> &Order {
        self.order.get_or_init(|| {
            let mut ids: Vec<u32> = self.table.iter().copied().collect();
            ids.sort_unstable_by(|&a, &b| self.key(a).cmp(self.key(b)));
            Order::from_sorted(&ids)
        })
    }

    fn key(&self, id: u32) -> &[u8] {
        key_in(&self.slots, &self.bytes, id)
    }

    fn value(&self, id: u32) -> Option<&[u8]> {
        let slot = &self.slots[id as usize];
        slot.value_len
            .map(|len| &self.bytes[slot.value_at..slot.value_at + len])
    }

    /// Takes back unused bytes once they are more than half of all.
    fn collect_garbage(&mut self) {
        if self.garbage < GARBAGE_BYTES_MIN || self.garbage < self.bytes.len() / 2 {
            return;
        }
        let mut kept = Vec::with_capacity(self.bytes.len() - self.garbage);
        for &id in &self.table {
            let slot = &mut self.slots[id as usize];
            let value_len = slot.value_len.unwrap_or(0);
            let (key_at, value_at) = (kept.len(), kept.len() + slot.key_len);
            kept.extend_from_slice(&self.bytes[slot.key_at..slot.key_at + slot.key_len]);
            kept.extend_from_slice(&self.bytes[slot.value_at..slot.value_at + value_len]);
            (slot.key_at, slot.value_at, slot.value_room) = (key_at, value_at, value_len);
        }
        self.bytes = kept;
        self.garbage = 0;
    }
}

/// Writes over the old value if there is room, else moves it to a roomier place.
fn replace_value(slot: &mut Slot, bytes: &mut Vec<u8>, garbage: &mut usize, value: Option<&[u8]>) {
    slot.value_len = value.map(<[u8]>::len);
    let value = value.unwrap_or_default();
    if value.len() > slot.value_room {
        // Twice the need, so that a value that keeps growing is moved rarely.
        *garbage += slot.value_room;
        slot.value_at = bytes.len();
        slot.value_room = value.len() * 2;
        bytes.resize(slot.value_at + slot.value_room, 0);
    }
    bytes[slot.value_at..slot.value_at + value.len()].copy_from_slice(value);
}

/// Walks a range of a [`ByteMap`].
pub(crate) struct Cursor<'a> {
    map: &'a ByteMap,
    order: &'a Order,
    place: Option<Place>,
    /// The last place of the walk.
    last: Option<Place>,
    direction: Direction,
}

impl<'a> Cursor<'a> {
    /// The entry under the cursor.
    pub(crate) fn entry(&self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let id = self.id()?;
        Some((self.map.key(id), self.map.value(id)))
    }

    fn id(&self) -> Option<u32> {
        self.order.id_after(self.place?)
    }

    /// Moves on by one.
    pub(crate) fn advance(&mut self) {
        let Some(place) = self.place else { return };
        self.place = match self.direction {
            _ if Some(place) == self.last => None,
            Direction::Forward => self.order.after(place),
            Direction::Reverse => self.order.before(place),
        };
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
        let range = KeyRange::half_open(
            2_000_u64.to_be_bytes(),
            Some(5_000_u64.to_be_bytes().to_vec()),
        );
        let mut part: Vec<_> = model
            .clone()
            .into_iter()
            .filter(|(key, _)| range.contains(key))
            .collect();
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
        assert!(
            map.bytes.len() < 4 * live + GARBAGE_BYTES_MIN,
            "{}",
            map.bytes.len()
        );
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
        assert!(
            roomy >= 5_000_000,
            "a round like the last needs no new memory: {roomy}"
        );
        map.set(b"a", Some(b"1"));
        map.clear();
        assert!(map.bytes.capacity() < 1_000 && map.slots.capacity() < 1_000);
        assert_eq!((map.weight(), map.len(), map.get(b"a")), (0, 0, None));
    }
}
