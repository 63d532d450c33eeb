//! What can go wrong with local state, and what the caller has to do about it.

use std::io;
use std::path::PathBuf;

/// Says what the run loop does about an error; it looks at nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Make the same call again, within its deadline.
    Retriable,
    /// Abort the transaction and reopen the tasks at the last commit.
    Abortable,
    /// Discard the task's local state and restore it from the changelog.
    TaskCorrupted,
    /// Close the tasks without committing and rejoin.
    Fenced,
    /// Ask the handler: fail, or drop and count.
    User,
    /// Stop the worker.
    Fatal,
}

/// Why a directory is not fit to hold state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnsafeReason {
    /// Everybody on the machine may write to it.
    WorldWritable,
    /// It belongs to another user.
    ForeignOwner,
    /// It is a symbolic link, so it may lead out of its parent.
    Symlink,
    /// The path leads to something that is not a directory.
    NotADirectory,
}

impl std::fmt::Display for UnsafeReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::WorldWritable => "is writable by every user; remove that right (chmod o-w)",
            Self::ForeignOwner => "is owned by another user; choose a directory of your own",
            Self::Symlink => "is a symbolic link; name the directory it points to instead",
            Self::NotADirectory => "is not a directory; choose another path",
        })
    }
}

/// The source of an engine failure, whatever the engine.
pub type EngineCause = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Everything that can go wrong in this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// A store index that the task's list of stores does not have.
    #[error("this task has no store number {index}; it has {stores}")]
    UnknownStore {
        /// The index asked for.
        index: u16,
        /// How many stores the task has.
        stores: usize,
    },
    /// Two stores of one task carry the same name.
    #[error("two stores of one task are named '{name}'; give each its own name")]
    DuplicateStore {
        /// The name.
        name: String,
    },
    /// A name that cannot name a store, an application or a task.
    #[error("'{name}' cannot be the name of {what}; use letters, digits, '.', '_' and '-'")]
    BadName {
        /// What was to be named.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A window operation on a store that is not a window store.
    #[error("store '{store}' is not a window store")]
    NotAWindowStore {
        /// The store.
        store: String,
    },
    /// A session operation on a store that is not a session store.
    #[error("store '{store}' is not a session store")]
    NotASessionStore {
        /// The store.
        store: String,
    },
    /// A walk in the order of time through a store that has no index for it.
    #[error("store '{store}' cannot be read in the order of time")]
    NoTimeIndex {
        /// The store.
        store: String,
    },
    /// A window start before the epoch.
    #[error("window start {start_ms} of store '{store}' is negative")]
    NegativeWindowStart {
        /// The store.
        store: String,
        /// The window start.
        start_ms: i64,
    },
    /// A changelog record whose key is no key of this kind of store.
    #[error("a changelog key of store '{store}' has {length} bytes, too few for a window key")]
    MalformedChangelogKey {
        /// The store.
        store: String,
        /// The key's length.
        length: usize,
    },
    /// An entry of a store that is none: damaged, or written by something else.
    #[error(
        "an entry of store '{store}' cannot be read; was its changelog written by this application alone, and with these serdes?"
    )]
    UnreadableEntry {
        /// The store.
        store: String,
        /// What is wrong with the entry.
        #[source]
        source: EngineCause,
    },
    /// Restoring a store that holds uncommitted writes.
    #[error("store '{store}' cannot be restored over uncommitted writes; roll back first")]
    RestoreOverUncommitted {
        /// The store.
        store: String,
    },
    /// Local state was written by a newer version of this library.
    #[error(
        "local state has format {found}, this version reads up to {supported}; run the newer version \
         or remove the state directory by hand"
    )]
    NewerFormat {
        /// The format found.
        found: u32,
        /// The newest format this version reads.
        supported: u32,
    },
    /// An entry of the `__offsets` family that cannot be read.
    #[error("entry '{entry}' of the stored offsets is unreadable")]
    CorruptedFact {
        /// The entry's key, as text.
        entry: String,
    },
    /// The engine found damaged data.
    #[error("local state is damaged: {action} failed")]
    Corrupted {
        /// What was being done.
        action: String,
        /// The engine's own error.
        #[source]
        source: EngineCause,
    },
    /// The engine asks to try again.
    #[error("the storage engine is busy: {action} did not happen")]
    Busy {
        /// What was being done.
        action: String,
        /// The engine's own error.
        #[source]
        source: EngineCause,
    },
    /// No space is left where the stores lie. What was committed is not lost: the next start finds it in the changelog.
    #[error(
        "no space is left on the disk: the storage engine cannot {action}; make room and start again"
    )]
    DiskFull {
        /// What was being done.
        action: String,
        /// The engine's own error.
        #[source]
        source: EngineCause,
    },
    /// The engine failed for another reason.
    #[error("the storage engine failed: {action}")]
    Engine {
        /// What was being done.
        action: String,
        /// The engine's own error.
        #[source]
        source: EngineCause,
    },
    /// A file operation failed.
    #[error("cannot {action} '{}': {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which path.
        path: PathBuf,
        /// The system's own error.
        source: io::Error,
    },
    /// Another process holds the state directory.
    #[error(
        "state directory '{}' is in use by {}; stop it or choose another directory",
        path.display(),
        pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The other process, as its lock file says.
        pid: Option<u32>,
    },
    /// A directory that must not hold state.
    #[error("state directory '{}' {reason}", path.display())]
    UnsafeDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: UnsafeReason,
    },
}

impl StateError {
    /// Says what the run loop has to do.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Busy { .. } => ErrorClass::Retriable,
            Self::Engine { .. } | Self::RestoreOverUncommitted { .. } => ErrorClass::Abortable,
            Self::CorruptedFact { .. }
            | Self::Corrupted { .. }
            | Self::UnreadableEntry { .. }
            | Self::MalformedChangelogKey { .. } => ErrorClass::TaskCorrupted,
            Self::NegativeWindowStart { .. } => ErrorClass::User,
            Self::UnknownStore { .. }
            | Self::DuplicateStore { .. }
            | Self::BadName { .. }
            | Self::NotAWindowStore { .. }
            | Self::NotASessionStore { .. }
            | Self::NoTimeIndex { .. }
            | Self::NewerFormat { .. }
            | Self::DiskFull { .. }
            | Self::Io { .. }
            | Self::Locked { .. }
            | Self::UnsafeDirectory { .. } => ErrorClass::Fatal,
        }
    }
}
