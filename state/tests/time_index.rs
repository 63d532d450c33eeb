//! A store's index by time follows its definition, whatever the store held before.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use thalweg_state::{
    CommitFacts, MemEngine, Put, StoreIx, StoreSpec, TaskState, TimeCursor, WindowSpec,
};

const STORE: StoreIx = StoreIx(0);
const LONG: (i64, i64) = (0, i64::MAX);

type Make = fn(&str, WindowSpec) -> StoreSpec;
type Set = fn(&mut TaskState, &str, i64, Option<&[u8]>) -> Put;

/// Window stores and session stores.
const KINDS: [(Make, Set); 2] = [
    (
        |name, spec| StoreSpec::window(name, spec),
        |state, key, time, value| state.window_put(STORE, key.as_bytes(), time, value).unwrap(),
    ),
    (
        |name, spec| StoreSpec::session(name, spec),
        |state, key, time, value| {
            state.session_put(STORE, key.as_bytes(), (time - 3, time), value).unwrap()
        },
    ),
];

fn fresh(make: Make, index: bool) -> TaskState {
    TaskState::open(Box::new(MemEngine::new()), vec![spec(make, index)]).unwrap()
}

fn spec(make: Make, index: bool) -> StoreSpec {
    let spec = WindowSpec::new(1_000_000).segment_ms(100);
    make("s", if index { spec.time_index() } else { spec })
}

/// The store as a run finds it whose definition has an index, or none.
fn reopened(state: TaskState, make: Make, index: bool) -> TaskState {
    TaskState::open(state.into_engine(), vec![spec(make, index)]).unwrap()
}

fn put_all(
    state: &mut TaskState,
    set: Set,
    times: impl Iterator<Item = i64>,
    value: Option<&[u8]>,
) {
    for time in times {
        assert!(matches!(set(state, "k", time, value), Put::Stored { .. }));
    }
    state.commit(&CommitFacts::new().position(STORE, 1)).unwrap();
}

/// The times of all entries, read in pages; a page that is not full is the last one.
fn times(state: &mut TaskState, page: usize) -> Vec<i64> {
    let (mut cursor, mut times) = (TimeCursor::default(), Vec::new());
    loop {
        let entries = state.by_time(STORE, LONG, &mut cursor, page).unwrap();
        times.extend(entries.iter().map(|entry| entry.end_ms));
        if entries.len() < page {
            return times;
        }
    }
}

#[test]
fn entries_from_before_there_was_an_index_are_in_it() {
    for (make, set) in KINDS {
        let mut state = fresh(make, false);
        // More than are written at once.
        put_all(&mut state, set, 0..5_000, Some(b"v"));
        assert!(state.by_time(STORE, LONG, &mut TimeCursor::default(), 1).is_err());
        let mut state = reopened(state, make, true);
        assert_eq!(times(&mut state, 256), (0..5_000).collect::<Vec<_>>());
        assert_eq!(state.position(STORE), Some(1), "nothing has to be restored");
    }
}

#[test]
fn what_left_while_there_was_no_index_does_not_hide_what_stayed() {
    for (make, set) in KINDS {
        let mut state = fresh(make, true);
        put_all(&mut state, set, 0..20, Some(b"v"));
        let mut state = reopened(state, make, false);
        put_all(&mut state, set, 0..10, None);
        put_all(&mut state, set, 20..22, Some(b"v"));
        let mut state = reopened(state, make, true);
        assert_eq!(times(&mut state, 4), (10..22).collect::<Vec<_>>());
    }
}

#[test]
fn a_store_that_was_emptied_has_its_index() {
    for (make, set) in KINDS {
        let mut state = fresh(make, true);
        put_all(&mut state, set, 0..5, Some(b"v"));
        state.clear_store(STORE).unwrap();
        assert!(times(&mut state, 2).is_empty());
        put_all(&mut state, set, 7..9, Some(b"v"));
        let mut state = reopened(state, make, true);
        assert_eq!(times(&mut state, 2), [7, 8]);
    }
}
