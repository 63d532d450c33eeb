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

    /// Identifies this instance of the application: the same after a restart with the same state directory.
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
    let dir = match dir {
        Some(dir) if config.state.engine == super::config::StateEngine::Disk => {
            return Ok(Arc::new(disk::DiskEngines::new(dir)));
        }
        dir => dir,
    };
    Ok(Arc::new(MemEngines::new(dir)))
}

/// Engines in memory.
struct MemEngines {
    /// Held all the same when there is one: two processes are two processes.
    _dir: Option<StateDir>,
    instance_id: String,
}

impl MemEngines {
    fn new(dir: Option<StateDir>) -> Self {
        // Without a directory nothing is the same after a restart. Two instances still have to be told apart: of one id, each would
        // fence the other. A transaction that a killed one left open then ends by its time-out; until then its offsets are waited
        // for.
        #[expect(clippy::disallowed_methods, reason = "no result depends on its value")]
        let of_its_own = || uuid::Uuid::new_v4().to_string();
        let instance_id = dir.as_ref().map_or_else(of_its_own, |dir| dir.instance_id().to_owned());
        Self { _dir: dir, instance_id }
    }
}

impl Engines for MemEngines {
    fn open(&self, _: TaskId, _: &Needs<'_>) -> Result<Box<dyn Engine>, StateError> {
        Ok(Box::new(MemEngine::new()))
    }

    fn discard(&self, _: TaskId) -> Result<(), StateError> {
        Ok(())
    }

    fn instance_id(&self) -> &str {
        &self.instance_id
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TaskConfig;

    #[test]
    fn instances_without_a_directory_have_ids_of_their_own() {
        let config = RuntimeConfig::new(TaskConfig::new("app"));
        let [one, other] = [(), ()].map(|()| open(&config).expect("nothing is touched"));
        assert_ne!(one.instance_id(), other.instance_id());
        assert_eq!(one.instance_id(), one.instance_id());
    }
}
