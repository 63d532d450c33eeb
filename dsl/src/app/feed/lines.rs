//! Appends the lines of a text; the position in the text is committed with them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{
    Backend, CommittedOffset, ConsumerOptions, GroupMetadata, HeadersRef, Isolation, NewRecord,
    Offset, PortErrorKind, Producer, ProducerOptions, Timestamp, TopicPartition, TopicSlot,
    partition_for,
};

use super::FeedError;

/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;
/// Bytes of text in one transaction.
const TRANSACTION_BYTES: u64 = 1 << 20;
/// The longest line.
const LINE_BYTES_MAX: usize = 16 << 20;
/// How often a committed position is asked for while a dead process's transaction holds it.
const POSITION_TRIES_MAX: u32 = 600;
const POSITION_RETRY: Duration = Duration::from_millis(100);

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type KeyFn = dyn for<'l> Fn(&'l str) -> Option<&'l str> + Send + Sync;
type TimestampFn = dyn Fn(&str) -> Result<Timestamp, BoxError> + Send + Sync;

/// How the lines of a text become records of a topic: the value is the line without its end, the key null, and the backend
/// stamps it, unless told otherwise.
///
/// A partition is chosen by the key; lines without key go to all partitions in turn.
#[derive(Clone)]
pub struct LineFeed {
    topic: Arc<str>,
    key: Option<Arc<KeyFn>>,
    timestamp: Option<Arc<TimestampFn>>,
}

/// What [`LineFeed::append`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Appended {
    /// Lines appended by this call.
    pub lines: u64,
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
        Self { topic: topic.into(), key: None, timestamp: None }
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

    /// Takes the record's timestamp out of the line; a line without one is an error.
    #[must_use]
    pub fn timestamp<E: Into<BoxError>>(
        mut self,
        timestamp: impl Fn(&str) -> Result<Timestamp, E> + Send + Sync + 'static,
    ) -> Self {
        self.timestamp = Some(Arc::new(move |line| timestamp(line).map_err(Into::into)));
        self
    }

    /// The topic.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// Appends the lines of a file that earlier calls with this group and path have not appended. The group is
    /// `<group>-<path>`, so that files keep positions of their own.
    ///
    /// # Errors
    /// See [`append`](Self::append).
    pub fn append_file(
        &self,
        backend: &dyn Backend,
        group: &str,
        path: &Path,
    ) -> Result<Appended, FeedError> {
        self.append_file_through(backend, group, path, |file| file)
    }

    /// Like [`append_file`](Self::append_file), with a reader around the file.
    pub(in crate::app) fn append_file_through<R: Read + Seek>(
        &self,
        backend: &dyn Backend,
        group: &str,
        path: &Path,
        around: impl FnOnce(File) -> R,
    ) -> Result<Appended, FeedError> {
        let open = || Ok((std::fs::canonicalize(path)?, File::open(path)?));
        let (full, file) =
            open().map_err(|source| FeedError::Open { path: path.to_owned(), source })?;
        self.append(backend, &format!("{group}-{}", full.display()), around(file))
    }

    /// Appends the lines of a text that earlier calls with this group have not appended. Lines and the position in the text
    /// (the group's committed offset, in bytes) are committed together: a process that is killed and started again appends
    /// each line exactly once.
    ///
    /// # Errors
    /// When the topic is not there, the text cannot be read or is shorter than what was appended, a line has no key or
    /// timestamp, or the backend fails. What was committed before stays.
    pub fn append(
        &self,
        backend: &dyn Backend,
        group: &str,
        mut text: impl Read + Seek,
    ) -> Result<Appended, FeedError> {
        let mut session = Session::open(self, backend, group)?;
        let from = session.committed_position(backend)?;
        let read_error = |source| FeedError::Read { position: from, source };
        let length = text.seek(SeekFrom::End(0)).map_err(read_error)?;
        if length < from {
            return Err(FeedError::Shrunk { group: group.to_owned(), length, appended: from });
        }
        text.seek(SeekFrom::Start(from)).map_err(read_error)?;
        session.position = Some(from);
        session.run(from, &mut text)
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
        mut text: impl Read,
    ) -> Result<Appended, FeedError> {
        Session::open(self, backend, group)?.run(0, &mut text)
    }
}

/// One call of `append`.
struct Session<'f> {
    feed: &'f LineFeed,
    group: &'f str,
    producer: Box<dyn Producer>,
    transactional: bool,
    slot: TopicSlot,
    partitions: i32,
    /// The position to commit: the bytes of the text that are appended; `None` for a text that cannot be read again.
    position: Option<u64>,
    lines: u64,
}

impl<'f> Session<'f> {
    fn open(feed: &'f LineFeed, backend: &dyn Backend, group: &'f str) -> Result<Self, FeedError> {
        let transactional = backend.supports_transactions();
        let options = ProducerOptions {
            transactional_id: transactional.then(|| group.to_owned()),
            transaction_timeout: Duration::from_secs(60),
            client_id: group.to_owned(),
        };
        let open = || {
            let mut producer = backend.producer(&options)?;
            let (slot, partitions) = producer.topic(&feed.topic)?;
            if transactional {
                producer.init_transactions()?;
            }
            Ok((producer, slot, partitions))
        };
        let (producer, slot, partitions) =
            open().map_err(FeedError::port("append lines to", &feed.topic))?;
        Ok(Self {
            feed,
            group,
            producer,
            transactional,
            slot,
            partitions,
            position: None,
            lines: 0,
        })
    }

    fn marker(&self) -> TopicPartition {
        TopicPartition::new(Arc::clone(&self.feed.topic), 0)
    }

    fn committed_position(&self, backend: &dyn Backend) -> Result<u64, FeedError> {
        let error = FeedError::port("find out what was appended to", &self.feed.topic);
        let options = ConsumerOptions {
            isolation: Isolation::ReadCommitted,
            client_id: self.group.to_owned(),
        };
        let mut consumer = backend.consumer(&options).map_err(&error)?;
        let mut tries = 0;
        let committed = loop {
            match consumer.committed(self.group, &[self.marker()]) {
                Ok(committed) => break committed,
                Err(e) if e.kind() == PortErrorKind::Retriable && tries < POSITION_TRIES_MAX => {
                    tries += 1;
                    std::thread::sleep(POSITION_RETRY);
                }
                Err(e) => return Err(error(e)),
            }
        };
        let position = committed.get(&self.marker()).map_or(0, |c| c.offset.0);
        Ok(u64::try_from(position).unwrap_or(0))
    }

    /// Reads to the end; commits every megabyte, and whenever the text gives less than asked for (a pipe that waits).
    fn run(mut self, from: u64, text: &mut dyn Read) -> Result<Appended, FeedError> {
        let mut buffer = Vec::with_capacity(2 * READ_BYTES);
        // `at`: where the buffer begins in the text; `done`: the lines up to there are committed.
        let (mut at, mut done) = (from, from);
        let mut open = false;
        loop {
            let read = read_some(text, &mut buffer)
                .map_err(|source| FeedError::Read { position: at + buffer.len() as u64, source })?;
            let whole = match read {
                0 => buffer.len(),
                _ => end_of_lines(&buffer),
            };
            if whole > 0 {
                self.begin(&mut open)?;
                self.send_lines(&buffer[..whole], at)?;
                buffer.drain(..whole);
                at += whole as u64;
            }
            if buffer.len() > LINE_BYTES_MAX {
                return Err(FeedError::LongLine { position: at, limit: LINE_BYTES_MAX });
            }
            if open && (read < READ_BYTES || at - done >= TRANSACTION_BYTES) {
                self.commit(at)?;
                (open, done) = (false, at);
            }
            if read == 0 {
                return Ok(Appended { lines: self.lines, from, to: at });
            }
        }
    }

    fn begin(&mut self, open: &mut bool) -> Result<(), FeedError> {
        if !*open && self.transactional {
            let error = FeedError::port("append lines to", &self.feed.topic);
            self.producer.begin().map_err(error)?;
        }
        *open = true;
        Ok(())
    }

    fn send_lines(&mut self, text: &[u8], at: u64) -> Result<(), FeedError> {
        let error = FeedError::port("append lines to", &self.feed.topic);
        let mut position = at;
        for line in text.split_inclusive(|&b| b == b'\n') {
            let value = line.strip_suffix(b"\n").unwrap_or(line);
            let value = value.strip_suffix(b"\r").unwrap_or(value);
            let (key, timestamp) = self.parts(value, position)?;
            let partition = match key {
                Some(key) => partition_for(key.as_bytes(), self.partitions),
                None => (self.lines % u64::from(self.partitions.unsigned_abs())) as i32,
            };
            let record = NewRecord {
                key: key.map(str::as_bytes),
                value: Some(value),
                timestamp,
                headers: HeadersRef::EMPTY,
            };
            self.producer.send(self.slot, partition, &record).map_err(&error)?;
            self.lines += 1;
            position += line.len() as u64;
        }
        Ok(())
    }

    fn parts<'l>(
        &self,
        line: &'l [u8],
        position: u64,
    ) -> Result<(Option<&'l str>, Timestamp), FeedError> {
        if self.feed.key.is_none() && self.feed.timestamp.is_none() {
            return Ok((None, Timestamp::NONE));
        }
        let refuse = |part, source| FeedError::Line { position, part, source };
        let first = if self.feed.key.is_some() { "key" } else { "timestamp" };
        let text = std::str::from_utf8(line).map_err(|e| refuse(first, e.into()))?;
        let key = match &self.feed.key {
            None => None,
            Some(key) => Some(key(text).ok_or_else(|| refuse("key", "the line has none".into()))?),
        };
        let timestamp = match &self.feed.timestamp {
            None => Timestamp::NONE,
            Some(timestamp) => timestamp(text).map_err(|e| refuse("timestamp", e))?,
        };
        Ok((key, timestamp))
    }

    fn commit(&mut self, at: u64) -> Result<(), FeedError> {
        let offsets: BTreeMap<_, _> = self
            .position
            .iter()
            .map(|_| {
                let offset = Offset(i64::try_from(at).unwrap_or(i64::MAX));
                let committed = CommittedOffset { offset, metadata: String::new() };
                (self.marker(), committed)
            })
            .collect();
        let member =
            GroupMetadata { group: self.group.to_owned(), member: String::new(), generation: -1 };
        let producer = &mut self.producer;
        let mut commit = || match (self.transactional, offsets.is_empty()) {
            (true, true) => producer.commit().map(|_| ()),
            (true, false) => {
                producer.send_offsets(&offsets, &member)?;
                producer.commit().map(|_| ())
            }
            (false, true) => producer.flush().map(|_| ()),
            (false, false) => {
                producer.flush()?;
                producer.commit_offsets(&offsets, &member)
            }
        };
        commit().map_err(FeedError::port("commit lines to", &self.feed.topic))
    }
}

/// Where the last complete line ends.
fn end_of_lines(text: &[u8]) -> usize {
    text.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1)
}

/// Reads once, behind what the buffer holds.
fn read_some(text: &mut dyn Read, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let start = buffer.len();
    buffer.resize(start + READ_BYTES, 0);
    let read = loop {
        match text.read(&mut buffer[start..]) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => break other,
        }
    };
    buffer.truncate(start + *read.as_ref().unwrap_or(&0));
    read
}
