//! The topologies of the contract.

use clap::ValueEnum;
use thalweg::{I64Be, Materialized, StreamsBuilder, Topic, Topology, Utf8};

use super::BenchResult;

/// A workload of the contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Workload {
    /// Filter, map the values to upper case.
    Passthrough,
    /// Count by key.
    Count,
}

/// Where the counts are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum StoreChoice {
    /// In memory.
    Memory,
    /// On RocksDB.
    Rocksdb,
}

pub(super) const INPUT: &str = "in";
pub(super) const OUTPUT: &str = "out";

impl Workload {
    /// Its name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passthrough => "passthrough",
            Self::Count => "count",
        }
    }

    /// Where it keeps its state, in results.
    pub(super) fn store_name(self, store: StoreChoice) -> &'static str {
        match (self, store) {
            (Self::Passthrough, _) => "none",
            (Self::Count, StoreChoice::Memory) => "memory",
            (Self::Count, StoreChoice::Rocksdb) => "rocksdb",
        }
    }

    pub(super) fn topology(self, store: StoreChoice) -> BenchResult<Topology> {
        let builder = StreamsBuilder::new();
        let input = builder.stream(&Topic::<String, String>::new(INPUT));
        match self {
            Self::Passthrough => {
                input
                    .filter(|_, value| !value.is_empty())
                    .map_values(|_, value| value.to_uppercase())
                    .to(&Topic::<String, String>::new(OUTPUT));
            }
            Self::Count => {
                let counts = Materialized::with("counts", Utf8, I64Be);
                let counts = match store {
                    StoreChoice::Memory => counts.in_memory(),
                    StoreChoice::Rocksdb => counts.persistent(),
                };
                input
                    .group_by_key()
                    .count(counts)
                    .to_stream()
                    .to(&Topic::<String, Option<i64>>::new(OUTPUT));
            }
        }
        Ok(builder.build()?)
    }
}
