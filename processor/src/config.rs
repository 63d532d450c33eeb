//! What a task is told when it is made. The dotted names are Kafka Streams'.

use std::sync::Arc;

use thalweg_connectors::Timestamp;

/// What happens to a record that cannot be decoded or that user code failed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum OnError {
    /// Stop (the default of Kafka Streams: nothing is lost silently).
    #[default]
    Fail,
    /// Drop the record, count it, and go on.
    Continue,
}

/// What a source does with timestamps: `default.timestamp.extractor`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum TimestampPolicy {
    /// The record's own; a negative one is an error (the default of Kafka Streams).
    #[default]
    FailOnInvalid,
    /// The record's own; a record with a negative one is dropped and counted.
    LogAndSkip,
    /// The record's own; a negative one becomes the partition's highest so far (an error when there is none).
    UsePartitionTime,
    /// The time at which the record is taken up.
    WallClock,
}

/// What is done where Kafka Streams' results look like an accident: `semantics`.
///
/// | where | corrected | Java |
/// | --- | --- | --- |
/// | a session that ended exactly gap and grace ago | can still be read, so that a record that is not late joins it | is out of retention: the record starts a session over it, and a count goes down |
/// | a session of one instant that a further record of that instant joins | the old row is told to tables below | is not told, so that their sums count it twice |
/// | windows and sessions that are told when they close | are told before the record that closes them moves the store's retention | are told behind it: some are lost when stream time jumps |
/// | a record of a left or outer join that was given up for lack of a partner | meets none any more | meets a late one all the same, so that it makes two results |
/// | a late record of a left or outer join that lacks a partner | waits for the grace period like others | makes its result at once |
/// | the neighbours of a record that is just not late, in sliding windows | are found | are out of retention: its windows miss records |
/// | sliding windows of no length | hold the records of one instant | fail |
/// | headers of updates of sessions, without record cache | those of the record | none |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Semantics {
    /// The right thing.
    #[default]
    Corrected,
    /// What Kafka Streams does.
    Java,
}

/// Configuration of all tasks of an application.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskConfig {
    /// `application.id`: the consumer group, and the prefix of internal topics.
    pub application_id: Arc<str>,
    /// `deserialization.exception.handler`.
    pub on_deserialization_error: OnError,
    /// `processing.exception.handler`.
    pub on_processing_error: OnError,
    /// `processing.exception.handler.global.enabled`: is the processing handler asked about the processors of global stores, too? Default
    /// `false`, as in Kafka Streams: a global store that misses a record is wrong for all tasks, so that the application stops.
    pub processing_handler_covers_globals: bool,
    /// `production.exception.handler`: asked about values that their serde cannot write, and records that the producer refuses for
    /// what they are, such as too large. A value of a type that is not the serde's is a mistake of the program, and fails the
    /// node that forwarded it.
    pub on_production_error: OnError,
    /// `errors.dead.letter.queue.topic.name`: where source records go on which one of the handlers was asked, whatever it said. The
    /// topic has to be there. Default `None`: nowhere.
    ///
    /// Key and value are the bytes of the source record; both are null when a punctuation failed. Its headers come first, then
    /// those that Kafka Streams adds, as UTF-8 text: `__streams.errors.exception` (what was tried), `.message`, `.stacktrace`
    /// (causes, a line each), `.topic`, `.partition` and `.offset`. They are committed with the offset behind the record. With
    /// [`OnError::Fail`] and exactly-once they vanish with the aborted transaction.
    pub dead_letter_topic: Option<Arc<str>>,
    /// `default.timestamp.extractor`.
    pub timestamp_policy: TimestampPolicy,
    /// `statestore.cache.max.bytes` of one worker, shared equally by its tasks that have caches; 0 switches record caches off.
    /// Default 10 MiB, as in Kafka Streams.
    pub cache_max_bytes: usize,
    /// `buffered.records.per.partition`: a partition with more than that waiting is paused. Default 1000.
    pub buffered_records_max: usize,
    /// Uncommitted bytes of a task's stores above which a commit is asked for early. Default 64 MiB.
    pub uncommitted_bytes_max: usize,
    /// `semantics`: whether accidents of Kafka Streams are copied. Not by default.
    pub semantics: Semantics,
    /// Appended to the names of topics written by sinks: a replay's `-replay-NAME`. Empty otherwise.
    pub output_suffix: Arc<str>,
    /// Records below this time produce no output: a replay's `--from` behind its warm-up.
    pub output_from: Option<Timestamp>,
}

impl TaskConfig {
    /// The defaults of Kafka Streams.
    pub fn new(application_id: impl Into<Arc<str>>) -> Self {
        Self {
            application_id: application_id.into(),
            on_deserialization_error: OnError::Fail,
            on_processing_error: OnError::Fail,
            processing_handler_covers_globals: false,
            on_production_error: OnError::Fail,
            dead_letter_topic: None,
            timestamp_policy: TimestampPolicy::FailOnInvalid,
            cache_max_bytes: 10 << 20,
            buffered_records_max: 1000,
            uncommitted_bytes_max: 64 << 20,
            semantics: Semantics::Corrected,
            output_suffix: Arc::from(""),
            output_from: None,
        }
    }
}
