//! Counts the words of a text.
//!
//! ```text
//! word-count run --until-end --input some.txt        counts the words of a file
//! cat *.txt | word-count run --until-end --input -   counts what comes through a pipe
//! ```
//!
//! The result is written to standard output, one word per line behind its count. Run it again after it was killed, and it goes on
//! where it was: each line of a file is counted once, because the program asks for exactly-once. `--guarantee at_least_once` overrides
//! that; a kill may then count some lines twice.

use std::process::ExitCode;

use thalweg::feed::LineFeed;
use thalweg::{App, StreamsBuilder, Topic};

fn main() -> ExitCode {
    // Words are bytes, because a text may be in any encoding.
    let lines = Topic::<(), Vec<u8>>::new("lines");
    let totals = Topic::<Vec<u8>, i64>::new("word-totals");

    let builder = StreamsBuilder::new();
    builder
        .stream(&lines)
        .flat_map_values(|(), line| words(line).map(<[u8]>::to_vec).collect::<Vec<_>>())
        .group_by("by-word", |(), word| word.clone())
        .count("word-counts")
        .to(&totals);
    let topology = builder.build().expect("the topology is sound");

    App::new(topology)
        .set("application.id", "word-count")
        .set("processing.guarantee", "exactly_once")
        .topic("lines", 1)
        .topic("word-totals", 1)
        .input(LineFeed::to("lines"))
        .results(&totals, |out, word, count| {
            write!(out, "{count} ")?;
            out.write_all(word)?;
            writeln!(out)
        })
        .main()
}

/// What ASCII white space separates.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| b" \t\n\x0b\x0c\r".contains(byte)).filter(|word| !word.is_empty())
}
