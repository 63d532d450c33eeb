//! The port [`Backend`]: a cluster.

use std::sync::Arc;

use super::admin::KafkaAdmin;
use super::config::{Given, KafkaConfig};
use super::consumer::KafkaConsumer;
use super::error::failed;
use super::ffi::{Client, Role};
use super::membership::KafkaMembership;
use super::producer::KafkaProducer;
use crate::ports::{
    Admin, Backend, Consumer, ConsumerOptions, Membership, MembershipOptions, PortResult, Producer,
    ProducerOptions,
};

/// Apache Kafka, reached through librdkafka.
#[derive(Debug)]
pub struct KafkaBackend {
    config: Arc<KafkaConfig>,
}

impl KafkaBackend {
    /// A backend for a cluster; it connects when a client is made of it.
    pub fn new(config: KafkaConfig) -> Self {
        Self { config: Arc::new(config) }
    }

    fn client(&self, role: Role, name: &str, settings: &Given) -> PortResult<Arc<Client>> {
        let settings = settings.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        Client::new(role, name, settings)
            .map_err(|f| failed(format!("start client {name:?}: {f}"), f))
    }
}

impl Backend for KafkaBackend {
    fn scheme(&self) -> &'static str {
        "kafka"
    }

    fn compacts(&self) -> bool {
        true
    }

    fn supports_transactions(&self) -> bool {
        true
    }

    fn promise(&self) -> &'static str {
        "survives what the replicas of its topics survive"
    }

    fn consumer(&self, options: &ConsumerOptions) -> PortResult<Box<dyn Consumer>> {
        let settings = self.config.for_consumer(options);
        let client = self.client(Role::Consumer, &options.client_id, &settings)?;
        Ok(Box::new(KafkaConsumer::new(client, &self.config, options)))
    }

    fn producer(&self, options: &ProducerOptions) -> PortResult<Box<dyn Producer>> {
        let settings = self.config.for_producer(options);
        let client = self.client(Role::Producer, &options.client_id, &settings)?;
        Ok(Box::new(KafkaProducer::new(client, Arc::clone(&self.config), options)))
    }

    fn admin(&self) -> PortResult<Box<dyn Admin>> {
        let client = self.client(Role::Producer, "thalweg-admin", &self.config.for_admin())?;
        Ok(Box::new(KafkaAdmin::new(client, Arc::clone(&self.config))))
    }

    fn membership(&self, options: &MembershipOptions) -> PortResult<Box<dyn Membership>> {
        Ok(Box::new(KafkaMembership::join(&self.config, options)?))
    }
}
