//! The application: each input is passed on once, and counted by group through a repartition topic and a store.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use thalweg::{I64Be, Materialized, StreamsBuilder, Topic, Topology, Utf8};
use thalweg_connectors::{SystemClock, open_with};
use thalweg_processor::{
    Guarantee, RuntimeConfig, StateConfig, StateEngine, Streams, StreamsSpec, TaskConfig,
};

use super::ChaosResult;
use super::ledger::group_of;

/// The topics of an application.
#[derive(Clone, Debug)]
pub struct Topics {
    /// Keys are of no meaning, values are numbers in decimal digits, each once.
    pub input: String,
    /// Each input, unchanged.
    pub echo: String,
    /// How many of a group there were, after each of it: nothing is cached.
    pub totals: String,
}

impl Topics {
    /// By its id.
    pub fn of(application_id: &str) -> Self {
        let [input, echo, totals] =
            ["in", "echo", "totals"].map(|name| format!("{application_id}-{name}"));
        Self { input, echo, totals }
    }
}

const LOOK: Duration = Duration::from_millis(20);

/// What one instance is told.
#[derive(Clone, Debug, clap::Args)]
pub struct InstanceOptions {
    /// The broker, as HOST:PORT.
    #[arg(long)]
    pub bootstrap: String,
    /// The group.
    #[arg(long)]
    pub application_id: String,
    /// Its own state directory, kept when it is killed.
    #[arg(long)]
    pub state_dir: PathBuf,
    /// Workers.
    #[arg(long, default_value = "2")]
    pub workers: usize,
    /// How commits are made.
    #[arg(long, default_value = "exactly_once")]
    pub guarantee: Guarantee,
    /// How soon the group notices that it is silent. Default: that of the library.
    #[arg(long)]
    pub session_timeout_ms: Option<u64>,
    /// How long a transaction may stay open. Default: that of the library.
    #[arg(long)]
    pub transaction_timeout_ms: Option<u64>,
}

/// Runs one instance until its standard input ends; then it leaves.
///
/// # Errors
/// Whatever the application fails with.
pub fn run_instance(options: &InstanceOptions) -> ChaosResult<()> {
    let streams = start_instance(options)?;
    let asked = input_ended();
    while !asked.load(Ordering::SeqCst) && !streams.is_finished() {
        thread::sleep(LOOK);
    }
    streams.stop();
    streams.join()?;
    Ok(())
}

/// Starts one instance in this process.
///
/// # Errors
/// When it cannot start.
pub fn start_instance(options: &InstanceOptions) -> ChaosResult<Streams> {
    let mut task = TaskConfig::new(options.application_id.as_str());
    task.cache_max_bytes = 0;
    let mut config = RuntimeConfig::new(task);
    config.guarantee = options.guarantee;
    config.workers = options.workers;
    let directory = Some(options.state_dir.clone());
    config.state = StateConfig { directory, engine: StateEngine::Disk };
    if let Some(ms) = options.transaction_timeout_ms {
        config.transaction_timeout = Duration::from_millis(ms);
    }
    let session = options.session_timeout_ms;
    let session = session.map(|ms| ("session.timeout.ms".to_owned(), ms.to_string()));
    let (url, settings) = (format!("kafka://{}", options.bootstrap), session.into_iter().collect());
    let clock = Arc::new(SystemClock::new());
    Ok(Streams::start(StreamsSpec {
        topology: topology(&Topics::of(&options.application_id))?,
        backend: open_with(&url, Arc::clone(&clock) as _, &settings)?,
        clock,
        config: Arc::new(config),
    })?)
}

/// Becomes true when nothing more comes from standard input.
fn input_ended() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&ended);
    thread::spawn(move || {
        let mut all = Vec::new();
        std::io::stdin().read_to_end(&mut all).ok();
        tell.store(true, Ordering::SeqCst);
    });
    ended
}

fn topology(topics: &Topics) -> ChaosResult<Topology> {
    let builder = StreamsBuilder::new();
    let input = builder.stream(&Topic::<String, String>::new(topics.input.as_str()));
    input.to(&Topic::<String, String>::new(topics.echo.as_str()));
    input
        .group_by("by-group", |_, number| group_of(number))
        .count(Materialized::with("totals", Utf8, I64Be))
        .to_stream()
        .to(&Topic::<String, Option<i64>>::new(topics.totals.as_str()));
    Ok(builder.build()?)
}
