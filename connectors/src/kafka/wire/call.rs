//! Which requests are sent, and in which versions.

use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, FindCoordinatorRequest,
    FindCoordinatorResponse, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, MetadataRequest, MetadataResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse,
    SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion};

/// The versions of a request, both ends included.
pub(crate) type Versions = (i16, i16);

/// A request that this client sends.
pub(crate) trait Call: Encodable + HeaderVersion {
    /// Its name in Kafka's protocol.
    const NAME: &'static str;
    /// Its number in Kafka's protocol.
    const KEY: i16;
    /// The versions that this client writes and reads.
    const VERSIONS: Versions;
    /// What the broker answers.
    type Reply: Decodable + HeaderVersion;

    /// The version for a broker that offers these; `None` when it is too old, or too new.
    fn version_for(offered: Option<Versions>) -> Option<i16> {
        let (oldest, newest) = offered?;
        let best = newest.min(Self::VERSIONS.1);
        (best >= oldest && best >= Self::VERSIONS.0).then_some(best)
    }
}

macro_rules! calls {
    ($($name:ident: $request:ty => $reply:ty, $oldest:literal..=$newest:literal;)*) => {
        $(impl Call for $request {
            const NAME: &'static str = stringify!($name);
            const KEY: i16 = ApiKey::$name as i16;
            const VERSIONS: Versions = ($oldest, $newest);
            type Reply = $reply;
        })*
    };
}

// What Kafka 2.5 offers is enough: the first whose offsets can be read when no transaction holds them (OffsetFetch v7).
calls! {
    ApiVersions: ApiVersionsRequest => ApiVersionsResponse, 3..=3;
    Metadata: MetadataRequest => MetadataResponse, 4..=12;
    FindCoordinator: FindCoordinatorRequest => FindCoordinatorResponse, 1..=4;
    JoinGroup: JoinGroupRequest => JoinGroupResponse, 5..=9;
    SyncGroup: SyncGroupRequest => SyncGroupResponse, 3..=5;
    Heartbeat: HeartbeatRequest => HeartbeatResponse, 3..=4;
    LeaveGroup: LeaveGroupRequest => LeaveGroupResponse, 3..=5;
    OffsetCommit: OffsetCommitRequest => OffsetCommitResponse, 7..=9;
    OffsetFetch: OffsetFetchRequest => OffsetFetchResponse, 7..=9;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_both_sides_know_is_taken() {
        let cases = [
            (Some((0, 3)), Some(3)),
            (Some((0, 12)), Some(4)),
            (Some((4, 12)), Some(4)),
            (Some((0, 2)), None),
            (Some((5, 12)), None),
            (None, None),
        ];
        for (offered, expected) in cases {
            assert_eq!(HeartbeatRequest::version_for(offered), expected, "{offered:?}");
        }
    }
}
