"""Validates OAUTHBEARER tokens on the broker. Pure.

Kafka's default accepts unsecured tokens. Any client can make such tokens, so use it only for tests and development.
Source: OAuthBearerUnsecuredValidatorCallbackHandler.java, OAuthBearerValidationUtils.java@3.9.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from kafka_zk.security.errors import InvalidSecurity

_TIME_LIMIT_S = 2**53
_PART = re.compile(r"[A-Za-z0-9_-]*")


class RefusedToken(Exception):
    """The message is for the log and contains no part of the token; the client gets ``status`` and ``scope``."""

    def __init__(self, message: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.scope = scope


@dataclass(frozen=True, slots=True)
class ValidToken:
    """``expires_ms``: since the epoch."""

    principal_name: str
    expires_ms: int


class TokenValidator(Protocol):
    def validate(self, token: str, now_ms: int) -> ValidToken:
        """``now_ms``: since the epoch. Raises RefusedToken."""


class Jws(NamedTuple):
    """``signed``: what ``signature`` covers."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes


def parse(token: str) -> Jws:
    """Parse a token in compact form. Raises RefusedToken."""
    parts = token.split(".")
    if len(parts) != 3 or not all(map(_PART.fullmatch, parts)):
        raise RefusedToken("the token is not of the form header.claims.signature in base64url")
    try:
        decoded = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in parts]
        header, claims = (json.loads(part) for part in decoded[:2])
    except (ValueError, RecursionError):
        raise RefusedToken("the token's parts are not JSON in base64url") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise RefusedToken("the token's parts are not JSON objects")
    return Jws(header, claims, f"{parts[0]}.{parts[1]}".encode(), decoded[2])


def time_ms(claims: Mapping[str, Any], name: str, *, needed: bool = True) -> int | None:
    """A claim that is a time, in ms since the epoch; None if it is absent and not ``needed``. Raises RefusedToken."""
    value = claims.get(name)
    if value is None and not needed:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _TIME_LIMIT_S:
        raise RefusedToken(f"the claim {name} is missing or not a time")
    return round(value * 1000)


def principal_name(claims: Mapping[str, Any], name: str) -> str:
    """Raises RefusedToken if the claim is missing or not a valid string."""
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip():
        raise RefusedToken(f"the claim {name} with the principal's name is missing")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise RefusedToken(f"the claim {name} has an unpaired surrogate, which no principal's name can have")
    return value


def check_times(issued_ms: int | None, expires_ms: int, now_ms: int, skew_ms: int) -> None:
    """Check both times with a tolerance of ``skew_ms``. Raises RefusedToken."""
    if issued_ms is not None and issued_ms > now_ms + skew_ms:
        raise RefusedToken("the token is not valid yet")
    if now_ms - skew_ms >= expires_ms:
        raise RefusedToken("the token has expired")
    if issued_ms is not None and expires_ms <= issued_ms:
        raise RefusedToken("the token expires before it is issued")


class UnsecuredTokens:
    """``options``: the login module's options, of which those named ``unsecuredValidator…`` are read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Raises InvalidSecurity."""
        self._principal_claim = options.get("unsecuredValidatorPrincipalClaimName", "").strip() or "sub"
        self._scope_claim = options.get("unsecuredValidatorScopeClaimName", "").strip() or "scope"
        self._required_scope = options.get("unsecuredValidatorRequiredScope", "").split()
        text = options.get("unsecuredValidatorAllowableClockSkewMs", "").strip() or "0"
        if not re.fullmatch("[0-9]{1,10}", text):
            raise InvalidSecurity(f"unsecuredValidatorAllowableClockSkewMs={text}: must be a number of ms")
        self._skew_ms = int(text)

    def validate(self, token: str, now_ms: int) -> ValidToken:
        jws = parse(token)
        if jws.header.get("alg") != "none" or jws.signature:
            raise RefusedToken("the token is signed, but this listener accepts only unsecured tokens (algorithm none)")
        user = principal_name(jws.claims, self._principal_claim)
        expires_ms = time_ms(jws.claims, "exp")
        assert expires_ms is not None, "needed"
        check_times(time_ms(jws.claims, "iat", needed=False), expires_ms, now_ms, self._skew_ms)
        if not set(self._required_scope) <= _scope(jws.claims.get(self._scope_claim)):
            as_java_prints_it = f"[{', '.join(self._required_scope)}]"
            raise RefusedToken("a required scope is missing", "insufficient_scope", as_java_prints_it)
        return ValidToken(user, expires_ms)


def _scope(claim: Any) -> set[str]:
    """The scopes in a claim: as in Kafka, a string is one scope, even with spaces."""
    words = [claim.strip()] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return {word for word in words if isinstance(word, str)}
