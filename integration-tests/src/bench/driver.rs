//! Timed rounds: the driver mode of the contract.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use thalweg_processor::Guarantee;

use super::BenchResult;
use super::engine::Bench;
use super::input::Input;
use super::workload::{Names, StoreChoice, Workload};

/// The first rounds only warm up.
const WARM_UP_ROUNDS: usize = 2;

/// What a driver run is told.
#[derive(Clone, Debug)]
pub struct DriverOptions {
    /// The workload.
    pub workload: Workload,
    /// Where counts are kept.
    pub store: StoreChoice,
    /// Records per round.
    pub records: usize,
    /// Timed rounds, after the warm-up.
    pub rounds: usize,
    /// How many different keys there are.
    pub keys: u64,
    /// How commits are made.
    pub guarantee: Guarantee,
    /// The record cache; with 0 every update goes downstream.
    pub cache_bytes: usize,
    /// Where RocksDB puts its files; each round makes a folder there and removes it.
    pub state_dir: PathBuf,
}

/// One round's result.
#[derive(Clone, Debug)]
pub struct Round {
    workload: &'static str,
    store: &'static str,
    number: usize,
    records: usize,
    /// Outputs that were read back.
    pub out: u64,
    wall: Duration,
    cpu: Duration,
}

impl Round {
    /// Does it only warm up?
    pub fn is_warm_up(&self) -> bool {
        self.number < WARM_UP_ROUNDS
    }

    /// The line of the contract.
    pub fn to_json(&self) -> String {
        let (seconds, cpu) = (self.wall.as_secs_f64(), self.cpu.as_secs_f64());
        let line = serde_json::json!({
            "driver": true,
            "workload": self.workload,
            "store": self.store,
            "round": self.number,
            "warmup": self.is_warm_up(),
            "records": self.records,
            "out": self.out,
            "seconds": (seconds * 1000.0).round() / 1000.0,
            "records_per_s": (self.records as f64 / seconds).round() as u64,
            "records_per_cpu_s": (self.records as f64 / cpu).round() as u64,
        });
        line.to_string()
    }
}

/// Runs all rounds, each with a fresh broker, application and store; hands each result over as it comes.
///
/// # Errors
/// Whatever broker and application report.
pub fn run_rounds(options: &DriverOptions, mut done: impl FnMut(&Round)) -> BenchResult<()> {
    let input = Input::new(options.keys);
    let topology = options.workload.topology(options.store, Names::LOCAL)?;
    for number in 0..options.rounds + WARM_UP_ROUNDS {
        let place = Place::new(options, number)?;
        let bench = Bench::start(&topology, options, place.0.clone())?;
        let (wall, cpu) = (Instant::now(), cpu_time());
        let out = bench.run(&input, options.records)?;
        let (wall, cpu) = (wall.elapsed(), cpu_time().saturating_sub(cpu));
        let (workload, store) =
            (options.workload.name(), options.workload.store_name(options.store));
        done(&Round { workload, store, number, records: options.records, out, wall, cpu });
    }
    Ok(())
}

/// Processor time of this process so far.
pub(super) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The folder of one round's store, if it needs one; removed with it.
struct Place(Option<PathBuf>);

impl Place {
    fn new(options: &DriverOptions, round: usize) -> BenchResult<Self> {
        if options.workload == Workload::Passthrough || options.store == StoreChoice::Memory {
            return Ok(Self(None));
        }
        let folder = options.state_dir.join(format!("{}-{round}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Self(Some(folder)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            // What is left does no harm but to the disk.
            fs::remove_dir_all(folder).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test panics on failure")]

    use super::*;

    #[test]
    fn every_record_comes_out_and_a_round_is_one_line_of_the_contract() {
        for (workload, store, guarantee) in [
            (Workload::Passthrough, "none", Guarantee::AtLeastOnce),
            (Workload::Count, "memory", Guarantee::ExactlyOnce),
        ] {
            let options = DriverOptions {
                workload,
                store: StoreChoice::Memory,
                records: 10_000,
                rounds: 1,
                keys: 100,
                guarantee,
                cache_bytes: 0,
                state_dir: PathBuf::new(),
            };
            let mut lines = Vec::new();
            run_rounds(&options, |round| lines.push(round.to_json())).unwrap();
            let lines: Vec<serde_json::Value> =
                lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(lines.len(), 3);
            for (number, line) in lines.iter().enumerate() {
                assert_eq!(
                    (&line["workload"], &line["store"]),
                    (&workload.name().into(), &store.into())
                );
                assert_eq!((&line["records"], &line["out"]), (&10_000.into(), &10_000.into()));
                assert_eq!(
                    (&line["round"], &line["warmup"]),
                    (&number.into(), &(number < 2).into())
                );
                assert!(line["records_per_cpu_s"].as_u64().unwrap() > 0, "{line}");
            }
        }
    }
}
