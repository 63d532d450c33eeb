//! Window stores: what is kept, what is refused, what is read, in tables.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use thalweg_state::window::{parse_window_store_key, window_store_key};
use thalweg_state::{
    CommitFacts, Direction, Engine, ErrorClass, KeyRange, MemEngine, Put, RestoreRecord,
    StateError, StoreIx, StoreKind, StoreSpec, TaskState, WindowSpec,
};

const STORE: StoreIx = StoreIx(0);
const STORED: Put = Put::Stored { seq: 0 };
const EXPIRED: Put = Put::Expired { seq: 0 };

fn open(engine: Box<dyn Engine>, spec: WindowSpec) -> TaskState {
    TaskState::open(engine, vec![StoreSpec::window("w", spec)]).unwrap()
}

fn fresh(spec: WindowSpec) -> TaskState {
    open(Box::new(MemEngine::new()), spec)
}

fn put(state: &mut TaskState, key: &str, start_ms: i64, value: &str) -> Put {
    state.window_put(STORE, key.as_bytes(), start_ms, Some(value.as_bytes())).unwrap()
}

fn keep(state: &mut TaskState, key: &str, start_ms: i64, value: &str) {
    assert!(matches!(put(state, key, start_ms, value), Put::Stored { .. }), "{key}@{start_ms}");
}

fn fetch(state: &mut TaskState, key: &str, start_ms: i64) -> Option<String> {
    let value = state.window_fetch(STORE, key.as_bytes(), start_ms).unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// All readable entries as `key@start=value`.
fn dump(state: &TaskState) -> Vec<String> {
    shown(state.window_all(STORE, 0, i64::MAX, Direction::Forward).unwrap())
}

fn shown(entries: thalweg_state::WindowIter<'_>) -> Vec<String> {
    entries
        .map(|entry| {
            let (key, start_ms, value) = entry.unwrap();
            format!("{}@{start_ms}={}", key.escape_ascii(), value.escape_ascii())
        })
        .collect()
}

/// How many local entries there are, readable or not.
fn stored(state: &TaskState) -> usize {
    state.range(STORE, &KeyRange::all(), Direction::Forward).unwrap().count()
}

#[test]
fn default_segments_are_half_the_retention_and_at_least_a_minute() {
    for (retention_ms, segment_ms) in
        [(0, 60_000), (10, 60_000), (120_000, 60_000), (120_002, 60_001), (86_400_000, 43_200_000)]
    {
        assert_eq!(WindowSpec::new(retention_ms).segment_ms, segment_ms);
    }
}

#[test]
fn put_is_refused_when_its_segment_is_gone_or_exactly_at_the_end_of_retention() {
    // Retention 100, segments of 40; stream time 250: starts from 151 on can be read, the first kept
    // segment holds 150 and begins at 120.
    for (start_ms, by_segment, exact) in [
        (0, EXPIRED, EXPIRED),
        (119, EXPIRED, EXPIRED),
        (120, STORED, EXPIRED),
        (150, STORED, EXPIRED),
        (151, STORED, STORED),
        (250, STORED, STORED),
        (300, STORED, STORED),
    ] {
        let spec = WindowSpec::new(100).segment_ms(40);
        for (spec, expected) in [(spec, by_segment), (spec.exact_expiry(), exact)] {
            let mut state = fresh(spec);
            assert_eq!(put(&mut state, "clock", 250, "x"), STORED);
            assert_eq!(put(&mut state, "k", start_ms, "v"), expected, "{start_ms} {spec:?}");
            let readable = start_ms > 150;
            assert_eq!(fetch(&mut state, "k", start_ms).is_some(), readable, "{start_ms} {spec:?}");
        }
    }
}

#[test]
fn whole_segments_leave_as_stream_time_advances() {
    let mut state = fresh(WindowSpec::new(100).segment_ms(50));
    for start_ms in [0, 49, 50, 99, 100] {
        keep(&mut state, "k", start_ms, "v");
    }
    // 1 is the first readable start, yet its segment stays until no start of it is readable.
    assert_eq!((dump(&state).len(), stored(&state)), (4, 5));
    keep(&mut state, "k", 149, "v");
    assert_eq!((dump(&state).len(), stored(&state)), (4, 6));
    keep(&mut state, "k", 150, "v");
    assert_eq!(dump(&state), ["k@99=v", "k@100=v", "k@149=v", "k@150=v"]);
    assert_eq!(stored(&state), 5);
    state.commit(&CommitFacts::new()).unwrap();
    keep(&mut state, "k", 100_000, "v");
    assert_eq!((dump(&state), stored(&state)), (vec!["k@100000=v".to_owned()], 1));
    state.commit(&CommitFacts::new()).unwrap();
    assert_eq!(stored(&state), 1);
}

#[test]
fn scenario_of_a_stream_time_jump_keeps_only_the_last_window() {
    let mut state = fresh(WindowSpec::new(10));
    for (key, start_ms) in [("a", 0), ("a", 10), ("a", 20), ("a", 100_000), ("b", 200_000)] {
        assert_eq!(put(&mut state, key, start_ms, "1"), STORED);
        assert_eq!(fetch(&mut state, key, start_ms).as_deref(), Some("1"));
    }
    assert_eq!(dump(&state), ["b@200000=1"]);
}

#[test]
fn fetches_see_both_ends_and_order_by_start_or_by_key() {
    let mut state = fresh(WindowSpec::new(1_000));
    for (key, start_ms, value) in [
        ("a", 0, "1"),
        ("b", 10, "2"),
        ("a", 10, "3"),
        ("c", 20, "4"),
        ("a", 30, "5"),
        ("a", 20, "6"),
    ] {
        keep(&mut state, key, start_ms, value);
    }
    for committed in [false, true] {
        assert_eq!(fetch(&mut state, "a", 0).as_deref(), Some("1"));
        assert_eq!(fetch(&mut state, "a", 5), None);
        let range = |from_ms, to_ms, direction| {
            shown(state.window_range(STORE, b"a", from_ms, to_ms, direction).unwrap())
        };
        assert_eq!(range(0, 20, Direction::Forward), ["a@0=1", "a@10=3", "a@20=6"]);
        assert_eq!(range(1, 30, Direction::Forward), ["a@10=3", "a@20=6", "a@30=5"]);
        assert_eq!(range(0, 100, Direction::Reverse), ["a@30=5", "a@20=6", "a@10=3", "a@0=1"]);
        assert_eq!(range(20, 10, Direction::Forward), [""; 0]);
        assert_eq!(range(-5, -1, Direction::Forward), [""; 0]);
        let keys = |low: Option<&str>, high: Option<&str>, times_ms| {
            let (low, high) = (low.map(str::as_bytes), high.map(str::as_bytes));
            shown(state.window_keys(STORE, low, high, times_ms, Direction::Forward).unwrap())
        };
        let both = ["a@0=1", "a@10=3", "a@20=6", "a@30=5", "b@10=2"];
        assert_eq!(keys(Some("a"), Some("b"), (0, 100)), both);
        assert_eq!(keys(None, Some("b"), (0, 100)), both);
        assert_eq!(keys(Some("b"), None, (0, 100)), ["b@10=2", "c@20=4"]);
        assert_eq!(keys(None, None, (10, 20)), ["a@10=3", "a@20=6", "b@10=2", "c@20=4"]);
        if !committed {
            state.commit(&CommitFacts::new()).unwrap();
        }
    }
}

#[test]
fn range_over_several_segments_is_in_order_of_start() {
    let mut state = fresh(WindowSpec::new(1_000).segment_ms(100));
    for start_ms in [950, 20, 350, 199, 200, 340] {
        keep(&mut state, "k", start_ms, "v");
        state.commit(&CommitFacts::new()).unwrap();
    }
    let starts = |direction| -> Vec<i64> {
        let entries = state.window_range(STORE, b"k", 20, 949, direction).unwrap();
        entries.map(|entry| entry.unwrap().1).collect()
    };
    assert_eq!(starts(Direction::Forward), [20, 199, 200, 340, 350]);
    assert_eq!(starts(Direction::Reverse), [350, 340, 200, 199, 20]);
}

#[test]
fn keys_that_are_prefixes_of_each_other_are_told_apart() {
    let mut state = fresh(WindowSpec::new(i64::MAX));
    let times = [0, 1, 255, 256, 1 << 31, 1 << 32, 1_700_000_000_000, 4_102_444_800_000];
    let keys: [&[u8]; 6] = [b"", b"a", b"aa", b"a\0", b"a\0\0\0\0\0\0\0\x01", b"a\xff"];
    for start_ms in times {
        for key in keys {
            let value = [key, b"!"].concat();
            assert_eq!(state.window_put(STORE, key, start_ms, Some(&value)).unwrap(), STORED);
        }
    }
    for key in keys {
        let mut entries = state.window_range(STORE, key, 1, 1 << 32, Direction::Forward).unwrap();
        for start_ms in &times[1..6] {
            let entry = entries.next_entry().unwrap().unwrap();
            assert_eq!((entry.key, entry.start_ms), (key, *start_ms));
            assert_eq!(entry.value, [key, b"!"].concat());
        }
        assert_eq!(entries.next_entry().unwrap(), None);
    }
    for low in keys {
        for high in keys {
            let inside = keys.iter().filter(|&&key| low <= key && key <= high).count();
            let (low, high) = (Some(low), Some(high));
            let found =
                state.window_keys(STORE, low, high, (1, 1 << 32), Direction::Forward).unwrap();
            assert_eq!(found.count(), inside * 5, "{low:?} to {high:?}");
        }
    }
}

#[test]
fn duplicates_are_kept_in_order_of_arrival_and_a_delete_only_takes_a_number() {
    let mut state = fresh(WindowSpec::new(1_000).retain_duplicates());
    assert_eq!(put(&mut state, "a", 5, "1"), Put::Stored { seq: 1 });
    assert_eq!(put(&mut state, "a", 5, "2"), Put::Stored { seq: 2 });
    assert_eq!(state.window_put(STORE, b"a", 900, None).unwrap(), Put::Ignored { seq: 3 });
    assert_eq!(put(&mut state, "a", 6, "3"), Put::Stored { seq: 4 });
    assert_eq!(dump(&state), ["a@5=1", "a@5=2", "a@6=3"]);
    assert_eq!(state.window_observed_ms(STORE).unwrap(), Some(6));
    assert_eq!(fetch(&mut state, "a", 5), None);
}

#[test]
fn sequence_numbers_are_rolled_back_and_go_on_after_restart_and_restore() {
    let spec = WindowSpec::new(1_000).retain_duplicates();
    let mut state = fresh(spec);
    assert_eq!(put(&mut state, "a", 5, "1").seq(), 1);
    state.commit(&CommitFacts::new()).unwrap();
    assert_eq!(put(&mut state, "a", 5, "2").seq(), 2);
    state.rollback();
    assert_eq!(put(&mut state, "a", 5, "2").seq(), 2);
    state.commit(&CommitFacts::new()).unwrap();
    let mut state = open(state.into_engine(), spec);
    assert_eq!(put(&mut state, "a", 5, "3").seq(), 3);
    assert_eq!(dump(&state), ["a@5=1", "a@5=2", "a@5=3"]);

    let mut restored = fresh(spec);
    restore(&mut restored, &[("a", 5, 7, Some("1")), ("a", 5, 8, Some("2")), ("a", 9, 9, None)], 3);
    assert_eq!(restored.window_observed_ms(STORE).unwrap(), Some(5));
    assert_eq!(put(&mut restored, "a", 5, "3").seq(), 10);
    assert_eq!(dump(&restored), ["a@5=1", "a@5=2", "a@5=3"]);
}

#[test]
fn sequence_numbers_wrap_past_zero() {
    let mut state = fresh(WindowSpec::new(1_000).retain_duplicates());
    restore(&mut state, &[("a", 5, 0x7fff_fffe, Some("1"))], 1);
    assert_eq!(put(&mut state, "a", 5, "2").seq(), 0x7fff_ffff);
    assert_eq!(put(&mut state, "a", 5, "3").seq(), 1);
}

#[test]
fn stream_time_of_a_store_is_rolled_back_and_survives_a_restart() {
    let spec = WindowSpec::new(100).segment_ms(10);
    let mut state = fresh(spec);
    assert_eq!(state.window_observed_ms(STORE).unwrap(), None);
    keep(&mut state, "k", 0, "0");
    state.commit(&CommitFacts::new()).unwrap();
    keep(&mut state, "k", 500, "1");
    assert_eq!(dump(&state), ["k@500=1"]);
    state.rollback();
    assert_eq!(state.window_observed_ms(STORE).unwrap(), Some(0));
    assert_eq!(dump(&state), ["k@0=0"]);
    keep(&mut state, "k", 500, "1");
    state.commit(&CommitFacts::new()).unwrap();
    let mut state = open(state.into_engine(), spec);
    assert_eq!(state.window_observed_ms(STORE).unwrap(), Some(500));
    assert_eq!(put(&mut state, "k", 399, "late"), EXPIRED);
    state.clear_store(STORE).unwrap();
    assert_eq!(put(&mut state, "k", 399, "early"), STORED);
}

fn restore(state: &mut TaskState, records: &[(&str, i64, u32, Option<&str>)], position: i64) {
    let keys: Vec<Vec<u8>> = records
        .iter()
        .map(|(key, start_ms, seq, _)| {
            let mut bytes = Vec::new();
            window_store_key(key.as_bytes(), *start_ms, *seq, &mut bytes);
            bytes
        })
        .collect();
    let mut wire = keys.iter().zip(records).map(|(key, record)| RestoreRecord {
        key,
        value: record.3.map(str::as_bytes),
        timestamp_ms: 0,
    });
    state.restore(STORE, &mut wire, position).unwrap();
}

#[test]
fn restore_takes_changelog_keys_and_skips_what_is_out_of_retention() {
    let spec = WindowSpec::new(100).segment_ms(50);
    let mut state = fresh(spec);
    restore(&mut state, &[("a", 0, 0, Some("1")), ("a", 60, 0, Some("2"))], 2);
    assert_eq!(dump(&state), ["a@0=1", "a@60=2"]);
    // The second record puts the first, and what was restored before, out of retention.
    let more = [("a", 20, 0, Some("3")), ("b", 200, 0, Some("4")), ("a", 70, 0, Some("5"))];
    restore(&mut state, &more, 5);
    assert_eq!(dump(&state), ["b@200=4"]);
    assert_eq!(stored(&state), 1);
    assert_eq!(state.position(STORE), Some(5));
    restore(&mut state, &[("b", 200, 0, None)], 6);
    let mut state = open(state.into_engine(), spec);
    assert_eq!((dump(&state), state.position(STORE)), (vec![], Some(6)));
    assert_eq!(put(&mut state, "a", 99, "late"), EXPIRED);
}

#[test]
fn malformed_changelog_key_is_an_error_and_nothing_is_restored() {
    let mut state = fresh(WindowSpec::new(100));
    let mut good = Vec::new();
    window_store_key(b"a", 0, 0, &mut good);
    let mut negative = Vec::new();
    window_store_key(b"a", -1, 0, &mut negative);
    for bad in [&b"short"[..], &negative] {
        let mut records = [good.as_slice(), bad].into_iter().map(|key| RestoreRecord {
            key,
            value: Some(b"1"),
            timestamp_ms: 0,
        });
        let error = state.restore(STORE, &mut records, 2).unwrap_err();
        assert_eq!(error.class(), ErrorClass::TaskCorrupted);
        assert_eq!((dump(&state), state.position(STORE)), (vec![], None));
    }
    assert_eq!(parse_window_store_key(&good).unwrap().key, b"a");
}

#[test]
fn window_operations_need_a_window_store_and_a_start_from_zero() {
    let mut state =
        TaskState::open(Box::new(MemEngine::new()), vec![StoreSpec::key_value("kv")]).unwrap();
    let error = state.window_put(STORE, b"a", 0, Some(b"1")).unwrap_err();
    assert!(matches!(&error, StateError::NotAWindowStore { store } if store == "kv"), "{error}");
    let mut state = fresh(WindowSpec::new(100));
    let error = state.window_put(STORE, b"a", -1, Some(b"1")).unwrap_err();
    assert_eq!(error.class(), ErrorClass::User);
    assert_eq!(state.window_observed_ms(STORE).unwrap(), None);
}

#[test]
fn spec_says_what_was_asked_for() {
    let spec = StoreSpec::window("w", WindowSpec::new(7)).in_memory();
    assert!(matches!(spec.kind, StoreKind::Window(window) if window.retention_ms == 7));
    assert!(!spec.persistent);
}

#[test]
fn rows_of_the_time_index_are_no_entries() {
    for spec in [WindowSpec::new(1_000), WindowSpec::new(1_000).time_index()] {
        let mut state = fresh(spec);
        keep(&mut state, "a", 1, "x");
        keep(&mut state, "b", 2, "x");
        state.commit(&CommitFacts::new()).unwrap();
        assert_eq!(state.approximate_entries(STORE).unwrap(), 2, "committed: {spec:?}");
        keep(&mut state, "c", 3, "x");
        assert_eq!(state.approximate_entries(STORE).unwrap(), 3, "and written since: {spec:?}");
    }
}
