//! While an instance joins or leaves, partitions that stay where they are go on.
//!
//! What is measured is what a user sees: when the output that comes of each input partition arrives at a plain librdkafka consumer that
//! reads committed records only. So a gap holds everything there is between two records: reading, processing, the commit (every 100 ms
//! under exactly-once), the way to the consumer, and whatever holds one of them up.
//!
//! Two kinds of tasks are looked at: those that read the input itself, and those that count, behind a repartition topic, in a store
//! with a changelog. Records of the second kind wait for two commits, one after the other, and for those of all instances that write to
//! the repartition topic: an open transaction hides what others wrote behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_connectors::partition_for;
use thalweg_integration_tests::chaos::{Entry, Reader};
use thalweg_processor::{Guarantee, Streams};

use crate::world::World;
use crate::{alone, broker};

const PARTITIONS: i32 = 6;
/// Of the input, over all partitions: every 10 ms one of each.
const PER_SECOND: u64 = 600;
/// How often an instance joins and leaves again. Of each change the best round counts: whatever else the machine does can only make a
/// gap longer.
const ROUNDS: usize = 3;
/// How long it goes on after each change.
const AFTERWARDS: Duration = Duration::from_secs(1);
/// The longest gap that is allowed.
const LIMIT: Duration = Duration::from_millis(500);

/// Notes when records arrive, by the partition they come of.
struct Watch {
    over: Arc<AtomicBool>,
    reading: JoinHandle<BTreeMap<i32, Vec<Instant>>>,
}

impl Watch {
    fn start(topic: &str, partition: fn(&Entry) -> i32) -> Self {
        let reader = Reader::new(broker::address(), topic, PARTITIONS).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let reading = thread::spawn(move || {
            let mut arrived: BTreeMap<i32, Vec<Instant>> = BTreeMap::new();
            while !ends.load(Ordering::SeqCst) {
                if let Some(entry) = reader.next().unwrap() {
                    arrived.entry(partition(&entry)).or_default().push(Instant::now());
                }
            }
            arrived
        });
        Self { over, reading }
    }

    fn end(self) -> BTreeMap<i32, Vec<Instant>> {
        self.over.store(true, Ordering::SeqCst);
        self.reading.join().unwrap()
    }
}

/// The input partition that a number was on.
fn of_number(entry: &Entry) -> i32 {
    let number: i32 = String::from_utf8_lossy(&entry.value).parse().unwrap();
    number % PARTITIONS
}

/// The partition of the repartition topic that a group is counted on.
fn of_group(entry: &Entry) -> i32 {
    partition_for(&entry.key, PARTITIONS)
}

/// A topic that is read, and its partitions that an instance has, by its number.
type Held = BTreeSet<(String, i32, usize)>;

fn held(instances: &[&Streams]) -> Held {
    let of = |(number, instance): (usize, &&Streams)| {
        let partitions = instance.metrics().snapshot().partitions;
        partitions.into_keys().map(move |tp| (tp.topic.to_string(), tp.partition, number))
    };
    instances.iter().enumerate().flat_map(of).collect()
}

/// A change of the group, and what it left where it was.
struct Change {
    what: &'static str,
    from: Instant,
    to: Instant,
    stayed: Held,
}

impl Change {
    /// Lets something happen to two instances.
    fn watch<T>(what: &'static str, two: &[&Streams; 2], happens: impl FnOnce() -> T) -> (Self, T) {
        let (before, from) = (held(two), Instant::now());
        let result = happens();
        thread::sleep(AFTERWARDS);
        let stayed = before.intersection(&held(two)).cloned().collect();
        (Self { what, from, to: Instant::now(), stayed }, result)
    }

    /// The longest gap in the output of each partition of a topic that stayed.
    fn gaps(&self, topic: &str, arrived: &BTreeMap<i32, Vec<Instant>>) -> Vec<Duration> {
        let stayed = self.stayed.iter().filter(|(of, ..)| of == topic);
        let longest = |(_, partition, _): &(String, i32, usize)| {
            let pairs =
                arrived[partition].windows(2).filter(|p| p[1] > self.from && p[0] < self.to);
            pairs.map(|pair| pair[1] - pair[0]).max().expect("something came")
        };
        stayed.map(longest).collect()
    }
}

/// Lets a third instance join and leave, and tells of each change.
fn changes(world: &World, two: [&Streams; 2]) -> Vec<Change> {
    let mut changes = Vec::new();
    for round in 0..ROUNDS {
        let (joined, guest) = Change::watch("joins", &two, || {
            // Its directory is new: it restores what it counts.
            let guest = world.start(&format!("guest-{round}"), broker::address());
            world.await_shared(&[two[0], two[1], &guest]);
            guest
        });
        let (left, ()) = Change::watch("leaves", &two, || {
            guest.stop();
            assert!(guest.join().unwrap().committed);
            world.await_shared(&two);
        });
        changes.extend([joined, left]);
    }
    changes
}

fn look_for_gaps(guarantee: Guarantee) {
    let _alone = alone();
    let mut world = World::new(&format!("gaps-{}", guarantee.as_str()), PARTITIONS);
    world.guarantee = guarantee;
    let [a, b] = ["a", "b"].map(|name| world.start(name, broker::address()));
    world.await_shared(&[&a, &b]);
    let echo = Watch::start(&world.topics.echo, of_number);
    let totals = Watch::start(&world.topics.totals, of_group);
    let changes = world.while_feeding(PER_SECOND, || {
        thread::sleep(AFTERWARDS);
        changes(&world, [&a, &b])
    });
    world.await_output();
    let (echo, totals) = (echo.end(), totals.end());
    let repartition = format!("{}-by-group-repartition", world.id());
    let mut longest: BTreeMap<(&str, &str), Duration> = BTreeMap::new();
    for change in &changes {
        for (kind, topic, arrived) in [
            ("tasks that read the input", world.topics.input.as_str(), &echo),
            ("tasks that count", repartition.as_str(), &totals),
        ] {
            let gaps = change.gaps(topic, arrived);
            println!("{guarantee:?}: one {}, {topic} stays: gaps up to {gaps:.0?}", change.what);
            assert!(gaps.len() >= PARTITIONS as usize / 2, "too few stayed to tell");
            let of_round = gaps.into_iter().max().expect("some stayed");
            let best = longest.entry((change.what, kind)).or_insert(of_round);
            *best = of_round.min(*best);
        }
    }
    world.assert_exact(vec![a, b]);
    assert!(longest.values().all(|gap| *gap <= LIMIT), "the longest gaps were {longest:?}");
}

#[test]
fn exactly_once_partitions_that_stay_go_on_while_an_instance_joins_and_leaves() {
    look_for_gaps(Guarantee::ExactlyOnce);
}

#[test]
fn at_least_once_partitions_that_stay_go_on_while_an_instance_joins_and_leaves() {
    look_for_gaps(Guarantee::AtLeastOnce);
}
