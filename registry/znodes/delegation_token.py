"""``/delegation_token/tokens/<token id>`` and ``/delegation_token/token_changes/token_change_N`` (what changed).

    {"version":3,"owner":"User%3Aalice","tokenRequester":"User%3Aalice","renewers":["User%3Abob"],
     "issueTimestamp":1795737658262,"maxTimestamp":1795738258262,"expiryTimestamp":1795738258262,"tokenId":"BDfo…"}

Principals are percent-encoded. Before version 3, the requester is the owner. A notification contains the token's id.
The HMAC is derived from the id, and not stored.

Source: DelegationTokenManagerZk.scala, DelegationTokenChangeNotificationZNode in ZkData.scala@3.9.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka_zk.base.integers import INT64
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import json_codec
from kafka_zk.registry.znodes.config import desanitize, sanitize

TOKENS = "/delegation_token/tokens"
CHANGES = "/delegation_token/token_changes"
CHANGE_PREFIX = "token_change_"
MOST_RENEWERS = 1000
"""Maximum number of renewers per token, as in requests; Kafka's limit is the znode's size."""

USER = "User"
"""The type of the principals that can log in."""

_VERSION = 3


class Principal(NamedTuple):
    """``type``: normally USER, but requests and znodes may have others."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


class TokenInformation(NamedTuple):
    """Times: ms since the epoch; renewable until ``max_ms``."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issue_ms: int
    max_ms: int
    expiry_ms: int


def token_path(token_id: str) -> str:
    return f"{TOKENS}/{token_id}"


def encode(token: TokenInformation) -> bytes:
    return json_codec.encode(
        {
            "version": _VERSION,
            "owner": sanitize(str(token.owner)),
            "tokenRequester": sanitize(str(token.requester)),
            "renewers": [sanitize(str(renewer)) for renewer in token.renewers],
            "issueTimestamp": token.issue_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expiry_ms,
            "tokenId": token.token_id,
        }
    )


def decode(path: str, data: bytes | None) -> TokenInformation:
    """Raises InvalidZnode."""
    document = json_codec.decode_object(path, data)
    if json_codec.version(path, document) > _VERSION:
        raise InvalidZnode(f"{path}: version {document['version']} is not known")
    owner = _principal(path, json_codec.text(path, document, "owner"))
    requester = json_codec.optional_text(path, document, "tokenRequester")
    issue_ms, max_ms, expiry_ms = (
        json_codec.integer(path, document, key, within=INT64)
        for key in ("issueTimestamp", "maxTimestamp", "expiryTimestamp")
    )
    token_id = json_codec.text(path, document, "tokenId")
    if path != token_path(token_id):
        raise InvalidZnode(f"{path}: its content is that of another token, {json_codec.shown(token_id)}")
    return TokenInformation(
        token_id,
        owner,
        owner if requester is None else _principal(path, requester),
        _renewers(path, document.get("renewers")),
        issue_ms,
        max_ms,
        expiry_ms,
    )


def _renewers(path: str, listed: Any) -> tuple[Principal, ...]:
    names: Sequence[str] = json_codec.text_list(path, "renewers", listed)
    if len(names) > MOST_RENEWERS:
        raise InvalidZnode(f"{path}: {len(names)} renewers; at most {MOST_RENEWERS} are allowed")
    return tuple(_principal(path, json_codec.text(path, {"renewers": name}, "renewers")) for name in names)


def _principal(path: str, text: str) -> Principal:
    type_, separator, name = desanitize(text).partition(":")
    if not separator:
        raise InvalidZnode(f"{path}: {json_codec.shown(text)} is not of the form type:name")
    return Principal(type_, name)


def encode_change(token_id: str) -> bytes:
    return token_id.encode()


def decode_change(path: str, data: bytes | None) -> str:
    """The token id in a notification. Raises InvalidZnode."""
    token_id = (data or b"").decode(errors="replace")
    if not token_id or "/" in token_id or "\0" in token_id or token_id in (".", ".."):
        raise InvalidZnode(f"{path}: {json_codec.shown(data)} names no token")
    return token_id
