//! Ranges of keys, compared as unsigned bytes.

use std::cmp::Ordering;

/// The direction of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the lowest key to the highest.
    Forward,
    /// From the highest key to the lowest.
    Reverse,
}

impl Direction {
    /// Compares two keys in the order this direction meets them.
    pub(crate) fn order(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Forward => a.cmp(b),
            Self::Reverse => b.cmp(a),
        }
    }
}

/// A range of keys: from a key that is in it up to a key that is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The lowest key inside.
    from: Vec<u8>,
    /// The first key above; `None` is the end of all keys.
    to: Option<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    #[must_use]
    pub fn all() -> Self {
        Self { from: Vec::new(), to: None }
    }

    /// The keys from `from` up to, but without, `to`; `None` is the end of all keys.
    #[must_use]
    pub fn half_open(from: impl Into<Vec<u8>>, to: Option<Vec<u8>>) -> Self {
        Self { from: from.into(), to }
    }

    /// The keys from `from` to `to`, both included; `None` leaves that side open.
    #[must_use]
    pub fn inclusive(from: Option<&[u8]>, to: Option<&[u8]>) -> Self {
        let to = to.map(|to| {
            let mut above = Vec::with_capacity(to.len() + 1);
            above.extend_from_slice(to);
            above.push(0);
            above
        });
        Self { from: from.unwrap_or_default().to_vec(), to }
    }

    /// The keys that begin with `prefix`.
    ///
    /// ```
    /// use thalweg_state::KeyRange;
    ///
    /// let range = KeyRange::prefix(b"ab");
    /// assert!(range.contains(b"ab") && range.contains(b"abc") && !range.contains(b"ac"));
    /// ```
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        let kept = prefix.iter().rposition(|&byte| byte != u8::MAX);
        let to = kept.map(|last| {
            let mut above = prefix[..=last].to_vec();
            above[last] += 1;
            above
        });
        Self { from: prefix.to_vec(), to }
    }

    /// The lowest key inside.
    #[must_use]
    pub fn from(&self) -> &[u8] {
        &self.from
    }

    /// The first key above, `None` if there is no end.
    #[must_use]
    pub fn to(&self) -> Option<&[u8]> {
        self.to.as_deref()
    }

    /// Whether the key lies inside.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.from.as_slice() && self.to.as_deref().is_none_or(|to| key < to)
    }

    /// Whether no key can lie inside.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.to.as_deref().is_some_and(|to| to <= self.from.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_of_highest_bytes_has_no_end() {
        assert_eq!(KeyRange::prefix(&[0xff, 0xff]).to(), None);
        assert_eq!(KeyRange::prefix(b"").to(), None);
        assert_eq!(KeyRange::prefix(&[1, 0xff]).to(), Some(&[2][..]));
    }

    #[test]
    fn inclusive_range_holds_both_ends_and_nothing_between_the_end_and_its_successor() {
        let range = KeyRange::inclusive(Some(b"a"), Some(b"c"));
        assert!(range.contains(b"a") && range.contains(b"c"));
        assert!(!range.contains(b"c\0") && !range.contains(b"`"));
    }

    #[test]
    fn reversed_range_is_empty() {
        assert!(KeyRange::half_open(*b"b", Some(b"a".to_vec())).is_empty());
        assert!(KeyRange::half_open(*b"b", Some(b"b".to_vec())).is_empty());
        assert!(!KeyRange::inclusive(Some(b"b"), Some(b"b")).is_empty());
        assert!(!KeyRange::all().is_empty());
    }
}
