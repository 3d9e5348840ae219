"""Delegation tokens (KIP-48, KIP-373), on any broker with ``delegation.token.secret.key``.

Clients must be authenticated, but not with a token.
Source: KafkaApis.handleCreateTokenRequest, handleRenewTokenRequest, handleExpireTokenRequest,
handleDescribeTokensRequest, allowTokenRequests@3.9.
"""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from kafka_zk.base.turns import in_slices
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security import delegation_token_rules as rules
from kafka_zk.broker.security.authorizer import Operation, Resource
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.registry.znodes.delegation_token import USER, Principal, TokenInformation

_NO_TIMESTAMP = -1
_ANONYMOUS = Principal(USER, "ANONYMOUS")

CreateResponse = codec.response(ApiKey.CREATE_DELEGATION_TOKEN)
RenewResponse = codec.response(ApiKey.RENEW_DELEGATION_TOKEN)
ExpireResponse = codec.response(ApiKey.EXPIRE_DELEGATION_TOKEN)
DescribeResponse = codec.response(ApiKey.DESCRIBE_DELEGATION_TOKEN)
DescribedToken = DescribeResponse.DescribedDelegationToken


async def create(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Create a token. The default owner is the client; an owner without a type causes UNKNOWN_SERVER_ERROR, as in
    Kafka."""
    requester = owner = _principal(context)
    if request.owner_principal_name and request.owner_principal_type is None:
        return _created(ErrorCode.UNKNOWN_SERVER_ERROR, _ANONYMOUS, _ANONYMOUS)
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type, request.owner_principal_name)
    try:
        tokens = _tokens_for_creation(services, context, request, owner)
        renewers = [Principal(each.principal_type, each.principal_name) for each in request.renewers]
        token = await tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    except EXPECTED as error:
        return _created(error_code(error), owner, requester)
    return _created(ErrorCode.NONE, owner, requester, token, tokens.hmac(token.token_id))


def _tokens_for_creation(services: Services, context: RequestContext, request: Any, owner: Principal) -> Any:
    _check_allowed(context)
    if owner.type != USER:  # Kafka would issue a token that authenticates the user with this name
        raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    is_for_another = owner != _principal(context)
    if is_for_another and not services.authorizer.authorize(
        context, Operation.CREATE_TOKENS, Resource(USER, str(owner))
    ):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if any(renewer.principal_type != USER for renewer in request.renewers):
        raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    return _tokens(services)


def _created(
    code: ErrorCode, owner: Principal, requester: Principal, token: TokenInformation | None = None, hmac: bytes = b""
) -> Any:
    return CreateResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=_NO_TIMESTAMP if token is None else token.issue_ms,
        expiry_timestamp_ms=_NO_TIMESTAMP if token is None else token.expiry_ms,
        max_timestamp_ms=_NO_TIMESTAMP if token is None else token.max_ms,
        token_id="" if token is None else token.token_id,
        hmac=hmac,
    )


async def renew(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return the new expiry."""
    code, expiry_ms = await _expiry(
        services,
        context,
        lambda tokens: tokens.renew(_principal(context), bytes(request.hmac), request.renew_period_ms),
    )
    return RenewResponse(error_code=code, expiry_timestamp_ms=expiry_ms)


async def expire(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return the new expiry."""
    code, expiry_ms = await _expiry(
        services,
        context,
        lambda tokens: tokens.expire(_principal(context), bytes(request.hmac), request.expiry_time_period_ms),
    )
    return ExpireResponse(error_code=code, expiry_timestamp_ms=expiry_ms)


async def _expiry(
    services: Services, context: RequestContext, change: Callable[[Any], Coroutine[Any, Any, int]]
) -> tuple[ErrorCode, int]:
    try:
        _check_allowed(context)
        return ErrorCode.NONE, await change(_tokens(services))
    except EXPECTED as error:
        return error_code(error), _NO_TIMESTAMP


async def describe(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return tokens, with HMACs, that the client owns, may renew or may describe."""
    try:
        _check_allowed(context)
        tokens = _tokens(services)
    except ApiError as error:
        return DescribeResponse(error_code=error.code)
    owners = None
    if request.owners is not None:
        owners = frozenset(Principal(each.principal_type, each.principal_name) for each in request.owners)

    def described() -> Iterator[Any]:
        for token in tokens.all():
            is_shown = rules.is_asked_for(token, owners) and _may_see(services, context, token)
            yield _described(token, tokens.hmac(token.token_id)) if is_shown else None

    shown = [each for each in await in_slices(services.clock, described()) if each is not None]
    return DescribeResponse(tokens=shown)


def _may_see(services: Services, context: RequestContext, token: TokenInformation) -> bool:
    if rules.is_owner_or_renewer(token, _principal(context)):
        return True
    may = services.authorizer.may
    return may(context, Operation.DESCRIBE, Resource("DelegationToken", token.token_id)) or may(
        context, Operation.DESCRIBE_TOKENS, Resource(USER, str(token.owner))
    )


def _described(token: TokenInformation, hmac: bytes) -> Any:
    return DescribedToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedToken.DescribedDelegationTokenRenewer(principal_type=renewer.type, principal_name=renewer.name)
            for renewer in token.renewers
        ],
    )


def _check_allowed(context: RequestContext) -> None:
    """Raise ApiError unless the client is authenticated, without a token."""
    is_anonymous = context.security_protocol == "SSL" and context.principal == "User:ANONYMOUS"
    if context.token_authenticated or context.security_protocol == "PLAINTEXT" or is_anonymous:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _tokens(services: Services) -> Any:
    if services.delegation_tokens is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return services.delegation_tokens


def _principal(context: RequestContext) -> Principal:
    type_, _, name = context.principal.partition(":")
    return Principal(type_, name)
