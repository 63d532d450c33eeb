//! What a member of a group says: join, share, live, leave.

use std::time::Duration;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    GroupId, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, OffsetCommitRequest,
    SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::coordinator::{Coordinator, Refusal};
use super::error::WireResult;

/// What the broker may need on top of the time that it waits for the others.
const GRACE: Duration = Duration::from_secs(5);

/// What a group's members have in common.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// What kind of group it is: `consumer` for those whose members name their topics.
    pub(crate) protocol_type: &'static str,
    /// How the work is shared.
    pub(crate) protocol: &'static str,
}

/// The answer to [`Coordinator::join`].
#[derive(Debug)]
pub(crate) enum JoinReply {
    /// Not joined yet: join again under this id.
    Id(String),
    /// Everybody has joined.
    Joined(Joined),
}

/// A generation that has begun.
#[derive(Debug)]
pub(crate) struct Joined {
    /// Its number.
    pub(crate) generation: i32,
    /// Who this member is.
    pub(crate) member: String,
    /// Given to the leader: all members, with what they said when they joined.
    pub(crate) members: Option<Vec<(String, Vec<u8>)>>,
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Kafka counts milliseconds in 32 bits.
fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

fn checked(code: i16) -> Result<(), Refusal> {
    Refusal::check(code, || None)
}

impl Coordinator {
    fn group_id(&self) -> GroupId {
        GroupId(text(self.group()))
    }

    /// Fails when the coordinator is too old for a member.
    pub(crate) fn require_groups(&mut self) -> WireResult<()> {
        let connection = self.connect()?;
        connection.require::<JoinGroupRequest>()?;
        connection.require::<SyncGroupRequest>()?;
        connection.require::<HeartbeatRequest>()?;
        connection.require::<LeaveGroupRequest>()?;
        connection.require::<OffsetCommitRequest>()?;
        Ok(())
    }

    /// Joins, or joins again. The broker answers when everybody has, or when the rebalance timeout is over.
    pub(crate) fn join(
        &mut self,
        kind: &Kind,
        member: &str,
        metadata: Vec<u8>,
    ) -> WireResult<JoinReply> {
        let config = self.config();
        let (session, rebalance) = (config.session_timeout, config.rebalance_timeout);
        let timeout = rebalance + config.request_timeout.min(GRACE);
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(kind.protocol.into())
            .with_metadata(metadata.into());
        let request = JoinGroupRequest::default()
            .with_group_id(self.group_id())
            .with_session_timeout_ms(millis(session))
            .with_rebalance_timeout_ms(millis(rebalance))
            .with_member_id(text(member))
            .with_protocol_type(kind.protocol_type.into())
            .with_protocols(vec![protocol]);
        self.call(
            timeout,
            |_| request,
            |reply| {
                let given = reply.member_id.to_string();
                match ResponseError::try_from_code(reply.error_code) {
                    Some(ResponseError::MemberIdRequired) => return Ok(JoinReply::Id(given)),
                    _ => checked(reply.error_code)?,
                }
                let leads = reply.leader == reply.member_id;
                let members = reply.members.into_iter();
                let members = members.map(|m| (m.member_id.to_string(), m.metadata.to_vec()));
                Ok(JoinReply::Joined(Joined {
                    generation: reply.generation_id,
                    member: given,
                    members: leads.then(|| members.collect()),
                }))
            },
        )
    }

    /// Gets what this member has to work on; the leader says it for everybody.
    pub(crate) fn sync(
        &mut self,
        kind: &Kind,
        joined: &Joined,
        plans: Vec<(String, Vec<u8>)>,
    ) -> WireResult<Vec<u8>> {
        let config = self.config();
        let timeout = config.rebalance_timeout + config.request_timeout.min(GRACE);
        let plan = |(member, plan): (String, Vec<u8>)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(StrBytes::from_string(member))
                .with_assignment(plan.into())
        };
        let request = SyncGroupRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id(joined.generation)
            .with_member_id(text(&joined.member))
            .with_assignments(plans.into_iter().map(plan).collect());
        let request = |version| match version {
            ..5 => request,
            _ => request
                .with_protocol_type(Some(kind.protocol_type.into()))
                .with_protocol_name(Some(kind.protocol.into())),
        };
        self.call(timeout, request, |reply| {
            checked(reply.error_code)?;
            Ok(reply.assignment.to_vec())
        })
    }

    /// Says that the member lives.
    pub(crate) fn heartbeat(
        &mut self,
        generation: i32,
        member: &str,
        timeout: Duration,
    ) -> WireResult<()> {
        let request = HeartbeatRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id(generation)
            .with_member_id(text(member));
        self.call(timeout, |_| request, |reply| checked(reply.error_code))
    }

    /// Leaves at once.
    pub(crate) fn leave(&mut self, member: &str, timeout: Duration) -> WireResult<()> {
        let request = LeaveGroupRequest::default().with_group_id(self.group_id());
        let identity = MemberIdentity::default().with_member_id(text(member));
        let request = |version| {
            let reason = (version >= 5).then(|| StrBytes::from_static_str("the worker ends"));
            request.with_members(vec![identity.with_reason(reason)])
        };
        self.call(timeout, request, |reply| {
            checked(reply.error_code)?;
            reply.members.first().map_or(Ok(()), |member| checked(member.error_code))
        })
    }
}
