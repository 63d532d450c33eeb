//! A run of records of one partition in one contiguous buffer: what `mem://` and `log://` keep, hand out and store.

use crate::headers::HeadersRef;
use crate::wire::{NewRecord, Offset, RecordRef, Timestamp};

/// Read access to a fetched run of records, in the client's own memory.
pub trait Records: Send {
    /// How many records it holds.
    fn len(&self) -> usize;

    /// Does it hold none?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Borrows record `index`.
    ///
    /// # Panics
    /// When `index` is not below [`len`](Self::len).
    fn get(&self, index: usize) -> RecordRef<'_>;
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    offset_delta: u32,
    timestamp: i64,
    /// Where the key starts; key, value and headers lie one after the other.
    start: u32,
    key: i32,
    value: i32,
    headers: u32,
}

/// Records in one buffer; offsets count from the base offset that is set when the batch is appended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordBatch {
    base: i64,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

fn length(part: Option<&[u8]>) -> i32 {
    part.map_or(-1, |p| {
        i32::try_from(p.len()).expect("a key or value is shorter than 2 GiB")
    })
}

impl RecordBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies a record to the end, with the next offset.
    pub fn push(&mut self, record: &NewRecord<'_>) {
        let delta = self.entries.last().map_or(0, |e| e.offset_delta + 1);
        self.push_at(delta, record);
    }

    fn push_at(&mut self, offset_delta: u32, record: &NewRecord<'_>) {
        let start = u32::try_from(self.bytes.len()).expect("a batch is shorter than 4 GiB");
        self.bytes.extend_from_slice(record.key.unwrap_or_default());
        self.bytes
            .extend_from_slice(record.value.unwrap_or_default());
        self.bytes.extend_from_slice(record.headers.packed());
        self.entries.push(Entry {
            offset_delta,
            timestamp: record.timestamp.0,
            start,
            key: length(record.key),
            value: length(record.value),
            headers: record.headers.packed().len() as u32,
        });
    }

    /// Bytes of keys, values and headers.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The offset of the first record.
    pub fn base(&self) -> Offset {
        Offset(self.base)
    }

    /// Gives the batch its place in the log.
    pub fn set_base(&mut self, base: Offset) {
        self.base = base.0;
    }

    /// The offset after the last record; the base when it is empty.
    pub fn next_offset(&self) -> Offset {
        Offset(
            self.base
                + self
                    .entries
                    .last()
                    .map_or(0, |e| i64::from(e.offset_delta) + 1),
        )
    }

    /// Stamps the records that have no timestamp.
    pub fn stamp(&mut self, now: Timestamp) {
        for entry in self.entries.iter_mut().filter(|e| e.timestamp < 0) {
            entry.timestamp = now.0;
        }
    }

    /// The highest timestamp; [`Timestamp::NONE`] when empty.
    pub fn max_timestamp(&self) -> Timestamp {
        Timestamp(self.entries.iter().map(|e| e.timestamp).max().unwrap_or(-1))
    }

    /// The index of the first record at or after `offset`.
    pub fn index_of(&self, offset: Offset) -> usize {
        self.entries
            .partition_point(|e| self.base + i64::from(e.offset_delta) < offset.0)
    }

    /// Writes the batch as one blob.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.bytes.len() + self.entries.len() * 28 + 12);
        out.extend_from_slice(&self.base.to_be_bytes());
        out.extend_from_slice(&(self.entries.len() as u32).to_be_bytes());
        for e in &self.entries {
            out.extend_from_slice(&e.offset_delta.to_be_bytes());
            out.extend_from_slice(&e.timestamp.to_be_bytes());
            out.extend_from_slice(&e.start.to_be_bytes());
            out.extend_from_slice(&e.key.to_be_bytes());
            out.extend_from_slice(&e.value.to_be_bytes());
            out.extend_from_slice(&e.headers.to_be_bytes());
        }
        out.extend_from_slice(&self.bytes);
    }

    /// Reads a blob that [`encode`](Self::encode) wrote; `None` when it is not one (too short, or a part lies outside it).
    pub fn decode(mut blob: &[u8]) -> Option<Self> {
        fn word<const N: usize>(blob: &mut &[u8]) -> Option<[u8; N]> {
            let (head, tail) = blob.split_first_chunk::<N>()?;
            *blob = tail;
            Some(*head)
        }
        let base = i64::from_be_bytes(word(&mut blob)?);
        let count = u32::from_be_bytes(word(&mut blob)?) as usize;
        if blob.len() / 28 < count {
            return None;
        }
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            entries.push(Entry {
                offset_delta: u32::from_be_bytes(word(&mut blob)?),
                timestamp: i64::from_be_bytes(word(&mut blob)?),
                start: u32::from_be_bytes(word(&mut blob)?),
                key: i32::from_be_bytes(word(&mut blob)?),
                value: i32::from_be_bytes(word(&mut blob)?),
                headers: u32::from_be_bytes(word(&mut blob)?),
            });
        }
        let fits = |e: &Entry| {
            let end = u64::from(e.start)
                + e.key.max(0) as u64
                + e.value.max(0) as u64
                + u64::from(e.headers);
            end <= blob.len() as u64
        };
        entries.iter().all(fits).then(|| Self {
            base,
            bytes: blob.to_vec(),
            entries,
        })
    }
}

impl Records for RecordBatch {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn get(&self, index: usize) -> RecordRef<'_> {
        let e = &self.entries[index];
        let key_end = e.start as usize + e.key.max(0) as usize;
        let value_end = key_end + e.value.max(0) as usize;
        RecordRef {
            offset: Offset(self.base + i64::from(e.offset_delta)),
            timestamp: Timestamp(e.timestamp),
            key: (e.key >= 0).then(|| &self.bytes[e.start as usize..key_end]),
            value: (e.value >= 0).then(|| &self.bytes[key_end..value_end]),
            headers: HeadersRef::from_packed(
                &self.bytes[value_end..value_end + e.headers as usize],
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Headers;

    fn sample() -> RecordBatch {
        let headers = Headers::new().with("h", Some(b"x"));
        let mut batch = RecordBatch::new();
        batch.push(&NewRecord {
            key: Some(b"k"),
            value: Some(b"value"),
            timestamp: Timestamp(5),
            headers: headers.as_ref(),
        });
        batch.push(&NewRecord {
            key: None,
            value: Some(b""),
            timestamp: Timestamp::NONE,
            headers: HeadersRef::EMPTY,
        });
        batch.push(&NewRecord {
            key: Some(b""),
            value: None,
            timestamp: Timestamp(3),
            headers: HeadersRef::EMPTY,
        });
        batch.set_base(Offset(40));
        batch
    }

    #[test]
    fn a_batch_survives_its_encoding() {
        let (batch, mut blob) = (sample(), Vec::new());
        batch.encode(&mut blob);
        assert_eq!(RecordBatch::decode(&blob), Some(batch));
        for cut in 0..blob.len() {
            assert!(
                RecordBatch::decode(&blob[..cut]).is_none_or(|b| b.is_empty()),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn null_and_empty_stay_apart() {
        let mut batch = sample();
        batch.stamp(Timestamp(9));
        assert_eq!(
            (batch.get(1).key, batch.get(1).value),
            (None, Some(&b""[..]))
        );
        assert_eq!(
            (batch.get(2).key, batch.get(2).value),
            (Some(&b""[..]), None)
        );
        assert_eq!(batch.get(1).timestamp, Timestamp(9));
        assert_eq!(
            batch.get(0).headers.iter().next(),
            Some(("h", Some(&b"x"[..])))
        );
        assert_eq!(
            (batch.next_offset(), batch.max_timestamp()),
            (Offset(43), Timestamp(9))
        );
        assert_eq!(
            (
                batch.index_of(Offset(41)),
                batch.index_of(Offset(0)),
                batch.index_of(Offset(99))
            ),
            (1, 0, 3)
        );
    }
}
