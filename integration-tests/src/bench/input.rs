//! The prepared records: keys `k<int>`, values of ten words of nine letters.

use thalweg_connectors::{HeadersRef, NewRecord, Timestamp};

use crate::sequence::Sequence;

/// How many pairs are prepared; they are used in turn.
const PAIRS: usize = 1 << 16;

/// The timestamp of the first record.
const START: i64 = 1_700_000_000_000;

/// The pairs of a run.
pub(super) struct Input {
    keys: Vec<String>,
    values: Vec<String>,
}

impl Input {
    /// Prepares pairs over so many different keys.
    pub(super) fn new(keys: u64) -> Self {
        let mut sequence = Sequence::new(7);
        let mut word = |text: &mut String| {
            let letters = (0..9).map(|_| char::from(b'a' + sequence.below(26) as u8));
            text.extend(letters);
        };
        let mut values = Vec::with_capacity(PAIRS);
        for _ in 0..PAIRS {
            let mut value = String::with_capacity(99);
            for i in 0..10 {
                if i > 0 {
                    value.push(' ');
                }
                word(&mut value);
            }
            values.push(value);
        }
        let keys = (0..PAIRS).map(|_| format!("k{}", sequence.below(keys.max(1)))).collect();
        Self { keys, values }
    }

    /// Record `index` of a run.
    pub(super) fn record(&self, index: usize) -> NewRecord<'_> {
        NewRecord {
            key: Some(self.keys[index % PAIRS].as_bytes()),
            value: Some(self.values[index % PAIRS].as_bytes()),
            timestamp: Timestamp(START + index as i64),
            headers: HeadersRef::EMPTY,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn records_are_those_of_the_contract_and_the_same_every_time() {
        let (one, two) = (Input::new(100), Input::new(100));
        let mut keys = BTreeSet::new();
        for i in 0..1000 {
            let record = one.record(i);
            assert_eq!(record.key, two.record(i).key);
            assert_eq!(record.value, two.record(i).value);
            let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
            assert_eq!((value.len(), value.split(' ').count()), (99, 10));
            keys.insert(record.key.map(<[u8]>::to_vec));
        }
        assert_eq!(keys.len(), 100);
    }
}
