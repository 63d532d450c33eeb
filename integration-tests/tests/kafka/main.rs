//! The applications on a real Apache Kafka: alone, shared by several instances, and under faults.
#![allow(clippy::unwrap_used, reason = "a test panics on failure")]

#[path = "../../../connectors/tests/kafka/broker.rs"]
#[allow(dead_code, reason = "other test programs use the rest")]
mod broker;
mod chaos;
mod held_end_txn;
#[path = "../../../connectors/tests/kafka/proxy.rs"]
#[allow(dead_code, reason = "other test programs use the rest")]
mod proxy;
#[path = "../restart/support/mod.rs"]
#[allow(dead_code, reason = "other test programs use the rest")]
mod support;
mod word_count;
#[allow(dead_code, reason = "other test programs use the rest")]
mod world;
