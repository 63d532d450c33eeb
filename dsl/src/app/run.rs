//! Runs and replays: from the command line's wish to the end of the run.

use std::fs::File;
use std::future::Future;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_connectors::{
    Backend, Clock, NewTopic, PortErrorKind, SharedBackend, SystemClock, open_with,
};
use thalweg_processor::{
    OnError, ReplayFrom, RuntimeConfig, StartAt, StateConfig, StateEngine, Streams, StreamsSpec,
    StreamsState, Summary, TaskConfig, Until, promise,
};

use super::App;
use super::cli::{ReplayArgs, RunArgs};
use super::config::Settings;
use super::error::AppError;
use super::http::Endpoint;
use super::input::{Feeding, Input, Text};
use super::patience::{START_PATIENCE, attempt};
use super::replays::{self, Replays};
use super::signals;

/// How often a long run says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// How often a run is looked at while it starts and ends.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How long a directory that another process holds is waited for.
const BUSY_PATIENCE: Duration = Duration::from_secs(3);
const BUSY_RETRY: Duration = Duration::from_millis(50);
/// How long a stop waits for the thread that reads the input.
const INPUT_PATIENCE: Duration = Duration::from_secs(1);

/// One run of an application: live or a replay.
pub(super) struct Run {
    pub(super) app: App,
    pub(super) settings: Settings,
    pub(super) mode: Mode,
}

/// What kind of run it is.
pub(super) enum Mode {
    Live(RunArgs),
    Replay(ReplayArgs),
}

/// Where it runs.
#[derive(Clone)]
struct Place {
    backend: SharedBackend,
    clock: Arc<dyn Clock>,
}

/// What the mode says of the run.
#[derive(Clone)]
struct Course {
    application_id: String,
    suffix: String,
    start: StartAt,
    until: Until,
}

/// The most partitions that a topic may be declared with.
const PARTITIONS_MAX: i32 = 100_000;

impl Mode {
    /// Refuses what cannot be, whatever the backend holds.
    fn check(&self) -> Result<(), AppError> {
        let Self::Replay(args) = self else {
            return Ok(());
        };
        if let Some(name) = &args.name {
            replays::check_name(name)?;
        }
        match (args.from, args.until) {
            (ReplayFrom::Time(from), Some(until)) if until <= from => Err(AppError::Option {
                option: "--until",
                reason:
                    "it has to be later than `--from`; it is the first time that is not replayed"
                        .to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// The arguments of `--input`.
    fn input(&self) -> &[String] {
        match self {
            Self::Live(args) => &args.input,
            Self::Replay(_) => &[],
        }
    }

    /// Does it end by itself?
    fn has_end(&self) -> bool {
        match self {
            Self::Live(args) => args.until_end,
            Self::Replay(_) => true,
        }
    }

    fn output(&self) -> Option<&Path> {
        match self {
            Self::Live(args) => args.output.as_deref(),
            Self::Replay(_) => None,
        }
    }
}

impl Run {
    /// Runs until it ends by itself, fails, or `shutdown` is ready; then commits and closes.
    pub(super) async fn until(
        self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<Option<Summary>, AppError> {
        let run = Arc::new(self);
        let ended = Arc::clone(&run).go(shutdown).await?;
        if run.mode.has_end() && !ended.as_ref().is_some_and(|summary| summary.reached_end) {
            let rest = match run.mode {
                Mode::Live(_) => "the next run goes on from here",
                Mode::Replay(_) => "its outputs are incomplete; make it anew with --replace",
            };
            tracing::warn!("stopped before it came to its end: {rest}");
        }
        Ok(ended)
    }

    /// Refuses what cannot be, before anything is done; gives the texts to be fed.
    fn check(&self) -> Result<Vec<Text>, AppError> {
        self.mode.check()?;
        let bad = |(_, partitions): &&(String, i32)| !(1..=PARTITIONS_MAX).contains(partitions);
        if let Some((topic, partitions)) = self.app.topics.iter().find(bad) {
            let (topic, partitions) = (topic.clone(), *partitions);
            return Err(AppError::Partitions { topic, partitions, max: PARTITIONS_MAX });
        }
        let texts = Text::find_all(&self.app.inputs, self.mode.input())?;
        match self.mode.output() {
            Some(path) if texts.iter().any(|text| text.reads(path)) => Err(AppError::Option {
                option: "--output",
                reason: format!("`{}` is the file of an `--input`", path.display()),
            }),
            _ => Ok(texts),
        }
    }

    async fn go(
        self: Arc<Self>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<Option<Summary>, AppError> {
        let mut shutdown = std::pin::pin!(shutdown);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let texts = self.check()?;
        let output = self.mode.output().map(Output::open).transpose()?;
        let backend = tokio::select! {
            opened = self.open(&clock) => opened?,
            () = &mut shutdown => return Ok(None),
        };
        let place = Place { backend, clock };
        let (patience, began) = (self.settings.task_timeout.min(START_PATIENCE), Instant::now());
        let prepared = self.attempt(patience, &place, &mut shutdown, Self::prepare).await?;
        let Some(course) = prepared else { return Ok(None) };
        // What follows has to do with the rest; feeding the input does not count.
        let patience = patience.saturating_sub(began.elapsed());
        let mut feeding = self.start_input(&course, &place.backend, texts)?;
        if course.until == Until::EndAtStart
            && let Some(mut before) = feeding.take()
        {
            // The ends that are seen at the start have to lie behind all input.
            tokio::select! {
                fed = before.ended() => fed?,
                () = &mut shutdown => {
                    tracing::info!("stopping: what is appended stays");
                    before.stop();
                    // A thread that waits for text is left alone.
                    tokio::time::timeout(INPUT_PATIENCE, before.ended()).await.ok();
                    return Ok(None);
                }
            }
        }
        let endpoint = self.listen().await?;
        let planned = course.clone();
        let start = move |run: &Self, place: &Place| run.start(&planned, place);
        let Some(streams) = self.attempt(patience, &place, &mut shutdown, start).await? else {
            return Ok(None);
        };
        let server = endpoint.map(|endpoint| {
            let id: Arc<str> = course.application_id.as_str().into();
            let token = self.settings.http_token.clone();
            tokio::spawn(endpoint.serve(id, Arc::clone(streams.metrics()), token))
        });
        let ended = watch(streams, feeding, shutdown).await;
        if let Some(server) = server {
            server.abort();
        }
        let ended = ended.map_err(|e| e.of(&course.application_id))?;
        if !ended.committed {
            return Err(AppError::Uncommitted { application_id: course.application_id });
        }
        log_end(&course.application_id, &ended);
        if !course.suffix.is_empty() && ended.records_processed == 0 {
            self.log_nothing_replayed(&*place.backend);
        }
        if ended.reached_end {
            self.write_results(&course, &place.backend, output)?;
        }
        Ok(Some(ended))
    }

    /// Does what may have to wait for a broker; `None` when a stop is asked for meanwhile.
    async fn attempt<T: Send + 'static>(
        self: &Arc<Self>,
        patience: Duration,
        place: &Place,
        shutdown: &mut (impl Future<Output = ()> + Unpin),
        work: impl Fn(&Self, &Place) -> Result<T, AppError> + Send + 'static,
    ) -> Result<Option<T>, AppError> {
        let (run, place) = (Arc::clone(self), place.clone());
        attempt(patience, shutdown, move || work(&run, &place)).await
    }

    /// Finds out what the run is to do, and makes the topics that the application declares.
    fn prepare(&self, place: &Place) -> Result<Course, AppError> {
        let course = self.course(&*place.backend, &*place.clock)?;
        if let Mode::Live(_) = self.mode {
            self.create_topics(&place.backend)?;
        }
        Ok(course)
    }

    /// Opens the backend. A process that was killed a moment ago may hold it a little longer.
    async fn open(&self, clock: &Arc<dyn Clock>) -> Result<SharedBackend, AppError> {
        let began = Instant::now();
        loop {
            let opened =
                open_with(&self.settings.broker_url(), Arc::clone(clock), &self.settings.clients);
            match opened {
                Err(e) if e.kind() == PortErrorKind::Busy && began.elapsed() < BUSY_PATIENCE => {
                    tokio::time::sleep(BUSY_RETRY).await;
                }
                opened => {
                    let broker = self.settings.broker.to_string();
                    return opened.map_err(|source| AppError::Open { broker, source });
                }
            }
        }
    }

    fn replays<'r>(&'r self, backend: &'r dyn Backend) -> Replays<'r> {
        Replays { topology: &self.app.topology, settings: &self.settings, backend }
    }

    fn course(&self, backend: &dyn Backend, clock: &dyn Clock) -> Result<Course, AppError> {
        let settings = &self.settings;
        let args = match &self.mode {
            Mode::Replay(args) => args,
            Mode::Live(args) => {
                return Ok(Course {
                    application_id: settings.application_id.clone(),
                    suffix: String::new(),
                    start: StartAt::Committed,
                    until: if args.until_end { Until::EndAtStart } else { Until::Forever },
                });
            }
        };
        let taken = self.replays(backend).taken().map_err(AppError::Topics)?;
        let name = match &args.name {
            Some(name) => name.clone(),
            None => replays::present_name(clock, &taken),
        };
        if !args.replace {
            replays::check_free(&name, &taken)?;
        }
        let suffix = replays::suffix(&name);
        Ok(Course {
            application_id: format!("{}{suffix}", settings.application_id),
            suffix,
            start: StartAt::Replay { from: args.from, warm_up: args.warm_up },
            until: args.until.map_or(Until::EndAtStart, Until::Time),
        })
    }

    fn log_nothing_replayed(&self, backend: &dyn Backend) {
        let there_is = self.replays(backend).there_is();
        let there_is = there_is.unwrap_or_else(|error| error.to_string());
        tracing::warn!("nothing was replayed: no record lies in the range asked for; {there_is}");
    }

    /// Makes the topics that the application declares and that are not there.
    fn create_topics(&self, backend: &SharedBackend) -> Result<(), AppError> {
        if self.app.topics.is_empty() {
            return Ok(());
        }
        let create = || {
            let mut admin = backend.admin()?;
            let names: Vec<&str> = self.app.topics.iter().map(|(name, _)| name.as_str()).collect();
            let there = admin.describe(&names)?;
            let missing = self.app.topics.iter().filter(|(name, _)| !there.contains_key(name));
            let missing: Vec<NewTopic> = missing
                .map(|(name, partitions)| NewTopic {
                    name: name.clone(),
                    partitions: *partitions,
                    config: Default::default(),
                })
                .collect();
            admin.create(&missing)
        };
        create().map_err(AppError::Topics)
    }

    fn start_input(
        &self,
        course: &Course,
        backend: &SharedBackend,
        texts: Vec<Text>,
    ) -> Result<Option<Feeding>, AppError> {
        if texts.is_empty() {
            return Ok(None);
        }
        let skips = self.settings.on_deserialization_error == OnError::Continue;
        let as_told = |text: Text| if skips { text.skip_bad_lines() } else { text };
        let input = Input {
            texts: texts.into_iter().map(as_told).collect(),
            group: format!("{}-input", course.application_id),
            backend: Arc::clone(backend),
            follows: course.until == Until::Forever,
            patience: self.settings.task_timeout,
        };
        input.start().map(Some)
    }

    async fn listen(&self) -> Result<Option<Endpoint>, AppError> {
        let Some(address) = self.settings.http_address else {
            return Ok(None);
        };
        let bound = match Endpoint::bind(address).await {
            Ok(endpoint) => endpoint.address().map(|bound| (endpoint, bound)),
            Err(error) => Err(error),
        };
        let (endpoint, bound) = bound.map_err(|source| AppError::Http { address, source })?;
        tracing::info!(address = %bound, "serving health and metrics over HTTP");
        Ok(Some(endpoint))
    }

    fn start(&self, course: &Course, place: &Place) -> Result<Streams, AppError> {
        let Place { backend, clock } = place;
        let spec = StreamsSpec {
            topology: self.app.topology.clone(),
            backend: Arc::clone(backend),
            clock: Arc::clone(clock),
            config: Arc::new(self.runtime_config(course, backend)),
        };
        let streams = Streams::start(spec).map_err(|source| AppError::Start {
            application_id: course.application_id.clone(),
            source: Box::new(source),
        })?;
        let line = promise(&self.settings.broker.to_string(), &**backend, self.settings.guarantee);
        tracing::info!(application_id = course.application_id, "{line}");
        if !course.suffix.is_empty() {
            tracing::info!(outputs = %format!("*{}", course.suffix), "replaying; the live application's topics and state stay as they are");
        }
        Ok(streams)
    }

    fn runtime_config(&self, course: &Course, backend: &SharedBackend) -> RuntimeConfig {
        let settings = &self.settings;
        let mut task = TaskConfig::new(course.application_id.as_str());
        task.on_deserialization_error = settings.on_deserialization_error;
        task.on_processing_error = settings.on_processing_error;
        task.on_production_error = settings.on_production_error;
        task.dead_letter_topic = settings.dead_letter_topic.as_deref().map(Into::into);
        task.timestamp_policy = settings.timestamp_policy;
        task.semantics = settings.semantics;
        task.cache_max_bytes = settings.cache_bytes_max;
        task.buffered_records_max = settings.buffered_records_max;
        task.uncommitted_bytes_max = settings.uncommitted_bytes_max;
        task.output_suffix = course.suffix.as_str().into();
        let mut config = RuntimeConfig::new(task);
        config.guarantee = settings.guarantee;
        config.workers = settings.workers;
        config.commit_interval = settings.commit_interval;
        config.auto_offset_reset = settings.offset_reset;
        config.poll_records_max = settings.poll_records_max;
        config.poll_timeout = settings.poll_timeout;
        config.task_idle_max = settings.task_idle_max;
        config.task_timeout = settings.task_timeout;
        config.transaction_timeout = settings.transaction_timeout;
        config.purge_interval = settings.purge_interval;
        // State that outlives its topics would only be in the way.
        let in_memory = backend.scheme() == "mem";
        config.state = StateConfig {
            directory: (!in_memory).then(|| settings.state_dir.clone()),
            engine: if in_memory { StateEngine::Memory } else { StateEngine::Disk },
        };
        config.start = course.start;
        config.until = course.until;
        config
    }

    fn write_results(
        &self,
        course: &Course,
        backend: &SharedBackend,
        output: Option<Output>,
    ) -> Result<(), AppError> {
        let Some(results) = &self.app.results else {
            return Ok(());
        };
        let write = |out: &mut dyn Write| {
            let mut out = BufWriter::new(out);
            results(&**backend, &course.suffix, &mut out)?;
            out.flush().map_err(AppError::Results)
        };
        let Some(Output { mut file, path }) = output else {
            return write(&mut std::io::stdout().lock());
        };
        let empty = file.metadata().and_then(|about| match about.is_file() {
            true => file.set_len(0),
            false => Ok(()),
        });
        empty.map_err(AppError::Results).and_then(|()| write(&mut file)).map_err(|e| match e {
            AppError::Results(source) => AppError::Output { path, source },
            other => other,
        })
    }
}

/// The file of `--output`: opened before anything is done, emptied when there are results.
struct Output {
    file: File,
    path: PathBuf,
}

impl Output {
    fn open(path: &Path) -> Result<Self, AppError> {
        let path = path.to_owned();
        match File::options().write(true).create(true).truncate(false).open(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(source) => Err(AppError::Output { path, source }),
        }
    }
}

/// Why a run that had started ended.
enum Failure {
    Run(Box<thalweg_processor::RunError>),
    Other(AppError),
}

impl Failure {
    fn of(self, application_id: &str) -> AppError {
        match self {
            Self::Run(source) => {
                AppError::Run { application_id: application_id.to_owned(), source }
            }
            Self::Other(error) => error,
        }
    }
}

/// Waits for the end of the run, and stops it when it is told to or when its input fails.
async fn watch(
    streams: Streams,
    mut feeding: Option<Feeding>,
    mut shutdown: std::pin::Pin<&mut impl Future<Output = ()>>,
) -> Result<Summary, Failure> {
    let stop = streams.stop_handle();
    let mut progress = Progress::new();
    let mut look = tokio::time::interval(LOOK_INTERVAL);
    let mut input_failed = None;
    let mut stopping = false;
    while !streams.is_finished() {
        tokio::select! {
            _ = look.tick() => progress.look(&streams),
            () = &mut shutdown, if !stopping => {
                tracing::info!("stopping: committing what is processed; a second signal, {} s or more after the first, ends at once without that", signals::SAME_WISH.as_secs());
                stopping = true;
                if let Some(feeding) = &feeding {
                    feeding.stop();
                }
                stop.stop();
            }
            fed = input_ended(&mut feeding), if feeding.is_some() => {
                feeding = None;
                if let Err(error) = fed {
                    input_failed = Some(error);
                    stop.stop();
                }
            }
        }
    }
    drop(feeding);
    let ended = streams.join().map_err(|e| Failure::Run(Box::new(e)))?;
    match input_failed {
        Some(error) => Err(Failure::Other(error)),
        None => Ok(ended),
    }
}

async fn input_ended(feeding: &mut Option<Feeding>) -> Result<(), AppError> {
    match feeding {
        Some(feeding) => feeding.ended().await,
        None => Ok(()),
    }
}

/// Says how far a run is, now and then, and when its state changes.
struct Progress {
    state: StreamsState,
    said: std::time::Instant,
    records: u64,
}

impl Progress {
    fn new() -> Self {
        Self { state: StreamsState::Created, said: std::time::Instant::now(), records: 0 }
    }

    fn look(&mut self, streams: &Streams) {
        let state = streams.state();
        if state != self.state {
            tracing::info!(from = self.state.as_str(), to = state.as_str(), "state changed");
            self.state = state;
        }
        if self.said.elapsed() < PROGRESS_INTERVAL {
            return;
        }
        self.said = std::time::Instant::now();
        let numbers = streams.metrics().snapshot();
        let remaining: u64 = numbers.restores.iter().map(|r| r.remaining).sum();
        let lag: u64 = numbers.partitions.values().filter_map(|p| p.lag).sum();
        if remaining > 0 {
            tracing::info!(restored = numbers.records_restored(), remaining, "restoring state");
        } else if numbers.records_processed > self.records {
            tracing::info!(processed = numbers.records_processed, lag, "processing");
        }
        self.records = numbers.records_processed;
    }
}

fn log_end(application_id: &str, ended: &Summary) {
    tracing::info!(
        application_id,
        processed = ended.records_processed,
        dropped = ended.records_dropped,
        commits = ended.commits,
        restored = ended.records_restored,
        reached_end = ended.reached_end,
        "ended, everything committed"
    );
}
