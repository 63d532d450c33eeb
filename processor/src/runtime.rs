//! Running a topology.

mod config;

pub use config::{
    MissingOutputs, ReplayFrom, RuntimeConfig, StartAt, StateConfig, StateEngine, Until,
};
