//! Groups on Kafka: who works on what, whatever happens to members, connections and brokers.
//!
//! What needs a broker runs against the one that `THALWEG_TEST_KAFKA` names, and says so when there is none:
//!
//! ```text
//! export THALWEG_TEST_KAFKA=$(integration-tests/kafka.sh start --fast-groups)
//! ```
//!
//! `--fast-groups` allows session timeouts of a second.

#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "kafka_group/endings.rs"]
mod endings;
#[path = "kafka_group/fencing.rs"]
mod fencing;
#[path = "kafka_group/network.rs"]
mod network;
#[path = "kafka_group/proxy.rs"]
mod proxy;
#[path = "kafka_group/sharing.rs"]
mod sharing;
#[path = "kafka_group/support.rs"]
mod support;
#[path = "kafka_group/unreachable.rs"]
mod unreachable;
