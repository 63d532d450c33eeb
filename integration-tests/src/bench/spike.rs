//! What the erased node arena costs: the passthrough topology in a task against a loop written by hand.
//!
//! Both decode the same batches, filter, map to upper case and encode, and both hand their bytes to nobody, so that the
//! difference is partition group, context, slots and dynamic calls.

use std::collections::BTreeMap;
use std::fmt;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{
    Acknowledged, BatchSlice, CommittedOffset, Fetched, GroupMetadata, NewRecord, Offset,
    PortResult, Producer, RecordBatch, Records, Timestamp, TopicPartition, TopicSlot,
};
use thalweg_processor::{Collector, Guarantee, Task, TaskConfig, TaskId, TaskSpec};
use thalweg_state::MemEngine;
use thalweg_txn::Committer;

use super::BenchResult;
use super::driver::cpu_time;
use super::input::Input;
use super::workload::{Names, StoreChoice, Workload};

const INPUT: &str = Names::LOCAL.input;

const BATCH: usize = 4096;
const ROUNDS: usize = 400;

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Spike {
    arena: Duration,
    bare: Duration,
    records: usize,
}

impl Spike {
    fn per_record(&self, time: Duration) -> f64 {
        time.as_nanos() as f64 / self.records as f64
    }
}

impl fmt::Display for Spike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (arena, bare) = (self.per_record(self.arena), self.per_record(self.bare));
        write!(
            f,
            "{{\"spike\":true,\"records\":{},\"arena_ns\":{arena:.1},\"bare_ns\":{bare:.1},\"overhead_ns\":{:.1}}}",
            self.records,
            arena - bare
        )
    }
}

/// Takes records and keeps none.
struct Nobody;

impl Producer for Nobody {
    fn init_transactions(&mut self) -> PortResult<()> {
        Ok(())
    }

    fn begin(&mut self) -> PortResult<()> {
        Ok(())
    }

    fn topic(&mut self, _name: &str) -> PortResult<(TopicSlot, i32)> {
        Ok((TopicSlot(0), 1))
    }

    fn send(
        &mut self,
        _topic: TopicSlot,
        _partition: i32,
        record: &NewRecord<'_>,
    ) -> PortResult<()> {
        black_box(record);
        Ok(())
    }

    fn flush(&mut self) -> PortResult<Acknowledged> {
        Ok(Acknowledged::new())
    }

    fn send_offsets(
        &mut self,
        _offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        _group: &GroupMetadata,
    ) -> PortResult<()> {
        Ok(())
    }

    fn commit(&mut self) -> PortResult<Acknowledged> {
        Ok(Acknowledged::new())
    }

    fn abort(&mut self) -> PortResult<()> {
        Ok(())
    }

    fn commit_offsets(
        &mut self,
        _offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        _group: &GroupMetadata,
    ) -> PortResult<()> {
        Ok(())
    }
}

/// Measures both, turn by turn, after a warm-up.
///
/// # Errors
/// Whatever the task reports.
pub fn run_spike() -> BenchResult<Spike> {
    let input = Input::new(100_000);
    let mut batch = RecordBatch::new();
    (0..BATCH).for_each(|index| batch.push(&input.record(index)));
    let batch = Arc::new(batch);
    let topology = Workload::Passthrough.topology(StoreChoice::Memory, Names::LOCAL)?;
    let mut output = Collector::new(Box::new(Nobody), Committer::new(Guarantee::AtLeastOnce));
    let sub = &topology.sub_topologies()[0];
    let spec = TaskSpec {
        topology: &topology,
        nodes: &sub.nodes,
        stores: &sub.stores,
        id: TaskId { subtopology: 0, partition: 0 },
        partitions: &BTreeMap::from([(INPUT.into(), 1)]),
        config: Arc::new(TaskConfig::new("bench")),
    };
    let mut task = spec.build(Box::new(MemEngine::new()), &mut output)?;
    task.init(&mut output, Timestamp(0))?;
    let (mut arena, mut bare) = (Duration::ZERO, Duration::ZERO);
    for round in 0..ROUNDS * 2 {
        let start = cpu_time();
        through_the_arena(&mut task, &mut output, &batch)?;
        let middle = cpu_time();
        by_hand(&batch)?;
        if round >= ROUNDS {
            arena += middle.saturating_sub(start);
            bare += cpu_time().saturating_sub(middle);
        }
    }
    Ok(Spike { arena, bare, records: BATCH * ROUNDS })
}

fn through_the_arena(
    task: &mut Task,
    output: &mut Collector,
    batch: &Arc<RecordBatch>,
) -> BenchResult<()> {
    let fetched = Fetched {
        partition: TopicPartition::new(INPUT, 0),
        records: Box::new(BatchSlice::new(Arc::clone(batch), 0..batch.len())),
        next: Offset(batch.len() as i64),
    };
    task.add(fetched).map_err(|r| format!("a fetch of nobody's: {r:?}"))?;
    while task.process(usize::MAX, output, Timestamp(0))? > 0 {}
    Ok(())
}

fn by_hand(batch: &RecordBatch) -> BenchResult<()> {
    let (mut key_bytes, mut value_bytes) = (Vec::new(), Vec::new());
    for index in 0..batch.len() {
        let record = batch.get(index);
        let key = std::str::from_utf8(record.key.unwrap_or_default())?.to_owned();
        let value = std::str::from_utf8(record.value.unwrap_or_default())?.to_owned();
        if value.is_empty() {
            continue;
        }
        let value = value.to_uppercase();
        key_bytes.clear();
        key_bytes.extend_from_slice(key.as_bytes());
        value_bytes.clear();
        value_bytes.extend_from_slice(value.as_bytes());
        black_box(NewRecord {
            key: Some(&key_bytes),
            value: Some(&value_bytes),
            timestamp: record.timestamp,
            headers: record.headers,
        });
    }
    Ok(())
}
