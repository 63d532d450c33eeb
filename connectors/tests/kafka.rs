//! The backend `kafka://` against a real broker: the contract of all backends, and what is Kafka's own.
//!
//! The broker is started by `integration-tests/kafka.sh`, which needs a JRE and Maven; without them these tests fail.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod contract;

#[path = "kafka/broker.rs"]
mod broker;
#[path = "kafka/endings.rs"]
mod endings;
#[path = "kafka/held_end_txn.rs"]
mod held_end_txn;
#[path = "kafka/java.rs"]
mod java;
#[cfg(feature = "log")]
#[path = "kafka/lz4.rs"]
mod lz4;
#[allow(dead_code, reason = "it is shared with the tests of groups, which ask more of it")]
#[path = "kafka/proxy.rs"]
mod proxy;
#[path = "kafka/records.rs"]
mod records;
#[path = "kafka/scoped.rs"]
mod scoped;
#[path = "kafka/transactions.rs"]
mod transactions;

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::support::{Bench, Control, START};
use contract::{contract_of_all, contract_tests};
use scoped::Scoped;
use thalweg_connectors::{FaultPlan, ManualClock, SharedBackend, SystemClock, open_with};

/// The cluster, with settings.
fn cluster(settings: &[(&str, &str)]) -> SharedBackend {
    cluster_at(broker::address(), settings)
}

/// The cluster, reached at an address.
fn cluster_at(address: &str, settings: &[(&str, &str)]) -> SharedBackend {
    let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    let settings: BTreeMap<_, _> = settings.collect();
    let url = format!("kafka://{address}");
    open_with(&url, Arc::new(SystemClock::new()), &settings).unwrap()
}

/// A part of the cluster that no other test sees.
fn bench() -> Bench {
    bench_with(&[])
}

fn bench_with(settings: &[(&str, &str)]) -> Bench {
    bench_of(Scoped::new(cluster(settings)))
}

fn bench_of(part: Scoped) -> Bench {
    Bench {
        backend: Arc::new(part),
        clock: Arc::new(ManualClock::new(START)),
        control: Box::new(NoControl),
        _keep: None,
    }
}

/// Nobody plans the faults of a cluster.
struct NoControl;

impl Control for NoControl {
    fn set_faults(&self, _: FaultPlan) {
        panic!("a cluster has no planned faults");
    }

    fn faults_left(&self) -> usize {
        0
    }

    fn expel(&self, _: &str, _: &str) -> bool {
        panic!("a cluster expels members by itself");
    }
}

mod as_every_backend {
    use super::*;
    contract_of_all!(bench());
}
