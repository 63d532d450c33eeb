//! Text in and results out, on any backend: what a first program needs before it has other producers and consumers.
//!
//! [`LineFeed`] appends the lines of a text to a topic, each exactly once, also when the process is killed in the middle and
//! started again. [`read_table`] gives the latest value per key, [`read_all`] every record.
//!
//! ```
//! use thalweg::feed::{LineFeed, read_all};
//! use thalweg::{MemBroker, Topic};
//!
//! let broker = MemBroker::new();
//! thalweg::feed::create_topic(&broker, "lines", 1)?;
//! let text = std::io::Cursor::new("to be\nor not to be\n");
//! LineFeed::to("lines").append(&broker, "my-app-input", text)?;
//!
//! let lines = Topic::<(), String>::new("lines");
//! let values: Vec<String> = read_all(&broker, &lines)?.into_iter().map(|r| r.value).collect();
//! assert_eq!(values, ["to be", "or not to be"]);
//! # Ok::<(), thalweg::feed::FeedError>(())
//! ```

mod lines;
mod position;
mod read;
mod session;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use thalweg_connectors::{Backend, NewTopic, PortError, PortErrorKind, SerdeError, TopicPartition};

pub use lines::{Appended, LineFeed};
pub use read::{Received, read_all, read_table};
pub(in crate::app) use session::{LastLine, Place};

use super::error::AppErrorClass;

/// A failure of feeding or reading.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// A file cannot be opened.
    #[error("cannot open the input `{}`", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The text cannot be read.
    #[error("cannot read `{input}` at byte {position}")]
    Read {
        /// The text's name.
        input: String,
        /// Where.
        position: u64,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Less text is there than was appended from it before.
    #[error(
        "`{input}` has {length} bytes, but {appended} were appended from it before: it was shortened or replaced; \
         give it another name to append it from its beginning"
    )]
    Shrunk {
        /// The text's name.
        input: String,
        /// Bytes there are.
        length: u64,
        /// Bytes appended before.
        appended: u64,
    },
    /// Another text is there than the one that was appended before.
    #[error(
        "`{input}` is not the text any more of which {appended} bytes were appended before: it was replaced or changed; \
         give it another name to append it from its beginning"
    )]
    Replaced {
        /// The text's name.
        input: String,
        /// Bytes appended before.
        appended: u64,
    },
    /// A line has not the form that the feed asks for, or is too long.
    #[error(
        "cannot take {input}:{line} (byte {position}): {reason}; put the line right, or leave such lines out with \
         `deserialization.exception.handler=continue`"
    )]
    Line {
        /// The text's name.
        input: String,
        /// Which line, from 1.
        line: u64,
        /// The byte at which it begins.
        position: u64,
        /// What is wrong with it.
        reason: String,
        /// Why.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The backend failed.
    #[error("cannot {attempt} `{topic}`")]
    Port {
        /// What was attempted.
        attempt: &'static str,
        /// The topic.
        topic: String,
        /// Why.
        #[source]
        source: PortError,
    },
    /// A topic is not there.
    #[error("there is no topic `{topic}`")]
    NoTopic {
        /// The topic.
        topic: String,
    },
    /// A record is not what the topic's serdes read.
    #[error("cannot deserialize the {field} of {partition}@{offset}")]
    Decode {
        /// `key` or `value`.
        field: &'static str,
        /// Where it lies.
        partition: TopicPartition,
        /// Which record.
        offset: i64,
        /// Why.
        #[source]
        source: SerdeError,
    },
}

impl FeedError {
    /// What kind of failure it is.
    pub const fn class(&self) -> AppErrorClass {
        AppErrorClass::Run
    }

    /// May the same succeed shortly? What was committed is known to the next attempt, however this one ended.
    pub(in crate::app) fn is_passing(&self) -> bool {
        use PortErrorKind::{Abortable, Retriable, Unknown};
        matches!(self, Self::Port { source, .. } if matches!(source.kind(), Abortable | Retriable | Unknown))
    }

    fn port(attempt: &'static str, topic: &str) -> impl Fn(PortError) -> Self {
        move |source| Self::Port { attempt, topic: topic.to_owned(), source }
    }
}

/// Creates a topic; one that is there already with as many partitions is fine.
///
/// # Errors
/// When one is there with another number of partitions, or the backend cannot.
pub fn create_topic(backend: &dyn Backend, name: &str, partitions: i32) -> Result<(), FeedError> {
    let topic =
        NewTopic { name: name.to_owned(), partitions, config: std::collections::BTreeMap::new() };
    backend
        .admin()
        .and_then(|mut admin| admin.create(&[topic]))
        .map_err(FeedError::port("create", name))
}
