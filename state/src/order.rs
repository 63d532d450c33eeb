//! Ids in key order, kept beside a hash map.
//!
//! A list of short sorted runs. It holds ids only and compares the keys they stand for, so an entry
//! costs four bytes, a key is stored once, and walking is walking an array. Inserting moves at most
//! one run.

use std::cmp::Ordering;

/// A run is split in two when it has this many ids.
const RUN_IDS_MAX: usize = 512;

/// Ids sorted by the keys they stand for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Order {
    /// Non-empty sorted runs, themselves in order.
    runs: Vec<Vec<u32>>,
}

/// A place between ids: run and offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    run: usize,
    at: usize,
}

impl Order {
    /// Takes over ids that are already sorted.
    pub(crate) fn from_sorted(ids: &[u32]) -> Self {
        Self {
            runs: ids.chunks(RUN_IDS_MAX / 2).map(<[u32]>::to_vec).collect(),
        }
    }

    /// Finds the first place whose key is not below `key`.
    pub(crate) fn seek<'a>(&self, key: &[u8], key_of: impl Fn(u32) -> &'a [u8]) -> Place {
        let run = self.runs.partition_point(|run| {
            run.last()
                .is_some_and(|&id| key_of(id).cmp(key) == Ordering::Less)
        });
        let at = self
            .runs
            .get(run)
            .map_or(0, |run| run.partition_point(|&id| key_of(id) < key));
        Place { run, at }
    }

    /// The place behind the last id.
    pub(crate) fn end(&self) -> Place {
        Place {
            run: self.runs.len(),
            at: 0,
        }
    }

    /// The id behind a place.
    pub(crate) fn id_after(&self, place: Place) -> Option<u32> {
        self.runs.get(place.run)?.get(place.at).copied()
    }

    /// The place one id further on; `None` at the end.
    pub(crate) fn after(&self, place: Place) -> Option<Place> {
        let run = self.runs.get(place.run)?;
        Some(if place.at + 1 < run.len() {
            Place {
                run: place.run,
                at: place.at + 1,
            }
        } else {
            Place {
                run: place.run + 1,
                at: 0,
            }
        })
    }

    /// The place one id back; `None` at the beginning.
    pub(crate) fn before(&self, place: Place) -> Option<Place> {
        if place.at > 0 {
            return Some(Place {
                run: place.run,
                at: place.at - 1,
            });
        }
        let run = place.run.checked_sub(1)?;
        Some(Place {
            run,
            at: self.runs[run].len() - 1,
        })
    }

    /// All ids in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flatten().copied()
    }

    /// Puts an id where its key belongs; the key must be new.
    pub(crate) fn insert<'a>(&mut self, id: u32, key_of: impl Fn(u32) -> &'a [u8]) {
        let place = self.seek(key_of(id), &key_of);
        let Some(run) = self.runs.get_mut(place.run) else {
            // Above every key: at the end of the last run.
            match self.runs.last_mut() {
                Some(run) => run.push(id),
                None => self.runs.push(vec![id]),
            }
            return self.split(self.runs.len() - 1);
        };
        run.insert(place.at, id);
        self.split(place.run);
    }

    /// Takes out the id behind a place.
    pub(crate) fn remove(&mut self, place: Place) {
        if let Some(run) = self.runs.get_mut(place.run) {
            run.remove(place.at);
            if run.is_empty() {
                self.runs.remove(place.run);
            }
        }
    }

    fn split(&mut self, index: usize) {
        let run = &mut self.runs[index];
        if run.len() >= RUN_IDS_MAX {
            let upper = run.split_off(RUN_IDS_MAX / 2);
            self.runs.insert(index + 1, upper);
        }
    }
}
