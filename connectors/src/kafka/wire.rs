//! Kafka's protocol over a socket: what librdkafka does not offer, which is membership with work of our own, and plain commits
//! as a member.
//!
//! | module | what it is |
//! | --- | --- |
//! | `call` | which requests, in which versions |
//! | `connection` | one socket, one request in flight |
//! | `coordinator` | the broker that keeps a group: found, lost, found again |
//! | `groups` | join, sync, heartbeat, leave |
//! | `offsets` | committing and reading offsets |
//! | `error` | what went wrong, and what to do |

mod call;
mod connection;
mod coordinator;
mod error;
mod groups;
mod offsets;

pub(super) use coordinator::{Coordinator, Pauses, Watch};
pub(super) use error::{WireError, WireResult};
pub(super) use groups::{JoinReply, Joined, Kind};
pub(super) use offsets::OffsetClient;
