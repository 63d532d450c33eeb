//! How many records a task processes before it is the next one's turn.

use std::time::Duration;

/// Adapts the turns to how long records take: a worker looks at the clock, at its group and at the wish to stop between turns only,
/// and a record may take microseconds or seconds. It begins with one record, and doubles from turn to turn while turns are short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    records: usize,
    records_max: usize,
    /// How long a turn of all tasks should take at most.
    turn_max: Duration,
}

impl Pace {
    pub(super) fn new(records_max: usize, cycle_max: Duration) -> Self {
        Self { records: 1, records_max: records_max.max(1), turn_max: cycle_max / 2 }
    }

    /// Records of the next turn.
    pub(super) fn records(&self) -> usize {
        self.records.min(self.records_max)
    }

    /// A turn is over.
    pub(super) fn took(&mut self, processed: usize, time: Duration) {
        if time > self.turn_max {
            self.records = (self.records / 2).max(1);
        } else if processed >= self.records && time < self.turn_max / 4 {
            self.records = (self.records * 2).min(self.records_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_grow_to_the_limit_while_records_are_quick_and_shrink_to_one_when_they_are_slow() {
        let ms = Duration::from_millis;
        let mut pace = Pace::new(500, ms(100));
        assert_eq!(pace.records(), 1);
        for _ in 0..9 {
            pace.took(pace.records(), ms(1));
        }
        assert_eq!(pace.records(), 500);
        pace.took(3, ms(0));
        assert_eq!(pace.records(), 500, "there were no more");
        pace.took(500, ms(30));
        assert_eq!(pace.records(), 500, "long enough");
        for _ in 0..9 {
            pace.took(pace.records(), ms(5000));
        }
        assert_eq!(pace.records(), 1);
        assert_eq!(Pace::new(0, ms(0)).records(), 1);
    }
}
