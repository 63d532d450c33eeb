//! Records as they lie in librdkafka's buffers, a partition's queue at a time.

use std::ffi::CStr;
use std::mem;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use super::client::{self, Client};
use super::{Code, Failure, c_string, code, sys};
use crate::batch::Records;
use crate::headers::{HeadersRef, pack_count, pack_header};
use crate::wire::{Offset, RecordRef, Timestamp};

/// The queue of one partition, apart from all others.
#[derive(Debug)]
pub(in crate::kafka) struct Queue {
    queue: NonNull<sys::rd_kafka_queue_t>,
    client: Arc<Client>,
}

// SAFETY: queues may be used from any thread; `&mut self` keeps reads of one queue apart.
unsafe impl Send for Queue {}

/// What a queue holds, in order.
pub(in crate::kafka) enum Item {
    /// Records one after another.
    Records(Batch),
    /// There is nothing more for now; the next record will be at or after this offset.
    End(Offset),
    /// An error of the partition.
    Failed(Failure),
}

impl Queue {
    /// Splits the queue of a partition off. Done before the partition is assigned: nothing of it goes elsewhere.
    pub(in crate::kafka) fn split(
        client: &Arc<Client>,
        topic: &str,
        partition: i32,
    ) -> Result<Self, Failure> {
        let topic = c_string(topic)?;
        // SAFETY: the client lives, the name is terminated. The bell lies in the client's context and lives as long as it.
        let queue = unsafe {
            let queue = sys::rd_kafka_queue_get_partition(client.rk(), topic.as_ptr(), partition);
            NonNull::new(queue).inspect(|queue| {
                sys::rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut());
                let context = ptr::from_ref(client.context()).cast_mut().cast();
                let on_arrival = Some(client::on_arrival as _);
                sys::rd_kafka_queue_cb_event_enable(queue.as_ptr(), on_arrival, context);
            })
        };
        let missing = || Failure::new(code::UNKNOWN_PARTITION, "the partition has no queue");
        Ok(Self { queue: queue.ok_or_else(missing)?, client: Arc::clone(client) })
    }

    /// Takes up to `max` records and what lies between them; tells how much it took.
    pub(in crate::kafka) fn take(
        &mut self,
        max: usize,
        from: Offset,
        found: &mut Vec<Item>,
    ) -> usize {
        // SAFETY: the queue lives.
        let waiting = unsafe { sys::rd_kafka_queue_length(self.queue.as_ptr()) };
        if waiting == 0 {
            return 0;
        }
        let room = waiting.min(max);
        let mut messages = Messages::with_room(room, &self.client);
        // SAFETY: the list has room for as many pointers as are asked for, and as many are valid as the call returns.
        unsafe {
            let list = &mut messages.list;
            let (queue, start) = (self.queue.as_ptr(), list.as_mut_ptr().cast());
            let taken = sys::rd_kafka_consume_batch_queue(queue, 0, start, room);
            list.set_len(usize::try_from(taken).unwrap_or(0));
        }
        messages.sort_out(from, found)
    }

    /// Throws away what is there.
    pub(in crate::kafka) fn discard(&mut self) {
        let mut found = Vec::new();
        while self.take(1024, Offset(i64::MAX), &mut found) > 0 {
            found.clear();
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the queue is owned, and the client lives.
        unsafe { sys::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

/// Messages that are owned, errors among them.
struct Messages {
    list: Vec<NonNull<sys::rd_kafka_message_t>>,
    client: Arc<Client>,
}

impl Drop for Messages {
    fn drop(&mut self) {
        for message in &self.list {
            // SAFETY: each is owned and freed once; the client lives.
            unsafe { sys::rd_kafka_message_destroy(message.as_ptr()) }
        }
    }
}

/// The code of a message. It comes from the wire and may be one that the binding's enumeration does not have.
pub(super) fn code_of(message: &sys::rd_kafka_message_t) -> Code {
    // SAFETY: the field is as large and as aligned as a code, whose every value is valid.
    unsafe { (&raw const message.err).cast::<Code>().read() }
}

/// What a consumer's message that is an error says: the text is its payload.
pub(super) fn failure(message: &sys::rd_kafka_message_t) -> Failure {
    let code = code_of(message);
    // SAFETY: the message lives; the text of an error is its payload, and terminated.
    let text = unsafe { super::text(sys::rd_kafka_message_errstr(message)) };
    Failure::new(code, text)
}

impl Messages {
    fn with_room(room: usize, client: &Arc<Client>) -> Self {
        Self { list: Vec::with_capacity(room), client: Arc::clone(client) }
    }

    /// Parts records from errors and ends; tells how many messages there were. Records before `from` were asked for earlier.
    fn sort_out(mut self, from: Offset, found: &mut Vec<Item>) -> usize {
        let count = self.list.len();
        let plain = |m: &NonNull<sys::rd_kafka_message_t>| {
            // SAFETY: each message of the list lives.
            let message = unsafe { m.as_ref() };
            code_of(message) == 0 && message.offset >= from.0
        };
        if self.list.iter().all(plain) {
            if count > 0 {
                found.push(Item::Records(Batch::new(self)));
            }
            return count;
        }
        let client = Arc::clone(&self.client);
        let mut run = Messages::with_room(count, &client);
        for message in mem::take(&mut self.list) {
            if plain(&message) {
                run.list.push(message);
                continue;
            }
            if !run.list.is_empty() {
                let whole = mem::replace(&mut run, Messages::with_room(count, &client));
                found.push(Item::Records(Batch::new(whole)));
            }
            let mut other = Messages::with_room(1, &client);
            other.list.push(message);
            // SAFETY: the message lives until `other` is dropped.
            let message = unsafe { message.as_ref() };
            match code_of(message) {
                0 => {}
                code::PARTITION_EOF => found.push(Item::End(Offset(message.offset))),
                _ => found.push(Item::Failed(failure(message))),
            }
        }
        if !run.list.is_empty() {
            found.push(Item::Records(Batch::new(run)));
        }
        count
    }
}

/// Records in place: they are lent out where librdkafka has put them, and given back when this is dropped.
pub(in crate::kafka) struct Batch {
    messages: Messages,
    headers: Option<Box<PackedHeaders>>,
}

// SAFETY: messages may be read and freed on any thread, and nothing else holds them.
unsafe impl Send for Batch {}

/// The headers of all records of a batch that has any.
#[derive(Default)]
struct PackedHeaders {
    bytes: Vec<u8>,
    /// Where those of each record lie.
    ranges: Vec<Range<u32>>,
}

impl Batch {
    fn new(messages: Messages) -> Self {
        debug_assert!(!messages.list.is_empty(), "a batch holds a record");
        let mut headers = None;
        for (index, message) in messages.list.iter().enumerate() {
            let mut list = ptr::null_mut();
            // SAFETY: the message lives, and owns the list that it gives.
            let error = unsafe { sys::rd_kafka_message_headers(message.as_ptr(), &mut list) };
            if error == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                let all = headers.get_or_insert_with(Box::<PackedHeaders>::default);
                // SAFETY: the list lives as long as its message.
                unsafe { all.push(index, list) };
            }
        }
        Self { messages, headers }
    }

    /// The offset after the last record.
    pub(in crate::kafka) fn next(&self) -> Offset {
        let last = self.messages.list.last().expect("a batch holds a record");
        // SAFETY: the message lives.
        Offset(unsafe { last.as_ref() }.offset + 1)
    }
}

impl PackedHeaders {
    /// Packs the headers of record `index`.
    ///
    /// # Safety
    /// The list lives during this call.
    unsafe fn push(&mut self, index: usize, list: *const sys::rd_kafka_headers_t) {
        let here = self.bytes.len() as u32;
        self.ranges.resize(index, here..here);
        // SAFETY: the list lives; each name and value that it tells lives as long, and is as long as it says.
        unsafe {
            let count = sys::rd_kafka_header_cnt(list);
            pack_count(&mut self.bytes, count);
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            for at in 0..count {
                sys::rd_kafka_header_get_all(list, at, &mut name, &mut value, &mut size);
                let name = CStr::from_ptr(name).to_bytes();
                pack_header(&mut self.bytes, name, bytes(value.cast(), size));
            }
        }
        self.ranges.push(here..self.bytes.len() as u32);
    }
}

/// Null, or so many bytes.
///
/// # Safety
/// The pointer is null or so many bytes may be read there for the lifetime that the caller chooses.
unsafe fn bytes<'a>(pointer: *const u8, length: usize) -> Option<&'a [u8]> {
    // SAFETY: see above.
    (!pointer.is_null()).then(|| unsafe { slice::from_raw_parts(pointer, length) })
}

impl Records for Batch {
    fn len(&self) -> usize {
        self.messages.list.len()
    }

    fn get(&self, index: usize) -> RecordRef<'_> {
        let message = &self.messages.list[index];
        let headers = self.headers.as_deref().map_or(HeadersRef::EMPTY, |all| {
            let range = all.ranges.get(index).cloned().unwrap_or_default();
            HeadersRef::from_packed(&all.bytes[range.start as usize..range.end as usize])
        });
        // SAFETY: the message lives as long as this batch, and so do the bytes it points to; nobody writes them.
        unsafe {
            let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
            let timestamp = sys::rd_kafka_message_timestamp(message.as_ptr(), &mut kind);
            let message = message.as_ref();
            RecordRef {
                offset: Offset(message.offset),
                timestamp: Timestamp(timestamp),
                key: bytes(message.key.cast(), message.key_len),
                value: bytes(message.payload.cast(), message.len),
                headers,
            }
        }
    }
}
