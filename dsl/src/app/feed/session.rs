//! One call that appends lines; the position in the text is committed with them.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{
    Backend, CommittedOffset, ConsumerOptions, GroupMetadata, HeadersRef, Isolation, NewRecord,
    Offset, PortErrorKind, Producer, ProducerOptions, Timestamp, TopicPartition, TopicSlot,
    partition_for,
};

use super::FeedError;
use super::lines::{Appended, BoxError, LineFeed};
use super::position::Done;

/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;
/// Bytes of text in one transaction.
const TRANSACTION_BYTES: u64 = 1 << 20;
/// The longest line.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Bad lines that are logged one by one; further ones are only counted.
const BAD_LINES_LOGGED_MAX: u64 = 10;
/// How often a committed position is asked for while a dead process's transaction holds it.
const POSITION_TRIES_MAX: u32 = 600;
const POSITION_RETRY: Duration = Duration::from_millis(100);

/// What becomes of a last line that has no end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::app) enum LastLine {
    /// It is a line: nothing will follow.
    Take,
    /// It waits for its end: the text is still being written.
    Leave,
}

/// Whose position it is, and what the text is called in messages.
#[derive(Clone, Copy, Debug)]
pub(in crate::app) struct Place<'p> {
    pub(in crate::app) group: &'p str,
    pub(in crate::app) input: &'p str,
}

/// One call of `append`.
pub(super) struct Session<'f> {
    feed: &'f LineFeed,
    place: Place<'f>,
    producer: Box<dyn Producer>,
    transactional: bool,
    slot: TopicSlot,
    partitions: i32,
    /// Whether positions are committed: not for a text that cannot be read again.
    keeps_position: bool,
    done: Done,
    lines: u64,
    skipped: u64,
}

impl<'f> Session<'f> {
    pub(super) fn open(
        feed: &'f LineFeed,
        backend: &dyn Backend,
        place: Place<'f>,
    ) -> Result<Self, FeedError> {
        let transactional = backend.supports_transactions();
        let options = ProducerOptions {
            transactional_id: transactional.then(|| place.group.to_owned()),
            transaction_timeout: Duration::from_secs(60),
            client_id: place.group.to_owned(),
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
            place,
            producer,
            transactional,
            slot,
            partitions,
            keeps_position: false,
            done: Done::nothing(),
            lines: 0,
            skipped: 0,
        })
    }

    fn marker(&self) -> TopicPartition {
        TopicPartition::new(Arc::clone(&self.feed.topic), 0)
    }

    /// Where earlier calls ended, and what they committed with that.
    pub(super) fn committed_position(
        &self,
        backend: &dyn Backend,
    ) -> Result<(u64, String), FeedError> {
        let error = FeedError::port("find out what was appended to", &self.feed.topic);
        let options = ConsumerOptions {
            isolation: Isolation::ReadCommitted,
            client_id: self.place.group.to_owned(),
        };
        let mut consumer = backend.consumer(&options).map_err(&error)?;
        let mut tries = 0;
        let mut committed = loop {
            match consumer.committed(self.place.group, &[self.marker()]) {
                Ok(committed) => break committed,
                Err(e) if e.kind() == PortErrorKind::Retriable && tries < POSITION_TRIES_MAX => {
                    tries += 1;
                    std::thread::sleep(POSITION_RETRY);
                }
                Err(e) => return Err(error(e)),
            }
        };
        Ok(committed.remove(&self.marker()).map_or((0, String::new()), |committed| {
            (u64::try_from(committed.offset.0).unwrap_or(0), committed.metadata)
        }))
    }

    /// Goes on behind what earlier calls appended, and commits positions.
    pub(super) fn resume(&mut self, done: Done) {
        self.keeps_position = true;
        self.done = done;
    }

    /// Reads to the end; commits every megabyte, and whenever the text gives less than asked for (a pipe that waits).
    pub(super) fn run(
        mut self,
        from: u64,
        last_line: LastLine,
        text: &mut dyn Read,
    ) -> Result<Appended, FeedError> {
        let mut buffer = Vec::with_capacity(2 * READ_BYTES);
        // `at`: where the buffer begins in the text; `committed`: the lines up to there are.
        let (mut at, mut committed) = (from, from);
        let mut open = false;
        loop {
            let read = self.read(text, &mut buffer, at)?;
            let whole = match (read, last_line) {
                (0, LastLine::Take) => buffer.len(),
                _ => end_of_lines(&buffer),
            };
            if whole > 0 {
                self.begin(&mut open)?;
                self.send_lines(&buffer[..whole], at)?;
                self.done.add(&buffer[..whole]);
                buffer.drain(..whole);
                at += whole as u64;
            }
            // One more byte may belong to the line's end.
            if buffer.len() > LINE_BYTES_MAX + 1 {
                if std::mem::take(&mut open) {
                    self.commit(at)?;
                }
                committed = at;
                let Some(passed) = self.pass_long_line(text, &mut buffer, at, last_line)? else {
                    return Ok(self.appended(from, at));
                };
                self.begin(&mut open)?;
                at += passed;
                continue;
            }
            if open && (read < READ_BYTES || at - committed >= TRANSACTION_BYTES) {
                self.commit(at)?;
                (open, committed) = (false, at);
            }
            if read == 0 {
                return Ok(self.appended(from, at));
            }
        }
    }

    fn appended(&self, from: u64, to: u64) -> Appended {
        Appended { lines: self.lines, skipped: self.skipped, from, to }
    }

    /// Reads once, behind what the buffer holds; the buffer begins at `at` in the text.
    fn read(&self, text: &mut dyn Read, buffer: &mut Vec<u8>, at: u64) -> Result<usize, FeedError> {
        let position = at + buffer.len() as u64;
        let input = || self.place.input.to_owned();
        read_some(text, buffer).map_err(|source| FeedError::Read {
            input: input(),
            position,
            source,
        })
    }

    /// Reads over a line that is too long and begins with the buffer, without keeping it, and leaves it out as a bad one; tells its
    /// bytes. `None` when it has no end yet and waits for it: it is looked at again from its beginning then.
    fn pass_long_line(
        &mut self,
        text: &mut dyn Read,
        buffer: &mut Vec<u8>,
        at: u64,
        last_line: LastLine,
    ) -> Result<Option<u64>, FeedError> {
        let number = self.done.lines() + 1;
        if !self.feed.skips_bad_lines {
            return self.refuse(number, at, Bad::long()).map(|()| None);
        }
        let mut done = self.done.clone();
        let mut passed = 0;
        loop {
            let end = buffer.iter().position(|&byte| byte == b'\n').map(|before| before + 1);
            let part = end.unwrap_or(buffer.len());
            done.add(&buffer[..part]);
            buffer.drain(..part);
            passed += part as u64;
            if end.is_some() {
                break;
            }
            match (self.read(text, buffer, at + passed)?, last_line) {
                (0, LastLine::Leave) => return Ok(None),
                (0, LastLine::Take) => break,
                _ => {}
            }
        }
        self.refuse(number, at, Bad::long())?;
        self.done = done;
        Ok(Some(passed))
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
        let mut position = at;
        let mut number = self.done.lines();
        let mut is_rest = self.done.ends_within_a_line();
        for line in text.split_inclusive(|&b| b == b'\n') {
            number += 1;
            let value = line.strip_suffix(b"\n").unwrap_or(line);
            let value = value.strip_suffix(b"\r").unwrap_or(value);
            let taken = match std::mem::take(&mut is_rest) {
                // The line's end, which has come since.
                true if value.is_empty() => Ok(None),
                true => Err(Bad::because("it has grown since it was appended without its end")),
                false if value.len() > LINE_BYTES_MAX => Err(Bad::long()),
                false => self.parts(value).map(Some),
            };
            match taken {
                Ok(None) => {}
                Ok(Some((key, timestamp))) => self.send(key, timestamp, value)?,
                Err(bad) => self.refuse(number, position, bad)?,
            }
            position += line.len() as u64;
        }
        Ok(())
    }

    fn send(
        &mut self,
        key: Option<&str>,
        timestamp: Timestamp,
        value: &[u8],
    ) -> Result<(), FeedError> {
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
        let sent = self.producer.send(self.slot, partition, &record);
        sent.map_err(FeedError::port("append lines to", &self.feed.topic))?;
        self.lines += 1;
        Ok(())
    }

    /// Leaves a bad line out, or fails, as the feed says.
    fn refuse(&mut self, line: u64, position: u64, bad: Bad) -> Result<(), FeedError> {
        let Bad { reason, source } = bad;
        let input = self.place.input;
        if !self.feed.skips_bad_lines {
            let input = input.to_owned();
            return Err(FeedError::Line { input, line, position, reason, source });
        }
        if self.skipped < BAD_LINES_LOGGED_MAX {
            let cause = source.map(|cause| format!(": {cause}")).unwrap_or_default();
            tracing::warn!("left out {input}:{line}: {reason}{cause}");
        }
        self.skipped += 1;
        Ok(())
    }

    fn parts<'l>(&self, line: &'l [u8]) -> Result<(Option<&'l str>, Timestamp), Bad> {
        if self.feed.key.is_none() && self.feed.timestamp.is_none() {
            return Ok((None, Timestamp::NONE));
        }
        let text = std::str::from_utf8(line).map_err(|e| Bad::caused("it is not UTF-8", e))?;
        let key = match &self.feed.key {
            None => None,
            Some(key) => Some(key(text).ok_or_else(|| Bad::because("no key found"))?),
        };
        let timestamp = match &self.feed.timestamp {
            None => Timestamp::NONE,
            Some(timestamp) => {
                let time = timestamp(text).map_err(|e| Bad::caused("no timestamp found", e))?;
                (time.0 >= 0).then_some(time).ok_or_else(|| Bad::early(time))?
            }
        };
        Ok((key, timestamp))
    }

    fn commit(&mut self, at: u64) -> Result<(), FeedError> {
        let mut offsets = BTreeMap::new();
        if self.keeps_position {
            let offset = Offset(i64::try_from(at).unwrap_or(i64::MAX));
            let metadata = self.done.to_metadata();
            offsets.insert(self.marker(), CommittedOffset { offset, metadata });
        }
        let group = self.place.group.to_owned();
        let member = GroupMetadata { group, member: String::new(), generation: -1 };
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

/// What is wrong with a line.
struct Bad {
    reason: String,
    source: Option<BoxError>,
}

impl Bad {
    fn because(reason: &str) -> Self {
        Self { reason: reason.to_owned(), source: None }
    }

    fn caused(reason: &str, source: impl Into<BoxError>) -> Self {
        Self { reason: reason.to_owned(), source: Some(source.into()) }
    }

    fn long() -> Self {
        Self::because(&format!("it is longer than {} MiB", LINE_BYTES_MAX >> 20))
    }

    fn early(time: Timestamp) -> Self {
        let date = jiff::Timestamp::from_millisecond(time.0);
        let date = date.map(|date| format!(" ({date})")).unwrap_or_default();
        Self::because(&format!("the timestamp {} ms{date} is before 1970", time.0))
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
