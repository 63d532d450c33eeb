//! The way to the broker that keeps a group: found, lost and found again.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{FindCoordinatorRequest, MetadataRequest};
use kafka_protocol::protocol::StrBytes;

use super::call::Call;
use super::connection::Connection;
use super::error::{WireError, WireResult};
use crate::kafka::KafkaConfig;
use crate::wire::TopicPartition;

/// A broker that does not take a connection within this time is passed over.
const CONNECT: Duration = Duration::from_secs(10);

/// Is told of each new connection, so that a waiting request can be ended from elsewhere.
pub(crate) type Watch = Arc<dyn Fn(Option<TcpStream>) + Send + Sync>;

/// What a reply says instead of yes.
pub(crate) struct Refusal {
    error: ResponseError,
    /// Of which partition, if it is one in particular.
    partition: Option<TopicPartition>,
}

impl From<ResponseError> for Refusal {
    fn from(error: ResponseError) -> Self {
        Self { error, partition: None }
    }
}

impl Refusal {
    /// Is this number in a reply, which may be about one partition, an error?
    pub(super) fn check(
        code: i16,
        partition: impl FnOnce() -> Option<TopicPartition>,
    ) -> Result<(), Self> {
        let refused = |error| Err(Self { error, partition: partition() });
        ResponseError::try_from_code(code).map_or(Ok(()), refused)
    }
}

/// A client of one group's coordinator.
pub(crate) struct Coordinator {
    config: KafkaConfig,
    client_id: String,
    group: String,
    /// Brokers that the cluster told of, asked when those of the configuration do not answer.
    known: Vec<String>,
    connection: Option<Connection>,
    watch: Option<Watch>,
}

impl Coordinator {
    /// Makes a client; nothing is connected yet.
    pub(crate) fn new(config: &KafkaConfig, client_id: &str, group: &str) -> Self {
        Self {
            config: config.clone(),
            client_id: client_id.to_owned(),
            group: group.to_owned(),
            known: Vec::new(),
            connection: None,
            watch: None,
        }
    }

    /// Sets who is told of each new connection.
    pub(crate) fn watch(&mut self, watch: Watch) {
        self.watch = Some(watch);
    }

    /// The group.
    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// The settings.
    pub(crate) fn config(&self) -> &KafkaConfig {
        &self.config
    }

    /// The group, for messages.
    pub(super) fn what(&self) -> String {
        format!("group {:?}", self.group)
    }

    /// The connection to the coordinator; finds and opens it when there is none.
    ///
    /// It tries once: a fresh cluster answers for some time that there is no coordinator yet.
    pub(crate) fn connect(&mut self) -> WireResult<&mut Connection> {
        let found = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let found = self.find()?;
                if let Some(watch) = &self.watch {
                    watch(found.handle());
                }
                found
            }
        };
        Ok(self.connection.insert(found))
    }

    /// Connects, and tries again until `patience` is over while it may still come about.
    pub(crate) fn connect_within(&mut self, patience: Duration) -> WireResult<()> {
        let deadline = Instant::now() + patience;
        let mut pauses = Pauses::default();
        loop {
            let error = match self.connect() {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            let pause = pauses.next_pause();
            if !error.lost_coordinator() || Instant::now() + pause >= deadline {
                return Err(error);
            }
            tracing::debug!(
                group = self.group,
                error = error.in_one_line(),
                "looking for the coordinator again"
            );
            std::thread::sleep(pause);
        }
    }

    /// Sends a request to the coordinator. A connection that failed is dropped, as is that to a broker that is not the
    /// coordinator any more: the next request finds it anew.
    pub(crate) fn call<R: Call, T>(
        &mut self,
        timeout: Duration,
        request: impl FnOnce(i16) -> R,
        read: impl FnOnce(R::Reply) -> Result<T, Refusal>,
    ) -> WireResult<T> {
        let group = self.what();
        let connection = self.connect()?;
        let reply = connection.call(timeout, request);
        let refused = |Refusal { error, partition }| {
            let what = match partition {
                Some(partition) => format!("{partition} in {group}"),
                None => group,
            };
            connection.refused::<R>(what, error)
        };
        let result = reply.and_then(|r| read(r).map_err(refused));
        if let Err(error) = &result
            && (error.lost_connection() || error.lost_coordinator())
        {
            self.forget();
        }
        result
    }

    /// Drops the connection.
    pub(crate) fn forget(&mut self) {
        self.connection = None;
        if let Some(watch) = &self.watch {
            watch(None);
        }
    }

    fn find(&mut self) -> WireResult<Connection> {
        let timeout = self.config.request_timeout.min(CONNECT);
        let mut last = None;
        let mut brokers = self.config.bootstrap.clone();
        brokers.extend(self.known.iter().filter(|b| !self.config.bootstrap.contains(b)).cloned());
        for broker in &brokers {
            let mut asked = match Connection::open(broker, &self.client_id, timeout) {
                Ok(connection) => connection,
                Err(error) => {
                    last = Some(error);
                    continue;
                }
            };
            match self.ask(&mut asked, timeout) {
                Ok(address) if address == asked.broker() => return Ok(asked),
                Ok(address) => return Connection::open(&address, &self.client_id, timeout),
                Err(error) if error.lost_connection() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        let brokers = brokers.join(", ");
        let source = last.unwrap_or_else(|| WireError::Unreachable {
            broker: "(none is configured)".into(),
            source: std::io::ErrorKind::InvalidInput.into(),
        });
        Err(WireError::NoBroker { brokers, source: Box::new(source) })
    }

    /// Asks a broker for the coordinator's address, and for the other brokers'.
    fn ask(&mut self, broker: &mut Connection, timeout: Duration) -> WireResult<String> {
        let group = StrBytes::from_string(self.group.clone());
        let request = |version| {
            let request = FindCoordinatorRequest::default();
            match version {
                ..4 => request.with_key(group),
                _ => request.with_coordinator_keys(vec![group]),
            }
        };
        let reply = broker.call(timeout, request)?;
        let (code, host, port) = match reply.coordinators.into_iter().next() {
            Some(c) => (c.error_code, c.host, c.port),
            None => (reply.error_code, reply.host, reply.port),
        };
        if let Some(error) = ResponseError::try_from_code(code) {
            return Err(broker.refused::<FindCoordinatorRequest>(self.what(), error));
        }
        let everybody = |_| MetadataRequest::default().with_topics(Some(Vec::new()));
        let cluster = broker.call(timeout, everybody)?;
        self.known = cluster.brokers.iter().map(|b| address(&b.host, b.port)).collect();
        Ok(address(&host, port))
    }
}

fn address(host: &str, port: i32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// How long to wait before the same is tried again: longer each time, up to a second.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    tried: u32,
}

impl Pauses {
    /// The next pause.
    pub(crate) fn next_pause(&mut self) -> Duration {
        self.tried += 1;
        Duration::from_millis(50 << self.tried.min(5)).min(Duration::from_secs(1))
    }

    /// It has succeeded.
    pub(crate) fn reset(&mut self) {
        self.tried = 0;
    }
}
