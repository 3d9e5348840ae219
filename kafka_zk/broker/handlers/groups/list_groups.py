"""ListGroups: the groups that this broker coordinates.

Source: KafkaApis.handleListGroupsRequest, GroupCoordinatorAdapter.listGroups@3.9.
"""

from typing import Any

from kafka_zk.broker.group.coordinator import CLASSIC
from kafka_zk.broker.handlers.long_responses import EncodedArray, ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation, group
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestContext, RequestHeader

Response = codec.response(ApiKey.LIST_GROUPS)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> list[Part]:
    """Returns the groups that the client may describe."""
    may = services.authorizer.may
    sees_all = may(context, Operation.DESCRIBE, CLUSTER)
    error, groups = await services.coordinator.list_groups(request.states_filter or (), request.types_filter or ())
    turns = ResponseTurns(services.clock, context)
    listed = EncodedArray(turns, header, "groups")
    async for each in turns.each(groups):
        if sees_all or may(context, Operation.DESCRIBE, group(each.group_id)):
            await listed.add(
                Response.ListedGroup(
                    group_id=each.group_id,
                    protocol_type=each.protocol_type,
                    group_state=each.state,
                    group_type=CLASSIC,
                )
            )
    return await listed.body(Response(error_code=error))
