//! The configuration of a scenario as the library takes it.

use thalweg_processor::{OnError, Semantics, TaskConfig};

use super::failure::{Stop, unsupported};
use super::functions::timestamp_policy;
use super::{Config, ErrorKind};

/// Which optimizations a scenario asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Optimizations {
    pub(crate) reuse_source_topics: bool,
    pub(crate) merge_repartition_topics: bool,
    pub(crate) single_store_self_join: bool,
}

/// What a scenario's configuration says.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) tasks: TaskConfig,
    pub(crate) optimizations: Optimizations,
    /// `dsl.store.type` is `in_memory`.
    pub(crate) stores_in_memory: bool,
    /// `ensure.explicit.internal.resource.naming`.
    pub(crate) explicit_names: bool,
}

impl Settings {
    pub(crate) fn of(config: &Config) -> Result<Self, Stop> {
        let mut tasks = TaskConfig::new(&*config.application_id);
        // The default of scenarios: no record cache.
        tasks.cache_max_bytes = 0;
        tasks.semantics = Semantics::Java;
        let mut settings = Self {
            tasks,
            optimizations: Optimizations::default(),
            stores_in_memory: false,
            explicit_names: false,
        };
        for (key, value) in &config.settings {
            settings.set(key, value)?;
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Stop> {
        let unknown = || unsupported(format_args!("the setting `{key}` = `{value}`"));
        let on_error = || match value {
            "continue" => Ok(OnError::Continue),
            "fail" => Ok(OnError::Fail),
            _ => Err(unknown()),
        };
        match key {
            "deserialization.exception.handler" => {
                self.tasks.on_deserialization_error = on_error()?
            }
            "processing.exception.handler" => self.tasks.on_processing_error = on_error()?,
            "errors.dead.letter.queue.topic.name" => {
                self.tasks.dead_letter_topic = Some(value.into())
            }
            "processing.exception.handler.global.enabled" => {
                self.tasks.processing_handler_covers_globals = value == "true";
            }
            "default.timestamp.extractor" => self.tasks.timestamp_policy = timestamp_policy(value)?,
            "statestore.cache.max.bytes" => {
                self.tasks.cache_max_bytes = value.parse().map_err(|_| unknown())?;
            }
            "dsl.store.type" => self.stores_in_memory = value == "in_memory",
            "topology.optimization" => self.optimizations = optimizations(value)?,
            "ensure.explicit.internal.resource.naming" => self.explicit_names = value == "true",
            _ => return Err(unknown().into()),
        }
        Ok(())
    }
}

/// `none`, `all`, or a list of names.
fn optimizations(value: &str) -> Result<Optimizations, Stop> {
    let mut chosen = Optimizations::default();
    for name in value.split(',').map(str::trim) {
        let Optimizations { reuse_source_topics, merge_repartition_topics, single_store_self_join } =
            &mut chosen;
        match name {
            "none" => {}
            "all" => {
                *reuse_source_topics = true;
                *merge_repartition_topics = true;
                *single_store_self_join = true;
            }
            "reuse.ktable.source.topics" => *reuse_source_topics = true,
            "merge.repartition.topics" => *merge_repartition_topics = true,
            "single.store.self.join" => *single_store_self_join = true,
            other => {
                let message = format!("`topology.optimization` has no value `{other}`");
                return Err(Stop::Refused(ErrorKind::BadConfig, message));
            }
        }
    }
    Ok(chosen)
}
