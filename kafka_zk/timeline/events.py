"""What an outside observer sees of a group: changes of its znodes, without the members' own reasons.

The members' own events are those of ``rebalance.events`` and ``registry.events``. Pure.
"""

from dataclasses import dataclass

from registry.events import RegistryEvent
from storage.types import TopicPartition


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
class OwnerSeen(RegistryEvent):
    """A partition has an owner; ``offset`` is what is committed for it (-1: nothing)."""

    partition: TopicPartition
    owner: str
    offset: int


@dataclass(frozen=True, slots=True)
class OwnerGone(RegistryEvent):
    """A partition's owner znode is gone."""

    partition: TopicPartition
    owner: str


@dataclass(frozen=True, slots=True)
class AssignmentSeen(RegistryEvent):
    """The group's leader wrote an assignment."""

    generation: int
    strategy: str
    leader: str
