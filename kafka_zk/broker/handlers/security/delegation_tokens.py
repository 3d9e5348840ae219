"""Delegation tokens: refused, as Kafka refuses them on every connection without authentication.

Source: KafkaApis.handleCreateTokenRequest, handleRenewTokenRequest, handleExpireTokenRequest,
handleDescribeTokensRequest, allowTokenRequests@3.9.
"""

from typing import Any

from kafka_zk.broker.handlers.services import Services
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
_NO_TIMESTAMP = -1
_ANONYMOUS = ["User", "ANONYMOUS"]

CreateResponse = codec.response(ApiKey.CREATE_DELEGATION_TOKEN)
RenewResponse = codec.response(ApiKey.RENEW_DELEGATION_TOKEN)
ExpireResponse = codec.response(ApiKey.EXPIRE_DELEGATION_TOKEN)
DescribeResponse = codec.response(ApiKey.DESCRIBE_DELEGATION_TOKEN)


async def create(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """The error, with the owner that the request names (the client itself if it names none). An owner without a type
    gets what it gets where Kafka fails."""
    requester = context.principal.split(":", 1)
    owner = requester
    error = _NOT_ALLOWED
    if request.owner_principal_name and request.owner_principal_type is None:
        error, owner, requester = ErrorCode.UNKNOWN_SERVER_ERROR, _ANONYMOUS, _ANONYMOUS
    elif request.owner_principal_name:
        owner = [request.owner_principal_type, request.owner_principal_name]
    return CreateResponse(
        error_code=error,
        principal_type=owner[0],
        principal_name=owner[1],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp_ms=_NO_TIMESTAMP,
        expiry_timestamp_ms=_NO_TIMESTAMP,
        max_timestamp_ms=_NO_TIMESTAMP,
        token_id="",
        hmac=b"",
        throttle_time_ms=0,
    )


async def renew(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """The error."""
    return RenewResponse(error_code=_NOT_ALLOWED, expiry_timestamp_ms=_NO_TIMESTAMP, throttle_time_ms=0)


async def expire(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """The error."""
    return ExpireResponse(error_code=_NOT_ALLOWED, expiry_timestamp_ms=_NO_TIMESTAMP, throttle_time_ms=0)


async def describe(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """The error, and no tokens."""
    return DescribeResponse(error_code=_NOT_ALLOWED, tokens=[], throttle_time_ms=0)
