//! A backend is a URL: `scheme://rest`. Everything after `scheme://` names the place; options
//! follow a `?`.

use std::sync::Arc;

use crate::log::{Durability, LogOptions};
use crate::mem::MemBroker;
use crate::ports::{Clock, PortError, PortErrorKind, PortResult, SharedBackend};

/// What is built into this program, for messages.
fn built() -> &'static str {
    if cfg!(feature = "log") { "mem://NAME, log://PATH" } else { "mem://NAME" }
}

/// Opens the backend that a URL names.
///
/// | URL | backend |
/// | --- | --- |
/// | `mem://NAME` | the broker of that name in this process's memory |
/// | `log://PATH` | the durable log in that directory; a relative path is fine |
/// | `log://PATH?durability=sync` | the same, safe against the loss of power too |
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
        "kafka" => Err(unsupported(
            "kafka:// comes with the Kafka backend, which this build does not have",
        )),
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
            ("kafka://localhost:9092", "kafka:// comes with the Kafka backend"),
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
