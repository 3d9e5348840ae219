"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: members of the groups that this broker coordinates.

Source: KafkaApis.handleJoinGroupRequest and the like, GroupCoordinatorAdapter.scala@3.9.
"""

from typing import Any

from kafka_zk.group.coordinator import LeaveResult, MemberIdentity
from kafka_zk.group.requests import UNKNOWN_MEMBER_ID, JoinGroup, JoinResult, SyncGroup, SyncResult
from kafka_zk.handlers.services import Services
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.security.authorizer import Operation, group

_REBALANCE_TIMEOUT_SINCE = 1
_MEMBER_ID_REQUIRED_SINCE = 4
_NULL_PROTOCOL_SINCE = 7
_SKIP_ASSIGNMENT_SINCE = 9
_PROTOCOL_NAMED_SINCE = 5  # SyncGroup
_MANY_LEAVE_SINCE = 3

_Join = codec.response(ApiKey.JOIN_GROUP)
_Sync = codec.response(ApiKey.SYNC_GROUP)
_Heartbeat = codec.response(ApiKey.HEARTBEAT)
_Leave = codec.response(ApiKey.LEAVE_GROUP)


async def join(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Answered when the group's next generation begins."""
    version = header.api_version
    if not _may_read(services, context, request.group_id):
        result = JoinResult(ErrorCode.GROUP_AUTHORIZATION_FAILED, UNKNOWN_MEMBER_ID)
    else:
        joining = services.coordinator.join(request.group_id, _join_request(context, header, request))
        del request  # it may wait for minutes
        context.memory.release()
        result = await joining
    no_protocol = None if version >= _NULL_PROTOCOL_SINCE else ""
    return _Join(
        throttle_time_ms=0,
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=no_protocol if result.protocol_name is None else result.protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            _Join.JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )


def _join_request(context: RequestContext, header: RequestHeader, request: Any) -> JoinGroup:
    version = header.api_version
    has_timeout = version >= _REBALANCE_TIMEOUT_SINCE
    return JoinGroup(
        member_id=request.member_id,
        new_member_id=UNKNOWN_MEMBER_ID,
        group_instance_id=request.group_instance_id,
        client_id=header.client_id or "",
        client_host=f"/{context.peer_host}",  # as Java prints an address; tools show it
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_timeout else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        requires_known_member_id=version >= _MEMBER_ID_REQUIRED_SINCE and request.group_instance_id is None,
        can_skip_assignment=version >= _SKIP_ASSIGNMENT_SINCE,
        reason=request.reason or "",
    )


async def sync(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Answered when the leader has brought the assignment."""
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if header.api_version >= _PROTOCOL_NAMED_SINCE and not names_protocol:
        result = SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif not _may_read(services, context, request.group_id):
        result = SyncResult(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    else:
        syncing = services.coordinator.sync(request.group_id, _sync_request(request))
        del request  # as above
        context.memory.release()
        result = await syncing
    return _Sync(
        throttle_time_ms=0,
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )


def _sync_request(request: Any) -> SyncGroup:
    return SyncGroup(
        request.member_id, request.generation_id, request.group_instance_id, request.protocol_type,
        request.protocol_name, {each.member_id: bytes(each.assignment) for each in request.assignments},
    )  # fmt: skip


async def heartbeat(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Whether the member may go on as it is."""
    if _may_read(services, context, request.group_id):
        code = services.coordinator.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    else:
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    return _Heartbeat(throttle_time_ms=0, error_code=code)


async def leave(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """A code for each member that was to leave; before version 3 there is one, and its code is the answer's."""
    many = header.api_version >= _MANY_LEAVE_SINCE
    if _may_read(services, context, request.group_id):
        result = services.coordinator.leave(request.group_id, _leaving(request, many=many))
    else:
        result = LeaveResult(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    members = [
        _Leave.MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=code)
        for member, code in result.members
    ]
    code = result.error
    if not many and code is ErrorCode.NONE:
        code = result.members[0][1]
    return _Leave(throttle_time_ms=0, error_code=code, members=members if many else [])


def _leaving(request: Any, *, many: bool) -> list[MemberIdentity]:
    if not many:
        return [MemberIdentity(request.member_id)]
    return [
        MemberIdentity(member.member_id, member.group_instance_id, member.reason or "") for member in request.members
    ]


def _may_read(services: Services, context: RequestContext, group_id: str) -> bool:
    return services.authorizer.authorize(context, Operation.READ, group(group_id))
