//! Faults against a real broker: `chaos run --bootstrap HOST:PORT` kills, stops, adds and removes instances of an application
//! while input comes in, then recomputes from the input what the output has to be. Exit code 0 when it is exact.
//!
//! `integration-tests/kafka.sh start` starts a broker and prints its address.

use std::process::ExitCode;

use clap::Parser;
use thalweg_integration_tests::chaos::{
    InstanceOptions, ScenarioOptions, run_instance, run_scenario,
};

/// One allocator for the whole process, native libraries included.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Faults against a real broker, and an independent look at the output.
#[derive(Parser)]
enum Command {
    /// Instances are killed, stopped, join and leave; every record has to come out once.
    Run(ScenarioOptions),
    /// One instance of the application; it leaves when its standard input ends.
    Instance(InstanceOptions),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Run(options) => run_scenario(&options).map(|report| {
            println!("{report}");
            report.is_good()
        }),
        Command::Instance(options) => {
            tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
            run_instance(&options).map(|()| true)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
