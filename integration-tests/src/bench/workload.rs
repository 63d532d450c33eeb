//! The topologies of the contract.

use std::time::Duration;

use clap::ValueEnum;
use thalweg::{I64Be, Materialized, StreamsBuilder, TimeWindows, Topic, Topology, Utf8};

use super::BenchResult;

/// CONTRACT: every value is so many words.
const WORDS_PER_VALUE: u64 = 10;
const MINUTE: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(10);

/// A workload of the contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Workload {
    /// Filter, map the values to upper case.
    Passthrough,
    /// Count by key.
    Count,
    /// Split into words, count the words.
    Wordcount,
    /// Count by key and minute.
    Windowed,
    /// Join with a table.
    Join,
}

/// Where the counts are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum StoreChoice {
    /// In memory; `none` for a workload without counts.
    #[value(alias = "none")]
    Memory,
    /// On RocksDB.
    Rocksdb,
}

/// The topics of a run.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The input.
    pub input: &'a str,
    /// The table's input, for the join.
    pub table: &'a str,
    /// The output.
    pub output: &'a str,
}

impl Names<'static> {
    /// Of a run in process.
    pub(super) const LOCAL: Self = Self { input: "in", table: "table", output: "out" };
}

impl Workload {
    /// Its name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passthrough => "passthrough",
            Self::Count => "count",
            Self::Wordcount => "wordcount",
            Self::Windowed => "windowed",
            Self::Join => "join",
        }
    }

    /// Does the driver mode have it?
    pub fn is_driven(self) -> bool {
        matches!(self, Self::Passthrough | Self::Count)
    }

    /// Where it keeps its state, in results.
    pub(super) fn store_name(self, store: StoreChoice) -> &'static str {
        match (self, store) {
            (Self::Passthrough, _) => "none",
            (_, StoreChoice::Memory) => "memory",
            (_, StoreChoice::Rocksdb) => "rocksdb",
        }
    }

    /// Records that the topology processes in all for so many of the input: those of internal topics and of the table, too.
    pub(super) fn target(self, records: u64, table: u64) -> u64 {
        match self {
            Self::Wordcount => records + records * WORDS_PER_VALUE,
            Self::Join => records + table,
            Self::Passthrough | Self::Count | Self::Windowed => records,
        }
    }

    pub(super) fn topology(self, store: StoreChoice, names: Names<'_>) -> BenchResult<Topology> {
        let builder = StreamsBuilder::new();
        let input = builder.stream(&Topic::<String, String>::new(names.input));
        let counts = Materialized::with("counts", Utf8, I64Be);
        let counts = match store {
            StoreChoice::Memory => counts.in_memory(),
            StoreChoice::Rocksdb => counts.persistent(),
        };
        let totals = Topic::<String, Option<i64>>::new(names.output);
        let texts = Topic::<String, String>::new(names.output);
        match self {
            Self::Passthrough => input
                .filter(|_, value| !value.is_empty())
                .map_values(|_, value| value.to_uppercase())
                .to(&texts),
            Self::Count => input.group_by_key().count(counts).to_stream().to(&totals),
            Self::Wordcount => input
                .flat_map_values(|_, line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
                .group_by("words", |_, word| word.clone())
                .count(counts)
                .to_stream()
                .to(&totals),
            Self::Windowed => input
                .group_by_key()
                .windowed_by(TimeWindows::of_size(MINUTE).grace(GRACE))
                .count(counts)
                .to_stream()
                .map(|window, count| (format!("{}@{}", window.key, window.window.start_ms), *count))
                .to(&totals),
            Self::Join => {
                let table = builder.table(&Topic::<String, String>::new(names.table), "table");
                input
                    .join_table(&table, |_, value, of_table| format!("{value}|{of_table}"))
                    .to(&texts)
            }
        };
        Ok(builder.build()?)
    }
}
