//! Random numbers from a seed, the same on every machine.

use std::ops::Range;
use std::time::Duration;

use thalweg_integration_tests::sequence::Sequence;

/// The variable that sets another seed for all tests, to look for what the committed seeds do not find.
const VARIABLE: &str = "RESTART_SEED";

/// The seed of a test, which it prints.
pub(crate) fn seed(committed: u64) -> u64 {
    let other = std::env::var(VARIABLE).ok();
    let seed = other.map_or(committed, |text| text.parse().expect("a seed is a whole number"));
    println!("{VARIABLE}={seed}");
    seed
}

pub(crate) struct Random(Sequence);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Sequence::new(seed))
    }

    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.0.below(range.end - range.start)
    }

    pub(crate) fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_micros(self.within(range.start * 1000..range.end * 1000))
    }
}
