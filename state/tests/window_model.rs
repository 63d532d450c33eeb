//! A window store against a plain list of its puts, over random histories; and the store that its
//! changelog gives against the store itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use thalweg_state::window::window_store_key;
use thalweg_state::{
    CommitFacts, Direction, Engine, MemEngine, Put, RestoreRecord, StoreIx, StoreSpec, TaskState,
    TimeCursor, WindowIter, WindowSpec,
};

const STORE: StoreIx = StoreIx(0);

/// Key, start, sequence number.
type At = (Vec<u8>, i64, u32);

#[derive(Debug, Clone)]
enum Step {
    Put(Vec<u8>, i64, Option<Vec<u8>>),
    Commit,
    Rollback,
    Crash,
}

/// Keys that are prefixes of each other, also with the bytes of a start between them.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"".to_vec()),
        Just(b"a".to_vec()),
        Just(b"aa".to_vec()),
        Just(b"a\0".to_vec()),
        Just(b"a\0\0\0\0\0\0\0\x10".to_vec()),
        Just(b"b".to_vec()),
    ]
}

/// Mostly near each other, sometimes far ahead.
fn start() -> impl Strategy<Value = i64> {
    prop_oneof![20 => 0..400i64, 1 => 0..5_000i64, 1 => Just((1 << 32) + 7)]
}

fn step() -> impl Strategy<Value = Step> {
    let value = proptest::option::weighted(0.8, vec(any::<u8>(), 0..4));
    prop_oneof![
        12 => (key(), start(), value).prop_map(|(key, start, value)| Step::Put(key, start, value)),
        2 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        1 => Just(Step::Crash),
    ]
}

fn spec() -> impl Strategy<Value = WindowSpec> {
    let lengths = prop_oneof![(1..300i64, 1..100i64), (Just(10), Just(60_000)), (Just(0), Just(1))];
    (lengths, any::<bool>(), any::<bool>()).prop_map(|((retention, segment), exact, duplicates)| {
        let mut spec = WindowSpec::new(retention).segment_ms(segment);
        spec.exact_expiry = exact;
        if duplicates { spec.retain_duplicates() } else { spec.time_index() }
    })
}

/// What a store should hold, written down without segments or deletes of ranges.
#[derive(Debug, Clone)]
struct Model {
    spec: WindowSpec,
    entries: BTreeMap<At, Vec<u8>>,
    observed_ms: i64,
    seq: u32,
}

impl Model {
    fn put(&mut self, key: &[u8], start_ms: i64, value: Option<&Vec<u8>>) -> Put {
        let spec = self.spec;
        self.seq += u32::from(spec.retain_duplicates);
        let seq = self.seq;
        let is_ignored = spec.retain_duplicates && value.is_none();
        if is_ignored && !spec.exact_expiry {
            return Put::Ignored { seq };
        }
        self.observed_ms = self.observed_ms.max(start_ms);
        let oldest_ms = (self.observed_ms - spec.retention_ms).max(0);
        let gone = if spec.exact_expiry {
            start_ms <= self.observed_ms - spec.retention_ms
        } else {
            start_ms / spec.segment_ms < oldest_ms / spec.segment_ms
        };
        if gone {
            return Put::Expired { seq };
        }
        if is_ignored {
            return Put::Ignored { seq };
        }
        let at = (key.to_vec(), start_ms, seq);
        match value {
            Some(value) => self.entries.insert(at, value.clone()),
            None => self.entries.remove(&at),
        };
        Put::Stored { seq }
    }

    fn readable(&self) -> impl Iterator<Item = (Vec<u8>, i64, Vec<u8>)> {
        let one_more = i64::from(self.spec.time_index && !self.spec.exact_expiry);
        let above_ms = self.observed_ms - self.spec.retention_ms - one_more;
        let readable =
            self.entries.iter().filter(move |((_, start_ms, _), _)| *start_ms > above_ms);
        readable.map(|((key, start_ms, _), value)| (key.clone(), *start_ms, value.clone()))
    }
}

type Changelog = Vec<(Vec<u8>, Option<Vec<u8>>)>;

struct Run {
    state: TaskState,
    spec: WindowSpec,
    now: Model,
    committed: Model,
    changelog: Changelog,
    committed_changelog: usize,
}

fn open(engine: Box<dyn Engine>, spec: WindowSpec) -> TaskState {
    TaskState::open(engine, vec![StoreSpec::window("w", spec)]).unwrap()
}

impl Run {
    fn new(spec: WindowSpec, engine: Box<dyn Engine>) -> Self {
        let model = Model { spec, entries: BTreeMap::new(), observed_ms: -1, seq: 0 };
        Self {
            state: open(engine, spec),
            spec,
            now: model.clone(),
            committed: model,
            changelog: Vec::new(),
            committed_changelog: 0,
        }
    }

    fn apply(mut self, step: &Step) -> Self {
        match step {
            Step::Put(key, start_ms, value) => {
                let done = self.state.window_put(STORE, key, *start_ms, value.as_deref()).unwrap();
                assert_eq!(done, self.now.put(key, *start_ms, value.as_ref()));
                let mut bytes = Vec::new();
                window_store_key(key, *start_ms, done.seq(), &mut bytes);
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

fn all(entries: WindowIter<'_>) -> Vec<(Vec<u8>, i64, Vec<u8>)> {
    entries.map(Result::unwrap).collect()
}

/// What a user asks for: two keys in order, two times in order.
type Question = (Vec<u8>, Vec<u8>, i64, i64);

fn check(state: &mut TaskState, model: &Model, (low, high, from_ms, to_ms): &Question) {
    let (from_ms, to_ms) = (*from_ms, *to_ms);
    let observed_ms = (model.observed_ms >= 0).then_some(model.observed_ms);
    assert_eq!(state.window_observed_ms(STORE).unwrap(), observed_ms);

    let mut expected: Vec<_> = model.readable().collect();
    let mut found = all(state.window_all(STORE, 0, i64::MAX, Direction::Forward).unwrap());
    found.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    assert_eq!(found, expected);

    if model.spec.time_index {
        let mut by_start = expected.clone();
        by_start.retain(|(_, start_ms, _)| (from_ms..=to_ms).contains(start_ms));
        by_start.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
        // Rows of the index have the sequence number behind the key.
        let mut found = in_order_of_time(state, (from_ms, to_ms));
        assert!(found.is_sorted_by_key(|(_, start_ms, _)| *start_ms));
        found.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
        assert_eq!(found, by_start);
    }

    expected.retain(|(key, start_ms, _)| {
        low <= key && key <= high && (from_ms..=to_ms).contains(start_ms)
    });
    for direction in [Direction::Forward, Direction::Reverse] {
        let entries =
            state.window_keys(STORE, Some(low), Some(high), (from_ms, to_ms), direction).unwrap();
        let mut found = all(entries);
        if direction == Direction::Reverse {
            found.reverse();
        }
        found.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        assert_eq!(found, expected);
    }

    expected.retain(|(key, _, _)| key == low);
    let range = |direction| all(state.window_range(STORE, low, from_ms, to_ms, direction).unwrap());
    assert_eq!(range(Direction::Forward), expected);
    expected.reverse();
    assert_eq!(range(Direction::Reverse), expected);

    if !model.spec.retain_duplicates {
        let wanted = model.readable().find(|(key, start_ms, _)| key == low && *start_ms == from_ms);
        let found = state.window_fetch(STORE, low, from_ms).unwrap();
        assert_eq!(found, wanted.as_ref().map(|(_, _, value)| value.as_slice()));
    }
}

/// Windows in the order of their starts, read three at a time.
fn in_order_of_time(state: &mut TaskState, times: (i64, i64)) -> Vec<(Vec<u8>, i64, Vec<u8>)> {
    let (mut cursor, mut found) = (TimeCursor::default(), Vec::new());
    loop {
        let entries = state.by_time(STORE, times, &mut cursor, 3).unwrap();
        let are_all = entries.len() < 3;
        found.extend(entries.into_iter().map(|e| (e.key, e.start_ms, e.value)));
        if are_all {
            return found;
        }
    }
}

/// Replays a changelog in steps of the given sizes, over and over.
fn restored(spec: WindowSpec, changelog: &Changelog, sizes: &[usize]) -> TaskState {
    let mut state = open(Box::new(MemEngine::new()), spec);
    let (mut rest, mut position) = (changelog.as_slice(), 0);
    for size in sizes.iter().cycle() {
        let (step, behind) = rest.split_at((*size).min(rest.len()));
        position += i64::try_from(step.len()).unwrap();
        let mut records = step.iter().map(|(key, value)| RestoreRecord {
            key,
            value: value.as_deref(),
            timestamp_ms: 0,
        });
        state.restore(STORE, &mut records, position).unwrap();
        if behind.is_empty() {
            return state;
        }
        rest = behind;
    }
    state
}

fn question() -> impl Strategy<Value = Question> {
    (key(), key(), start(), start())
        .prop_map(|(a, b, s, t)| (a.clone().min(b.clone()), a.max(b), s.min(t), s.max(t)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn window_store_equals_a_list_of_its_puts_and_what_its_changelog_gives(
        spec in spec(),
        steps in vec(step(), 0..60),
        question in question(),
        sizes in vec(1..20usize, 1..4),
    ) {
        let mut run = Run::new(spec, Box::new(MemEngine::new()));
        for step in &steps {
            run = run.apply(step);
            check(&mut run.state, &run.now, &question);
        }
        let mut copy = restored(spec, &run.changelog, &sizes);
        check(&mut copy, &run.now, &question);
    }
}

#[cfg(feature = "rocksdb")]
mod rocks {
    use super::*;
    use thalweg_state::{RocksEngine, RocksOptions};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn window_store_on_rocks_equals_a_list_of_its_puts(
            spec in spec(),
            steps in vec(step(), 0..60),
            question in question(),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let engine = RocksEngine::open(dir.path(), &["w"], &RocksOptions::default()).unwrap();
            let mut run = Run::new(spec, Box::new(engine));
            for step in &steps {
                run = run.apply(step);
                check(&mut run.state, &run.now, &question);
            }
        }
    }
}
