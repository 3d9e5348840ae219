"""The effects of a group member.

Every request but SendLeave has a number, and so has its response. Late responses are dropped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Find the coordinator, however long that takes, then call ``coordinator_found``."""


@dataclass(frozen=True, slots=True)
class SendJoin:
    """``protocols``: the assignors by name, each with this member's subscription, the preferred one first."""

    number: int
    member_id: str
    protocols: tuple[tuple[str, bytes], ...]
    reason: str


@dataclass(frozen=True, slots=True)
class SendSync:
    """``assignments``: by member id; empty unless this member leads."""

    number: int
    member_id: str
    generation_id: int
    protocol_name: str
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    number: int
    member_id: str
    generation_id: int


@dataclass(frozen=True, slots=True)
class SendLeave:
    """The response matters only to a consumer that is closing."""

    member_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class CountPartitions:
    """This member leads: count the partitions, then call ``partitions_counted``."""

    number: int
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Start:
    """These partitions are now owned: deliver their records."""

    tps: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop delivering these partitions, wait for their user, commit, then call ``stopped``."""

    number: int
    tps: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Drop:
    """These partitions are no longer owned; their offsets cannot be committed."""

    tps: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Fail:
    """The member cannot continue."""

    code: ErrorCode
    doing: str


Effect = (
    FindCoordinator | SendJoin | SendSync | SendHeartbeat | SendLeave | CountPartitions | Start | Stop | Drop | Fail
)


class JoinedMember(NamedTuple):
    """A member as the coordinator describes it to the leader."""

    member_id: str
    group_instance_id: str | None
    subscription: bytes


class JoinAnswer(NamedTuple):
    """``members``: empty unless this member leads."""

    code: ErrorCode
    member_id: str = ""
    generation_id: int = -1
    protocol_name: str = ""
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
