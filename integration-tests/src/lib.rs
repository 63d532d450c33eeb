//! What the crates of Thalweg prove together: the scenarios recorded from the reference implementation (`conformance`), faults
//! against a real broker (`chaos`), speed (`bench`), and, in `tests`, processes that are killed and the structure of the workspace.
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
pub mod sequence;
