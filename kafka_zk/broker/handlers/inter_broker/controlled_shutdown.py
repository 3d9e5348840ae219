"""ControlledShutdown: a stopping broker asks the controller to move its leaderships to other brokers.

Source: KafkaApis.handleControlledShutdownRequest@3.9.
"""

from typing import Any

from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

Response = codec.response(ApiKey.CONTROLLED_SHUTDOWN)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return the partitions that the broker still leads."""
    if not services.authorizer.authorize(context, Operation.CLUSTER_ACTION, CLUSTER):
        return Response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        remaining = await services.controller.handle_controlled_shutdown(request.broker_id, request.broker_epoch)
    except EXPECTED as error:
        return Response(error_code=error_code(error))
    return Response(
        remaining_partitions=[
            Response.RemainingPartition(topic_name=tp.topic, partition_index=tp.partition) for tp in remaining
        ]
    )
