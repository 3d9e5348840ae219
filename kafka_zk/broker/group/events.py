"""Events of this broker's groups, for observers (``kafka-zk watch``, flight recorder, tests).

They have a wall-clock timestamp in ms, an actor such as ``broker-0`` and a short cause, but no zxid. A rebalance has
these events, in order: ``MemberJoined`` or ``MemberDeparted``, ``RebalancePrepared``, for each member
``MemberToldToRejoin`` and ``MemberJoined``, then ``JoinCompleted``, for each member ``MemberSynced``, and
``AssignmentCompleted``.

There is no event for offset commits, because they are too frequent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition


@dataclass(frozen=True, slots=True)
class CoordinatorEvent(Event):
    """Members are named by their member ids."""

    group_id: str


@dataclass(frozen=True, slots=True)
class RebalancePrepared(CoordinatorEvent):
    """The group entered PreparingRebalance after this generation. ``cause`` includes the client's reason (KIP-800)."""

    generation: int


@dataclass(frozen=True, slots=True)
class MemberIdAssigned(CoordinatorEvent):
    """A client that joins for the first time must join again with this member id."""

    member: str


@dataclass(frozen=True, slots=True)
class MemberJoined(CoordinatorEvent):
    """A JoinGroup was accepted. ``owned``: the partitions that a cooperative member still owns; empty for an eager
    member."""

    member: str
    is_new: bool
    group_instance_id: str | None
    owned: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class MemberToldToRejoin(CoordinatorEvent):
    """A heartbeat got REBALANCE_IN_PROGRESS, which notifies the member of a rebalance."""

    member: str


@dataclass(frozen=True, slots=True)
class JoinCompleted(CoordinatorEvent):
    """A new generation has these members (CompletingRebalance), or none (Empty). Its leader assigns the partitions."""

    generation: int
    protocol: str
    leader: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemberSynced(CoordinatorEvent):
    """A member sent SyncGroup to get its assignment. The leader also sent all assignments."""

    member: str


@dataclass(frozen=True, slots=True)
class AssignmentCompleted(CoordinatorEvent):
    """The leader's assignment is stored and valid (Stable). It is empty for members that are not consumers."""

    generation: int
    assignments: Mapping[str, tuple[TopicPartition, ...]]


class Departure(Enum):
    """How a member leaves."""

    LEFT = "left"
    SESSION_ENDED = "session ended"
    DROPPED = "dropped"
    """The member missed a deadline of the rebalance, and may still be alive; or the group is full."""


@dataclass(frozen=True, slots=True)
class MemberDeparted(CoordinatorEvent):
    """A member was removed."""

    member: str
    departure: Departure


@dataclass(frozen=True, slots=True)
class StaticMemberReturned(CoordinatorEvent):
    """A static member returned under a new member id. A client that still uses the old id is fenced."""

    group_instance_id: str
    old_member: str
    member: str
