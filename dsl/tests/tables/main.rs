//! Tables, aggregations, windows and stream-table joins, in the test driver.
#![allow(clippy::unwrap_used, reason = "a test panics on failure")]

mod aggregations;
mod cache;
mod closing;
mod cogroups;
mod cuts;
mod foreign_joins;
mod globals;
mod headers;
mod joins;
mod names;
mod regrouping;
mod sessions;
mod stream_joins;
mod support;
mod suppression;
mod table_joins;
mod tables;
mod windows;
