//! A client: its settings, what it says, its end.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::producer::{self, Delivery, Slots};
use super::{Code, ErrorText, Failure, c_string, code, millis, sys};

/// What a client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kafka) enum Role {
    Consumer,
    Producer,
}

/// What callbacks write; they may come from any of librdkafka's threads.
#[derive(Default)]
pub(super) struct Context {
    /// For logs.
    name: String,
    /// A connection broke or a request was not answered.
    pub(super) hiccup: AtomicBool,
    /// Why a connection broke or did not come about, since a question was last answered.
    trouble: Mutex<Option<String>>,
    /// Which partition the broker did not let into the transaction, and why.
    refused: Mutex<Option<String>>,
    /// Requests that end a transaction, as they went out.
    pub(super) ends_sent: AtomicU32,
    /// A timestamp of zero could not be set: see `producer`.
    pub(super) zero_refused: AtomicBool,
    /// The first record that was not stored.
    pub(super) lost: Mutex<Option<Delivery>>,
    /// Where the offsets of acknowledged records are written: kept until no record is under way any more.
    pub(super) slots: Mutex<Vec<Slots>>,
    bell: Bell,
}

/// Wakes the thread that waits for records.
#[derive(Default)]
struct Bell {
    state: Mutex<BellState>,
    rung: Condvar,
}

#[derive(Default)]
struct BellState {
    rung: bool,
    waiting: bool,
}

impl Bell {
    fn ring(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.rung = true;
        if state.waiting {
            self.rung.notify_one();
        }
    }

    fn wait(&self, until: Instant) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.rung {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state.waiting = true;
            state = self.rung.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting = false;
        }
        state.rung = false;
        true
    }
}

/// A client of a cluster, with its threads. It ends when nothing that came from it is left.
pub(in crate::kafka) struct Client {
    rk: NonNull<sys::rd_kafka_t>,
    /// Callbacks hold its address.
    context: Box<Context>,
}

// SAFETY: librdkafka's clients may be used from any thread, and the context is made of locks and atomics.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("name", &self.context.name).finish_non_exhaustive()
    }
}

/// Settings before there is a client.
struct Conf(*mut sys::rd_kafka_conf_t);

impl Conf {
    fn new() -> Self {
        // SAFETY: it needs nothing and never fails.
        Self(unsafe { sys::rd_kafka_conf_new() })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let (name, value) = (c_string(name)?, c_string(value)?);
        let mut why = ErrorText::new();
        // SAFETY: the settings live, the strings are terminated, the text has as much room as is said.
        let result = unsafe {
            let (room, why) = (why.room(), why.pointer());
            sys::rd_kafka_conf_set(self.0, name.as_ptr(), value.as_ptr(), why, room)
        };
        match result {
            sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK => Ok(()),
            _ => Err(Failure::new(code::INVALID_ARGUMENT, why.read())),
        }
    }
}

impl Drop for Conf {
    fn drop(&mut self) {
        // SAFETY: it is owned; once a client has taken it, this pointer is null, which is allowed.
        unsafe {
            if !self.0.is_null() {
                sys::rd_kafka_conf_destroy(self.0)
            }
        }
    }
}

/// Does librdkafka take this setting?
pub(in crate::kafka) fn check_setting(name: &str, value: &str) -> Result<(), Failure> {
    Conf::new().set(name, value)
}

impl Client {
    /// Makes a client; it connects on its own.
    pub(in crate::kafka) fn new<'a>(
        role: Role,
        name: &str,
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Arc<Self>, Failure> {
        let mut conf = Conf::new();
        for (name, value) in settings {
            conf.set(name, value)?;
        }
        let context = Box::new(Context { name: name.to_owned(), ..Context::default() });
        let mut why = ErrorText::new();
        let kind = match role {
            Role::Consumer => sys::rd_kafka_type_t::RD_KAFKA_CONSUMER,
            Role::Producer => sys::rd_kafka_type_t::RD_KAFKA_PRODUCER,
        };
        // SAFETY: the settings live until the client takes them; the context is boxed, and freed only after the client.
        let rk = unsafe {
            sys::rd_kafka_conf_set_opaque(conf.0, (&raw const *context).cast_mut().cast());
            sys::rd_kafka_conf_set_log_cb(conf.0, Some(on_log));
            match role {
                Role::Consumer => sys::rd_kafka_conf_set_error_cb(conf.0, Some(on_error)),
                Role::Producer => producer::prepare(conf.0)?,
            }
            let (room, why) = (why.room(), why.pointer());
            sys::rd_kafka_new(kind, conf.0, why, room)
        };
        let Some(rk) = NonNull::new(rk) else {
            return Err(Failure::new(code::INVALID_ARGUMENT, why.read()));
        };
        conf.0 = std::ptr::null_mut();
        if role == Role::Consumer {
            // SAFETY: the client lives. Without a group, which every consumer here has, it would fail.
            Failure::check(unsafe { sys::rd_kafka_poll_set_consumer(rk.as_ptr()) } as Code)?;
        }
        Ok(Arc::new(Self { rk, context }))
    }

    /// The pointer; valid while `self` is.
    pub(super) fn rk(&self) -> *mut sys::rd_kafka_t {
        self.rk.as_ptr()
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// What has ended this client for good.
    pub(in crate::kafka) fn fatal(&self) -> Option<Failure> {
        let mut why = ErrorText::new();
        // SAFETY: the client lives, the text has as much room as is said.
        let error = unsafe {
            let (room, why) = (why.room(), why.pointer());
            sys::rd_kafka_fatal_error(self.rk(), why, room)
        };
        (error != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR)
            .then(|| Failure { fatal: true, ..Failure::new(error as Code, why.read()) })
    }

    /// Has a connection broken or a request been left unanswered since this was last set to false?
    pub(in crate::kafka) fn hiccup(&self) -> &AtomicBool {
        &self.context.hiccup
    }

    /// A question was answered: whatever broke before is over.
    pub(super) fn answered(&self) {
        *self.context.trouble() = None;
    }

    /// Adds to an answer that did not come why connections broke meanwhile, as far as it is known.
    pub(in crate::kafka) fn explain(&self, failure: Failure) -> Failure {
        if !matches!(failure.code, code::TIMED_OUT | code::TRANSPORT | code::ALL_BROKERS_DOWN) {
            return failure;
        }
        match &*self.context.trouble() {
            Some(trouble) => Failure { text: format!("{}: {trouble}", failure.text), ..failure },
            None => failure,
        }
    }

    /// Which partition the client had no right to write to in its last transaction, in librdkafka's words.
    pub(in crate::kafka) fn take_refused(&self) -> Option<String> {
        self.context.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits until a queue that was empty is so no more. What happened before the last call counts.
    pub(in crate::kafka) fn wait(&self, timeout: Duration) -> bool {
        let now = Instant::now();
        self.context.bell.wait(now.checked_add(timeout).unwrap_or(now + Duration::from_secs(3600)))
    }

    /// Lets a consumer's callbacks run; gives an error that belongs to no split partition.
    pub(in crate::kafka) fn serve(&self, timeout: Duration) -> Option<Failure> {
        // SAFETY: the client lives and is a consumer; the message is owned, read and freed here.
        unsafe {
            let message = sys::rd_kafka_consumer_poll(self.rk(), millis(timeout));
            let failure = message.as_ref().map(super::messages::failure);
            if !message.is_null() {
                sys::rd_kafka_message_destroy(message);
            }
            failure.filter(|f| f.code != 0)
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: nothing that came from the client is left, for everything holds it; the context is freed after it. A consumer
        // never subscribed, so there is no group to leave and no offset to commit.
        unsafe {
            let all = sys::RD_KAFKA_PURGE_F_QUEUE | sys::RD_KAFKA_PURGE_F_INFLIGHT;
            sys::rd_kafka_purge(self.rk(), all | sys::RD_KAFKA_PURGE_F_NON_BLOCKING);
            sys::rd_kafka_destroy_flags(self.rk(), sys::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
        }
    }
}

/// Called when a partition's queue was empty and is so no more.
pub(super) unsafe extern "C" fn on_arrival(_: *mut sys::rd_kafka_t, context: *mut c_void) {
    // SAFETY: it is the context of a client that lives.
    let context = unsafe { &*context.cast::<Context>() };
    context.bell.ring();
}

/// The context of a client.
///
/// # Safety
/// It is a client that this module has made, and that is not freed yet.
pub(super) unsafe fn context_of<'a>(rk: *const sys::rd_kafka_t) -> Option<&'a Context> {
    // SAFETY: see above; the context is set before the client is there.
    unsafe { sys::rd_kafka_opaque(rk).cast::<Context>().as_ref() }
}

/// Hears every line of librdkafka's log, at once, on the thread that writes it: a broken connection is known before anything
/// is sent over another.
unsafe extern "C" fn on_log(
    rk: *const sys::rd_kafka_t,
    level: c_int,
    facility: *const c_char,
    line: *const c_char,
) {
    // SAFETY: librdkafka calls with its client and two terminated strings.
    let (context, facility, line) = unsafe {
        (context_of(rk), CStr::from_ptr(facility).to_string_lossy(), CStr::from_ptr(line))
    };
    let Some(context) = context else { return };
    let (client, line) = (&*context.name, line.to_string_lossy());
    // In front of it stands the name of librdkafka's thread.
    let why = || line.split_once("]: ").map_or(&*line, |(_, why)| why).to_owned();
    match &*facility {
        "FAIL" | "REQTMOUT" => {
            context.hiccup.store(true, Ordering::SeqCst);
            *context.trouble() = Some(why());
        }
        // One of them is the cause; the others were not attempted.
        "ADDPARTS" if line.contains("authorization failed") => {
            *context.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(why());
        }
        _ => {}
    }
    match level {
        ..=4 => tracing::warn!(client, %facility, "{line}"),
        5 | 6 => tracing::debug!(client, %facility, "{line}"),
        _ => tracing::trace!(client, %facility, "{line}"),
    }
}

/// Hears errors that no call has asked for.
unsafe extern "C" fn on_error(
    rk: *mut sys::rd_kafka_t,
    error: c_int,
    reason: *const c_char,
    _: *mut c_void,
) {
    // SAFETY: librdkafka calls with its client and a terminated string.
    let (context, reason) = unsafe { (context_of(rk), super::text(reason)) };
    let Some(context) = context else { return };
    context.heard(error, &reason);
}

impl Context {
    fn trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs an error of the client as a whole; it goes on by itself.
    pub(super) fn heard(&self, error: Code, reason: &str) {
        self.hiccup.store(true, Ordering::SeqCst);
        tracing::debug!(client = self.name, error, "{reason}");
    }
}
