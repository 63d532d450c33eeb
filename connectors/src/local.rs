//! What the embedded backends `mem://` and `log://` share: everything but where records lie.
//!
//! | module | what it is |
//! | --- | --- |
//! | `engine` | what a backend's engine can do, and what clients of one engine share |
//! | `catalog` | topics by name, legal names, near misses |
//! | `coordinator` | transactional ids, open transactions, committed and pending offsets |
//! | `group`, `assign` | group membership: who works on what, handed over without overlap |
//! | `consumer`, `producer`, `admin` | the ports over an engine |
//! | `fault` | failures that a test plans |
//! | `signal` | wakes readers that wait |

mod admin;
pub(crate) mod assign;
mod catalog;
mod consumer;
mod coordinator;
mod engine;
mod fault;
mod group;
mod producer;
mod signal;

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use admin::LocalAdmin;
pub(crate) use catalog::{Catalog, Existing};
pub(crate) use consumer::LocalConsumer;
pub(crate) use coordinator::{Coordinator, Ended, Owner};
pub(crate) use engine::{Bounds, Engine, FetchedRun, Held, Shared, TopicView};
pub use fault::{Call, Fault, FaultPlan};
pub(crate) use group::LocalMembership;
pub(crate) use producer::LocalProducer;

/// Locks; a panic elsewhere does not spread, since no user code runs under these locks.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An id that no other process, and no earlier run, has given out.
pub(crate) fn fresh_id() -> String {
    let random = |n: u8| RandomState::new().hash_one(n);
    format!("{:016x}{:016x}", random(0), random(1))
}
