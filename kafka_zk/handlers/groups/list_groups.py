"""ListGroups: the groups that this broker coordinates.

Source: KafkaApis.handleListGroupsRequest, GroupCoordinatorAdapter.listGroups@3.9.
"""

from typing import Any

from kafka_zk.group.coordinator import CLASSIC
from kafka_zk.handlers.services import Services
from kafka_zk.network.slices import in_turns
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.security.authorizer import CLUSTER, Operation, group

Response = codec.response(ApiKey.LIST_GROUPS)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Those that the client may describe."""
    authorize = services.authorizer.authorize
    sees_all = authorize(context, Operation.DESCRIBE, CLUSTER)
    error, groups = await services.coordinator.list_groups(request.states_filter or (), request.types_filter or ())
    listed = [
        Response.ListedGroup(
            group_id=each.group_id, protocol_type=each.protocol_type, group_state=each.state, group_type=CLASSIC
        )
        async for each in in_turns(services.clock, groups)
        if sees_all or authorize(context, Operation.DESCRIBE, group(each.group_id))
    ]
    return Response(throttle_time_ms=0, error_code=error, groups=listed)
