//! Record headers, kept packed: a record without headers pays for nothing, one with headers for a copy of their bytes.
//!
//! The packed form is Kafka Streams' own (BINARY.md §4): nothing at all when there are none, else the count, then
//! per header the length of its name, the name, the length of its value (-1 for null) and the value; all numbers zigzag varints.

use std::fmt;
use std::sync::Arc;

/// Owned headers; cheap to clone.
///
/// ```
/// use thalweg_connectors::Headers;
/// let headers = Headers::new().with("traceparent", Some(b"00-1-2-01")).with("note", None);
/// assert_eq!(headers.last("traceparent"), Some(Some(&b"00-1-2-01"[..])));
/// assert_eq!(headers.iter().count(), 2);
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Headers(Option<Arc<[u8]>>);

/// Borrowed headers.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct HeadersRef<'a>(&'a [u8]);

impl Headers {
    /// No headers.
    pub const fn new() -> Self {
        Self(None)
    }

    /// Takes packed headers as they are; the caller got them from [`HeadersRef::packed`].
    pub fn from_packed(packed: &[u8]) -> Self {
        if packed.is_empty() { Self(None) } else { Self(Some(packed.into())) }
    }

    /// Collects headers in order.
    pub fn collect<'h>(headers: impl IntoIterator<Item = (&'h str, Option<&'h [u8]>)>) -> Self {
        let (mut count, mut body) = (0u64, Vec::new());
        for (name, value) in headers {
            push_header(&mut body, name, value);
            count += 1;
        }
        if count == 0 {
            return Self(None);
        }
        let mut packed = Vec::with_capacity(body.len() + 2);
        put_varint(&mut packed, zigzag(count as i64));
        packed.extend_from_slice(&body);
        Self(Some(packed.into()))
    }

    /// Adds a header at the end; a name may stand more than once.
    #[must_use]
    pub fn with(&self, name: &str, value: Option<&[u8]>) -> Self {
        Self::collect(self.iter().chain([(name, value)]))
    }

    /// Removes all headers of that name.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        Self::collect(self.iter().filter(|(n, _)| *n != name))
    }

    /// Borrows.
    pub fn as_ref(&self) -> HeadersRef<'_> {
        HeadersRef(self.0.as_deref().unwrap_or_default())
    }

    /// Iterates in order.
    pub fn iter(&self) -> HeadersIter<'_> {
        self.as_ref().iter()
    }

    /// The value of the last header of that name: `None` when there is none, `Some(None)` when its value is null.
    pub fn last(&self, name: &str) -> Option<Option<&[u8]>> {
        self.iter().filter(|(n, _)| *n == name).last().map(|(_, v)| v)
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl<'a> HeadersRef<'a> {
    /// No headers.
    pub const EMPTY: HeadersRef<'static> = HeadersRef(&[]);

    /// Takes packed bytes that [`HeadersRef::packed`] or [`Headers`] made.
    pub const fn from_packed(packed: &'a [u8]) -> Self {
        Self(packed)
    }

    /// The packed bytes; empty when there are no headers.
    pub const fn packed(self) -> &'a [u8] {
        self.0
    }

    /// Are there none?
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Copies.
    pub fn to_owned(self) -> Headers {
        Headers::from_packed(self.0)
    }

    /// Iterates in order; stops at the first malformed byte.
    pub fn iter(self) -> HeadersIter<'a> {
        let mut rest = self.0;
        let left = get_varint(&mut rest).map_or(0, unzigzag).max(0) as u64;
        HeadersIter { rest, left }
    }

    /// Iterates in order, over names as bytes: a client may have written names that are no text.
    #[cfg(feature = "kafka")]
    pub(crate) fn raw(self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
        let HeadersIter { mut rest, left } = self.iter();
        (0..left).map_while(move |_| Some((take(&mut rest)??, take(&mut rest)?)))
    }
}

impl fmt::Debug for HeadersRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(n, v)| (n, v.map(String::from_utf8_lossy))))
            .finish()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_ref(), f)
    }
}

/// Iterates over headers: name and value, `None` for a null value.
#[derive(Clone)]
pub struct HeadersIter<'a> {
    rest: &'a [u8],
    left: u64,
}

impl<'a> Iterator for HeadersIter<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = std::str::from_utf8(take(&mut self.rest)??).ok()?;
        Some((name, take(&mut self.rest)?))
    }
}

/// Takes a length and that many bytes: `None` when malformed, `Some(None)` for null.
#[expect(clippy::option_option, reason = "malformed and null are different things")]
fn take<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = unzigzag(get_varint(rest)?);
    if length < 0 {
        return Some(None);
    }
    let (bytes, tail) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = tail;
    Some(Some(bytes))
}

/// Begins packed headers: their count, which is not zero.
#[cfg(feature = "kafka")]
pub(crate) fn pack_count(out: &mut Vec<u8>, count: usize) {
    put_varint(out, zigzag(count as i64));
}

/// Adds a header to packed ones.
#[cfg(feature = "kafka")]
pub(crate) fn pack_header(out: &mut Vec<u8>, name: &[u8], value: Option<&[u8]>) {
    push_raw(out, name, value);
}

fn push_header(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    push_raw(out, name.as_bytes(), value);
}

fn push_raw(out: &mut Vec<u8>, name: &[u8], value: Option<&[u8]>) {
    put_varint(out, zigzag(name.len() as i64));
    out.extend_from_slice(name);
    put_varint(out, zigzag(value.map_or(-1, |v| v.len() as i64)));
    out.extend_from_slice(value.unwrap_or_default());
}

const fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

const fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn get_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        n |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(n);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_form_is_kafka_streams_own() {
        let hex = |h: &Headers| {
            h.as_ref().packed().iter().map(|b| format!("{b:02x}")).collect::<String>()
        };
        let one = Headers::new().with("h", Some(b"v"));
        assert_eq!(hex(&Headers::new()), "");
        assert_eq!(hex(&one), "0202680276");
        let four = one.with("n", None).with("e", Some(b"")).with("h", Some(b"2"));
        assert_eq!(hex(&four), "0802680276026e0102650002680232");
        assert_eq!(four.last("h"), Some(Some(&b"2"[..])));
        assert_eq!(four.last("n"), Some(None));
        assert_eq!(hex(&four.without("h")), "04026e01026500");
        assert_eq!(four.without("h").without("n").without("e"), Headers::new());
    }

    #[test]
    fn malformed_bytes_end_the_iteration() {
        for packed in [
            &b"\x80"[..],
            b"\x04\x02h",
            b"\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x02\x02\xff\x00",
        ] {
            assert_eq!(HeadersRef::from_packed(packed).iter().count(), 0);
        }
    }
}
