"""FindCoordinator: there are no groups and no transactions in the broker yet, so there is no coordinator.

Source: KafkaApis.handleFindCoordinatorRequest@3.9.
"""

from typing import Any

from kafka_zk.handlers.services import Services
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_MANY_KEYS_SINCE = 4
_NOWHERE = {"node_id": -1, "host": "", "port": -1}

Response = codec.response(ApiKey.FIND_COORDINATOR)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """COORDINATOR_NOT_AVAILABLE with the fields of a node that is none."""
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if header.api_version < _MANY_KEYS_SINCE:
        return Response(throttle_time_ms=0, error_code=code, error_message=None, **_NOWHERE)
    coordinators = [
        Response.Coordinator(key=key, error_code=code, error_message="", **_NOWHERE) for key in request.coordinator_keys
    ]
    return Response(throttle_time_ms=0, coordinators=coordinators)
