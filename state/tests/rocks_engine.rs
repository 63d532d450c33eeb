//! What is on disk after a process died, was closed, or met damaged files.
#![cfg(feature = "rocksdb")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use thalweg_state::{
    CommitFacts, Direction, ErrorClass, KeyRange, RestoreRecord, RocksEngine, RocksOptions,
    StoreIx, StoreSpec, TaskState,
};

const STORE: StoreIx = StoreIx(0);
const OTHER: StoreIx = StoreIx(1);

fn open(dir: &Path) -> TaskState {
    let engine = RocksEngine::open(dir, &["s"], &RocksOptions::default()).unwrap();
    let specs = vec![StoreSpec::key_value("s"), StoreSpec::key_value("other")];
    TaskState::open(Box::new(engine), specs).unwrap()
}

/// What the disk would hold if the process died now: a copy made while the database is open.
fn killed(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

fn count(state: &TaskState, store: StoreIx) -> usize {
    state.range(store, &KeyRange::all(), Direction::Forward).unwrap().count()
}

fn restore(state: &mut TaskState, from: i64, to: i64) {
    let keys: Vec<[u8; 8]> = (from..to).map(i64::to_be_bytes).collect();
    let mut records =
        keys.iter().map(|key| RestoreRecord { key, value: Some(b"v"), timestamp_ms: 0 });
    state.restore(STORE, &mut records, to).unwrap();
}

#[test]
fn killed_process_leaves_the_last_commit_and_its_position() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(dir.path());
    for round in 1..=5_i64 {
        for number in 0..100_i64 {
            let key = (round * 1_000 + number).to_be_bytes();
            state.put(STORE, &key, Some(b"v")).unwrap();
            state.put(OTHER, &key, Some(b"v")).unwrap();
        }
        let before = open(killed(dir.path()).path());
        assert_eq!(before.position(STORE), (round > 1).then_some(round - 1));
        state.commit(&CommitFacts::new().position(STORE, round).committed_at(round)).unwrap();
        let copy = killed(dir.path());
        let after = open(copy.path());
        assert_eq!(after.position(STORE), Some(round));
        assert_eq!(after.committed_at_ms(), Some(round));
        for store in [STORE, OTHER] {
            assert_eq!(count(&after, store), usize::try_from(round * 100).unwrap());
        }
    }
}

#[test]
fn closed_state_is_found_again_without_what_was_not_committed() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(dir.path());
    state.put(STORE, b"a", Some(b"1")).unwrap();
    state.commit(&CommitFacts::new().position(STORE, 1)).unwrap();
    state.put(STORE, b"b", Some(b"1")).unwrap();
    drop(state);
    let mut state = open(dir.path());
    assert_eq!((count(&state, STORE), state.position(STORE)), (1, Some(1)));
    assert_eq!(state.get(STORE, b"a").unwrap(), Some(&b"1"[..]));
}

#[test]
fn restored_records_survive_a_close_and_a_kill_never_separates_them_from_their_position() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(dir.path());
    restore(&mut state, 0, 1_000);
    restore(&mut state, 1_000, 2_000);
    // Restoring skips the log; a kill may lose it, as a whole.
    let copy = killed(dir.path());
    let after = open(copy.path());
    assert_eq!(after.position(STORE).unwrap_or(0), i64::try_from(count(&after, STORE)).unwrap());
    drop(after);
    // The first commit after it may not come without it.
    state.put(STORE, b"x", Some(b"1")).unwrap();
    state.commit(&CommitFacts::new().position(OTHER, 7)).unwrap();
    let copy = killed(dir.path());
    let after = open(copy.path());
    assert_eq!((count(&after, STORE), after.position(STORE)), (2_001, Some(2_000)));
    restore(&mut state, 2_000, 2_500);
    drop(state);
    let state = open(dir.path());
    assert_eq!((count(&state, STORE), state.position(STORE)), (2_501, Some(2_500)));
}

#[test]
fn store_that_left_the_topology_keeps_its_data() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(dir.path());
    state.put(OTHER, b"a", Some(b"1")).unwrap();
    state.commit(&CommitFacts::new().position(OTHER, 1)).unwrap();
    drop(state);
    let engine = RocksEngine::open(dir.path(), &["s"], &RocksOptions::default()).unwrap();
    let specs = vec![StoreSpec::key_value("s")];
    let mut without = TaskState::open(Box::new(engine), specs).unwrap();
    without.commit(&CommitFacts::new().position(STORE, 5)).unwrap();
    drop(without);
    let state = open(dir.path());
    assert_eq!((count(&state, OTHER), state.position(OTHER)), (1, Some(1)));
    assert_eq!(state.position(STORE), Some(5));
}

#[test]
fn second_opening_is_an_error_that_names_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let _first = open(dir.path());
    let error = RocksEngine::open(dir.path(), &[], &RocksOptions::default()).err().unwrap();
    assert!(error.to_string().contains(&dir.path().display().to_string()), "{error}");
    assert_eq!(error.class(), ErrorClass::Abortable);
}

/// Overwrites the middle of the files whose name is accepted.
fn damage(dir: &Path, chosen: impl Fn(&str) -> bool) {
    let mut hits = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if chosen(path.file_name().unwrap().to_str().unwrap()) {
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 4..bytes.len() * 3 / 4;
            bytes[middle].fill(0xa5);
            fs::write(&path, bytes).unwrap();
            hits += 1;
        }
    }
    assert!(hits > 0, "no file to damage");
}

/// Opens and reads everything; the first error.
fn read_all(dir: &Path) -> Result<usize, thalweg_state::StateError> {
    let engine = RocksEngine::open(dir, &["s"], &RocksOptions::default())?;
    let specs = vec![StoreSpec::key_value("s"), StoreSpec::key_value("other")];
    let state = TaskState::open(Box::new(engine), specs)?;
    let mut entries = state.range(STORE, &KeyRange::all(), Direction::Forward)?;
    let mut count = 0;
    while entries.next_entry()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// What is done to a closed database, and its name.
type Harm<'a> = (&'a str, &'a dyn Fn(&Path));

#[test]
fn damaged_or_missing_files_make_the_task_corrupted() {
    let is_table = |name: &str| name.ends_with(".sst");
    let cases: [Harm; 3] = [
        ("damaged tables", &|dir| damage(dir, is_table)),
        ("damaged manifest", &|dir| damage(dir, |name| name.starts_with("MANIFEST"))),
        ("missing tables", &|dir| {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if is_table(path.file_name().unwrap().to_str().unwrap()) {
                    fs::remove_file(path).unwrap();
                }
            }
        }),
    ];
    for (name, harm) in cases {
        let dir = tempfile::tempdir().unwrap();
        let mut state = open(dir.path());
        restore(&mut state, 0, 10_000);
        state.flush().unwrap();
        drop(state);
        assert_eq!(read_all(dir.path()).unwrap(), 10_000);
        harm(dir.path());
        let error = read_all(dir.path()).unwrap_err();
        assert_eq!(error.class(), ErrorClass::TaskCorrupted, "{name}: {error}");
    }
}
