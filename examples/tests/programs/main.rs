//! Runs the example programs as their readers do: as processes, on the embedded log, in a directory of their own.

#![cfg(feature = "log")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod enrichment;
mod http;
mod page_views;
mod processes;
mod replay;
mod support;
mod word_count;
