"""What an outside observer sees of a group: changes of its znodes, without the members' own reasons.

The members' own events are those of ``rebalance.events`` and ``registry.events``. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_zk.registry.events import RegistryEvent
from kafka_zk.storage.types import TopicPartition

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
