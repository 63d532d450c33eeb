//! Streams and their operators, in the test driver; and how they are written as a topology.
#![allow(clippy::unwrap_used, reason = "a test panics on failure")]

mod branches;
mod building;
mod dead_letters;
mod naming;
mod optimizing;
mod processors;
mod repartitioning;
mod serdes;
mod sources;
mod stateless;
mod support;
mod writing;
