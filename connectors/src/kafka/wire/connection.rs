//! One connection to one broker, with one request in flight.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{ApiVersionsRequest, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};

use super::call::{Call, Versions};
use super::error::{WireError, WireResult};

/// No reply that is asked for here comes near it: what is longer is not Kafka's protocol.
const LONGEST_REPLY: usize = 64 << 20;

/// A connection to a broker whose versions are known.
///
/// After a failure other than a refusal it is of no use: a late reply may still come.
pub(crate) struct Connection {
    stream: TcpStream,
    broker: String,
    client_id: StrBytes,
    versions: BTreeMap<i16, Versions>,
    correlation: i32,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects to `host:port` and asks which versions the broker knows, all within `timeout`.
    pub(crate) fn open(broker: &str, client_id: &str, timeout: Duration) -> WireResult<Self> {
        let deadline = Instant::now() + timeout;
        let unreachable = |source| WireError::Unreachable { broker: broker.to_owned(), source };
        let stream = connect(broker, deadline).map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let mut connection = Self {
            stream,
            broker: broker.to_owned(),
            client_id: StrBytes::from_string(client_id.to_owned()),
            versions: BTreeMap::new(),
            correlation: 0,
            buffer: Vec::new(),
        };
        connection.ask_versions(deadline.saturating_duration_since(Instant::now()))?;
        Ok(connection)
    }

    fn ask_versions(&mut self, timeout: Duration) -> WireResult<()> {
        let version = ApiVersionsRequest::VERSIONS.1;
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("thalweg"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let reply = self.exchange(&request, version, timeout)?;
        // A broker that does not know this version answers in the oldest one, which begins with the error, too.
        let unsupported = ResponseError::UnsupportedVersion.code().to_be_bytes();
        if reply.starts_with(&unsupported) {
            return Err(self.unusable::<ApiVersionsRequest>(None));
        }
        let reply = self.decode::<ApiVersionsRequest>(&reply, version)?;
        let offered = reply.api_keys.iter();
        self.versions = offered.map(|v| (v.api_key, (v.min_version, v.max_version))).collect();
        Ok(())
    }

    /// The broker's `host:port`.
    pub(crate) fn broker(&self) -> &str {
        &self.broker
    }

    /// A second handle: shutting it down ends a request that is waiting for its reply.
    pub(crate) fn handle(&self) -> Option<TcpStream> {
        self.stream.try_clone().ok()
    }

    /// Fails when the broker and this client have no version of the request in common.
    pub(crate) fn require<R: Call>(&self) -> WireResult<i16> {
        let offered = self.versions.get(&R::KEY).copied();
        R::version_for(offered).ok_or_else(|| self.unusable::<R>(offered))
    }

    /// Sends a request in the newest version that both sides know, and waits for its reply.
    pub(crate) fn call<R: Call>(
        &mut self,
        timeout: Duration,
        request: impl FnOnce(i16) -> R,
    ) -> WireResult<R::Reply> {
        let version = self.require::<R>()?;
        let reply = self.exchange(&request(version), version, timeout)?;
        self.decode::<R>(&reply, version)
    }

    /// The error of a refused request; `what` says what it was about.
    pub(crate) fn refused<R: Call>(
        &self,
        what: impl Into<String>,
        error: ResponseError,
    ) -> WireError {
        WireError::Refused {
            broker: self.broker.clone(),
            request: R::NAME,
            what: what.into(),
            error,
        }
    }

    fn unusable<R: Call>(&self, has: Option<Versions>) -> WireError {
        let (broker, needs) = (self.broker.clone(), R::VERSIONS);
        WireError::Version { broker, request: R::NAME, has, needs }
    }

    fn garbled<R: Call>(&self, detail: impl Into<String>) -> WireError {
        let (broker, detail) = (self.broker.clone(), detail.into());
        WireError::Garbled { broker, request: R::NAME, detail }
    }

    /// One round trip; returns the body of the reply.
    fn exchange<R: Call>(
        &mut self,
        request: &R,
        version: i16,
        timeout: Duration,
    ) -> WireResult<Vec<u8>> {
        self.correlation = self.correlation.wrapping_add(1);
        self.encode(request, version).map_err(|e| self.garbled::<R>(e.to_string()))?;
        let deadline = Instant::now() + timeout;
        let frame = self.round_trip(deadline).map_err(|source| {
            let (broker, request) = (self.broker.clone(), R::NAME);
            match source.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    WireError::TimedOut { broker, request, waited: timeout }
                }
                io::ErrorKind::InvalidData => {
                    WireError::Garbled { broker, request, detail: source.to_string() }
                }
                _ => WireError::Broken { broker, request, source },
            }
        })?;
        let mut rest = &frame[..];
        let header = ResponseHeader::decode(&mut rest, R::Reply::header_version(version));
        let header = header.map_err(|e| self.garbled::<R>(e.to_string()))?;
        if header.correlation_id != self.correlation {
            return Err(self.garbled::<R>("it answers another request"));
        }
        Ok(rest.to_vec())
    }

    /// Writes length, header and request into the buffer.
    fn encode<R: Call>(&mut self, request: &R, version: i16) -> Result<(), impl ToString + use<R>> {
        self.buffer.clear();
        self.buffer.extend_from_slice(&[0; 4]);
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(self.client_id.clone()));
        let encoded = header.encode(&mut self.buffer, R::header_version(version));
        let encoded = encoded.and_then(|()| request.encode(&mut self.buffer, version));
        let length = (self.buffer.len() - 4) as u32;
        self.buffer[..4].copy_from_slice(&length.to_be_bytes());
        encoded
    }

    fn decode<R: Call>(&self, mut body: &[u8], version: i16) -> WireResult<R::Reply> {
        R::Reply::decode(&mut body, version).map_err(|e| self.garbled::<R>(e.to_string()))
    }

    fn round_trip(&mut self, deadline: Instant) -> io::Result<Vec<u8>> {
        self.stream.set_write_timeout(Some(left(deadline)?))?;
        self.stream.write_all(&self.buffer)?;
        let mut length = [0; 4];
        self.read(&mut length, deadline)?;
        let length = u32::from_be_bytes(length) as usize;
        if !(4..=LONGEST_REPLY).contains(&length) {
            let error = format!("a reply of {length} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        let mut frame = vec![0; length];
        self.read(&mut frame, deadline)?;
        Ok(frame)
    }

    fn read(&mut self, mut into: &mut [u8], deadline: Instant) -> io::Result<()> {
        while !into.is_empty() {
            self.stream.set_read_timeout(Some(left(deadline)?))?;
            match self.stream.read(into) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => into = &mut into[read..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What is left until the deadline; an error when nothing is (a socket takes no time-out of zero).
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The addresses of a name. The system's look-up takes no time-out, so it is waited for on a thread of its own, which ends when
/// the system gives up.
fn resolve(broker: &str, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = broker.parse() {
        return Ok(vec![address]);
    }
    let (found, answer) = mpsc::sync_channel(1);
    let name = broker.to_owned();
    thread::Builder::new().name("thalweg-resolve".into()).spawn(move || {
        let addresses = name.to_socket_addrs().map(Vec::from_iter);
        // Nobody waits any more when it took too long.
        drop(found.send(addresses));
    })?;
    answer.recv_timeout(left(deadline)?).unwrap_or_else(|_| {
        let slow = "looking up the name takes too long: does the name server answer?";
        Err(io::Error::new(io::ErrorKind::TimedOut, slow))
    })
}

/// Tries all addresses of a name.
fn connect(broker: &str, deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in resolve(broker, deadline)? {
        match left(deadline).and_then(|left| TcpStream::connect_timeout(&address, left)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
