//! What the two sides of a foreign-key join tell each other, in the bytes of Kafka Streams: subscriptions from left to right,
//! responses back, and the key under which a subscription is kept.

use thalweg_connectors::{Field, Serde, SerdeError, SharedSerde};

/// The hash of a left row's bytes: a response is for the row that has it.
pub(crate) type Hash = [u8; 16];

/// Set in the first byte when there is no hash.
const NO_HASH: u8 = 0x80;
/// The version of subscriptions that we write: with the partition of the left row.
const SUBSCRIPTION_VERSION: u8 = 1;

/// What the right side is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Instruction {
    /// Forget the subscription; another one tells.
    Delete = 0,
    /// Forget the subscription, and tell that there is nothing.
    DeleteAndTell = 1,
    /// Tell the right row, or that there is none.
    TellAny = 2,
    /// Tell the right row, if there is one.
    TellRow = 3,
}

impl Instruction {
    fn of(code: u8) -> Option<Self> {
        [Self::Delete, Self::DeleteAndTell, Self::TellAny, Self::TellRow]
            .get(code as usize)
            .copied()
    }

    pub(crate) fn deletes(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteAndTell)
    }
}

/// A left row asks for the right row of its foreign key.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Subscription<K> {
    /// Of the left row; `None` when it was deleted.
    pub(crate) hash: Option<Hash>,
    pub(crate) instruction: Instruction,
    pub(crate) primary_key: K,
    /// Where the response goes; absent in subscriptions of old versions.
    pub(crate) partition: Option<i32>,
}

/// The right row for a left row.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Response<T> {
    /// Of the left row that asked.
    pub(crate) hash: Option<Hash>,
    pub(crate) row: Option<T>,
    /// Where it goes; not written.
    pub(crate) partition: Option<i32>,
}

fn malformed(of: &'static str, reason: &str) -> SerdeError {
    SerdeError::Malformed { of, reason: reason.to_owned() }
}

fn write_head(version: u8, hash: Option<&Hash>, out: &mut Vec<u8>) {
    out.push(if hash.is_none() { version | NO_HASH } else { version });
}

/// Takes the hash off the front, if the head says that there is one.
fn split_hash<'b>(
    head: u8,
    bytes: &'b [u8],
    of: &'static str,
) -> Result<(Option<Hash>, &'b [u8]), SerdeError> {
    if head & NO_HASH != 0 {
        return Ok((None, bytes));
    }
    let (hash, rest) = bytes.split_first_chunk().ok_or_else(|| malformed(of, "its hash is cut"))?;
    Ok((Some(*hash), rest))
}

/// Writes and reads subscriptions.
pub(crate) struct SubscriptionSerde<K>(pub(crate) SharedSerde<K>);

impl<K: 'static> Serde<Subscription<K>> for SubscriptionSerde<K> {
    fn write(&self, value: &Subscription<K>, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        let version = if value.partition.is_some() { SUBSCRIPTION_VERSION } else { 0 };
        write_head(version, value.hash.as_ref(), out);
        out.push(value.instruction as u8);
        out.extend_from_slice(value.hash.as_ref().map_or(&[], |hash| &hash[..]));
        if self.0.write(&value.primary_key, out)? == Field::Null {
            return Err(SerdeError::UnexpectedNull { expected: "a primary key" });
        }
        out.extend_from_slice(value.partition.map(i32::to_be_bytes).as_ref().map_or(&[], |p| p));
        Ok(Field::Bytes)
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<Subscription<K>, SerdeError> {
        const OF: &str = "foreign-key subscription";
        let bytes = bytes.ok_or(SerdeError::UnexpectedNull { expected: OF })?;
        let [head, code, rest @ ..] = bytes else {
            return Err(malformed(OF, "it is shorter than its head"));
        };
        let instruction =
            Instruction::of(*code).ok_or_else(|| malformed(OF, "its instruction is unknown"))?;
        let (hash, rest) = split_hash(*head, rest, OF)?;
        let (key, partition) = match head & !NO_HASH {
            0 => (rest, None),
            SUBSCRIPTION_VERSION => {
                let (key, partition) =
                    rest.split_last_chunk().ok_or_else(|| malformed(OF, "its partition is cut"))?;
                (key, Some(i32::from_be_bytes(*partition)))
            }
            _ => return Err(malformed(OF, "its version is not 0 or 1")),
        };
        let primary_key = self.0.read(Some(key))?;
        Ok(Subscription { hash, instruction, primary_key, partition })
    }
}

/// Writes and reads responses.
pub(crate) struct ResponseSerde<T>(pub(crate) SharedSerde<T>);

impl<T: 'static> Serde<Response<T>> for ResponseSerde<T> {
    fn write(&self, value: &Response<T>, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        write_head(0, value.hash.as_ref(), out);
        out.extend_from_slice(value.hash.as_ref().map_or(&[], |hash| &hash[..]));
        match &value.row {
            // A row that is written as null is none to the other side.
            Some(row) => self.0.write(row, out).map(|_| Field::Bytes),
            None => Ok(Field::Bytes),
        }
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<Response<T>, SerdeError> {
        const OF: &str = "foreign-key response";
        let bytes = bytes.ok_or(SerdeError::UnexpectedNull { expected: OF })?;
        let Some((head, rest)) = bytes.split_first() else {
            return Err(malformed(OF, "it is empty"));
        };
        if head & !NO_HASH != 0 {
            return Err(malformed(OF, "its version is not 0"));
        }
        let (hash, row) = split_hash(*head, rest, OF)?;
        let row = (!row.is_empty()).then(|| self.0.read(Some(row))).transpose()?;
        Ok(Response { hash, row, partition: None })
    }
}

/// The beginning of the keys of all subscriptions for a foreign key: its length and its bytes.
pub(crate) fn prefix(foreign_key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(foreign_key.len() as i32).to_be_bytes());
    out.extend_from_slice(foreign_key);
}

/// The 128-bit Murmur3 hash (x64) with Kafka Streams' seed.
pub(crate) fn hash(bytes: &[u8]) -> Hash {
    const SEED: u64 = 104_729;
    let (mut h1, mut h2) = (SEED, SEED);
    let mut chunks = bytes.chunks_exact(16);
    for chunk in &mut chunks {
        let (first, second) = chunk.split_at(8);
        h1 = (h1 ^ mixed1(word(first))).rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ mixed2(word(second))).rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let tail = chunks.remainder();
    let (first, second) = tail.split_at(tail.len().min(8));
    h2 ^= mixed2(word(second));
    h1 ^= mixed1(word(first));
    h1 ^= bytes.len() as u64;
    h2 ^= bytes.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2) = (finished(h1), finished(h2));
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (u128::from(h1) << 64 | u128::from(h2)).to_be_bytes()
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// Up to eight bytes, the first one lowest.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn mixed1(word: u64) -> u64 {
    word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mixed2(word: u64) -> u64 {
    word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finished(mut h: u64) -> u64 {
    h = (h ^ h >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ h >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test panics on failure")]

    use std::sync::Arc;

    use thalweg_connectors::Utf8;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// The vectors that Kafka Streams itself produced.
    #[test]
    fn hashes_are_those_of_kafka_streams() {
        for (text, expected) in [
            ("", "9d2764a018e329428c3cf3b035938518"),
            ("a", "3361634e7e0f5188e9c7dda24eae326b"),
            ("x|a", "a3c4143f7c56d45fbe7ee88904a281e8"),
            ("hello world", "bd699b58e46894087d50ce87a7f20429"),
            ("0123456789abcdef", "1a6e941ec6a76967d7d82808f505d6b1"),
            ("0123456789abcdef0", "85e3069a748c16b6bc8c0a283538abb8"),
        ] {
            assert_eq!(hex(&hash(text.as_bytes())), expected, "{text}");
        }
    }

    fn text() -> SharedSerde<String> {
        Arc::new(Utf8)
    }

    #[test]
    fn subscriptions_have_the_bytes_of_kafka_streams() {
        let serde = SubscriptionSerde(text());
        let some = Some(hash(b"x|a"));
        let of = "a3c4143f7c56d45fbe7ee88904a281e8";
        for (instruction, hash, partition, expected) in [
            (Instruction::Delete, some, Some(3), format!("0100{of}3100000003")),
            (Instruction::DeleteAndTell, some, Some(3), format!("0101{of}3100000003")),
            (Instruction::TellAny, some, Some(3), format!("0102{of}3100000003")),
            (Instruction::TellRow, some, Some(3), format!("0103{of}3100000003")),
            (Instruction::DeleteAndTell, None, Some(3), "81013100000003".to_owned()),
            (Instruction::TellRow, some, None, format!("0003{of}31")),
            (Instruction::DeleteAndTell, None, None, "800131".to_owned()),
        ] {
            let primary_key = "1".to_owned();
            let subscription = Subscription { hash, instruction, primary_key, partition };
            let mut out = Vec::new();
            assert_eq!(serde.write(&subscription, &mut out), Ok(Field::Bytes));
            assert_eq!(hex(&out), expected);
            assert_eq!(serde.read(Some(&out)).unwrap(), subscription);
        }
    }

    #[test]
    fn responses_and_keys_have_the_bytes_of_kafka_streams() {
        let serde = ResponseSerde(text());
        let (some, of) = (Some(hash(b"x|a")), "a3c4143f7c56d45fbe7ee88904a281e8");
        for (hash, row, expected) in [
            (some, Some("X1"), format!("00{of}5831")),
            (some, None, format!("00{of}")),
            (None, None, "80".to_owned()),
            (None, Some("X1"), "805831".to_owned()),
        ] {
            let response = Response { hash, row: row.map(str::to_owned), partition: None };
            let mut out = Vec::new();
            assert_eq!(serde.write(&response, &mut out), Ok(Field::Bytes));
            assert_eq!(hex(&out), expected);
            assert_eq!(serde.read(Some(&out)).unwrap(), response);
        }
        let mut key = Vec::new();
        prefix(b"abc", &mut key);
        assert_eq!(hex(&key), "00000003616263");
    }

    #[test]
    fn malformed_messages_are_refused() {
        let (asks, tells) = (SubscriptionSerde(text()), ResponseSerde(text()));
        for bytes in [
            &b""[..],
            b"\x01",
            b"\x81\x01\x31",
            b"\x01\x00short",
            b"\x81\x07\x31\0\0\0\x03",
            b"\x82\x01\x31\0\0\0\x03",
        ] {
            assert!(asks.read(Some(bytes)).is_err(), "{bytes:?}");
        }
        for bytes in [&b""[..], b"\0short", b"\x81"] {
            assert!(tells.read(Some(bytes)).is_err(), "{bytes:?}");
        }
    }
}
