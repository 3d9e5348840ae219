"""Masks secrets in znodes' data. Pure.

    /config/users/<user>               SCRAM keys, which allow a login as the user
    /config/brokers/<id>               passwords of key stores (encrypted with a key stored on the brokers)
    /delegation_token/tokens/<id>      the token's HMAC
    /kafka-zk/secret                   reveals which users exist

Other znodes in ``/config`` should contain no secrets; their keys that are named like secrets are masked. Data that
cannot be parsed are masked completely. Source: ZkData.scala in Kafka 3.9 (sensitiveRootPaths, UserConfig,
DelegationTokens).
"""

import re
from typing import Any

from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import json_codec

HIDDEN = "[hidden]"  # as Kafka's Password.HIDDEN

_SENSITIVE = re.compile(r"(?:^|/)(?:config/(?P<entity>users|brokers|topics|clients|ips)|delegation_token/tokens)/.")
_ALL_SECRET = re.compile(r"(?:^|/)kafka-zk/secret$")
_NAMED_LIKE_ONE = re.compile(r"password|secret|jaas|credential|token|certificate|hmac|scram|\.key$", re.IGNORECASE)
_OF_USERS = {
    "version", "config", "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
}  # fmt: skip
"""A user's keys that are not credentials."""


def may_hold_secrets(path: str) -> bool:
    """True if ``masked`` examines this path."""
    return bool(_SENSITIVE.search(path) or _ALL_SECRET.search(path))


def masked(path: str, data: bytes | None) -> bytes | None:
    """The data with all secrets masked; None for null data. ``path`` includes the chroot."""
    if data and _ALL_SECRET.search(path):
        return HIDDEN.encode()
    found = _SENSITIVE.search(path)
    if not found or not data:
        return data
    try:
        document = json_codec.decode_object(path, data)
    except InvalidZnode:
        return HIDDEN.encode()
    return json_codec.encode(_without(document, found["entity"]))


def _without(value: Any, entity: str | None) -> Any:
    if isinstance(value, dict):
        return {key: HIDDEN if _is_secret(key, entity) else _without(each, entity) for key, each in value.items()}
    if isinstance(value, list):
        return [_without(each, entity) for each in value]
    return value


def _is_secret(key: str, entity: str | None) -> bool:
    if entity == "users":
        return key not in _OF_USERS
    return bool(_NAMED_LIKE_ONE.search(key)) if entity is not None else key == "hmac"
