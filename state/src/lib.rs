//! Stores over bytes, for the tasks of a stream processor.
//!
//! [`TaskState`] holds all stores of one task. Writes stay in memory until [`TaskState::commit`] puts
//! them into the [`Engine`] in one batch, together with the positions of the changelogs they came from:
//! whatever happens, an engine holds the image of some commit, and the position that belongs to it.
//! [`MemEngine`] keeps that image in memory, `RocksEngine` (feature `rocksdb`) on disk. [`StateDir`] is
//! the directory of one process, locked against a second one.
//!
//! This crate knows no topics, serdes or tasks; a changelog is a number to it, a store a name.
//!
//! Where to go next: [`TaskState`] for key-value stores, [`window`] for window stores, [`session`] for session stores, [`values`] for
//! values with timestamps.

mod bytemap;
mod cache;
mod engine;
mod error;
mod facts;
mod merge;
mod order;
mod overlay;
mod range;
mod segments;
pub mod session;
mod session_key;
mod spec;
mod state_dir;
mod task_state;
mod time_index;
pub mod values;
pub mod window;
mod window_key;

pub use engine::{Engine, EngineCursor, Entry, FamilyIx, MemEngine, WriteOp, WriteOps};
#[cfg(feature = "rocksdb")]
pub use engine::{RocksEngine, RocksOptions};
pub use error::{EngineCause, ErrorClass, StateError, UnsafeReason};
pub use facts::{CommitFacts, FACTS_FAMILY, FORMAT_VERSION};
pub use merge::RangeIter;
pub use range::{Direction, KeyRange};
pub use session::{SessionEntry, SessionIter};
pub use spec::{StoreIx, StoreKind, StoreSpec, ValueFormat, WindowSpec};
pub use state_dir::{StateDir, StateDirOptions};
pub use task_state::{RestoreRecord, TaskState, WriteIx};
pub use time_index::{TimeCursor, TimedEntry};
pub use window::{Put, WindowEntry, WindowIter};
