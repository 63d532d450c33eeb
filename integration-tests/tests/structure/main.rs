//! Checks of the workspace itself: who depends on whom, what a dependency may be, and the rules of style that no lint knows.
//!
//! - `arrows`: the crates depend on each other only as the architecture draws it; manifests declare nothing twice.
//! - `policy`: licences, bans and sources of all dependencies, as `deny.toml` states them.
//! - `text`: sizes of files and functions, leftovers, machine paths, folders at the root.
//! - `spdx`, `rust`, `tree`: the small readers that these need.
//!
//! Every rule is a function from its input to a list of violations, so that each is also shown to fail on bad input.
#![allow(clippy::unwrap_used, reason = "a check panics on failure")]

mod arrows;
mod policy;
mod rust;
mod spdx;
mod text;
mod tree;

/// Fails with one line per violation.
fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "\n  {}\n", violations.join("\n  "));
}
