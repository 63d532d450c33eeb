//! The contract of the embedded backends, run on each.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod contract;

use std::sync::Arc;

use contract::contract;
use contract::support::{Bench, START};
use thalweg_connectors::{LogBroker, LogMemory, LogOptions, ManualClock, MemBroker};

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(START))
}

fn mem_bench() -> Bench {
    let clock = clock();
    Bench::new(MemBroker::with_clock(Arc::clone(&clock) as _), clock)
}

fn log_on_memory_bench() -> Bench {
    let (clock, memory) = (clock(), LogMemory::new());
    let options = LogOptions::default();
    let log = LogBroker::on_memory(&memory, &options, Arc::clone(&clock) as _);
    Bench::new(log.unwrap(), clock)
}

#[cfg(feature = "log")]
fn log_bench() -> Bench {
    let (clock, directory) = (clock(), tempfile::tempdir().unwrap());
    let options = LogOptions::default();
    let log = LogBroker::open(directory.path(), &options, Arc::clone(&clock) as _);
    let mut bench = Bench::new(log.unwrap(), clock);
    bench._keep = Some(directory);
    bench
}

contract!(mem, mem_bench());
contract!(log_on_memory, log_on_memory_bench());
#[cfg(feature = "log")]
contract!(log, log_bench());
