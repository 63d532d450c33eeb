//! The way of a record through a task: from its input to its source, and what becomes of one that fails there.

use std::sync::Arc;

use thalweg_connectors::{Offset, RecordRef, Timestamp, TopicPartition};

use super::{Task, task_error};
use crate::collector::Collector;
use crate::config::OnError;
use crate::context::{Context, Graph};
use crate::dead_letters::Failure;
use crate::error::{NodeError, TaskError};
use crate::group::{BadHead, Head, PartitionGroup, PlainRun};
use crate::punctuate::PunctuationType;
use crate::source::{Source, SourceError};
use crate::topology::NodeIx;

/// Makes a record the current one, and lets its source hand it to the graph.
#[inline(always)]
fn hand_on(
    graph: &mut Graph,
    (source, node): (&mut dyn Source, NodeIx),
    tp: &TopicPartition,
    (record, time): (&RecordRef<'_>, Timestamp),
    output: &mut Collector,
) -> Result<(), SourceError> {
    let headers = graph.shared.take_up(tp, record.offset, time, record.headers);
    graph.shared.keep_raw(record);
    source.consume(record, time, headers, &mut Context { graph, output, node })
}

impl Task {
    /// Processes up to `max` buffered records, earliest first, with their punctuations; returns how many.
    ///
    /// # Errors
    /// The first failure; the task then has to be dropped without a commit.
    pub fn process(
        &mut self,
        max: usize,
        output: &mut Collector,
        now: Timestamp,
    ) -> Result<usize, TaskError> {
        self.process_while(max, output, now, |_| true)
    }

    /// As [`process`](Self::process), but stops before a record when there are
    /// [`unknown_inputs`](Self::unknown_inputs): one of them may hold an earlier one.
    ///
    /// # Errors
    /// As for [`process`](Self::process).
    pub fn process_known(
        &mut self,
        max: usize,
        output: &mut Collector,
        now: Timestamp,
    ) -> Result<usize, TaskError> {
        self.process_while(max, output, now, |group| group.unknown().next().is_none())
    }

    fn process_while(
        &mut self,
        max: usize,
        output: &mut Collector,
        now: Timestamp,
        go_on: impl Fn(&PartitionGroup) -> bool,
    ) -> Result<usize, TaskError> {
        self.graph.shared.wall_time = now;
        self.contained(|task| {
            let mut done = 0;
            while done < max && go_on(&task.group) {
                if let Some(run) = task.group.take_plain() {
                    done += task.process_run(run, max - done, output)?;
                } else if task.process_earliest(output, now)? {
                    done += 1;
                } else {
                    break;
                }
            }
            Ok(done)
        })
    }

    /// Processes up to `max` records of a run: the usual way of a record, one loop for all that was fetched together.
    fn process_run(
        &mut self,
        mut run: PlainRun,
        max: usize,
        output: &mut Collector,
    ) -> Result<usize, TaskError> {
        let node = self.source_nodes[run.source];
        let mut done = 0;
        while done < max
            && let Some(record) = run.head()
        {
            let (offset, time) = (record.offset, record.timestamp);
            let source = &mut *self.sources[run.source];
            if let Err(error) =
                hand_on(&mut self.graph, (source, node), &run.tp, (&record, time), output)
            {
                self.source_failed(0, error, output)?;
            }
            run.went_past(offset, time);
            done += 1;
            self.after_record(output)?;
        }
        self.worked |= done > 0;
        self.group.put_back(run);
        Ok(done)
    }

    /// What may be due after each record: timers on stream time, and the record cache when it is full.
    #[inline(always)]
    fn after_record(&mut self, output: &mut Collector) -> Result<(), TaskError> {
        let shared = &self.graph.shared;
        if shared.timers.is_due(PunctuationType::StreamTime, shared.stream_time) {
            self.run_timers(PunctuationType::StreamTime, output)?;
        }
        if self.graph.shared.cache.bytes() > self.cache_max_bytes {
            self.flush_all(output)?;
        }
        Ok(())
    }

    /// The time of the record that would be processed next; `None` when nothing is buffered. A record without a usable time
    /// comes first: what becomes of it has to be decided. So does one on which user code panics.
    pub fn next_time(&mut self, now: Timestamp) -> Option<Timestamp> {
        let next = self.contained(|task| match task.group.earliest(&mut task.sources, now) {
            Ok(earliest) => Ok(earliest.map(|head| head.time)),
            Err(_) => Ok(Some(Timestamp::NONE)),
        });
        next.unwrap_or(Some(Timestamp::NONE))
    }

    /// Processes the earliest of the records at the heads, whatever has to be decided about it.
    #[inline(never)]
    fn process_earliest(
        &mut self,
        output: &mut Collector,
        now: Timestamp,
    ) -> Result<bool, TaskError> {
        let Head { ix, input, time, record } = match self.group.earliest(&mut self.sources, now) {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(false),
            Err((ix, bad)) => {
                self.bad_head(ix, bad, output)?;
                self.after_record(output)?;
                return Ok(true);
            }
        };
        self.worked = true;
        let offset = record.offset;
        let (source, node) = (&mut *self.sources[input.source], self.source_nodes[input.source]);
        if let Err(error) =
            hand_on(&mut self.graph, (source, node), &input.tp, (&record, time), output)
        {
            self.source_failed(ix, error, output)?;
        }
        self.group.take(ix, offset, Some(time));
        self.after_record(output)?;
        Ok(true)
    }

    /// A record without a usable time: counted and passed, or the task fails.
    #[cold]
    fn bad_head(
        &mut self,
        ix: usize,
        bad: BadHead,
        output: &mut Collector,
    ) -> Result<(), TaskError> {
        self.worked = true;
        let input = &self.group.inputs[ix];
        let node = self.graph.node_name(self.source_nodes[input.source]);
        let shared = &mut self.graph.shared;
        shared.origin = Some(input.tp.clone());
        shared.offset = Offset(-1);
        if let Some(record) = input.head_record() {
            (shared.offset, shared.timestamp) = (record.offset, record.timestamp);
            shared.headers = record.headers.to_owned();
            shared.keep_raw(&record);
        }
        match bad {
            BadHead::Skipped => {
                shared.drop_record(&mut output.drops, &node, "invalid timestamp", None);
            }
            BadHead::Invalid(timestamp) => {
                let (partition, offset) = (input.tp.clone(), shared.offset);
                return Err(TaskError::InvalidTimestamp {
                    partition,
                    offset,
                    timestamp: timestamp.0,
                });
            }
            BadHead::Failed(error) => self.source_failed(ix, error, output)?,
        }
        let offset = self.graph.shared.offset;
        self.group.take(ix, offset, None);
        Ok(())
    }

    #[cold]
    fn source_failed(
        &mut self,
        ix: usize,
        error: SourceError,
        output: &mut Collector,
    ) -> Result<(), TaskError> {
        let input = &self.group.inputs[ix];
        let node = self.graph.node_name(self.source_nodes[input.source]);
        let shared = &mut self.graph.shared;
        match error {
            SourceError::Undecodable { field, error } => {
                let sent = shared.send_dead_letter(output, &node, Failure::Deserialization, &error);
                sent.map_err(|error| task_error(&self.graph, Arc::clone(&node), error))?;
                let shared = &mut self.graph.shared;
                match shared.config.on_deserialization_error {
                    OnError::Fail => Err(TaskError::Deserialization {
                        task: shared.task,
                        field,
                        partition: input.tp.clone(),
                        offset: shared.offset,
                        source: error,
                    }),
                    OnError::Continue => {
                        let why = match field {
                            "key" => "its key cannot be deserialized",
                            _ => "its value cannot be deserialized",
                        };
                        shared.drop_record(&mut output.drops, &node, why, Some(&error));
                        Ok(())
                    }
                }
            }
            SourceError::Extractor(source) => {
                Err(task_error(&self.graph, node, NodeError::user(source)))
            }
            SourceError::Node(error) => Err(task_error(&self.graph, node, error)),
        }
    }
}
