//! The benchmark peer. With `--bootstrap` it is one run of one workload against a broker, as the driver of the benchmark
//! contract starts it; `--driver` runs a workload in process and prints one JSON line per round; `--spike` measures the node arena.
//! A workload that a mode lacks ends it with code 3 at once.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use thalweg_connectors::{SystemClock, open};
use thalweg_integration_tests::bench::{
    BenchResult, DriverOptions, Names, PeerOptions, Stopwatch, StoreChoice, Workload, run_peer,
    run_rounds, run_spike,
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
    #[command(flatten)]
    broker: BrokerOptions,
}

/// What the contract's driver appends.
#[derive(clap::Args)]
struct BrokerOptions {
    /// The broker, as HOST:PORT.
    #[arg(long)]
    bootstrap: Option<String>,
    /// Group id, prefix of internal topics.
    #[arg(long, default_value = "bench")]
    application_id: String,
    /// The input topic.
    #[arg(long, default_value = "in")]
    input: String,
    /// The table's topic, for the join.
    #[arg(long, default_value = "table")]
    table: String,
    /// The output topic.
    #[arg(long, default_value = "out")]
    output: String,
    /// Workers.
    #[arg(long, default_value = "1")]
    threads: usize,
    /// Seconds after which to give up.
    #[arg(long, default_value = "300")]
    timeout_s: u64,
    /// With `running`: end as soon as everything is restored.
    #[arg(long, value_parser = ["running"])]
    exit_on: Option<String>,
}

fn main() -> ExitCode {
    let watch = Stopwatch::since(std::env::var("BENCH_T0_MS").ok().and_then(|t0| t0.parse().ok()));
    let options = Options::parse();
    let done = if options.spike {
        run_spike().map(|spike| println!("{spike}"))
    } else if options.driver {
        let driver = options.driver();
        if !driver.workload.is_driven() {
            eprintln!("--driver has the workloads passthrough and count");
            return ExitCode::from(LACKING);
        }
        run_rounds(&driver, |round| println!("{}", round.to_json()))
    } else if let Some(bootstrap) = &options.broker.bootstrap {
        options.run_peer(bootstrap, watch).map(|line| println!("{line}"))
    } else {
        eprintln!("choose a mode: --bootstrap HOST:PORT, --driver or --spike");
        return ExitCode::from(2);
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Options {
    fn state_dir(&self) -> PathBuf {
        self.state_dir.clone().unwrap_or_else(|| std::env::temp_dir().join("thalweg-bench"))
    }

    fn driver(&self) -> DriverOptions {
        DriverOptions {
            workload: self.workload,
            store: self.store,
            records: self.records,
            rounds: self.rounds,
            keys: self.keys,
            guarantee: self.guarantee,
            cache_bytes: self.cache_bytes,
            state_dir: self.state_dir(),
        }
    }

    fn run_peer(&self, bootstrap: &str, watch: Stopwatch) -> BenchResult<String> {
        let broker = &self.broker;
        let backend = open(&format!("kafka://{bootstrap}"), Arc::new(SystemClock::new()))?;
        let options = PeerOptions {
            workload: self.workload,
            application_id: broker.application_id.clone(),
            names: Names { input: &broker.input, table: &broker.table, output: &broker.output },
            guarantee: self.guarantee,
            threads: broker.threads,
            state_dir: self.state_dir(),
            cache_bytes: self.cache_bytes,
            records: self.records as u64,
            timeout: Duration::from_secs(broker.timeout_s),
            until_running: broker.exit_on.is_some(),
        };
        run_peer(&options, &backend, watch)
    }
}
