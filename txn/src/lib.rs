//! The commit protocol of Thalweg: outputs, changelogs, input offsets and state take effect
//! together (exactly once), or in an order in which nothing is lost (at least once).
//!
//! It knows nothing of records, nodes or stores, reads no clock, and reaches the outside only
//! through the [`Producer`](thalweg_connectors::Producer) port that is passed in.
//!
//! | module | what it is |
//! | --- | --- |
//! | `machine` | the protocol as a table of facts and decisions, no I/O |
//! | `committer` | the driver that carries decisions out, one per worker |
//! | `plan` | what a commit carries, and the permit to persist that comes out of it |
//! | `metadata` | what travels with a committed offset |
//! | `guarantee`, `error` | what is promised, and what is done when a call fails |
//!
//! ```
//! use thalweg_connectors::{
//!     GroupMetadata, NewRecord, Offset, Producer, Timestamp, TopicPartition, TopicSlot,
//! };
//! use thalweg_txn::{CommitPlan, Committed, Committer, OffsetMetadata, TxnError};
//!
//! /// Reads the record 41 of `lines`, writes one to `totals`, commits both.
//! fn one_cycle(
//!     committer: &mut Committer,
//!     producer: &mut dyn Producer,
//!     totals: TopicSlot,
//!     record: &NewRecord<'_>,
//!     member: GroupMetadata,
//! ) -> Result<Committed, TxnError> {
//!     committer.before_write(producer)?;
//!     if let Err(error) = producer.send(totals, 0, record) {
//!         return Err(committer.send_failed(error));
//!     }
//!     let mut plan = CommitPlan::new(member);
//!     plan.add(TopicPartition::new("lines", 0), Offset(42), &OffsetMetadata::at(Timestamp(7)));
//!     committer.commit(producer, &plan, &mut |permit| {
//!         // Each task writes its overlay and its changelogs' positions in one batch.
//!         let _position = permit.position_of(&TopicPartition::new("app-counts-changelog", 0));
//!         Ok(())
//!     })
//! }
//! ```

mod committer;
mod error;
mod guarantee;
mod machine;
mod metadata;
mod plan;

pub use committer::{Committed, Committer};
pub use error::{ErrorClass, PersistError, Step, TxnError};
pub use guarantee::{Guarantee, UnknownGuarantee, transactional_id};
pub use machine::{Decision, Fact, Failure, OFFSET_REPEATS_MAX, Recovery, State, transition};
pub use metadata::{MetadataError, OffsetMetadata};
pub use plan::{CommitPermit, CommitPlan};
