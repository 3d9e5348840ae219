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

CreateResponse = codec.response(ApiKey.CREATE_DELEGATION_TOKEN)
RenewResponse = codec.response(ApiKey.RENEW_DELEGATION_TOKEN)
ExpireResponse = codec.response(ApiKey.EXPIRE_DELEGATION_TOKEN)
DescribeResponse = codec.response(ApiKey.DESCRIBE_DELEGATION_TOKEN)


async def create(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """The error, with the owner that the request names (the client itself if it names none)."""
    requester_type, _, requester_name = context.principal.partition(":")
    owner_type, owner_name = requester_type, requester_name
    if request.owner_principal_name:
        owner_type, owner_name = request.owner_principal_type, request.owner_principal_name
    return CreateResponse(
        error_code=_NOT_ALLOWED,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
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
