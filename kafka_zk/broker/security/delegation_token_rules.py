"""The rules for who may create, renew, expire and describe a delegation token, and for how long (KIP-48). Pure.

An expired token cannot authenticate, even before the controller deletes it; Kafka does not check this.
Source: DelegationTokenManager.scala, DelegationTokenManagerZk.scala@3.9.
"""

import base64
import hmac
from collections.abc import Collection
from dataclasses import dataclass

from kafka_zk.base.integers import INT64
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.znodes.delegation_token import Principal, TokenInformation

ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """``max_lifetime_ms``: delegation.token.max.lifetime.ms; ``expiry_time_ms``: delegation.token.expiry.time.ms."""

    max_lifetime_ms: int
    expiry_time_ms: int


def hmac_of(secret: bytes, token_id: str) -> bytes:
    """The token's HMAC; its base64 is the SCRAM password."""
    return hmac.digest(secret, token_id.encode(), "sha512")


def token_id_of(random_bytes: bytes) -> str:
    """The id for ID_BYTES random bytes."""
    return base64.urlsafe_b64encode(random_bytes).decode().rstrip("=")


def new_token(
    token_id: str,
    owner: Principal,
    requester: Principal,
    renewers: Collection[Principal],
    lifetime_ms: int,
    now_ms: int,
    limits: TokenLimits,
) -> TokenInformation:
    """``lifetime_ms``: the requested lifetime; 0 or less: the maximum."""
    longest_ms = limits.max_lifetime_ms if lifetime_ms <= 0 else min(lifetime_ms, limits.max_lifetime_ms)
    max_ms = min(now_ms + longest_ms, INT64[-1])
    expiry_ms = min(max_ms, now_ms + limits.expiry_time_ms)
    return TokenInformation(token_id, owner, requester, tuple(renewers), now_ms, max_ms, expiry_ms)


def is_expired(token: TokenInformation, now_ms: int) -> bool:
    return token.max_ms < now_ms or token.expiry_ms < now_ms


def renewed(
    token: TokenInformation, principal: Principal, period_ms: int, now_ms: int, limits: TokenLimits
) -> TokenInformation:
    """The token with its expiry ``period_ms`` from now; negative: the default time. Raises ApiError."""
    _check_owner_or_renewer(token, principal)
    _check_alive(token, now_ms)
    return _expiring(token, now_ms, limits.expiry_time_ms if period_ms < 0 else period_ms)


def ended(token: TokenInformation, principal: Principal, period_ms: int, now_ms: int) -> TokenInformation | None:
    """The token with its expiry ``period_ms`` from now; None if ``period_ms`` is negative, which deletes it. Raises
    ApiError."""
    _check_owner_or_renewer(token, principal)
    if period_ms < 0:
        return None
    _check_alive(token, now_ms)
    return _expiring(token, now_ms, period_ms)


def is_owner_or_renewer(token: TokenInformation, principal: Principal) -> bool:
    return principal == token.owner or principal in token.renewers


def is_asked_for(token: TokenInformation, owners: frozenset[Principal] | None) -> bool:
    """True if a request for ``owners`` (None: all) includes the token."""
    return owners is None or token.owner in owners or not owners.isdisjoint(token.renewers)


def _expiring(token: TokenInformation, now_ms: int, period_ms: int) -> TokenInformation:
    return token._replace(expiry_ms=min(token.max_ms, now_ms + period_ms))


def _check_owner_or_renewer(token: TokenInformation, principal: Principal) -> None:
    if not is_owner_or_renewer(token, principal):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _check_alive(token: TokenInformation, now_ms: int) -> None:
    if is_expired(token, now_ms):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
