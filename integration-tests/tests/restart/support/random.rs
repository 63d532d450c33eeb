//! Random numbers from a seed, the same on every machine (splitmix64).

use std::ops::Range;
use std::time::Duration;

/// The variable that sets another seed for all tests, to look for what the committed seeds do not find.
const VARIABLE: &str = "RESTART_SEED";

/// The seed of a test, which it prints.
pub(crate) fn seed(committed: u64) -> u64 {
    let other = std::env::var(VARIABLE).ok();
    let seed = other.map_or(committed, |text| text.parse().expect("a seed is a whole number"));
    println!("{VARIABLE}={seed}");
    seed
}

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    pub(crate) fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_micros(self.within(range.start * 1000..range.end * 1000))
    }
}
