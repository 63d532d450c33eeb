//! What survives what: commit, rollback, restore, clearing, reopening.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use thalweg_state::{
    CommitFacts, Direction, Engine, ErrorClass, FACTS_FAMILY, FORMAT_VERSION, KeyRange, MemEngine,
    RestoreRecord, StateError, StoreIx, StoreSpec, TaskState, WriteOp, WriteOps, values,
};

const DISK: StoreIx = StoreIx(0);
const RAM: StoreIx = StoreIx(1);

fn specs() -> Vec<StoreSpec> {
    vec![StoreSpec::key_value("disk"), StoreSpec::key_value("ram").in_memory()]
}

fn fresh() -> TaskState {
    TaskState::open(Box::new(MemEngine::new()), specs()).unwrap()
}

fn reopened(state: TaskState) -> TaskState {
    TaskState::open(state.into_engine(), specs()).unwrap()
}

fn dump(state: &TaskState, store: StoreIx) -> Vec<(String, String)> {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let entries = state.range(store, &KeyRange::all(), Direction::Forward).unwrap();
    entries.map(|entry| entry.map(|(key, value)| (text(key), text(value))).unwrap()).collect()
}

fn pairs(entries: &[(&str, &str)]) -> Vec<(String, String)> {
    entries.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn record<'a>(key: &'a str, value: Option<&'a str>) -> RestoreRecord<'a> {
    let value = value.map(str::as_bytes);
    RestoreRecord { key: key.as_bytes(), value, timestamp_ms: 5 }
}

#[test]
fn commit_stores_data_and_facts_together() {
    let mut state = fresh();
    state.put(DISK, b"a", Some(b"1")).unwrap();
    let facts = CommitFacts::new().position(DISK, 7).topic_id(DISK, "id-1").committed_at(5_000);
    state.commit(&facts).unwrap();
    let state = reopened(state);
    assert_eq!(dump(&state, DISK), pairs(&[("a", "1")]));
    assert_eq!(state.position(DISK), Some(7));
    assert_eq!(state.topic_id(DISK), Some("id-1"));
    assert_eq!(state.committed_at_ms(), Some(5_000));
}

#[test]
fn commit_keeps_facts_it_does_not_name() {
    let mut state = fresh();
    state.commit(&CommitFacts::new().position(DISK, 7).committed_at(1)).unwrap();
    state.commit(&CommitFacts::new().topic_id(DISK, "id-1")).unwrap();
    assert_eq!((state.position(DISK), state.committed_at_ms()), (Some(7), Some(1)));
    let state = reopened(state);
    assert_eq!((state.position(DISK), state.committed_at_ms()), (Some(7), Some(1)));
    assert_eq!(state.topic_id(DISK), Some("id-1"));
}

#[test]
fn last_of_two_facts_with_one_name_counts() {
    let mut state = fresh();
    state.commit(&CommitFacts::new().position(DISK, 1).position(DISK, 2)).unwrap();
    assert_eq!(state.position(DISK), Some(2));
    assert_eq!(reopened(state).position(DISK), Some(2));
}

#[test]
fn rollback_returns_to_the_last_commit() {
    let mut state = fresh();
    for store in [DISK, RAM] {
        state.put(store, b"a", Some(b"1")).unwrap();
        state.put(store, b"b", Some(b"1")).unwrap();
    }
    state.commit(&CommitFacts::new()).unwrap();
    for store in [DISK, RAM] {
        state.put(store, b"a", Some(b"2")).unwrap();
        state.delete_range(store, &KeyRange::half_open("b", None)).unwrap();
        state.put(store, b"c", Some(b"2")).unwrap();
        assert_eq!(dump(&state, store), pairs(&[("a", "2"), ("c", "2")]));
    }
    assert!(state.uncommitted_bytes() > 0);
    state.rollback();
    assert_eq!(state.uncommitted_bytes(), 0);
    for store in [DISK, RAM] {
        assert_eq!(dump(&state, store), pairs(&[("a", "1"), ("b", "1")]));
        assert_eq!(state.get(store, b"b").unwrap(), Some(&b"1"[..]));
    }
}

#[test]
fn reopening_drops_uncommitted_writes_and_everything_kept_in_memory() {
    let mut state = fresh();
    for store in [DISK, RAM] {
        state.put(store, b"a", Some(b"1")).unwrap();
    }
    state.commit(&CommitFacts::new().position(DISK, 1).position(RAM, 1)).unwrap();
    assert_eq!(state.position(RAM), Some(1));
    state.put(DISK, b"b", Some(b"1")).unwrap();
    let state = reopened(state);
    assert_eq!(dump(&state, DISK), pairs(&[("a", "1")]));
    assert_eq!(dump(&state, RAM), pairs(&[]));
    assert_eq!((state.position(DISK), state.position(RAM)), (Some(1), None));
}

#[test]
fn store_that_becomes_volatile_forgets_its_stored_position() {
    let mut state = fresh();
    state.commit(&CommitFacts::new().position(DISK, 9)).unwrap();
    let volatile = vec![StoreSpec::key_value("disk").in_memory()];
    let state = TaskState::open(state.into_engine(), volatile).unwrap();
    assert_eq!(state.position(StoreIx(0)), None);
}

#[test]
fn value_written_after_a_range_delete_is_committed() {
    let mut state = fresh();
    state.put(DISK, b"a", Some(b"1")).unwrap();
    state.put(DISK, b"b", Some(b"1")).unwrap();
    state.commit(&CommitFacts::new()).unwrap();
    state.delete_range(DISK, &KeyRange::all()).unwrap();
    state.put(DISK, b"b", Some(b"2")).unwrap();
    state.commit(&CommitFacts::new()).unwrap();
    assert_eq!(dump(&reopened(state), DISK), pairs(&[("b", "2")]));
}

#[test]
fn restore_applies_records_with_their_position_and_the_last_record_of_a_key_wins() {
    let mut state = fresh();
    for store in [DISK, RAM] {
        let records = [
            record("a", Some("1")),
            record("b", Some("1")),
            record("a", Some("2")),
            record("b", None),
            record("c", Some("1")),
        ];
        state.restore(store, &mut records.into_iter(), 5).unwrap();
        assert_eq!(dump(&state, store), pairs(&[("a", "2"), ("c", "1")]));
        state.restore(store, &mut [record("a", None)].into_iter(), 8).unwrap();
        assert_eq!(dump(&state, store), pairs(&[("c", "1")]));
        assert_eq!(state.position(store), Some(8));
    }
    state.rollback();
    assert_eq!(dump(&state, DISK), pairs(&[("c", "1")]));
    assert_eq!(dump(&state, RAM), pairs(&[("c", "1")]));
    let state = reopened(state);
    assert_eq!(state.position(DISK), Some(8));
    assert_eq!(dump(&state, DISK), pairs(&[("c", "1")]));
}

#[test]
fn restore_without_records_moves_the_position() {
    let mut state = fresh();
    state.restore(DISK, &mut std::iter::empty(), 3).unwrap();
    assert_eq!(reopened(state).position(DISK), Some(3));
}

#[test]
fn restore_into_a_timestamped_store_puts_the_timestamp_first() {
    let specs = vec![StoreSpec::key_value("t").timestamped()];
    let mut state = TaskState::open(Box::new(MemEngine::new()), specs).unwrap();
    state.restore(DISK, &mut [record("a", Some("1"))].into_iter(), 1).unwrap();
    let local = state.get(DISK, b"a").unwrap().unwrap();
    assert_eq!(values::decode_timestamped(local), Some((5, &b"1"[..])));
}

#[test]
fn restore_over_uncommitted_writes_is_refused() {
    let mut state = fresh();
    state.put(DISK, b"a", Some(b"1")).unwrap();
    let error = state.restore(DISK, &mut std::iter::empty(), 3).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Abortable);
    assert!(error.to_string().contains("'disk'"), "{error}");
    assert_eq!(state.position(DISK), None);
    state.restore(RAM, &mut std::iter::empty(), 3).unwrap();
}

#[test]
fn clearing_a_store_empties_it_alone() {
    let mut state = fresh();
    for store in [DISK, RAM] {
        state.put(store, b"a", Some(b"1")).unwrap();
    }
    state
        .commit(&CommitFacts::new().position(DISK, 1).position(RAM, 1).topic_id(DISK, "t"))
        .unwrap();
    state.put(DISK, b"b", Some(b"1")).unwrap();
    state.clear_store(DISK).unwrap();
    assert_eq!(dump(&state, DISK), pairs(&[]));
    assert_eq!((state.position(DISK), state.topic_id(DISK)), (None, None));
    assert_eq!((dump(&state, RAM), state.position(RAM)), (pairs(&[("a", "1")]), Some(1)));
    state.clear_store(RAM).unwrap();
    assert_eq!((dump(&state, RAM), state.position(RAM)), (pairs(&[]), None));
    let state = reopened(state);
    assert_eq!((dump(&state, DISK), state.position(DISK)), (pairs(&[]), None));
}

#[test]
fn entries_are_estimated_over_engine_and_overlay() {
    let mut state = fresh();
    state.put(RAM, b"a", Some(b"1")).unwrap();
    state.commit(&CommitFacts::new()).unwrap();
    state.put(RAM, b"b", Some(b"1")).unwrap();
    assert_eq!(state.approximate_entries(RAM).unwrap(), 2);
}

#[test]
fn uncommitted_bytes_grow_with_new_data_and_not_with_updates_in_place() {
    let mut state = fresh();
    state.put(DISK, b"key", Some(b"12345678")).unwrap();
    let one = state.uncommitted_bytes();
    for _ in 0..1_000 {
        state.put(DISK, b"key", Some(b"87654321")).unwrap();
    }
    assert_eq!(state.uncommitted_bytes(), one);
    state.put(DISK, b"key", Some(&[0; 10_000])).unwrap();
    assert!(state.uncommitted_bytes() > 10_000);
}

#[test]
fn value_that_keeps_growing_stays_within_a_small_multiple_of_its_size() {
    let mut state = fresh();
    let mut value = Vec::new();
    for byte in 0..20_000_u32 {
        value.push(byte.to_le_bytes()[0]);
        state.put(DISK, b"key", Some(&value)).unwrap();
    }
    assert_eq!(state.get(DISK, b"key").unwrap(), Some(&value[..]));
    assert!(state.uncommitted_bytes() < 4 * value.len(), "{}", state.uncommitted_bytes());
}

#[test]
fn ranges_between_writes_stay_cheap() {
    // Sorting anew for each range would take minutes.
    let mut state = fresh();
    for number in 0..200_000_u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        state.put(DISK, &key, Some(b"v")).unwrap();
        let mut found = state.range(DISK, &KeyRange::prefix(&key), Direction::Forward).unwrap();
        assert_eq!(found.next_entry().unwrap(), Some((&key[..], &b"v"[..])));
        assert_eq!(found.next_entry().unwrap(), None);
    }
}

#[test]
fn unknown_store_is_an_error_that_names_it() {
    let mut state = fresh();
    let error = state.get(StoreIx(2), b"a").unwrap_err();
    assert!(error.to_string().contains("number 2"), "{error}");
    assert_eq!(error.class(), ErrorClass::Fatal);
    state.put(DISK, b"a", Some(b"1")).unwrap();
    state.commit(&CommitFacts::new().position(StoreIx(2), 1)).unwrap_err();
    assert_eq!(dump(&state, DISK), pairs(&[("a", "1")]));
    state.rollback();
    assert_eq!(dump(&state, DISK), pairs(&[]));
}

#[test]
fn stores_with_one_name_or_a_reserved_name_are_refused() {
    let open = |names: &[&str]| {
        let specs = names.iter().map(|&name| StoreSpec::key_value(name)).collect();
        TaskState::open(Box::new(MemEngine::new()), specs).err().unwrap()
    };
    assert!(matches!(open(&["a", "a"]), StateError::DuplicateStore { name } if name == "a"));
    assert!(matches!(open(&[FACTS_FAMILY]), StateError::BadName { .. }));
    assert!(matches!(open(&[""]), StateError::BadName { .. }));
}

/// An engine with one raw entry among its facts.
fn engine_with_fact(key: &str, value: &[u8]) -> Box<dyn Engine> {
    let mut engine = fresh();
    engine.put(DISK, b"a", Some(b"1")).unwrap();
    engine.commit(&CommitFacts::new()).unwrap();
    let mut engine = engine.into_engine();
    let family = engine.family(FACTS_FAMILY).unwrap();
    let put = WriteOp::Put(family, key.as_bytes(), value);
    engine.write(&WriteOps { ops: vec![put], restorable: false }).unwrap();
    engine
}

#[test]
fn newer_format_is_an_error_that_says_so_and_wipes_nothing() {
    let mut engine = engine_with_fact("format", &(FORMAT_VERSION + 1).to_be_bytes());
    let error = TaskState::open(engine, specs()).err().unwrap();
    assert!(error.to_string().contains(&format!("format {}", FORMAT_VERSION + 1)), "{error}");
    assert_eq!(error.class(), ErrorClass::Fatal);

    // Also if the newer version keeps entries that this one does not know.
    engine = engine_with_fact("a new kind/x", b"?");
    let family = engine.family(FACTS_FAMILY).unwrap();
    let put = WriteOp::Put(family, b"format", &[0, 0, 1, 0]);
    engine.write(&WriteOps { ops: vec![put], restorable: false }).unwrap();
    let error = TaskState::open(engine, specs()).err().unwrap();
    assert!(matches!(error, StateError::NewerFormat { found: 256, .. }), "{error}");
}

#[test]
fn unreadable_fact_makes_the_task_corrupted() {
    for (key, value) in [
        ("position/disk", &b"short"[..]),
        ("unheard-of", &[0; 8]),
        ("window/disk", &[0; 11]),
        ("format", &[1]),
        ("topic-id/disk", &[0xff]),
    ] {
        let error = TaskState::open(engine_with_fact(key, value), specs()).err().unwrap();
        assert_eq!(error.class(), ErrorClass::TaskCorrupted);
        assert!(error.to_string().contains(key), "{error}");
    }
}

#[test]
fn state_moves_to_another_thread_with_its_task() {
    fn movable(_: impl Send) {}
    movable(fresh());
}

#[test]
fn facts_without_a_format_version_make_the_task_corrupted() {
    let mut engine = engine_with_fact("position/disk", &[0; 8]);
    let family = engine.family(FACTS_FAMILY).unwrap();
    let delete = WriteOp::Delete(family, b"format");
    engine.write(&WriteOps { ops: vec![delete], restorable: false }).unwrap();
    let error = TaskState::open(engine, specs()).err().unwrap();
    assert_eq!(error.class(), ErrorClass::TaskCorrupted);
    assert!(error.to_string().contains("'format'"), "{error}");
}
