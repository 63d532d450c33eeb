//! Where a producer stands between its calls: the same for every backend.

use crate::ports::{PortError, PortErrorKind, PortResult};

/// Where a producer stands.
///
/// ```text
/// Plain                          without transactions, for ever
/// New ──init──► Ready ──begin──► Open ──commit, abort──► Ready
///                                 ╰─refused─► Failed ──abort──► Ready
/// any ──fenced, unknown outcome, records lost──► Over
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProducerState {
    Plain,
    New,
    Ready,
    Open,
    Failed,
    Over,
}

impl ProducerState {
    /// Where a new producer stands.
    pub(crate) fn new(transactional_id: Option<&str>) -> Self {
        match transactional_id {
            Some(_) => Self::New,
            None => Self::Plain,
        }
    }

    /// Fails unless it is one of these states.
    pub(crate) fn expect(
        self,
        states: &[Self],
        attempt: &str,
        transactional_id: Option<&str>,
    ) -> PortResult<()> {
        if states.contains(&self) {
            return Ok(());
        }
        let (kind, why) = match self {
            Self::Plain => (PortErrorKind::Refused, "it has no transactional id"),
            Self::New => (PortErrorKind::Refused, "transactions are not initialized yet"),
            Self::Ready => (PortErrorKind::Refused, "no transaction is open"),
            Self::Open => (PortErrorKind::Refused, "a transaction is open already"),
            Self::Failed => (PortErrorKind::Abortable, "the open transaction has failed: abort it"),
            Self::Over => (
                PortErrorKind::Fenced,
                "it was fenced, or the outcome of an earlier call is not known: make a new producer",
            ),
        };
        Err(PortError::new(kind, format!("cannot {attempt} with {}: {why}", who(transactional_id))))
    }
}

/// A producer, for messages.
pub(crate) fn who(transactional_id: Option<&str>) -> String {
    format!("the producer of transactional id {:?}", transactional_id.unwrap_or("none"))
}
