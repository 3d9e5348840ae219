"""The quotas in ZooKeeper. For each quota key, the first of these znodes that has the key applies:

1. ``/config/users/<u>/clients/<c>``  2. ``/config/users/<u>/clients/<default>``  3. ``/config/users/<u>``
4. ``/config/users/<default>/clients/<c>``  5. ``/config/users/<default>/clients/<default>``
6. ``/config/users/<default>``  7. ``/config/clients/<c>``  8. ``/config/clients/<default>``

Each pair of user and client id has its own quota; all client ids of a user share the user's quota, and all users share
a client id's quota. The same holds for default entities. An empty client id has only its user's quotas.

Pure. Names are encoded as in paths. Source: ClientQuotaManager.DefaultQuotaCallback, QuotaConfigs.java@3.9.
"""

import math
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from kafka_zk.registry.znodes.config import DEFAULT_ENTITY, desanitize, sanitize

IP_KEY = "connection_creation_rate"
UNLIMITED_RATE = 2**31 - 1  # connections per second

_LONG_MAX = 2**63 - 1


class QuotaKey(Enum):
    """The keys of quotas for users and clients."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"


WHOLE_NUMBERS = {QuotaKey.PRODUCE.value: "LONG", QuotaKey.FETCH.value: "LONG", IP_KEY: "INT"}
"""Kafka's types of the keys that have integer values."""


class Owner(NamedTuple):
    """The clients that share a measured rate. Names are encoded; an empty name stands for any name."""

    user: str
    client: str


class Match(NamedTuple):
    """The quota of a client. ``bound``: in the unit of the quota's key. ``path``: the znode path of the quota's entity,
    relative to ``/config``."""

    bound: float
    owner: Owner
    path: str


class QuotaTable:
    """The quotas of users and clients."""

    def __init__(self) -> None:
        self._values: dict[str, dict[QuotaKey, float]] = {}
        self._counts = dict.fromkeys(QuotaKey, 0)  # entities with each key

    def set(self, entity_type: str, entity_name: str, properties: Mapping[str, str]) -> list[str]:
        """Replace the quotas of an entity (``users`` or ``clients``). Returns a sentence per invalid value."""
        path = f"{entity_type}/{canonical(entity_name)}"
        for key in self._values.pop(path, {}):
            self._counts[key] -= 1
        values, faults = {}, []
        for key in QuotaKey:
            if key.value in properties:
                try:
                    values[key] = parse_bound(properties[key.value])
                except ValueError as error:
                    faults.append(f"/config/{path}: {key.value}: {error}")
        for key in values:
            self._counts[key] += 1
        if values:
            self._values[path] = values
        return faults

    def has(self, key: QuotaKey) -> bool:
        """True if any entity has a quota of this kind."""
        return self._counts[key] > 0

    @property
    def is_empty(self) -> bool:
        return not self._values

    @property
    def names(self) -> list[tuple[str, str]]:
        """(type, name) of each entity with a quota."""
        return [(entity_type, name) for entity_type, _, name in (path.partition("/") for path in self._values)]

    def find(self, key: QuotaKey, user: str, client_id: str) -> Match | None:
        """The quota for this user and client id, which are not encoded. None if the quota is unlimited or not set."""
        if not self._counts[key]:
            return None
        for path, owner in candidates(sanitize(user), sanitize(client_id)):
            bound = self._values.get(path, {}).get(key)
            if bound is not None:
                return None if math.isinf(bound) else Match(bound, owner, path)
        return None


def candidates(user: str, client: str) -> Iterator[tuple[str, Owner]]:
    """The entities whose quota applies to encoded names, by precedence."""
    of_user, of_client, of_both = Owner(user, ""), Owner("", client), Owner(user, client)
    for name in (user, DEFAULT_ENTITY):
        if client:
            yield f"users/{name}/clients/{client}", of_both
            yield f"users/{name}/clients/{DEFAULT_ENTITY}", of_both
        yield f"users/{name}", of_user
    if client:
        yield f"clients/{client}", of_client
        yield f"clients/{DEFAULT_ENTITY}", of_client


def canonical(entity_name: str) -> str:
    """An entity's name in this broker's encoding. Other tools may encode more or fewer characters."""
    return "/".join(part if part == DEFAULT_ENTITY else sanitize(desanitize(part)) for part in entity_name.split("/"))


def parse_bound(text: str) -> float:
    """Parse a bound from a znode; negative values count as 0. Raises ValueError."""
    bound = float(text)
    if math.isnan(bound):
        raise ValueError(f"{text} is not a valid number")
    return math.inf if bound >= _LONG_MAX else max(bound, 0.0)
