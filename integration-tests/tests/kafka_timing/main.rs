//! How long things take on a real Apache Kafka. A program of its own, and one test at a time: others would take the processor from
//! what is measured.
#![allow(clippy::unwrap_used, reason = "a test panics on failure")]

use std::sync::{Mutex, MutexGuard, PoisonError};

#[path = "../../../connectors/tests/kafka/broker.rs"]
#[allow(dead_code, reason = "other test programs use the rest")]
mod broker;
mod gaps;
mod starts;
#[path = "../restart/support/mod.rs"]
#[allow(dead_code, reason = "other test programs use the rest")]
mod support;
#[path = "../kafka/world.rs"]
#[allow(dead_code, reason = "other test programs use the rest")]
mod world;

/// Waits until no other test of this program runs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
