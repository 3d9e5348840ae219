"""The part of a cluster's metadata that both ZooKeeper and KRaft store. Pure.

``replay`` makes an image from the metadata log, ``znode_image`` makes one from the znodes, and ``comparison`` compares
both. Controller epochs and partition epochs are left out, because they differ by nature.
"""

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_zk.migration.facts import Unknown
from kafka_zk.security.acl import Acl, Pattern
from kafka_zk.security.scram import ScramCredential


class Kind(enum.StrEnum):
    TOPIC = "topic"
    PARTITION = "partition"
    CONFIG = "configuration"
    ACL = "ACL"
    SCRAM = "SCRAM user"
    QUOTA = "quota"
    TOKEN = "delegation token"
    PRODUCER_IDS = "producer ids"


NO_STATE = -1


class PartitionState(NamedTuple):
    """``isr`` is sorted; ``leader``: -1 without a leader; ``leader_epoch``: NO_STATE without a ``state`` znode."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    leader_recovery_state: int


class Token(NamedTuple):
    """A delegation token without its HMAC, which neither side stores. Times: ms since the epoch."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int
    expiry_ms: int


QUOTAS = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
    "connection_creation_rate",
)  # fmt: skip

TOPIC, BROKER = "topic", "broker"
"""Types of entities that have a configuration."""
DEFAULT = "<default>"

Entity = tuple[tuple[str, str | None], ...]
"""A quota's entity: (type, name) pairs. The types are user, client-id and ip; the name None is the default entity."""


@dataclass(slots=True)
class MetadataImage:
    """``topics``: name -> id, 22 characters. ``partitions``: (topic, number) -> state. ``configs``: (type, name) -> key
    -> value. ``users``: (user, mechanism) -> credential. ``next_producer_id``: None if no id was assigned.

    Only an image of znodes has ``malformed``, (kind, name) -> sentence, and ``unread``, the facts that could not be
    read.
    """

    topics: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], PartitionState] = field(default_factory=dict)
    configs: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    acls: set[tuple[Pattern, Acl]] = field(default_factory=set)
    users: dict[tuple[str, str], ScramCredential] = field(default_factory=dict)
    quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    next_producer_id: int | None = None
    malformed: dict[tuple[Kind, str], str] = field(default_factory=dict)
    unread: dict[Kind, Unknown] = field(default_factory=dict)


def entity_name(entity: Entity) -> str:
    """``user alice, client-id <default>``."""
    return ", ".join(f"{kind} {DEFAULT if name is None else name}" for kind, name in entity)


def config_name(entity: tuple[str, str]) -> str:
    return f"{entity[0]} {entity[1] or DEFAULT}"
