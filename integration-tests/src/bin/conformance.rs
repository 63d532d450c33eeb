//! Runs conformance scenarios and reports per family.

use std::path::PathBuf;
use std::process::ExitCode;
use std::{fs, panic};

use clap::{Parser, ValueEnum};
use thalweg_integration_tests::conformance::{
    Crash, EngineKind, ExpectedFailures, Report, RunOptions, run, run_all, scenario_files,
};

/// Runs conformance scenarios: files, or all `.json` files below folders.
#[derive(Parser)]
struct Options {
    /// Restart the application in the middle of each input, with its stores as of the last commit or without them.
    #[arg(long, value_name = "STORES", num_args = 0..=1, default_missing_value = "kept")]
    crash: Option<Stores>,
    /// What persistent stores are kept in.
    #[arg(long, value_name = "ENGINE", default_value = "memory")]
    engine: Engine,
    /// The list of scenarios that are known not to pass: succeed when exactly those fail.
    #[arg(long, value_name = "FILE")]
    expected: Option<PathBuf>,
    /// Scenario files and folders.
    #[arg(value_name = "DIR|FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/conformance/scenarios"))]
    paths: Vec<PathBuf>,
}

/// What a crash leaves of the stores.
#[derive(Clone, Copy, ValueEnum)]
enum Stores {
    /// What was committed.
    Kept,
    /// Nothing: they are rebuilt from their changelogs.
    Lost,
}

impl From<Stores> for Crash {
    fn from(stores: Stores) -> Self {
        match stores {
            Stores::Kept => Self::StoresKept,
            Stores::Lost => Self::StoresLost,
        }
    }
}

/// What persistent stores are kept in.
#[derive(Clone, Copy, ValueEnum)]
enum Engine {
    /// The memory of this process.
    Memory,
    /// RocksDB, in a temporary directory.
    #[value(name = "rocksdb")]
    RocksDb,
}

impl From<Engine> for EngineKind {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Memory => Self::Memory,
            Engine::RocksDb => Self::RocksDb,
        }
    }
}

fn main() -> ExitCode {
    match conform(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("conformance: {message}");
            ExitCode::from(2)
        }
    }
}

/// Did the run end as wanted?
fn conform(options: &Options) -> Result<bool, String> {
    let expected = options.expected.as_ref().map(|file| {
        let text = fs::read_to_string(file);
        text.map(|text| ExpectedFailures::parse(&text))
            .map_err(|e| format!("cannot read {}: {e}", file.display()))
    });
    let expected = expected.transpose()?;
    let how = RunOptions { crash: options.crash.map(Crash::from), engine: options.engine.into() };
    let files = scenario_files(&options.paths).map_err(|e| e.to_string())?;
    if files.is_empty() {
        return Err("there is no scenario file under the given paths".into());
    }
    // A panic is reported with its scenario.
    panic::set_hook(Box::new(|_| {}));
    let report = run_all(&files, |scenario| {
        if let Some(why) = how.crash.and_then(|crash| crash.shows_in(scenario)) {
            println!("not restarted: {}: {why}", scenario.name);
        }
        run(scenario, how)
    });
    Ok(judge(&report, expected.as_ref()))
}

fn judge(report: &Report, expected: Option<&ExpectedFailures>) -> bool {
    let Some(expected) = expected else {
        println!("{report}");
        return report.counts().1 == 0;
    };
    let surprises = expected.surprises(report);
    for surprise in &surprises {
        println!("{surprise}");
    }
    println!("{report}");
    surprises.is_empty()
}
