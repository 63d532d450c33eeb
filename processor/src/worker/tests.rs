//! The loop on `mem://`, with a clock and a disk that only tests move: one call of `run_once` after the other.
#![allow(clippy::unwrap_used, reason = "a test panics on failure")]

mod apps;
mod crashes;
mod drops;
mod ends;
mod failures;
mod generations;
mod globals;
mod group;
mod letters;
mod limits;
mod lost_topics;
mod opening;
mod order;
mod panics;
mod restore;
mod world;

pub(crate) use apps::{counting, rekeyed};
pub(crate) use world::{World, config};
