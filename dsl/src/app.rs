//! [`App`]: a topology as a program of its own.
//!
//! | module | what it is |
//! | --- | --- |
//! | `cli` | the command line |
//! | `config` | keys, where their values come from, what can be wrong with them |
//! | `run`, `input` | a run from its start to its end; text that is fed to it |
//! | `patience` | waiting for a broker before a run |
//! | `feed` | text in and results out, also for programs of another kind |
//! | `replays` | the names of replays, and what they left |
//! | `http`, `prometheus` | health and numbers |
//! | `logging`, `signals`, `version`, `error` | the edges of the process |

mod cli;
mod config;
mod error;
pub mod feed;
mod http;
mod input;
mod logging;
mod patience;
mod prometheus;
mod replays;
mod run;
mod signals;
#[cfg(test)]
mod tests;
mod version;

use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use thalweg_connectors::{Backend, SystemClock, Topic, open_with};
use thalweg_processor::{PlanError, StartError, Summary, Topology};

use cli::{Cli, Command, Common, ReplaysArgs, RunArgs, Shape};
use config::{BrokerUrl, Settings, Sources};
pub use config::{ConfigError, Problem, Secret};
pub use error::{AppError, AppErrorClass};
use feed::{LineFeed, read_table};
use replays::Replays;
use run::{Mode, Run};

/// Writes the results of a run that came to its end: from the topic with this suffix, to this writer.
type Results = dyn Fn(&dyn Backend, &str, &mut dyn Write) -> Result<(), AppError> + Send + Sync;

/// A topology as a program of its own: [`main`](Self::main) gives it a command line with `run`, `describe`, `replay` and `config`.
///
/// ```no_run
/// use std::process::ExitCode;
/// use thalweg::feed::LineFeed;
/// use thalweg::{App, StreamsBuilder, Topic};
///
/// fn main() -> ExitCode {
///     let lines = Topic::<(), String>::new("lines");
///     let shouts = Topic::<(), String>::new("shouts");
///     let builder = StreamsBuilder::new();
///     builder.stream(&lines).map_values(|_, line| line.to_uppercase()).to(&shouts);
///     let topology = builder.build().expect("the topology is sound");
///
///     App::new(topology)
///         .set("application.id", "shouting")
///         .topic("lines", 1)
///         .topic("shouts", 1)
///         .input(LineFeed::to("lines"))
///         .main()
/// }
/// ```
///
/// Every key of the configuration has one dotted name, Kafka Streams' where that has one, and is looked for in this order, the last
/// one wins: the default, [`set`](Self::set) in code, `thalweg.toml`, an environment variable such as `THALWEG_APPLICATION_ID`,
/// `--set KEY=VALUE` or a flag. The command `config` prints all keys with their meaning, their value and where it came from.
///
/// State lies in `.thalweg/<application.id>` unless `state.dir` says otherwise. SIGTERM, SIGINT and SIGHUP end a run with
/// a commit; a second signal, a second or more later, ends it at once. The exit code is 0 for a run that ended cleanly, 1 for one
/// that failed, 2 for a command line or configuration that is wrong, 130 for one that a second signal ended.
#[derive(Clone)]
pub struct App {
    topology: Topology,
    settings: Vec<(String, String)>,
    topics: Vec<(String, i32)>,
    inputs: Vec<LineFeed>,
    results: Option<Arc<Results>>,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secret.
        f.debug_struct("App").field("topics", &self.topics).finish_non_exhaustive()
    }
}

impl App {
    /// An application that runs this topology.
    pub fn new(topology: Topology) -> Self {
        Self {
            topology,
            settings: Vec::new(),
            topics: Vec::new(),
            inputs: Vec::new(),
            results: None,
        }
    }

    /// Sets a key in code: file, environment and command line still win. The command `config` lists the keys.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((key.into(), value.into()));
        self
    }

    /// Declares a topic of the outside, input or output. `run` creates it with this many partitions when it is missing, on every
    /// backend: 1 to 100 000, or the run is refused. One that is there is taken as it is. A topic that nobody declares is never created, and an error when it is missing.
    #[must_use]
    pub fn topic(mut self, name: impl Into<String>, partitions: i32) -> Self {
        self.topics.push((name.into(), partitions));
        self
    }

    /// Lets `run` take `--input FILE`: the lines of the file, or of standard input for `-`, are appended to a topic. Each line of a
    /// file is appended exactly once, however often the application is killed and started again; see [`LineFeed`]. Without
    /// `--until-end` the file is followed: lines that are added later are appended too, each when its end has come. An application
    /// that declares several inputs takes `--input TOPIC=FILE`.
    #[must_use]
    pub fn input(mut self, feed: LineFeed) -> Self {
        self.inputs.push(feed);
        self
    }

    /// Writes the latest value per key of an output topic, when `run --until-end` or a replay has come to its end: to standard
    /// output, or to the file that `--output` names. A replay reads its own output topic.
    #[must_use]
    pub fn results<K: 'static, V: 'static>(
        mut self,
        topic: &Topic<K, V>,
        write: impl Fn(&mut dyn Write, &K, &V) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let topic = topic.clone();
        self.results = Some(Arc::new(move |backend, suffix, out| {
            let name = format!("{}{suffix}", topic.name());
            let key = Arc::clone(topic.key_serde());
            let own = Topic::with_shared(name, key, Arc::clone(topic.value_serde()));
            for (key, value) in read_table(backend, &own)? {
                write(out, &key, &value).map_err(AppError::Results)?;
            }
            Ok(())
        }));
        self
    }

    /// Does what the command line says, and gives the exit code of the process. Logs and errors go to standard error.
    pub fn main(self) -> ExitCode {
        let variables: Vec<_> = std::env::vars_os().collect();
        let problem = logging::start(|name| std::env::var(name).ok());
        let (code, text) = match problem {
            Some(problem) => (AppErrorClass::Usage.exit_code(), format!("error: {problem}\n")),
            None => self.obey(std::env::args_os().collect(), variables),
        };
        // Nobody is left to hear of it if this fails.
        let _ = io::stderr().write_all(text.as_bytes());
        ExitCode::from(code)
    }

    /// Does what these arguments say; the first is the program's name. For programs that are more than one application, and for tests.
    /// Unlike [`main`](Self::main), it leaves logging to the program.
    ///
    /// ```
    /// # use thalweg::{App, StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let t = Topic::<String, String>::new("t");
    /// # builder.stream(&t).to(&Topic::<String, String>::new("u"));
    /// # let topology = builder.build()?;
    /// App::new(topology).main_from(["my-app", "describe"]);
    /// # Ok::<_, thalweg::BuildError>(())
    /// ```
    pub fn main_from<A: Into<OsString>>(&self, arguments: impl IntoIterator<Item = A>) -> ExitCode {
        let arguments = arguments.into_iter().map(Into::into).collect();
        let (code, text) = self.obey(arguments, std::env::vars_os().collect());
        let _ = io::stderr().write_all(text.as_bytes());
        ExitCode::from(code)
    }

    /// Does what the command line says: exit code, and text for standard error.
    fn obey(&self, arguments: Vec<OsString>, variables: Vec<(OsString, OsString)>) -> (u8, String) {
        let name = arguments.first().map(Path::new).and_then(Path::file_stem);
        let shape = Shape {
            name: name.unwrap_or_default().to_string_lossy().into_owned(),
            takes_input: !self.inputs.is_empty(),
            has_results: self.results.is_some(),
        };
        let cli = match cli::parse(shape, arguments) {
            Ok(cli) => cli,
            Err(error) if !error.use_stderr() => {
                let printed = print(&error.to_string());
                return ended(printed, None);
            }
            Err(error) => return (AppErrorClass::Usage.exit_code(), error.to_string()),
        };
        let Cli { common, command } = cli;
        if let Command::Describe = command {
            return ended(print(&self.topology.describe().to_string()), None);
        }
        let settings = match self.load(&common, variables) {
            Ok(settings) => settings,
            Err(error) => return ended(Err(error.into()), None),
        };
        let done = match command {
            Command::Describe => Ok(()),
            Command::Config => print(&cli::key_table(settings.shown())),
            Command::Run(args) => self.execute(&settings, Mode::Live(args)),
            Command::Replay(args) => self.execute(&settings, Mode::Replay(args)),
            Command::Replays(args) => self.replays(&settings, &args),
        };
        let hint =
            done.as_ref().err().and_then(|error| self.hint(error, &settings)).unwrap_or_default();
        let (code, text) = ended(done, Some(&settings.broker));
        (code, text + &hint)
    }

    fn load(
        &self,
        common: &Common,
        variables: Vec<(OsString, OsString)>,
    ) -> Result<Settings, ConfigError> {
        Settings::load(&Sources {
            code: self.settings.clone(),
            file: common.config.clone(),
            variables,
            assignments: common.set.clone(),
            flags: common.flags(),
        })
    }

    /// What a missing topic needs, as this application's author or user would do it.
    fn hint(&self, error: &AppError, settings: &Settings) -> Option<String> {
        let AppError::Start { source, .. } = error else {
            return None;
        };
        let StartError::Plan(
            PlanError::MissingSource { topic, .. } | PlanError::MissingOutput { topic, .. },
        ) = &**source
        else {
            return None;
        };
        let is_declared = self.topics.iter().any(|(name, _)| name == topic);
        Some(match is_declared {
            true if settings.broker.expose().starts_with("mem://") => {
                "  hint: mem:// is empty when a process starts; give the broker that the live application uses\n"
                    .to_owned()
            }
            true => format!(
                "  hint: the application declares `{topic}`, and `run` creates it: run it first\n"
            ),
            false => format!(
                "  hint: declare it in the program, `App::topic(\"{topic}\", PARTITIONS)`, and `run` creates it\n"
            ),
        })
    }

    fn replays(&self, settings: &Settings, args: &ReplaysArgs) -> Result<(), AppError> {
        let clock = Arc::new(SystemClock::new());
        let backend = open_with(&settings.broker_url(), clock, &settings.clients)
            .map_err(|source| AppError::Open { broker: settings.broker.to_string(), source })?;
        let replays = Replays { topology: &self.topology, settings, backend: &*backend };
        replays.remove_all(&args.remove)?;
        let names = replays.names().map_err(AppError::Topics)?;
        let list: String = names.iter().map(|name| format!("{name}\n")).collect();
        print(&list)
    }

    /// Runs to the end on a runtime of its own.
    fn execute(&self, settings: &Settings, mode: Mode) -> Result<(), AppError> {
        let error = |what| move |source| AppError::Process { what, source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(error("start the asynchronous runtime"))?;
        let ended = runtime.block_on(async {
            let shutdown = signals::Shutdown::listen().map_err(error("listen to signals"))?;
            let (app, settings) = (self.clone(), settings.clone());
            Run { app, settings, mode }.until(shutdown.asked()).await.map(|_| ())
        });
        runtime.shutdown_background();
        ended
    }

    /// Runs inside a program of another kind, until the process is asked to stop by SIGTERM or SIGINT. The configuration comes from
    /// code, `thalweg.toml` and the environment; there is no command line, and logging is the program's own.
    ///
    /// # Errors
    /// See [`AppError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn run(self) -> Result<(), AppError> {
        let what = "listen to signals";
        let shutdown =
            signals::Shutdown::listen().map_err(|source| AppError::Process { what, source })?;
        self.run_until(shutdown.asked()).await.map(|_| ())
    }

    /// Like [`run`](Self::run), until `shutdown` is ready. Tells how the run went.
    ///
    /// # Errors
    /// See [`AppError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn run_until(
        self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<Option<Summary>, AppError> {
        let sources = Sources {
            code: self.settings.clone(),
            variables: std::env::vars_os().collect(),
            ..Sources::default()
        };
        let settings = Settings::load(&sources)?;
        let mode = Mode::Live(RunArgs::default());
        Run { app: self, settings, mode }.until(shutdown).await
    }
}

fn print(text: &str) -> Result<(), AppError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(AppError::Results)
}

fn ended(done: Result<(), AppError>, broker: Option<&BrokerUrl>) -> (u8, String) {
    match done {
        Ok(()) => (0, String::new()),
        Err(error) => {
            let text = format!("{}\n", error::report(&error, broker));
            (error.class().exit_code(), text)
        }
    }
}
