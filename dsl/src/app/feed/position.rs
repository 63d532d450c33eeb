//! What is known of the part of a text that is done with: it is committed together with the position, so that the next start counts
//! lines on and notices when another text stands in the same place.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The text is recognised by so many bytes at its beginning …
const HEAD_BYTES: u64 = 64 << 10;
/// … and so many before the position. Both are bounded, so that a start reads little of a long text.
const TAIL_BYTES: usize = 4 << 10;

/// The part of a text before a position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Done {
    bytes: u64,
    /// Line ends in it.
    lines: u64,
    /// Hash of the first [`HEAD_BYTES`].
    head: Head,
    /// The last [`TAIL_BYTES`].
    tail: Vec<u8>,
}

/// A hash under way.
#[derive(Clone, Default)]
struct Head(Xxh3);

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.0.digest() == other.0.digest()
    }
}

impl Eq for Head {}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0.digest())
    }
}

/// Another text stands where the appended one stood.
#[derive(Debug)]
pub(super) struct Replaced;

impl Done {
    /// Nothing yet.
    pub(super) fn nothing() -> Self {
        Self { bytes: 0, lines: 0, head: Head::default(), tail: Vec::new() }
    }

    /// Adds what follows.
    pub(super) fn add(&mut self, text: &[u8]) {
        let of_head = HEAD_BYTES.saturating_sub(self.bytes);
        let of_head = usize::try_from(of_head).unwrap_or(usize::MAX).min(text.len());
        self.head.0.update(&text[..of_head]);
        self.tail.extend_from_slice(&text[text.len().saturating_sub(TAIL_BYTES)..]);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
        self.lines += text.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.bytes += text.len() as u64;
    }

    /// Complete lines in it.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Does it end within a line?
    pub(super) fn ends_within_a_line(&self) -> bool {
        self.tail.last().is_some_and(|&byte| byte != b'\n')
    }

    /// As it is committed.
    pub(super) fn to_metadata(&self) -> String {
        let tail = xxh3_64(&self.tail);
        format!("{VERSION} lines={} head={:?} tail={tail:016x}", self.lines, self.head)
    }

    /// Looks at the text before `position`, and whether it is the one that the metadata was written for; leaves the text there.
    pub(super) fn recognise(
        text: &mut (impl Read + Seek),
        position: u64,
        metadata: &str,
    ) -> io::Result<Result<Self, Replaced>> {
        text.seek(SeekFrom::Start(0))?;
        let mut done = Self::nothing();
        let Some(lines) = lines_in(metadata) else {
            // Nothing is known of it: count.
            done.read(text, position)?;
            return Ok(Ok(done));
        };
        done.read(text, position.min(HEAD_BYTES))?;
        let tail_start = position.saturating_sub(TAIL_BYTES as u64).max(done.bytes);
        text.seek(SeekFrom::Start(tail_start))?;
        done.bytes = tail_start;
        done.read(text, position)?;
        done.lines = lines;
        Ok(if done.to_metadata() == metadata { Ok(done) } else { Err(Replaced) })
    }

    /// Adds what a text has up to a position.
    fn read(&mut self, text: &mut impl Read, position: u64) -> io::Result<()> {
        let mut buffer = vec![0; HEAD_BYTES as usize];
        while self.bytes < position {
            let wanted = usize::try_from(position - self.bytes).unwrap_or(usize::MAX);
            let some = wanted.min(buffer.len());
            text.read_exact(&mut buffer[..some])?;
            self.add(&buffer[..some]);
        }
        Ok(())
    }
}

/// What the metadata that this version writes begins with. Texts of other versions are taken for those that were appended, and
/// their lines are counted.
const VERSION: &str = "v2";

fn lines_in(metadata: &str) -> Option<u64> {
    let known = metadata.strip_prefix(VERSION)?.strip_prefix(" lines=")?;
    known.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::Cursor;

    use super::*;

    fn done(parts: &[&[u8]]) -> Done {
        let mut done = Done::nothing();
        parts.iter().for_each(|part| done.add(part));
        done
    }

    #[test]
    fn it_does_not_matter_in_which_parts_a_text_was_read() {
        let text = "0123456\n".repeat(20_000).into_bytes();
        let whole = done(&[&text]);
        for size in [1, 7, 4096, 65_536, 100_000] {
            let parts: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(done(&parts), whole, "{size}");
        }
        assert_eq!(whole.lines(), 20_000);
        assert!(!whole.ends_within_a_line());
        assert!(done(&[b"a\n", b"b"]).ends_within_a_line());
        assert!(!done(&[]).ends_within_a_line());
    }

    #[test]
    fn a_text_is_recognised_at_any_position_and_counted_on() {
        let text = "0123456\n".repeat(20_000).into_bytes();
        for position in [0, 1, 8, 4096, 4100, 65_535, 65_536, 65_537, 69_000, 160_000] {
            let before = done(&[&text[..position]]);
            for metadata in [before.to_metadata(), String::new()] {
                let mut read = Cursor::new(&text);
                let seen = Done::recognise(&mut read, position as u64, &metadata).unwrap();
                assert_eq!(seen.unwrap(), before, "{position} {metadata}");
                assert_eq!(read.position(), position as u64);
            }
        }
    }

    #[test]
    fn metadata_has_a_version_and_that_of_another_one_is_not_compared() {
        let text = b"a\nb\n";
        let metadata = done(&[text]).to_metadata();
        assert_eq!(metadata, "v2 lines=2 head=293443f15261f9de tail=293443f15261f9de");
        // As it was written with another hash.
        let before = "lines=1 head=af63dc4c8601ec8c tail=af63dc4c8601ec8c";
        let seen = Done::recognise(&mut Cursor::new(text), 4, before).unwrap().unwrap();
        assert_eq!(seen, done(&[text]));
    }

    #[test]
    fn another_head_or_tail_is_another_text() {
        let text = vec![b'x'; 200_000];
        let metadata = done(&[&text]).to_metadata();
        for at in [0, 65_535, 195_904, 199_999] {
            let mut other = text.clone();
            other[at] = b'y';
            let seen = Done::recognise(&mut Cursor::new(&other), 200_000, &metadata).unwrap();
            assert!(seen.is_err(), "{at}");
        }
    }
}
