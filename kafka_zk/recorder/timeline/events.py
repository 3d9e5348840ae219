"""Events of an outside observer of a group, without the members' own reasons. Pure.

In a ZooKeeper group the observer sees changes of znodes; in a broker-coordinated group its states, and the records of
generations in ``__consumer_offsets``. The members' events are in ``rebalance.events`` and ``registry.client.events``,
the group coordinator's in ``group.events``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.events import RegistryEvent

OBSERVER = "observer"
FIRST_LOOK = "there at the first look"
"""The cause given for everything that existed when the observer began."""


@dataclass(frozen=True, slots=True)
class FirstLook(RegistryEvent):
    """The observer begins. Exactly these members are in the group, regardless of old traces."""

    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemberSeen(RegistryEvent):
    """A member is registered under ``ids``. ``announces``: its strategies; empty for members of other kinds."""

    consumer_id: str
    announces: str


@dataclass(frozen=True, slots=True)
class MemberGone(RegistryEvent):
    """A member's registration was deleted: it left, or its session ended."""

    consumer_id: str


@dataclass(frozen=True, slots=True)
class OwnersSeen(RegistryEvent):
    """A thread owns these partitions now. ``offsets``: the committed ones (-1: none)."""

    owner: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OwnersGone(RegistryEvent):
    """The owner znodes of partitions that this thread owned were deleted."""

    owner: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class AssignmentSeen(RegistryEvent):
    """The group's leader wrote an assignment."""

    generation: int
    strategy: str
    leader: str


class SeenMember(NamedTuple):
    """A member of a broker-coordinated group: the partitions that it still owned when it joined, and its new ones."""

    member: str
    owned: tuple[TopicPartition, ...]
    assigned: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class StateSeen(Event):
    """A broker-coordinated group is in a new state (Kafka's name for it)."""

    state: str


@dataclass(frozen=True, slots=True)
class GenerationSeen(Event):
    """A broker-coordinated group has these members and assignments now.

    The source is the record of a generation, with the broker's time; at first, the coordinator's description, without a
    generation (-1). ``joined_ms``: when all members had joined, -1 if unknown.
    """

    generation: int
    protocol: str
    leader: str
    joined_ms: int
    members: tuple[SeenMember, ...]
