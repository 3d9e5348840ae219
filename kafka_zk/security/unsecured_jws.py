"""Unsecured JSON Web Tokens, Kafka's default for OAUTHBEARER, only for tests and development. Pure.

Any client can make one: the algorithm is ``none``, the signature empty.
Source: RFC 7515; OAuthBearerUnsecuredJws.java, OAuthBearerUnsecuredLoginCallbackHandler.java@3.9.
"""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.oauthbearer import Token
from kafka_zk.security.password import Password
from kafka_zk.security.token_validation import RefusedToken, parse

_LOGIN_CLAIMS: Mapping[str, Callable[[str], Any]] = {
    "unsecuredLoginStringClaim_": str,
    "unsecuredLoginNumberClaim_": float,
    "unsecuredLoginListClaim_": lambda text: text[1:].split(text[0]) if text else [],
}
_EXTENSION = "unsecuredLoginExtension_"


class InvalidToken(SaslAuthenticationFailed):
    """The string is not a token."""


def claims_of(token: str) -> dict[str, Any]:
    """The claims of a compact JWS, without checking its signature. Raises InvalidToken, without the token in its
    message."""
    try:
        return dict(parse(token).claims)
    except RefusedToken as error:
        raise InvalidToken(str(error)) from None


def unsecured_token(options: Mapping[str, str], now_ms: int) -> Token:
    """Create the token that the options of a JAAS login module describe, for example
    ``unsecuredLoginStringClaim_sub="alice"``.

    Raises ValueError, which names the option.
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
    """Encode a compact JWS without a signature."""
    return ".".join([_encoded(header), _encoded(claims), ""])


def _encoded(document: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(document, separators=(",", ":")).encode()).decode().rstrip("=")
