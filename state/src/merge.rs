//! Iteration over uncommitted and committed entries together.

use std::cmp::Ordering;

use crate::bytemap::Cursor;
use crate::overlay::Overlay;
use crate::{Direction, EngineCursor, Entry, StateError};

/// Walks the entries of a range: what is committed, as changed by what is not.
///
/// As an [`Iterator`] it hands out owned pairs. [`RangeIter::next_entry`] hands out borrowed ones and
/// copies nothing.
pub struct RangeIter<'a> {
    written: Option<Cursor<'a>>,
    overlay: &'a Overlay,
    committed: Option<Box<dyn EngineCursor + 'a>>,
    direction: Direction,
    /// Where the entry handed out last came from; it is left behind at the next step.
    current: Current,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Current {
    Nowhere,
    Written,
    Committed,
}

impl<'a> RangeIter<'a> {
    pub(crate) fn new(
        written: Option<Cursor<'a>>,
        overlay: &'a Overlay,
        committed: Option<Box<dyn EngineCursor + 'a>>,
        direction: Direction,
    ) -> Self {
        Self { written, overlay, committed, direction, current: Current::Nowhere }
    }

    /// Moves to the next entry and hands it out; `None` at the end.
    ///
    /// # Errors
    /// If the engine cannot be read.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, StateError> {
        self.advance()?;
        Ok(self.entry())
    }

    /// The entry handed out last.
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        match self.current {
            Current::Nowhere => None,
            Current::Written => {
                let (key, value) = self.written.as_ref()?.entry()?;
                Some((key, value?))
            }
            Current::Committed => self.committed.as_ref()?.entry(),
        }
    }

    pub(crate) fn advance(&mut self) -> Result<(), StateError> {
        match self.current {
            Current::Nowhere => {}
            Current::Written => self.skip_written(),
            Current::Committed => self.skip_committed()?,
        }
        self.current = self.settle()?;
        Ok(())
    }

    /// Skips what is not there any more and says which side comes next.
    fn settle(&mut self) -> Result<Current, StateError> {
        loop {
            let written = self.written.as_ref().and_then(Cursor::entry);
            let committed = self.committed.as_ref().and_then(|cursor| cursor.entry());
            let (order, value) = match (written, committed) {
                (None, None) => return Ok(Current::Nowhere),
                (Some((_, value)), None) => (Ordering::Less, value),
                (None, Some(_)) => (Ordering::Greater, None),
                (Some((w, value)), Some((c, _))) => (self.direction.order(w, c), value),
            };
            match order {
                Ordering::Greater => {
                    let covered = committed.is_some_and(|(key, _)| self.overlay.covers(key));
                    if !covered {
                        return Ok(Current::Committed);
                    }
                    self.skip_committed()?;
                }
                // The written entry replaces the committed one.
                Ordering::Equal => self.skip_committed()?,
                Ordering::Less if value.is_some() => return Ok(Current::Written),
                Ordering::Less => self.skip_written(),
            }
        }
    }

    fn skip_written(&mut self) {
        if let Some(cursor) = &mut self.written {
            cursor.advance();
        }
    }

    fn skip_committed(&mut self) -> Result<(), StateError> {
        self.committed.as_mut().map_or(Ok(()), |cursor| cursor.advance())
    }
}

impl Iterator for RangeIter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>), StateError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.next_entry().transpose()?;
        Some(entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }
}
