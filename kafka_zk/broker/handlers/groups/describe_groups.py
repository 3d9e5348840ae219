"""DescribeGroups: state, members and assignments of groups that this broker coordinates.

Source: KafkaApis.handleDescribeGroupsRequest@3.9.
"""

from typing import Any

from kafka_zk.broker.group.coordinator import DescribedMember, GroupDescription
from kafka_zk.broker.handlers.long_responses import EncodedArray, ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import Operation, authorized_operations, group
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.memory import OBJECT_BYTES
from kafka_zk.protocol.request import RequestContext, RequestHeader

_OPERATIONS_SINCE = 3

Response = codec.response(ApiKey.DESCRIBE_GROUPS)
Group = Response.DescribedGroup
Member = Group.DescribedGroupMember


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> list[Part]:
    """Return one description for each group, even if it is repeated."""
    with_operations = header.api_version >= _OPERATIONS_SINCE and request.include_authorized_operations
    turns = ResponseTurns(services.clock, context)
    groups = EncodedArray(turns, header, "groups")
    async for group_id in turns.each(dict.fromkeys(request.groups)):
        if services.authorizer.authorize(context, Operation.DESCRIBE, group(group_id)):
            described = services.coordinator.describe(group_id)
        else:
            described = GroupDescription(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        await turns.make(sum(map(_size_bytes, described.members)))
        answer = _described(group_id, described)
        if with_operations and described.error is ErrorCode.NONE:
            answer.authorized_operations = authorized_operations(services.authorizer, context, group(group_id))
        await groups.add(answer)
    return await groups.body(Response())


def _size_bytes(member: DescribedMember) -> int:
    """Size as an object, including its encoded form."""
    names_bytes = len(member.member_id) + len(member.group_instance_id or "") + len(member.client_id)
    return OBJECT_BYTES + names_bytes + len(member.metadata) + len(member.assignment)


def _described(group_id: str, described: GroupDescription) -> Any:
    return Group(
        error_code=described.error,
        group_id=group_id,
        group_state=described.state,
        protocol_type=described.protocol_type,
        protocol_data=described.protocol_name,
        members=[
            Member(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in described.members
        ],
    )
