//! Transactional ids, the transactions they have open, and the offsets of groups.
//!
//! ```text
//! none ──open──► open ──take──► ended
//!                 │  ╲─delay──► ending ──due──► ended
//!                 ╰──due (time-out): aborted, and the id's epoch moves on
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use std::{iter, mem};

use crate::ports::{Clock, CommittedOffset, PortError, PortErrorKind, PortResult};
use crate::wire::TopicPartition;

/// A transactional id as one producer holds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) id: Arc<str>,
    pub(crate) epoch: u32,
}

type Offsets = BTreeMap<TopicPartition, CommittedOffset>;

/// An open transaction; `W` is what the backend keeps of it.
#[derive(Debug)]
pub(crate) struct Transaction<W> {
    since: Duration,
    pub(crate) offsets: BTreeMap<String, Offsets>,
    pub(crate) work: W,
    ending: Option<Ending>,
}

#[derive(Clone, Copy, Debug)]
struct Ending {
    due: Duration,
    commit: bool,
}

/// A transaction that has ended and has to be carried out.
#[derive(Debug)]
pub(crate) struct Ended<W> {
    pub(crate) owner: Owner,
    pub(crate) offsets: BTreeMap<String, Offsets>,
    pub(crate) work: W,
    pub(crate) commit: bool,
}

#[derive(Debug)]
struct Identity<W> {
    epoch: u32,
    timeout: Duration,
    open: Option<Transaction<W>>,
}

impl<W> Identity<W> {
    /// Has the open transaction timed out, or is its delayed end due?
    fn is_due(&self, now: Duration) -> bool {
        self.open.as_ref().is_some_and(|t| match t.ending {
            Some(ending) => ending.due <= now,
            None => t.since.saturating_add(self.timeout) <= now,
        })
    }
}

#[derive(Debug)]
pub(crate) struct Coordinator<W> {
    identities: BTreeMap<Arc<str>, Identity<W>>,
    committed: BTreeMap<String, Offsets>,
}

impl<W> Default for Coordinator<W> {
    fn default() -> Self {
        Self { identities: BTreeMap::new(), committed: BTreeMap::new() }
    }
}

impl<W: Default> Coordinator<W> {
    /// Makes a new owner of the id: earlier ones are fenced, their open transaction has to be
    /// aborted.
    pub(crate) fn init(
        &mut self,
        id: &str,
        timeout: Duration,
    ) -> PortResult<(Owner, Option<Ended<W>>)> {
        let id: Arc<str> = id.into();
        let identity = self.identities.entry(Arc::clone(&id)).or_insert_with(|| Identity {
            epoch: 0,
            timeout,
            open: None,
        });
        if identity.open.as_ref().is_some_and(|t| t.ending.is_some()) {
            return Err(still_ending(&id));
        }
        identity.epoch += 1;
        identity.timeout = timeout;
        let owner = Owner { id, epoch: identity.epoch };
        let old = identity.open.take();
        let ended = old.map(|t| t.end(owner.clone(), false));
        Ok((owner, ended))
    }

    /// Sets an epoch that was stored.
    pub(crate) fn restore_epoch(&mut self, id: &str, epoch: u32) {
        let identity = Identity { epoch, timeout: Duration::ZERO, open: None };
        self.identities.insert(id.into(), identity);
    }

    /// Sets offsets that were stored.
    pub(crate) fn restore_offset(
        &mut self,
        group: &str,
        tp: TopicPartition,
        offset: CommittedOffset,
    ) {
        self.commit_offsets(group, [(tp, offset)].into());
    }

    /// Is it still the owner?
    pub(crate) fn check(&self, owner: &Owner) -> PortResult<()> {
        let now = self.identities.get(&owner.id).map_or(0, |i| i.epoch);
        if now == owner.epoch {
            return Ok(());
        }
        Err(PortError::new(
            PortErrorKind::Fenced,
            format!(
                "producer of transactional id {:?} with epoch {} is fenced: the epoch is {now} now, \
                 since a newer producer came or its transaction timed out",
                owner.id, owner.epoch
            ),
        ))
    }

    /// Can the owner begin a transaction?
    pub(crate) fn check_idle(&self, owner: &Owner) -> PortResult<()> {
        self.check(owner)?;
        let open = self.identities.get(&owner.id).and_then(|i| i.open.as_ref());
        match open.and_then(|t| t.ending) {
            Some(_) => Err(still_ending(&owner.id)),
            None => Ok(()),
        }
    }

    /// The owner's open transaction; opens one.
    pub(crate) fn open(&mut self, owner: &Owner, now: Duration) -> PortResult<&mut Transaction<W>> {
        self.check(owner)?;
        let identity = self.identities.get_mut(&owner.id);
        let identity = identity.expect("an owner's id is known");
        let transaction = identity.open.get_or_insert_with(|| Transaction {
            since: now,
            offsets: BTreeMap::new(),
            work: W::default(),
            ending: None,
        });
        if transaction.ending.is_some() {
            return Err(still_ending(&owner.id));
        }
        Ok(transaction)
    }

    /// Ends the owner's open transaction, if there is one.
    pub(crate) fn take(&mut self, owner: &Owner, commit: bool) -> PortResult<Option<Ended<W>>> {
        self.check(owner)?;
        let identity = self.identities.get_mut(&owner.id);
        let open = &mut identity.expect("an owner's id is known").open;
        if open.as_ref().is_some_and(|t| t.ending.is_some()) {
            return Err(still_ending(&owner.id));
        }
        Ok(open.take().map(|t| t.end(owner.clone(), commit)))
    }

    /// Starts to commit the owner's open transaction, if there is one: hands out what it did. The
    /// offsets stay pending, and the id is busy, until [`finish_commit`](Self::finish_commit).
    pub(crate) fn begin_commit(
        &mut self,
        owner: &Owner,
    ) -> PortResult<Option<(W, BTreeMap<String, Offsets>)>> {
        self.check(owner)?;
        let identity = self.identities.get_mut(&owner.id);
        let open = &mut identity.expect("an owner's id is known").open;
        let Some(transaction) = open else {
            return Ok(None);
        };
        if transaction.ending.is_some() {
            return Err(still_ending(&owner.id));
        }
        transaction.ending = Some(Ending { due: Duration::MAX, commit: true });
        let work = mem::take(&mut transaction.work);
        Ok(Some((work, transaction.offsets.clone())))
    }

    /// Ends a commit that [`begin_commit`](Self::begin_commit) started; it took effect or did not.
    pub(crate) fn finish_commit(&mut self, owner: &Owner, happened: bool) {
        let identity = self.identities.get_mut(&owner.id);
        let Some(ended) = identity.and_then(|i| i.open.take()) else {
            return;
        };
        if happened {
            for (group, offsets) in ended.offsets {
                self.commit_offsets(&group, offsets);
            }
        }
    }

    /// Decides the end of the open transaction, which takes effect when it is due.
    pub(crate) fn delay(&mut self, owner: &Owner, commit: bool, due: Duration) -> PortResult<()> {
        self.open(owner, due)?.ending = Some(Ending { due, commit });
        Ok(())
    }

    /// Has the time of any transaction come?
    pub(crate) fn is_any_due(&self, clock: &dyn Clock) -> bool {
        let mut open = self.identities.values().filter(|i| i.open.is_some());
        let Some(first) = open.next() else {
            return false;
        };
        let now = clock.elapsed();
        iter::once(first).chain(open).any(|i| i.is_due(now))
    }

    /// Transactions whose time has come: a delayed end, or the time-out.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<Ended<W>> {
        let mut ended = Vec::new();
        for (id, identity) in &mut self.identities {
            if !identity.is_due(now) {
                continue;
            }
            let ending = identity.open.as_ref().and_then(|t| t.ending);
            if ending.is_none() {
                identity.epoch += 1;
            }
            let commit = ending.is_some_and(|e| e.commit);
            let owner = Owner { id: Arc::clone(id), epoch: identity.epoch };
            ended.extend(identity.open.take().map(|t| t.end(owner, commit)));
        }
        ended
    }

    /// Makes offsets a group's committed ones.
    pub(crate) fn commit_offsets(&mut self, group: &str, offsets: Offsets) {
        let committed = self.committed.entry(group.to_owned()).or_default();
        committed.extend(offsets);
    }

    /// What a group has committed; an error while a transaction holds one of the offsets.
    pub(crate) fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> PortResult<Offsets> {
        for (id, identity) in &self.identities {
            let pending = identity.open.as_ref().and_then(|t| t.offsets.get(group));
            let held = pending.and_then(|p| partitions.iter().find(|tp| p.contains_key(tp)));
            if let Some(tp) = held {
                return Err(PortError::new(
                    PortErrorKind::Retriable,
                    format!(
                        "the offset of group {group:?} for {tp} is not stable: \
                         an open transaction of {id:?} holds it, ask again"
                    ),
                ));
            }
        }
        let committed = self.committed.get(group);
        let found = |tp: &TopicPartition| Some((tp.clone(), committed?.get(tp)?.clone()));
        Ok(partitions.iter().filter_map(found).collect())
    }

    /// Which groups have offsets of a topic, and for which partitions.
    pub(crate) fn offsets_of(&self, topic: &str) -> Vec<(String, TopicPartition)> {
        let mut found = Vec::new();
        for (group, offsets) in &self.committed {
            let of_topic = offsets.keys().filter(|tp| *tp.topic == *topic);
            found.extend(of_topic.map(|tp| (group.clone(), tp.clone())));
        }
        found
    }

    /// Forgets the offsets of a deleted topic.
    pub(crate) fn forget_topic(&mut self, topic: &str) {
        for offsets in self.committed.values_mut() {
            offsets.retain(|tp, _| &*tp.topic != topic);
        }
    }
}

impl<W> Transaction<W> {
    /// Adds a group's offsets; they are pending until the transaction ends.
    pub(crate) fn add_offsets(&mut self, group: &str, offsets: &Offsets) {
        let pending = self.offsets.entry(group.to_owned()).or_default();
        pending.extend(offsets.iter().map(|(tp, o)| (tp.clone(), o.clone())));
    }

    fn end(self, owner: Owner, commit: bool) -> Ended<W> {
        Ended { owner, offsets: self.offsets, work: self.work, commit }
    }
}

fn still_ending(id: &str) -> PortError {
    PortError::new(
        PortErrorKind::Retriable,
        format!("the last transaction of {id:?} is still being ended, ask again"),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::wire::Offset;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn offsets(at: i64) -> Offsets {
        let committed = CommittedOffset { offset: Offset(at), metadata: String::new() };
        [(TopicPartition::new("t", 0), committed)].into()
    }

    #[test]
    fn an_open_transaction_times_out_and_its_owner_is_fenced() {
        let mut coordinator = Coordinator::<Vec<u8>>::default();
        let (owner, _) = coordinator.init("id", TIMEOUT).unwrap();
        let start = Duration::from_secs(5);
        coordinator.open(&owner, start).unwrap().work.push(1);
        assert!(coordinator.due(start + TIMEOUT - Duration::from_millis(1)).is_empty());
        let ended = coordinator.due(start + TIMEOUT);
        assert_eq!((ended.len(), ended[0].commit), (1, false));
        assert_eq!(ended[0].work, [1]);
        let kind = |r: PortResult<()>| r.unwrap_err().kind();
        assert_eq!(kind(coordinator.check(&owner)), PortErrorKind::Fenced);
        assert_eq!(kind(coordinator.take(&owner, true).map(drop)), PortErrorKind::Fenced);
    }

    #[test]
    fn a_delayed_end_holds_offsets_and_id_until_it_is_due() {
        let mut coordinator = Coordinator::<()>::default();
        let (owner, _) = coordinator.init("id", TIMEOUT).unwrap();
        let transaction = coordinator.open(&owner, Duration::ZERO).unwrap();
        transaction.offsets.insert("g".into(), offsets(7));
        coordinator.delay(&owner, true, TIMEOUT * 2).unwrap();
        let tps = [TopicPartition::new("t", 0)];
        let kind = |r: PortResult<()>| r.unwrap_err().kind();
        let held = PortErrorKind::Retriable;
        assert_eq!(kind(coordinator.committed("g", &tps).map(drop)), held);
        assert_eq!(kind(coordinator.init("id", TIMEOUT).map(drop)), held);
        assert_eq!(kind(coordinator.open(&owner, TIMEOUT).map(drop)), held);
        assert!(coordinator.due(TIMEOUT).is_empty(), "the time-out is over");
        let [ended] = coordinator.due(TIMEOUT * 2).try_into().unwrap();
        assert!(ended.commit);
        for (group, offsets) in ended.offsets {
            coordinator.commit_offsets(&group, offsets);
        }
        assert_eq!(coordinator.committed("g", &tps).unwrap(), offsets(7));
        assert!(coordinator.committed("other", &tps).unwrap().is_empty());
    }
}
