//! A task's state against a plain sorted map, over random histories.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use thalweg_state::{
    CommitFacts, Direction, Engine, EngineCursor, FamilyIx, KeyRange, MemEngine, RestoreRecord,
    StateError, StoreIx, StoreSpec, TaskState, WriteOps,
};

const STORE: StoreIx = StoreIx(0);

type Key = Vec<u8>;

#[derive(Debug, Clone)]
enum Step {
    Put(Key, Vec<u8>),
    Delete(Key),
    DeleteRange(Key, Option<Key>),
    Commit,
    Rollback,
    Restore(Vec<(Key, Option<Vec<u8>>)>),
    Clear,
    Crash,
}

/// Few, short and similar keys, so that histories meet themselves.
fn key() -> impl Strategy<Value = Key> {
    vec(prop_oneof![Just(0u8), Just(b'a'), Just(b'b'), Just(0xff)], 0..4)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..12)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (key(), value()).prop_map(|(key, value)| Step::Put(key, value)),
        3 => key().prop_map(Step::Delete),
        2 => (key(), proptest::option::of(key())).prop_map(|(from, to)| Step::DeleteRange(from, to)),
        2 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        1 => vec((key(), proptest::option::of(value())), 0..6).prop_map(Step::Restore),
        1 => Just(Step::Crash),
    ]
}

fn history() -> impl Strategy<Value = Vec<Step>> {
    let rare = prop_oneof![30 => step(), 1 => Just(Step::Clear)];
    vec(rare, 0..60)
}

/// What a state should hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    entries: BTreeMap<Key, Vec<u8>>,
    position: Option<i64>,
}

/// Ends a state as a crash does and opens what is left.
type Reopen = Box<dyn Fn(TaskState) -> Box<dyn Engine>>;

/// A state, its model now and at the last commit.
struct Run {
    state: TaskState,
    reopen: Reopen,
    persistent: bool,
    cache_bytes: usize,
    now: Model,
    committed: Model,
    next_position: i64,
    /// Every key that was ever put.
    touched: BTreeSet<Key>,
}

fn open(engine: Box<dyn Engine>, persistent: bool, cache_bytes: usize) -> TaskState {
    let mut state = TaskState::open(engine, specs(persistent)).unwrap();
    state.set_cache_bytes(cache_bytes);
    state
}

/// How a history is run.
#[derive(Debug, Clone, Copy)]
struct Setting {
    persistent: bool,
    /// None, less than the history needs, or plenty.
    cache_bytes: usize,
    /// Reading puts the overlay in order and fills the cache; without, all must be right as well.
    read_every_step: bool,
}

fn setting() -> impl Strategy<Value = Setting> {
    let cache_bytes = prop_oneof![Just(0_usize), Just(600), Just(1 << 20)];
    (any::<bool>(), cache_bytes, any::<bool>()).prop_map(
        |(persistent, cache_bytes, read_every_step)| Setting {
            persistent,
            cache_bytes,
            read_every_step,
        },
    )
}

fn specs(persistent: bool) -> Vec<StoreSpec> {
    let spec = StoreSpec::key_value("s");
    vec![if persistent { spec } else { spec.in_memory() }]
}

impl Run {
    fn new(engine: Box<dyn Engine>, setting: Setting, reopen: Reopen) -> Self {
        let Setting { persistent, cache_bytes, .. } = setting;
        let state = open(engine, persistent, cache_bytes);
        let (now, committed) = (Model::default(), Model::default());
        let (next_position, touched) = (0, BTreeSet::new());
        Self { state, reopen, persistent, cache_bytes, now, committed, next_position, touched }
    }

    fn apply(mut self, step: &Step) -> Self {
        match step {
            Step::Put(key, value) => {
                self.state.put(STORE, key, Some(value)).unwrap();
                self.now.entries.insert(key.clone(), value.clone());
                self.touched.insert(key.clone());
            }
            Step::Delete(key) => {
                self.state.put(STORE, key, None).unwrap();
                self.now.entries.remove(key);
            }
            Step::DeleteRange(from, to) => {
                let range = KeyRange::half_open(from.clone(), to.clone());
                self.state.delete_range(STORE, &range).unwrap();
                self.now.entries.retain(|key, _| !range.contains(key));
            }
            Step::Commit => {
                self.next_position += 1;
                let facts = CommitFacts::new().position(STORE, self.next_position);
                self.state.commit(&facts).unwrap();
                self.now.position = Some(self.next_position);
                self.committed = self.now.clone();
            }
            Step::Rollback => {
                self.state.rollback();
                self.now = self.committed.clone();
            }
            Step::Restore(records) => self.restore(records),
            Step::Clear => {
                self.state.clear_store(STORE).unwrap();
                self.now = Model::default();
                self.committed = Model::default();
            }
            Step::Crash => {
                let engine = (self.reopen)(self.state);
                self.state = open(engine, self.persistent, self.cache_bytes);
                if !self.persistent {
                    self.committed = Model::default();
                }
                self.now = self.committed.clone();
            }
        }
        self
    }

    fn restore(&mut self, records: &[(Key, Option<Vec<u8>>)]) {
        self.state.rollback();
        self.next_position += 1;
        let mut wire = records.iter().map(|(key, value)| RestoreRecord {
            key,
            value: value.as_deref(),
            timestamp_ms: 0,
        });
        self.state.restore(STORE, &mut wire, self.next_position).unwrap();
        for (key, value) in records {
            match value {
                Some(value) => self.committed.entries.insert(key.clone(), value.clone()),
                None => self.committed.entries.remove(key),
            };
        }
        self.committed.position = Some(self.next_position);
        self.now = self.committed.clone();
    }

    /// Compares everything that can be read.
    fn check(&mut self, probe: &Key, range: &KeyRange) {
        assert_eq!(self.state.position(STORE), self.committed.position);
        for key in self.touched.iter().chain([probe]) {
            let found = self.state.get(STORE, key).unwrap().map(<[u8]>::to_vec);
            assert_eq!(found, self.now.entries.get(key).cloned());
        }
        for range in [range, &KeyRange::all(), &KeyRange::prefix(probe)] {
            let mut expected: Vec<(Key, Vec<u8>)> = self
                .now
                .entries
                .iter()
                .filter(|(key, _)| range.contains(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            assert_eq!(self.read(range, Direction::Forward), expected);
            expected.reverse();
            assert_eq!(self.read(range, Direction::Reverse), expected);
        }
    }

    fn read(&self, range: &KeyRange, direction: Direction) -> Vec<(Key, Vec<u8>)> {
        self.state.range(STORE, range, direction).unwrap().map(Result::unwrap).collect()
    }
}

/// A history and what to read after each of its steps.
type Case = (Vec<Step>, Key, Key, Option<Key>);

fn case() -> impl Strategy<Value = Case> {
    (history(), key(), key(), proptest::option::of(key()))
}

fn agree(mut run: Run, (steps, probe, from, to): Case, every_step: bool) {
    let range = KeyRange::half_open(from, to);
    for step in &steps {
        run = run.apply(step);
        if every_step {
            run.check(&probe, &range);
        }
    }
    run.check(&probe, &range);
}

/// A memory engine that is read through the cache, as one on disk is.
struct Slow(MemEngine);

impl Engine for Slow {
    fn family(&mut self, name: &str) -> Result<FamilyIx, StateError> {
        self.0.family(name)
    }

    fn get(&self, family: FamilyIx, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StateError> {
        self.0.get(family, key, value)
    }

    fn iterate<'a>(
        &'a self,
        family: FamilyIx,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn EngineCursor + 'a>, StateError> {
        self.0.iterate(family, range, direction)
    }

    fn write(&mut self, ops: &WriteOps<'_>) -> Result<(), StateError> {
        self.0.write(ops)
    }

    fn flush(&mut self) -> Result<(), StateError> {
        self.0.flush()
    }

    fn approximate_entries(&self, family: FamilyIx) -> Result<u64, StateError> {
        self.0.approximate_entries(family)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn state_on_the_memory_engine_equals_a_sorted_map(
        case in case(),
        setting in setting(),
    ) {
        let reopen = Box::new(TaskState::into_engine);
        agree(Run::new(Box::new(MemEngine::new()), setting, reopen), case, setting.read_every_step);
    }

    #[test]
    fn state_read_through_its_cache_equals_a_sorted_map(case in case(), setting in setting()) {
        let reopen = Box::new(TaskState::into_engine);
        let engine = Box::new(Slow(MemEngine::new()));
        agree(Run::new(engine, setting, reopen), case, setting.read_every_step);
    }
}

#[cfg(feature = "rocksdb")]
mod rocks {
    use super::*;
    use thalweg_state::{RocksEngine, RocksOptions};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn state_on_the_rocks_engine_equals_a_sorted_map(
            case in case(),
            setting in setting(),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().to_owned();
            let open = move || -> Box<dyn Engine> {
                Box::new(RocksEngine::open(&path, &["s"], &RocksOptions::default()).unwrap())
            };
            let engine = open();
            let reopen = move |state| {
                drop(state);
                open()
            };
            agree(Run::new(engine, setting, Box::new(reopen)), case, setting.read_every_step);
        }
    }
}
