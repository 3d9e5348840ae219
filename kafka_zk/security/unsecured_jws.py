"""Unsecured JSON web tokens: Kafka's default tokens of OAUTHBEARER, for tests and development only. Pure.

Anybody can make one: the algorithm is ``none`` and the signature is empty.
Source: RFC 7515; OAuthBearerUnsecuredJws.java, OAuthBearerUnsecuredLoginCallbackHandler.java,
OAuthBearerUnsecuredValidatorCallbackHandler.java@3.9. Tests: tests/kafka_zk/security/test_unsecured_jws.py.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.oauthbearer import Token
from kafka_zk.security.password import Password

_LOGIN_CLAIMS: Mapping[str, Callable[[str], Any]] = {
    "unsecuredLoginStringClaim_": str,
    "unsecuredLoginNumberClaim_": float,
    "unsecuredLoginListClaim_": lambda text: text[1:].split(text[0]) if text else [],
}
_EXTENSION = "unsecuredLoginExtension_"


class InvalidToken(SaslAuthenticationFailed):
    """A token is refused; ``status`` and ``scope`` are what the client is told."""

    def __init__(self, message: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.scope = scope


@dataclass(frozen=True, slots=True)
class ValidToken:
    """What a broker takes from a token; ``expires_ms`` since the epoch."""

    principal_name: str
    expires_ms: int
    scope: frozenset[str]


def claims_of(token: str) -> dict[str, Any]:
    """The claims of a compact JWS, whoever signed it. Raises: InvalidToken."""
    return _parts(token)[1]


def unsecured_token(options: Mapping[str, str], now_ms: int) -> Token:
    """The token that the options of a JAAS login module describe, such as ``unsecuredLoginStringClaim_sub="alice"``.

    Raises: ValueError, naming the option.
    """
    claims: dict[str, Any] = {}
    for key, value in options.items():
        for prefix, read in _LOGIN_CLAIMS.items():
            if key.startswith(prefix):
                try:
                    claims[key.removeprefix(prefix)] = read(value)
                except ValueError:
                    raise ValueError(f"{key}: {value!r} is not a number") from None
    principal_claim = options.get("unsecuredLoginPrincipalClaimName", "sub")
    if not isinstance(claims.get(principal_claim), str):
        raise ValueError(f'unsecuredLoginStringClaim_{principal_claim}="…" is needed: it says who the client is')
    try:
        lifetime_ms = int(options.get("unsecuredLoginLifetimeSeconds", "3600")) * 1000
    except ValueError:
        raise ValueError("unsecuredLoginLifetimeSeconds: a whole number is needed") from None
    claims.setdefault("iat", now_ms / 1000)
    claims.setdefault("exp", (now_ms + lifetime_ms) / 1000)
    extensions = {key.removeprefix(_EXTENSION): value for key, value in options.items() if key.startswith(_EXTENSION)}
    return Token(Password(encode({"alg": "none"}, claims)), int(claims["exp"] * 1000), now_ms, extensions)


def encode(header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    """A compact JWS without a signature."""
    return ".".join([_encoded(header), _encoded(claims), ""])


def validate_unsecured(token: str, now_ms: int, options: Mapping[str, str] | None = None) -> ValidToken:
    """Check a token as Kafka's default validator does.

    Args:
        options: ``unsecuredValidator…`` of the broker's JAAS login module.
    Raises: InvalidToken, without the token in its message.
    """
    options = options or {}
    header, claims, signature = _parts(token)
    if header.get("alg") != "none" or signature:
        raise InvalidToken("the token is signed: algorithm none is expected")
    skew_ms = int(options.get("unsecuredValidatorAllowableClockSkewMs", "0"))
    issued_ms, expires_ms = (_time_ms(claims, name) for name in ("iat", "exp"))
    if expires_ms is None:
        raise InvalidToken("the claim exp is missing")
    if issued_ms is not None and issued_ms > now_ms + skew_ms:
        raise InvalidToken("the token is not valid yet")
    if now_ms - skew_ms >= expires_ms:
        raise InvalidToken("the token has expired")
    if issued_ms is not None and expires_ms <= issued_ms:
        raise InvalidToken("the token expires before it is issued")
    principal = claims.get(options.get("unsecuredValidatorPrincipalClaimName", "sub"))
    if not isinstance(principal, str) or not principal.strip():
        raise InvalidToken("the claim with the principal's name is missing")
    scope = _scope(claims.get(options.get("unsecuredValidatorScopeClaimName", "scope")))
    required = frozenset(options.get("unsecuredValidatorRequiredScope", "").split())
    if not required <= scope:
        raise InvalidToken("a required scope is missing", "insufficient_scope", f"[{', '.join(sorted(required))}]")
    return ValidToken(principal, expires_ms, scope)


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**53:
        raise InvalidToken(f"the claim {name} is not a time")
    return int(value * 1000)


def _scope(claim: Any) -> frozenset[str]:
    words = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return frozenset(word for word in words if isinstance(word, str))


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    parts = token.split(".")
    if len(parts) != 3:
        raise InvalidToken("the token is not of the form header.claims.signature")
    try:
        header, claims = (json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in parts[:2])
    except (ValueError, RecursionError):
        raise InvalidToken("the token's parts are not JSON in base64url") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise InvalidToken("the token's parts are not JSON objects")
    return header, claims, parts[2]


def _encoded(document: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(document, separators=(",", ":")).encode()).decode().rstrip("=")
