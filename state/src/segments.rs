//! A walk through a store whose entries lie in segments of time: one range after the other, of each what is wanted.

use crate::range::{Direction, KeyRange};
use crate::task_state::TaskState;
use crate::{Entry, RangeIter, StateError, StoreIx};

/// Which entries a walk hands out.
pub(crate) trait Wanted {
    /// Is the entry with this local key one of ours?
    fn accepts(&self, local_key: &[u8]) -> bool;

    /// A range of local keys that holds all of ours in one segment, and perhaps others.
    fn range_in(&self, segment: i64) -> KeyRange;
}

/// Walks the wanted entries of a store.
pub(crate) struct SegmentWalk<'a, W> {
    state: &'a TaskState,
    store: StoreIx,
    wanted: W,
    direction: Direction,
    /// The first and last segment not yet begun.
    segments: Option<(i64, i64)>,
    /// The walk through the segment at hand.
    inside: Option<RangeIter<'a>>,
}

impl<'a, W: Wanted> SegmentWalk<'a, W> {
    /// Through these segments, both included; `None`: through none.
    pub(crate) fn new(
        state: &'a TaskState,
        store: StoreIx,
        wanted: W,
        segments: Option<(i64, i64)>,
        direction: Direction,
    ) -> Self {
        Self { state, store, wanted, direction, segments, inside: None }
    }

    /// Moves to the next entry and hands it out; `None` at the end.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry<'_>>, StateError> {
        loop {
            let Some(inside) = &mut self.inside else {
                let Some(segment) = self.next_segment() else {
                    return Ok(None);
                };
                let range = self.wanted.range_in(segment);
                self.inside = Some(self.state.range(self.store, &range, self.direction)?);
                continue;
            };
            inside.advance()?;
            match inside.entry().map(|(local, _)| self.wanted.accepts(local)) {
                Some(true) => break,
                Some(false) => {}
                None => self.inside = None,
            }
        }
        Ok(self.inside.as_ref().and_then(RangeIter::entry))
    }

    fn next_segment(&mut self) -> Option<i64> {
        let (first, last) = self.segments?;
        let (segment, rest) = match self.direction {
            Direction::Forward => (first, (first + 1, last)),
            Direction::Reverse => (last, (first, last - 1)),
        };
        self.segments = (first < last).then_some(rest);
        Some(segment)
    }
}
