"""SASL OAUTHBEARER: the messages of both sides, and when a token has to be renewed. Pure.

A broker that refuses a token answers with a JSON document; the client then sends one byte and is told the document
again as the reason of the failure.

Source: RFC 7628; KIP-255; OAuthBearerClientInitialResponse.java, OAuthBearerSaslServer.java@3.9.
Tests: tests/kafka_zk/security/test_oauthbearer.py.
"""

import json
import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.password import Password

MECHANISM = "OAUTHBEARER"
_SEPARATOR = "\x01"
_AUTH = "auth"
_SASLNAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f\u0080-\U0010ffff]|=2C|=3D)+"
_KEY = r"[A-Za-z]+"
_VALUE = r"[\x21-\x7e \t\r\n]+"
_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,{_SEPARATOR}(?P<pairs>(?:{_KEY}={_VALUE}{_SEPARATOR})*){_SEPARATOR}"
)
_BEARER = re.compile(r"bearer +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)
_EXTENSION = re.compile(rf"{_KEY}={_VALUE}")


@dataclass(frozen=True, slots=True)
class Token:
    """An access token as a client has it.

    ``expires_ms``: since the epoch. ``started_ms``: when it was issued, None if that is not known.
    """

    value: Password
    expires_ms: int
    started_ms: int | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """What a client says first; ``authorization_id`` is empty if it asks for none."""

    token: Password
    authorization_id: str
    extensions: Mapping[str, str]


def oauthbearer_client(token: Token) -> Generator[bytes, bytes, None]:
    """Yields what the client sends; takes what the broker answers. Raises: SaslAuthenticationFailed for a token or an
    extension that cannot be sent."""
    pairs = [f"{key}={value}" for key, value in token.extensions.items()]
    if _BEARER.fullmatch(f"Bearer {token.value.value}") is None:
        raise SaslAuthenticationFailed("The token has characters that no bearer token has")
    if wrong := [key for key, pair in zip(token.extensions, pairs, strict=True) if _EXTENSION.fullmatch(pair) is None]:
        raise SaslAuthenticationFailed(f"The SASL extension {wrong[0]!r} has characters that are not allowed")
    answer = yield _SEPARATOR.join(["n,,", f"{_AUTH}=Bearer {token.value.value}", *pairs, "", ""]).encode()
    if answer:
        yield _SEPARATOR.encode()
        raise SaslAuthenticationFailed(_refusal(answer))


def client_first(message: bytes) -> ClientFirst:
    """Raises: SaslAuthenticationFailed, without the token in its message."""
    try:
        found = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise SaslAuthenticationFailed("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split(_SEPARATOR) if pair)
    bearer = _BEARER.fullmatch(pairs.pop(_AUTH, ""))
    if bearer is None:
        raise SaslAuthenticationFailed("Invalid OAUTHBEARER client first message: a bearer token is missing")
    authorization_id = (found["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return ClientFirst(Password(bearer["token"]), authorization_id, pairs)


def server_error(status: str = "invalid_token", scope: str | None = None) -> bytes:
    """What a broker answers to a token that it refuses, and tells as the reason when the client has sent its byte."""
    document = {"status": status} if scope is None else {"status": status, "scope": scope}
    return json.dumps(document, separators=(",", ":") if scope is None else (", ", ":")).encode()


def is_end_after_error(message: bytes) -> bool:
    """Whether a client has taken note of an error."""
    return message == _SEPARATOR.encode()


def renewal_ms(token: Token, now_ms: int, factor: float = 0.8, least_ms: int = 60_000) -> int:
    """When a token should be fetched again, in ms since the epoch.

    Source: ExpiringCredentialRefreshingLogin.java@3.9 (sasl.login.refresh.window.factor, .min.period.seconds).
    """
    started_ms = now_ms if token.started_ms is None else token.started_ms
    wanted_ms = started_ms + int((token.expires_ms - started_ms) * factor)
    return max(wanted_ms, min(now_ms + least_ms, token.expires_ms))


def _refusal(answer: bytes) -> str:
    try:
        status = json.loads(answer)["status"]
    except (ValueError, KeyError, TypeError):
        status = "an answer that is not understood"
    return f"The broker refused the token: {status}"
