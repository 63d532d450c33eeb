//! The producing side: records go out, their offsets and losses come back.
//!
//! Delivery reports are asked for only for records that fail. The offsets of the others are written by an interceptor, on the
//! thread that got the answer, straight into a cell per partition: the worker touches no record twice.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::client::{Client, context_of};
use super::{Code, Failure, c_string, code, describe, millis, raw, sys};
use crate::headers::HeadersRef;
use crate::wire::{NewRecord, Offset, Timestamp};

/// Per partition of a topic, the offset after the last acknowledged record; -1 when there is none.
pub(super) type Slots = Arc<[AtomicI64]>;

/// A record that was not stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kafka) struct Delivery {
    pub(in crate::kafka) topic: String,
    pub(in crate::kafka) partition: i32,
    /// Bytes of key and value.
    pub(in crate::kafka) bytes: usize,
    pub(in crate::kafka) failure: Failure,
}

/// A topic that records are sent to.
#[derive(Debug)]
pub(in crate::kafka) struct Topic {
    topic: NonNull<sys::rd_kafka_topic_t>,
    slots: Slots,
    client: Arc<Client>,
}

// SAFETY: topics may be used from any thread.
unsafe impl Send for Topic {}

impl Topic {
    pub(in crate::kafka) fn new(
        client: &Arc<Client>,
        name: &str,
        partitions: i32,
    ) -> Result<Self, Failure> {
        let name = c_string(name)?;
        // SAFETY: the client lives, the name is terminated; without settings of its own the topic takes the client's.
        let topic = unsafe { sys::rd_kafka_topic_new(client.rk(), name.as_ptr(), ptr::null_mut()) };
        // SAFETY: it needs nothing.
        let why = || {
            let code = unsafe { sys::rd_kafka_last_error() } as Code;
            Failure::new(code, describe(code))
        };
        let topic = NonNull::new(topic).ok_or_else(why)?;
        let slots: Slots = (0..partitions).map(|_| AtomicI64::new(-1)).collect();
        let kept = &client.context().slots;
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&slots));
        Ok(Self { topic, slots, client: Arc::clone(client) })
    }

    /// Hands a record over; its bytes are copied.
    #[inline]
    pub(in crate::kafka) fn send(
        &self,
        partition: i32,
        record: &NewRecord<'_>,
    ) -> Result<(), Code> {
        use sys::rd_kafka_vtype_t as T;
        let slot = ptr::from_ref(&self.slots[partition as usize]);
        let (timestamp, opaque) = match record.timestamp.0 {
            0 => (ZERO_STANDS_IN, slot.map_addr(|a| a | ZERO_MARK)),
            stamped @ 1.. => (stamped, slot),
            _ => (0, slot),
        };
        let part = |bytes: Option<&[u8]>| bytes.map_or((ptr::null(), 0), |b| (b.as_ptr(), b.len()));
        let (key, key_len) = part(record.key);
        let (value, value_len) = part(record.value);
        let headers = native_headers(record.headers);
        // SAFETY: each tag is followed by values of the types that it demands; key and value are copied before the call returns;
        // the headers are taken over if it succeeds; the slot is kept by the client until no record is under way.
        let error = unsafe {
            sys::rd_kafka_producev(
                self.client.rk(),
                T::RD_KAFKA_VTYPE_RKT as c_int,
                self.topic.as_ptr(),
                T::RD_KAFKA_VTYPE_PARTITION as c_int,
                partition,
                T::RD_KAFKA_VTYPE_MSGFLAGS as c_int,
                sys::RD_KAFKA_MSG_F_COPY,
                T::RD_KAFKA_VTYPE_VALUE as c_int,
                value.cast::<c_void>(),
                value_len,
                T::RD_KAFKA_VTYPE_KEY as c_int,
                key.cast::<c_void>(),
                key_len,
                T::RD_KAFKA_VTYPE_TIMESTAMP as c_int,
                timestamp,
                T::RD_KAFKA_VTYPE_OPAQUE as c_int,
                opaque.cast::<c_void>(),
                T::RD_KAFKA_VTYPE_HEADERS as c_int,
                headers,
                T::RD_KAFKA_VTYPE_END as c_int,
            )
        };
        match error {
            sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
            error => {
                if !headers.is_null() {
                    // SAFETY: the call failed, so the headers are still ours.
                    unsafe { sys::rd_kafka_headers_destroy(headers) }
                }
                Err(error as Code)
            }
        }
    }

    /// Takes the offset after the last record of a partition that was acknowledged since this was last asked.
    pub(in crate::kafka) fn take_acknowledged(&self, partition: i32) -> Option<Offset> {
        let next = self.slots[partition as usize].swap(-1, Ordering::SeqCst);
        (next >= 0).then_some(Offset(next))
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: it is owned, and the client lives.
        unsafe { sys::rd_kafka_topic_destroy(self.topic.as_ptr()) }
    }
}

/// Headers in librdkafka's form; null for none.
fn native_headers(headers: HeadersRef<'_>) -> *mut sys::rd_kafka_headers_t {
    if headers.is_empty() {
        return ptr::null_mut();
    }
    // SAFETY: the list is fresh; names and values are copied, as long as they are said to be; a null value is a null header.
    unsafe {
        let list = sys::rd_kafka_headers_new(4);
        for (name, value) in headers.raw() {
            let length = |bytes: &[u8]| isize::try_from(bytes.len()).unwrap_or(isize::MAX);
            sys::rd_kafka_header_add(
                list,
                name.as_ptr().cast(),
                length(name),
                value.map_or(ptr::null(), |v| v.as_ptr().cast()),
                value.map_or(0, length),
            );
        }
        list
    }
}

impl Client {
    /// Fences earlier owners of the transactional id.
    pub(in crate::kafka) fn init_transactions(&self, timeout: Duration) -> Result<(), Failure> {
        // SAFETY: the client lives; the error is ours.
        unsafe { Failure::take(sys::rd_kafka_init_transactions(self.rk(), millis(timeout))) }
    }

    pub(in crate::kafka) fn begin_transaction(&self) -> Result<(), Failure> {
        // SAFETY: as above.
        unsafe { Failure::take(sys::rd_kafka_begin_transaction(self.rk())) }
    }

    /// Adds offsets to the transaction, in the name of a group's member.
    pub(in crate::kafka) fn send_offsets<'a>(
        &self,
        offsets: impl ExactSizeIterator<Item = (&'a str, i32, Offset, &'a str)>,
        (group, generation, member): (&str, i32, &str),
        timeout: Duration,
    ) -> Result<(), Failure> {
        let (group, member) = (c_string(group)?, c_string(member)?);
        let list = super::admin::List::of_offsets(offsets)?;
        // SAFETY: all that is passed lives during the call, which copies it; the metadata is freed after it, the error is ours.
        unsafe {
            let metadata = sys::rd_kafka_consumer_group_metadata_new_with_genid(
                group.as_ptr(),
                generation,
                member.as_ptr(),
                ptr::null(),
            );
            let error = sys::rd_kafka_send_offsets_to_transaction(
                self.rk(),
                list.pointer(),
                metadata,
                millis(timeout),
            );
            sys::rd_kafka_consumer_group_metadata_destroy(metadata);
            Failure::take(error)
        }
    }

    /// Commits; everything sent has to be flushed before.
    pub(in crate::kafka) fn commit_transaction(&self, timeout: Duration) -> Result<(), Failure> {
        // SAFETY: the client lives; the error is ours.
        unsafe { Failure::take(sys::rd_kafka_commit_transaction(self.rk(), millis(timeout))) }
    }

    /// Aborts. Records that did not go out are thrown away; the reports of them are heard meanwhile, without which librdkafka
    /// would wait for ever.
    pub(in crate::kafka) fn abort_transaction(&self, timeout: Duration) -> Result<(), Failure> {
        std::thread::scope(|scope| {
            // SAFETY: as above.
            let abort = scope.spawn(move || unsafe {
                Failure::take(sys::rd_kafka_abort_transaction(self.rk(), millis(timeout)))
            });
            while !abort.is_finished() {
                self.hear(Duration::from_millis(1));
            }
            abort.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Waits until everything sent is stored or lost; is it?
    pub(in crate::kafka) fn flush(&self, timeout: Duration) -> bool {
        // SAFETY: the client lives.
        let left = unsafe { sys::rd_kafka_flush(self.rk(), millis(timeout)) };
        self.hear(Duration::ZERO);
        left == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
    }

    /// A record that was lost since this was last asked.
    pub(in crate::kafka) fn take_lost(&self) -> Option<Delivery> {
        self.context().lost.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How many requests to end a transaction went out, repeated ones included.
    pub(in crate::kafka) fn ends_sent(&self) -> u32 {
        self.context().ends_sent.load(Ordering::SeqCst)
    }

    /// Could a record not be given the timestamp zero?
    pub(in crate::kafka) fn zero_refused(&self) -> bool {
        self.context().zero_refused.load(Ordering::SeqCst)
    }

    /// Hears what has happened: losses and errors.
    pub(in crate::kafka) fn hear(&self, timeout: Duration) {
        let mut wait = millis(timeout);
        // SAFETY: the client lives; the queue is given back; each event is owned and freed after it was read.
        unsafe {
            let queue = sys::rd_kafka_queue_get_main(self.rk());
            loop {
                let event = sys::rd_kafka_queue_poll(queue, wait);
                if event.is_null() {
                    break;
                }
                self.hear_event(event);
                sys::rd_kafka_event_destroy(event);
                wait = 0;
            }
            sys::rd_kafka_queue_destroy(queue);
        }
    }

    /// # Safety
    /// It is an event that lives during this call.
    unsafe fn hear_event(&self, event: *mut sys::rd_kafka_event_t) {
        // SAFETY: the event lives, and so do the messages and texts in it.
        unsafe {
            match sys::rd_kafka_event_type(event) {
                sys::RD_KAFKA_EVENT_DR => {
                    while let Some(message) = sys::rd_kafka_event_message_next(event).as_ref() {
                        self.hear_loss(message);
                    }
                }
                sys::RD_KAFKA_EVENT_ERROR => {
                    let error = raw::rd_kafka_event_error(event);
                    let reason = super::text(sys::rd_kafka_event_error_string(event));
                    self.context().heard(error, &reason);
                }
                _ => {}
            }
        }
    }

    /// # Safety
    /// It is a message of a delivery report that lives.
    unsafe fn hear_loss(&self, message: &sys::rd_kafka_message_t) {
        let code = super::messages::code_of(message);
        if code == 0 {
            return;
        }
        // The broker's own words, where it has some, are not safe to read: librdkafka frees them before the report is heard.
        let failure = Failure::new(code, super::describe(code));
        let bytes = message.key_len + message.len;
        let mut lost = self.context().lost.lock().unwrap_or_else(PoisonError::into_inner);
        // The first is named; of a batch that is too large, the largest.
        if lost.as_ref().is_some_and(|known| {
            known.bytes >= bytes || known.failure.code != code || code != code::MESSAGE_TOO_LARGE
        }) {
            return;
        }
        *lost = Some(Delivery {
            // SAFETY: the message's topic lives as long as the message.
            topic: unsafe { super::text(sys::rd_kafka_topic_name(message.rkt)) },
            partition: message.partition,
            bytes,
            failure,
        });
    }
}

/// Sets up what a producer has to hear.
///
/// # Safety
/// The settings live.
pub(super) unsafe fn prepare(conf: *mut sys::rd_kafka_conf_t) -> Result<(), Failure> {
    let name = c"thalweg".as_ptr();
    // SAFETY: the settings live, the name is static, the interceptor needs no data of its own.
    unsafe {
        let events = sys::RD_KAFKA_EVENT_DR | sys::RD_KAFKA_EVENT_ERROR;
        sys::rd_kafka_conf_set_events(conf, events);
        Failure::check(sys::rd_kafka_conf_interceptor_add_on_new(
            conf,
            name,
            Some(on_new),
            ptr::null_mut(),
        ) as Code)
    }
}

type Heed = sys::rd_kafka_resp_err_t;
const HEEDED: Heed = sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;

unsafe extern "C" fn on_new(
    rk: *mut sys::rd_kafka_t,
    _: *const sys::rd_kafka_conf_t,
    _: *mut c_void,
    _: *mut c_char,
    _: usize,
) -> Heed {
    let (name, none) = (c"thalweg".as_ptr(), ptr::null_mut());
    // SAFETY: the client is being made, which is when interceptors are added; the name is static.
    unsafe {
        sys::rd_kafka_interceptor_add_on_send(rk, name, Some(on_send), none);
        sys::rd_kafka_interceptor_add_on_acknowledgement(rk, name, Some(on_acknowledged), none);
        sys::rd_kafka_interceptor_add_on_request_sent(rk, name, Some(on_request_sent), none)
    }
}

/// Writes the offset of a stored record to the cell of its partition.
unsafe extern "C" fn on_acknowledged(
    _: *mut sys::rd_kafka_t,
    message: *mut sys::rd_kafka_message_t,
    _: *mut c_void,
) -> Heed {
    // SAFETY: the message lives, and carries the address of a cell, marked or not, that the client keeps.
    unsafe {
        let message = &*message;
        let cell = message._private.map_addr(|a| a & !ZERO_MARK).cast::<AtomicI64>();
        if message.offset >= 0
            && let Some(cell) = cell.as_ref()
        {
            cell.fetch_max(message.offset + 1, Ordering::SeqCst);
        }
    }
    HEEDED
}

/// The number of EndTxn in Kafka's protocol.
const END_TXN: i16 = 26;

/// Counts the requests that end transactions: one that was sent twice may arrive late and end the next transaction.
unsafe extern "C" fn on_request_sent(
    rk: *mut sys::rd_kafka_t,
    _: c_int,
    _: *const c_char,
    _: i32,
    api: i16,
    _: i16,
    _: i32,
    _: usize,
    _: *mut c_void,
) -> Heed {
    if api == END_TXN {
        // SAFETY: librdkafka calls with its client.
        if let Some(context) = unsafe { context_of(rk) } {
            context.ends_sent.fetch_add(1, Ordering::SeqCst);
        }
    }
    HEEDED
}

// librdkafka takes a timestamp of 0 for none and puts its clock's in. A record that really is of the first millisecond of 1970
// is sent with a stand-in; before it is queued, the interceptor puts the zero where the stand-in is.

/// What is sent for a timestamp of zero: no clock says it.
const ZERO_STANDS_IN: i64 = i64::MIN + 0x7a65_726f;

/// Marks the address of a cell, which is even: the record's timestamp is zero.
const ZERO_MARK: usize = 1;

/// Where a message keeps its timestamp, after what is public, two pointers and two integers.
const TIMESTAMP_AT: usize = size_of::<sys::rd_kafka_message_t>() + 2 * size_of::<usize>() + 8;

unsafe extern "C" fn on_send(
    rk: *mut sys::rd_kafka_t,
    message: *mut sys::rd_kafka_message_t,
    _: *mut c_void,
) -> Heed {
    // SAFETY: the message lives and belongs to this thread until it is queued. It is far longer than the place that is read, and
    // that place is written only if it holds the stand-in, which nothing else does; librdkafka's own accessor confirms it.
    unsafe {
        if (*message)._private.addr() & ZERO_MARK == 0 {
            return HEEDED;
        }
        let place = message.byte_add(TIMESTAMP_AT).cast::<i64>();
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        if place.read_unaligned() == ZERO_STANDS_IN {
            place.write_unaligned(0);
        }
        if sys::rd_kafka_message_timestamp(message, &mut kind) != Timestamp(0).0
            && let Some(context) = context_of(rk)
        {
            context.zero_refused.store(true, Ordering::SeqCst);
        }
    }
    HEEDED
}
