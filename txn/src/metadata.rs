//! What travels with a committed offset: stream time and progress of processors, in Kafka Streams'
//! format.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thalweg_connectors::Timestamp;

/// The version written; version 1 is the same without the processors' part.
const VERSION: u8 = 2;

/// The metadata of a committed input offset, so that time goes on where it stood after a move or a
/// restart, even in a task without a store.
///
/// ```
/// use thalweg_connectors::Timestamp;
/// use thalweg_txn::OffsetMetadata;
///
/// let at = OffsetMetadata::at(Timestamp(1_700_000_000_000));
/// assert_eq!(at.encode(), "AgAAAYvP5WgA");
/// assert_eq!(OffsetMetadata::decode("AgAAAYvP5WgA"), Ok(at));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OffsetMetadata {
    /// The highest timestamp seen in the partition; [`Timestamp::NONE`] before the first record.
    pub partition_time: Timestamp,
    /// What processors keep, by key: a node's stream time, when it punctuated last.
    pub processor: BTreeMap<String, i64>,
}

impl Default for OffsetMetadata {
    fn default() -> Self {
        Self::at(Timestamp::NONE)
    }
}

/// A text that is no offset metadata of a version known here.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// Not Base64.
    #[error("the offset metadata `{0}` is not Base64")]
    NotBase64(String),
    /// A version that a newer program wrote, or not ours at all.
    #[error("the offset metadata has version {0}; known are 1 and 2")]
    UnknownVersion(u8),
    /// It ends too early, goes on too long, or holds a key that is not text.
    #[error("the offset metadata `{0}` is damaged")]
    Damaged(String),
}

impl OffsetMetadata {
    /// Only a partition time.
    pub const fn at(partition_time: Timestamp) -> Self {
        Self { partition_time, processor: BTreeMap::new() }
    }

    /// Writes it as text: Base64 of version, partition time and, if any, the processors' part.
    ///
    /// # Panics
    /// When there are more than `i32::MAX` entries or a key is longer than that.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::with_capacity(9);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.partition_time.0.to_be_bytes());
        if !self.processor.is_empty() {
            bytes.extend_from_slice(&length(self.processor.len()));
            for (key, value) in &self.processor {
                bytes.extend_from_slice(&length(key.len()));
                bytes.extend_from_slice(key.as_bytes());
                bytes.extend_from_slice(&value.to_be_bytes());
            }
        }
        STANDARD.encode(bytes)
    }

    /// Reads it from text. An empty text is what other programs commit: nothing is known.
    ///
    /// # Errors
    /// [`MetadataError`]; Kafka Streams then goes on as if nothing were known, with a warning.
    pub fn decode(text: &str) -> Result<Self, MetadataError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let bytes = STANDARD.decode(text).map_err(|_| MetadataError::NotBase64(text.to_owned()))?;
        let (version, rest) = match bytes.split_first() {
            Some((&version @ 1..=VERSION, rest)) => (version, rest),
            Some((&version, _)) => return Err(MetadataError::UnknownVersion(version)),
            None => return Err(MetadataError::Damaged(text.to_owned())),
        };
        body(version, rest).ok_or_else(|| MetadataError::Damaged(text.to_owned()))
    }
}

fn length(n: usize) -> [u8; 4] {
    i32::try_from(n).expect("processor metadata is small").to_be_bytes()
}

fn body(version: u8, mut rest: &[u8]) -> Option<OffsetMetadata> {
    let mut metadata = OffsetMetadata::at(Timestamp(long(&mut rest)?));
    if version > 1 && !rest.is_empty() {
        for _ in 0..int(&mut rest)? {
            let n = int(&mut rest)?;
            let key = std::str::from_utf8(rest.split_off(..n)?).ok()?;
            metadata.processor.insert(key.to_owned(), long(&mut rest)?);
        }
    }
    rest.is_empty().then_some(metadata)
}

fn long(rest: &mut &[u8]) -> Option<i64> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(i64::from_be_bytes(*head))
}

fn int(rest: &mut &[u8]) -> Option<usize> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    usize::try_from(i32::from_be_bytes(*head)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(time: i64, processor: &[(&str, i64)]) -> OffsetMetadata {
        OffsetMetadata {
            partition_time: Timestamp(time),
            processor: processor.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect(),
        }
    }

    /// Made by Kafka Streams itself.
    #[test]
    fn texts_are_those_of_kafka_streams() {
        let table = [
            (of(1_700_000_000_000, &[]), "AgAAAYvP5WgA"),
            (of(-1, &[]), "Av//////////"),
            (of(10, &[("node", 55)]), "AgAAAAAAAAAKAAAAAQAAAARub2RlAAAAAAAAADc="),
        ];
        for (metadata, text) in table {
            assert_eq!(metadata.encode(), text);
            assert_eq!(OffsetMetadata::decode(text), Ok(metadata));
        }
    }

    #[test]
    fn what_older_or_other_programs_committed_is_read() {
        let table = [("", of(-1, &[])), ("AQAAAYvP5WgA", of(1_700_000_000_000, &[]))];
        for (text, metadata) in table {
            assert_eq!(OffsetMetadata::decode(text), Ok(metadata));
        }
    }

    #[test]
    fn damaged_text_is_an_error_never_a_guess() {
        let whole = of(10, &[("node", 55)]).encode();
        let bytes = STANDARD.decode(&whole).unwrap();
        for end in 1..bytes.len() {
            let text = STANDARD.encode(&bytes[..end]);
            // After the partition time alone it is whole again.
            let expected =
                if end == 9 { Ok(of(10, &[])) } else { Err(MetadataError::Damaged(text.clone())) };
            assert_eq!(OffsetMetadata::decode(&text), expected, "{end} bytes");
        }
        let longer = STANDARD.encode([bytes.as_slice(), &[0]].concat());
        let negative = STANDARD.encode([&bytes[..9], &[0xff; 4]].concat());
        let huge_key =
            STANDARD.encode([&bytes[..9], &[0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff]].concat());
        let no_text =
            STANDARD.encode([&bytes[..9], &[0, 0, 0, 1, 0, 0, 0, 1, 0xff], &[0; 8]].concat());
        for text in [longer, negative, huge_key, no_text] {
            let expected = Err(MetadataError::Damaged(text.clone()));
            assert_eq!(OffsetMetadata::decode(&text), expected);
        }
        assert_eq!(OffsetMetadata::decode("AwAAAAAAAAAA"), Err(MetadataError::UnknownVersion(3)));
        assert_eq!(
            OffsetMetadata::decode("no metadata"),
            Err(MetadataError::NotBase64("no metadata".to_owned()))
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            time: i64,
            processor in proptest::collection::btree_map(".{0,20}", any::<i64>(), 0..5),
        ) {
            let metadata = OffsetMetadata { partition_time: Timestamp(time), processor };
            prop_assert_eq!(OffsetMetadata::decode(&metadata.encode()), Ok(metadata));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,60}", bytes: Vec<u8>) {
            let _ = OffsetMetadata::decode(&text);
            let _ = OffsetMetadata::decode(&STANDARD.encode(bytes));
        }
    }
}
