//! What survives on the embedded log: applications are killed with SIGKILL, restarted and replayed, as processes of their own.
//!
//! Every input and every moment comes from a seed that is printed; no verdict depends on how fast the machine is.
#![allow(clippy::unwrap_used, reason = "a test panics on failure")]

mod replay;
mod restore;
#[allow(dead_code, reason = "other test programs use the rest")]
mod support;
mod windows;
mod word_count;
