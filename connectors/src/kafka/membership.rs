//! A member of a group of Kafka, in the protocol that every broker speaks: it is told of its work by the group's leader, one of
//! the members, and hands it over step by step.
//!
//! A thread per member talks to the group. The worker reads what has changed, gives up what it has to, and pins the generation
//! while it commits. Four rules keep a share from being worked on twice, and a late commit from being taken:
//!
//! - A share is given up ([`Membership::release`]) only after its last commit has ended; only then the member joins without it.
//! - A commit names only shares that are owned in the generation it acts in: both come from one look ([`Membership::hold`]).
//! - The generation does not move while a commit is under way: nothing is joined until [`Membership::let_go`].
//! - Nobody commits without being a member.
//!
//! | module | what it is |
//! | --- | --- |
//! | `state` | what a member knows of itself |
//! | `agent` | the thread |
//! | `codec` | what members tell each other |

mod agent;
mod codec;
mod state;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use uuid::Uuid;

use self::agent::{Agent, FAREWELL, Shared};
use self::codec::Digest;
use self::state::Closing;
use super::KafkaConfig;
use super::wire::{Coordinator, Pauses};
use crate::ports::{
    GroupEvent, GroupMetadata, Membership, MembershipOptions, PortError, PortErrorKind, PortResult,
    Share,
};

/// One worker's membership. Dropping it without [`leave`](Membership::leave) looks to the group like a killed process: its work
/// goes to others when the session has timed out.
pub(super) struct KafkaMembership {
    shared: Arc<Shared>,
    /// How long the group may take to notice, for messages.
    config: KafkaConfig,
}

/// The same for all members of this process.
fn process() -> u128 {
    static PROCESS: OnceLock<u128> = OnceLock::new();
    *PROCESS.get_or_init(|| Uuid::new_v4().as_u128())
}

impl KafkaMembership {
    /// Finds the group's coordinator and begins to join; what comes of it is heard by polling.
    ///
    /// # Errors
    /// [`PortErrorKind::Retriable`] when no broker can be reached, [`PortErrorKind::Unsupported`] when the broker is too old.
    pub(super) fn join(config: &KafkaConfig, options: &MembershipOptions) -> PortResult<Self> {
        let shared = Shared::new(&options.group);
        let mut coordinator = Coordinator::new(config, &options.client_id, &options.group);
        coordinator.watch(shared.watch());
        coordinator.connect_within(config.request_timeout)?;
        coordinator.require_groups()?;
        let shares: BTreeSet<Share> = options.shares.iter().copied().collect();
        let now = Instant::now();
        let agent = Agent {
            shared: Arc::clone(&shared),
            coordinator,
            process: process(),
            digest: Digest::of(&shares),
            shares,
            topics: options.topics.clone(),
            beat_at: now,
            retry_at: now,
            pauses: Pauses::default(),
        };
        let name = format!("{}-membership", options.client_id);
        thread::Builder::new().name(name).spawn(|| agent.run()).map_err(|error| {
            let message = format!("cannot start the membership thread of {:?}", options.client_id);
            PortError::new(PortErrorKind::Fatal, message).caused_by(error)
        })?;
        Ok(Self { shared, config: config.clone() })
    }

    fn close(&mut self, how: Closing) {
        let interrupt = {
            let mut state = self.shared.state();
            state.close(how);
            how == Closing::Crash || state.waits_for_others()
        };
        self.shared.nudge();
        if interrupt {
            self.shared.interrupt();
        }
    }
}

impl Membership for KafkaMembership {
    fn poll(&mut self) -> PortResult<GroupEvent> {
        self.shared.state().poll(Instant::now())
    }

    fn release(&mut self, shares: &[Share]) -> PortResult<()> {
        let released = self.shared.state().release(shares);
        self.shared.nudge();
        released
    }

    fn metadata(&self) -> GroupMetadata {
        self.shared.state().shown()
    }

    fn generation(&self) -> Option<i32> {
        self.shared.state().generation()
    }

    fn awaits_more(&self) -> bool {
        self.shared.state().awaits_more()
    }

    fn hold(&mut self) -> PortResult<Option<GroupMetadata>> {
        self.shared.state().hold(Instant::now())
    }

    fn let_go(&mut self) {
        self.shared.state().let_go();
        self.shared.nudge();
    }

    fn leave(&mut self) -> PortResult<()> {
        self.close(Closing::Leave);
        let left = self.shared.await_end(FAREWELL);
        left.unwrap_or_else(|| Err("it did not answer in time".into())).map_err(|why| {
            let message = format!(
                "group {:?} could not be told that a member leaves ({why}): \
                 its work goes to others when its session has timed out, in {:?}",
                self.shared.state().shown().group,
                self.config.session_timeout
            );
            PortError::new(PortErrorKind::Retriable, message)
        })
    }
}

impl Drop for KafkaMembership {
    fn drop(&mut self) {
        self.close(Closing::Crash);
    }
}
