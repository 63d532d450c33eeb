//! Instances of the application of the chaos runs in this process, what they are fed, and what has to come out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use thalweg_integration_tests::chaos::{
    Entry, Feeder, InstanceOptions, Reader, Topics, Verdict, create_topics, judge_echo,
    judge_totals, start_instance,
};
use thalweg_processor::{Guarantee, Streams, StreamsState};

use crate::broker;

/// Nothing that is waited for takes as long on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// How often a feeder looks at how much is due.
const TICK: Duration = Duration::from_millis(5);
/// Nothing has come for so long: there is nothing more.
const QUIET: Duration = Duration::from_millis(500);

/// An application, its topics, and all that came out so far.
pub(crate) struct World {
    id: String,
    pub(crate) partitions: i32,
    pub(crate) guarantee: Guarantee,
    pub(crate) session_timeout_ms: Option<u64>,
    pub(crate) transaction_timeout_ms: Option<u64>,
    pub(crate) topics: Topics,
    folder: TempDir,
    feeder: Feeder,
    fed: AtomicU64,
    readers: [Reader; 3],
    entries: [Vec<Entry>; 3],
}

impl World {
    pub(crate) fn new(name: &str, partitions: i32) -> Self {
        let (id, bootstrap) = (format!("{name}-{}", std::process::id()), broker::address());
        let topics = Topics::of(&id);
        let names = [&topics.input, &topics.echo, &topics.totals].map(String::as_str);
        create_topics(bootstrap, &names, partitions).unwrap();
        Self {
            partitions,
            guarantee: Guarantee::ExactlyOnce,
            session_timeout_ms: None,
            transaction_timeout_ms: None,
            folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            feeder: Feeder::new(bootstrap, &topics.input, partitions).unwrap(),
            fed: AtomicU64::new(0),
            readers: names.map(|topic| Reader::new(bootstrap, topic, partitions).unwrap()),
            entries: Default::default(),
            topics,
            id,
        }
    }

    /// Starts an instance with one worker, which reaches the broker at this address.
    pub(crate) fn start(&self, name: &str, bootstrap: &str) -> Streams {
        let options = InstanceOptions {
            bootstrap: bootstrap.to_owned(),
            application_id: self.id.clone(),
            state_dir: self.folder.path().join(name),
            workers: 1,
            guarantee: self.guarantee,
            session_timeout_ms: self.session_timeout_ms,
            transaction_timeout_ms: self.transaction_timeout_ms,
        };
        start_instance(&options).unwrap()
    }

    /// The application's id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// How many tasks there are.
    pub(crate) fn tasks(&self) -> u64 {
        // One per partition of the input, and of the repartition topic.
        2 * self.partitions as u64
    }

    /// Waits until all tasks run, shared evenly.
    pub(crate) fn await_shared(&self, instances: &[&Streams]) {
        let share = self.tasks() / instances.len() as u64;
        until("the tasks run, shared evenly", || {
            instances.iter().all(|instance| {
                let numbers = instance.metrics().snapshot();
                numbers.state == StreamsState::Running && numbers.tasks == share
            })
        });
    }

    /// Feeds so many more.
    pub(crate) fn feed(&self, count: u64) {
        let from = self.fed.fetch_add(count, Ordering::SeqCst);
        (from..from + count).for_each(|number| self.feeder.feed(number).unwrap());
        self.feeder.flush().unwrap();
    }

    /// Feeds steadily while something is done.
    pub(crate) fn while_feeding<T>(&self, per_second: u64, done: impl FnOnce() -> T) -> T {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let feeding = scope.spawn(|| {
                let begun = Instant::now();
                let mut fed = 0;
                while !over.load(Ordering::SeqCst) {
                    let due = (begun.elapsed().as_secs_f64() * per_second as f64) as u64;
                    self.feed(due - fed);
                    fed = due;
                    thread::park_timeout(TICK);
                }
            });
            let done = done();
            over.store(true, Ordering::SeqCst);
            feeding.join().unwrap();
            done
        })
    }

    /// The partition that a number was read from.
    pub(crate) fn partition(&self, number: u64) -> i32 {
        self.feeder.partition(number)
    }

    /// Waits until as much has come out as was fed.
    pub(crate) fn await_output(&mut self) {
        let fed = self.fed.load(Ordering::SeqCst) as usize;
        let begun = Instant::now();
        for (reader, entries) in self.readers.iter().zip(&mut self.entries) {
            while entries.len() < fed {
                entries.extend(reader.next().unwrap());
                let came = entries.len();
                assert!(begun.elapsed() < PATIENCE, "{came} of {fed} have come out");
            }
        }
    }

    /// Lets the instances leave, and checks that every number came out once, and every total in its order.
    pub(crate) fn assert_exact(mut self, instances: Vec<Streams>) {
        self.await_output();
        for instance in &instances {
            instance.stop();
        }
        for instance in instances {
            assert!(instance.join().unwrap().committed);
        }
        for (reader, entries) in self.readers.iter().zip(&mut self.entries) {
            reader.read(QUIET, entries).unwrap();
        }
        let [input, echo, totals] = &self.entries;
        assert_eq!(input.len() as u64, self.fed.load(Ordering::SeqCst));
        assert_eq!(judge_echo(input, echo), Verdict::default());
        assert_eq!(judge_totals(input, totals), Verdict::default());
    }
}

/// Waits until it is so.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "after {PATIENCE:?} it is not so that {what}");
        thread::park_timeout(Duration::from_millis(5));
    }
}
