//! Kills an application again and again, at moments that a seed chooses.

use std::time::{Duration, Instant};

use super::process::Numbers;
use super::random::Random;
use super::{Ended, Place};

/// How often an application is killed.
pub(crate) const KILLS: usize = 20;

/// An application that reads a growing file: a part more at each start, so that every process has something to do, however fast
/// the machine is.
pub(crate) struct Victim<'a> {
    pub(crate) place: &'a Place,
    pub(crate) guarantee: &'a str,
    /// What is fed, in parts: one for each start.
    pub(crate) parts: Vec<&'a [u8]>,
}

/// The processes of a victim.
pub(crate) struct Lives {
    pub(crate) killed: Vec<Ended>,
    /// The last one, which came to its end.
    pub(crate) last: Ended,
}

/// When a process is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// So long after its start: while it opens, restores, feeds.
    Age(Duration),
    /// So long after it has processed that many records.
    Work(u64, Duration),
    /// The same, and has committed.
    Commit(u64, Duration),
    /// So long after it was asked to stop, while it works: in its last commit, or while it closes.
    Stop(u64, Duration),
}

impl Moment {
    fn choose(random: &mut Random, records: u64) -> Self {
        let (kind, records) = (random.within(0..10), random.within(1..records));
        match kind {
            0..3 => Self::Age(random.millis(0..300)),
            3 => Self::Work(records, random.millis(0..40)),
            4 => Self::Stop(records, random.millis(0..40)),
            _ => Self::Commit(records, random.millis(0..120)),
        }
    }

    /// Has the process come so far that only time is missing?
    fn is_near(self, numbers: &Numbers) -> bool {
        match self {
            Self::Age(_) => true,
            Self::Work(records, _) | Self::Stop(records, _) => numbers.processed >= records,
            Self::Commit(records, _) => numbers.processed >= records && numbers.commits > 0,
        }
    }
}

/// Cuts a text into parts of about the same size, one for each start of a victim, at the ends of lines.
pub(crate) fn parts(text: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut rest = text;
    for left in (1..=KILLS + 1).rev() {
        let about = rest.len() / left;
        let end = rest[about..].iter().position(|byte| *byte == b'\n').map(|n| about + n + 1);
        let (part, others) = rest.split_at(if left > 1 { end.unwrap() } else { rest.len() });
        parts.push(part);
        rest = others;
    }
    parts
}

impl Victim<'_> {
    /// Starts the application and kills it, 20 times; then lets it come to its end.
    pub(crate) fn live(&self, seed: u64) -> Lives {
        let mut random = Random::new(seed);
        let (last, parts) = self.parts.split_last().unwrap();
        let killed =
            parts.iter().enumerate().map(|(n, part)| self.be_killed(n + 1, part, &mut random));
        let killed: Vec<(Moment, Numbers, Ended)> = killed.collect();
        self.place.append("input", last);
        let last = self.place.run(&self.arguments("2", &["--until-end", "--output", "results"]));

        let after_a_commit = killed.iter().filter(|(_, numbers, _)| numbers.commits > 0).count();
        let restored = killed.iter().filter(|(_, numbers, _)| numbers.restored > 0).count();
        let left = last.sum("ended, everything committed", "processed");
        println!("{after_a_commit} of {KILLS} kills struck after a commit, {restored} starts");
        println!("restored the tail of a changelog; {left} records were left for the last process");
        let planned = killed.iter().filter(|(moment, ..)| matches!(moment, Moment::Commit(..)));
        assert!(after_a_commit >= planned.count().max(KILLS / 3) && left > 0);
        Lives { killed: killed.into_iter().map(|(.., ended)| ended).collect(), last }
    }

    fn be_killed(&self, n: usize, part: &[u8], random: &mut Random) -> (Moment, Numbers, Ended) {
        let lines = part.iter().filter(|byte| **byte == b'\n').count();
        let moment = Moment::choose(random, lines as u64);
        let workers = if random.within(0..2) == 0 { "1" } else { "2" };
        self.place.append("input", part);
        let mut process = self.place.start(&self.arguments(workers, &[]));
        let numbers = match moment {
            Moment::Age(_) => Numbers::default(),
            _ => process.wait_for(|numbers| moment.is_near(numbers)),
        };
        let (numbers, ended) = match moment {
            Moment::Stop(_, then) => (numbers, process.stop_and_kill(then)),
            Moment::Age(then) | Moment::Work(_, then) | Moment::Commit(_, then) => {
                process.watch_until(Instant::now() + then);
                (process.numbers().unwrap_or(numbers), process.kill())
            }
        };
        println!("kill {n}, {workers} workers, {moment:?}: {:.0?} old, {numbers:?}", ended.took);
        (moment, numbers, ended)
    }

    fn arguments<'s>(&'s self, workers: &'s str, more: &[&'s str]) -> Vec<&'s str> {
        let run = ["run", "--input", "input", "--guarantee", self.guarantee, "--workers", workers];
        [&run, more].concat()
    }
}

impl Lives {
    /// Checks that no process was told to distrust anything, or had to go back.
    pub(crate) fn assert_no_warnings(&self) {
        assert_no_warnings(self.killed.iter().chain([&self.last]));
    }
}

pub(crate) fn assert_no_warnings<'e>(ended: impl IntoIterator<Item = &'e Ended>) {
    let warnings: Vec<&String> = ended.into_iter().flat_map(Ended::warnings).collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
}
