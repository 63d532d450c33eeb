//! Prints what reads and writes of a task's state cost, in nanoseconds each.
//!
//! `cargo run --release -p thalweg-state --example point_and_range`, with `--features rocksdb` also on
//! disk. An argument chooses the lines that contain it.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::unwrap_used, reason = "a measurement stops at the first error")]

use std::time::Instant;

use thalweg_state::{
    CommitFacts, Direction, Engine, MemEngine, StoreIx, StoreSpec, TaskState, WindowSpec,
};

const KV: StoreIx = StoreIx(0);
const WINDOW: StoreIx = StoreIx(1);
const OPERATIONS: u64 = 2_000_000;

fn main() {
    measure("memory", || Box::new(MemEngine::new()));
    #[cfg(feature = "rocksdb")]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut number = 0;
        measure("rocksdb", || {
            use thalweg_state::{RocksEngine, RocksOptions};
            number += 1;
            let path = dir.path().join(number.to_string());
            Box::new(RocksEngine::open(path, &[], &RocksOptions::default()).unwrap())
        });
    }
}

fn measure(engine: &str, mut make: impl FnMut() -> Box<dyn Engine>) {
    let chosen = std::env::args().nth(1).unwrap_or_default();
    let mut run = |name: String, operations: u64, step: &dyn Fn(&mut TaskState, u64)| {
        if name.contains(&chosen) {
            let mut state = open(make());
            let start = Instant::now();
            (0..operations).for_each(|number| step(&mut state, number));
            println!("{name}: {} ns", start.elapsed().as_nanos() / u128::from(operations));
        }
    };
    for (keys, commit_every) in [(100_000, OPERATIONS), (100_000, 10_000), (1_000_000, 100_000)] {
        let name = format!("{engine}: count over {keys} keys, commit every {commit_every}");
        run(name, OPERATIONS, &|state, number| {
            count(state, key_of(number % keys), number, commit_every)
        });
    }
    for commit_every in [10_000, 100_000] {
        let name = format!("{engine}: window put and fetch, commit every {commit_every}");
        run(name, OPERATIONS / 4, &|state, number| join(state, number, commit_every));
    }
}

fn open(engine: Box<dyn Engine>) -> TaskState {
    let window = WindowSpec::new(60_000).retain_duplicates();
    TaskState::open(engine, vec![StoreSpec::key_value("kv"), StoreSpec::window("w", window)])
        .unwrap()
}

fn key_of(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn commit(state: &mut TaskState, number: u64, commit_every: u64) {
    if number % commit_every == commit_every - 1 {
        let position = i64::try_from(number).unwrap();
        state.commit(&CommitFacts::new().position(KV, position)).unwrap();
    }
}

/// Reads a number and writes it one higher.
fn count(state: &mut TaskState, key: [u8; 8], number: u64, commit_every: u64) {
    let old = state.get(KV, &key).unwrap();
    let old = old.map_or(0, |value| u64::from_be_bytes(value[..8].try_into().unwrap()));
    let mut value = [0; 16];
    value[..8].copy_from_slice(&(old + 1).to_be_bytes());
    state.put(KV, &key, Some(&value)).unwrap();
    commit(state, number, commit_every);
}

/// Adds an entry and looks for those of the same key around it.
fn join(state: &mut TaskState, number: u64, commit_every: u64) {
    let (key, now) = (key_of(number % 1_000), i64::try_from(number / 100).unwrap());
    let _ = state.window_put(WINDOW, &key, now, Some(b"some value")).unwrap();
    let mut near =
        state.window_range(WINDOW, &key, now - 50, now + 50, Direction::Forward).unwrap();
    while near.next_entry().unwrap().is_some() {}
    drop(near);
    commit(state, number, commit_every);
}
