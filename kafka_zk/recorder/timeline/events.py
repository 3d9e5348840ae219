"""What an outside observer sees of a group, without the members' own reasons.

Of a ZooKeeper group it sees changes of znodes; of a broker's group its state, and each generation's record in
``__consumer_offsets``. The members' own events are those of ``rebalance.events`` and ``registry.client.events``, the
group coordinator's those of ``group.events``. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.events import RegistryEvent

OBSERVER = "observer"
"""The actor of these events."""
FIRST_LOOK = "there at the first look"
"""The cause of what was there already when the observer began."""


@dataclass(frozen=True, slots=True)
class FirstLook(RegistryEvent):
    """The observer begins; these members are there, and no others, whatever old traces say."""

    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemberSeen(RegistryEvent):
    """A member stands under ``ids``; ``announces`` says what it can, empty for one that is not ours."""

    consumer_id: str
    announces: str


@dataclass(frozen=True, slots=True)
class MemberGone(RegistryEvent):
    """A member's registration is gone: it left, or its session ended."""

    consumer_id: str


@dataclass(frozen=True, slots=True)
class OwnersSeen(RegistryEvent):
    """Partitions belong to a thread now; ``offsets`` is what is committed for each (-1: nothing)."""

    owner: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OwnersGone(RegistryEvent):
    """The owner znodes of partitions are gone, which this thread had."""

    owner: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class AssignmentSeen(RegistryEvent):
    """The group's leader wrote an assignment."""

    generation: int
    strategy: str
    leader: str


class SeenMember(NamedTuple):
    """A member of a broker's group: what it had not given back when it joined this generation, and what it got."""

    member: str
    owned: tuple[TopicPartition, ...]
    assigned: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class StateSeen(Event):
    """A broker's group is found in another state than before (Kafka's name for it)."""

    state: str


@dataclass(frozen=True, slots=True)
class GenerationSeen(Event):
    """A broker's group has these members and assignments now. From the record of a generation, whose time is the
    broker's; at the first look as the coordinator describes it, without a generation (-1).

    ``joined_ms``: when all members had joined, -1 where that is not known.
    """

    generation: int
    protocol: str
    leader: str
    joined_ms: int
    members: tuple[SeenMember, ...]
