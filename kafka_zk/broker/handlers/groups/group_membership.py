"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: members of this broker's groups.

Source: KafkaApis.handleJoinGroupRequest etc., GroupCoordinatorAdapter.scala@3.9.
"""

from collections.abc import Sequence
from typing import Any

from kafka_zk.base.steps import run_to_end
from kafka_zk.base.turns import AT_ONCE, Turns
from kafka_zk.broker.group.coordinator import LeaveResult, MemberIdentity
from kafka_zk.broker.group.requests import UNKNOWN_MEMBER_ID, JoinGroup, JoinResult, SyncGroup, SyncResult
from kafka_zk.broker.handlers.large_requests import LARGE_BODY_BYTES, coded_in_turns
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import Operation, group
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.group_membership import (
    JoinGroupRequest,
    read_heartbeat_request,
    read_join_group_request,
    read_sync_group_request,
    write_heartbeat_response,
    write_join_group_response,
    write_sync_group_response,
)
from kafka_zk.protocol.memory import OBJECT_BYTES
from kafka_zk.protocol.request import RequestContext, RequestHeader

LeaveResponse = codec.response(ApiKey.LEAVE_GROUP)
LeavingMember = codec.request(ApiKey.LEAVE_GROUP).MemberIdentity

_MEMBER_ID_REQUIRED_SINCE = 4
_SKIP_ASSIGNMENT_SINCE = 9
_PROTOCOL_NAMED_SINCE = 5  # version of SyncGroup
_MANY_LEAVE_SINCE = 3
_SMALL_BYTES = 16 * 1024  # smaller responses are encoded in one turn, and their memory is not counted


async def join(services: Services, context: RequestContext, header: RequestHeader, body: memoryview) -> list[Part]:
    """Respond when the group's next generation begins."""
    version = header.api_version
    request = read_join_group_request(version, body)
    del body  # the request may wait for minutes
    if not _may_read(services, context, request.group_id):
        result = JoinResult(ErrorCode.GROUP_AUTHORIZATION_FAILED, UNKNOWN_MEMBER_ID)
    else:
        joining = services.coordinator.join(request.group_id, _join_request(context, header, request))
        del request
        context.memory.release()
        result = await joining
    writing = write_join_group_response(
        version, header.correlation_id, result.error, result.generation_id,
        (result.protocol_type, result.protocol_name), result.leader, result.member_id, result.members,
        skip_assignment=result.skip_assignment,
    )  # fmt: skip
    size_bytes = sum(OBJECT_BYTES + len(member.metadata) for member in result.members)
    is_small = size_bytes < _SMALL_BYTES
    return [run_to_end(writing) if is_small else await coded_in_turns(services.clock, context, writing)]


def _join_request(context: RequestContext, header: RequestHeader, request: JoinGroupRequest) -> JoinGroup:
    version = header.api_version
    return JoinGroup(
        member_id=request.member_id,
        new_member_id=UNKNOWN_MEMBER_ID,
        group_instance_id=request.group_instance_id,
        client_id=header.client_id or "",
        client_host=f"/{context.peer_host}",  # the format of Java's InetAddress, which tools show
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=request.protocols,
        requires_known_member_id=version >= _MEMBER_ID_REQUIRED_SINCE and request.group_instance_id is None,
        can_skip_assignment=version >= _SKIP_ASSIGNMENT_SINCE,
        reason=request.reason or "",
    )


async def sync(services: Services, context: RequestContext, header: RequestHeader, body: memoryview) -> list[Part]:
    """Respond when the leader has sent the assignments."""
    version = header.api_version
    reading = read_sync_group_request(version, body)
    is_small = len(body) <= LARGE_BODY_BYTES
    request = run_to_end(reading) if is_small else await coded_in_turns(services.clock, context, reading)
    del body, reading  # the request may wait for minutes
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if version >= _PROTOCOL_NAMED_SINCE and not names_protocol:
        result = SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif not _may_read(services, context, request.group_id):
        result = SyncResult(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    else:
        wanted = SyncGroup(
            request.member_id, request.generation_id, request.group_instance_id, request.protocol_type,
            request.protocol_name, request.assignments,
        )  # fmt: skip
        syncing = services.coordinator.sync(request.group_id, wanted)
        del request, wanted
        context.memory.release()
        result = await syncing
    if len(result.assignment) > _SMALL_BYTES:
        await context.memory.reserve(len(result.assignment))
    protocol = result.protocol_type, result.protocol_name
    return [write_sync_group_response(version, header.correlation_id, result.error, protocol, result.assignment)]


async def heartbeat(services: Services, context: RequestContext, header: RequestHeader, body: memoryview) -> list[Part]:
    """Return NONE if the member can continue, otherwise an error."""
    version = header.api_version
    group_id, generation_id, member_id, group_instance_id = read_heartbeat_request(version, body)
    if _may_read(services, context, group_id):
        code = services.coordinator.heartbeat(group_id, member_id, group_instance_id, generation_id)
    else:
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    return [write_heartbeat_response(version, header.correlation_id, code)]


async def leave(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return each member's code. Before version 3, the response has one code, for the only member."""
    many = header.api_version >= _MANY_LEAVE_SINCE
    if _may_read(services, context, request.group_id):
        members = request.members if many else [LeavingMember(member_id=request.member_id)]
        result = await _leave_in_turns(services, request.group_id, members)
    else:
        result = LeaveResult(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    code = result.error
    if not many and code is ErrorCode.NONE:
        code = result.members[0][1]
    answers = [
        LeaveResponse.MemberResponse(
            member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=its_code
        )
        async for member, its_code in ResponseTurns(services.clock, context).each(result.members)
    ]
    return LeaveResponse(error_code=code, members=answers)


async def _leave_in_turns(services: Services, group_id: str, members: Sequence[Any]) -> LeaveResult:
    """Remove all members, even if the client disconnects."""
    turns = Turns(services.clock, ignores_disconnect=True)
    left: list[tuple[MemberIdentity, ErrorCode]] = []
    for start in range(0, max(1, len(members)), AT_ONCE):  # at least one call, which checks the group
        if turns.is_over:
            await turns.next()
        error, some = services.coordinator.leave(
            group_id,
            [
                MemberIdentity(member.member_id, member.group_instance_id, member.reason or "")
                for member in members[start : start + AT_ONCE]
            ],
        )
        if error is not ErrorCode.NONE:
            return LeaveResult(error)
        left += some
    return LeaveResult(ErrorCode.NONE, tuple(left))


def _may_read(services: Services, context: RequestContext, group_id: str) -> bool:
    return services.authorizer.authorize(context, Operation.READ, group(group_id))
