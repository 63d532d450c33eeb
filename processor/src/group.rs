//! The partition group: a task's buffered inputs, merged by timestamp.

use std::collections::VecDeque;

use thalweg_connectors::{Fetched, Offset, RecordRef, Records, Timestamp, TopicPartition};

use crate::source::{Extracted, Source, SourceError};

/// Records of one fetch that wait.
struct Run {
    records: Box<dyn Records>,
    index: usize,
    next: Offset,
}

/// One input partition of a task.
pub(crate) struct Input {
    pub(crate) tp: TopicPartition,
    /// Which of the task's sources decodes it.
    pub(crate) source: usize,
    runs: VecDeque<Run>,
    buffered: usize,
    /// The time of the record at the head, once extracted.
    head: Option<Timestamp>,
    /// The highest time of a record taken so far; -1 at first.
    pub(crate) partition_time: Timestamp,
    /// The next offset to process.
    pub(crate) position: Offset,
    /// Nothing is buffered, and nothing was in the log when it was last looked at.
    caught_up: bool,
    /// Reading ends here: a replay's or `--until-end`'s bound.
    pub(crate) until: Option<Offset>,
}

impl Input {
    pub(crate) fn new(tp: TopicPartition, source: usize) -> Self {
        Self {
            tp,
            source,
            runs: VecDeque::new(),
            buffered: 0,
            head: None,
            partition_time: Timestamp::NONE,
            position: Offset(0),
            caught_up: false,
            until: None,
        }
    }

    /// Where reading begins, and the partition's time so far.
    pub(crate) fn start_at(&mut self, position: Offset, partition_time: Timestamp) {
        (self.position, self.partition_time) = (position, partition_time);
        self.drop_buffered();
    }

    fn drop_buffered(&mut self) {
        self.runs.clear();
        (self.buffered, self.head, self.caught_up) = (0, None, false);
    }

    fn add(&mut self, fetched: Fetched) {
        let records = fetched.records.len();
        if records == 0 && self.runs.is_empty() {
            self.position = self.position.max(fetched.next);
            return;
        }
        self.buffered += records;
        self.caught_up &= records == 0;
        self.runs.push_back(Run { records: fetched.records, index: 0, next: fetched.next });
    }

    pub(crate) fn buffered(&self) -> usize {
        self.buffered
    }

    /// Has it come to its bound? The offsets before it may be markers or removed records, so the record at the head counts
    /// as well as the position.
    pub(crate) fn is_finished(&self) -> bool {
        let head = || self.runs.front().map(|run| run.records.get(run.index).offset);
        self.until.is_some_and(|until| self.position >= until || head() >= Some(until))
    }

    fn head_record(&self) -> Option<RecordRef<'_>> {
        let run = self.runs.front()?;
        let record = run.records.get(run.index);
        self.until.is_none_or(|until| record.offset < until).then_some(record)
    }

    /// Goes past the record at the head.
    fn advance(&mut self) {
        let Some(run) = self.runs.front_mut() else {
            return;
        };
        self.position = Offset(run.records.get(run.index).offset.0 + 1);
        run.index += 1;
        self.buffered -= 1;
        self.head = None;
        self.pass_empty_runs();
    }

    fn pass_empty_runs(&mut self) {
        while let Some(run) = self.runs.front() {
            if run.index < run.records.len() {
                break;
            }
            self.position = self.position.max(run.next);
            self.runs.pop_front();
        }
    }
}

/// What to do about a record at the head that has no time.
pub(crate) enum BadHead {
    /// The extractor said skip.
    Skipped,
    /// The extractor said stop.
    Invalid(Timestamp),
    /// It could not be decoded or the extractor failed.
    Failed(SourceError),
}

/// All inputs of a task.
pub(crate) struct PartitionGroup {
    pub(crate) inputs: Vec<Input>,
}

impl PartitionGroup {
    pub(crate) fn new(inputs: Vec<Input>) -> Self {
        Self { inputs }
    }

    pub(crate) fn find(&mut self, tp: &TopicPartition) -> Option<&mut Input> {
        self.inputs.iter_mut().find(|i| i.tp == *tp)
    }

    /// Buffers fetched records; hands them back when the partition is not of this task.
    pub(crate) fn add(&mut self, fetched: Fetched) -> Result<(), Fetched> {
        match self.find(&fetched.partition) {
            Some(input) => {
                input.add(fetched);
                input.pass_empty_runs();
                Ok(())
            }
            None => Err(fetched),
        }
    }

    /// Notes that the log holds nothing more of a partition than was fetched.
    pub(crate) fn set_caught_up(&mut self, tp: &TopicPartition) {
        if let Some(input) = self.find(tp) {
            input.caught_up = true;
        }
    }

    /// The inputs that may hold the earliest record without our knowing: nothing buffered, and not known to be at the end.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter().filter(|i| i.head_record().is_none() && !i.caught_up && !i.is_finished())
    }

    /// The input whose head is earliest; the first of them when several are. Extracts timestamps as needed.
    pub(crate) fn earliest(
        &mut self,
        sources: &mut [Box<dyn Source>],
        now: Timestamp,
    ) -> Result<Option<(usize, Timestamp)>, (usize, BadHead)> {
        let mut best: Option<(usize, Timestamp)> = None;
        for (ix, input) in self.inputs.iter_mut().enumerate() {
            let head = match input.head {
                Some(head) => head,
                None => {
                    let Some(record) = input.head_record() else {
                        continue;
                    };
                    let source = &mut sources[input.source];
                    let head = match source.timestamp(&record, input.partition_time, now) {
                        Ok(Extracted::At(time)) => time,
                        Ok(Extracted::Skip) => return Err((ix, BadHead::Skipped)),
                        Ok(Extracted::Invalid(time)) => return Err((ix, BadHead::Invalid(time))),
                        Err(e) => return Err((ix, BadHead::Failed(e))),
                    };
                    input.head = Some(head);
                    head
                }
            };
            if best.is_none_or(|(_, time)| head < time) {
                best = Some((ix, head));
            }
        }
        Ok(best)
    }

    /// The record at the head of an input.
    pub(crate) fn head(&self, ix: usize) -> Option<RecordRef<'_>> {
        self.inputs[ix].head_record()
    }

    /// Takes the record at the head of an input, at its time.
    pub(crate) fn take(&mut self, ix: usize, time: Option<Timestamp>) {
        let input = &mut self.inputs[ix];
        if let Some(time) = time {
            input.partition_time = input.partition_time.max(time);
        }
        input.advance();
    }
}
