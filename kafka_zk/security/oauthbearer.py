"""The client's side of SASL OAUTHBEARER, and when tokens are renewed. Pure.

A broker rejects a token with a JSON document; the client then sends one byte and gets the document again.

Source: RFC 7628; KIP-255; OAuthBearerClientInitialResponse.java, OAuthBearerSaslClient.java@3.9.
"""

import json
import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.password import Password

_SEPARATOR = "\x01"
_RENEWAL_FACTOR = 0.8
_LEAST_MS = 60_000
_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_EXTENSION = re.compile(r"[A-Za-z]+=[\x21-\x7e \t\r\n]+")


@dataclass(frozen=True, slots=True)
class Token:
    """An access token on the client's side.

    Attributes:
        expires_ms: since the epoch.
        started_ms: time of issue, since the epoch, if known.
        extensions: SASL extensions sent with the token.
    """

    value: Password
    expires_ms: int
    started_ms: int | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)


def oauthbearer_client(token: Token) -> Generator[bytes, bytes, None]:
    """Yields messages; send the responses. Raises SaslAuthenticationFailed if the broker rejects the token, or for
    invalid characters."""
    pairs = [f"{key}={value}" for key, value in token.extensions.items()]
    if _TOKEN.fullmatch(token.value.value) is None:
        raise SaslAuthenticationFailed("The token contains characters that are invalid in a bearer token")
    if wrong := [key for key, pair in zip(token.extensions, pairs, strict=True) if _EXTENSION.fullmatch(pair) is None]:
        raise SaslAuthenticationFailed(f"The SASL extension {wrong[0]!r} contains characters that are not allowed")
    answer = yield _SEPARATOR.join(["n,,", f"auth=Bearer {token.value.value}", *pairs, "", ""]).encode()
    if answer:
        yield _SEPARATOR.encode()
        raise SaslAuthenticationFailed(_refusal(answer))


def renewal_ms(token: Token, now_ms: int) -> int:
    """When to fetch the token again, in ms since the epoch.

    Source: ExpiringCredentialRefreshingLogin.java@3.9 (sasl.login.refresh.window.factor, .min.period.seconds).
    """
    started_ms = now_ms if token.started_ms is None else token.started_ms
    wanted_ms = started_ms + int((token.expires_ms - started_ms) * _RENEWAL_FACTOR)
    return max(wanted_ms, min(now_ms + _LEAST_MS, token.expires_ms))


def _refusal(answer: bytes) -> str:
    try:
        return f"The broker refused the token: {json.loads(answer)['status']}"
    except (ValueError, KeyError, TypeError):
        return "The broker refused the token without giving a status"
