//! [`LineFeed`]: how the lines of a text become records.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use thalweg_connectors::{Backend, Timestamp};

use super::FeedError;
use super::position::Done;
use super::session::{LastLine, Place, Session};

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type KeyFn = dyn for<'l> Fn(&'l str) -> Option<&'l str> + Send + Sync;
pub(super) type TimestampFn = dyn Fn(&str) -> Result<Timestamp, BoxError> + Send + Sync;

/// How the lines of a text become records of a topic: the value is the line without its end, the key null, and the backend
/// stamps it, unless told otherwise.
///
/// A partition is chosen by the key; lines without key go to all partitions in turn.
#[derive(Clone)]
pub struct LineFeed {
    pub(super) topic: Arc<str>,
    pub(super) key: Option<Arc<KeyFn>>,
    pub(super) timestamp: Option<Arc<TimestampFn>>,
    pub(super) skips_bad_lines: bool,
}

/// What [`LineFeed::append`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Appended {
    /// Lines appended by this call.
    pub lines: u64,
    /// Lines left out by this call, because they are bad: see [`LineFeed::skip_bad_lines`].
    pub skipped: u64,
    /// Where it began: the bytes that earlier calls had appended.
    pub from: u64,
    /// Where it ended: the bytes that are appended now.
    pub to: u64,
}

impl fmt::Debug for LineFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LineFeed").field(&self.topic).finish()
    }
}

impl LineFeed {
    /// Feeds this topic.
    pub fn to(topic: impl Into<Arc<str>>) -> Self {
        Self { topic: topic.into(), key: None, timestamp: None, skips_bad_lines: false }
    }

    /// Takes the record's key out of the line; a line without one is an error.
    ///
    /// ```
    /// # use thalweg::feed::LineFeed;
    /// let feed = LineFeed::to("orders").key(|line| line.split(',').next());
    /// ```
    #[must_use]
    pub fn key(
        mut self,
        key: impl for<'l> Fn(&'l str) -> Option<&'l str> + Send + Sync + 'static,
    ) -> Self {
        self.key = Some(Arc::new(key));
        self
    }

    /// Takes the record's timestamp out of the line; a line without one, or with one before 1970, is an error. (Kafka has no such
    /// timestamps, and would stamp the record with the present time.)
    #[must_use]
    pub fn timestamp<E: Into<BoxError>>(
        mut self,
        timestamp: impl Fn(&str) -> Result<Timestamp, E> + Send + Sync + 'static,
    ) -> Self {
        self.timestamp = Some(Arc::new(move |line| timestamp(line).map_err(Into::into)));
        self
    }

    /// Leaves out the lines that have no key or timestamp where one is asked for, and those of more than 16 MiB, instead of failing:
    /// they are logged and counted.
    /// An [`App`](crate::App) does so when `deserialization.exception.handler` is `continue`.
    #[must_use]
    pub fn skip_bad_lines(mut self) -> Self {
        self.skips_bad_lines = true;
        self
    }

    /// The topic.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// Appends the lines of a file that earlier calls with this group and path have not appended. The group is
    /// `<group>-<path>`, where the path is the canonical one, so that files keep positions of their own. What is no regular file,
    /// such as a named pipe or a device, is read once: see [`append_once`](Self::append_once).
    ///
    /// # Errors
    /// See [`append`](Self::append).
    pub fn append_file(
        &self,
        backend: &dyn Backend,
        group: &str,
        path: &Path,
    ) -> Result<Appended, FeedError> {
        self.append_file_through(backend, group, path, LastLine::Take, |file| file)
    }

    /// Like [`append_file`](Self::append_file), with a reader around the file.
    pub(in crate::app) fn append_file_through<R: Read + Seek>(
        &self,
        backend: &dyn Backend,
        group: &str,
        path: &Path,
        last_line: LastLine,
        around: impl FnOnce(File) -> R,
    ) -> Result<Appended, FeedError> {
        let open_error = |source| FeedError::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(open_error)?;
        let kind = file.metadata().map_err(open_error)?.file_type();
        let input = path.display().to_string();
        if kind.is_dir() {
            return Err(open_error(io::ErrorKind::IsADirectory.into()));
        }
        if !kind.is_file() {
            let place = Place { group, input: &input };
            return self.append_stream(backend, place, around(file));
        }
        let full = std::fs::canonicalize(path).map_err(open_error)?;
        let group = format!("{group}-{}", full.display());
        let place = Place { group: &group, input: &input };
        self.append_text(backend, place, last_line, around(file))
    }

    /// Appends the lines of a text that earlier calls with this group have not appended. Lines and the position in the text
    /// (the group's committed offset, in bytes) are committed together: a process that is killed and started again appends
    /// each line exactly once.
    ///
    /// A last line without an end is appended too. When the text goes on in that line afterwards, the rest is a bad line.
    ///
    /// # Errors
    /// When the topic is not there, the text cannot be read, is shorter than what was appended or is another one, a line has no key
    /// or timestamp or more than 16 MiB, or the backend fails. What was committed before stays.
    pub fn append(
        &self,
        backend: &dyn Backend,
        group: &str,
        text: impl Read + Seek,
    ) -> Result<Appended, FeedError> {
        self.append_text(backend, Place { group, input: group }, LastLine::Take, text)
    }

    fn append_text(
        &self,
        backend: &dyn Backend,
        place: Place<'_>,
        last_line: LastLine,
        mut text: impl Read + Seek,
    ) -> Result<Appended, FeedError> {
        let mut session = Session::open(self, backend, place)?;
        let (from, metadata) = session.committed_position(backend)?;
        let input = place.input.to_owned();
        let read_error =
            |source| FeedError::Read { input: place.input.to_owned(), position: from, source };
        let length = text.seek(SeekFrom::End(0)).map_err(read_error)?;
        if length < from {
            return Err(FeedError::Shrunk { input, length, appended: from });
        }
        match Done::recognise(&mut text, from, &metadata).map_err(read_error)? {
            Ok(done) => session.resume(done),
            Err(_) => return Err(FeedError::Replaced { input, appended: from }),
        }
        session.run(from, last_line, &mut text)
    }

    /// Appends all lines of a text that can be read only once, such as a pipe. Each call starts anew: lines that were read but not
    /// committed when a process was killed are lost, and a text that is given again is appended again.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub fn append_once(
        &self,
        backend: &dyn Backend,
        group: &str,
        text: impl Read,
    ) -> Result<Appended, FeedError> {
        self.append_stream(backend, Place { group, input: group }, text)
    }

    /// Like [`append_once`](Self::append_once), with a name for messages.
    pub(in crate::app) fn append_stream(
        &self,
        backend: &dyn Backend,
        place: Place<'_>,
        mut text: impl Read,
    ) -> Result<Appended, FeedError> {
        Session::open(self, backend, place)?.run(0, LastLine::Take, &mut text)
    }
}
