//! A run: input comes in while faults happen, then the output is judged.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_processor::Guarantee;

use super::ChaosResult;
use super::application::Topics;
use super::fleet::{Fleet, Launch};
use super::ledger::{Entry, Verdict, judge_echo, judge_totals};
use super::plan::{Fault, Faults, Step, duration, steps};
use super::topics::{Feeder, Reader, create_topics};

/// How often the feeder looks at how much is due.
const TICK: Duration = Duration::from_millis(20);
/// Nothing came for so long: all that is there has been read.
const QUIET: Duration = Duration::from_millis(500);
/// No output for so long, although some is missing: it is lost. Longer than any time-out of session or transaction.
const HOPELESS: Duration = Duration::from_secs(90);

/// What a run is told.
#[derive(Clone, Debug, clap::Args)]
pub struct ScenarioOptions {
    /// The broker, as HOST:PORT.
    #[arg(long)]
    pub bootstrap: String,
    /// Decides which fault happens when.
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// Records of the input.
    #[arg(long, default_value = "200000")]
    pub records: u64,
    /// Partitions of all topics.
    #[arg(long, default_value = "6")]
    pub partitions: i32,
    /// Instances that are there all the time.
    #[arg(long, default_value = "3")]
    pub instances: usize,
    /// Workers of each.
    #[arg(long, default_value = "2")]
    pub workers: usize,
    /// How often an instance is killed with SIGKILL, and started again.
    #[arg(long, default_value = "20")]
    pub kills: usize,
    /// How often an instance is stopped with SIGSTOP, and goes on later.
    #[arg(long, default_value = "3")]
    pub freezes: usize,
    /// For how many seconds, at least: longer than session (6 s) and transaction time-out (10 s).
    #[arg(long, default_value = "12")]
    pub freeze_s: u64,
    /// How often one more instance joins and leaves.
    #[arg(long, default_value = "3")]
    pub guests: usize,
    /// How commits are made. At least once may double records, but loses none.
    #[arg(long, default_value = "exactly_once")]
    pub guarantee: Guarantee,
    /// Where state and logs of the instances go; kept when the run fails. A folder for temporary files, unless it is given.
    #[arg(long)]
    pub folder: Option<PathBuf>,
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct Report {
    input: u64,
    echo: (u64, Verdict),
    totals: (u64, Verdict),
    guarantee: Guarantee,
    took: Duration,
}

impl Report {
    /// Is the output what the guarantee promises?
    pub fn is_good(&self) -> bool {
        [&self.echo.1, &self.totals.1].into_iter().all(|verdict| match self.guarantee {
            Guarantee::ExactlyOnce => verdict.is_exact(),
            Guarantee::AtLeastOnce => verdict.lost == 0 && verdict.foreign == 0,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} records in, {:.0} s", self.input, self.took.as_secs_f64())?;
        for (name, (records, verdict)) in [("echo", &self.echo), ("totals", &self.totals)] {
            let Verdict { lost, doubled, foreign, out_of_order } = verdict;
            writeln!(
                f,
                "{name}: {records} records out, {lost} lost, {doubled} doubled, {foreign} foreign, {out_of_order} out of order"
            )?;
        }
        write!(f, "{}", if self.is_good() { "passed" } else { "FAILED" })
    }
}

/// Runs it, and judges.
///
/// # Errors
/// When broker or instances fail; a wrong output is a report.
pub fn run_scenario(options: &ScenarioOptions) -> ChaosResult<Report> {
    let begun = Instant::now();
    let application_id = format!("chaos-{}-{}", options.seed, std::process::id());
    let topics = Topics::of(&application_id);
    let (bootstrap, partitions) = (options.bootstrap.as_str(), options.partitions);
    create_topics(bootstrap, &[&topics.input, &topics.echo, &topics.totals], partitions)?;
    let folder = options.folder.clone();
    let folder = folder.unwrap_or_else(|| std::env::temp_dir().join(&application_id));
    println!("state and logs of the instances: {}", folder.display());
    let mut fleet = Fleet::new(Launch {
        bootstrap: bootstrap.to_owned(),
        application_id,
        guarantee: options.guarantee,
        workers: options.workers,
        folder: folder.clone(),
    });
    (0..options.instances).try_for_each(|number| fleet.start(number))?;
    let faults = Faults {
        kills: options.kills,
        freezes: options.freezes,
        guests: options.guests,
        freeze: Duration::from_secs(options.freeze_s),
    };
    let steps = steps(options.seed, faults, options.instances);
    let feed = Feed::new(options.records, duration(&steps));
    let feeder = Feeder::new(bootstrap, &topics.input, partitions)?;
    thread::scope(|scope| {
        let feeding = scope.spawn(|| feed.run(&feeder));
        let harmed = harm(&mut fleet, &steps, options.instances, &feed);
        feed.hurry(harmed.is_err());
        let fed = feeding.join().map_err(|_| "the feeder panicked")?;
        harmed.and(fed)
    })?;
    let outputs = Outputs {
        echo: Reader::new(bootstrap, &topics.echo, partitions)?,
        totals: Reader::new(bootstrap, &topics.totals, partitions)?,
    };
    let (echo, totals) = outputs.read_all(&mut fleet, options.records as usize)?;
    let mut input = Vec::new();
    Reader::new(bootstrap, &topics.input, partitions)?.read(4 * QUIET, &mut input)?;
    let report = Report {
        input: input.len() as u64,
        echo: (echo.len() as u64, judge_echo(&input, &echo)),
        totals: (totals.len() as u64, judge_totals(&input, &totals)),
        guarantee: options.guarantee,
        took: begun.elapsed(),
    };
    if report.is_good() && options.folder.is_none() {
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(report)
}

/// Lets the faults happen.
fn harm(fleet: &mut Fleet, steps: &[Step], guest: usize, feed: &Feed) -> ChaosResult<()> {
    for (number, step) in steps.iter().enumerate() {
        thread::sleep(step.after);
        fleet.check()?;
        println!(
            "{:>3} of {}: instance {} {:?}, {} records fed",
            number + 1,
            steps.len(),
            step.instance,
            step.fault,
            feed.fed.load(Ordering::Relaxed)
        );
        match step.fault {
            Fault::Kill(lasts) => {
                fleet.kill(step.instance)?;
                thread::sleep(lasts);
                fleet.start(step.instance)?;
            }
            Fault::Freeze(lasts) => {
                fleet.freeze(step.instance)?;
                thread::sleep(lasts);
                fleet.thaw(step.instance)?;
            }
            Fault::Guest(lasts) => {
                fleet.start(guest)?;
                thread::sleep(lasts);
                fleet.leave(guest)?;
            }
        }
    }
    Ok(())
}

/// The input: evenly over the time of the faults, then the rest at once.
struct Feed {
    records: u64,
    over: Duration,
    fed: AtomicU64,
    hurry: AtomicBool,
    give_up: AtomicBool,
}

impl Feed {
    fn new(records: u64, over: Duration) -> Self {
        let no = || AtomicBool::new(false);
        Self { records, over, fed: AtomicU64::new(0), hurry: no(), give_up: no() }
    }

    /// The faults are over.
    fn hurry(&self, give_up: bool) {
        self.give_up.store(give_up, Ordering::SeqCst);
        self.hurry.store(true, Ordering::SeqCst);
    }

    fn run(&self, feeder: &Feeder) -> ChaosResult<()> {
        let begun = Instant::now();
        let mut next = 0;
        while next < self.records && !self.give_up.load(Ordering::SeqCst) {
            let share = begun.elapsed().as_secs_f64() / self.over.as_secs_f64().max(0.001);
            let due = match self.hurry.load(Ordering::SeqCst) {
                true => self.records,
                false => ((self.records as f64 * share) as u64).min(self.records),
            };
            for number in next..due {
                feeder.feed(number)?;
            }
            next = due.max(next);
            self.fed.store(next, Ordering::Relaxed);
            thread::sleep(TICK);
        }
        feeder.flush()
    }
}

struct Outputs {
    echo: Reader,
    totals: Reader,
}

impl Outputs {
    /// Reads until as much has come as there has to be, or nothing comes any more; then lets the instances leave, and reads what
    /// they leave behind.
    fn read_all(&self, fleet: &mut Fleet, records: usize) -> ChaosResult<(Vec<Entry>, Vec<Entry>)> {
        let (mut echo, mut totals) = (Vec::new(), Vec::new());
        let mut last = Instant::now();
        while echo.len() < records || totals.len() < records {
            fleet.check()?;
            let before = (echo.len(), totals.len());
            self.echo.read(QUIET, &mut echo)?;
            self.totals.read(QUIET, &mut totals)?;
            match before == (echo.len(), totals.len()) {
                true if last.elapsed() > HOPELESS => break,
                true => {}
                false => {
                    last = Instant::now();
                    println!("{} of {records} and {} totals are out", echo.len(), totals.len());
                }
            }
        }
        fleet.leave_all()?;
        self.echo.read(4 * QUIET, &mut echo)?;
        self.totals.read(4 * QUIET, &mut totals)?;
        Ok((echo, totals))
    }
}
