//! The bytes of the log. All numbers are big-endian; keys sort as what they stand for. Every value
//! but the format version is sealed: the xxh3 checksum (u64) of the rest comes first.
//!
//! | family | key | value |
//! | --- | --- | --- |
//! | meta | `f` | format version u32 |
//! | meta | `i` | the log's identity, text |
//! | meta | `n` | the number of the last topic made, u32 |
//! | meta | `t` name | topic number u32, partitions u32, then per setting name and value, each with a u32 length |
//! | meta | `e` topic u32, partition u32 | the offset after the last record, i64 |
//! | meta | `s` topic u32, partition u32 | the first offset that is kept, i64 |
//! | meta | `p` transactional id | epoch u32, number of transactions committed u64: the marker |
//! | records | topic u32, partition u32, first offset i64 | the run ([`RecordBatch::encode`]) |
//! | times | topic u32, partition u32, timestamp i64 (sign flipped) | first offset i64 of the run that brought this new highest one |
//! | offsets | group (u32 length), partition u32, topic | offset i64, metadata |

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::batch::RecordBatch;
use crate::ports::CommittedOffset;
use crate::wire::{Offset, Timestamp, TopicPartition};

/// The version of everything here.
pub(super) const VERSION: u32 = 1;

const SEAL_LEN: usize = 8;

pub(super) const VERSION_KEY: &[u8] = b"f";
pub(super) const IDENTITY_KEY: &[u8] = b"i";
pub(super) const LAST_TOPIC_KEY: &[u8] = b"n";
pub(super) const TOPIC_PREFIX: u8 = b't';
pub(super) const PRODUCER_PREFIX: u8 = b'p';

/// A topic as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StoredTopic {
    pub(super) number: u32,
    pub(super) partitions: u32,
    pub(super) config: BTreeMap<String, String>,
}

/// The key of a prefix and a name.
pub(super) fn named(prefix: u8, name: &str) -> Vec<u8> {
    [&[prefix], name.as_bytes()].concat()
}

/// The name in a key of [`named`].
pub(super) fn name_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(1..)?).ok()
}

fn place(topic: u32, partition: i32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&topic.to_be_bytes());
    key[4..].copy_from_slice(&partition.to_be_bytes());
    key
}

pub(super) fn end_key(topic: u32, partition: i32) -> Vec<u8> {
    [&b"e"[..], &place(topic, partition)].concat()
}

pub(super) fn start_key(topic: u32, partition: i32) -> Vec<u8> {
    [&b"s"[..], &place(topic, partition)].concat()
}

pub(super) fn run_key(topic: u32, partition: i32, base: Offset) -> Vec<u8> {
    [&place(topic, partition)[..], &base.0.to_be_bytes()].concat()
}

pub(super) fn time_key(topic: u32, partition: i32, time: Timestamp) -> Vec<u8> {
    let sortable = (time.0 as u64) ^ (1 << 63);
    [&place(topic, partition)[..], &sortable.to_be_bytes()].concat()
}

/// Is it a key of [`run_key`] or [`time_key`] for this partition?
pub(super) fn is_of(key: &[u8], topic: u32, partition: i32) -> bool {
    key.len() == 16 && key.starts_with(&place(topic, partition))
}

/// The first and the last-but-one bound of all keys of a topic.
pub(super) fn topic_range(topic: u32) -> (Vec<u8>, Vec<u8>) {
    let to = topic.checked_add(1).expect("topic numbers are small");
    (topic.to_be_bytes().to_vec(), to.to_be_bytes().to_vec())
}

/// The offset in a key of [`run_key`].
pub(super) fn base_of(key: &[u8]) -> Option<Offset> {
    let (_, base) = key.split_last_chunk::<8>()?;
    Some(Offset(i64::from_be_bytes(*base)))
}

/// The timestamp in a key of [`time_key`].
pub(super) fn time_of(key: &[u8]) -> Option<Timestamp> {
    let (_, sortable) = key.split_last_chunk::<8>()?;
    Some(Timestamp((u64::from_be_bytes(*sortable) ^ (1 << 63)) as i64))
}

pub(super) fn offset_value(offset: Offset) -> Vec<u8> {
    sealed_parts(&[&offset.0.to_be_bytes()])
}

pub(super) fn offset_of(value: &[u8]) -> Option<Offset> {
    let offset = i64::from_be_bytes(unsealed(value)?.try_into().ok()?);
    (offset >= 0).then_some(Offset(offset))
}

/// Seals what `write` appends.
fn sealed(capacity: usize, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut value = Vec::with_capacity(SEAL_LEN + capacity);
    value.resize(SEAL_LEN, 0);
    write(&mut value);
    let sum = xxh3_64(&value[SEAL_LEN..]);
    value[..SEAL_LEN].copy_from_slice(&sum.to_be_bytes());
    value
}

fn sealed_parts(parts: &[&[u8]]) -> Vec<u8> {
    let capacity = parts.iter().map(|p| p.len()).sum();
    sealed(capacity, |value| parts.iter().for_each(|p| value.extend_from_slice(p)))
}

/// What was sealed; `None` when a bit of it is not as it was written.
fn unsealed(value: &[u8]) -> Option<&[u8]> {
    let (sum, content) = value.split_first_chunk::<SEAL_LEN>()?;
    (u64::from_be_bytes(*sum) == xxh3_64(content)).then_some(content)
}

/// The value of a run.
pub(super) fn run_value(batch: &RecordBatch) -> Vec<u8> {
    sealed(batch.encoded_len(), |value| batch.encode(value))
}

pub(super) fn run_of(base: Offset, value: &[u8]) -> Option<RecordBatch> {
    RecordBatch::decode(base, unsealed(value)?)
}

/// The value of a text or a number that stands for itself.
pub(super) fn plain_value(content: &[u8]) -> Vec<u8> {
    sealed_parts(&[content])
}

pub(super) fn text_of(value: &[u8]) -> Option<String> {
    String::from_utf8(unsealed(value)?.to_vec()).ok()
}

pub(super) fn number_of(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(unsealed(value)?.try_into().ok()?))
}

/// The format version: never sealed, so that every version can read it.
pub(super) fn version_of(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(value.try_into().ok()?))
}

/// The marker of a transactional id.
pub(super) fn marker(epoch: u32, committed: u64) -> Vec<u8> {
    sealed_parts(&[&epoch.to_be_bytes(), &committed.to_be_bytes()])
}

pub(super) fn marker_of(value: &[u8]) -> Option<(u32, u64)> {
    let (epoch, committed) = unsealed(value)?.split_first_chunk::<4>()?;
    let committed = u64::from_be_bytes(committed.try_into().ok()?);
    Some((u32::from_be_bytes(*epoch), committed))
}

/// The key of a committed offset.
pub(super) fn group_key(group: &str, tp: &TopicPartition) -> Vec<u8> {
    let mut key = (group.len() as u32).to_be_bytes().to_vec();
    key.extend_from_slice(group.as_bytes());
    key.extend_from_slice(&tp.partition.to_be_bytes());
    key.extend_from_slice(tp.topic.as_bytes());
    key
}

/// Group and partition in a key of [`group_key`].
pub(super) fn group_of(key: &[u8]) -> Option<(&str, TopicPartition)> {
    let (length, rest) = key.split_first_chunk::<4>()?;
    let (group, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let (partition, topic) = rest.split_first_chunk::<4>()?;
    let partition = i32::from_be_bytes(*partition);
    let topic = std::str::from_utf8(topic).ok()?;
    let group = std::str::from_utf8(group).ok()?;
    Some((group, TopicPartition::new(topic, partition)))
}

pub(super) fn committed_value(committed: &CommittedOffset) -> Vec<u8> {
    sealed_parts(&[&committed.offset.0.to_be_bytes(), committed.metadata.as_bytes()])
}

pub(super) fn committed_of(value: &[u8]) -> Option<CommittedOffset> {
    let (offset, metadata) = unsealed(value)?.split_first_chunk::<8>()?;
    Some(CommittedOffset {
        offset: Offset(i64::from_be_bytes(*offset)),
        metadata: String::from_utf8(metadata.to_vec()).ok()?,
    })
}

pub(super) fn topic_value(topic: &StoredTopic) -> Vec<u8> {
    sealed(64, |value| {
        value.extend_from_slice(&topic.number.to_be_bytes());
        value.extend_from_slice(&topic.partitions.to_be_bytes());
        for text in topic.config.iter().flat_map(|(k, v)| [k, v]) {
            value.extend_from_slice(&(text.len() as u32).to_be_bytes());
            value.extend_from_slice(text.as_bytes());
        }
    })
}

pub(super) fn topic_of(value: &[u8]) -> Option<StoredTopic> {
    fn text(rest: &mut &[u8]) -> Option<String> {
        let (length, tail) = rest.split_first_chunk::<4>()?;
        let (text, tail) = tail.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        *rest = tail;
        String::from_utf8(text.to_vec()).ok()
    }
    let (number, rest) = unsealed(value)?.split_first_chunk::<4>()?;
    let (partitions, mut rest) = rest.split_first_chunk::<4>()?;
    let mut config = BTreeMap::new();
    while !rest.is_empty() {
        config.insert(text(&mut rest)?, text(&mut rest)?);
    }
    Some(StoredTopic {
        number: u32::from_be_bytes(*number),
        partitions: u32::from_be_bytes(*partitions),
        config,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeadersRef, NewRecord};
    use proptest::prelude::*;

    fn batch(values: &[Vec<u8>]) -> RecordBatch {
        let mut batch = RecordBatch::new();
        for (n, value) in values.iter().enumerate() {
            batch.push(&NewRecord {
                key: (n % 2 == 0).then_some(b"key"),
                value: (n % 3 != 0).then_some(value),
                timestamp: Timestamp(n as i64),
                headers: HeadersRef::EMPTY,
            });
        }
        batch.set_base(Offset(7));
        batch
    }

    proptest! {
        #[test]
        fn a_run_with_a_flipped_bit_or_cut_is_refused(
            values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..8),
            at in any::<prop::sample::Index>(),
            bit in 0..8u32,
        ) {
            let batch = batch(&values);
            let mut blob = run_value(&batch);
            prop_assert_eq!(run_of(Offset(7), &blob), Some(batch));
            let at = at.index(blob.len());
            prop_assert_eq!(run_of(Offset(7), &blob[..at]), None);
            blob[at] ^= 1 << bit;
            prop_assert_eq!(run_of(Offset(7), &blob), None);
        }

        #[test]
        fn no_bytes_make_decoding_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            base in any::<i64>(),
        ) {
            let _ = run_of(Offset(base), &bytes);
            if let Some(batch) = RecordBatch::decode(Offset(base), &bytes) {
                use crate::Records;
                for n in 0..batch.len() {
                    prop_assert!(batch.get(n).offset >= Offset(base));
                }
                prop_assert!(batch.next_offset() >= batch.base());
            }
            // A right seal lets any bytes through to the parsers behind it.
            let value = plain_value(&bytes);
            let _ = (topic_of(&value), committed_of(&value), marker_of(&value), offset_of(&value));
            let _ = (number_of(&value), text_of(&value), run_of(Offset(base), &value));
            let _ = (group_of(&bytes), time_of(&bytes), base_of(&bytes), name_of(&bytes));
        }

        #[test]
        fn keys_sort_as_what_they_stand_for(a in any::<i64>(), b in any::<i64>()) {
            let time = |t| time_key(1, 2, Timestamp(t));
            prop_assert_eq!(time(a).cmp(&time(b)), a.cmp(&b));
            prop_assert_eq!(time_of(&time(a)), Some(Timestamp(a)));
            let (a, b) = (a & i64::MAX, b & i64::MAX);
            let run = |o| run_key(1, 2, Offset(o));
            prop_assert_eq!(run(a).cmp(&run(b)), a.cmp(&b));
            prop_assert_eq!(base_of(&run(a)), Some(Offset(a)));
        }
    }

    #[test]
    fn stored_things_come_back() {
        let topic = StoredTopic {
            number: 3,
            partitions: 4,
            config: [("cleanup.policy".into(), "compact".into()), ("x".into(), "".into())].into(),
        };
        assert_eq!(topic_of(&topic_value(&topic)), Some(topic));
        let tp = TopicPartition::new("a-topic", 5);
        assert_eq!(group_of(&group_key("my group", &tp)), Some(("my group", tp)));
        let committed = CommittedOffset { offset: Offset(9), metadata: "é".into() };
        assert_eq!(committed_of(&committed_value(&committed)), Some(committed));
        assert_eq!(marker_of(&marker(2, 3)), Some((2, 3)));
        assert_eq!(name_of(&named(TOPIC_PREFIX, "n")), Some("n"));
    }
}
