//! The port [`Admin`] over an engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::engine::Engine;
use super::fault::Call;
use crate::ports::{Admin, NewTopic, PortResult, TopicInfo};
use crate::wire::{Offset, TopicPartition};

#[derive(Debug)]
pub(crate) struct LocalAdmin<E>(Arc<E>);

impl<E: Engine> LocalAdmin<E> {
    pub(crate) fn new(engine: Arc<E>) -> Self {
        Self(engine)
    }

    fn call<T>(&self, work: impl FnOnce(&E) -> PortResult<T>) -> PortResult<T> {
        self.0.shared().faults.around(Call::Admin, || work(&self.0))
    }
}

impl<E: Engine> Admin for LocalAdmin<E> {
    fn describe(&mut self, topics: &[&str]) -> PortResult<BTreeMap<String, TopicInfo>> {
        let all = self.call(E::topics)?;
        let asked = all.into_iter().filter(|t| topics.contains(&t.name.as_str()));
        Ok(asked.map(|t| (t.name.clone(), t)).collect())
    }

    fn list(&mut self) -> PortResult<Vec<TopicInfo>> {
        self.call(E::topics)
    }

    fn create(&mut self, topics: &[NewTopic]) -> PortResult<()> {
        self.call(|engine| engine.create(topics))
    }

    fn delete_records(&mut self, before: &BTreeMap<TopicPartition, Offset>) -> PortResult<()> {
        self.call(|engine| engine.delete_records(before))
    }

    fn delete(&mut self, topics: &[&str]) -> PortResult<()> {
        self.call(|engine| engine.delete(topics))
    }
}
