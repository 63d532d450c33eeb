//! The bytes of updates that wait in a buffer, as Kafka Streams has them in the changelogs of suppression and of stream-table joins
//! with grace.

use thalweg_connectors::{Headers, Offset, Timestamp};
use thalweg_processor::{RecordContext, RecordMetadata};

/// A null value.
const NULL: i32 = -1;
/// An old value that is the same as the prior one.
const SAME_AS_PRIOR: i32 = -2;

/// An update that waits: where it came from, and the values.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Buffered<'a> {
    pub(crate) context: RecordContext,
    /// What the table held when the key entered the buffer.
    pub(crate) prior: Option<&'a [u8]>,
    pub(crate) old: Option<&'a [u8]>,
    pub(crate) new: Option<&'a [u8]>,
}

impl<'a> Buffered<'a> {
    /// Appends the update, and behind it the time that decides when it leaves.
    pub(crate) fn write(&self, time: i64, out: &mut Vec<u8>) {
        write_context(&self.context, out);
        write_value(self.prior, out);
        match self.old {
            Some(_) if self.old == self.prior => {
                out.extend_from_slice(&SAME_AS_PRIOR.to_be_bytes())
            }
            old => write_value(old, out),
        }
        write_value(self.new, out);
        out.extend_from_slice(&time.to_be_bytes());
    }

    /// Reads what [`write`](Self::write) wrote, and the time; `None` when the bytes are something else.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<(Self, i64)> {
        let mut rest = Reader(bytes);
        let context = rest.context()?;
        let prior = rest.value()?;
        let old = match rest.i32()? {
            SAME_AS_PRIOR => prior,
            length => rest.value_of(length)?,
        };
        let new = rest.value()?;
        let time = rest.i64()?;
        rest.0.is_empty().then_some((Self { context, prior, old, new }, time))
    }

    /// Reads what the table held when the key entered the buffer, and nothing else.
    #[expect(clippy::option_option, reason = "malformed and null are different things")]
    pub(crate) fn read_prior(bytes: &'a [u8]) -> Option<Option<&'a [u8]>> {
        let mut rest = Reader(bytes);
        rest.skip_context()?;
        rest.value()
    }

    /// What it counts for in a buffer that is limited by bytes: as Kafka Streams counts, so that a limit holds as much here as there.
    pub(crate) fn size(&self, key: &[u8]) -> usize {
        let length = |value: Option<&[u8]>| value.map_or(0, <[u8]>::len);
        let old = if self.old == self.prior { 0 } else { length(self.old) };
        let utf16 = |text: &str| text.encode_utf16().count();
        let topic = self.context.metadata.as_ref().map_or(0, |m| utf16(&m.topic));
        let header =
            |(name, value): (&str, Option<&[u8]>)| utf16(name) + value.map_or(0, <[u8]>::len);
        let headers: usize = self.context.headers.iter().map(header).sum();
        // the time of the buffer; timestamp, offset and partition of the record
        let fixed = 8 + 8 + 8 + 4;
        fixed + key.len() + length(self.prior) + old + length(self.new) + topic + headers
    }
}

/// Timestamp, offset, topic, partition, headers. A record without an origin has an empty topic.
fn write_context(context: &RecordContext, out: &mut Vec<u8>) {
    let metadata = context.metadata.as_ref();
    let topic = metadata.map_or("", |m| &*m.topic).as_bytes();
    out.extend_from_slice(&context.timestamp.0.to_be_bytes());
    out.extend_from_slice(&metadata.map_or(-1, |m| m.offset.0).to_be_bytes());
    write_bytes(topic, out);
    out.extend_from_slice(&metadata.map_or(-1, |m| m.partition).to_be_bytes());
    out.extend_from_slice(&(context.headers.iter().count() as i32).to_be_bytes());
    for (name, value) in context.headers.iter() {
        write_bytes(name.as_bytes(), out);
        write_value(value, out);
    }
}

fn write_value(value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        Some(value) => write_bytes(value, out),
        None => out.extend_from_slice(&NULL.to_be_bytes()),
    }
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
    out.extend_from_slice(bytes);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn i32(&mut self) -> Option<i32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i32::from_be_bytes(*bytes))
    }

    fn i64(&mut self) -> Option<i64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i64::from_be_bytes(*bytes))
    }

    fn bytes(&mut self, length: i32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.i32()?;
        std::str::from_utf8(self.bytes(length)?).ok()
    }

    #[expect(clippy::option_option, reason = "malformed and null are different things")]
    fn value_of(&mut self, length: i32) -> Option<Option<&'a [u8]>> {
        match length {
            NULL => Some(None),
            length => self.bytes(length).map(Some),
        }
    }

    #[expect(clippy::option_option, reason = "malformed and null are different things")]
    fn value(&mut self) -> Option<Option<&'a [u8]>> {
        let length = self.i32()?;
        self.value_of(length)
    }

    fn skip_context(&mut self) -> Option<()> {
        self.bytes(8 + 8)?;
        self.value()?;
        self.bytes(4)?;
        for _ in 0..self.i32()? {
            self.value()?;
            self.value()?;
        }
        Some(())
    }

    fn context(&mut self) -> Option<RecordContext> {
        let (timestamp, offset) = (Timestamp(self.i64()?), Offset(self.i64()?));
        let topic = self.text()?;
        let partition = self.i32()?;
        let mut headers = Vec::new();
        for _ in 0..self.i32()? {
            headers.push((self.text()?, self.value()?));
        }
        let headers =
            Headers::collect(headers.iter().map(|(name, value)| (*name, value.as_deref())));
        let metadata =
            (partition >= 0).then(|| RecordMetadata { topic: topic.into(), partition, offset });
        Some(RecordContext { metadata, timestamp, headers })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test panics on failure")]

    use super::*;

    fn buffered<'a>(prior: &'a str, old: &'a str, new: &'a str) -> Buffered<'a> {
        let value = |text: &'a str| (!text.is_empty()).then_some(text.as_bytes());
        let metadata = RecordMetadata { topic: "in".into(), partition: 2, offset: Offset(7) };
        let headers = Headers::new();
        let context = RecordContext { metadata: Some(metadata), timestamp: Timestamp(10), headers };
        Buffered { context, prior: value(prior), old: value(old), new: value(new) }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// The vectors that Kafka Streams itself produced.
    #[test]
    fn buffered_updates_have_the_bytes_of_kafka_streams() {
        let context = "000000000000000a000000000000000700000002696e0000000200000000";
        let cases = [
            (buffered("", "", "1"), "ffffffffffffffff0000000131"),
            (buffered("0", "0", "1"), "0000000130fffffffe0000000131"),
            (buffered("9", "0", "1"), "000000013900000001300000000131"),
        ];
        for (buffered, values) in cases {
            let mut out = Vec::new();
            buffered.write(10, &mut out);
            assert_eq!(hex(&out), format!("{context}{values}000000000000000a"));
            assert_eq!(Buffered::read_prior(&out), Some(buffered.prior));
            assert_eq!(Buffered::read(&out), Some((buffered, 10)));
        }
        let mut with_headers = buffered("9", "0", "");
        with_headers.context.headers = Headers::new().with("h", Some(b"v")).with("n", None);
        let mut out = Vec::new();
        with_headers.write(0, &mut out);
        let expected = "000000000000000a000000000000000700000002696e00000002000000020000000168\
                        0000000176000000016effffffff00000001390000000130ffffffff0000000000000000";
        assert_eq!(hex(&out), expected);
        assert_eq!(Buffered::read_prior(&out), Some(with_headers.prior));
        assert_eq!(Buffered::read(&out), Some((with_headers, 0)));
    }

    #[test]
    fn malformed_updates_are_refused() {
        let mut bytes = Vec::new();
        buffered("9", "0", "1").write(10, &mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(Buffered::read(&bytes[..length]), None, "{length} bytes");
        }
        bytes.push(0);
        assert_eq!(Buffered::read(&bytes), None);
    }

    #[test]
    fn size_counts_an_old_value_once_that_is_the_prior_one() {
        let fixed = 28 + "key".len() + "in".len();
        assert_eq!(buffered("11", "11", "222").size(b"key"), fixed + 2 + 3);
        assert_eq!(buffered("11", "1", "222").size(b"key"), fixed + 2 + 1 + 3);
        assert_eq!(buffered("", "", "").size(b"key"), fixed);
    }
}
