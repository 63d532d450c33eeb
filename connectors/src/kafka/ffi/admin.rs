//! Questions to the cluster. Each is sent, waited for on a queue of its own, and copied out.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::client::Client;
use super::{Code, ErrorText, Failure, c_string, code, millis, raw, sys, text};
use crate::ports::Isolation;
use crate::wire::{Offset, TopicPartition};

/// A list of partitions, with offsets.
pub(super) struct List(NonNull<sys::rd_kafka_topic_partition_list_t>);

impl List {
    fn new(room: usize) -> Self {
        // SAFETY: it needs nothing.
        let list = unsafe { sys::rd_kafka_topic_partition_list_new(room as i32) };
        Self(NonNull::new(list).expect("librdkafka ends the process rather than give no memory"))
    }

    fn of<'a>(
        entries: impl ExactSizeIterator<Item = (&'a str, i32, i64)>,
    ) -> Result<Self, Failure> {
        let list = Self::new(entries.len());
        for (topic, partition, offset) in entries {
            list.add(topic, partition, offset)?;
        }
        Ok(list)
    }

    /// With the text that is committed beside each offset.
    pub(super) fn of_offsets<'a>(
        entries: impl ExactSizeIterator<Item = (&'a str, i32, Offset, &'a str)>,
    ) -> Result<Self, Failure> {
        let list = Self::new(entries.len());
        for (topic, partition, offset, metadata) in entries {
            let entry = list.add(topic, partition, offset.0)?;
            let copy = CString::new(metadata)
                .map_err(|_| Failure::new(code::INVALID_ARGUMENT, "metadata holds a zero byte"))?;
            // SAFETY: the entry is in the list, which frees the text with free; so it has to be C's copy.
            unsafe {
                (*entry).metadata = strdup(copy.as_ptr()).cast();
                (*entry).metadata_size = metadata.len();
            }
        }
        Ok(list)
    }

    fn add(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<*mut sys::rd_kafka_topic_partition_t, Failure> {
        let topic = c_string(topic)?;
        // SAFETY: the list lives, the name is terminated and copied; the entry lives until the list grows.
        unsafe {
            let entry =
                sys::rd_kafka_topic_partition_list_add(self.pointer(), topic.as_ptr(), partition);
            (*entry).offset = offset;
            Ok(entry)
        }
    }

    pub(super) fn pointer(&self) -> *mut sys::rd_kafka_topic_partition_list_t {
        self.0.as_ptr()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: it is owned.
        unsafe { sys::rd_kafka_topic_partition_list_destroy(self.pointer()) }
    }
}

unsafe extern "C" {
    fn strdup(text: *const c_char) -> *mut c_char;
}

/// What is said of one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kafka) struct PartitionAnswer {
    pub(in crate::kafka) partition: TopicPartition,
    /// Negative when there is none.
    pub(in crate::kafka) offset: i64,
    pub(in crate::kafka) code: Code,
}

/// Copies a list of partitions.
///
/// # Safety
/// It is null or a list that lives during this call.
unsafe fn answers(list: *const sys::rd_kafka_topic_partition_list_t) -> Vec<PartitionAnswer> {
    // SAFETY: see above; a list holds as many entries as it says.
    unsafe {
        let Some(list) = list.as_ref() else { return Vec::new() };
        let count = usize::try_from(list.cnt).unwrap_or(0);
        (0..count).map(|i| answer(&*list.elems.add(i))).collect()
    }
}

/// # Safety
/// The entry's strings live.
unsafe fn answer(entry: &sys::rd_kafka_topic_partition_t) -> PartitionAnswer {
    // SAFETY: see above; the code comes from the wire, so it is read as a number.
    unsafe {
        PartitionAnswer {
            partition: TopicPartition::new(text(entry.topic), entry.partition),
            offset: entry.offset,
            code: (&raw const entry.err).cast::<Code>().read(),
        }
    }
}

impl Client {
    /// Starts reading partitions, each from an offset.
    pub(in crate::kafka) fn assign(
        &self,
        partitions: &[(TopicPartition, Offset)],
    ) -> Result<(), Failure> {
        let list = List::of(partitions.iter().map(|(tp, o)| (&*tp.topic, tp.partition, o.0)))?;
        // SAFETY: client and list live; the error is ours.
        unsafe { Failure::take(sys::rd_kafka_incremental_assign(self.rk(), list.pointer())) }
    }

    /// Stops reading partitions.
    pub(in crate::kafka) fn unassign(&self, partitions: &[&TopicPartition]) -> Result<(), Failure> {
        let list = List::of(partitions.iter().map(|tp| (&*tp.topic, tp.partition, 0)))?;
        // SAFETY: as above.
        unsafe { Failure::take(sys::rd_kafka_incremental_unassign(self.rk(), list.pointer())) }
    }
}

type Options = *mut sys::rd_kafka_AdminOptions_t;
type Event = *mut sys::rd_kafka_event_t;

/// A request that was sent, and its answer's way.
struct Asked<C: Deref<Target = Client>> {
    options: Options,
    queue: *mut sys::rd_kafka_queue_t,
    client: C,
}

// SAFETY: options and queue are used by nobody else, and may be used from any thread.
unsafe impl<C: Deref<Target = Client> + Send> Send for Asked<C> {}

impl<C: Deref<Target = Client>> Asked<C> {
    /// Sends a request with `send` (options, queue).
    ///
    /// # Safety
    /// `send` makes the request `op`.
    unsafe fn new(
        client: C,
        op: sys::rd_kafka_admin_op_t,
        timeout: Duration,
        send: impl FnOnce(Options, *mut sys::rd_kafka_queue_t) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let mut why = ErrorText::new();
        // SAFETY: the client lives; options and queue live as long as what is made here.
        unsafe {
            let options = sys::rd_kafka_AdminOptions_new(client.rk(), op);
            let queue = sys::rd_kafka_queue_new(client.rk());
            let asked = Self { options, queue, client };
            let (room, why) = (why.room(), why.pointer());
            sys::rd_kafka_AdminOptions_set_request_timeout(options, millis(timeout), why, room);
            send(options, queue)?;
            Ok(asked)
        }
    }

    /// Reads the answer, if it is there within so many milliseconds; -1 waits for it.
    ///
    /// # Safety
    /// `read` copies all that it takes from the event, which answers the request that was made.
    unsafe fn answer<T>(
        &mut self,
        wait: i32,
        read: impl FnOnce(Event) -> T,
    ) -> Option<Result<T, Failure>> {
        // SAFETY: the queue lives; the event is owned, and freed after it was read.
        unsafe {
            let event = sys::rd_kafka_queue_poll(self.queue, wait);
            if event.is_null() {
                return None;
            }
            let checked = Failure::check(raw::rd_kafka_event_error(event));
            let answer = checked.map(|()| read(event)).map_err(|failure| Failure {
                text: text(sys::rd_kafka_event_error_string(event)),
                ..failure
            });
            sys::rd_kafka_event_destroy(event);
            if answer.is_ok() {
                self.client.answered();
            }
            Some(answer.map_err(|failure| self.client.explain(failure)))
        }
    }
}

impl<C: Deref<Target = Client>> Drop for Asked<C> {
    fn drop(&mut self) {
        // SAFETY: both are owned, and the client lives.
        unsafe {
            sys::rd_kafka_queue_destroy(self.queue);
            sys::rd_kafka_AdminOptions_destroy(self.options);
        }
    }
}

/// Sends a request with `send`, waits for the answer, and reads it with `read`.
///
/// # Safety
/// As for [`Asked`].
unsafe fn ask<T>(
    client: &Client,
    op: sys::rd_kafka_admin_op_t,
    timeout: Duration,
    send: impl FnOnce(Options, *mut sys::rd_kafka_queue_t) -> Result<(), Failure>,
    read: impl FnOnce(Event) -> T,
) -> Result<T, Failure> {
    // SAFETY: see above. An answer comes in any case, at the latest when the time is over.
    unsafe {
        let answer = Asked::new(client, op, timeout, send)?.answer(-1, read);
        answer.unwrap_or_else(|| Err(Failure::new(code::TIMED_OUT, "no answer")))
    }
}

/// The elements of an array that a result gives by pointer and count.
///
/// # Safety
/// The function tells as many elements as it counts, and they live as long as the result.
unsafe fn array<'a, T>(of: impl FnOnce(*mut usize) -> *mut *const T) -> &'a [*const T] {
    let mut count = 0;
    let start = of(&mut count);
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: see above.
    unsafe { slice::from_raw_parts(start, count) }
}

/// A topic as it is described.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kafka) struct TopicAnswer {
    pub(in crate::kafka) name: String,
    /// Its identity.
    pub(in crate::kafka) id: String,
    pub(in crate::kafka) partitions: i32,
    pub(in crate::kafka) failure: Option<Failure>,
}

/// A question about topics whose answer is not waited for.
pub(in crate::kafka) struct TopicsAsked(Asked<Arc<Client>>);

impl TopicsAsked {
    pub(in crate::kafka) fn new(
        client: &Arc<Client>,
        names: &[&str],
        timeout: Duration,
    ) -> Result<Self, Failure> {
        send_describe(Arc::clone(client), names, timeout).map(Self)
    }

    /// The answer, once it is there.
    pub(in crate::kafka) fn answer(&mut self) -> Option<Result<Vec<TopicAnswer>, Failure>> {
        // SAFETY: it answers what `send_describe` asked.
        unsafe { self.0.answer(0, |event| read_described(event)) }
    }
}

/// Describes topics, also those that are not there.
pub(in crate::kafka) fn describe_topics(
    client: &Client,
    names: &[&str],
    timeout: Duration,
) -> Result<Vec<TopicAnswer>, Failure> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    // SAFETY: it answers what `send_describe` asked.
    let answer =
        unsafe { send_describe(client, names, timeout)?.answer(-1, |event| read_described(event)) };
    answer.unwrap_or_else(|| Err(Failure::new(code::TIMED_OUT, "no answer")))
}

fn send_describe<C: Deref<Target = Client> + Clone>(
    client: C,
    names: &[&str],
    timeout: Duration,
) -> Result<Asked<C>, Failure> {
    let owned = names.iter().map(|n| c_string(n)).collect::<Result<Vec<_>, _>>()?;
    let mut pointers: Vec<_> = owned.iter().map(|n| n.as_ptr()).collect();
    let op = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
    let again = client.clone();
    // SAFETY: the names live during the call, which copies them.
    unsafe {
        Asked::new(client, op, timeout, |options, queue| {
            let (start, count) = (pointers.as_mut_ptr(), pointers.len());
            let topics = sys::rd_kafka_TopicCollection_of_topic_names(start, count);
            sys::rd_kafka_DescribeTopics(again.rk(), topics, options, queue);
            sys::rd_kafka_TopicCollection_destroy(topics);
            Ok(())
        })
    }
}

/// # Safety
/// The event answers a question about topics, and lives.
unsafe fn read_described(event: Event) -> Vec<TopicAnswer> {
    // SAFETY: see above; all of the answer is copied.
    unsafe {
        let result = sys::rd_kafka_event_DescribeTopics_result(event);
        let topics = array(|n| sys::rd_kafka_DescribeTopics_result_topics(result, n));
        topics.iter().map(|topic| describe(*topic)).collect()
    }
}

/// # Safety
/// The description lives during this call.
unsafe fn describe(topic: *const sys::rd_kafka_TopicDescription_t) -> TopicAnswer {
    // SAFETY: see above.
    unsafe {
        let partitions = array(|n| sys::rd_kafka_TopicDescription_partitions(topic, n));
        let error = sys::rd_kafka_TopicDescription_error(topic);
        let id = sys::rd_kafka_TopicDescription_topic_id(topic);
        let failure = (!error.is_null()).then(|| Failure::borrowed(error));
        TopicAnswer {
            name: text(sys::rd_kafka_TopicDescription_name(topic)),
            id: if id.is_null() { String::new() } else { text(sys::rd_kafka_Uuid_base64str(id)) },
            partitions: partitions.len() as i32,
            failure: failure.filter(|f| f.code != 0),
        }
    }
}

/// The names of all topics but the cluster's own.
pub(in crate::kafka) fn topic_names(
    client: &Client,
    timeout: Duration,
) -> Result<Vec<String>, Failure> {
    // SAFETY: the client lives; the metadata is ours, read and freed; its arrays are as long as they say.
    unsafe {
        let mut metadata = ptr::null();
        let (all, no_topic) = (1, ptr::null_mut());
        let wait = millis(timeout);
        let answer = sys::rd_kafka_metadata(client.rk(), all, no_topic, &mut metadata, wait);
        Failure::check(answer as Code).map_err(|failure| client.explain(failure))?;
        client.answered();
        let topics = &*metadata;
        let count = usize::try_from(topics.topic_cnt).unwrap_or(0);
        let names = (0..count).map(|i| text((*topics.topics.add(i)).topic));
        let names = names.filter(|name| !name.starts_with("__")).collect();
        sys::rd_kafka_metadata_destroy(metadata);
        Ok(names)
    }
}

/// A topic's settings by their names, or why they cannot be told.
pub(in crate::kafka) struct SettingsAnswer {
    pub(in crate::kafka) topic: String,
    pub(in crate::kafka) settings: Result<BTreeMap<String, String>, Failure>,
}

/// Asks for the settings of topics.
pub(in crate::kafka) fn topic_settings(
    client: &Client,
    topics: &[&str],
    timeout: Duration,
) -> Result<Vec<SettingsAnswer>, Failure> {
    if topics.is_empty() {
        return Ok(Vec::new());
    }
    let names = topics.iter().map(|topic| c_string(topic)).collect::<Result<Vec<_>, _>>()?;
    // SAFETY: the resources are copied by the call and freed here; all of the answer is copied.
    unsafe {
        let op = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS;
        let send = |options: Options, queue| {
            let kind = sys::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC;
            let new = |name: &CString| sys::rd_kafka_ConfigResource_new(kind, name.as_ptr());
            let mut resources: Vec<_> = names.iter().map(new).collect();
            let (start, count) = (resources.as_mut_ptr(), resources.len());
            sys::rd_kafka_DescribeConfigs(client.rk(), start, count, options, queue);
            sys::rd_kafka_ConfigResource_destroy_array(start, count);
            Ok(())
        };
        ask(client, op, timeout, send, |event| {
            let result = sys::rd_kafka_event_DescribeConfigs_result(event);
            let resources = array(|n| sys::rd_kafka_DescribeConfigs_result_resources(result, n));
            resources.iter().map(|resource| settings(*resource)).collect()
        })
    }
}

/// # Safety
/// The resource answers a question for settings, and lives during this call.
unsafe fn settings(resource: *const sys::rd_kafka_ConfigResource_t) -> SettingsAnswer {
    // SAFETY: see above; all of it is copied.
    unsafe {
        let entries = array(|n| sys::rd_kafka_ConfigResource_configs(resource, n));
        let entry = |entry: &*const sys::rd_kafka_ConfigEntry_t| {
            let (name, value) =
                (sys::rd_kafka_ConfigEntry_name(*entry), sys::rd_kafka_ConfigEntry_value(*entry));
            (text(name), text(value))
        };
        SettingsAnswer {
            topic: text(sys::rd_kafka_ConfigResource_name(resource)),
            settings: Failure::check(raw::rd_kafka_ConfigResource_error(resource))
                .map(|()| entries.iter().map(entry).collect()),
        }
    }
}

/// A topic to be created, with as many copies as the cluster has by default when `replicas` is -1.
pub(in crate::kafka) struct NewTopicSpec<'a> {
    pub(in crate::kafka) name: &'a str,
    pub(in crate::kafka) partitions: i32,
    pub(in crate::kafka) replicas: i32,
    pub(in crate::kafka) config: Vec<(&'a str, &'a str)>,
}

/// How it went with one topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kafka) struct Outcome {
    pub(in crate::kafka) topic: String,
    pub(in crate::kafka) failure: Option<Failure>,
}

/// # Safety
/// The results live during this call.
unsafe fn outcomes(results: &[*const sys::rd_kafka_topic_result_t]) -> Vec<Outcome> {
    let outcome = |result: &*const sys::rd_kafka_topic_result_t| {
        // SAFETY: see above.
        unsafe {
            let failure = Failure::check(raw::rd_kafka_topic_result_error(*result)).err();
            let said = text(sys::rd_kafka_topic_result_error_string(*result));
            Outcome {
                topic: text(sys::rd_kafka_topic_result_name(*result)),
                failure: failure
                    .map(|f| if said.is_empty() { f } else { Failure { text: said, ..f } }),
            }
        }
    };
    results.iter().map(outcome).collect()
}

/// Topics to be created, owned.
struct NewTopics(Vec<*mut sys::rd_kafka_NewTopic_t>);

impl Drop for NewTopics {
    fn drop(&mut self) {
        // SAFETY: each is owned.
        self.0.iter().for_each(|topic| unsafe { sys::rd_kafka_NewTopic_destroy(*topic) });
    }
}

impl NewTopics {
    fn push(&mut self, spec: &NewTopicSpec<'_>) -> Result<(), Failure> {
        let name = c_string(spec.name)?;
        let mut why = ErrorText::new();
        // SAFETY: names and values are terminated and copied; the text has as much room as is said.
        unsafe {
            let (room, pointer) = (why.room(), why.pointer());
            let (partitions, replicas) = (spec.partitions, spec.replicas);
            let topic =
                sys::rd_kafka_NewTopic_new(name.as_ptr(), partitions, replicas, pointer, room);
            if topic.is_null() {
                return Err(Failure::new(code::INVALID_ARGUMENT, why.read()));
            }
            self.0.push(topic);
            for (key, value) in &spec.config {
                let (key, value) = (c_string(key)?, c_string(value)?);
                let set = sys::rd_kafka_NewTopic_set_config(topic, key.as_ptr(), value.as_ptr());
                Failure::check(set as Code)?;
            }
        }
        Ok(())
    }
}

/// Creates topics.
pub(in crate::kafka) fn create_topics(
    client: &Client,
    specs: &[NewTopicSpec<'_>],
    timeout: Duration,
) -> Result<Vec<Outcome>, Failure> {
    let mut topics = NewTopics(Vec::new());
    specs.iter().try_for_each(|spec| topics.push(spec))?;
    // SAFETY: the topics live during the call, which copies them; all of the answer is copied.
    unsafe {
        let op = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_CREATETOPICS;
        let send = |options: Options, queue| {
            let (start, count) = (topics.0.as_mut_ptr(), topics.0.len());
            sys::rd_kafka_CreateTopics(client.rk(), start, count, options, queue);
            Ok(())
        };
        ask(client, op, timeout, send, |event| {
            let result = sys::rd_kafka_event_CreateTopics_result(event);
            outcomes(array(|n| sys::rd_kafka_CreateTopics_result_topics(result, n)))
        })
    }
}

/// Deletes topics.
pub(in crate::kafka) fn delete_topics(
    client: &Client,
    names: &[&str],
    timeout: Duration,
) -> Result<Vec<Outcome>, Failure> {
    let names = names.iter().map(|n| c_string(n)).collect::<Result<Vec<_>, _>>()?;
    // SAFETY: the names are copied by the call and freed here; all of the answer is copied.
    unsafe {
        let op = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DELETETOPICS;
        let send = |options: Options, queue| {
            let new = |name: &CString| sys::rd_kafka_DeleteTopic_new(name.as_ptr());
            let mut topics: Vec<_> = names.iter().map(new).collect();
            let (start, count) = (topics.as_mut_ptr(), topics.len());
            sys::rd_kafka_DeleteTopics(client.rk(), start, count, options, queue);
            sys::rd_kafka_DeleteTopic_destroy_array(start, count);
            Ok(())
        };
        ask(client, op, timeout, send, |event| {
            let result = sys::rd_kafka_event_DeleteTopics_result(event);
            outcomes(array(|n| sys::rd_kafka_DeleteTopics_result_topics(result, n)))
        })
    }
}

/// Removes the records before an offset from each partition; tells where each begins now.
pub(in crate::kafka) fn delete_records<'a>(
    client: &Client,
    before: impl ExactSizeIterator<Item = (&'a TopicPartition, &'a Offset)>,
    timeout: Duration,
) -> Result<Vec<PartitionAnswer>, Failure> {
    let mut asked = send_delete_records(client, before, timeout)?;
    // SAFETY: it answers what `send_delete_records` asked.
    let answer = unsafe { asked.answer(-1, |event| read_deleted(event)) };
    answer.unwrap_or_else(|| Err(Failure::new(code::TIMED_OUT, "no answer")))
}

/// The same, whose answer is not waited for.
pub(in crate::kafka) struct RecordsDeleted(Asked<Arc<Client>>);

impl RecordsDeleted {
    pub(in crate::kafka) fn new<'a>(
        client: &Arc<Client>,
        before: impl ExactSizeIterator<Item = (&'a TopicPartition, &'a Offset)>,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        send_delete_records(Arc::clone(client), before, timeout).map(Self)
    }

    /// The answer, once it is there.
    pub(in crate::kafka) fn answer(&mut self) -> Option<Result<Vec<PartitionAnswer>, Failure>> {
        // SAFETY: it answers what `send_delete_records` asked.
        unsafe { self.0.answer(0, |event| read_deleted(event)) }
    }
}

fn send_delete_records<'a, C: Deref<Target = Client> + Clone>(
    client: C,
    before: impl ExactSizeIterator<Item = (&'a TopicPartition, &'a Offset)>,
    timeout: Duration,
) -> Result<Asked<C>, Failure> {
    let list = List::of(before.map(|(tp, offset)| (&*tp.topic, tp.partition, offset.0)))?;
    let op = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DELETERECORDS;
    let again = client.clone();
    // SAFETY: the list is copied by the call.
    unsafe {
        Asked::new(client, op, timeout, |options, queue| {
            let mut request = sys::rd_kafka_DeleteRecords_new(list.pointer());
            sys::rd_kafka_DeleteRecords(again.rk(), &mut request, 1, options, queue);
            sys::rd_kafka_DeleteRecords_destroy(request);
            Ok(())
        })
    }
}

/// # Safety
/// The event answers a deletion of records, and lives.
unsafe fn read_deleted(event: Event) -> Vec<PartitionAnswer> {
    // SAFETY: see above; all of the answer is copied.
    unsafe {
        answers(sys::rd_kafka_DeleteRecords_result_offsets(
            sys::rd_kafka_event_DeleteRecords_result(event),
        ))
    }
}

/// Which offset of a partition is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kafka) enum At {
    /// The first.
    Start,
    /// After the last.
    End,
    /// The first whose record is not older.
    Time(i64),
}

/// Asks for offsets.
pub(in crate::kafka) fn list_offsets<'a>(
    client: &Client,
    partitions: impl ExactSizeIterator<Item = (&'a TopicPartition, At)>,
    isolation: Isolation,
    timeout: Duration,
) -> Result<Vec<PartitionAnswer>, Failure> {
    let mut asked = send_list_offsets(client, partitions, isolation, timeout)?;
    // SAFETY: it answers what `send_list_offsets` asked.
    let answer = unsafe { asked.answer(-1, |event| read_offsets(event)) };
    answer.unwrap_or_else(|| Err(Failure::new(code::TIMED_OUT, "no answer")))
}

/// A question for offsets whose answer is not waited for.
pub(in crate::kafka) struct OffsetsAsked(Asked<Arc<Client>>);

impl OffsetsAsked {
    pub(in crate::kafka) fn new<'a>(
        client: &Arc<Client>,
        partitions: impl ExactSizeIterator<Item = (&'a TopicPartition, At)>,
        isolation: Isolation,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        send_list_offsets(Arc::clone(client), partitions, isolation, timeout).map(Self)
    }

    /// The answer, once it is there.
    pub(in crate::kafka) fn answer(&mut self) -> Option<Result<Vec<PartitionAnswer>, Failure>> {
        // SAFETY: it answers what `send_list_offsets` asked.
        unsafe { self.0.answer(0, |event| read_offsets(event)) }
    }
}

fn send_list_offsets<'a, C: Deref<Target = Client> + Clone>(
    client: C,
    partitions: impl ExactSizeIterator<Item = (&'a TopicPartition, At)>,
    isolation: Isolation,
    timeout: Duration,
) -> Result<Asked<C>, Failure> {
    let spec = |at| match at {
        At::Start => sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_EARLIEST as i64,
        At::End => sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_LATEST as i64,
        At::Time(time) => time.max(0),
    };
    let level = match isolation {
        Isolation::ReadCommitted => {
            sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED
        }
        Isolation::ReadUncommitted => {
            sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED
        }
    };
    let list = List::of(partitions.map(|(tp, at)| (&*tp.topic, tp.partition, spec(at))))?;
    let op = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS;
    let again = client.clone();
    // SAFETY: the list is copied by the call.
    unsafe {
        Asked::new(client, op, timeout, |options, queue| {
            Failure::take(sys::rd_kafka_AdminOptions_set_isolation_level(options, level))?;
            sys::rd_kafka_ListOffsets(again.rk(), list.pointer(), options, queue);
            Ok(())
        })
    }
}

/// # Safety
/// The event answers a question for offsets, and lives.
unsafe fn read_offsets(event: Event) -> Vec<PartitionAnswer> {
    // SAFETY: see above; all of the answer is copied.
    unsafe {
        let result = sys::rd_kafka_event_ListOffsets_result(event);
        let infos = array(|n| sys::rd_kafka_ListOffsets_result_infos(result, n));
        let partition = |info| sys::rd_kafka_ListOffsetsResultInfo_topic_partition(info);
        infos.iter().map(|info| answer(&*partition(*info))).collect()
    }
}
