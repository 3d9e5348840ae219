"""DescribeClientQuotas and AlterClientQuotas (KIP-546) of a broker without client quotas.

There are none to describe, and a change is refused: decision 0005.
Source: KafkaApis.handleDescribeClientQuotasRequest, ZkAdminManager.describeClientQuotas@3.9.
"""

from collections.abc import Sequence
from typing import Any

from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_NOT_BUILT = "This broker does not support client quotas; nothing was changed."
_ENTITY_TYPES = {"user": "user", "client-id": "client", "ip": "ip"}
"""The types that a filter may name, each with the word that Kafka's errors use for it."""

_EXACT = 0
_MATCH_TYPES = range(3)  # exact, default, specified

DescribeResponse = codec.response(ApiKey.DESCRIBE_CLIENT_QUOTAS)
AlterResponse = codec.response(ApiKey.ALTER_CLIENT_QUOTAS)
AlteredEntry = AlterResponse.EntryData
AlteredEntity = AlteredEntry.EntityData


async def describe(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """No quotas, or the error of a filter that is not valid."""
    try:
        if not services.authorizer.authorize(context, Operation.DESCRIBE_CONFIGS, CLUSTER):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        _check_filter(request.components)
    except ApiError as error:
        return DescribeResponse(throttle_time_ms=0, error_code=error.code, error_message=error.message, entries=None)
    return DescribeResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, error_message="", entries=[])


def _check_filter(components: Sequence[Any]) -> None:
    for component in components:
        if component.match_type not in _MATCH_TYPES or (component.match_type == _EXACT and component.match is None):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    seen: set[str] = set()
    for component in components:
        entity_type = component.entity_type
        if not entity_type:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
        if entity_type not in _ENTITY_TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{entity_type}' not supported")
        if entity_type in seen:
            word = _ENTITY_TYPES[entity_type]
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate {word} filter component entity type")
        seen.add(entity_type)
    if "ip" in seen and len(seen) > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with user or clientId "
            "filter component.",
        )


async def alter(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """INVALID_REQUEST for each entry, also if it should only be validated."""
    error = ApiError(ErrorCode.INVALID_REQUEST, _NOT_BUILT)
    if not services.authorizer.authorize(context, Operation.ALTER_CONFIGS, CLUSTER):
        error = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return AlterResponse(
        throttle_time_ms=0,
        entries=[
            AlteredEntry(
                error_code=error.code,
                error_message=error.message,
                entity=[
                    AlteredEntity(entity_type=entity.entity_type, entity_name=entity.entity_name)
                    for entity in entry.entity
                ],
            )
            for entry in request.entries
        ],
    )
