//! Several inputs of one task: merged by time, and waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_connectors::{
    CommittedOffset, Consumer, Fetched, Isolation, Offset, PortError, PortErrorKind, PortResult,
    Timestamp, TopicPartition,
};

use super::apps::joined;
use super::world::{World, config};
use crate::worker::Cycle;

const COUNT: usize = 300;

fn world() -> World {
    World::new(&[("orders", 1), ("users", 1), ("enriched", 1)])
}

/// Table rows at 0.., stream records from 20 000 on, both there before the start. The first record needs the last row.
fn fill(world: &World) {
    let keys: Vec<String> = (0..COUNT).map(|n| format!("k{n}")).collect();
    let users: Vec<_> = (0..).zip(&keys).map(|(at, key)| (key.as_str(), "user", at)).collect();
    let orders: Vec<_> =
        (20_000..).zip(keys.iter().rev()).map(|(at, key)| (key.as_str(), "order", at)).collect();
    world.write("users", &users);
    world.write("orders", &orders);
}

/// Field case S08.
#[test]
fn a_join_does_not_run_before_its_table_is_loaded() {
    for (poll, buffer) in [(1, 1000), (7, 10), (1000, 1000), (3, 1)] {
        let world = world();
        fill(&world);
        let mut config = config();
        (config.poll_records_max, config.task.buffered_records_max) = (poll, buffer);
        let mut worker = world.worker(&joined(false), &config);
        world.settle(&mut [&mut worker]).unwrap();
        let joined = world.texts("enriched");
        assert_eq!(joined.len(), COUNT);
        let missed = joined.iter().filter(|(_, user)| user == "nobody").count();
        assert_eq!(missed, 0, "poll {poll}, buffer {buffer}");
    }
}

#[test]
fn an_input_that_is_read_to_its_end_does_not_hold_up_the_others() {
    let world = world();
    world.write("orders", &[("k", "order", 5)]);
    let mut worker = world.worker(&joined(false), &config());
    world.settle(&mut [&mut worker]).unwrap();
    assert_eq!(world.texts("enriched"), [("k".to_owned(), "nobody".to_owned())]);
}

#[test]
fn an_input_at_its_end_is_waited_for_as_long_as_configured() {
    let world = world();
    world.write("orders", &[("k", "order", 5)]);
    let mut config = config();
    config.task_idle_max = Some(Duration::from_secs(10));
    let mut worker = world.worker(&joined(false), &config);
    let mut run = |seconds| {
        world.clock.advance(Duration::from_secs(seconds));
        for _ in 0..10 {
            worker.run_once().unwrap();
        }
        world.clock.advance(Duration::from_millis(100));
        while worker.run_once().unwrap() == Cycle::Worked {}
        world.texts("enriched").len()
    };
    assert_eq!(run(0), 0);
    assert_eq!(run(9), 0, "the table may still come");
    assert_eq!(run(1), 1, "it waited long enough");
}

#[test]
fn a_full_partition_is_paused_and_resumed() {
    let world = World::of_lines(1, &["w"; 50]);
    let mut config = config();
    (config.task.buffered_records_max, config.poll_records_max) = (4, 10);
    (config.turn_records_max, config.cycle_max) = (1, Duration::ZERO);
    let mut worker = world.worker(&super::counting(), &config);
    let mut most = 0;
    for _ in 0..100 {
        worker.run_once().unwrap();
        let tp = thalweg_connectors::TopicPartition::new("lines", 0);
        let buffered =
            worker.slots.values_mut().filter_map(|s| s.running()).map(|t| t.buffered(&tp));
        most = buffered.chain([most]).max().unwrap();
    }
    assert!((5..=14).contains(&most), "{most} records waited, a poll's more than allowed at most");
    world.settle(&mut [&mut worker]).unwrap();
    assert_eq!(world.totals().len(), 50);
}

/// Refuses to pause or resume once: at the n-th call.
struct Stubborn {
    inner: Box<dyn Consumer>,
    calls: usize,
    refuses: usize,
}

impl Consumer for Stubborn {
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> PortResult<()> {
        self.inner.assign(partitions)
    }

    fn unassign(&mut self, partitions: &[TopicPartition]) -> PortResult<()> {
        self.inner.unassign(partitions)
    }

    fn set_paused(&mut self, partitions: &[TopicPartition], paused: bool) -> PortResult<()> {
        self.calls += 1;
        if self.calls == self.refuses {
            return Err(PortError::new(PortErrorKind::Retriable, "cannot pause now"));
        }
        self.inner.set_paused(partitions, paused)
    }

    fn poll(
        &mut self,
        timeout: Duration,
        max_records: usize,
        out: &mut Vec<Fetched>,
    ) -> PortResult<()> {
        self.inner.poll(timeout, max_records, out)
    }

    fn committed(
        &mut self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> PortResult<BTreeMap<TopicPartition, CommittedOffset>> {
        self.inner.committed(group, partitions)
    }

    fn beginning_offsets(
        &mut self,
        partitions: &[TopicPartition],
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        self.inner.beginning_offsets(partitions)
    }

    fn end_offsets(
        &mut self,
        partitions: &[TopicPartition],
        isolation: Isolation,
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        self.inner.end_offsets(partitions, isolation)
    }

    fn offsets_for_times(
        &mut self,
        times: &[(TopicPartition, Timestamp)],
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        self.inner.offsets_for_times(times)
    }
}

#[test]
fn a_partition_that_could_not_be_paused_or_resumed_is_so_at_the_next_try() {
    for refuses in 1..8 {
        let world = World::of_lines(1, &["w"; 50]);
        let mut config = config();
        (config.task.buffered_records_max, config.poll_records_max) = (4, 10);
        (config.turn_records_max, config.cycle_max) = (1, Duration::ZERO);
        let mut worker = world.worker(&super::counting(), &config);
        worker.consumer = Box::new(Stubborn { inner: world.consumer(), calls: 0, refuses });
        world.settle(&mut [&mut worker]).unwrap();
        assert_eq!(world.totals().len(), 50, "call {refuses} was refused");
    }
}
