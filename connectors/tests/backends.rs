//! The contract of the embedded backends, run on each.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod contract;

use std::sync::Arc;

use contract::contract;
use contract::support::{Bench, START};
use thalweg_connectors::{ManualClock, MemBroker};

fn mem_bench() -> Bench {
    let clock = Arc::new(ManualClock::new(START));
    let broker = MemBroker::with_clock(Arc::clone(&clock) as _);
    Bench {
        backend: Arc::new(broker.clone()),
        clock,
        control: Box::new(broker),
        _keep: None,
    }
}

contract!(mem, mem_bench());
