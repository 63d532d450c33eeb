//! What can be wrong with a configuration; all of it is reported at once.

use std::fmt;
use std::path::PathBuf;

use crate::app::error::AppErrorClass;

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The table of keys.
    Default,
    /// The application's code.
    Code,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// `--set`.
    Set,
    /// A flag of its own.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::Code => f.write_str("the application's code"),
            Self::File(path) => write!(f, "`{}`", path.display()),
            Self::Variable(name) => write!(f, "the environment variable `{name}`"),
            Self::Set => f.write_str("`--set`"),
            Self::Flag(flag) => write!(f, "`{flag}`"),
        }
    }
}

fn known(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("the nearest known one is `{nearest}`"),
        None => "the command `config` lists the known ones".to_owned(),
    }
}

/// One thing that is wrong with a configuration.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A key that does not exist.
    #[error("unknown key `{key}` in {origin}; {}", known(nearest.as_deref()))]
    UnknownKey {
        /// The key as it was written.
        key: String,
        /// Where it stands.
        origin: String,
        /// The known key that is most like it, if one is.
        nearest: Option<String>,
    },
    /// A value that its key does not take.
    #[error("`{key}` cannot be {value} (from {origin}); it takes {allowed}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// The value, quoted; masked where it may be secret.
        value: String,
        /// Where it stands.
        origin: String,
        /// What the key takes.
        allowed: String,
    },
    /// A key without default that nobody set.
    #[error("`{key}` is not set; set it with {ways}")]
    Missing {
        /// The key.
        key: &'static str,
        /// How it can be set.
        ways: String,
    },
    /// A key that one source sets twice, to different values.
    #[error("`{key}` is set twice to different values, in {first} and in {second}")]
    Twice {
        /// The key.
        key: &'static str,
        /// One place.
        first: String,
        /// The other place.
        second: String,
    },
    /// An argument of `--set` without a value.
    #[error("`--set` takes `key=value`, and argument {nth} of it has no `=`")]
    NotAnAssignment {
        /// Which use of `--set`, from 1.
        nth: usize,
    },
    /// A configuration file that cannot be read.
    #[error("cannot read the configuration file `{path}`: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A configuration file that is not TOML. (The line itself is not shown: it may hold a secret.)
    #[error("`{path}` is not TOML: line {line}, column {column}: {reason}")]
    NotToml {
        /// The file.
        path: String,
        /// Where.
        line: usize,
        /// Where.
        column: usize,
        /// Why.
        reason: String,
    },
    /// Two values that do not go together.
    #[error("{0}")]
    Conflict(String),
}

/// Everything that is wrong with a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError(Vec<Problem>);

impl ConfigError {
    pub(crate) fn new(problems: Vec<Problem>) -> Self {
        Self(problems)
    }

    /// The problems, in the order of their sources.
    pub fn problems(&self) -> &[Problem] {
        &self.0
    }

    /// What kind of failure this is.
    pub const fn class(&self) -> AppErrorClass {
        AppErrorClass::Usage
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [only] => write!(f, "bad configuration: {only}"),
            problems => {
                write!(f, "bad configuration, {} problems:", problems.len())?;
                problems.iter().try_for_each(|p| write!(f, "\n  {p}"))
            }
        }
    }
}

impl std::error::Error for ConfigError {}
