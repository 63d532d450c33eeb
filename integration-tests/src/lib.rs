//! What the crates of Thalweg prove together: the conformance scenarios that the reference implementation wrote the
//! expectations of, and the checks of the workspace's structure.
//!
//! It is *not* published and *not* a library for anybody else.
//!
//! The conformance runner is a command:
//!
//! ```text
//! cargo run --release -p thalweg-integration-tests --bin conformance -- integration-tests/conformance/scenarios
//! ```

pub mod bench;
#[cfg(feature = "native")]
pub mod chaos;
pub mod conformance;
mod sequence;
