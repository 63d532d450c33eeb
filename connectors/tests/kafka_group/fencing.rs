//! What the broker lets commit, and what it does not: the rules that the members' side builds on.

use thalweg_connectors::*;

use super::support::*;

#[test]
fn only_a_current_member_in_the_current_generation_commits() {
    let Some(broker) = broker() else { return };
    let (group, all) = (fresh_group("fencing"), shares(&[8]));
    let join = || Worker::join(config(&broker), &group, &all);
    let mut producer = committer(config(&broker));
    let mut commit = |partition, next, who: &GroupMetadata| {
        producer.commit_offsets(&offsets(partition, next), who).map_err(|e| e.kind())
    };
    let fenced = Err(PortErrorKind::Fenced);
    let nobody = GroupMetadata { group: group.clone(), member: String::new(), generation: -1 };
    assert_eq!(commit(0, 1, &nobody), Ok(()), "nobody is a member yet");

    let mut first = join();
    assert_eq!(commit(0, 2, &first.member.metadata()), fenced, "it is no member yet, and says so");
    until(&mut [&mut first], "one has all", |w| owns(w) == [8]);
    let old = first.member.metadata();
    assert_eq!(commit(0, 2, &old), Ok(()), "the current generation");

    let mut second = join();
    until(&mut [&mut first, &mut second], "both have half", |w| owns(w) == [4, 4]);
    let now = first.hold();
    let kept = first.owned.first().unwrap().partition;
    let gone = second.owned.first().unwrap().partition;
    let newer = GroupMetadata { generation: now.generation + 1, ..now.clone() };
    let stranger = GroupMetadata { member: "worker-of-nobody".to_owned(), ..now.clone() };
    let cases = [
        ("current generation, own partition", kept, &now, Ok(())),
        ("older generation, partition kept since", kept, &old, fenced),
        ("older generation, partition lost", gone, &old, fenced),
        ("newer generation", kept, &newer, fenced),
        ("unknown member", kept, &stranger, fenced),
        ("no member, while the group has some", kept, &nobody, fenced),
        // The broker fences members, not tasks: that it is not done is up to the member.
        ("current generation, partition of another", gone, &now, Ok(())),
    ];
    for (what, partition, who, expected) in cases {
        assert_eq!(commit(partition, 7, who), expected, "{what}");
    }
    first.member.let_go();

    second.member.leave().unwrap();
    assert_eq!(commit(gone, 8, &second.member.metadata()), fenced, "a member that has left");
    first.member.leave().unwrap();
    assert_eq!(commit(kept, 9, &nobody), Ok(()), "nobody is a member any more");
}

#[test]
fn what_was_committed_is_read_back_with_its_metadata() {
    let Some(broker) = broker() else { return };
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
    let Some(broker) = broker() else { return };
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
