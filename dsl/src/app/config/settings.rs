//! The configuration as types: every value checked, every problem found at once.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg_connectors::{Durability, OffsetReset};
use thalweg_processor::{Guarantee, OnError, Semantics, TimestampPolicy};

use super::keys::{KEYS, Key, Kind, Word};
use super::layers::{self, Sources, Written};
use super::problem::{ConfigError, Origin, Problem};
use super::secret::{BrokerUrl, ClientSettings, Secret};

/// Everything an application was told.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) application_id: String,
    pub(crate) broker: BrokerUrl,
    durability: Durability,
    pub(crate) guarantee: Guarantee,
    pub(crate) workers: usize,
    /// `None`: as the guarantee demands.
    pub(crate) commit_interval: Option<Duration>,
    pub(crate) state_dir: PathBuf,
    pub(crate) offset_reset: OffsetReset,
    pub(crate) timestamp_policy: TimestampPolicy,
    pub(crate) on_deserialization_error: OnError,
    pub(crate) on_processing_error: OnError,
    pub(crate) semantics: Semantics,
    pub(crate) on_production_error: OnError,
    /// `None`: nowhere.
    pub(crate) dead_letter_topic: Option<String>,
    pub(crate) cache_bytes_max: usize,
    pub(crate) uncommitted_bytes_max: usize,
    pub(crate) buffered_records_max: usize,
    pub(crate) poll_records_max: usize,
    pub(crate) poll_timeout: Duration,
    /// `None`: never waits.
    pub(crate) task_idle_max: Option<Duration>,
    pub(crate) task_timeout: Duration,
    pub(crate) transaction_timeout: Duration,
    pub(crate) purge_interval: Duration,
    pub(crate) http_address: Option<SocketAddr>,
    pub(crate) http_token: Option<Secret>,
    /// For Kafka's clients, by Kafka's names.
    pub(crate) clients: ClientSettings,
    /// The values as they are shown: key, value, origin.
    shown: Vec<(&'static Key, String, String)>,
}

impl Settings {
    /// Reads all sources and checks everything.
    pub(crate) fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let (written, problems) = layers::read(sources);
        let mut checked = Checked { problems, shown: Vec::new() };
        let mut values = Values::new();
        for key in KEYS {
            if let Some(value) = checked.check(key, written.keys.get(key.name)) {
                values.insert(key.name, value);
            }
        }
        let settings =
            (checked.problems.is_empty()).then(|| Self::from_values(&values, checked.shown));
        let clients = written.clients;
        let Some(settings) = settings else {
            return Err(ConfigError::new(checked.problems));
        };
        Self { clients: ClientSettings(with_client_keys(clients, &values)), ..settings }
            .check_together()
    }

    fn from_values(values: &Values, shown: Vec<(&'static Key, String, String)>) -> Self {
        let guarantee = match choice(values, "processing.guarantee") {
            "exactly_once" => Guarantee::ExactlyOnce,
            _ => Guarantee::AtLeastOnce,
        };
        let handler = |key| match choice(values, key) {
            "continue" => OnError::Continue,
            _ => OnError::Fail,
        };
        Self {
            application_id: text(values, "application.id"),
            broker: match &values["broker"] {
                Value::Url(url) => url.clone(),
                other => unreachable!("`broker` is a URL, not {other:?}"),
            },
            durability: match choice(values, "durability") {
                "sync" => Durability::Sync,
                _ => Durability::Process,
            },
            guarantee,
            workers: size(values, "num.stream.threads"),
            commit_interval: values
                .contains_key("commit.interval.ms")
                .then(|| millis(values, "commit.interval.ms")),
            state_dir: text(values, "state.dir").into(),
            offset_reset: match choice(values, "auto.offset.reset") {
                "latest" => OffsetReset::Latest,
                "none" => OffsetReset::None,
                _ => OffsetReset::Earliest,
            },
            timestamp_policy: match choice(values, "default.timestamp.extractor") {
                "log_and_skip" => TimestampPolicy::LogAndSkip,
                "use_partition_time" => TimestampPolicy::UsePartitionTime,
                "wall_clock" => TimestampPolicy::WallClock,
                _ => TimestampPolicy::FailOnInvalid,
            },
            on_deserialization_error: handler("deserialization.exception.handler"),
            on_processing_error: handler("processing.exception.handler"),
            semantics: match choice(values, "semantics") {
                "java" => Semantics::Java,
                _ => Semantics::Corrected,
            },
            on_production_error: handler("production.exception.handler"),
            dead_letter_topic: values
                .contains_key("errors.dead.letter.queue.topic.name")
                .then(|| text(values, "errors.dead.letter.queue.topic.name")),
            cache_bytes_max: size(values, "statestore.cache.max.bytes"),
            uncommitted_bytes_max: size(values, "statestore.uncommitted.max.bytes"),
            buffered_records_max: size(values, "buffered.records.per.partition"),
            poll_records_max: size(values, "max.poll.records"),
            poll_timeout: millis(values, "poll.ms"),
            task_idle_max: (integer(values, "max.task.idle.ms") >= 0)
                .then(|| millis(values, "max.task.idle.ms")),
            task_timeout: millis(values, "task.timeout.ms"),
            transaction_timeout: millis(values, "transaction.timeout.ms"),
            purge_interval: millis(values, "repartition.purge.interval.ms"),
            http_address: match values.get("http.address") {
                Some(Value::Address(address)) => Some(*address),
                _ => None,
            },
            http_token: match values.get("http.token") {
                Some(Value::Token(token)) => Some(token.clone()),
                _ => None,
            },
            clients: ClientSettings::default(),
            shown,
        }
    }

    fn check_together(self) -> Result<Self, ConfigError> {
        self.check_directories()?;
        self.check_http()?;
        let is_log = self.broker.expose().starts_with("log://");
        let in_url = self.broker.expose().contains("durability=");
        let why = match self.durability {
            Durability::Sync if !is_log => "has an effect on `log://` only, and `broker` is",
            Durability::Sync if in_url => "is also a part of `broker`, which is",
            _ => return Ok(self),
        };
        let message = format!("`durability` {why} `{}`", self.broker);
        Err(ConfigError::new(vec![Problem::Conflict(message)]))
    }

    /// Refuses state within the log's directory and the reverse: who removes one would remove the other.
    fn check_directories(&self) -> Result<(), ConfigError> {
        let Some(log) = self.broker.expose().strip_prefix("log://") else {
            return Ok(());
        };
        let log = Path::new(log.split('?').next().unwrap_or_default());
        let state = self.state_dir.join(&self.application_id);
        let (real_log, real_state) = (real(log), real(&state));
        if !real_log.starts_with(&real_state) && !real_state.starts_with(&real_log) {
            return Ok(());
        }
        let message = format!(
            "the state directory `{}` (`state.dir` and `application.id`) and the log's directory `{}` (`broker`) have to lie apart; \
             change one of them",
            state.display(),
            log.display()
        );
        Err(ConfigError::new(vec![Problem::Conflict(message)]))
    }

    /// Numbers of a run are not for everybody who reaches the machine.
    fn check_http(&self) -> Result<(), ConfigError> {
        match self.http_address {
            Some(address) if !address.ip().is_loopback() && self.http_token.is_none() => {
                let message = format!(
                    "`http.address` is `{address}`, which other machines may reach: set `http.token` (`THALWEG_HTTP_TOKEN`), which \
                     `/metrics` then asks for, or take a port alone, which listens on the loopback interface"
                );
                Err(ConfigError::new(vec![Problem::Conflict(message)]))
            }
            _ => Ok(()),
        }
    }

    /// The URL with the options that other keys set.
    pub(crate) fn broker_url(&self) -> String {
        let url = self.broker.expose();
        let separator = if url.contains('?') { '&' } else { '?' };
        match self.durability {
            Durability::Sync => format!("{url}{separator}durability=sync"),
            Durability::Process => url.to_owned(),
        }
    }

    /// Every key with its value and where that came from; secrets masked.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&'static Key, &str, &str)> {
        self.shown.iter().map(|(key, value, origin)| (*key, value.as_str(), origin.as_str()))
    }
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = path.ancestors().find_map(|there| Some((there, there.canonicalize().ok()?)));
    match known.map(|(there, real)| (path.strip_prefix(there), real)) {
        Some((Ok(rest), real)) => real.join(rest),
        _ => path,
    }
}

/// Keys that Kafka's clients need to know, and nobody else.
const CLIENT_KEYS: [&str; 4] =
    ["heartbeat.interval.ms", "replication.factor", "request.timeout.ms", "session.timeout.ms"];

fn with_client_keys(
    mut clients: BTreeMap<String, String>,
    values: &Values,
) -> BTreeMap<String, String> {
    for key in CLIENT_KEYS {
        clients.insert(key.to_owned(), integer(values, key).to_string());
    }
    clients
}

/// A checked value.
#[derive(Clone, Debug)]
enum Value {
    Text(String),
    Url(BrokerUrl),
    Choice(&'static str),
    Integer(i64),
    Address(SocketAddr),
    Token(Secret),
}

type Values = BTreeMap<&'static str, Value>;

fn text(values: &Values, key: &str) -> String {
    match &values[key] {
        Value::Text(text) => text.clone(),
        other => unreachable!("`{key}` is a text, not {other:?}"),
    }
}

fn choice(values: &Values, key: &str) -> &'static str {
    match &values[key] {
        Value::Choice(word) => word,
        other => unreachable!("`{key}` is a choice, not {other:?}"),
    }
}

fn integer(values: &Values, key: &str) -> i64 {
    match &values[key] {
        Value::Integer(n) => *n,
        other => unreachable!("`{key}` is a number, not {other:?}"),
    }
}

fn size(values: &Values, key: &str) -> usize {
    usize::try_from(integer(values, key)).unwrap_or(0)
}

fn millis(values: &Values, key: &str) -> Duration {
    Duration::from_millis(integer(values, key).unsigned_abs())
}

struct Checked {
    problems: Vec<Problem>,
    shown: Vec<(&'static Key, String, String)>,
}

impl Checked {
    fn check(&mut self, key: &'static Key, written: Option<&Written>) -> Option<Value> {
        let Some(Written { text, origin }) = written else {
            if key.name == "application.id" {
                self.problems.push(missing(key));
            }
            let default = format!("({})", key.reason);
            self.shown.push((key, default, Origin::Default.to_string()));
            return None;
        };
        let value = parse(key.kind, text);
        match &value {
            Some(value) => self.shown.push((key, show(value), origin.to_string())),
            None => self.problems.push(Problem::BadValue {
                key: key.name,
                value: quote(key.kind, text),
                origin: origin.to_string(),
                allowed: allowed(key.kind),
            }),
        }
        value
    }
}

fn missing(key: &'static Key) -> Problem {
    let flag = key.flag.map(|flag| format!("`{flag}`, ")).unwrap_or_default();
    Problem::Missing {
        key: key.name,
        ways: format!("{flag}`{}` or in `{}`", key.variable(), layers::DEFAULT_FILE),
    }
}

fn parse(kind: Kind, text: &str) -> Option<Value> {
    match kind {
        Kind::Id => is_legal_id(text).then(|| Value::Text(text.to_owned())),
        Kind::Path => (!text.is_empty()).then(|| Value::Text(text.to_owned())),
        Kind::Url => BrokerUrl::parse(text).map(Value::Url),
        Kind::Choice(words) => find_word(words, text).map(|word| Value::Choice(word.name)),
        Kind::Integer { min, max } => {
            let n: i64 = text.parse().ok()?;
            (min..=max).contains(&n).then_some(Value::Integer(n))
        }
        Kind::Address => parse_address(text).map(Value::Address),
        Kind::Token => {
            let long_enough = text.len() >= TOKEN_LENGTH_MIN;
            (long_enough && text.bytes().all(|b| b.is_ascii_graphic()))
                .then(|| Value::Token(Secret::new(text)))
        }
    }
}

/// What a topic's name and a directory's name both may be, with room for what is appended.
fn is_legal_id(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=ID_LENGTH_MAX).contains(&text.len())
        && text.chars().all(legal)
        && text.chars().any(|c| c != '.')
}

/// What is shorter can be guessed.
const TOKEN_LENGTH_MIN: usize = 16;

/// A topic's name has at most 249 characters, and `-NAME-repartition` has to fit.
const ID_LENGTH_MAX: usize = 150;

/// Words are compared without Java's package, so that a properties file's values can be taken over.
fn find_word(words: &'static [Word], text: &str) -> Option<&'static Word> {
    let short = text.rsplit_once('.').map_or(text, |(_, class)| class);
    words.iter().find(|word| word.name == text || word.also.contains(&short))
}

fn parse_address(text: &str) -> Option<SocketAddr> {
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
    match port.parse::<u16>() {
        Ok(port) => Some(SocketAddr::new(localhost, port)),
        Err(_) => text.parse().ok(),
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Url(url) => url.to_string(),
        Value::Choice(word) => (*word).to_owned(),
        Value::Integer(n) => n.to_string(),
        Value::Address(address) => address.to_string(),
        Value::Token(token) => token.to_string(),
    }
}

/// A bad value for a message. A URL without scheme may still hold a password.
fn quote(kind: Kind, text: &str) -> String {
    match kind {
        Kind::Url if text.contains(['@', '?']) => "***".to_owned(),
        Kind::Token => "what it is set to".to_owned(),
        _ => format!("`{text}`"),
    }
}

fn allowed(kind: Kind) -> String {
    match kind {
        Kind::Id => format!("1 to {ID_LENGTH_MAX} letters, digits, `.`, `_` and `-`"),
        Kind::Url => {
            "a URL such as `log://DIRECTORY`, `kafka://HOST:PORT` or `mem://NAME`".to_owned()
        }
        Kind::Choice(words) => {
            let words: Vec<String> = words.iter().map(|w| format!("`{}`", w.name)).collect();
            match &words[..] {
                [only] => format!("only {only}"),
                words => words.join(", "),
            }
        }
        Kind::Integer { min, max } => format!("a whole number from {min} to {max}"),
        Kind::Path => "a path".to_owned(),
        Kind::Address => {
            "a port of the loopback interface, or an address with a port such as `127.0.0.1:8080`"
                .to_owned()
        }
        Kind::Token => {
            format!("at least {TOKEN_LENGTH_MIN} visible ASCII characters, and is never shown")
        }
    }
}

/// What a key takes, as the command `config` prints it.
pub(crate) fn allowed_values(key: &Key) -> String {
    allowed(key.kind)
}
