//! The partition group: a task's buffered inputs, merged by timestamp.

use std::collections::VecDeque;

use thalweg_connectors::{Fetched, Offset, RecordRef, Records, Timestamp, TopicPartition};

use crate::source::{Extracted, Source, SourceError};

/// Records of one fetch that wait.
struct Run {
    records: Box<dyn Records>,
    len: usize,
    index: usize,
    next: Offset,
}

/// One input partition of a task.
pub(crate) struct Input {
    pub(crate) tp: TopicPartition,
    /// Which of the task's sources decodes it.
    pub(crate) source: usize,
    /// The source takes the records' own timestamps.
    keeps_timestamps: bool,
    runs: VecDeque<Run>,
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
    pub(crate) fn new(tp: TopicPartition, source: usize, keeps_timestamps: bool) -> Self {
        Self {
            tp,
            source,
            keeps_timestamps,
            runs: VecDeque::new(),
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
        (self.head, self.caught_up) = (None, false);
    }

    fn add(&mut self, fetched: Fetched) {
        let records = fetched.records.len();
        if records == 0 && self.runs.is_empty() {
            self.position = self.position.max(fetched.next);
            return;
        }
        self.caught_up &= records == 0;
        self.runs.push_back(Run {
            records: fetched.records,
            len: records,
            index: 0,
            next: fetched.next,
        });
    }

    pub(crate) fn buffered(&self) -> usize {
        self.runs.iter().map(|run| run.len - run.index).sum()
    }

    /// Has it come to its bound? The offsets before it may be markers or removed records, so the record at the head counts
    /// as well as the position.
    pub(crate) fn is_finished(&self) -> bool {
        let head = || self.runs.front().map(|run| run.records.get(run.index).offset);
        self.until.is_some_and(|until| self.position >= until || head() >= Some(until))
    }

    /// The record at the head, unless it lies behind the bound.
    pub(crate) fn head_record(&self) -> Option<RecordRef<'_>> {
        let run = self.runs.front()?;
        let record = run.records.get(run.index);
        self.until.is_none_or(|until| record.offset < until).then_some(record)
    }

    /// Is there a record to be taken?
    fn has_head(&self) -> bool {
        !self.runs.is_empty() && (self.until.is_none() || self.head_record().is_some())
    }

    /// Goes past the record at the head, which has this offset.
    fn advance(&mut self, offset: Offset) {
        let Some(run) = self.runs.front_mut() else {
            return;
        };
        self.position = Offset(offset.0 + 1);
        run.index += 1;
        self.head = None;
        if run.index == run.len {
            self.pass_empty_runs();
        }
    }

    fn pass_empty_runs(&mut self) {
        while let Some(run) = self.runs.front() {
            if run.index < run.len {
                break;
            }
            self.position = self.position.max(run.next);
            self.runs.pop_front();
        }
    }
}

/// A run on loan from the only input of a group.
pub(crate) struct PlainRun {
    run: Run,
    pub(crate) tp: TopicPartition,
    pub(crate) source: usize,
    until: Option<Offset>,
    position: Offset,
    partition_time: Timestamp,
}

impl PlainRun {
    /// The next record, unless it has no time or lies behind the bound.
    #[inline(always)]
    pub(crate) fn head(&self) -> Option<RecordRef<'_>> {
        if self.run.index >= self.run.len {
            return None;
        }
        let record = self.run.records.get(self.run.index);
        let is_plain =
            record.timestamp.0 >= 0 && self.until.is_none_or(|until| record.offset < until);
        is_plain.then_some(record)
    }

    /// Goes past the record at the head, which has this offset and time.
    #[inline(always)]
    pub(crate) fn went_past(&mut self, offset: Offset, time: Timestamp) {
        self.run.index += 1;
        self.position = Offset(offset.0 + 1);
        self.partition_time = self.partition_time.max(time);
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

/// The record to be processed next.
pub(crate) struct Head<'a> {
    /// The number of its input.
    pub(crate) ix: usize,
    pub(crate) input: &'a Input,
    pub(crate) time: Timestamp,
    pub(crate) record: RecordRef<'a>,
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
        self.inputs.iter().filter(|i| !i.has_head() && !i.caught_up && !i.is_finished())
    }

    /// Takes what is fetched of the only input, when records bring their times: the usual case, in which nothing has to be compared
    /// or kept. `None` also when there is something to decide about the record at the head. The run has to be put back.
    pub(crate) fn take_plain(&mut self) -> Option<PlainRun> {
        let [input] = &mut self.inputs[..] else { return None };
        if !input.keeps_timestamps {
            return None;
        }
        let run = PlainRun {
            run: input.runs.pop_front()?,
            tp: input.tp.clone(),
            source: input.source,
            until: input.until,
            position: input.position,
            partition_time: input.partition_time,
        };
        if run.head().is_none() {
            self.put_back(run);
            return None;
        }
        Some(run)
    }

    /// Puts back what is left of a run.
    pub(crate) fn put_back(&mut self, plain: PlainRun) {
        let [input] = &mut self.inputs[..] else { return };
        let PlainRun { run, position, partition_time, .. } = plain;
        (input.position, input.partition_time) = (position, partition_time);
        input.head = None;
        input.runs.push_front(run);
        input.pass_empty_runs();
    }

    /// The earliest record; of the first input when several are. Extracts timestamps as needed.
    pub(crate) fn earliest(
        &mut self,
        sources: &mut [Box<dyn Source>],
        now: Timestamp,
    ) -> Result<Option<Head<'_>>, (usize, BadHead)> {
        let mut best: Option<(usize, Timestamp)> = None;
        for (ix, input) in self.inputs.iter_mut().enumerate() {
            let time = match input.head {
                Some(time) => time,
                None => {
                    let Some(record) = input.head_record() else {
                        continue;
                    };
                    let time = extract(input, &record, sources, now).map_err(|bad| (ix, bad))?;
                    input.head = Some(time);
                    time
                }
            };
            if best.is_none_or(|(_, earliest)| time < earliest) {
                best = Some((ix, time));
            }
        }
        let head = best.and_then(|(ix, time)| {
            let input = &self.inputs[ix];
            input.head_record().map(|record| Head { ix, input, time, record })
        });
        Ok(head)
    }

    /// Takes the record at the head of an input, which has this offset, at its time.
    #[inline]
    pub(crate) fn take(&mut self, ix: usize, offset: Offset, time: Option<Timestamp>) {
        let input = &mut self.inputs[ix];
        if let Some(time) = time {
            input.partition_time = input.partition_time.max(time);
        }
        input.advance(offset);
    }
}

fn extract(
    input: &Input,
    record: &RecordRef<'_>,
    sources: &mut [Box<dyn Source>],
    now: Timestamp,
) -> Result<Timestamp, BadHead> {
    match sources[input.source].timestamp(record, input.partition_time, now) {
        Ok(Extracted::At(time)) => Ok(time),
        Ok(Extracted::Skip) => Err(BadHead::Skipped),
        Ok(Extracted::Invalid(time)) => Err(BadHead::Invalid(time)),
        Err(e) => Err(BadHead::Failed(e)),
    }
}
