//! The order of calls, on a producer that only records them. What they do to a log is tested on a
//! real one, in `tests/`.

use std::collections::BTreeMap;

use thalweg_connectors::{
    CommittedOffset, GroupMetadata, NewRecord, Offset, PortErrorKind, Timestamp, TopicPartition,
    TopicSlot,
};

use super::*;
use crate::error::ErrorClass;
use crate::metadata::OffsetMetadata;

/// Notes every call; one of them can be made to fail, for some times.
#[derive(Default)]
struct Recorder {
    calls: Vec<&'static str>,
    fails: Option<(&'static str, PortErrorKind, usize)>,
    tainted: bool,
}

impl Recorder {
    fn failing(call: &'static str, kind: PortErrorKind, times: usize) -> Self {
        Self { fails: Some((call, kind, times)), ..Self::default() }
    }

    fn note(&mut self, call: &'static str) -> PortResult<()> {
        self.calls.push(call);
        match &mut self.fails {
            Some((failing, kind, times)) if *failing == call && *times > 0 => {
                *times -= 1;
                Err(PortError::new(*kind, format!("{call} failed")))
            }
            _ => Ok(()),
        }
    }
}

impl Producer for Recorder {
    fn init_transactions(&mut self) -> PortResult<()> {
        self.note("init")
    }

    fn begin(&mut self) -> PortResult<()> {
        self.note("begin")
    }

    fn topic(&mut self, _: &str) -> PortResult<(TopicSlot, i32)> {
        Ok((TopicSlot(0), 1))
    }

    fn send(&mut self, _: TopicSlot, _: i32, _: &NewRecord<'_>) -> PortResult<()> {
        self.note("send")
    }

    fn flush(&mut self) -> PortResult<Acknowledged> {
        self.note("flush")?;
        Ok(Acknowledged::from([(changelog(), Offset(3))]))
    }

    fn send_offsets(
        &mut self,
        _: &BTreeMap<TopicPartition, CommittedOffset>,
        _: &GroupMetadata,
    ) -> PortResult<()> {
        self.note("send offsets")
    }

    fn commit(&mut self) -> PortResult<Acknowledged> {
        self.note("commit")?;
        Ok(Acknowledged::from([(changelog(), Offset(7))]))
    }

    fn abort(&mut self) -> PortResult<()> {
        self.note("abort")
    }

    fn commit_offsets(
        &mut self,
        _: &BTreeMap<TopicPartition, CommittedOffset>,
        _: &GroupMetadata,
    ) -> PortResult<()> {
        self.note("commit offsets")
    }

    fn is_tainted(&mut self) -> bool {
        self.tainted
    }
}

fn changelog() -> TopicPartition {
    TopicPartition::new("app-counts-changelog", 0)
}

fn no_offsets() -> CommitPlan {
    CommitPlan::new(GroupMetadata {
        group: "app".to_owned(),
        member: "member".to_owned(),
        generation: 1,
    })
}

fn plan() -> CommitPlan {
    let mut plan = no_offsets();
    plan.add(TopicPartition::new("lines", 0), Offset(1), &OffsetMetadata::at(Timestamp(5)));
    plan
}

/// Commits; notes where among the calls `persist` came and what the permit said.
fn commit(
    committer: &mut Committer,
    producer: &mut Recorder,
    plan: &CommitPlan,
) -> (Result<Committed, TxnError>, Vec<Option<Offset>>) {
    let mut persisted = Vec::new();
    let result = committer.commit(producer, plan, &mut |permit| {
        persisted.push(permit.position_of(&changelog()));
        Ok(())
    });
    (result, persisted)
}

#[test]
fn exactly_once_begins_at_the_first_write_and_commits_in_the_fixed_order() {
    let (mut committer, mut producer) =
        (Committer::new(Guarantee::ExactlyOnce), Recorder::default());
    for _ in 0..3 {
        committer.before_write(&mut producer).unwrap();
    }
    assert_eq!(producer.calls, ["begin"]);
    assert!(committer.is_open());

    let (result, persisted) = commit(&mut committer, &mut producer, &plan());
    assert_eq!(result.unwrap(), Committed::Done);
    assert_eq!(producer.calls, ["begin", "flush", "send offsets", "commit"]);
    assert_eq!(persisted, [Some(Offset(7))], "what the commit said");
    assert!(!committer.is_open());
}

#[test]
fn at_least_once_flushes_persists_and_then_commits_offsets() {
    let (mut committer, mut producer) =
        (Committer::new(Guarantee::AtLeastOnce), Recorder::default());
    committer.before_write(&mut producer).unwrap();
    assert!(committer.is_open());
    let mut permitted = None;
    // Were the offsets committed before, this failure would come too late to show it.
    let result = committer.commit(&mut producer, &plan(), &mut |permit| {
        permitted = permit.position_of(&changelog());
        Err(PersistError::new(ErrorClass::TaskCorrupted, "disk"))
    });
    assert_eq!(result.map_err(|e| e.class()), Err(ErrorClass::TaskCorrupted));
    assert_eq!(permitted, Some(Offset(3)), "what the flush said");
    assert_eq!(producer.calls, ["flush"]);

    committer.producer_replaced().unwrap();
    let (result, _) = commit(&mut committer, &mut producer, &plan());
    assert_eq!(result.unwrap(), Committed::Done);
    assert_eq!(producer.calls, ["flush", "flush", "commit offsets"]);
}

#[test]
fn offsets_without_a_write_are_committed() {
    let table: [(_, &[&str]); 2] = [
        (Guarantee::ExactlyOnce, &["begin", "flush", "send offsets", "commit"]),
        (Guarantee::AtLeastOnce, &["flush", "commit offsets"]),
    ];
    for (guarantee, calls) in table {
        let (mut committer, mut producer) = (Committer::new(guarantee), Recorder::default());
        let (result, persisted) = commit(&mut committer, &mut producer, &plan());
        assert_eq!(result.unwrap(), Committed::Done);
        assert_eq!(producer.calls, calls);
        assert_eq!(persisted.len(), 1);
    }
}

#[test]
fn nothing_written_and_no_offsets_is_no_commit() {
    for guarantee in [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce] {
        let (mut committer, mut producer) = (Committer::new(guarantee), Recorder::default());
        let (result, persisted) = commit(&mut committer, &mut producer, &no_offsets());
        assert_eq!(result.unwrap(), Committed::Nothing);
        assert_eq!(committer.abort(&mut producer).unwrap(), Committed::Nothing);
        assert!(producer.calls.is_empty());
        assert!(persisted.is_empty());
    }
}

#[test]
fn a_transaction_without_offsets_is_refused_as_it_would_not_be_fenced() {
    let (mut committer, mut producer) =
        (Committer::new(Guarantee::ExactlyOnce), Recorder::default());
    committer.before_write(&mut producer).unwrap();
    let (result, persisted) = commit(&mut committer, &mut producer, &no_offsets());
    let error = result.unwrap_err();
    assert!(matches!(error, TxnError::OffsetsMissing));
    assert_eq!(error.class(), ErrorClass::Fatal);
    assert_eq!(producer.calls, ["begin"]);
    assert!(persisted.is_empty());
}

/// C2–C4: whatever goes wrong, the state is untouched, the call is not made again, and nothing goes
/// before a new producer.
#[test]
fn a_failure_before_the_outputs_count_is_never_retried() {
    use PortErrorKind as K;
    let kinds = [
        (K::Retriable, ErrorClass::Abortable),
        (K::Unknown, ErrorClass::Abortable),
        (K::Abortable, ErrorClass::Abortable),
        (K::Busy, ErrorClass::Abortable),
        (K::Refused, ErrorClass::User),
        (K::Fenced, ErrorClass::Fenced),
        (K::UnknownTopic, ErrorClass::Fatal),
        (K::OffsetOutOfRange, ErrorClass::Fatal),
        (K::Corrupt, ErrorClass::Fatal),
        (K::Unsupported, ErrorClass::Fatal),
        (K::Fatal, ErrorClass::Fatal),
    ];
    let steps: [(_, &[&str]); 4] = [
        (Guarantee::ExactlyOnce, &["begin", "flush"]),
        (Guarantee::ExactlyOnce, &["begin", "flush", "send offsets"]),
        (Guarantee::ExactlyOnce, &["begin", "flush", "send offsets", "commit"]),
        (Guarantee::AtLeastOnce, &["flush"]),
    ];
    for ((guarantee, calls), (kind, class)) in
        steps.iter().flat_map(|s| kinds.iter().map(move |k| (*s, *k)))
    {
        let mut producer = Recorder::failing(calls[calls.len() - 1], kind, 1);
        let mut committer = Committer::new(guarantee);
        committer.before_write(&mut producer).unwrap();
        let (result, persisted) = commit(&mut committer, &mut producer, &plan());
        assert_eq!(result.map_err(|e| e.class()), Err(class), "{kind:?} {calls:?}");
        assert_eq!(producer.calls, calls);
        assert!(persisted.is_empty());

        assert!(committer.has_failed());
        committer.before_write(&mut producer).unwrap_err();
        let (again, persisted) = commit(&mut committer, &mut producer, &plan());
        assert!(matches!(again, Err(TxnError::HasFailed(_))));
        assert_eq!(producer.calls, calls, "no further call on this producer");
        assert!(persisted.is_empty());

        let recovered = committer.producer_replaced();
        assert_eq!(recovered.is_err(), class == ErrorClass::Fatal);
        if recovered.is_ok() {
            let (result, _) = commit(&mut committer, &mut Recorder::default(), &plan());
            assert_eq!(result.unwrap(), Committed::Done);
        }
    }
}

#[test]
fn the_error_names_the_call_and_keeps_its_cause() {
    let mut producer = Recorder::failing("commit", PortErrorKind::Unknown, 1);
    let mut committer = Committer::new(Guarantee::ExactlyOnce);
    let (result, _) = commit(&mut committer, &mut producer, &plan());
    let error = result.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot commit the transaction; the tasks go back to the last commit"
    );
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(cause.as_deref(), Some("commit failed"));
}

#[test]
fn offsets_refused_outside_a_transaction_are_offered_again_but_not_for_ever() {
    let times = usize::from(crate::machine::OFFSET_REPEATS_MAX);
    for (fails, ok) in [(times, true), (times + 1, false)] {
        let mut producer = Recorder::failing("commit offsets", PortErrorKind::Retriable, fails);
        let mut committer = Committer::new(Guarantee::AtLeastOnce);
        let (result, persisted) = commit(&mut committer, &mut producer, &plan());
        assert_eq!(result.is_ok(), ok, "{result:?}");
        assert_eq!(producer.calls.len(), 1 + times + 1);
        assert_eq!(persisted.len(), 1, "state is persisted once");
        assert_eq!(committer.has_failed(), !ok);
    }
}

#[test]
fn a_persist_that_fails_keeps_what_the_store_said() {
    let table = [
        (ErrorClass::TaskCorrupted, ErrorClass::TaskCorrupted, true),
        (ErrorClass::Retriable, ErrorClass::Abortable, true),
        (ErrorClass::Fatal, ErrorClass::Fatal, false),
    ];
    for (said, class, recovers) in table {
        let (mut committer, mut producer) =
            (Committer::new(Guarantee::ExactlyOnce), Recorder::default());
        let error = committer
            .commit(&mut producer, &plan(), &mut |_| Err(PersistError::new(said, "disk full")))
            .unwrap_err();
        assert_eq!(error.class(), class);
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(cause.as_deref(), Some("disk full"));
        assert_eq!(committer.producer_replaced().is_ok(), recovers);
    }
}

#[test]
fn a_failed_send_ends_the_transaction() {
    let (mut committer, mut producer) =
        (Committer::new(Guarantee::ExactlyOnce), Recorder::default());
    committer.before_write(&mut producer).unwrap();
    let error = committer.send_failed(PortError::new(PortErrorKind::Fenced, "newer producer"));
    assert_eq!(error.class(), ErrorClass::Fenced);
    let (result, _) = commit(&mut committer, &mut producer, &plan());
    assert_eq!(result.map_err(|e| e.class()), Err(ErrorClass::Fenced));
    assert_eq!(producer.calls, ["begin"]);
}

#[test]
fn a_failed_begin_leaves_nothing_open() {
    let mut producer = Recorder::failing("begin", PortErrorKind::Fenced, 1);
    let mut committer = Committer::new(Guarantee::ExactlyOnce);
    let error = committer.before_write(&mut producer).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Fenced);
    assert!(!committer.is_open());
    assert!(committer.has_failed());
}

#[test]
fn a_tainted_producer_finishes_its_transaction_and_begins_no_other() {
    let (mut committer, mut producer) =
        (Committer::new(Guarantee::ExactlyOnce), Recorder::default());
    committer.before_write(&mut producer).unwrap();
    producer.tainted = true;
    committer.before_write(&mut producer).unwrap();
    assert!(!committer.needs_replacement(&mut producer), "not inside a transaction");

    let (result, persisted) = commit(&mut committer, &mut producer, &plan());
    assert_eq!(result.unwrap(), Committed::ReplaceProducer);
    assert_eq!(persisted.len(), 1, "the transaction counts");
    assert!(committer.needs_replacement(&mut producer));
    assert!(!committer.has_failed());

    committer.producer_replaced().unwrap();
    committer.before_write(&mut Recorder::default()).unwrap();
    assert!(committer.is_open());
}

#[test]
fn a_producer_tainted_at_rest_is_found_before_it_is_used() {
    let tainted = || Recorder { tainted: true, ..Recorder::default() };
    let mut asked = Committer::new(Guarantee::ExactlyOnce);
    assert!(asked.needs_replacement(&mut tainted()));
    asked.producer_replaced().unwrap();
    assert!(!asked.needs_replacement(&mut Recorder::default()));

    let (mut writing, mut producer) = (Committer::new(Guarantee::ExactlyOnce), tainted());
    let error = writing.before_write(&mut producer).unwrap_err();
    assert!(matches!(error, TxnError::ProducerStale));
    assert_eq!(error.class(), ErrorClass::Abortable);

    let mut committing = Committer::new(Guarantee::ExactlyOnce);
    let (result, _) = commit(&mut committing, &mut producer, &plan());
    assert!(matches!(result, Err(TxnError::ProducerStale)));
    assert!(producer.calls.is_empty());
}

#[test]
fn outside_transactions_no_producer_is_replaced_for_its_connections() {
    let mut committer = Committer::new(Guarantee::AtLeastOnce);
    let mut producer = Recorder { tainted: true, ..Recorder::default() };
    committer.before_write(&mut producer).unwrap();
    let (result, _) = commit(&mut committer, &mut producer, &plan());
    assert_eq!(result.unwrap(), Committed::Done);
    assert!(!committer.needs_replacement(&mut producer));
}

#[test]
fn abort_takes_back_what_is_open() {
    let table: [(_, &[&str]); 2] = [
        (Guarantee::ExactlyOnce, &["begin", "abort"]),
        // What was sent stays; a restore that follows has to see all of it.
        (Guarantee::AtLeastOnce, &["flush"]),
    ];
    for (guarantee, calls) in table {
        let (mut committer, mut producer) = (Committer::new(guarantee), Recorder::default());
        committer.before_write(&mut producer).unwrap();
        assert_eq!(committer.abort(&mut producer).unwrap(), Committed::Done);
        assert_eq!(producer.calls, calls);
        assert!(!committer.is_open());
        assert!(!committer.has_failed());
        committer.before_write(&mut producer).unwrap();
    }
}

#[test]
fn a_failed_abort_asks_for_a_new_producer() {
    let mut producer = Recorder::failing("abort", PortErrorKind::Unknown, 1);
    let mut committer = Committer::new(Guarantee::ExactlyOnce);
    committer.before_write(&mut producer).unwrap();
    let error = committer.abort(&mut producer).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Abortable);
    assert!(committer.needs_replacement(&mut producer));
    assert_eq!(
        committer.abort(&mut producer).unwrap(),
        Committed::ReplaceProducer,
        "nothing more to take back"
    );
    assert_eq!(producer.calls, ["begin", "abort"]);
}

#[test]
fn a_panic_while_persisting_ends_this_committer() {
    let (mut committer, mut producer) =
        (Committer::new(Guarantee::ExactlyOnce), Recorder::default());
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        committer.commit(&mut producer, &plan(), &mut |_| panic!("in the store"))
    }));
    assert!(caught.is_err());
    let (result, _) = commit(&mut committer, &mut producer, &plan());
    let error = result.unwrap_err();
    assert!(matches!(error, TxnError::OutOfOrder { .. }));
    assert_eq!(error.class(), ErrorClass::Fatal);
}
