//! A session store against a plain list of its puts, over random histories; and the store that its changelog gives against the
//! store itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use thalweg_state::session::session_key;
use thalweg_state::{
    CommitFacts, Direction, Engine, MemEngine, Put, RestoreRecord, SessionIter, StateError,
    StoreIx, StoreSpec, TaskState, TimeCursor, WindowSpec,
};

const STORE: StoreIx = StoreIx(0);

/// Key, end, start: the order of one key's sessions.
type At = (Vec<u8>, i64, i64);
type Changelog = Vec<(Vec<u8>, Option<Vec<u8>>)>;

#[derive(Debug, Clone)]
enum Step {
    Put(At, Option<Vec<u8>>),
    Commit,
    Rollback,
    Crash,
}

/// Keys that are prefixes of each other, also with the bytes of an end between them.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"".to_vec()),
        Just(b"a".to_vec()),
        Just(b"a\0".to_vec()),
        Just(b"a\0\0\0\0\0\0\0\x10".to_vec()),
        Just(b"b".to_vec()),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let time = prop_oneof![20 => 0..400i64, 1 => 0..5_000i64, 1 => Just((1 << 32) + 7)];
    let value = proptest::option::weighted(0.8, vec(any::<u8>(), 0..4));
    let put = (key(), time, 0..50i64, value)
        .prop_map(|(key, end, length, value)| Step::Put((key, end, (end - length).max(0)), value));
    prop_oneof![12 => put, 2 => Just(Step::Commit), 1 => Just(Step::Rollback), 1 => Just(Step::Crash)]
}

fn spec() -> impl Strategy<Value = WindowSpec> {
    let lengths = prop_oneof![(1..300i64, 1..100i64), (Just(10), Just(60_000)), (Just(0), Just(1))];
    (lengths, any::<bool>()).prop_map(|((retention, segment), exact)| {
        let spec = WindowSpec::new(retention).segment_ms(segment).time_index();
        if exact { spec.exact_expiry() } else { spec }
    })
}

/// What a store should hold, written down without segments or deletes of ranges.
#[derive(Debug, Clone)]
struct Model {
    spec: WindowSpec,
    entries: BTreeMap<At, Vec<u8>>,
    observed_ms: i64,
}

impl Model {
    fn put(&mut self, at: &At, value: Option<&Vec<u8>>) -> Put {
        let (spec, end_ms) = (self.spec, at.1);
        self.observed_ms = self.observed_ms.max(end_ms);
        let oldest_ms = (self.observed_ms - spec.retention_ms).max(0);
        let gone = match spec.exact_expiry {
            true => end_ms <= self.observed_ms - spec.retention_ms,
            false => end_ms / spec.segment_ms < oldest_ms / spec.segment_ms,
        };
        if gone {
            return Put::Expired { seq: 0 };
        }
        match value {
            Some(value) => self.entries.insert(at.clone(), value.clone()),
            None => self.entries.remove(at),
        };
        Put::Stored { seq: 0 }
    }

    fn readable(&self) -> Vec<(At, Vec<u8>)> {
        self.from(self.observed_ms - self.spec.retention_ms + 1)
    }

    /// What is found in the order of time: also what is out of retention, as long as its segment is there.
    fn kept(&self) -> Vec<(At, Vec<u8>)> {
        let WindowSpec { retention_ms, segment_ms, .. } = self.spec;
        let oldest_ms = (self.observed_ms - retention_ms).max(0);
        match self.spec.exact_expiry {
            true => self.readable(),
            false => self.from(oldest_ms / segment_ms * segment_ms),
        }
    }

    fn from(&self, from_ms: i64) -> Vec<(At, Vec<u8>)> {
        let entries = self.entries.iter().filter(|((_, end_ms, _), _)| *end_ms >= from_ms);
        entries.map(|(at, value)| (at.clone(), value.clone())).collect()
    }
}

fn open(engine: Box<dyn Engine>, spec: WindowSpec) -> TaskState {
    TaskState::open(engine, vec![StoreSpec::session("s", spec)]).unwrap()
}

struct Run {
    state: TaskState,
    spec: WindowSpec,
    now: Model,
    committed: Model,
    changelog: Changelog,
    committed_changelog: usize,
}

impl Run {
    fn new(spec: WindowSpec, engine: Box<dyn Engine>) -> Self {
        let model = Model { spec, entries: BTreeMap::new(), observed_ms: -1 };
        let (now, committed) = (model.clone(), model);
        let changelog = Changelog::new();
        Self { state: open(engine, spec), spec, now, committed, changelog, committed_changelog: 0 }
    }

    fn apply(mut self, step: &Step) -> Self {
        match step {
            Step::Put(at, value) => {
                let (key, end, start) = at;
                let put = self.state.session_put(STORE, key, (*start, *end), value.as_deref());
                assert_eq!(put.unwrap(), self.now.put(at, value.as_ref()));
                let mut bytes = Vec::new();
                session_key(key, *start, *end, &mut bytes);
                self.changelog.push((bytes, value.clone()));
            }
            Step::Commit => {
                self.state.commit(&CommitFacts::new()).unwrap();
                self.committed = self.now.clone();
                self.committed_changelog = self.changelog.len();
            }
            Step::Rollback | Step::Crash => {
                if matches!(step, Step::Rollback) {
                    self.state.rollback();
                } else {
                    self.state = open(self.state.into_engine(), self.spec);
                }
                self.now = self.committed.clone();
                self.changelog.truncate(self.committed_changelog);
            }
        }
        self
    }
}

fn all(mut entries: SessionIter<'_>) -> Vec<(At, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some(entry) = entries.next_entry().unwrap() {
        found.push(((entry.key.to_vec(), entry.end_ms, entry.start_ms), entry.value.to_vec()));
    }
    found
}

/// Two keys in order; sessions that end from the first time on and start up to the second.
type Question = (Vec<u8>, Vec<u8>, i64, i64);

fn check(state: &mut TaskState, model: &Model, (low, high, ends_from, starts_to): &Question) {
    let times = (*ends_from, *starts_to);
    let everything = (0, i64::MAX);
    let mut expected = model.readable();
    let found = state.session_keys(STORE, None, None, everything, Direction::Forward).unwrap();
    let mut found = all(found);
    found.sort();
    assert_eq!(found, expected);
    for (at, value) in &expected {
        let found = state.session_fetch(STORE, &at.0, (at.2, at.1)).unwrap();
        assert_eq!(found, Some(value.as_slice()));
    }

    let mut by_end = model.kept();
    by_end.retain(|((_, end, _), _)| (ends_from..=starts_to).contains(&end));
    by_end.sort_by(|(a, _), (b, _)| (a.1, a.2, &a.0).cmp(&(b.1, b.2, &b.0)));
    assert_eq!(in_order_of_time(state, times), by_end);

    expected.retain(|((key, end, start), _)| {
        (low..=high).contains(&key) && end >= ends_from && start <= starts_to
    });
    for direction in [Direction::Forward, Direction::Reverse] {
        let found = state.session_keys(STORE, Some(low), Some(high), times, direction).unwrap();
        let mut found = all(found);
        found.sort();
        assert_eq!(found, expected);
    }

    expected.retain(|((key, _, _), _)| key == low);
    let range = |direction| all(state.session_range(STORE, low, times, direction).unwrap());
    assert_eq!(range(Direction::Forward), expected);
    expected.reverse();
    assert_eq!(range(Direction::Reverse), expected);
}

/// Sessions in the order of their ends, read three at a time.
fn in_order_of_time(state: &mut TaskState, times: (i64, i64)) -> Vec<(At, Vec<u8>)> {
    let (mut cursor, mut found) = (TimeCursor::default(), Vec::new());
    loop {
        let entries = state.by_time(STORE, times, &mut cursor, 3).unwrap();
        let are_all = entries.len() < 3;
        found.extend(entries.into_iter().map(|e| ((e.key, e.end_ms, e.start_ms), e.value)));
        if are_all {
            return found;
        }
    }
}

/// Replays a changelog in steps of the given size.
fn restored(spec: WindowSpec, changelog: &Changelog, size: usize) -> TaskState {
    let mut state = open(Box::new(MemEngine::new()), spec);
    let mut position = 0;
    for step in changelog.chunks(size) {
        position += i64::try_from(step.len()).unwrap();
        let mut records = step.iter().map(|(key, value)| RestoreRecord {
            key,
            value: value.as_deref(),
            timestamp_ms: 0,
        });
        state.restore(STORE, &mut records, position).unwrap();
    }
    state
}

fn question() -> impl Strategy<Value = Question> {
    (key(), key(), 0..450i64, 0..450i64)
        .prop_map(|(a, b, from, to)| (a.clone().min(b.clone()), a.max(b), from, to))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn session_store_equals_a_list_of_its_puts_and_what_its_changelog_gives(
        spec in spec(),
        steps in vec(step(), 0..60),
        question in question(),
        size in 1..20usize,
    ) {
        let mut run = Run::new(spec, Box::new(MemEngine::new()));
        for step in &steps {
            run = run.apply(step);
            check(&mut run.state, &run.now, &question);
        }
        check(&mut restored(spec, &run.changelog, size), &run.now, &question);
    }
}

#[test]
fn session_operations_and_those_of_other_stores_do_not_mix() {
    let specs =
        vec![StoreSpec::session("s", WindowSpec::new(10)), StoreSpec::key_value("key-value")];
    let mut state = TaskState::open(Box::new(MemEngine::new()), specs).unwrap();
    let misused = state.session_fetch(StoreIx(1), b"k", (0, 0)).map(|_| ()).unwrap_err();
    assert!(matches!(misused, StateError::NotASessionStore { .. }), "{misused}");
    let misused = state.window_fetch(STORE, b"k", 0).map(|_| ()).unwrap_err();
    assert!(matches!(misused, StateError::NotAWindowStore { .. }), "{misused}");
    let negative = state.session_put(STORE, b"k", (-5, -1), None).unwrap_err();
    assert!(matches!(negative, StateError::NegativeWindowStart { .. }), "{negative}");
    let key = RestoreRecord { key: b"short", value: None, timestamp_ms: 0 };
    let malformed = state.restore(STORE, &mut [key].into_iter(), 1).unwrap_err();
    assert!(matches!(malformed, StateError::MalformedChangelogKey { .. }), "{malformed}");
}

#[cfg(feature = "rocksdb")]
mod rocks {
    use super::*;
    use thalweg_state::{RocksEngine, RocksOptions};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn session_store_on_rocks_equals_a_list_of_its_puts(
            spec in spec(),
            steps in vec(step(), 0..60),
            question in question(),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let engine = RocksEngine::open(dir.path(), &["s"], &RocksOptions::default()).unwrap();
            let mut run = Run::new(spec, Box::new(engine));
            for step in &steps {
                run = run.apply(step);
                check(&mut run.state, &run.now, &question);
            }
        }
    }
}
