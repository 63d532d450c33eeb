//! A group between two generations: neither may commit, work goes on, nothing is given up before its commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg_connectors::{
    Admin, Backend, Consumer, ConsumerOptions, GroupEvent, GroupMetadata, Membership,
    MembershipOptions, PortResult, Producer, ProducerOptions, Share, SharedBackend,
};

use super::apps::counting;
use super::world::{World, by_word, config, running_counts};
use crate::worker::{Cycle, Worker};

const WORDS: [&str; 6] = ["a", "b", "c", "d", "a", "b"];

/// A backend whose groups can be put between generations.
#[derive(Debug)]
struct Unsettled {
    inner: SharedBackend,
    between: Arc<AtomicBool>,
}

impl Backend for Unsettled {
    fn scheme(&self) -> &'static str {
        self.inner.scheme()
    }

    fn supports_transactions(&self) -> bool {
        self.inner.supports_transactions()
    }

    fn promise(&self) -> &'static str {
        self.inner.promise()
    }

    fn consumer(&self, options: &ConsumerOptions) -> PortResult<Box<dyn Consumer>> {
        self.inner.consumer(options)
    }

    fn producer(&self, options: &ProducerOptions) -> PortResult<Box<dyn Producer>> {
        self.inner.producer(options)
    }

    fn admin(&self) -> PortResult<Box<dyn Admin>> {
        self.inner.admin()
    }

    fn membership(&self, options: &MembershipOptions) -> PortResult<Box<dyn Membership>> {
        let (inner, between) = (self.inner.membership(options)?, Arc::clone(&self.between));
        Ok(Box::new(UnsettledMember { inner, between }))
    }
}

struct UnsettledMember {
    inner: Box<dyn Membership>,
    between: Arc<AtomicBool>,
}

impl Membership for UnsettledMember {
    fn poll(&mut self) -> PortResult<GroupEvent> {
        self.inner.poll()
    }

    fn release(&mut self, shares: &[Share]) -> PortResult<()> {
        assert!(!self.between.load(Ordering::SeqCst), "given up without a commit");
        self.inner.release(shares)
    }

    fn metadata(&self) -> GroupMetadata {
        self.inner.metadata()
    }

    fn generation(&self) -> Option<i32> {
        self.inner.generation()
    }

    fn awaits_more(&self) -> bool {
        self.inner.awaits_more()
    }

    fn hold(&mut self) -> PortResult<Option<GroupMetadata>> {
        match self.between.load(Ordering::SeqCst) {
            true => Ok(None),
            false => self.inner.hold(),
        }
    }

    fn let_go(&mut self) {
        self.inner.let_go();
    }

    fn leave(&mut self) -> PortResult<()> {
        self.inner.leave()
    }
}

#[test]
fn between_generations_work_goes_on_and_commits_and_hand_overs_wait() {
    let world = World::of_lines(2, &WORDS);
    let mut config = config();
    config.workers = 2;
    let mut around = world.prepare(&counting(), &config).unwrap();
    let between = Arc::new(AtomicBool::new(true));
    around.backend =
        Arc::new(Unsettled { inner: around.backend.clone(), between: Arc::clone(&between) });
    let mut first = Worker::new(around.clone(), 0).unwrap();
    while first.run_once().unwrap() == Cycle::Worked {}
    world.clock.advance(Duration::from_secs(1));
    first.run_once().unwrap();
    let second = Worker::new(around.clone(), 1).unwrap();
    for _ in 0..3 {
        first.run_once().unwrap();
    }
    assert_eq!(around.metrics.snapshot().records_processed, WORDS.len() as u64);
    assert_eq!(world.totals(), [], "a commit in no generation");
    assert_eq!(around.metrics.snapshot().tasks_revoked, 0);
    assert!(first.try_close().is_none(), "it would lose its work");

    between.store(false, Ordering::SeqCst);
    first.run_once().unwrap();
    assert_eq!(by_word(world.totals()), by_word(running_counts(&WORDS)));
    assert_eq!(around.metrics.snapshot().tasks_revoked, 1);
    first.try_close().unwrap().unwrap();
    assert!(around.metrics.is_all_committed());
    drop(second);
}

#[test]
fn a_worker_whose_commit_has_to_wait_for_too_long_takes_no_more_records() {
    let world = World::of_lines(1, &WORDS);
    let config = config();
    let mut around = world.prepare(&counting(), &config).unwrap();
    let between = Arc::new(AtomicBool::new(true));
    around.backend =
        Arc::new(Unsettled { inner: around.backend.clone(), between: Arc::clone(&between) });
    let mut worker = Worker::new(around.clone(), 0).unwrap();
    while worker.run_once().unwrap() == Cycle::Worked {}
    let processed = || around.metrics.snapshot().records_processed;
    for (wait, expected) in [
        (Duration::from_secs(1), 7),
        (config.transaction_timeout / 2 + Duration::from_millis(1), 7),
    ] {
        world.clock.advance(wait);
        worker.run_once().unwrap();
        world.write("lines", &[("a", "a", 50)]);
        worker.run_once().unwrap();
        assert_eq!(processed(), expected, "after {wait:?}");
    }
    between.store(false, Ordering::SeqCst);
    worker.run_once().unwrap();
    worker.run_once().unwrap();
    assert_eq!(processed(), 8);
    worker.close().unwrap();
}

#[test]
fn a_worker_that_cannot_wait_leaves_its_work_to_the_next_one() {
    let world = World::of_lines(1, &WORDS);
    let mut around = world.prepare(&counting(), &config()).unwrap();
    let between = Arc::new(AtomicBool::new(true));
    around.backend =
        Arc::new(Unsettled { inner: around.backend.clone(), between: Arc::clone(&between) });
    let mut worker = Worker::new(around.clone(), 0).unwrap();
    while worker.run_once().unwrap() == Cycle::Worked {}
    assert!(around.metrics.is_all_committed());
    worker.close().unwrap();
    assert!(!around.metrics.is_all_committed(), "the run may not say that it ended well");
    assert_eq!(world.totals(), []);
    let mut next = world.worker(&counting(), &config());
    world.settle(&mut [&mut next]).unwrap();
    assert_eq!(by_word(world.totals()), by_word(running_counts(&WORDS)));
}
