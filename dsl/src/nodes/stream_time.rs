//! The stream time of a node, which survives a restart.

use thalweg_connectors::Timestamp;
use thalweg_processor::Context;

/// The name under which it survives.
pub(super) const STREAM_TIME: &str = "stream-time";

/// The highest timestamp that a node has seen; [`Timestamp::NONE`] before the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamTime(Timestamp);

impl StreamTime {
    pub(super) const NONE: Self = Self(Timestamp::NONE);

    /// Takes note of a record.
    pub(super) fn observe(&mut self, timestamp: Timestamp) {
        self.0 = self.0.max(timestamp);
    }

    pub(super) fn ms(self) -> i64 {
        self.0.0
    }

    pub(super) fn recall(&mut self, context: &Context<'_>) {
        if let Some(remembered) = context.remembered(STREAM_TIME) {
            self.0 = Timestamp(remembered);
        }
    }

    pub(super) fn remember(self, facts: &mut dyn FnMut(&'static str, i64)) {
        if self.0 > Timestamp::NONE {
            facts(STREAM_TIME, self.0.0);
        }
    }
}
