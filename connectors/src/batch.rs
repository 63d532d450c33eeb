//! A run of records of one partition in one contiguous buffer: what `mem://` and `log://` keep,
//! hand out and store.

use std::ops::Range;
use std::sync::Arc;

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

impl Entry {
    /// Bytes of an encoded entry: everything but the start, which follows from the lengths.
    const ENCODED: usize = 24;

    /// Bytes of key, value and headers.
    fn payload(&self) -> u64 {
        self.key.max(0) as u64 + self.value.max(0) as u64 + u64::from(self.headers)
    }
}

/// Records in one buffer; offsets count from the base offset that is set when the batch is
/// appended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordBatch {
    base: i64,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl RecordBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with room for as much as `like` holds, and a little more: records are rarely
    /// of one size.
    pub fn with_room_of(like: &Self) -> Self {
        let (bytes, entries) = (like.bytes.len(), like.entries.len());
        Self {
            base: 0,
            bytes: Vec::with_capacity(bytes + bytes / 16),
            entries: Vec::with_capacity(entries + entries / 16),
        }
    }

    /// Copies a record to the end, with the next offset.
    #[inline(always)]
    pub fn push(&mut self, record: &NewRecord<'_>) {
        let (start, payload) = (self.bytes.len(), record.payload_len());
        // With that, none of the lengths and places below is cut.
        assert!(payload <= i32::MAX as usize, "a record is shorter than 2 GiB");
        assert!(start <= u32::MAX as usize, "a batch is shorter than 4 GiB");
        let length = |part: Option<&[u8]>| part.map_or(-1, |part| part.len() as i32);
        self.entries.push(Entry {
            offset_delta: self.entries.last().map_or(0, |e| e.offset_delta + 1),
            timestamp: record.timestamp.0,
            start: start as u32,
            key: length(record.key),
            value: length(record.value),
            headers: record.headers.packed().len() as u32,
        });
        self.bytes.reserve(payload);
        self.bytes.extend_from_slice(record.key.unwrap_or_default());
        self.bytes.extend_from_slice(record.value.unwrap_or_default());
        if !record.headers.is_empty() {
            self.bytes.extend_from_slice(record.headers.packed());
        }
    }

    #[inline(always)]
    fn record(&self, index: usize) -> RecordRef<'_> {
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

    /// Bytes of keys, values and headers.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that [`encode`](Self::encode) writes.
    pub fn encoded_len(&self) -> usize {
        4 + self.entries.len() * Entry::ENCODED + self.bytes.len()
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
        Offset(self.base + self.entries.last().map_or(0, |e| i64::from(e.offset_delta) + 1))
    }

    /// Stamps the records that have no timestamp.
    pub fn stamp(&mut self, now: Timestamp) {
        for entry in self.entries.iter_mut().filter(|e| e.timestamp < 0) {
            entry.timestamp = now.0;
        }
    }

    /// Stamps all records: log-append time.
    pub fn restamp(&mut self, now: Timestamp) {
        for entry in &mut self.entries {
            entry.timestamp = now.0;
        }
    }

    /// The highest timestamp; [`Timestamp::NONE`] when empty.
    pub fn max_timestamp(&self) -> Timestamp {
        Timestamp(self.entries.iter().map(|e| e.timestamp).max().unwrap_or(-1))
    }

    /// The index of the first record at or after `offset`.
    pub fn index_of(&self, offset: Offset) -> usize {
        self.entries.partition_point(|e| self.base + i64::from(e.offset_delta) < offset.0)
    }

    /// The first record at or after `from` whose timestamp is not below `time`.
    pub fn first_not_before(&self, time: Timestamp, from: Offset) -> Option<Offset> {
        self.entries[self.index_of(from)..]
            .iter()
            .find(|e| e.timestamp >= time.0)
            .map(|e| Offset(self.base + i64::from(e.offset_delta)))
    }

    /// Writes the batch as one blob, without its base: that is where the blob lies.
    ///
    /// The count of records (u32), per record offset delta (u32), timestamp (i64), length of key
    /// and of value (i32, -1 is null) and of headers (u32), all big-endian; then keys, values and
    /// headers.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.encoded_len());
        out.extend_from_slice(&(self.entries.len() as u32).to_be_bytes());
        for e in &self.entries {
            let mut fixed = [0; Entry::ENCODED];
            fixed[..4].copy_from_slice(&e.offset_delta.to_be_bytes());
            fixed[4..12].copy_from_slice(&e.timestamp.to_be_bytes());
            fixed[12..16].copy_from_slice(&e.key.to_be_bytes());
            fixed[16..20].copy_from_slice(&e.value.to_be_bytes());
            fixed[20..].copy_from_slice(&e.headers.to_be_bytes());
            out.extend_from_slice(&fixed);
        }
        out.extend_from_slice(&self.bytes);
    }

    /// Reads a blob that [`encode`](Self::encode) wrote; `None` when it is not one: too short or
    /// too long, offsets that do not ascend, lengths that do not add up.
    pub fn decode(base: Offset, blob: &[u8]) -> Option<Self> {
        let (count, rest) = blob.split_first_chunk::<4>()?;
        let count = u32::from_be_bytes(*count) as usize;
        let (fixed, bytes) = rest.split_at_checked(count.checked_mul(Entry::ENCODED)?)?;
        let mut entries = Vec::with_capacity(count);
        let mut start = 0u64;
        for fixed in fixed.as_chunks::<{ Entry::ENCODED }>().0 {
            let entry = decode_entry(fixed, u32::try_from(start).ok()?);
            start += entry.payload();
            entries.push(entry);
        }
        let ascending = entries.is_sorted_by(|a, b| a.offset_delta < b.offset_delta);
        let lengths = entries.iter().all(|e| e.key >= -1 && e.value >= -1);
        let last = entries.last().map_or(0, |e| i64::from(e.offset_delta) + 1);
        let placed = base.0 >= 0 && base.0.checked_add(last).is_some();
        (ascending && lengths && placed && start == bytes.len() as u64).then(|| Self {
            base: base.0,
            bytes: bytes.to_vec(),
            entries,
        })
    }
}

fn decode_entry(fixed: &[u8; Entry::ENCODED], start: u32) -> Entry {
    fn word(fixed: &[u8; Entry::ENCODED], at: usize) -> u32 {
        u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
    }
    Entry {
        offset_delta: word(fixed, 0),
        timestamp: (i64::from(word(fixed, 4) as i32) << 32) | i64::from(word(fixed, 8)),
        start,
        key: word(fixed, 12) as i32,
        value: word(fixed, 16) as i32,
        headers: word(fixed, 20),
    }
}

/// Some neighbouring records of a shared batch: what a fetch hands out without a copy.
#[derive(Clone, Debug, Default)]
pub struct BatchSlice {
    batch: Arc<RecordBatch>,
    range: Range<usize>,
}

impl BatchSlice {
    /// Records `range` of the batch.
    ///
    /// # Panics
    /// When the range does not lie in the batch.
    pub fn new(batch: Arc<RecordBatch>, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= batch.len(),
            "the slice lies in the batch"
        );
        Self { batch, range }
    }
}

impl Records for BatchSlice {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn get(&self, index: usize) -> RecordRef<'_> {
        assert!(index < self.range.len(), "record {index} of a fetched run");
        self.batch.record(self.range.start + index)
    }
}

impl Records for RecordBatch {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn get(&self, index: usize) -> RecordRef<'_> {
        self.record(index)
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
        assert_eq!(blob.len(), batch.encoded_len());
        assert_eq!(RecordBatch::decode(Offset(40), &blob), Some(batch));
        for cut in 0..blob.len() {
            let half = RecordBatch::decode(Offset(40), &blob[..cut]);
            assert_eq!(half, None, "cut at {cut}");
        }
    }

    #[test]
    fn a_blob_that_does_not_add_up_is_refused() {
        let mut blob = Vec::new();
        sample().encode(&mut blob);
        let decode = |at: usize, byte: u8| {
            let mut bad = blob.clone();
            bad[at] ^= byte;
            RecordBatch::decode(Offset(40), &bad)
        };
        assert_eq!(decode(3, 1), None, "a record less");
        assert_eq!(decode(0, 0x80), None, "2^31 records");
        assert_eq!(decode(4 + 24 + 3, 1), None, "the same offset twice");
        assert_eq!(decode(4 + 15, 1), None, "a shorter key");
        assert_eq!(decode(4 + 24 + 12, 0x80), None, "no such length as 2^31-1");
        assert_eq!(RecordBatch::decode(Offset(i64::MAX), &blob), None);
        assert_eq!(RecordBatch::decode(Offset(-1), &blob), None);
        blob.push(0);
        assert_eq!(RecordBatch::decode(Offset(40), &blob), None, "one byte more");
    }

    #[test]
    fn a_slice_shows_its_part_of_the_batch() {
        let slice = BatchSlice::new(Arc::new(sample()), 1..3);
        assert_eq!((slice.len(), slice.get(1).offset), (2, Offset(42)));
        assert!(std::panic::catch_unwind(|| slice.get(2).offset).is_err());
    }

    #[test]
    fn the_first_record_not_before_a_time_is_found_from_an_offset() {
        let batch = sample();
        let first = |time, from| batch.first_not_before(Timestamp(time), Offset(from));
        assert_eq!(first(3, 0), Some(Offset(40)));
        assert_eq!(first(3, 41), Some(Offset(42)));
        assert_eq!(first(6, 0), None);
    }

    #[test]
    fn null_and_empty_stay_apart() {
        let mut batch = sample();
        batch.stamp(Timestamp(9));
        assert_eq!((batch.get(1).key, batch.get(1).value), (None, Some(&b""[..])));
        assert_eq!((batch.get(2).key, batch.get(2).value), (Some(&b""[..]), None));
        assert_eq!(batch.get(1).timestamp, Timestamp(9));
        assert_eq!(batch.get(0).headers.iter().next(), Some(("h", Some(&b"x"[..]))));
        assert_eq!((batch.next_offset(), batch.max_timestamp()), (Offset(43), Timestamp(9)));
        assert_eq!(
            (batch.index_of(Offset(41)), batch.index_of(Offset(0)), batch.index_of(Offset(99))),
            (1, 0, 3)
        );
    }
}
