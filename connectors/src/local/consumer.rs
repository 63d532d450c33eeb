//! The port [`Consumer`] over an engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::engine::{Bounds, Engine, Held};
use super::fault::Call;
use super::signal::{Wake, deadline};
use crate::ports::{CommittedOffset, Consumer, Fetched, Isolation, PortResult};
use crate::wire::{Offset, Timestamp, TopicPartition};

/// What a partition may give in its turn even when many others wait: less would cost more per run
/// than per record.
const RECORDS_MIN: usize = 64;

/// Where one partition is read.
#[derive(Debug)]
struct Cursor {
    tp: TopicPartition,
    position: Offset,
    paused: bool,
    held: Option<Held>,
}

#[derive(Debug)]
pub(crate) struct LocalConsumer<E> {
    engine: Arc<E>,
    isolation: Isolation,
    cursors: Vec<Cursor>,
    /// The cursor whose turn it is.
    turn: usize,
}

impl<E: Engine> LocalConsumer<E> {
    pub(crate) fn new(engine: Arc<E>, isolation: Isolation) -> Self {
        Self { engine, isolation, cursors: Vec::new(), turn: 0 }
    }

    /// Reads what is there, a fair share of each partition first.
    fn fetch_available(&mut self, max_records: usize, out: &mut Vec<Fetched>) -> PortResult<()> {
        let reading = self.cursors.iter().filter(|c| !c.paused).count();
        let fair = max_records.div_ceil(reading.max(1)).max(RECORDS_MIN);
        let mut left = max_records.max(1);
        let mut before = out.len();
        loop {
            for _ in 0..self.cursors.len() {
                self.turn = (self.turn + 1) % self.cursors.len();
                match self.fetch_one(self.turn, fair.min(left)) {
                    Ok(None) => {}
                    Ok(Some(fetched)) => {
                        left = left.saturating_sub(fetched.records.len());
                        out.push(fetched);
                    }
                    // What was read comes first; the failure comes again with the next call.
                    Err(_) if out.len() > before => return Ok(()),
                    Err(e) => return Err(e),
                }
                if left == 0 {
                    return Ok(());
                }
            }
            if out.len() == before {
                return Ok(());
            }
            before = out.len();
        }
    }

    fn fetch_one(&mut self, index: usize, max_records: usize) -> PortResult<Option<Fetched>> {
        let cursor = &mut self.cursors[index];
        if cursor.paused {
            return Ok(None);
        }
        let run = self.engine.fetch(
            &cursor.tp,
            cursor.position,
            &mut cursor.held,
            self.isolation,
            max_records,
        )?;
        Ok(run.map(|run| {
            cursor.position = run.next;
            Fetched { partition: cursor.tp.clone(), records: Box::new(run.records), next: run.next }
        }))
    }

    fn offsets(
        &self,
        partitions: &[TopicPartition],
        which: impl Fn(Bounds) -> Offset,
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        let offset = |tp: &TopicPartition| Ok((tp.clone(), which(self.engine.bounds(tp)?)));
        partitions.iter().map(offset).collect()
    }
}

impl<E: Engine> Consumer for LocalConsumer<E> {
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> PortResult<()> {
        for (tp, _) in partitions {
            self.engine.bounds(tp)?;
        }
        for (tp, position) in partitions {
            self.cursors.retain(|c| c.tp != *tp);
            self.cursors.push(Cursor {
                tp: tp.clone(),
                position: *position,
                paused: false,
                held: None,
            });
        }
        Ok(())
    }

    fn unassign(&mut self, partitions: &[TopicPartition]) -> PortResult<()> {
        self.cursors.retain(|c| !partitions.contains(&c.tp));
        Ok(())
    }

    fn set_paused(&mut self, partitions: &[TopicPartition], paused: bool) -> PortResult<()> {
        for cursor in &mut self.cursors {
            if partitions.contains(&cursor.tp) {
                cursor.paused = paused;
            }
        }
        Ok(())
    }

    fn poll(
        &mut self,
        timeout: Duration,
        max_records: usize,
        out: &mut Vec<Fetched>,
    ) -> PortResult<()> {
        let shared = Arc::clone(self.engine.shared());
        shared.faults.around(Call::Poll, || {
            let before = out.len();
            let mut until = None;
            loop {
                let seen = shared.signal.seen();
                self.fetch_available(max_records, out)?;
                if out.len() > before || timeout.is_zero() {
                    return Ok(());
                }
                let until = *until.get_or_insert_with(|| deadline(timeout));
                if shared.signal.wait(seen, until) != Wake::Arrival {
                    return Ok(());
                }
            }
        })
    }

    fn committed(
        &mut self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> PortResult<BTreeMap<TopicPartition, CommittedOffset>> {
        let faults = &self.engine.shared().faults;
        faults.around(Call::Committed, || self.engine.committed(group, partitions))
    }

    fn beginning_offsets(
        &mut self,
        partitions: &[TopicPartition],
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        self.offsets(partitions, |bounds| bounds.start)
    }

    fn end_offsets(
        &mut self,
        partitions: &[TopicPartition],
        isolation: Isolation,
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        self.offsets(partitions, |bounds| bounds.limit(isolation))
    }

    fn offsets_for_times(
        &mut self,
        times: &[(TopicPartition, Timestamp)],
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        let mut offsets = BTreeMap::new();
        for (tp, time) in times {
            let found = self.engine.offset_for_time(tp, *time, self.isolation)?;
            offsets.extend(found.map(|offset| (tp.clone(), offset)));
        }
        Ok(offsets)
    }
}
