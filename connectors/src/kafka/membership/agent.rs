//! The thread that keeps a membership: it joins, sends heartbeats, joins again, and leaves.
//!
//! It never joins while a commit holds the generation, and goes on with heartbeats meanwhile. Joining may take as long as the
//! slowest member needs; the worker goes on with its work, only its commits wait.

use std::collections::BTreeSet;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kafka_protocol::ResponseError;

use super::codec::{self, CodecError, Digest, Order, Topics};
use super::state::{Closing, Joining, State};
use crate::kafka::assignor::{Candidate, assign};
use crate::kafka::wire::{
    Coordinator, JoinReply, Joined, Kind, Pauses, Watch, WireError, WireResult,
};
use crate::ports::{PortErrorKind, Share};

/// How the group shares its work. All members have to agree on it, so another way needs another name.
///
/// Who names its topics is a consumer to Kafka, and its tools show the group. Of consumers that name no topics the broker would
/// delete the offsets, in use or not, a week after they were committed: these are a group of another kind.
fn kind(topics: &Topics) -> Kind {
    let protocol_type = if topics.is_empty() { "thalweg" } else { "consumer" };
    Kind { protocol_type, protocol: "thalweg-sticky" }
}

/// Leaving must not hold up the end of a process.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);

/// It is woken when there is something to do; it looks now and then nevertheless.
const IDLE: Duration = Duration::from_secs(1);

/// What the worker and the thread share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The connection of the thread; shutting it down ends a request that waits.
    socket: Mutex<Option<TcpStream>>,
}

/// A panic between two writes of the state would be a bug of ours; what is there is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(group: &str) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new(group)),
            changed: Condvar::new(),
            socket: Mutex::new(None),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The thread has to look at the state.
    pub(super) fn nudge(&self) {
        self.changed.notify_all();
    }

    /// Says to the coordinator's client where its connection is to be kept.
    pub(super) fn watch(self: &Arc<Self>) -> Watch {
        let shared = Arc::clone(self);
        Arc::new(move |socket| *lock(&shared.socket) = socket)
    }

    /// Ends the request under way.
    pub(super) fn interrupt(&self) {
        if let Some(socket) = &*lock(&self.socket)
            && let Err(error) = socket.shutdown(Shutdown::Both)
        {
            tracing::debug!(%error, "the connection was closed already");
        }
    }

    /// Waits until the thread has ended; `None` when it takes longer.
    pub(super) fn await_end(&self, patience: Duration) -> Option<Result<(), String>> {
        let state = self.state();
        let waiting = |state: &mut State| state.ended().is_none();
        let waited = self.changed.wait_timeout_while(state, patience, waiting);
        waited.unwrap_or_else(PoisonError::into_inner).0.ended().cloned()
    }
}

/// Says so when the thread ends by a panic: a member that does nothing any more must not look like one that waits.
struct Watchdog(Arc<Shared>);

impl Drop for Watchdog {
    fn drop(&mut self) {
        if thread::panicking() {
            let why = "the membership thread has panicked; what it said is in the log";
            let mut state = self.0.state();
            state.fail(PortErrorKind::Fatal, why.to_owned());
            state.end(Err(why.to_owned()));
            drop(state);
            self.0.nudge();
        }
    }
}

/// What the thread does next.
enum Step {
    Join(Joining),
    Beat { generation: i32, member: String },
}

/// See the module.
pub(super) struct Agent {
    pub(super) shared: Arc<Shared>,
    pub(super) coordinator: Coordinator,
    /// The process that the member is in.
    pub(super) process: u128,
    /// All shares of the group.
    pub(super) shares: BTreeSet<Share>,
    pub(super) digest: Digest,
    /// What is read for each group of them.
    pub(super) topics: Topics,
    /// When the next heartbeat is due.
    pub(super) beat_at: Instant,
    /// After a failure: when to try again.
    pub(super) retry_at: Instant,
    pub(super) pauses: Pauses,
}

impl Agent {
    /// Runs until the membership ends.
    pub(super) fn run(mut self) {
        let _watchdog = Watchdog(Arc::clone(&self.shared));
        while let Some(step) = self.next_step() {
            let done = match step {
                Step::Join(joining) => self.join(joining),
                Step::Beat { generation, member } => self.beat(generation, &member),
            };
            match done {
                Ok(()) => self.pauses.reset(),
                Err(error) => self.failed(&error),
            }
        }
        let left = self.farewell();
        self.shared.state().end(left);
        self.shared.nudge();
    }

    /// Waits until there is something to do; `None` when the membership is to end.
    fn next_step(&self) -> Option<Step> {
        let mut state = self.shared.state();
        loop {
            if state.closing().is_some() {
                return None;
            }
            let now = Instant::now();
            let mut due = Some(self.retry_at);
            if now >= self.retry_at {
                if let Some(joining) = state.begin_join() {
                    return Some(Step::Join(joining));
                }
                let settled = state.settled();
                due = settled.is_some().then_some(self.beat_at);
                if let Some((generation, member)) = settled.filter(|_| now >= self.beat_at) {
                    return Some(Step::Beat { generation, member });
                }
            }
            // A commit that holds a generation that is lost: nothing is due until it lets go.
            let patience = due.map_or(Duration::MAX, |due| due.saturating_duration_since(now));
            let waited = self.shared.changed.wait_timeout(state, patience.min(IDLE));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn join(&mut self, joining: Joining) -> WireResult<()> {
        let mut me = Candidate {
            id: joining.member,
            process: self.process,
            generation: joining.generation,
            owned: joining.owned,
            target: joining.target,
        };
        let kind = kind(&self.topics);
        let metadata = codec::encode_candidate(&me, self.digest, &self.topics);
        let joined = loop {
            // From here on its end can interrupt the request: what comes before is looked at here.
            self.coordinator.connect()?;
            if self.shared.state().closing().is_some() {
                return Ok(());
            }
            match self.coordinator.join(&kind, &me.id, metadata.clone())? {
                JoinReply::Joined(joined) => break joined,
                JoinReply::Id(id) => {
                    self.shared.state().named(&id);
                    me.id = id;
                }
            }
        };
        let plans =
            joined.members.as_ref().map_or_else(Vec::new, |members| self.lead(&joined, members));
        let asked = Instant::now();
        let order = self.coordinator.sync(&kind, &joined, plans)?;
        let config = self.coordinator.config();
        self.beat_at = Instant::now() + config.heartbeat_interval;
        let mut state = self.shared.state();
        match codec::decode_order(&order, self.digest.count) {
            Ok(Order::Work(work)) => {
                state.settle(joined.generation, work, asked + config.session_timeout);
            }
            Ok(Order::Refused(why)) => {
                let why =
                    format!("cannot take part in group {:?}: {why}", self.coordinator.group());
                state.fail(PortErrorKind::Refused, why);
            }
            Err(error) => state.fail_codec(&error),
        }
        Ok(())
    }

    /// Plans for everybody. A member that cannot be planned for is told why.
    fn lead(&self, joined: &Joined, members: &[(String, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
        let mut candidates = Vec::new();
        let mut orders = Vec::new();
        for (id, said) in members {
            match codec::decode_candidate(id, said, self.digest) {
                Ok(candidate) => candidates.push(candidate),
                Err(error @ CodecError::Differs { .. }) => {
                    orders.push((id, Order::Refused(error.to_string())));
                }
                Err(error) => {
                    let why = format!("its leader does not understand it: {error}");
                    orders.push((id, Order::Refused(why)));
                }
            }
        }
        for (id, _) in &orders {
            tracing::warn!(
                group = self.coordinator.group(),
                member = id,
                "a member cannot take part"
            );
        }
        let plan = assign(&self.shares, &candidates);
        tracing::debug!(
            group = self.coordinator.group(),
            generation = joined.generation,
            members = candidates.len(),
            "planned as leader"
        );
        let work = candidates.iter().map(|c| &c.id).zip(plan.into_iter().map(Order::Work));
        let all = work.chain(orders);
        all.map(|(id, order)| (id.clone(), codec::encode_order(&order, &self.topics))).collect()
    }

    fn beat(&mut self, generation: i32, member: &str) -> WireResult<()> {
        let config = self.coordinator.config();
        let (session, interval) = (config.session_timeout, config.heartbeat_interval);
        // A reply that is lost must leave time for another try.
        let timeout = config.request_timeout.min(session / 3);
        let asked = Instant::now();
        self.beat_at = asked + interval;
        let answer = self.coordinator.heartbeat(generation, member, timeout);
        let mut state = self.shared.state();
        match answer {
            Err(error) if error.refusal() == Some(ResponseError::RebalanceInProgress) => {
                state.alive(generation, asked + session);
                state.join_again();
            }
            Err(error) => return Err(error),
            Ok(()) => state.alive(generation, asked + session),
        }
        Ok(())
    }

    /// What a failure means for the membership.
    fn failed(&mut self, error: &WireError) {
        let (group, told) = (self.coordinator.group(), error.in_one_line());
        let session = self.coordinator.config().session_timeout;
        let now = Instant::now();
        let mut state = self.shared.state();
        if state.closing().is_some() {
            return;
        }
        match error.refusal() {
            Some(ResponseError::UnknownMemberId) => {
                tracing::warn!(
                    group,
                    error = told,
                    "the group has dropped this member: joining anew"
                );
                state.lose_name();
            }
            Some(_) if error.kind() == PortErrorKind::Fenced => {
                tracing::warn!(
                    group,
                    error = told,
                    "the group has gone on without this member: joining anew"
                );
                state.lose();
            }
            _ if error.is_passing() => {
                let pause = self.pauses.next_pause();
                tracing::warn!(group, error = told, again_in = ?pause, "the group cannot be reached");
                self.retry_at = now + pause;
                state.join_failed(now + session);
            }
            _ => state.fail(error.kind(), told),
        }
    }

    /// Leaves, unless this is to look like a crash.
    fn farewell(&mut self) -> Result<(), String> {
        let (how, member) = {
            let state = self.shared.state();
            (state.closing(), state.to_leave())
        };
        let Some(member) = member.filter(|_| how == Some(Closing::Leave)) else {
            self.coordinator.forget();
            return Ok(());
        };
        let timeout = FAREWELL.min(self.coordinator.config().request_timeout) / 2;
        // The connection may have been shut down to get here.
        let mut left = self.coordinator.leave(&member, timeout);
        if left.as_ref().is_err_and(WireError::is_passing) {
            left = self.coordinator.leave(&member, timeout);
        }
        self.coordinator.forget();
        match left {
            Err(error) if error.kind() != PortErrorKind::Fenced => Err(error.in_one_line()),
            _ => Ok(()),
        }
    }
}
