"""DeleteGroups: deletes groups without members, and their offsets. Source: KafkaApis.handleDeleteGroupsRequest@3.9."""

from typing import Any

from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import Operation, group
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

Response = codec.response(ApiKey.DELETE_GROUPS)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return an error code for each group, once even if it is repeated."""
    results = []
    async for group_id in ResponseTurns(services.clock, context).each(dict.fromkeys(request.groups_names)):
        if services.authorizer.authorize(context, Operation.DELETE, group(group_id)):
            code = await services.coordinator.delete(group_id)
        else:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        results.append(Response.DeletableGroupResult(group_id=group_id, error_code=code))
    return Response(results=results)
