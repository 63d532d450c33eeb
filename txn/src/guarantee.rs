//! What a user asks for: the processing guarantee.

use std::fmt;
use std::str::FromStr;

use thalweg_connectors::Backend;

use crate::error::TxnError;

/// What a run promises about every committed input record: Kafka Streams' `processing.guarantee`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Guarantee {
    /// No effect is lost; after a failure, records since the last commit take effect again. The
    /// default, as in Kafka Streams: it runs on every backend.
    #[default]
    AtLeastOnce,
    /// Outputs, changelogs and input offsets take effect together, once.
    ExactlyOnce,
}

impl Guarantee {
    /// The word of the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AtLeastOnce => "at_least_once",
            Self::ExactlyOnce => "exactly_once",
        }
    }

    /// Refuses a backend that cannot keep the promise, so that nobody finds out later.
    ///
    /// # Errors
    /// [`TxnError::NoTransactions`] when exactly-once is asked of a backend without transactions.
    pub fn check(self, backend: &dyn Backend) -> Result<(), TxnError> {
        if self == Self::ExactlyOnce && !backend.supports_transactions() {
            return Err(TxnError::NoTransactions { scheme: backend.scheme() });
        }
        Ok(())
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The transactional id of one worker's producer: the same after a restart, so that a new producer
/// ends the transaction that a dead one left open. `instance` is kept in the state directory.
pub fn transactional_id(application_id: &str, instance: &str, worker: usize) -> String {
    format!("{application_id}-{instance}-{worker}")
}

/// A word that names no guarantee.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown processing guarantee `{0}`; choose `at_least_once` or `exactly_once`")]
pub struct UnknownGuarantee(String);

impl FromStr for Guarantee {
    type Err = UnknownGuarantee;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "at_least_once" => Ok(Self::AtLeastOnce),
            "exactly_once" | "exactly_once_v2" => Ok(Self::ExactlyOnce),
            _ => Err(UnknownGuarantee(word.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_kafka_streams_names_its_guarantee() {
        let table = [
            ("at_least_once", Guarantee::AtLeastOnce),
            ("exactly_once", Guarantee::ExactlyOnce),
            ("exactly_once_v2", Guarantee::ExactlyOnce),
        ];
        for (word, guarantee) in table {
            assert_eq!(word.parse(), Ok(guarantee));
            assert_eq!(guarantee.to_string().parse(), Ok(guarantee));
        }
    }

    #[test]
    fn an_unknown_word_is_refused_with_the_choices() {
        for word in ["", "exactly-once", "Exactly_Once", "exactly_once_beta", " at_least_once"] {
            let error = word.parse::<Guarantee>().map_err(|e| e.to_string());
            assert_eq!(
                error,
                Err(format!(
                    "unknown processing guarantee `{word}`; choose `at_least_once` or `exactly_once`"
                ))
            );
        }
    }
}
