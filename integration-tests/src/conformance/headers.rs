//! The headers a processor program works on.

use super::Value;

/// Headers in order; names may repeat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderList(Vec<(String, Option<Vec<u8>>)>);

impl HeaderList {
    /// Adds one at the end.
    pub fn add(&mut self, name: impl Into<String>, value: Option<Vec<u8>>) {
        self.0.push((name.into(), value));
    }

    /// Removes all of that name.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(n, _)| n != name);
    }

    /// The text of the last one of that name, or null.
    pub fn last_text(&self, name: &str) -> Value {
        let last = self.0.iter().rfind(|(n, _)| n == name);
        last.and_then(|(_, value)| value.as_deref())
            .map(String::from_utf8_lossy)
            .map(String::from)
            .into()
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_deref()))
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<String>> FromIterator<(N, Option<Vec<u8>>)> for HeaderList {
    fn from_iter<I: IntoIterator<Item = (N, Option<Vec<u8>>)>>(headers: I) -> Self {
        Self(headers.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_header_of_a_name_counts_and_remove_takes_them_all() {
        let mut headers = HeaderList::from_iter([
            ("a", Some(b"1".to_vec())),
            ("b", None),
            ("a", Some(b"2".to_vec())),
        ]);
        assert_eq!(headers.last_text("a"), "2".into());
        assert_eq!(headers.last_text("b"), Value::Null);
        assert_eq!(headers.last_text("c"), Value::Null);
        headers.remove("a");
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("b", None)]);
    }
}
