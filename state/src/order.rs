//! Ids in key order, kept beside a hash map.
//!
//! A list of short sorted runs. Beside each id stand the first bytes of its key, so that most
//! comparisons stay within one run and touch neither map nor key. Inserting moves at most one run.

use std::cmp::Ordering;

/// A run is split in two when it has this many items.
const RUN_ITEMS_MAX: usize = 128;

/// The first sixteen bytes of a key as numbers; shorter keys are filled up with zeros. Different heads
/// order keys, equal ones say nothing.
type Head = [u64; 2];

/// Ids sorted by the keys they stand for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Order {
    /// Non-empty sorted runs, themselves in order.
    runs: Vec<Vec<Item>>,
    /// The head of each run's last item.
    tops: Vec<Head>,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    head: Head,
    id: u32,
}

/// A place between ids: run and offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    run: usize,
    at: usize,
}

fn head_of(key: &[u8]) -> Head {
    let mut bytes = [0; 16];
    let length = key.len().min(bytes.len());
    bytes[..length].copy_from_slice(&key[..length]);
    let (high, low) = bytes.split_at(8);
    [high, low].map(|half| u64::from_be_bytes(half.try_into().expect("half of sixteen is eight")))
}

/// The number of leading indices for which `below` holds.
fn count_leading(indices: usize, below: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, indices);
    while low < high {
        let middle = usize::midpoint(low, high);
        if below(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

impl Order {
    /// Sorts ids by their keys.
    pub(crate) fn sort<'a>(
        ids: impl Iterator<Item = u32>,
        key_of: impl Fn(u32) -> &'a [u8],
    ) -> Self {
        let mut items: Vec<Item> = ids.map(|id| Item { head: head_of(key_of(id)), id }).collect();
        items.sort_unstable_by(|a, b| {
            a.head.cmp(&b.head).then_with(|| key_of(a.id).cmp(key_of(b.id)))
        });
        let runs: Vec<Vec<Item>> = items.chunks(RUN_ITEMS_MAX / 2).map(<[Item]>::to_vec).collect();
        let tops = runs.iter().map(|run| top_of(run)).collect();
        Self { runs, tops }
    }

    /// Finds the first place whose key is not below `key`.
    pub(crate) fn seek<'a>(&self, key: &[u8], key_of: impl Fn(u32) -> &'a [u8]) -> Place {
        let head = head_of(key);
        let below = |item: &Item| match item.head.cmp(&head) {
            Ordering::Equal => key_of(item.id) < key,
            order => order == Ordering::Less,
        };
        let run = count_leading(self.tops.len(), |run| match self.tops[run].cmp(&head) {
            Ordering::Equal => self.runs[run].last().is_some_and(below),
            order => order == Ordering::Less,
        });
        let at = self.runs.get(run).map_or(0, |run| run.partition_point(below));
        Place { run, at }
    }

    /// The place behind the last id.
    pub(crate) fn end(&self) -> Place {
        Place { run: self.runs.len(), at: 0 }
    }

    /// The id behind a place.
    pub(crate) fn id_after(&self, place: Place) -> Option<u32> {
        self.runs.get(place.run)?.get(place.at).map(|item| item.id)
    }

    /// The place one id further on; `None` at the end.
    pub(crate) fn after(&self, place: Place) -> Option<Place> {
        let run = self.runs.get(place.run)?;
        Some(if place.at + 1 < run.len() {
            Place { run: place.run, at: place.at + 1 }
        } else {
            Place { run: place.run + 1, at: 0 }
        })
    }

    /// The place one id back; `None` at the beginning.
    pub(crate) fn before(&self, place: Place) -> Option<Place> {
        if place.at > 0 {
            return Some(Place { run: place.run, at: place.at - 1 });
        }
        let run = place.run.checked_sub(1)?;
        Some(Place { run, at: self.runs[run].len() - 1 })
    }

    /// All ids in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flatten().map(|item| item.id)
    }

    /// Puts an id where its key belongs; the key must be new.
    pub(crate) fn insert<'a>(&mut self, id: u32, key_of: impl Fn(u32) -> &'a [u8]) {
        let key = key_of(id);
        let item = Item { head: head_of(key), id };
        let place = self.seek(key, key_of);
        if place.run < self.runs.len() {
            self.runs[place.run].insert(place.at, item);
            return self.split(place.run);
        }
        // Above every key: at the end of the last run.
        match self.runs.last_mut() {
            Some(run) => run.push(item),
            None => {
                self.runs.push(vec![item]);
                self.tops.push(item.head);
            }
        }
        let last = self.runs.len() - 1;
        self.tops[last] = item.head;
        self.split(last);
    }

    /// Takes out the id behind a place.
    pub(crate) fn remove(&mut self, place: Place) {
        let Some(run) = self.runs.get_mut(place.run) else {
            return;
        };
        run.remove(place.at);
        if run.is_empty() {
            self.runs.remove(place.run);
            self.tops.remove(place.run);
        } else {
            self.tops[place.run] = top_of(run);
        }
    }

    fn split(&mut self, index: usize) {
        let run = &mut self.runs[index];
        if run.len() >= RUN_ITEMS_MAX {
            let upper = run.split_off(RUN_ITEMS_MAX / 2);
            self.tops[index] = top_of(run);
            self.tops.insert(index + 1, top_of(&upper));
            self.runs.insert(index + 1, upper);
        }
    }
}

fn top_of(run: &[Item]) -> Head {
    run.last().expect("an empty run is removed").head
}
