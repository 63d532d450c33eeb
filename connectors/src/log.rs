//! `log://`: a durable, partitioned, transactional log in one directory.
//!
//! One write batch per transaction holds its records, the committed offsets and the marker of the
//! transactional id: a crash leaves all of it or nothing. Until then a transaction lies in memory,
//! so readers only ever meet what is committed, and the last stable offset is the high watermark.
//! Runs of records are stored as they are read: one contiguous buffer each.
//!
//! One process at a time has a directory open; in it, everybody who opens the directory shares one
//! engine.

mod append;
mod engine;
mod format;
mod memory;
mod partition;
mod read;
mod recover;
#[cfg(feature = "log")]
mod rocks;
mod storage;
mod topics;

use std::fmt;
#[cfg(feature = "log")]
use std::path::Path;
use std::sync::Arc;

use crate::local::{Engine, FaultPlan, LocalAdmin, LocalConsumer, LocalMembership, LocalProducer};
use crate::ports::{
    Admin, Backend, Clock, Consumer, ConsumerOptions, Membership, MembershipOptions, PortResult,
    Producer, ProducerOptions,
};
use engine::LogEngine;
pub use memory::LogMemory;

/// What a commit survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// The death of the process, at any moment. Nothing waits for the disk (the default: a commit
    /// costs microseconds).
    #[default]
    Process,
    /// The loss of power too: every commit waits until the disk has it.
    Sync,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "process",
            Self::Sync => "sync",
        })
    }
}

/// How a log is opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LogOptions {
    /// What a commit survives.
    pub durability: Durability,
}

impl LogOptions {
    /// Sets what a commit survives.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }
}

/// A durable log; clones share it. The directory is free again when the last clone and the last
/// client are gone.
#[derive(Clone, Debug)]
pub struct LogBroker(Arc<LogEngine>);

impl LogBroker {
    /// Opens the log in a directory, which is made if it is missing.
    ///
    /// # Errors
    /// [`Busy`](crate::PortErrorKind::Busy) when another process has it open,
    /// [`Refused`](crate::PortErrorKind::Refused) when this process has it open with other options
    /// or the path is not a directory that can be written to,
    /// [`Corrupt`](crate::PortErrorKind::Corrupt),
    /// [`Unsupported`](crate::PortErrorKind::Unsupported) when a newer version wrote it.
    #[cfg(feature = "log")]
    pub fn open(
        path: impl AsRef<Path>,
        options: &LogOptions,
        clock: Arc<dyn Clock>,
    ) -> PortResult<Self> {
        rocks::open(path.as_ref(), options, clock).map(Self)
    }

    /// Opens a log whose storage is memory that forgets what was not synced: the same code, for
    /// tests of crashes.
    ///
    /// # Errors
    /// As for a directory, except for those of files.
    pub fn on_memory(
        memory: &LogMemory,
        options: &LogOptions,
        clock: Arc<dyn Clock>,
    ) -> PortResult<Self> {
        let storage = Box::new(memory.clone());
        let engine = LogEngine::open(storage, "memory".into(), options, clock)?;
        Ok(Self(Arc::new(engine)))
    }

    /// Lets calls fail as planned, from now on; replaces the plan before.
    pub fn set_faults(&self, plan: FaultPlan) {
        self.0.shared().faults.set(plan);
    }

    /// How many planned faults have not struck yet.
    pub fn faults_left(&self) -> usize {
        self.0.shared().faults.left()
    }

    /// Removes a member from its group as if its session had timed out. Tells whether it was a
    /// member.
    pub fn expel(&self, group: &str, member: &str) -> bool {
        self.0.shared().expel(group, member)
    }

    /// How many transactions of the id were committed so far, in all runs: what the stored marker
    /// says.
    pub fn transactions_committed(&self, transactional_id: &str) -> u64 {
        self.0.transactions_committed(transactional_id)
    }
}

impl Backend for LogBroker {
    fn scheme(&self) -> &'static str {
        "log"
    }

    fn supports_transactions(&self) -> bool {
        true
    }

    fn promise(&self) -> &'static str {
        match self.0.durability() {
            Durability::Process => "survives a killed process",
            Durability::Sync => "survives a killed process and the loss of power",
        }
    }

    fn consumer(&self, options: &ConsumerOptions) -> PortResult<Box<dyn Consumer>> {
        let engine = Arc::clone(&self.0);
        Ok(Box::new(LocalConsumer::new(engine, options.isolation)))
    }

    fn producer(&self, options: &ProducerOptions) -> PortResult<Box<dyn Producer>> {
        Ok(Box::new(LocalProducer::new(Arc::clone(&self.0), options)))
    }

    fn admin(&self) -> PortResult<Box<dyn Admin>> {
        Ok(Box::new(LocalAdmin::new(Arc::clone(&self.0))))
    }

    fn membership(&self, options: &MembershipOptions) -> PortResult<Box<dyn Membership>> {
        let member = LocalMembership::join(self.0.shared(), options)?;
        Ok(Box::new(member))
    }
}
