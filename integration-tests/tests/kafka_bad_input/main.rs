//! What goes wrong with a real Apache Kafka: each failure says what it was, where, and what to do about it, ends what cannot go on,
//! and loses nothing.
//!
//! | module | what is wrong |
//! | --- | --- |
//! | `away` | no broker, at the start or for a while |
//! | `listeners` | a broker that wants TLS or SASL, and a client that was asked for it |
//! | `topics` | topics that are missing, deleted, or made in another way |
//! | `lost_topics` | internal topics that were there and are not any more |
//! | `records` | a record that its topic does not take |
//! | `rights` | a right that is missing |
//! | `takeover` | another producer with the same transactional id |
#![allow(clippy::unwrap_used, reason = "a test panics on failure")]

mod app;
mod away;
#[path = "../../../connectors/tests/kafka/broker.rs"]
#[allow(dead_code, reason = "other test programs use the rest")]
mod broker;
mod listeners;
mod lost_topics;
mod own_broker;
mod records;
mod rights;
#[path = "../restart/support/mod.rs"]
#[allow(dead_code, reason = "other test programs use the rest")]
mod support;
mod takeover;
mod topics;
