//! What an aggregation that emits on close remembers: up to which time windows were closed.

use thalweg_connectors::Timestamp;
use thalweg_processor::{Context, NodeResult};
use thalweg_state::TimeCursor;

use crate::emit::EmitStrategy;

/// How many results are read at once.
const BATCH: usize = 256;

/// The name under which it survives a restart.
const CLOSED: &str = "emitted-until";

/// Up to where results were told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closing {
    on_close: bool,
    /// The close time of the last results; [`Timestamp::NONE`] when there were none.
    last: Timestamp,
}

impl Closing {
    pub(super) fn new(emit: EmitStrategy) -> Self {
        Self { on_close: emit == EmitStrategy::OnWindowClose, last: Timestamp::NONE }
    }

    /// Does it wait for windows to close?
    pub(super) fn waits(&self) -> bool {
        self.on_close
    }

    /// The close time of the last results, if windows can have closed since then.
    pub(super) fn since(&self, close_ms: i64) -> Option<Option<i64>> {
        let last = (self.last > Timestamp::NONE).then_some(self.last.0);
        (self.on_close && last.is_none_or(|last| last < close_ms)).then_some(last)
    }

    /// Results were told up to this close time.
    pub(super) fn told(&mut self, close_ms: i64) {
        self.last = Timestamp(close_ms);
    }

    pub(super) fn recall(&mut self, context: &Context<'_>) {
        if let Some(remembered) = context.remembered(CLOSED) {
            self.last = Timestamp(remembered);
        }
    }

    pub(super) fn remember(&self, facts: &mut dyn FnMut(&'static str, i64)) {
        if self.last > Timestamp::NONE {
            facts(CLOSED, self.last.0);
        }
    }
}

/// Tells results page by page: `read` gives the next ones, at most so many, and `tell` sends one downstream, which may write to the store.
pub(super) fn tell_all<E>(
    context: &mut Context<'_>,
    read: impl Fn(&mut Context<'_>, &mut TimeCursor, usize) -> NodeResult<Vec<E>>,
    tell: impl Fn(&mut Context<'_>, E) -> NodeResult,
) -> NodeResult {
    let mut cursor = TimeCursor::default();
    loop {
        let page = read(context, &mut cursor, BATCH)?;
        let is_last = page.len() < BATCH;
        for entry in page {
            tell(context, entry)?;
        }
        if is_last {
            return Ok(());
        }
    }
}
