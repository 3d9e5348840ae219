"""Quota entities in APIs and znode paths, and the values of their quotas.

An entity is a user, a client id, both, or an address; the name None is the default. Pure. Source: ClientQuotaEntity,
ZkAdminManager.parseAndSanitizeQuotaEntity and alterClientQuotas, DynamicConfig.scala@3.9.
"""

import contextlib
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka_zk.broker.quota.quota_table import IP_KEY, WHOLE_NUMBERS, QuotaKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.znodes.config import DEFAULT_ENTITY, desanitize, sanitize

USER, CLIENT_ID, IP = "user", "client-id", "ip"

CLIENT_KEYS = tuple(key.value for key in QuotaKey)

_EPSILON = 1e-6  # Kafka's tolerance for integers in float64
_MOST = {"LONG": 2**63 - 1, "INT": 2**31 - 1}

Entity = Mapping[str, str | None]
"""Entity type -> name; None: the default."""


class Place(NamedTuple):
    """The znode of an entity's configuration; ``name`` is encoded."""

    entity_type: str
    name: str

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that are allowed in this znode."""
        return (IP_KEY,) if self.entity_type == "ips" else CLIENT_KEYS


def place_of(entity: Iterable[tuple[str, str | None]]) -> Place:
    """The place of (type, name) pairs. Raises ApiError(INVALID_REQUEST) with Kafka's message."""
    names: dict[str, str] = {}
    for entity_type, name in entity:
        if entity_type not in (USER, CLIENT_ID, IP):
            raise _refusal(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise _refusal(f"Empty {entity_type} not supported")
        names[entity_type] = DEFAULT_ENTITY if name is None else sanitize(name)
    match names:
        case {"user": user, "client-id": client} if IP not in names:
            return Place("users", f"{user}/clients/{client}")
        case {"ip": address}:
            if len(names) > 1:
                raise _refusal(
                    "Invalid quota entity combination, IP entity should not be used with user/client ID entity."
                )
            return Place("ips", address)
        case {"user": user}:
            return Place("users", user)
        case {"client-id": client}:
            return Place("clients", client)
        case _:
            raise _refusal("Invalid empty client quota entity")


def entity_at(place: Place) -> dict[str, str | None]:
    first, _, client = place.name.partition("/clients/")
    if place.entity_type == "users":
        user = {USER: _name(first)}
        return {**user, CLIENT_ID: _name(client)} if client else user
    return {CLIENT_ID if place.entity_type == "clients" else IP: _name(first)}


def _name(encoded: str) -> str | None:
    return None if encoded == DEFAULT_ENTITY else desanitize(encoded)


def check_key(place: Place, key: str) -> None:
    """Raise ApiError(INVALID_REQUEST) unless the key is a quota. Other keys must not be removed either, because a
    user's znode also has passwords, which need another permission. (Kafka removes any key.)"""
    if key not in place.keys:
        raise _refusal(f"Invalid configuration key {key}")


def value_text(place: Place, key: str, value: float) -> str:
    """Format a value for a znode. Raises ApiError(INVALID_REQUEST)."""
    check_key(place, key)
    kind = WHOLE_NUMBERS.get(key)
    if kind is not None:
        value = _whole(key, kind, value)
        text = str(value)
    else:
        if math.isnan(value) or math.isinf(value) or value < 0:
            raise _refusal(f"Configuration {key} must be a number above 0")
        text = java_double(value)
    if value == 0 and key != IP_KEY:
        raise _refusal(f"Configuration {key} must be above 0; to stop clients, use ACLs")
    return text


def _whole(key: str, kind: str, value: float) -> int:
    is_near = math.isfinite(value) and abs(int(value + _EPSILON) - value) <= _EPSILON
    if not is_near or not 0 <= int(value + _EPSILON) <= _MOST[kind]:
        raise _refusal(f"Configuration {key} must be a {kind} value")
    return int(value + _EPSILON)


def values_of(place: Place, properties: Mapping[str, str]) -> dict[str, float]:
    """The quotas in a configuration, without invalid numbers, which brokers log."""
    values = {}
    for key in place.keys:
        with contextlib.suppress(KeyError, ValueError):
            values[key] = float(properties[key])
    return {key: value for key, value in values.items() if not math.isnan(value)}


def java_double(value: float) -> str:
    """Format a number like Java's Double.toString: ``50.0``, ``1.0E7``."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    mantissa, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        digits = mantissa.replace(".", "").strip("0")
        mantissa, _, exponent = f"{value:.{len(digits) - 1}e}".partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def changed(present: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Apply changes to a configuration; None removes a key."""
    merged: dict[str, str | None] = {**present, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def _refusal(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
