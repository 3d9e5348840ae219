"""DescribeCluster (KIP-700). Source: KafkaApis.handleDescribeCluster@3.9."""

from typing import Any

from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import cluster_operations
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_BROKERS = 1
_CONTROLLERS = 2

Response = codec.response(ApiKey.DESCRIBE_CLUSTER)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return the live brokers with their addresses on the request's listener."""
    if header.api_version >= 1 and request.endpoint_type != _BROKERS:
        return _refused(request.endpoint_type)
    metadata = services.metadata
    described = Response(
        cluster_id=services.cluster_id,
        controller_id=metadata.controller_id if metadata.is_alive(metadata.controller_id) else -1,
        brokers=[
            Response.DescribeClusterBroker(
                broker_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            for broker in metadata.brokers.values()
            if (endpoint := broker.endpoints.get(context.listener_name)) is not None
        ],
    )
    if request.include_cluster_authorized_operations:
        described.cluster_authorized_operations = cluster_operations(services.authorizer, context)
    return described


def _refused(endpoint_type: int) -> Any:
    if endpoint_type == _CONTROLLERS:
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    else:
        error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"Unsupported endpoint type {endpoint_type}"
    return Response(error_code=error, error_message=message)
