//! A producer and a backend that do one thing otherwise.

use std::collections::BTreeMap;

use thalweg_connectors::{
    Acknowledged, Admin, Backend, CommittedOffset, Consumer, ConsumerOptions, GroupMetadata,
    MemBroker, Membership, MembershipOptions, NewRecord, PortResult, Producer, ProducerOptions,
    TopicPartition, TopicSlot,
};

/// Calls a hook before it commits.
pub(super) struct Hooked {
    pub(super) inner: Box<dyn Producer>,
    pub(super) before_commit: Box<dyn FnMut() + Send>,
}

impl Producer for Hooked {
    fn init_transactions(&mut self) -> PortResult<()> {
        self.inner.init_transactions()
    }

    fn begin(&mut self) -> PortResult<()> {
        self.inner.begin()
    }

    fn topic(&mut self, name: &str) -> PortResult<(TopicSlot, i32)> {
        self.inner.topic(name)
    }

    fn send(&mut self, topic: TopicSlot, partition: i32, record: &NewRecord<'_>) -> PortResult<()> {
        self.inner.send(topic, partition, record)
    }

    fn flush(&mut self) -> PortResult<Acknowledged> {
        self.inner.flush()
    }

    fn send_offsets(
        &mut self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        group: &GroupMetadata,
    ) -> PortResult<()> {
        self.inner.send_offsets(offsets, group)
    }

    fn commit(&mut self) -> PortResult<Acknowledged> {
        (self.before_commit)();
        self.inner.commit()
    }

    fn abort(&mut self) -> PortResult<()> {
        self.inner.abort()
    }

    fn commit_offsets(
        &mut self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        group: &GroupMetadata,
    ) -> PortResult<()> {
        self.inner.commit_offsets(offsets, group)
    }

    fn is_tainted(&mut self) -> bool {
        self.inner.is_tainted()
    }
}

/// A backend without transactions.
#[derive(Debug)]
pub(crate) struct Plain(pub(crate) MemBroker);

impl Backend for Plain {
    fn scheme(&self) -> &'static str {
        "plain"
    }

    fn supports_transactions(&self) -> bool {
        false
    }

    fn promise(&self) -> &'static str {
        self.0.promise()
    }

    fn consumer(&self, options: &ConsumerOptions) -> PortResult<Box<dyn Consumer>> {
        self.0.consumer(options)
    }

    fn producer(&self, options: &ProducerOptions) -> PortResult<Box<dyn Producer>> {
        self.0.producer(options)
    }

    fn admin(&self) -> PortResult<Box<dyn Admin>> {
        self.0.admin()
    }

    fn membership(&self, options: &MembershipOptions) -> PortResult<Box<dyn Membership>> {
        self.0.membership(options)
    }
}
