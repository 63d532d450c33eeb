//! Configuration: one set of dotted keys, set in code, in `thalweg.toml`, in the environment and on the command line.
//!
//! | module | what it is |
//! | --- | --- |
//! | `keys` | the table of keys |
//! | `layers` | reads the sources and lays them over each other |
//! | `settings` | the values as types |
//! | `problem` | what can be wrong |
//! | `secret` | what must not be printed |

mod keys;
mod layers;
mod problem;
mod secret;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use keys::{KEYS, Key};
pub(crate) use layers::Sources;
pub use problem::{ConfigError, Problem};
pub(crate) use secret::BrokerUrl;
pub use secret::Secret;
pub(crate) use settings::{Settings, allowed_values};
