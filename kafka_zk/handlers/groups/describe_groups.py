"""DescribeGroups: state, members and assignments of groups that this broker coordinates.

Source: KafkaApis.handleDescribeGroupsRequest@3.9.
"""

from typing import Any

from kafka_zk.group.coordinator import GroupDescription
from kafka_zk.handlers.services import Services
from kafka_zk.network.slices import in_turns
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.security.authorizer import Operation, authorized_operations, group

_OPERATIONS_SINCE = 3

Response = codec.response(ApiKey.DESCRIBE_GROUPS)
Group = Response.DescribedGroup
Member = Group.DescribedGroupMember


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """One description for each group that was named."""
    with_operations = header.api_version >= _OPERATIONS_SINCE and request.include_authorized_operations
    groups = []
    async for group_id in in_turns(services.clock, request.groups):
        if services.authorizer.authorize(context, Operation.DESCRIBE, group(group_id)):
            described = services.coordinator.describe(group_id)
        else:
            described = GroupDescription(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        answer = _described(group_id, described)
        if with_operations and described.error is ErrorCode.NONE:
            answer.authorized_operations = authorized_operations(services.authorizer, context, group(group_id))
        groups.append(answer)
    return Response(throttle_time_ms=0, groups=groups)


def _described(group_id: str, described: GroupDescription) -> Any:
    return Group(
        error_code=described.error,
        error_message=None,
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
        authorized_operations=None,
    )
