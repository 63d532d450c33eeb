//! Records of left and outer joins that wait for a partner: the bytes of the store that both sides share, as Kafka Streams has them.
//!
//! The key is the time (8 bytes), the side (1 is left, 0 is right) and the record's key, so that records lie in the order of time. The
//! value is a list of values, one per record of that key, time and side, each with the side in front.

use thalweg_connectors::{Datum, Field, Serde, SerdeError, SharedSerde};

/// A key, a time and a side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HeldKey<K> {
    pub(crate) time_ms: i64,
    pub(crate) is_left: bool,
    pub(crate) key: K,
}

pub(crate) struct HeldKeySerde<K>(pub(crate) SharedSerde<K>);

const OF: &str = "key of a record that waits for a partner";

impl<K: 'static> Serde<HeldKey<K>> for HeldKeySerde<K> {
    fn write(&self, held: &HeldKey<K>, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        out.extend_from_slice(&held.time_ms.to_be_bytes());
        out.push(u8::from(held.is_left));
        self.0.write(&held.key, out)
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<HeldKey<K>, SerdeError> {
        let bytes = bytes.ok_or(SerdeError::UnexpectedNull { expected: OF })?;
        let short = || SerdeError::WrongLength { of: OF, expected: 9, found: bytes.len() };
        let (time, rest) = bytes.split_first_chunk().ok_or_else(short)?;
        let (side, key) = rest.split_first().ok_or_else(short)?;
        Ok(HeldKey {
            time_ms: i64::from_be_bytes(*time),
            is_left: *side != 0,
            key: self.0.read(Some(key))?,
        })
    }
}

/// The values of one key, time and side, each as its serde wrote it.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct HeldValues {
    pub(crate) is_left: bool,
    pub(crate) values: Vec<Vec<u8>>,
}

impl HeldValues {
    /// Adds a value that its serde writes.
    pub(crate) fn push<V: Datum>(
        &mut self,
        value: &V,
        serde: &SharedSerde<V>,
    ) -> Result<(), SerdeError> {
        let mut bytes = Vec::new();
        match serde.write(value, &mut bytes)? {
            Field::Bytes => self.values.push(bytes),
            Field::Null => return Err(SerdeError::UnexpectedNull { expected: "a joined value" }),
        }
        Ok(())
    }
}

/// Kafka's serde of lists of values of any length.
pub(crate) struct HeldValuesSerde;

/// The form of lists whose entries have their lengths in front.
const BY_LENGTH: u8 = 1;

fn malformed() -> SerdeError {
    SerdeError::Malformed {
        of: "list of values",
        reason: "it is cut off or of another form".into(),
    }
}

impl Serde<HeldValues> for HeldValuesSerde {
    fn write(&self, held: &HeldValues, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        let length = |n: usize| u32::try_from(n).map_err(|_| malformed()).map(u32::to_be_bytes);
        out.push(BY_LENGTH);
        out.extend_from_slice(&length(held.values.len())?);
        for value in &held.values {
            out.extend_from_slice(&length(value.len() + 1)?);
            out.push(u8::from(held.is_left));
            out.extend_from_slice(value);
        }
        Ok(Field::Bytes)
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<HeldValues, SerdeError> {
        let bytes = bytes.ok_or(SerdeError::UnexpectedNull { expected: "list of values" })?;
        let (form, rest) = bytes.split_first().ok_or_else(malformed)?;
        let (count, mut rest) = number(rest)?;
        if *form != BY_LENGTH {
            return Err(malformed());
        }
        let mut held = HeldValues::default();
        for _ in 0..count {
            let (length, behind) = number(rest)?;
            let (entry, behind) = behind.split_at_checked(length).ok_or_else(malformed)?;
            let (side, value) = entry.split_first().ok_or_else(malformed)?;
            held.is_left = *side != 0;
            held.values.push(value.to_vec());
            rest = behind;
        }
        Ok(held)
    }
}

fn number(bytes: &[u8]) -> Result<(usize, &[u8]), SerdeError> {
    let (number, rest) = bytes.split_first_chunk().ok_or_else(malformed)?;
    Ok((u32::from_be_bytes(*number) as usize, rest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use thalweg_connectors::{I64Be, Utf8};

    use super::*;

    /// The vectors that Kafka Streams itself produced.
    #[test]
    fn keys_and_values_have_the_bytes_of_kafka_streams() {
        let serde = HeldKeySerde::<String>(Arc::new(Utf8));
        let cases: [(i64, bool, &str, &[u8]); 3] = [
            (10, true, "k", b"\0\0\0\0\0\0\0\x0a\x01k"),
            (10, false, "k", b"\0\0\0\0\0\0\0\x0a\0k"),
            (1_700_000_000_000, true, "abc", b"\0\0\x01\x8b\xcf\xe5\x68\0\x01abc"),
        ];
        for (time_ms, is_left, key, bytes) in cases {
            let key = HeldKey { time_ms, is_left, key: key.to_owned() };
            let mut out = Vec::new();
            assert_eq!(serde.write(&key, &mut out), Ok(Field::Bytes));
            assert_eq!(out, bytes);
            assert_eq!(serde.read(Some(bytes)), Ok(key));
        }
        let mut held = HeldValues { is_left: true, values: Vec::new() };
        let text: SharedSerde<String> = Arc::new(Utf8);
        held.push(&"1".to_owned(), &text).unwrap();
        held.push(&"3".to_owned(), &text).unwrap();
        let mut out = Vec::new();
        assert_eq!(HeldValuesSerde.write(&held, &mut out), Ok(Field::Bytes));
        assert_eq!(out, b"\x01\0\0\0\x02\0\0\0\x02\x011\0\0\0\x02\x013");
        assert_eq!(HeldValuesSerde.read(Some(&out)), Ok(held));
        let mut right = HeldValues::default();
        right.push(&5_i64, &(Arc::new(I64Be) as SharedSerde<i64>)).unwrap();
        out.clear();
        assert_eq!(HeldValuesSerde.write(&right, &mut out), Ok(Field::Bytes));
        assert_eq!(out[9..], b"\0\0\0\0\0\0\0\0\x05"[..]);
    }

    #[test]
    fn malformed_bytes_are_refused() {
        for bytes in [&b""[..], b"\x01", b"\0\0\0\0\0", b"\x01\0\0\0\x01\0\0\0\x05x"] {
            assert!(HeldValuesSerde.read(Some(bytes)).is_err(), "{bytes:?}");
        }
        let serde = HeldKeySerde::<String>(Arc::new(Utf8));
        assert!(serde.read(Some(b"\0\0\0\0\0\0\0\x0a")).is_err());
    }
}
