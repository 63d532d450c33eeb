//! The contract of the embedded backends, run on each.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod contract;

use std::sync::Arc;

use contract::support::{Bench, START};
use contract::{contract_of_all, contract_of_embedded, contract_tests};
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

mod mem {
    use super::*;
    contract_of_embedded!(mem_bench());
}

mod log_on_memory {
    use super::*;
    contract_of_embedded!(log_on_memory_bench());
}

#[cfg(feature = "log")]
mod log {
    use super::*;
    contract_of_embedded!(log_bench());
}
