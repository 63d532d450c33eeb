//! Members that a test drives, and what must be true of them at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use thalweg_connectors::*;

/// How soon a group notices that a member is silent.
pub(crate) const SESSION: Duration = Duration::from_secs(2);
/// Nothing that is tested takes as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The address of the broker.
pub(crate) fn broker() -> String {
    crate::broker::address().to_owned()
}

/// Quick settings for a broker at this address.
pub(crate) fn config(broker: &str) -> KafkaConfig {
    KafkaConfig {
        session_timeout: SESSION,
        heartbeat_interval: Duration::from_millis(100),
        rebalance_timeout: Duration::from_secs(10),
        request_timeout: Duration::from_secs(10),
        ..KafkaConfig::new(broker)
    }
}

/// A group name that no other test and no earlier run has.
pub(crate) fn fresh_group(test: &str) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    format!("{test}-{}-{}", std::process::id(), now.as_nanos())
}

pub(crate) fn shares(groups: &[i32]) -> Vec<Share> {
    let of = |(group, &count): (usize, &i32)| {
        (0..count).map(move |partition| Share { group: group as u32, partition })
    };
    groups.iter().enumerate().flat_map(of).collect()
}

pub(crate) fn kind<T>(result: PortResult<T>) -> PortErrorKind {
    result.err().expect("an error").kind()
}

/// Waits a moment, for what happens elsewhere.
pub(crate) fn pause() {
    thread::park_timeout(Duration::from_millis(2));
}

/// One member, as a worker behaves.
pub(crate) struct Worker {
    pub(crate) member: Box<dyn Membership>,
    pub(crate) owned: BTreeSet<Share>,
    /// Told to give these up, and did not yet.
    pub(crate) revoked: BTreeSet<Share>,
    /// Keeps what it has to give up.
    pub(crate) withholds: bool,
    /// How often it was given each share.
    pub(crate) given: BTreeMap<Share, u32>,
    /// Everything it ever had to drop without a commit.
    pub(crate) lost: BTreeSet<Share>,
}

impl Worker {
    pub(crate) fn join(config: KafkaConfig, group: &str, all: &[Share]) -> Self {
        let backend = KafkaBackend::new(config);
        let member = backend.membership(&MembershipOptions {
            group: group.to_owned(),
            client_id: "worker".to_owned(),
            shares: all.to_vec(),
            topics: BTreeMap::new(),
        });
        Self {
            member: member.unwrap(),
            owned: BTreeSet::new(),
            revoked: BTreeSet::new(),
            withholds: false,
            given: BTreeMap::new(),
            lost: BTreeSet::new(),
        }
    }

    /// Follows its group.
    pub(crate) fn step(&mut self) {
        let event = self.member.poll().unwrap();
        for share in event.lost {
            assert!(self.owned.remove(&share), "{share:?} was not its own");
            self.revoked.remove(&share);
            self.lost.insert(share);
        }
        for share in event.assigned {
            assert!(self.owned.insert(share), "{share:?} was its own already");
            *self.given.entry(share).or_default() += 1;
        }
        for share in event.revoked {
            assert!(self.owned.contains(&share), "{share:?} was not its own");
            self.revoked.insert(share);
        }
        if !self.withholds {
            self.release();
        }
    }

    /// Gives up what it has to.
    pub(crate) fn release(&mut self) {
        let released: Vec<Share> = std::mem::take(&mut self.revoked).into_iter().collect();
        if !released.is_empty() {
            self.owned.retain(|share| !released.contains(share));
            self.member.release(&released).unwrap();
        }
    }

    /// What it owns, and how often it was given that.
    pub(crate) fn has(&self) -> BTreeMap<Share, u32> {
        self.owned.iter().map(|share| (*share, self.given[share])).collect()
    }

    /// All this time it went on with what it had.
    pub(crate) fn assert_still_has(&self, before: &BTreeMap<Share, u32>) {
        let now = self.has();
        for (share, given) in before {
            assert_eq!(
                now.get(share),
                Some(given),
                "{share:?} was given up, and perhaps given back"
            );
        }
    }

    /// Is its group between two generations?
    pub(crate) fn is_between(&mut self) -> bool {
        let held = self.member.hold().unwrap();
        self.member.let_go();
        held.is_none()
    }

    /// Pins the generation, as soon as there is one.
    pub(crate) fn hold(&mut self) -> GroupMetadata {
        let begun = Instant::now();
        loop {
            if let Some(metadata) = self.member.hold().unwrap() {
                return metadata;
            }
            assert!(begun.elapsed() < PATIENCE, "there is no generation to commit in");
            self.step();
            pause();
        }
    }
}

/// All workers follow their group until something is so; no share is ever owned twice.
pub(crate) fn until(
    workers: &mut [&mut Worker],
    what: &str,
    mut done: impl FnMut(&mut [&mut Worker]) -> bool,
) {
    let begun = Instant::now();
    loop {
        for worker in workers.iter_mut() {
            worker.step();
        }
        assert_disjoint(workers);
        if done(workers) {
            return;
        }
        let owned: Vec<usize> = workers.iter().map(|w| w.owned.len()).collect();
        assert!(
            begun.elapsed() < PATIENCE,
            "after {PATIENCE:?} it is not so that {what}: {owned:?}"
        );
        pause();
    }
}

/// All workers follow their group for some time.
pub(crate) fn go_on(workers: &mut [&mut Worker], time: Duration) {
    let begun = Instant::now();
    until(workers, "time passes", |_| begun.elapsed() >= time);
}

pub(crate) fn owns(workers: &[&mut Worker]) -> Vec<usize> {
    workers.iter().map(|w| w.owned.len()).collect()
}

fn assert_disjoint(workers: &[&mut Worker]) {
    let mut owners: BTreeMap<Share, usize> = BTreeMap::new();
    for (worker, of) in workers.iter().enumerate() {
        for share in &of.owned {
            let other = owners.insert(*share, worker);
            assert_eq!(other, None, "{share:?} is owned by {worker}, too");
        }
    }
}

/// The topic whose offsets are committed; it is made when it is not there.
pub(crate) const TOPIC: &str = "group-tests";

fn producer(config: KafkaConfig, transactional_id: Option<String>) -> Box<dyn Producer> {
    let backend = KafkaBackend::new(config);
    let (name, partitions, config) = (TOPIC.to_owned(), 8, BTreeMap::new());
    backend.admin().unwrap().create(&[NewTopic { name, partitions, config }]).unwrap();
    let options = ProducerOptions {
        transactional_id,
        transaction_timeout: Duration::from_secs(10),
        client_id: "committer".to_owned(),
    };
    backend.producer(&options).unwrap()
}

/// A producer outside of transactions.
pub(crate) fn committer(config: KafkaConfig) -> Box<dyn Producer> {
    producer(config, None)
}

/// A producer of transactions.
pub(crate) fn transactional(config: KafkaConfig, id: &str) -> Box<dyn Producer> {
    let mut producer = producer(config, Some(id.to_owned()));
    producer.init_transactions().unwrap();
    producer
}

pub(crate) fn offsets(partition: i32, next: i64) -> BTreeMap<TopicPartition, CommittedOffset> {
    let committed = CommittedOffset { offset: Offset(next), metadata: "times".to_owned() };
    [(TopicPartition::new(TOPIC, partition), committed)].into()
}
