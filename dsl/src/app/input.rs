//! `--input`: feeds files and standard input to the declared topic, beside the run or before it.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_connectors::SharedBackend;
use tokio::sync::oneshot;

use super::error::AppError;
use super::feed::{Appended, FeedError, LineFeed};

/// Standard input, as a path.
const STDIN: &str = "-";

/// What is to be fed.
pub(super) struct Input {
    pub(super) texts: Vec<Text>,
    /// Where positions are kept: `<application.id>-input`.
    pub(super) group: String,
    pub(super) backend: SharedBackend,
}

/// Feeding on a thread of its own, because reading may block for ever.
pub(super) struct Feeding {
    stop: Arc<AtomicBool>,
    ended: oneshot::Receiver<Result<(), FeedError>>,
}

/// A text and the feed that takes it.
pub(super) struct Text {
    feed: LineFeed,
    path: PathBuf,
}

impl Text {
    /// Finds the feed for an argument of `--input`: `FILE`, or `TOPIC=FILE`.
    pub(super) fn find(feeds: &[LineFeed], argument: &str) -> Result<Self, AppError> {
        let named = argument.split_once('=').and_then(|(topic, path)| {
            let feed = feeds.iter().find(|feed| **feed.topic() == *topic)?;
            Some((feed, path))
        });
        let (feed, path) = match (named, feeds) {
            (Some(named), _) => named,
            (None, [only]) => (only, argument),
            (None, []) => return Err(refused("the application declares no input".to_owned())),
            (None, several) => {
                let topics: Vec<String> =
                    several.iter().map(|feed| format!("`{}`", feed.topic())).collect();
                return Err(refused(format!(
                    "write TOPIC=FILE, where the topic is one of {}",
                    topics.join(", ")
                )));
            }
        };
        Ok(Self { feed: feed.clone(), path: path.into() })
    }
}

fn refused(reason: String) -> AppError {
    AppError::Option { option: "--input", reason }
}

impl Input {
    /// Starts feeding.
    pub(super) fn start(self) -> Result<Feeding, AppError> {
        let (report, ended) = oneshot::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let asked_to_stop = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("input".to_owned());
        let spawned = thread.spawn(move || {
            let fed = self.feed_all(&asked_to_stop);
            // The backend is let go of before anybody hears that this is over.
            drop(self);
            report.send(fed).ok();
        });
        match spawned {
            Ok(_) => Ok(Feeding { stop, ended }),
            Err(source) => {
                Err(AppError::Process { what: "start the thread that reads the input", source })
            }
        }
    }

    fn feed_all(&self, stop: &Arc<AtomicBool>) -> Result<(), FeedError> {
        for Text { feed, path } in &self.texts {
            let fed = self.feed_one(feed, path, stop);
            if stop.load(Ordering::SeqCst) {
                return Ok(());
            }
            let Appended { lines, from, to } = fed?;
            let topic = feed.topic();
            tracing::info!(
                input = %path.display(), %topic, lines, from_byte = from, to_byte = to,
                "input appended"
            );
        }
        Ok(())
    }

    fn feed_one(
        &self,
        feed: &LineFeed,
        path: &Path,
        stop: &Arc<AtomicBool>,
    ) -> Result<Appended, FeedError> {
        if path.as_os_str() == STDIN {
            let text = Stoppable { inner: io::stdin(), stop: Arc::clone(stop) };
            return feed.append_once(&*self.backend, &self.group, text);
        }
        feed.append_file_through(&*self.backend, &self.group, path, |inner| Stoppable {
            inner,
            stop: Arc::clone(stop),
        })
    }
}

impl Feeding {
    /// Waits until all is fed.
    pub(super) async fn ended(&mut self) -> Result<(), AppError> {
        match (&mut self.ended).await {
            Ok(fed) => Ok(fed?),
            Err(_) => Err(AppError::InputPanicked),
        }
    }

    /// Asks the thread to stop: it takes no further text. One that waits for standard input is left alone.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// A reader that fails once it is asked to stop.
struct Stoppable<R> {
    inner: R,
    stop: Arc<AtomicBool>,
}

impl<R: Read> Read for Stoppable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        match self.stop.load(Ordering::SeqCst) {
            false => Ok(read),
            true => Err(io::Error::other("asked to stop")),
        }
    }
}

impl<R: Seek> Seek for Stoppable<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
