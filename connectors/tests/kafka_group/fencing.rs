//! What the broker lets commit, and what it does not: the rules that the members' side builds on.

use thalweg_connectors::*;

use super::support::*;

/// What is tried: who commits for which partition, and what comes of it outside of transactions and inside of one.
type Case<'a> = (&'a str, i32, &'a GroupMetadata, Try, Try);
type Try = Result<(), PortErrorKind>;
const FENCED: Try = Err(PortErrorKind::Fenced);

fn plainly(producer: &mut dyn Producer, partition: i32, who: &GroupMetadata) -> Try {
    producer.commit_offsets(&offsets(partition, 7), who).map_err(|e| e.kind())
}

fn in_a_transaction(producer: &mut dyn Producer, partition: i32, who: &GroupMetadata) -> Try {
    producer.begin().unwrap();
    let sent = producer.send_offsets(&offsets(partition, 7), who).map_err(|e| e.kind());
    match sent {
        Ok(()) => drop(producer.commit().unwrap()),
        Err(_) => producer.abort().unwrap(),
    }
    sent
}

#[test]
fn only_a_current_member_in_the_current_generation_commits() {
    let broker = broker();
    let (group, all) = (fresh_group("fencing"), shares(&[8]));
    let join = || Worker::join(config(&broker), &group, &all);
    let mut plain = committer(config(&broker));
    let mut transactions = transactional(config(&broker), &group);
    let mut check = |cases: &[Case<'_>]| {
        for (what, partition, who, outside, inside) in cases {
            assert_eq!(plainly(plain.as_mut(), *partition, who), *outside, "{what}");
            let tried = in_a_transaction(transactions.as_mut(), *partition, who);
            assert_eq!(tried, *inside, "{what}, in a transaction");
        }
    };
    let nobody = GroupMetadata { group: group.clone(), member: String::new(), generation: -1 };
    let mut first = join();
    let newcomer = first.member.metadata();
    check(&[("a member that has not joined yet", 0, &newcomer, FENCED, FENCED)]);
    until(&mut [&mut first], "one has all", |w| owns(w) == [8]);
    let old = first.hold();
    check(&[("a lone member", 0, &old, Ok(()), Ok(()))]);
    first.member.let_go();

    let mut second = join();
    until(&mut [&mut first, &mut second], "both have half", |w| owns(w) == [4, 4]);
    let now = first.hold();
    let kept = first.owned.first().unwrap().partition;
    let gone = second.owned.first().unwrap().partition;
    let newer = GroupMetadata { generation: now.generation + 1, ..now.clone() };
    let stranger = GroupMetadata { member: "worker-of-nobody".to_owned(), ..now.clone() };
    check(&[
        ("current generation, own partition", kept, &now, Ok(()), Ok(())),
        ("older generation, partition kept since", kept, &old, FENCED, FENCED),
        ("older generation, partition lost", gone, &old, FENCED, FENCED),
        ("newer generation", kept, &newer, FENCED, FENCED),
        ("unknown member", kept, &stranger, FENCED, FENCED),
        // The broker fences members, not tasks: these two are up to the member.
        ("current generation, partition of another", gone, &now, Ok(()), Ok(())),
        ("no member, while the group has some", kept, &nobody, FENCED, Ok(())),
    ]);
    first.member.let_go();

    second.member.leave().unwrap();
    check(&[("a member that has left", gone, &second.member.metadata(), FENCED, FENCED)]);
    first.member.leave().unwrap();
    check(&[("nobody, in a group without members", kept, &nobody, Ok(()), Ok(()))]);
}

#[test]
fn what_was_committed_is_read_back_with_its_metadata() {
    let broker = broker();
    let group = fresh_group("read-back");
    let mut producer = committer(config(&broker));
    let mut member = Worker::join(config(&broker), &group, &shares(&[1]));
    let who = member.hold();
    producer.commit_offsets(&offsets(3, 42), &who).unwrap();
    producer.commit_offsets(&offsets(5, 1 << 40), &who).unwrap();
    producer.commit_offsets(&[].into(), &who).unwrap();
    let options =
        ConsumerOptions { isolation: Isolation::ReadCommitted, client_id: "reader".to_owned() };
    let mut consumer = KafkaBackend::new(config(&broker)).consumer(&options).unwrap();
    let tps: Vec<TopicPartition> = [3, 4, 5].map(|p| TopicPartition::new(TOPIC, p)).into();
    let mut expected = offsets(3, 42);
    expected.extend(offsets(5, 1 << 40));
    assert_eq!(consumer.committed(&group, &tps).unwrap(), expected);
    assert!(consumer.committed(&fresh_group("empty"), &tps).unwrap().is_empty());
}

#[test]
fn an_offset_of_a_topic_that_is_not_there_is_refused_by_name() {
    let broker = broker();
    let group = fresh_group("no-topic");
    let mut producer = committer(config(&broker));
    let mut member = Worker::join(config(&broker), &group, &shares(&[1]));
    let who = member.hold();
    let committed = CommittedOffset { offset: Offset(1), metadata: String::new() };
    let nowhere = [(TopicPartition::new("no-such-topic", 0), committed)].into();
    let error = producer.commit_offsets(&nowhere, &who).unwrap_err();
    assert_eq!(error.kind(), PortErrorKind::UnknownTopic);
    assert!(error.to_string().contains("no-such-topic-0"), "{error}");
}
