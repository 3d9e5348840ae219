"""Events of the groups that this broker coordinates, for observers (``kafka-zk watch``, flight recorder, tests).

Each event has a wall-clock timestamp in ms since the epoch, an actor such as ``broker-0`` and a short cause; no zxid.
Order during a rebalance: ``MemberJoined`` or ``MemberDeparted``, ``RebalancePrepared``, for each member
``MemberToldToRejoin`` and ``MemberJoined``, then ``JoinCompleted``, for each ``MemberSynced``, ``AssignmentCompleted``.

Offset commits produce no events: there are too many.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition


@dataclass(frozen=True, slots=True)
class CoordinatorEvent(Event):
    """Base of all. Members are named by their member ids."""

    group_id: str


@dataclass(frozen=True, slots=True)
class RebalancePrepared(CoordinatorEvent):
    """The group is in PreparingRebalance from now on, after this generation; ``cause`` names the reason that a client
    gave (KIP-800), too."""

    generation: int


@dataclass(frozen=True, slots=True)
class MemberIdAssigned(CoordinatorEvent):
    """A client that joins for the first time was sent away, to come back with this member id."""

    member: str


@dataclass(frozen=True, slots=True)
class MemberJoined(CoordinatorEvent):
    """A JoinGroup was accepted. ``owned``: the partitions that the member has not given back; an eager one has none."""

    member: str
    is_new: bool
    group_instance_id: str | None
    owned: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class MemberToldToRejoin(CoordinatorEvent):
    """A heartbeat was answered by REBALANCE_IN_PROGRESS: this is how a member learns of a rebalance."""

    member: str


@dataclass(frozen=True, slots=True)
class JoinCompleted(CoordinatorEvent):
    """A new generation has these members (CompletingRebalance), or none (Empty); its leader assigns."""

    generation: int
    protocol: str
    leader: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemberSynced(CoordinatorEvent):
    """A SyncGroup came: the member asks for its assignment, or brings all of them as the leader."""

    member: str


@dataclass(frozen=True, slots=True)
class AssignmentCompleted(CoordinatorEvent):
    """The leader's assignment is stored and valid (Stable); members of other kinds than consumers have nothing."""

    generation: int
    assignments: Mapping[str, tuple[TopicPartition, ...]]


class Departure(Enum):
    """How a member goes."""

    LEFT = "left"
    SESSION_ENDED = "session ended"
    DROPPED = "dropped"
    """The member may be alive, but missed a deadline of the rebalance, or the group is full."""


@dataclass(frozen=True, slots=True)
class MemberDeparted(CoordinatorEvent):
    """A member is removed."""

    member: str
    departure: Departure


@dataclass(frozen=True, slots=True)
class StaticMemberReturned(CoordinatorEvent):
    """A static member takes its old place under a new member id; a client that still uses the old one is fenced."""

    group_instance_id: str
    old_member: str
    member: str
