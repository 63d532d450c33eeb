//! What an application can fail with, and how it is reported.

use std::error::Error;
use std::fmt::Write;

use thalweg_connectors::{PortError, PortErrorKind};
use thalweg_processor::{ErrorClass, RunError, StartError};

use super::config::{BrokerUrl, ConfigError};
use super::feed::FeedError;

/// What kind of failure: decides the exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppErrorClass {
    /// The command line or the configuration is wrong: exit code 2.
    Usage,
    /// The run failed: exit code 1.
    Run,
}

impl AppErrorClass {
    /// The exit code of the process.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::Run => 1,
        }
    }
}

/// A failure of an application. The causes are its sources; [`App::main`](crate::App::main) prints the chain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An option of the command line does not fit the application.
    #[error("`{option}` cannot be used: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// Why.
        reason: String,
    },
    /// The backend cannot be opened.
    #[error("cannot open the broker `{broker}`")]
    Open {
        /// Its URL, without secrets.
        broker: String,
        /// Why.
        #[source]
        source: PortError,
    },
    /// A topic is declared with a number of partitions that no topic can have.
    #[error(
        "the application declares the topic `{topic}` with {partitions} partitions; a topic has 1 to {max}"
    )]
    Partitions {
        /// The topic.
        topic: String,
        /// The number.
        partitions: i32,
        /// The most that there can be.
        max: i32,
    },
    /// Declared topics cannot be created.
    #[error("cannot create the topics that the application declares")]
    Topics(#[source] PortError),
    /// Input cannot be appended.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// The thread that reads the input panicked: a closure of its [`LineFeed`](super::feed::LineFeed) did.
    #[error("the thread that reads the input panicked")]
    InputPanicked,
    /// The run does not start.
    #[error("cannot start `{application_id}`")]
    Start {
        /// The application.
        application_id: String,
        /// Why.
        #[source]
        source: Box<StartError>,
    },
    /// The run failed.
    #[error("`{application_id}` failed; everything committed is kept")]
    Run {
        /// The application.
        application_id: String,
        /// Why.
        #[source]
        source: Box<RunError>,
    },
    /// The run ended, but not with a commit.
    #[error(
        "`{application_id}` ended without its last commit: what it held is processed again at the next start"
    )]
    Uncommitted {
        /// The application.
        application_id: String,
    },
    /// The endpoint cannot be served.
    #[error("cannot serve `http.address` {address}")]
    Http {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Results cannot be written.
    #[error("cannot write to standard output")]
    Results(#[source] std::io::Error),
    /// The file for the results cannot be written.
    #[error("cannot write the results to `{}`", path.display())]
    Output {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The process cannot be set up: signals, threads.
    #[error("cannot {what}")]
    Process {
        /// What was attempted.
        what: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl AppError {
    /// What kind of failure it is.
    pub fn class(&self) -> AppErrorClass {
        match self {
            Self::Config(_) | Self::Option { .. } | Self::Partitions { .. } => AppErrorClass::Usage,
            Self::Open { source, .. } if is_wish(source) => AppErrorClass::Usage,
            Self::Start { source, .. } if is_contradiction(source) => AppErrorClass::Usage,
            _ => AppErrorClass::Run,
        }
    }

    /// May the same be possible shortly, when a broker is there?
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Open { source, .. } | Self::Topics(source) => {
                source.kind() == PortErrorKind::Retriable
            }
            Self::Start { source, .. } => source.class() == ErrorClass::Retriable,
            _ => false,
        }
    }
}

/// Is it what was asked for that cannot be, whatever the world is like? A directory that cannot be made has a cause in the world.
fn is_wish(error: &PortError) -> bool {
    matches!(error.kind(), PortErrorKind::Unsupported | PortErrorKind::Refused)
        && error.source().is_none()
}

/// Do settings not go together, whatever the world is like?
fn is_contradiction(error: &StartError) -> bool {
    use StartError::{CommitInterval, Guarantee, ReplayOfDynamicSink, WarmUpNeedsTime};
    matches!(error, Guarantee(_) | CommitInterval { .. } | ReplayOfDynamicSink(_) | WarmUpNeedsTime)
}

/// An error and its causes in one line.
pub(crate) fn one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            let _ = write!(text, ": {message}");
        }
        cause = error.source();
    }
    text
}

/// The whole chain of causes, as it is printed; secrets of the broker's URL are masked in what others wrote.
pub(crate) fn report(error: &dyn Error, broker: Option<&BrokerUrl>) -> String {
    let mut text = format!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        // A transparent error repeats what its source says, and some messages quote it.
        if !text.contains(&message) {
            let _ = write!(text, "\n  because: {message}");
        }
        cause = error.source();
    }
    broker.map_or(text.clone(), |broker| broker.redact(&text))
}
