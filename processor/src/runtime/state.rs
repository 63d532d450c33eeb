//! Which engine keeps a task's committed state.

use std::sync::Arc;

use thalweg_state::{Engine, MemEngine, StateDir, StateError};

use super::config::RuntimeConfig;
use crate::topology::TaskId;

/// Gives tasks their engines.
pub(crate) trait Engines: Send + Sync {
    /// Opens the engine of a task at its last commit.
    fn open(&self, task: TaskId, needs: &Needs<'_>) -> Result<Box<dyn Engine>, StateError>;

    /// Discards the state of a task whose engine is closed.
    fn discard(&self, task: TaskId) -> Result<(), StateError>;

    /// Identifies this instance of the application: the same after a restart.
    fn instance_id(&self) -> &str;
}

/// What an engine is opened for.
pub(crate) struct Needs<'a> {
    /// The stores that it keeps; made in one go, where they are missing.
    pub(crate) stores: &'a [&'a str],
    /// How many tasks the application has that keep stores; they share this machine's memory.
    pub(crate) tasks: usize,
}

/// Opens what the configuration says.
pub(super) fn open(config: &RuntimeConfig) -> Result<Arc<dyn Engines>, StateError> {
    let dir = match &config.state.directory {
        Some(path) => Some(StateDir::open(path, &config.task.application_id)?),
        None => None,
    };
    #[cfg(feature = "rocksdb")]
    if config.state.engine == super::config::StateEngine::Disk {
        if let Some(dir) = dir {
            return Ok(Arc::new(disk::DiskEngines::new(dir)));
        }
        return Ok(Arc::new(MemEngines { dir: None }));
    }
    Ok(Arc::new(MemEngines { dir }))
}

/// Engines in memory.
struct MemEngines {
    /// Held all the same when there is one: two processes are two processes.
    dir: Option<StateDir>,
}

impl Engines for MemEngines {
    fn open(&self, _: TaskId, _: &Needs<'_>) -> Result<Box<dyn Engine>, StateError> {
        Ok(Box::new(MemEngine::new()))
    }

    fn discard(&self, _: TaskId) -> Result<(), StateError> {
        Ok(())
    }

    fn instance_id(&self) -> &str {
        self.dir.as_ref().map_or("memory", StateDir::instance_id)
    }
}

#[cfg(feature = "rocksdb")]
mod disk {
    use thalweg_state::{Engine, FACTS_FAMILY, RocksEngine, RocksOptions, StateDir, StateError};

    use super::{Engines, Needs};
    use crate::topology::TaskId;

    /// Engines on disk, one directory per task.
    pub(super) struct DiskEngines {
        dir: StateDir,
        options: RocksOptions,
    }

    impl DiskEngines {
        pub(super) fn new(dir: StateDir) -> Self {
            Self { dir, options: RocksOptions::default() }
        }
    }

    impl Engines for DiskEngines {
        fn open(&self, task: TaskId, needs: &Needs<'_>) -> Result<Box<dyn Engine>, StateError> {
            let dir = self.dir.task_dir(&task.to_string())?;
            let families = [&[FACTS_FAMILY], needs.stores].concat();
            let options = self.options.shared_by(needs.tasks);
            Ok(Box::new(RocksEngine::open(dir, &families, &options)?))
        }

        fn discard(&self, task: TaskId) -> Result<(), StateError> {
            self.dir.discard_task(&task.to_string())
        }

        fn instance_id(&self) -> &str {
            self.dir.instance_id()
        }
    }
}
