//! A backend is a URL: `scheme://rest`. Everything after `scheme://` names the place; options
//! follow a `?`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::log::{Durability, LogOptions};
use crate::mem::MemBroker;
use crate::ports::{Clock, PortError, PortErrorKind, PortResult, SharedBackend};

/// What is built into this program, for messages.
fn built() -> &'static str {
    match (cfg!(feature = "kafka"), cfg!(feature = "log")) {
        (true, true) => "kafka://HOST:PORT, log://PATH, mem://NAME",
        (true, false) => "kafka://HOST:PORT, mem://NAME",
        (false, true) => "log://PATH, mem://NAME",
        (false, false) => "mem://NAME",
    }
}

/// Opens the backend that a URL names.
///
/// | URL | backend |
/// | --- | --- |
/// | `mem://NAME` | the broker of that name in this process's memory |
/// | `log://PATH` | the durable log in that directory; a relative path is fine |
/// | `log://PATH?durability=sync` | the same, safe against the loss of power too |
/// | `kafka://HOST:PORT,HOST:PORT` | Apache Kafka; port 9092 when none is given |
///
/// ```
/// use std::sync::Arc;
/// use thalweg_connectors::{Backend, SystemClock, open};
/// let backend = open("mem://quick-start", Arc::new(SystemClock::new()))?;
/// assert_eq!(backend.scheme(), "mem");
/// # Ok::<(), thalweg_connectors::PortError>(())
/// ```
///
/// # Errors
/// [`PortErrorKind::Refused`] for what is no URL or has unknown options,
/// [`PortErrorKind::Unsupported`] for a scheme that this build does not have, and what opening the
/// backend fails with. No message repeats user, password or options of a URL.
pub fn open(url: &str, clock: Arc<dyn Clock>) -> PortResult<SharedBackend> {
    open_with(url, clock, &BTreeMap::new())
}

/// Opens the backend that a URL names, with settings for Kafka's clients by their Kafka names.
///
/// The prefixes `consumer.`, `main.consumer.` and `producer.` are Kafka Streams' own. Backends that are not Kafka have no use for
/// such settings, so that one configuration serves them all.
///
/// # Errors
/// As for [`open`]; and [`PortErrorKind::Refused`] for a setting that does not exist or that the application may not set,
/// [`PortErrorKind::Unsupported`] for one that asks for TLS or SASL. No message repeats a value.
pub fn open_with(
    url: &str,
    clock: Arc<dyn Clock>,
    settings: &BTreeMap<String, String>,
) -> PortResult<SharedBackend> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(PortError::new(
            PortErrorKind::Refused,
            format!(
                "a broker is named by a URL of the form scheme://place, there is no \"://\" in the one given; built in are: {}",
                built()
            ),
        ));
    };
    match scheme {
        "mem" => Ok(Arc::new(MemBroker::named(rest, clock))),
        "log" => open_log(rest, clock),
        "kafka" => open_kafka(rest, settings),
        "redis" | "rediss" | "file" | "stdio" => {
            Err(unsupported(&format!("{scheme}:// is not supported yet")))
        }
        _ if is_scheme(scheme) => Err(unsupported(&format!("no backend is called {scheme}://"))),
        _ => Err(unsupported("what stands before \"://\" is no scheme")),
    }
}

fn unsupported(what: &str) -> PortError {
    let message = format!("{what}; built in are: {}", built());
    PortError::new(PortErrorKind::Unsupported, message)
}

/// Is it short and harmless enough to be repeated in a message?
fn is_scheme(text: &str) -> bool {
    text.len() <= 20
        && !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+')
}

fn open_log(rest: &str, clock: Arc<dyn Clock>) -> PortResult<SharedBackend> {
    let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
    if path.is_empty() {
        return Err(PortError::new(
            PortErrorKind::Refused,
            "log:// needs the path of a directory, such as log://data/broker",
        ));
    }
    let options = log_options(options)?;
    open_directory(path, &options, clock)
}

fn log_options(text: &str) -> PortResult<LogOptions> {
    let mut options = LogOptions::default();
    for option in text.split('&').filter(|o| !o.is_empty()) {
        options = match option {
            "durability=process" => options.durability(Durability::Process),
            "durability=sync" => options.durability(Durability::Sync),
            _ => {
                let name = option.split('=').next().unwrap_or_default();
                return Err(PortError::new(
                    PortErrorKind::Refused,
                    format!(
                        "log:// has no option {name:?} with that value: \
                         there are durability=process (the default) and durability=sync"
                    ),
                ));
            }
        };
    }
    Ok(options)
}

#[cfg(feature = "log")]
fn open_directory(
    path: &str,
    options: &LogOptions,
    clock: Arc<dyn Clock>,
) -> PortResult<SharedBackend> {
    Ok(Arc::new(crate::log::LogBroker::open(path, options, clock)?))
}

#[cfg(not(feature = "log"))]
fn open_directory(
    _path: &str,
    _options: &LogOptions,
    _clock: Arc<dyn Clock>,
) -> PortResult<SharedBackend> {
    Err(unsupported("log:// is not in this build: build it with the cargo feature `log`"))
}

#[cfg(feature = "kafka")]
fn open_kafka(rest: &str, settings: &BTreeMap<String, String>) -> PortResult<SharedBackend> {
    let config = crate::kafka::KafkaConfig::from_settings(rest, settings)?;
    Ok(Arc::new(crate::kafka::KafkaBackend::new(config)))
}

#[cfg(not(feature = "kafka"))]
fn open_kafka(_rest: &str, _settings: &BTreeMap<String, String>) -> PortResult<SharedBackend> {
    Err(unsupported("kafka:// is not in this build: build it with the cargo feature `kafka`"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::SystemClock;
    use crate::ports::NewTopic;

    fn failure(url: &str) -> (PortErrorKind, String) {
        match open(url, Arc::new(SystemClock::new())) {
            Ok(backend) => panic!("{url} opened {backend:?}"),
            Err(error) => (error.kind(), error.to_string()),
        }
    }

    #[test]
    fn a_name_leads_to_the_same_memory() {
        let [a, b, other] = ["mem://url-a", "mem://url-a", "mem://url-b"]
            .map(|url| open(url, Arc::new(SystemClock::new())).unwrap());
        let topic = NewTopic { name: "t".into(), partitions: 1, config: Default::default() };
        a.admin().unwrap().create(&[topic]).unwrap();
        assert_eq!(b.admin().unwrap().list().unwrap().len(), 1);
        assert!(other.admin().unwrap().list().unwrap().is_empty());
    }

    #[test]
    fn what_is_not_built_in_is_refused_with_what_is() {
        let built = built();
        let cases = [
            ("redis://localhost/", "redis:// is not supported yet"),
            ("pulsar://localhost/", "no backend is called pulsar://"),
        ];
        for (url, begins) in cases {
            let (kind, message) = failure(url);
            assert_eq!(kind, PortErrorKind::Unsupported);
            assert!(message.starts_with(begins), "{message}");
            assert!(message.ends_with(built), "{message}");
        }
        assert_eq!(failure("localhost:9092").0, PortErrorKind::Refused);
        assert_eq!(failure("log://").0, PortErrorKind::Refused);
        assert!(failure("log://x?durability=never").1.contains("\"durability\""));
    }

    #[cfg(not(feature = "kafka"))]
    #[test]
    fn kafka_is_refused_with_the_feature_that_brings_it() {
        let (kind, message) = failure("kafka://localhost:9092");
        assert_eq!(kind, PortErrorKind::Unsupported);
        assert!(message.contains("cargo feature `kafka`"), "{message}");
    }

    #[cfg(feature = "kafka")]
    #[test]
    fn kafka_is_opened_without_a_broker_and_with_its_settings() {
        let open = |settings: &[(&str, &str)]| {
            let settings = settings.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
            open_with("kafka://localhost:1", Arc::new(SystemClock::new()), &settings)
        };
        let backend = open(&[("linger.ms", "1")]).unwrap();
        assert_eq!((backend.scheme(), backend.supports_transactions()), ("kafka", true));
        assert_eq!(open(&[("lingr.ms", "1")]).unwrap_err().kind(), PortErrorKind::Refused);
        let plain = open(&[("security.protocol", "SASL_SSL")]).unwrap_err();
        assert_eq!(plain.kind(), PortErrorKind::Unsupported);
    }

    #[test]
    fn settings_for_kafka_are_no_matter_to_other_backends() {
        let settings = [("linger.ms".to_owned(), "1".to_owned())].into();
        let clock = Arc::new(SystemClock::new());
        assert_eq!(open_with("mem://settings", clock, &settings).unwrap().scheme(), "mem");
    }

    #[test]
    fn no_message_shows_a_secret() {
        for url in [
            "kafka://user:canary@host:9092?sasl.password=canary",
            "rediss://:canary@host/",
            "user:canary@host://x",
            "user:canary@host",
            "log://data?password=canary",
            "pulsar://canary",
        ] {
            let message = failure(url).1;
            assert!(!message.contains("canary"), "{message}");
        }
    }
}
