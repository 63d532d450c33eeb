//! Tasks that are opened beside tasks that run: these are not held up.

use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{Call, Fault, FaultPlan, ManualClock, PortErrorKind};
use thalweg_state::{Engine, StateError};

use super::apps::counting;
use super::world::{Disk, World, by_word, config, running_counts};
use crate::runtime::{Engines, Needs};
use crate::topology::TaskId;
use crate::worker::{Cycle, Slot, Surroundings, Worker};

const WORDS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
const PARTITIONS: i32 = 4;

/// Two workers that share the tasks; the second has just left, and the first has been told nothing yet.
fn taken_over(world: &World, around: &Surroundings) -> Worker {
    let mut first = Worker::new(around.clone(), 0).unwrap();
    let mut second = Worker::new(around.clone(), 1).unwrap();
    world.settle(&mut [&mut first, &mut second]).unwrap();
    assert_eq!(running(&first), 2);
    second.close().unwrap();
    first
}

fn running(worker: &Worker) -> usize {
    worker.slots.values().filter(|slot| Slot::is_running(slot)).count()
}

fn surroundings(world: &World) -> Surroundings {
    let mut config = config();
    config.workers = 2;
    world.prepare(&counting(), &config).unwrap()
}

#[test]
fn tasks_that_cannot_be_opened_yet_do_not_hold_up_those_that_run() {
    for call in [Call::Committed, Call::Admin] {
        let world = World::of_lines(PARTITIONS, &WORDS);
        let around = surroundings(&world);
        let mut worker = taken_over(&world, &around);
        let fails = Fault::Fails(PortErrorKind::Retriable);
        let always = (1..1000).fold(FaultPlan::new(), |plan, nth| plan.on(call, nth, fails));
        world.broker.set_faults(always);
        let before = around.metrics.snapshot().records_processed;
        let again: Vec<_> = WORDS.iter().map(|word| (*word, *word, 50)).collect();
        world.write("lines", &again);
        for _ in 0..20 {
            worker.run_once().unwrap();
            world.clock.advance(Duration::from_millis(100));
        }
        let numbers = around.metrics.snapshot();
        assert_eq!((running(&worker), numbers.recoveries), (2, 0), "{call:?}");
        let processed = numbers.records_processed - before;
        assert!(processed > 0 && processed < WORDS.len() as u64, "{call:?}: {processed}");

        world.broker.set_faults(FaultPlan::new());
        assert!(world.totals().len() > WORDS.len(), "{call:?}: nothing was committed");
        world.settle(&mut [&mut worker]).unwrap();
        assert_eq!(running(&worker), 4);
        let all: Vec<&str> = WORDS.into_iter().chain(WORDS).collect();
        assert_eq!(by_word(world.totals()), by_word(running_counts(&all)));
    }
}

#[test]
fn tasks_that_cannot_be_opened_for_too_long_end_the_worker() {
    let world = World::of_lines(PARTITIONS, &WORDS);
    let around = surroundings(&world);
    let mut worker = taken_over(&world, &around);
    let fails = Fault::Fails(PortErrorKind::Retriable);
    let always = (1..1000).fold(FaultPlan::new(), |plan, nth| plan.on(Call::Committed, nth, fails));
    world.broker.set_faults(always);
    for _ in 0..29 {
        worker.run_once().unwrap();
        world.clock.advance(around.config.task_timeout / 30);
    }
    worker.run_once().unwrap();
    world.clock.advance(around.config.task_timeout / 30);
    let error = worker.run_once().unwrap_err();
    assert!(matches!(error, crate::RunError::GaveUp { .. }), "{error}");
}

#[test]
fn failures_long_before_and_after_a_long_restore_are_not_one_that_stays() {
    let world = World::of_lines(1, &WORDS);
    world.settle(&mut [&mut world.worker(&counting(), &config())]).unwrap();
    let fails = FaultPlan::new().on(Call::Poll, 1, Fault::Fails(PortErrorKind::Retriable));
    // The state is restored anew; it takes longer than failures may take, and one comes first.
    world.disk.wipe();
    let mut config = config();
    config.restore_records_max = 1;
    let mut worker = world.worker(&counting(), &config);
    world.broker.set_faults(fails.clone());
    for _ in 0..5 {
        worker.run_once().unwrap();
        world.clock.advance(config.task_timeout / 3);
    }
    assert_eq!((running(&worker), world.broker.faults_left()), (0, 0), "it is still restored");
    world.broker.set_faults(fails);
    worker.run_once().unwrap();
    assert_eq!(world.broker.faults_left(), 0);
    world.settle(&mut [&mut worker]).unwrap();
    assert_eq!(running(&worker), 1);
}

#[test]
fn tasks_that_were_opened_late_leave_no_failure_behind() {
    let world = World::of_lines(PARTITIONS, &WORDS);
    let around = surroundings(&world);
    let mut worker = taken_over(&world, &around);
    let fails = |call| FaultPlan::new().on(call, 1, Fault::Fails(PortErrorKind::Retriable));
    world.broker.set_faults(fails(Call::Committed));
    worker.run_once().unwrap();
    assert_eq!((running(&worker), worker.opening_since.is_some()), (2, true));
    world.clock.advance(Duration::from_secs(1));
    worker.run_once().unwrap();
    assert_eq!((worker.opening_since, worker.failing_since), (None, None));
    world.clock.advance(around.config.task_timeout);
    world.broker.set_faults(fails(Call::Poll));
    worker.run_once().unwrap();
    world.settle(&mut [&mut worker]).unwrap();
}

/// Opening takes time.
struct Slow {
    disk: Disk,
    clock: Arc<ManualClock>,
    takes: Duration,
}

impl Engines for Slow {
    fn open(&self, task: TaskId, needs: &Needs<'_>) -> Result<Box<dyn Engine>, StateError> {
        self.clock.advance(self.takes);
        self.disk.open(task, needs)
    }

    fn discard(&self, task: TaskId) -> Result<(), StateError> {
        self.disk.discard(task)
    }

    fn instance_id(&self) -> &str {
        self.disk.instance_id()
    }
}

#[test]
fn opening_many_tasks_leaves_time_for_those_that_run() {
    let world = World::of_lines(PARTITIONS, &WORDS);
    let mut around = surroundings(&world);
    let (disk, clock, takes) =
        (world.disk.clone(), Arc::clone(&world.clock), around.config.cycle_max);
    around.engines = Arc::new(Slow { disk, clock, takes });
    let mut worker = taken_over(&world, &around);
    world.write("lines", &[("a", "a", 50)]);
    for expected in [3, 4] {
        assert_eq!(worker.run_once().unwrap(), Cycle::Worked);
        assert_eq!(running(&worker), expected, "one at a time");
    }
    world.settle(&mut [&mut worker]).unwrap();
    let all: Vec<&str> = WORDS.into_iter().chain(["a"]).collect();
    assert_eq!(by_word(world.totals()), by_word(running_counts(&all)));
}

#[test]
fn where_nothing_runs_all_tasks_are_opened_together() {
    let world = World::of_lines(PARTITIONS, &WORDS);
    let mut around = surroundings(&world);
    let (disk, clock, takes) =
        (world.disk.clone(), Arc::clone(&world.clock), around.config.cycle_max);
    around.engines = Arc::new(Slow { disk, clock, takes });
    let mut worker = Worker::new(around, 0).unwrap();
    worker.run_once().unwrap();
    assert_eq!(running(&worker), PARTITIONS as usize);
}
