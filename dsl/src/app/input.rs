//! `--input`: feeds files and standard input to the declared topic, beside the run or before it.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use thalweg_connectors::SharedBackend;
use tokio::sync::oneshot;

use super::error::AppError;
use super::feed::{Appended, FeedError, LastLine, LineFeed, Place};

/// Standard input, as a path.
const STDIN: &str = "-";
/// How often followed files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// How long a broker that is away is left alone.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// What is to be fed.
pub(super) struct Input {
    pub(super) texts: Vec<Text>,
    /// Where positions are kept: `<application.id>-input`.
    pub(super) group: String,
    pub(super) backend: SharedBackend,
    /// Whether what is added to the files later is fed too.
    pub(super) follows: bool,
    /// How long a broker that is away is waited for.
    pub(super) patience: Duration,
}

/// Feeding on a thread of its own, because reading may block for ever.
pub(super) struct Feeding {
    stop: Arc<AtomicBool>,
    thread: Thread,
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
            (None, [only]) => match argument.split_once('=') {
                Some((topic, _)) if !Path::new(argument).exists() => {
                    return Err(refused(format!(
                        "the application declares no input `{topic}`, but `{}`, and there is no file `{argument}`",
                        only.topic()
                    )));
                }
                _ => (only, argument),
            },
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

    /// Finds the feeds for all arguments of `--input`.
    pub(super) fn find_all(
        feeds: &[LineFeed],
        arguments: &[String],
    ) -> Result<Vec<Self>, AppError> {
        let texts: Vec<Self> = arguments
            .iter()
            .map(|argument| Self::find(feeds, argument))
            .collect::<Result<_, _>>()?;
        if texts.iter().filter(|text| text.is_stdin()).count() > 1 {
            return Err(refused(
                "`-` is given twice, and standard input can be read once".to_owned(),
            ));
        }
        Ok(texts)
    }

    /// Does it read the file that this path leads to?
    pub(super) fn reads(&self, path: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().ok().filter(|path| path.is_file());
        !self.is_stdin() && real(&self.path).is_some_and(|own| real(path) == Some(own))
    }

    /// Leaves bad lines out.
    pub(super) fn skip_bad_lines(self) -> Self {
        Self { feed: self.feed.skip_bad_lines(), ..self }
    }

    fn is_stdin(&self) -> bool {
        self.path.as_os_str() == STDIN
    }

    /// How long it is; `None` for what is no file.
    fn length(&self) -> Option<u64> {
        let about = std::fs::metadata(&self.path).ok().filter(|_| !self.is_stdin())?;
        about.is_file().then_some(about.len())
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
            Ok(handle) => Ok(Feeding { stop, thread: handle.thread().clone(), ended }),
            Err(source) => {
                Err(AppError::Process { what: "start the thread that reads the input", source })
            }
        }
    }

    /// Feeds every text to its end; then, if texts are followed, what is added to the files.
    fn feed_all(&self, stop: &Arc<AtomicBool>) -> Result<(), FeedError> {
        let stopped = || stop.load(Ordering::SeqCst);
        let mut lengths = Vec::new();
        for text in &self.texts {
            lengths.push(text.length());
            let fed = self.feed_patiently(text, stop);
            if stopped() {
                return Ok(());
            }
            let fed = fed?;
            log(text, &fed);
            if self.follows && text.length().is_some_and(|length| length > fed.to) {
                let input = text.path.display();
                tracing::info!(%input, "the last line has no end yet and waits for it");
            }
        }
        while self.follows && lengths.iter().any(Option::is_some) && !stopped() {
            std::thread::park_timeout(LOOK_INTERVAL);
            for (text, length) in self.texts.iter().zip(&mut lengths) {
                let now = text.length();
                // A file that is gone for a moment is waited for.
                if length.is_none() || now.is_none() || now == *length || stopped() {
                    continue;
                }
                *length = now;
                let fed = self.feed_patiently(text, stop);
                if stopped() {
                    return Ok(());
                }
                let fed = fed?;
                if fed.to > fed.from {
                    log(text, &fed);
                }
            }
        }
        Ok(())
    }

    /// Feeds a text, and a file again from where it was committed, as long as a broker may come back.
    fn feed_patiently(&self, text: &Text, stop: &Arc<AtomicBool>) -> Result<Appended, FeedError> {
        let began = Instant::now();
        loop {
            let error = match self.feed_one(text, stop) {
                Err(error) if error.is_passing() && text.length().is_some() => error,
                result => return result,
            };
            let left = self.patience.saturating_sub(began.elapsed());
            if left.is_zero() || stop.load(Ordering::SeqCst) {
                return Err(error);
            }
            let error = super::error::one_line(&error);
            tracing::warn!(error, input = %text.path.display(), "feeding it again, for {} s more", left.as_secs().max(1));
            std::thread::park_timeout(RETRY_PAUSE.min(left));
        }
    }

    fn feed_one(&self, text: &Text, stop: &Arc<AtomicBool>) -> Result<Appended, FeedError> {
        let Text { feed, path } = text;
        let (backend, group) = (&*self.backend, &*self.group);
        if text.is_stdin() {
            let text = Stoppable { inner: io::stdin(), stop: Arc::clone(stop) };
            return feed.append_stream(backend, Place { group, input: "standard input" }, text);
        }
        let last_line = if self.follows { LastLine::Leave } else { LastLine::Take };
        feed.append_file_through(backend, group, path, last_line, |inner| Stoppable {
            inner,
            stop: Arc::clone(stop),
        })
    }
}

fn log(text: &Text, fed: &Appended) {
    let Appended { lines, skipped, from, to } = fed;
    tracing::info!(
        input = %text.path.display(), topic = %text.feed.topic(), lines, skipped, from_byte = from, to_byte = to,
        "input appended"
    );
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
        self.thread.unpark();
    }
}

/// Whoever fails in between leaves no thread behind that goes on appending.
impl Drop for Feeding {
    fn drop(&mut self) {
        self.stop();
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
