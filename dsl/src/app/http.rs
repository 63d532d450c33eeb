//! `http.address`: health and numbers over HTTP. Read-only, bounded in connections and time; numbers ask for the token, if there is one.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use thalweg_processor::{Metrics, StreamsState};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::Sleep;

use super::config::Secret;
use super::prometheus;

/// Connections served at once; one more, and the oldest is closed, so that idle ones never keep a question waiting.
const CONNECTIONS_MAX: usize = 32;
/// How long a connection may live, however slowly it is used.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(30);
/// How long accepting pauses when the process has run out of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An endpoint that listens already.
pub(super) struct Endpoint {
    listener: Guard,
}

impl Endpoint {
    /// Listens.
    pub(super) async fn bind(address: SocketAddr) -> io::Result<Self> {
        let inner = TcpListener::bind(address).await?;
        Ok(Self { listener: Guard { inner, open: VecDeque::new() } })
    }

    /// Where it listens: tells the port when 0 was asked for.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.inner.local_addr()
    }

    /// Answers until it is dropped.
    pub(super) async fn serve(
        self,
        application_id: Arc<str>,
        metrics: Arc<Metrics>,
        token: Option<Secret>,
    ) {
        let numbers = Numbers { application_id, metrics, token };
        let router = Router::new()
            .route("/health/live", get(live))
            .route("/health/ready", get(ready_to_work))
            .route("/metrics", get(all))
            .with_state(numbers);
        if let Err(error) = axum::serve(self.listener, router).await {
            tracing::error!(%error, "the HTTP endpoint ended");
        }
    }
}

#[derive(Clone)]
struct Numbers {
    application_id: Arc<str>,
    metrics: Arc<Metrics>,
    token: Option<Secret>,
}

/// Alive: nothing has failed for good.
async fn live(State(numbers): State<Numbers>) -> impl IntoResponse {
    answer(numbers.metrics.state(), |state| state != StreamsState::Failed)
}

/// Ready: all tasks process.
async fn ready_to_work(State(numbers): State<Numbers>) -> impl IntoResponse {
    answer(numbers.metrics.state(), |state| state == StreamsState::Running)
}

fn answer(state: StreamsState, good: impl Fn(StreamsState) -> bool) -> impl IntoResponse {
    let status = match good(state) {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{}\n", state.as_str()))
}

async fn all(State(numbers): State<Numbers>, headers: HeaderMap) -> Response {
    if numbers.token.as_ref().is_some_and(|token| !holds(&headers, token)) {
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        return (StatusCode::UNAUTHORIZED, challenge, "send the token of `http.token`\n")
            .into_response();
    }
    let text = prometheus::text(&numbers.application_id, &numbers.metrics.snapshot());
    ([(header::CONTENT_TYPE, prometheus::CONTENT_TYPE)], text).into_response()
}

/// Is the token in the headers? The time that the comparison takes tells nothing but the lengths.
fn holds(headers: &HeaderMap, token: &Secret) -> bool {
    let given = headers.get(header::AUTHORIZATION).map_or(&[][..], |value| value.as_bytes());
    let Some((scheme, given)) = given.split_at_checked("Bearer ".len()) else {
        return false;
    };
    let expected = token.expose().as_bytes();
    let differing = given.iter().zip(expected).fold(0, |all, (a, b)| all | (a ^ b));
    scheme.eq_ignore_ascii_case(b"Bearer ")
        && given.len() == expected.len()
        && std::hint::black_box(differing) == 0
}

/// A listener that bounds how many connections there are, and how long each lives.
struct Guard {
    inner: TcpListener,
    /// What closes the connections there are, the oldest first.
    open: VecDeque<oneshot::Sender<()>>,
}

impl Guard {
    /// Makes room for one more connection; what closes it.
    fn admit(&mut self) -> oneshot::Receiver<()> {
        self.open.retain(|connection| !connection.is_closed());
        while self.open.len() >= CONNECTIONS_MAX {
            // Dropped: its connection ends.
            self.open.pop_front();
        }
        let (close, closed) = oneshot::channel();
        self.open.push_back(close);
        closed
    }
}

impl axum::serve::Listener for Guard {
    type Io = Guarded;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guarded, SocketAddr) {
        loop {
            match self.inner.accept().await {
                Ok((stream, address)) => {
                    let deadline = Box::pin(tokio::time::sleep(CONNECTION_TIME_MAX));
                    return (Guarded { stream, deadline, closed: self.admit() }, address);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept an HTTP connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

/// A connection with a deadline, which has to go when there are too many.
struct Guarded {
    stream: TcpStream,
    deadline: Pin<Box<Sleep>>,
    closed: oneshot::Receiver<()>,
}

impl Guarded {
    /// The stream, while there is time left.
    fn in_time(&mut self, context: &mut Context<'_>) -> io::Result<Pin<&mut TcpStream>> {
        let is_over = self.deadline.as_mut().poll(context).is_ready();
        match is_over || Pin::new(&mut self.closed).poll(context).is_ready() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(Pin::new(&mut self.stream)),
        }
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.in_time(context)?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.in_time(context)?.poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(context)?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::{Read, Write};

    use super::*;

    /// An endpoint over a run's numbers, and what it runs on: it is gone with that.
    fn serve(
        id: &str,
        metrics: Arc<Metrics>,
        token: Option<&str>,
    ) -> (tokio::runtime::Runtime, SocketAddr) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let address = runtime.block_on(async {
            let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
            let address = endpoint.address().unwrap();
            tokio::spawn(endpoint.serve(id.into(), metrics, token.map(Secret::new)));
            address
        });
        (runtime, address)
    }

    /// Sends requests as they are to an endpoint over a run's numbers, and gives the answers.
    fn answers(metrics: &Arc<Metrics>, requests: &[&str]) -> Vec<String> {
        answers_with(None, metrics, requests)
    }

    /// The same of an endpoint with a token.
    fn answers_with(token: Option<&str>, metrics: &Arc<Metrics>, requests: &[&str]) -> Vec<String> {
        let (_runtime, address) = serve("canary-app", Arc::clone(metrics), token);
        let answers = requests.iter().map(|request| {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        answers.collect()
    }

    fn get_request(path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    }

    #[test]
    fn health_tells_the_state_and_no_names() {
        let metrics = Metrics::new(1);
        let [live, ready] = ["/health/live", "/health/ready"].map(get_request);
        let answers = answers(&metrics, &[&live, &ready]);
        assert!(answers[0].starts_with("HTTP/1.1 200 OK\r\n"), "{}", answers[0]);
        assert!(answers[1].starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{}", answers[1]);
        for answer in &answers {
            assert!(answer.ends_with("\r\n\r\ncreated\n"), "{answer}");
            assert!(!answer.contains("canary"), "{answer}");
        }
    }

    #[test]
    fn metrics_are_prometheus_text() {
        let answers = answers(&Metrics::new(1), &[&get_request("/metrics")]);
        assert!(answers[0].contains("content-type: text/plain; version=0.0.4\r\n"));
        assert!(
            answers[0]
                .contains("\nthalweg_alive_stream_threads{application_id=\"canary-app\"} 1\n"),
            "{}",
            answers[0]
        );
    }

    #[test]
    fn with_a_token_numbers_are_for_who_has_it_and_health_for_everybody() {
        let with = |header: &str| {
            get_request("/metrics").replace("Host: h", &format!("Host: h\r\n{header}"))
        };
        let requests = [
            get_request("/metrics"),
            with("Authorization: Bearer 0123456789abcdeF"),
            with("Authorization: Bearer 0123456789abcdef0"),
            with("Authorization: Bearer "),
            with("Authorization: Basic 0123456789abcdef"),
            with("Authorization: x"),
            with("authorization: bearer 0123456789abcdef"),
            get_request("/health/live"),
        ];
        let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
        let answers = answers_with(Some("0123456789abcdef"), &Metrics::new(1), &requests);
        let (refused, answered) = answers.split_at(6);
        for answer in refused {
            assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
            assert!(answer.contains("www-authenticate: Bearer") && !answer.contains("canary"));
        }
        assert!(answered.iter().all(|answer| answer.starts_with("HTTP/1.1 200 ")), "{answered:?}");
    }

    #[test]
    fn idle_connections_keep_no_question_waiting() {
        let (_runtime, address) = serve("app", Metrics::new(1), None);
        let connect = || std::net::TcpStream::connect(address).unwrap();
        let mut idle: Vec<_> = (0..2 * CONNECTIONS_MAX).map(|_| connect()).collect();
        let mut stream = connect();
        stream.set_read_timeout(Some(CONNECTION_TIME_MAX / 3)).unwrap();
        stream.write_all(get_request("/health/live").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        // The oldest has gone for it.
        idle[0].set_read_timeout(Some(CONNECTION_TIME_MAX / 3)).unwrap();
        let read = idle[0].read(&mut [0]);
        assert!(
            matches!(&read, Ok(0))
                || read.is_err_and(|e| e.kind() == io::ErrorKind::ConnectionReset)
        );
    }

    #[test]
    fn anything_else_is_refused() {
        let long =
            format!("GET /metrics HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
        for (request, status) in [
            (get_request("/"), "404"),
            (get_request("/health"), "404"),
            (get_request("/metrics/../health/live"), "404"),
            (get_request("/metrics").replace("GET", "POST"), "405"),
            (get_request("/metrics").replace("GET", "DELETE"), "405"),
            ("nonsense\r\n\r\n".to_owned(), "400"),
            (long, "431"),
        ] {
            let answers = answers(&Metrics::new(1), &[&request]);
            let start = format!("HTTP/1.1 {status} ");
            assert!(answers[0].starts_with(&start), "{status}: {}", answers[0]);
        }
    }
}
