//! What the stores of a run are kept in.

use thalweg_state::{Engine, MemEngine, StateError};

use super::Fault;
#[cfg(not(feature = "native"))]
use super::failure::unsupported;

/// What persistent stores are kept in; stores that are declared in memory stay there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// Everything in memory.
    #[default]
    Memory,
    /// RocksDB, in a directory that is removed after the run.
    RocksDb,
}

/// Makes engines of one kind.
pub(crate) enum Engines {
    Memory,
    #[cfg(feature = "native")]
    RocksDb(tempfile::TempDir),
}

/// Makes the engine of a partition; each call makes a new one.
type Factory = Box<dyn FnMut(i32) -> Result<Box<dyn Engine>, StateError>>;

impl Engines {
    pub(crate) fn of(kind: EngineKind) -> Result<Self, Fault> {
        match kind {
            EngineKind::Memory => Ok(Self::Memory),
            #[cfg(feature = "native")]
            EngineKind::RocksDb => tempfile::tempdir()
                .map(Self::RocksDb)
                .map_err(|e| Fault::scenario(format!("cannot make a directory for RocksDB: {e}"))),
            #[cfg(not(feature = "native"))]
            EngineKind::RocksDb => Err(unsupported("RocksDB: this runner was built without it")),
        }
    }

    pub(crate) fn factory(&self) -> Factory {
        match self {
            Self::Memory => Box::new(|_| Ok(Box::new(MemEngine::new()))),
            #[cfg(feature = "native")]
            Self::RocksDb(root) => {
                let (root, mut made) = (root.path().to_owned(), 0);
                Box::new(move |partition| {
                    made += 1;
                    let dir = root.join(format!("{partition}-{made}"));
                    let options = thalweg_state::RocksOptions::default();
                    Ok(Box::new(thalweg_state::RocksEngine::open(dir, &[], &options)?))
                })
            }
        }
    }
}
