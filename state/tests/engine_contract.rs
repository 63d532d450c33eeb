//! What every engine has to do; one suite, run on each.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use thalweg_state::{Direction, Engine, FamilyIx, KeyRange, MemEngine, WriteOp, WriteOps};

/// An engine and what has to outlive it.
struct Rig {
    engine: Box<dyn Engine>,
    _dir: Option<tempfile::TempDir>,
}

fn memory() -> Rig {
    Rig { engine: Box::new(MemEngine::new()), _dir: None }
}

#[cfg(feature = "rocksdb")]
fn rocks() -> Rig {
    use thalweg_state::{RocksEngine, RocksOptions};

    let dir = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(dir.path(), &[], &RocksOptions::default()).unwrap();
    Rig { engine: Box::new(engine), _dir: Some(dir) }
}

macro_rules! contract {
    ($($behaviour:ident)*) => {
        mod memory_engine {
            $(#[test] fn $behaviour() { super::$behaviour(super::memory()); })*
        }
        #[cfg(feature = "rocksdb")]
        mod rocks_engine {
            $(#[test] fn $behaviour() { super::$behaviour(super::rocks()); })*
        }
    };
}

contract! {
    get_finds_the_latest_value_and_nothing_else
    families_are_separate_and_found_again_by_name
    walks_a_range_in_both_directions
    walk_over_an_empty_range_ends_at_once
    batch_applies_in_order
    range_delete_spares_its_end_and_later_puts_of_the_batch
    range_delete_to_the_end_removes_the_last_key
    deleting_what_is_not_there_does_nothing
    restorable_and_logged_batches_mix
    flushed_entries_are_read_and_counted
}

impl Rig {
    fn write(&mut self, ops: &[WriteOp<'_>]) {
        let ops = WriteOps { ops: ops.to_vec(), restorable: false };
        self.engine.write(&ops).unwrap();
    }

    fn get(&self, family: FamilyIx, key: &str) -> Option<String> {
        let mut value = b"left over".to_vec();
        let found = self.engine.get(family, key.as_bytes(), &mut value).unwrap();
        found.then(|| String::from_utf8(value).unwrap())
    }

    fn keys(&self, family: FamilyIx, range: &KeyRange, direction: Direction) -> Vec<String> {
        let mut keys = Vec::new();
        let mut cursor = self.engine.iterate(family, range, direction).unwrap();
        while let Some((key, value)) = cursor.entry() {
            assert_eq!(value, [b"value of ", key].concat());
            keys.push(String::from_utf8(key.to_vec()).unwrap());
            cursor.advance().unwrap();
        }
        cursor.advance().unwrap();
        assert!(cursor.entry().is_none(), "a cursor stays at the end");
        keys
    }

    fn fill(&mut self, family: FamilyIx, keys: &[&str]) {
        for key in keys {
            let value = format!("value of {key}");
            self.write(&[WriteOp::Put(family, key.as_bytes(), value.as_bytes())]);
        }
    }

    fn all(&self, family: FamilyIx) -> Vec<String> {
        self.keys(family, &KeyRange::all(), Direction::Forward)
    }
}

fn get_finds_the_latest_value_and_nothing_else(mut rig: Rig) {
    let family = rig.engine.family("f").unwrap();
    rig.write(&[WriteOp::Put(family, b"a", b"1")]);
    rig.write(&[WriteOp::Put(family, b"a", b"longer than before")]);
    rig.write(&[WriteOp::Put(family, b"", b"")]);
    assert_eq!(rig.get(family, "a").as_deref(), Some("longer than before"));
    assert_eq!(rig.get(family, "").as_deref(), Some(""));
    assert_eq!(rig.get(family, "b"), None);
    rig.write(&[WriteOp::Delete(family, b"a")]);
    assert_eq!(rig.get(family, "a"), None);
}

fn families_are_separate_and_found_again_by_name(mut rig: Rig) {
    let one = rig.engine.family("one").unwrap();
    let two = rig.engine.family("two").unwrap();
    assert_ne!(one, two);
    rig.write(&[WriteOp::Put(one, b"k", b"1"), WriteOp::Put(two, b"k", b"2")]);
    rig.write(&[WriteOp::DeleteRange(two, b"", None)]);
    assert_eq!(rig.get(one, "k").as_deref(), Some("1"));
    assert_eq!(rig.get(two, "k"), None);
    assert_eq!(rig.engine.family("one").unwrap(), one);
}

fn walks_a_range_in_both_directions(mut rig: Rig) {
    let family = rig.engine.family("f").unwrap();
    rig.fill(family, &["c", "", "a", "ab", "b", "abc", "a\0"]);
    for (range, expected) in [
        (KeyRange::all(), &["", "a", "a\0", "ab", "abc", "b", "c"][..]),
        (KeyRange::prefix(b"ab"), &["ab", "abc"]),
        (KeyRange::half_open("a", Some(b"ab".to_vec())), &["a", "a\0"]),
        (KeyRange::inclusive(Some(b"a"), Some(b"a")), &["a"]),
        (KeyRange::inclusive(None, Some(b"a")), &["", "a"]),
        (KeyRange::half_open("abb", None), &["abc", "b", "c"]),
        (KeyRange::half_open("d", None), &[]),
    ] {
        assert_eq!(rig.keys(family, &range, Direction::Forward), expected);
        let backwards: Vec<&str> = expected.iter().rev().copied().collect();
        assert_eq!(rig.keys(family, &range, Direction::Reverse), backwards);
    }
}

fn walk_over_an_empty_range_ends_at_once(mut rig: Rig) {
    let family = rig.engine.family("f").unwrap();
    assert_eq!(rig.all(family), [""; 0]);
    rig.fill(family, &["a", "b", "c"]);
    for range in [
        KeyRange::half_open("b", Some(b"b".to_vec())),
        KeyRange::half_open("c", Some(b"a".to_vec())),
        KeyRange::half_open("bb", Some(b"bc".to_vec())),
    ] {
        assert_eq!(rig.keys(family, &range, Direction::Forward), [""; 0]);
        assert_eq!(rig.keys(family, &range, Direction::Reverse), [""; 0]);
    }
}

fn batch_applies_in_order(mut rig: Rig) {
    let family = rig.engine.family("f").unwrap();
    rig.write(&[
        WriteOp::Put(family, b"a", b"1"),
        WriteOp::Put(family, b"a", b"2"),
        WriteOp::Put(family, b"b", b"1"),
        WriteOp::Delete(family, b"b"),
        WriteOp::Delete(family, b"c"),
        WriteOp::Put(family, b"c", b"1"),
    ]);
    assert_eq!(rig.get(family, "a").as_deref(), Some("2"));
    assert_eq!(rig.get(family, "b"), None);
    assert_eq!(rig.get(family, "c").as_deref(), Some("1"));
}

fn range_delete_spares_its_end_and_later_puts_of_the_batch(mut rig: Rig) {
    let family = rig.engine.family("f").unwrap();
    rig.fill(family, &["a", "b", "c", "d"]);
    rig.write(&[
        WriteOp::DeleteRange(family, b"b", Some(b"d")),
        WriteOp::Put(family, b"c", b"value of c"),
    ]);
    assert_eq!(rig.all(family), ["a", "c", "d"]);
    assert_eq!(rig.get(family, "b"), None);
}

fn range_delete_to_the_end_removes_the_last_key(mut rig: Rig) {
    let family = rig.engine.family("f").unwrap();
    rig.fill(family, &["a", "b", "\u{7f}\u{7f}\u{7f}"]);
    rig.write(&[WriteOp::DeleteRange(family, b"b", None)]);
    assert_eq!(rig.all(family), ["a"]);
    rig.write(&[WriteOp::DeleteRange(family, b"", None)]);
    assert_eq!(rig.all(family), [""; 0]);
    rig.fill(family, &["b"]);
    assert_eq!(rig.all(family), ["b"]);
}

fn deleting_what_is_not_there_does_nothing(mut rig: Rig) {
    let family = rig.engine.family("f").unwrap();
    rig.write(&[WriteOp::Delete(family, b"x"), WriteOp::DeleteRange(family, b"", None)]);
    rig.write(&[]);
    rig.fill(family, &["a"]);
    rig.write(&[WriteOp::Delete(family, b"x"), WriteOp::DeleteRange(family, b"b", Some(b"c"))]);
    assert_eq!(rig.all(family), ["a"]);
}

fn restorable_and_logged_batches_mix(mut rig: Rig) {
    let family = rig.engine.family("f").unwrap();
    for (key, restorable) in [("a", true), ("b", true), ("c", false), ("d", true), ("e", false)] {
        let value = format!("value of {key}");
        let put = WriteOp::Put(family, key.as_bytes(), value.as_bytes());
        rig.engine.write(&WriteOps { ops: vec![put], restorable }).unwrap();
    }
    assert_eq!(rig.all(family), ["a", "b", "c", "d", "e"]);
}

fn flushed_entries_are_read_and_counted(mut rig: Rig) {
    let family = rig.engine.family("f").unwrap();
    assert_eq!(rig.engine.approximate_entries(family).unwrap(), 0);
    rig.fill(family, &["a", "b"]);
    rig.engine.flush().unwrap();
    rig.fill(family, &["c"]);
    assert_eq!(rig.all(family), ["a", "b", "c"]);
    assert_eq!(rig.get(family, "a").as_deref(), Some("value of a"));
    assert_eq!(rig.engine.approximate_entries(family).unwrap(), 3);
}
