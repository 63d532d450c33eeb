//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use thalweg_connectors::Timestamp;
use thalweg_processor::ReplayFrom;

use super::config::{KEYS, Key, allowed_values};
use super::version::VERSION;

// What was asked for. (No doc comment: clap would print it as the help's first lines.)
#[derive(Parser, Debug)]
#[command(
    about = "An application that processes streams, made with Thalweg",
    long_about = None,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = EXIT_CODES,
    subcommand_required = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

// The flags of all commands. Values are checked with all other sources of the configuration.
#[derive(Args, Debug)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct Common {
    // Where topics live.
    #[arg(long, global = true, value_name = "URL", help = BROKER_HELP)]
    broker: Option<String>,
    /// Name of the application [key: application.id]
    #[arg(long, global = true, value_name = "ID")]
    application_id: Option<String>,
    /// at_least_once or exactly_once [key: processing.guarantee]
    #[arg(long, global = true, value_name = "GUARANTEE")]
    guarantee: Option<String>,
    /// Number of threads that run tasks [key: num.stream.threads]
    #[arg(long, global = true, value_name = "NUMBER")]
    workers: Option<String>,
    /// Directory of local state [key: state.dir]
    #[arg(long, global = true, value_name = "DIRECTORY")]
    state_dir: Option<String>,
    /// Port or address of /health/live, /health/ready and /metrics [key: http.address]
    #[arg(long, global = true, value_name = "ADDRESS")]
    http: Option<String>,
    /// Configuration file [default: thalweg.toml, if it is there]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Sets any key; `config` lists them
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl Common {
    /// The flags that were given, with their values.
    pub(crate) fn flags(&self) -> Vec<(&'static str, String)> {
        [
            ("--broker", &self.broker),
            ("--application-id", &self.application_id),
            ("--guarantee", &self.guarantee),
            ("--workers", &self.workers),
            ("--state-dir", &self.state_dir),
            ("--http", &self.http),
        ]
        .into_iter()
        .filter_map(|(flag, value)| value.clone().map(|value| (flag, value)))
        .collect()
    }
}

const EXIT_CODES: &str = "Exit codes: 0 ended well, everything committed; 1 the run failed or could not start; \
    2 the command line or the configuration is wrong; 130 ended by a second signal, without a commit";

/// Names the schemes that this build has.
const BROKER_HELP: &str = match (cfg!(feature = "log"), cfg!(feature = "kafka")) {
    (true, true) => {
        "Where topics live: log://DIRECTORY, kafka://HOST:PORT or mem://NAME [key: broker]"
    }
    (true, false) => "Where topics live: log://DIRECTORY or mem://NAME [key: broker]",
    (false, true) => "Where topics live: kafka://HOST:PORT or mem://NAME [key: broker]",
    (false, false) => "Where topics live: mem://NAME; this build has no other [key: broker]",
};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Runs the application until it is told to stop
    Run(RunArgs),
    /// Prints the topology
    Describe,
    /// Processes earlier input again, with state and topics of its own
    ///
    /// A replay has an application id, state and internal topics of its own, and writes to topics named
    /// TOPIC-replay-NAME. It never touches what the live application uses, and ends by itself.
    ///
    /// --from and --until go by the order of the records: in each partition a replay begins at the first record that is not older
    /// than --from, and ends before the first that is not older than --until. Records that came late are replayed when they lie behind
    /// the first, and left out when they lie behind the second, whatever their time.
    ///
    /// A log:// directory belongs to one process at a time: stop the live application before a replay there.
    Replay(ReplayArgs),
    /// Lists the replays there are, and removes old ones
    Replays(ReplaysArgs),
    /// Prints every key of the configuration: value, origin, meaning
    Config,
}

#[derive(Args, Debug, Default, Clone)]
pub(crate) struct RunArgs {
    /// Stop when all input that was there at the start is processed
    #[arg(long)]
    pub(crate) until_end: bool,
    /// Append the lines of this file to the input topic, each once; `-` is standard input; may be repeated
    ///
    /// A file is known by its canonical path, and its lines are appended once however often the application is started. Without
    /// --until-end the file is followed: lines that are added to it later are appended too, each when its end has come. Standard
    /// input and named pipes are read once, and anew by each run. A line has at most 16 MiB: a longer one is a bad line.
    #[arg(long, value_name = "[TOPIC=]FILE")]
    pub(crate) input: Vec<String>,
    /// Write the results to this file instead of standard output
    #[arg(long, value_name = "FILE", requires = "until_end")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct ReplayArgs {
    /// Where to begin: a time such as 2025-06-01T14:00:00Z, an offset, or `beginning`
    #[arg(long, value_name = "TIME|OFFSET|beginning", value_parser = parse_from)]
    pub(crate) from: ReplayFrom,
    /// Where to end; without it the replay ends where the input ended when it began
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) until: Option<Timestamp>,
    /// Read this much earlier input to fill windows and tables, such as `90m`, without output from it
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "0s")]
    pub(crate) warm_up: Duration,
    /// Name of the replay [default: the present time, such as 20250601-140000]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Make an earlier replay of that name anew; without this flag a name that is taken is refused
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct ReplaysArgs {
    /// Remove this replay: its topics and its state; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) remove: Vec<String>,
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    text.parse::<jiff::Timestamp>()
        .map(|time| Timestamp(time.as_millisecond()))
        .map_err(|_| "a time is written like 2025-06-01T14:00:00Z".to_owned())
}

fn parse_from(text: &str) -> Result<ReplayFrom, String> {
    if text == "beginning" {
        return Ok(ReplayFrom::Beginning);
    }
    if let Ok(offset) = text.parse::<u64>() {
        return i64::try_from(offset)
            .map(ReplayFrom::Offset)
            .map_err(|_| "offsets are smaller than that".to_owned());
    }
    parse_time(text).map(ReplayFrom::Time).map_err(|_| {
        "write a time like 2025-06-01T14:00:00Z, an offset like 42, or `beginning`".to_owned()
    })
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed: Result<jiff::SignedDuration, _> = text.parse();
    parsed.ok().and_then(|duration| Duration::try_from(duration).ok()).ok_or_else(|| {
        "a duration is written like 90m, 1h30m or 10s, and is not negative".to_owned()
    })
}

/// What the command line of one application looks like.
pub(crate) struct Shape {
    /// What it is called in its help.
    pub(crate) name: String,
    /// Whether it takes `--input`.
    pub(crate) takes_input: bool,
    /// Whether it takes `--output`.
    pub(crate) has_results: bool,
}

/// Reads the command line.
pub(crate) fn parse(
    shape: Shape,
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<Cli, clap::Error> {
    let Shape { name, takes_input, has_results } = shape;
    let command =
        Cli::command().display_name(name).version(VERSION.as_str()).mut_subcommand("run", |run| {
            run.mut_arg("input", |arg| arg.hide(!takes_input))
                .mut_arg("output", |arg| arg.hide(!has_results))
        });
    let matches = command.try_get_matches_from(arguments)?;
    Cli::from_arg_matches(&matches)
}

/// The table of keys with values and origins, as `config` prints it.
pub(crate) fn key_table<'s>(
    shown: impl Iterator<Item = (&'static Key, &'s str, &'s str)>,
) -> String {
    let mut table = String::new();
    for (key, value, origin) in shown {
        let flag = key.flag.map(|flag| format!(", {flag}")).unwrap_or_default();
        table.push_str(&format!(
            "{} = {value}    # from {origin}\n    {}\n    takes {}; default {} ({})\n    also {}{flag}\n",
            key.name,
            key.doc,
            allowed_values(key),
            key.default.unwrap_or("none"),
            key.reason,
            key.variable(),
        ));
    }
    debug_assert!(table.lines().count() >= KEYS.len());
    table
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn shape() -> Shape {
        Shape { name: "app".to_owned(), takes_input: true, has_results: true }
    }

    fn parsed(arguments: &[&str]) -> Result<Cli, clap::Error> {
        let all = ["app"].iter().chain(arguments).map(Into::into);
        parse(shape(), all)
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_begins_with_what_the_program_is_and_offers_what_this_build_has() {
        for arguments in [&["--help"][..], &["-h"]] {
            let help = parsed(arguments).unwrap_err().to_string();
            assert!(help.starts_with("An application that processes streams, "), "{help}");
            assert!(help.contains("mem://NAME"), "{help}");
            assert_eq!(help.contains("kafka://HOST:PORT"), cfg!(feature = "kafka"), "{help}");
            assert_eq!(help.contains("log://DIRECTORY"), cfg!(feature = "log"), "{help}");
        }
        let help = parsed(&["replay", "--help"]).unwrap_err().to_string();
        assert!(help.contains("one process at a time"), "{help}");
        assert!(!help.contains("beside"), "{help}");
        assert!(help.contains("go by the order of the records"), "{help}");
    }

    #[test]
    fn flags_stand_before_or_after_the_command() {
        for arguments in [["--workers", "2", "run"], ["run", "--workers", "2"]] {
            let cli = parsed(&arguments).unwrap();
            assert_eq!(cli.common.flags(), [("--workers", "2".to_owned())]);
        }
    }

    #[test]
    fn a_replay_begins_at_a_time_an_offset_or_the_beginning() {
        for (text, from) in [
            ("beginning", Some(ReplayFrom::Beginning)),
            ("42", Some(ReplayFrom::Offset(42))),
            ("1970-01-01T00:00:01.5Z", Some(ReplayFrom::Time(Timestamp(1500)))),
            ("1970-01-01T01:00:00+01:00", Some(ReplayFrom::Time(Timestamp(0)))),
            ("1970-01-01", None),
            ("-1", None),
            ("end", None),
            ("", None),
        ] {
            assert_eq!(parse_from(text).ok(), from, "{text}");
        }
    }

    #[test]
    fn a_warm_up_is_a_duration_that_is_not_negative() {
        for (text, seconds) in [
            ("0s", Some(0)),
            ("90m", Some(5400)),
            ("1h30m", Some(5400)),
            ("PT10S", Some(10)),
            ("-1s", None),
            ("10", None),
            ("soon", None),
        ] {
            let parsed = parse_duration(text).ok().map(|d| d.as_secs());
            assert_eq!(parsed, seconds, "{text}");
        }
    }

    #[test]
    fn a_mistake_on_the_command_line_names_what_was_meant() {
        let error = parsed(&["run", "--until-ent"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--until-end"), "{error}");
        let error = parsed(&["replay"]).unwrap_err();
        assert!(error.to_string().contains("--from"), "{error}");
        let error = parsed(&["replay", "--from", "noon"]).unwrap_err();
        assert!(error.to_string().contains("`beginning`"), "{error}");
    }
}
