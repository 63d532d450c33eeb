//! The benchmark peer: `--driver` runs a workload in process and prints one JSON line per round; `--spike` measures the node
//! arena. It has no other modes: asked for one, it exits with code 3 at once.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use thalweg_integration_tests::bench::{
    DriverOptions, StoreChoice, Workload, run_rounds, run_spike,
};
use thalweg_processor::Guarantee;

/// One allocator for the whole process, RocksDB included.
#[cfg(feature = "native")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The exit code of the contract for a mode or workload that a peer lacks.
const LACKING: u8 = 3;

/// Runs the workloads of the benchmark contract.
#[derive(Parser)]
struct Options {
    /// Run in process, without a broker.
    #[arg(long)]
    driver: bool,
    /// Measure what the node arena costs against a loop written by hand.
    #[arg(long)]
    spike: bool,
    /// What to run.
    #[arg(long, value_enum, default_value = "passthrough")]
    workload: Workload,
    /// Where counts are kept.
    #[arg(long, value_enum, default_value = "rocksdb")]
    store: StoreChoice,
    /// Records per round.
    #[arg(long, default_value = "500000")]
    records: usize,
    /// Timed rounds, after two that warm up.
    #[arg(long, default_value = "5")]
    rounds: usize,
    /// How many different keys there are.
    #[arg(long, default_value = "100000")]
    keys: u64,
    /// How commits are made.
    #[arg(long, default_value = "at_least_once")]
    guarantee: Guarantee,
    /// The record cache in bytes; with 0 every update goes downstream.
    #[arg(long, default_value = "0")]
    cache_bytes: usize,
    /// Where RocksDB puts its files.
    #[arg(long)]
    state_dir: Option<PathBuf>,
}

/// Is this a mode and a workload of ours?
fn is_ours(arguments: &[String]) -> bool {
    let modes = ["--driver", "--spike", "--help", "-h"];
    let ours = arguments.iter().any(|a| modes.contains(&a.as_str()));
    let foreign = ["wordcount", "windowed", "join"];
    ours && !arguments
        .iter()
        .any(|a| foreign.iter().any(|w| a.strip_prefix("--workload=").unwrap_or(a) == *w))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !is_ours(&arguments) {
        eprintln!(
            "this peer has only --driver, with the workloads passthrough and count, and --spike"
        );
        return ExitCode::from(LACKING);
    }
    let options = Options::parse();
    let done = if options.spike {
        run_spike().map(|spike| println!("{spike}"))
    } else {
        let driver = DriverOptions {
            workload: options.workload,
            store: options.store,
            records: options.records,
            rounds: options.rounds,
            keys: options.keys,
            guarantee: options.guarantee,
            cache_bytes: options.cache_bytes,
            state_dir: options
                .state_dir
                .unwrap_or_else(|| std::env::temp_dir().join("thalweg-bench")),
        };
        run_rounds(&driver, |round| println!("{}", round.to_json()))
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
