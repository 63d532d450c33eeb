//! The bytes of a [`Change`] in the repartition topic of a re-grouped table, as Kafka Streams has them: the value, or both values
//! behind the length of the new one, and a last byte that says which.

use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_connectors::{Accepts, Field, Serde, SerdeError, SharedSerde};
use thalweg_processor::Change;

/// Only an old value, to subtract.
const OLD: u8 = 0;
/// Only a new value, to add.
const NEW: u8 = 1;
/// Both; the length of the new one, as a zigzag varint, stands in front.
const BOTH: u8 = 2;

/// Writes and reads changes of rows that `V`'s serde writes and reads.
pub(crate) struct ChangeSerde<V>(pub(crate) SharedSerde<V>);

impl<V: 'static> ChangeSerde<V> {
    fn put(&self, value: &V, out: &mut Vec<u8>) -> Result<(), SerdeError> {
        match self.0.write(value, out)? {
            Field::Bytes => Ok(()),
            Field::Null => Err(SerdeError::UnexpectedNull { expected: "a row to re-group" }),
        }
    }

    fn row(&self, bytes: &[u8]) -> Result<Option<V>, SerdeError> {
        self.0.read(Some(bytes)).map(Some)
    }
}

fn malformed(reason: &str) -> SerdeError {
    SerdeError::Malformed { of: "Change", reason: reason.to_owned() }
}

impl<V: 'static> Serde<Change<V>> for ChangeSerde<V> {
    fn write(&self, change: &Change<V>, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        let flag = match (&change.new, &change.old) {
            (None, None) => return Err(malformed("neither an old nor a new value")),
            (None, Some(old)) => {
                self.put(old, out)?;
                OLD
            }
            (Some(new), None) => {
                self.put(new, out)?;
                NEW
            }
            (Some(new), Some(old)) => {
                // The length is not known before the value is written: move it behind.
                let start = out.len();
                self.put(new, out)?;
                let value_end = out.len();
                put_length(value_end - start, out);
                let length_bytes = out.len() - value_end;
                out[start..].rotate_right(length_bytes);
                self.put(old, out)?;
                BOTH
            }
        };
        out.push(flag);
        Ok(Field::Bytes)
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<Change<V>, SerdeError> {
        let bytes = bytes.ok_or(SerdeError::UnexpectedNull { expected: "Change" })?;
        let (&flag, data) = bytes.split_last().ok_or_else(|| malformed("it is empty"))?;
        match flag {
            OLD => Ok(Change::latest(None, self.row(data)?)),
            NEW => Ok(Change::latest(self.row(data)?, None)),
            BOTH => {
                let (new, old) = split_by_length(data)
                    .ok_or_else(|| malformed("the length of the new value is not one"))?;
                Ok(Change::latest(self.row(new)?, self.row(old)?))
            }
            _ => Err(malformed("the last byte says neither old, new nor both")),
        }
    }
}

/// Appends a length as a zigzag varint.
fn put_length(length: usize, out: &mut Vec<u8>) {
    let mut n = (length as u64) << 1;
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Takes the length off the front, and splits what is behind it.
fn split_by_length(mut data: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut n = 0u64;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = data.split_first()?;
        data = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            // A negative length has the lowest bit set.
            let length = (n & 1 == 0).then_some(n >> 1)?;
            return data.split_at_checked(usize::try_from(length).ok()?);
        }
    }
    None
}

/// Writes the repartition topic of a re-grouped table.
pub(crate) struct ChangeEncoder<K, V> {
    name: Arc<str>,
    key: SharedSerde<K>,
    change: ChangeSerde<V>,
    types: PhantomData<fn(K, V)>,
}

impl<K, V> ChangeEncoder<K, V> {
    pub(crate) fn new(name: Arc<str>, key: SharedSerde<K>, value: SharedSerde<V>) -> Self {
        Self { name, key, change: ChangeSerde(value), types: PhantomData }
    }
}

impl<K: 'static, V: 'static> Accepts<K, Change<V>> for ChangeEncoder<K, V> {
    fn topic_name(&self) -> &Arc<str> {
        &self.name
    }

    fn write_key(&self, key: K, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        self.key.write(&key, out)
    }

    fn write_value(&self, change: Change<V>, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        self.change.write(&change, out)
    }

    fn partition_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        self.key.partition_key(key)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use thalweg_connectors::Utf8;

    use super::*;

    fn serde() -> ChangeSerde<String> {
        ChangeSerde(Arc::new(Utf8))
    }

    fn change(new: Option<&str>, old: Option<&str>) -> Change<String> {
        Change::latest(new.map(str::to_owned), old.map(str::to_owned))
    }

    #[test]
    fn changes_have_the_bytes_of_kafka_streams() {
        let long = "x".repeat(200);
        let long_bytes = [&[0x90, 0x03][..], long.as_bytes(), b"o\x02"].concat();
        let cases: [(Change<String>, &[u8]); 5] = [
            (change(Some("n"), None), b"n\x01"),
            (change(None, Some("o")), b"o\x00"),
            (change(Some("new"), Some("o")), b"\x06newo\x02"),
            (change(Some(&long), Some("o")), &long_bytes),
            (change(Some(""), Some("")), b"\x00\x02"),
        ];
        for (change, bytes) in cases {
            let mut out = b"before".to_vec();
            assert_eq!(serde().write(&change, &mut out), Ok(Field::Bytes));
            assert_eq!(&out[b"before".len()..], bytes);
            assert_eq!(serde().read(Some(bytes)), Ok(change));
        }
    }

    #[test]
    fn malformed_changes_are_refused() {
        let malformed: [&[u8]; 6] =
            [b"", b"x\x03", b"\x02", b"\x08new\x02", b"\x01a\x02", b"\xff\xff\xff\xff\xff\x02"];
        for bytes in malformed {
            assert!(serde().read(Some(bytes)).is_err(), "{bytes:?}");
        }
        assert!(serde().read(None).is_err());
        assert!(serde().write(&change(None, None), &mut Vec::new()).is_err());
    }
}
