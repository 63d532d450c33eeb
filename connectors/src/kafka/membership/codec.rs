//! What members of a group tell each other, inside of what Kafka passes on without reading it.
//!
//! Both directions are Kafka's own consumer protocol, so that standard tools can read who is in the group; ours travels in its
//! field for users. All of it begins with a version. Numbers are unsigned varints unless said otherwise; a set of shares is a
//! number of runs, and for each run its group, its first partition and its length.
//!
//! | direction | content |
//! | --- | --- |
//! | up, version 1 | process (16 bytes), generation (`i32`), digest of all shares (`u64`), number of all shares, owned, target |
//! | down, version 1, kind 0 | now, target |
//! | down, version 1, kind 1 | why the member cannot take part, as text |

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition as Assigned;
use kafka_protocol::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicName,
};
use kafka_protocol::protocol::{Encodable, StrBytes};
use xxhash_rust::xxh3::xxh3_64;

use crate::kafka::assignor::{Candidate, Work};
use crate::ports::Share;

/// The version of what is ours.
const VERSION: u8 = 1;
/// The versions of Kafka's envelopes.
const SUBSCRIPTION: i16 = 3;
const ASSIGNMENT: i16 = 1;

/// No topic has more: what says so is damaged.
const MOST_PARTITIONS: i32 = 1 << 17;

const PLAN: u8 = 0;
const REFUSAL: u8 = 1;

/// Why something that another member said cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum CodecError {
    /// It comes from a newer release.
    #[error(
        "it speaks version {0} of the membership protocol, this release speaks up to {VERSION}: \
         run one release of the library in all instances of the application"
    )]
    Newer(u8),
    /// It makes no sense.
    #[error("what it said cannot be read ({0}): does another program use this group?")]
    Garbled(&'static str),
    /// It shares other work.
    #[error(
        "this member has {theirs} tasks, the group's leader has {ours} or others; all members need the same topology and the same inputs: \
         stop all instances, then start them again"
    )]
    Differs {
        /// How many it has.
        theirs: u64,
        /// How many the leader has.
        ours: u64,
    },
}

/// The input topics of each group of shares.
pub(super) type Topics = BTreeMap<u32, Vec<String>>;

/// All shares of the group, in short: members whose digests differ must not share work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Digest {
    /// The hash of them.
    pub(super) hash: u64,
    /// How many.
    pub(super) count: u64,
}

impl Digest {
    /// Of these shares.
    pub(super) fn of(shares: &BTreeSet<Share>) -> Self {
        let mut bytes = Vec::new();
        put_shares(&mut bytes, shares);
        Self { hash: xxh3_64(&bytes), count: shares.len() as u64 }
    }
}

/// What the leader says to a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Work on this.
    Work(Work),
    /// It cannot take part, and why.
    Refused(String),
}

/// What a member says of itself when it joins.
///
/// It names its topics, too: the broker deletes offsets of topics that nobody in a group of consumers names, when they are old.
pub(super) fn encode_candidate(me: &Candidate, all: Digest, topics: &Topics) -> Vec<u8> {
    let mut ours = vec![VERSION];
    ours.extend_from_slice(&me.process.to_be_bytes());
    ours.extend_from_slice(&me.generation.to_be_bytes());
    ours.extend_from_slice(&all.hash.to_be_bytes());
    put_number(&mut ours, all.count);
    put_shares(&mut ours, &me.owned);
    put_shares(&mut ours, &me.target);
    let topics: BTreeSet<&String> = topics.values().flatten().collect();
    let topics = topics.into_iter().map(|t| StrBytes::from_string(t.clone()));
    let envelope = ConsumerProtocolSubscription::default()
        .with_topics(topics.collect())
        .with_user_data(Some(ours.into()))
        .with_generation_id(me.generation);
    enveloped(SUBSCRIPTION, &envelope)
}

/// Reads what a member said when it joined, if it shares the same work: `all`. So no set that it names can be larger than that.
pub(super) fn decode_candidate(
    id: &str,
    bytes: &[u8],
    all: Digest,
) -> Result<Candidate, CodecError> {
    let mut envelope = Reader::of_envelope(bytes)?;
    for _ in 0..envelope.count()? {
        envelope.text()?;
    }
    let mut ours = Reader::of_version(envelope.user_data()?)?;
    let process = u128::from_be_bytes(ours.array()?);
    let generation = i32::from_be_bytes(ours.array()?);
    let theirs = Digest { hash: u64::from_be_bytes(ours.array()?), count: ours.number()? };
    if theirs != all {
        return Err(CodecError::Differs { theirs: theirs.count, ours: all.count });
    }
    let (owned, target) = (ours.shares(all.count)?, ours.shares(all.count)?);
    ours.end()?;
    Ok(Candidate { id: id.to_owned(), process, generation, owned, target })
}

/// What the leader says to a member. For standard tools it also says which partitions that means.
pub(super) fn encode_order(order: &Order, topics: &Topics) -> Vec<u8> {
    let mut ours = vec![VERSION];
    let mut partitions: BTreeMap<&String, Vec<i32>> = BTreeMap::new();
    match order {
        Order::Work(work) => {
            for share in &work.now {
                for topic in topics.get(&share.group).into_iter().flatten() {
                    partitions.entry(topic).or_default().push(share.partition);
                }
            }
            ours.push(PLAN);
            put_shares(&mut ours, &work.now);
            put_shares(&mut ours, &work.target);
        }
        Order::Refused(why) => {
            ours.push(REFUSAL);
            ours.extend_from_slice(why.as_bytes());
        }
    }
    let assigned = |(topic, partitions): (&String, Vec<i32>)| {
        let topic = TopicName(StrBytes::from_string(topic.clone()));
        Assigned::default().with_topic(topic).with_partitions(partitions)
    };
    let envelope = ConsumerProtocolAssignment::default()
        .with_assigned_partitions(partitions.into_iter().map(assigned).collect())
        .with_user_data(Some(ours.into()));
    enveloped(ASSIGNMENT, &envelope)
}

/// Reads what the leader said to a member that knows of so many shares.
pub(super) fn decode_order(bytes: &[u8], all: u64) -> Result<Order, CodecError> {
    let mut envelope = Reader::of_envelope(bytes)?;
    for _ in 0..envelope.count()? {
        envelope.text()?;
        for _ in 0..envelope.count()? {
            envelope.array::<4>()?;
        }
    }
    let mut ours = Reader::of_version(envelope.user_data()?)?;
    match ours.byte()? {
        PLAN => {
            let work = Work { now: ours.shares(all)?, target: ours.shares(all)? };
            ours.end()?;
            Ok(Order::Work(work))
        }
        REFUSAL => Ok(Order::Refused(String::from_utf8_lossy(ours.0).into_owned())),
        _ => Err(CodecError::Garbled("the kind of order")),
    }
}

fn enveloped(version: i16, envelope: &impl Encodable) -> Vec<u8> {
    let mut bytes = version.to_be_bytes().to_vec();
    envelope.encode(&mut bytes, version).expect("all fields exist in this version");
    bytes
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_shares(bytes: &mut Vec<u8>, shares: &BTreeSet<Share>) {
    let mut runs: Vec<(u32, i32, u32)> = Vec::new();
    for share in shares {
        match runs.last_mut() {
            Some((group, first, length))
                if *group == share.group
                    && i64::from(*first) + i64::from(*length) == i64::from(share.partition) =>
            {
                *length += 1;
            }
            _ => runs.push((share.group, share.partition, 1)),
        }
    }
    put_number(bytes, runs.len() as u64);
    for (group, first, length) in runs {
        put_number(bytes, u64::from(group));
        put_number(bytes, u64::from(first as u32));
        put_number(bytes, u64::from(length));
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn of_version(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut reader = Self(bytes);
        match reader.byte()? {
            VERSION => Ok(reader),
            newer if newer > VERSION => Err(CodecError::Newer(newer)),
            _ => Err(CodecError::Garbled("the version")),
        }
    }

    /// Kafka's envelope, whose begin is the same in all versions; read by hand, because what it says about lengths is not to be
    /// trusted before it is checked.
    fn of_envelope(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut reader = Self(bytes);
        match i16::from_be_bytes(reader.array()?) {
            0.. => Ok(reader),
            _ => Err(CodecError::Garbled("the version of the envelope")),
        }
    }

    fn count(&mut self) -> Result<i32, CodecError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], CodecError> {
        let cut = self.0.split_at_checked(length).ok_or(CodecError::Garbled("it ends early"))?;
        self.0 = cut.1;
        Ok(cut.0)
    }

    fn text(&mut self) -> Result<&'a [u8], CodecError> {
        let length = u16::from_be_bytes(self.array()?);
        self.bytes(length.into())
    }

    fn user_data(&mut self) -> Result<&'a [u8], CodecError> {
        let length = usize::try_from(self.count()?);
        self.bytes(length.map_err(|_| CodecError::Garbled("there is nothing of ours in it"))?)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (head, rest) =
            self.0.split_first_chunk().ok_or(CodecError::Garbled("it ends early"))?;
        self.0 = rest;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, CodecError> {
        Ok(self.array::<1>()?[0])
    }

    fn number(&mut self) -> Result<u64, CodecError> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(CodecError::Garbled("a number is too long"))
    }

    /// A set of at most so many: what names more is damaged, and is not held in memory first.
    fn shares(&mut self, most: u64) -> Result<BTreeSet<Share>, CodecError> {
        let out_of_range = |_| CodecError::Garbled("a share is out of range");
        let mut shares = BTreeSet::new();
        let mut left = most;
        for _ in 0..self.number()? {
            let group = u32::try_from(self.number()?).map_err(out_of_range)?;
            let first = i32::try_from(self.number()?).map_err(out_of_range)?;
            let length = i32::try_from(self.number()?).map_err(out_of_range)?;
            let end = first.checked_add(length).filter(|end| *end <= MOST_PARTITIONS);
            let end = end.ok_or(CodecError::Garbled("a share is out of range"))?;
            let rest = left.checked_sub(length as u64);
            left = rest.ok_or(CodecError::Garbled("it names more shares than there are"))?;
            shares.extend((first..end).map(|partition| Share { group, partition }));
        }
        Ok(shares)
    }

    fn end(self) -> Result<(), CodecError> {
        if self.0.is_empty() { Ok(()) } else { Err(CodecError::Garbled("it ends late")) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use proptest::prelude::*;

    use super::*;

    fn share(group: u32, partition: i32) -> Share {
        Share { group, partition }
    }

    fn me() -> Candidate {
        Candidate {
            id: "worker-1".into(),
            process: 7,
            generation: 4,
            owned: [share(0, 0), share(0, 1), share(0, 2), share(1, 300)].into(),
            target: [share(0, 0)].into(),
        }
    }

    fn topics() -> Topics {
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        [(0, names(&["views", "users"])), (1, names(&["clicks"]))].into()
    }

    fn sets() -> impl Strategy<Value = BTreeSet<Share>> {
        let share = (0..5u32, 0..400i32).prop_map(|(group, partition)| Share { group, partition });
        prop::collection::btree_set(share, 0..40)
    }

    #[test]
    fn a_hundred_partitions_in_a_row_take_a_few_bytes() {
        let all: BTreeSet<Share> = (0..100).map(|p| share(2, p)).collect();
        let mut bytes = Vec::new();
        put_shares(&mut bytes, &all);
        assert_eq!(bytes, [1, 2, 0, 100]);
    }

    #[test]
    fn a_newer_version_is_named() {
        let all = Digest::of(&me().owned);
        let bytes = encode_candidate(&me(), all, &Topics::new());
        assert_eq!(decode_candidate("worker-1", &bytes, all), Ok(me()));
        // The process follows the version.
        let at = bytes.windows(17).position(|w| w[0] == VERSION && w[1..] == 7u128.to_be_bytes());
        let mut newer = bytes;
        newer[at.unwrap()] = 9;
        let error = decode_candidate("worker-1", &newer, all).unwrap_err();
        assert_eq!(error, CodecError::Newer(9));
        assert!(error.to_string().contains("one release of the library"), "{error}");

        let mut order = encode_order(&Order::Work(Work::default()), &Topics::new());
        let ours = order.len() - 4;
        order[ours] = 2;
        assert_eq!(decode_order(&order, 0), Err(CodecError::Newer(2)));
    }

    #[test]
    fn standard_tools_see_topics_and_partitions() {
        use kafka_protocol::protocol::Decodable;
        let up = encode_candidate(&me(), Digest::of(&me().owned), &topics());
        let up = ConsumerProtocolSubscription::decode(&mut &up[2..], SUBSCRIPTION).unwrap();
        let named: Vec<&str> = up.topics.iter().map(|t| t.as_str()).collect();
        assert_eq!(named, ["clicks", "users", "views"]);
        let work = Work { now: me().owned, target: me().target };
        let down = encode_order(&Order::Work(work), &topics());
        let down = ConsumerProtocolAssignment::decode(&mut &down[2..], ASSIGNMENT).unwrap();
        let assigned = down.assigned_partitions.iter();
        let assigned: Vec<_> = assigned.map(|a| (a.topic.as_str(), &a.partitions[..])).collect();
        let expected: [(&str, &[i32]); 3] =
            [("clicks", &[300]), ("users", &[0, 1, 2]), ("views", &[0, 1, 2])];
        assert_eq!(assigned, expected);
    }

    #[test]
    fn a_member_of_another_kind_is_told_apart() {
        // What Kafka's own consumers send: topics, and nothing of ours.
        let envelope = ConsumerProtocolSubscription::default().with_topics(vec!["orders".into()]);
        let bytes = enveloped(1, &envelope);
        let all = Digest::of(&me().owned);
        assert!(matches!(decode_candidate("x", &bytes, all), Err(CodecError::Garbled(_))));
        assert!(matches!(decode_candidate("x", &[], all), Err(CodecError::Garbled(_))));
    }

    #[test]
    fn a_member_with_other_work_is_told_so_and_a_set_larger_than_all_work_is_refused() {
        let all = Digest::of(&me().owned);
        let bytes = encode_candidate(&me(), all, &Topics::new());
        let other = Digest { count: 7, ..all };
        let error = decode_candidate("x", &bytes, other).unwrap_err();
        assert_eq!(error, CodecError::Differs { theirs: 4, ours: 7 });
        assert!(error.to_string().contains("the same topology"), "{error}");

        // A few bytes that name 131 072 partitions.
        let work =
            Work { now: (0..MOST_PARTITIONS).map(|p| share(0, p)).collect(), ..Work::default() };
        let order = encode_order(&Order::Work(work), &Topics::new());
        assert!(order.len() < 40, "{} bytes", order.len());
        let more = Err(CodecError::Garbled("it names more shares than there are"));
        assert_eq!(decode_order(&order, all.count), more);
    }

    #[test]
    fn different_shares_have_different_digests() {
        let (few, more) = ([share(0, 0)].into(), [share(0, 0), share(0, 1)].into());
        assert_ne!(Digest::of(&few), Digest::of(&more));
        assert_eq!(Digest::of(&few), Digest::of(&few));
    }

    proptest! {
        #[test]
        fn what_is_said_is_what_is_heard(
            owned in sets(), target in sets(), process: u128, generation: i32, hash: u64, count in 40..1u64 << 40,
        ) {
            let said = Candidate { process, generation, owned, target, ..me() };
            let all = Digest { hash, count };
            let heard = decode_candidate("worker-1", &encode_candidate(&said, all, &topics()), all);
            prop_assert_eq!(heard, Ok(said.clone()));
            let work = Order::Work(Work { now: said.owned, target: said.target });
            prop_assert_eq!(decode_order(&encode_order(&work, &topics()), count), Ok(work));
            let refused = Order::Refused("because".into());
            prop_assert_eq!(decode_order(&encode_order(&refused, &topics()), 0), Ok(refused));
        }

        #[test]
        fn damaged_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), cut in 0..80usize) {
            let all = Digest::of(&me().owned);
            drop(decode_candidate("x", &bytes, all));
            drop(decode_order(&bytes, all.count));
            let whole = encode_candidate(&me(), all, &topics());
            // What Kafka adds behind ours is not read.
            let cut = cut % (whole.len() - 10);
            prop_assert!(decode_candidate("x", &whole[..cut], all).is_err());
        }
    }
}
