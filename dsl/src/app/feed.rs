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
mod read;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use thalweg_connectors::{Backend, NewTopic, PortError, SerdeError, TopicPartition};

pub use lines::{Appended, LineFeed};
pub use read::{Received, read_all, read_table};

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
    #[error("cannot read the input at byte {position}")]
    Read {
        /// Where.
        position: u64,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Less text is there than was appended from it before.
    #[error(
        "the input of group `{group}` has {length} bytes, but {appended} were appended from it before; \
         give a text that was shortened or replaced another name"
    )]
    Shrunk {
        /// The group that keeps the position.
        group: String,
        /// Bytes there are.
        length: u64,
        /// Bytes appended before.
        appended: u64,
    },
    /// A line is longer than a record may be.
    #[error("the line at byte {position} of the input is longer than {limit} bytes")]
    LongLine {
        /// Where the line begins.
        position: u64,
        /// The limit.
        limit: usize,
    },
    /// A line has not the form that the feed asks for.
    #[error("cannot take the line at byte {position} of the input: no {part} found")]
    Line {
        /// Where the line begins.
        position: u64,
        /// `key` or `timestamp`.
        part: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
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
