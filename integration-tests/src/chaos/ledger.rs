//! What the output has to be, recomputed from the input as it lies in the topic.

use std::collections::BTreeMap;

/// How many groups there are.
const GROUPS: u64 = 97;

/// The group that a number is counted in.
pub(super) fn group_of(number: &str) -> String {
    let sum = number.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("g{}", sum % GROUPS)
}

/// A record as the plain client read it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

/// What is wrong with an output.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// Not there.
    pub lost: u64,
    /// There once too often.
    pub doubled: u64,
    /// Nothing that could come of the input.
    pub foreign: u64,
    /// Totals that do not follow on the one before.
    pub out_of_order: u64,
}

impl Verdict {
    /// Is nothing wrong?
    pub fn is_exact(&self) -> bool {
        *self == Self::default()
    }
}

/// Every input exactly once?
pub fn judge_echo(input: &[Entry], echo: &[Entry]) -> Verdict {
    let mut left: BTreeMap<&Entry, i64> = BTreeMap::new();
    for entry in input {
        *left.entry(entry).or_default() += 1;
    }
    let mut verdict = Verdict::default();
    for entry in echo {
        match left.get_mut(entry) {
            None => verdict.foreign += 1,
            Some(left) => *left -= 1,
        }
    }
    for left in left.values() {
        match *left {
            0.. => verdict.lost += left.unsigned_abs(),
            _ => verdict.doubled += left.unsigned_abs(),
        }
    }
    verdict
}

/// For each group the totals 1, 2, 3 up to how many of it there are, in this order?
pub fn judge_totals(input: &[Entry], totals: &[Entry]) -> Verdict {
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for entry in input {
        *expected.entry(group_of(&String::from_utf8_lossy(&entry.value))).or_default() += 1;
    }
    let mut verdict = Verdict::default();
    let mut last: BTreeMap<&[u8], u64> = BTreeMap::new();
    for entry in totals {
        let Ok(total) = <[u8; 8]>::try_from(&entry.value[..]).map(u64::from_be_bytes) else {
            verdict.foreign += 1;
            continue;
        };
        let last = last.entry(&entry.key).or_default();
        match total {
            _ if total == *last + 1 => {}
            _ if total <= *last => verdict.doubled += 1,
            _ => verdict.out_of_order += 1,
        }
        *last = total.max(*last);
    }
    for (group, count) in &expected {
        let last = last.remove(group.as_bytes()).unwrap_or(0);
        verdict.lost += count.saturating_sub(last);
        verdict.doubled += last.saturating_sub(*count);
    }
    verdict.foreign += last.len() as u64;
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, value: impl AsRef<[u8]>) -> Entry {
        Entry { key: key.into(), value: value.as_ref().into() }
    }

    fn total(group: &str, total: u64) -> Entry {
        entry(group, total.to_be_bytes())
    }

    #[test]
    fn a_lost_a_doubled_and_a_foreign_record_are_told_apart() {
        let input = [entry("a", "1"), entry("b", "2"), entry("a", "3")];
        assert!(
            judge_echo(&input, &[input[2].clone(), input[0].clone(), input[1].clone()]).is_exact()
        );
        let found = [input[0].clone(), input[0].clone(), input[2].clone(), entry("c", "2")];
        let expected = Verdict { lost: 1, doubled: 1, foreign: 1, out_of_order: 0 };
        assert_eq!(judge_echo(&input, &found), expected);
    }

    #[test]
    fn totals_have_to_count_up_one_by_one_to_the_end() {
        let input = [entry("a", "1"), entry("b", "1"), entry("c", "1")];
        let group = group_of("1");
        let totals =
            |numbers: &[u64]| numbers.iter().map(|n| total(&group, *n)).collect::<Vec<_>>();
        assert!(judge_totals(&input, &totals(&[1, 2, 3])).is_exact());
        let lost = |lost| Verdict { lost, ..Verdict::default() };
        assert_eq!(judge_totals(&input, &totals(&[1, 2])), lost(1));
        assert_eq!(judge_totals(&input, &totals(&[1, 2, 2, 3])).doubled, 1);
        assert_eq!(judge_totals(&input, &totals(&[1, 3])).out_of_order, 1);
        assert_eq!(judge_totals(&input, &totals(&[1, 2, 3, 4])).doubled, 1);
        assert_eq!(judge_totals(&input, &[]), lost(3));
        let mut foreign = totals(&[1, 2, 3]);
        foreign.push(total("nobody", 1));
        assert_eq!(judge_totals(&input, &foreign).foreign, 1);
    }
}
