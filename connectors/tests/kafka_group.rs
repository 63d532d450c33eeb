//! Groups on Kafka: who works on what, whatever happens to members, connections and brokers.
//!
//! The broker is started by `integration-tests/kafka.sh`, which needs a JRE and Maven; without them these tests fail.

#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "it is shared with the tests of the backend, which ask more of it")]
#[path = "kafka/broker.rs"]
mod broker;
#[path = "kafka_group/endings.rs"]
mod endings;
#[path = "kafka_group/fencing.rs"]
mod fencing;
#[path = "kafka_group/network.rs"]
mod network;
#[allow(dead_code, reason = "it is shared with the tests of the backend, which ask more of it")]
#[path = "kafka/proxy.rs"]
mod proxy;
#[path = "kafka_group/sharing.rs"]
mod sharing;
#[path = "kafka_group/support.rs"]
mod support;
#[path = "kafka_group/unreachable.rs"]
mod unreachable;
