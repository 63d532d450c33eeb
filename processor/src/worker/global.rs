//! The global stores of a worker: filled before any task begins, and kept in step with their topics.

use std::collections::BTreeMap;

use thalweg_connectors::{Fetched, Isolation, Offset, TopicPartition};

use super::{Phase, Worker};
use crate::globals::Globals;

impl Worker {
    /// Are the global stores filled, if there are any? Begins to read their topics when that has not been done.
    pub(super) fn has_globals(&mut self) -> Phase<bool> {
        if !self.around.plan.has_globals() {
            return Ok(true);
        }
        let open = self.collector.as_ref().and_then(|collector| collector.globals.as_ref());
        match open {
            Some(globals) => Ok(globals.is_ready()),
            None => self.open_globals().map(|()| false),
        }
    }

    fn open_globals(&mut self) -> Phase {
        let plan = &self.around.plan;
        let built = Globals::build(plan.topology(), &self.task_config, plan.partitions())?;
        let (Some(mut globals), Some(collector)) = (built, &mut self.collector) else {
            return Ok(());
        };
        let all = globals.inputs();
        let starts = self.consumer.beginning_offsets(&all)?;
        let ends = self.consumer.end_offsets(&all, Isolation::ReadCommitted)?;
        let is_behind =
            |(tp, end): &(TopicPartition, Offset)| starts.get(tp).is_some_and(|s| s < end);
        let targets: BTreeMap<_, _> = ends.into_iter().filter(is_behind).collect();
        tracing::info!(worker = self.index, partitions = all.len(), "filling the global stores");
        globals.begin(&starts, targets, self.around.clock.now())?;
        let from: Vec<(TopicPartition, Offset)> = starts.into_iter().collect();
        self.consumer.assign(&from)?;
        collector.globals = Some(globals);
        Ok(())
    }

    /// Takes what was fetched for the global stores; hands everything else back.
    pub(super) fn for_tasks(&mut self, run: Fetched) -> Option<Fetched> {
        let globals = self.collector.as_mut().and_then(|collector| collector.globals.as_mut());
        match globals.or(self.globals.as_mut()) {
            Some(globals) => globals.add(run).err(),
            None => Some(run),
        }
    }

    /// Brings what was fetched into the global stores.
    pub(super) fn follow_globals(&mut self) -> Phase {
        let now = self.around.clock.now();
        let globals = self.collector.as_mut().and_then(|collector| collector.globals.as_mut());
        if let Some(globals) = globals {
            let was_ready = globals.is_ready();
            globals.process(now)?;
            if globals.is_ready() && !was_ready {
                tracing::info!(worker = self.index, "the global stores are filled");
            }
        }
        Ok(())
    }
}
