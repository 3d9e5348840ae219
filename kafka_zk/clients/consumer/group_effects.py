"""The effects of a group member: requests to the coordinator, and changes of its partitions.

Every request but SendLeave has a number, which its response repeats; a response to an older one is dropped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Look for the group's coordinator until it is found, then call ``coordinator_found``."""


@dataclass(frozen=True, slots=True)
class SendJoin:
    """``protocols``: the names of the assignors, the favourite first, each with the subscription."""

    number: int
    member_id: str
    protocols: tuple[tuple[str, bytes], ...]
    reason: str


@dataclass(frozen=True, slots=True)
class SendSync:
    """``assignments`` by member id, of the leader only."""

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
    """Only a consumer that is being closed waits for the answer."""

    member_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class CountPartitions:
    """This member leads: find out how many partitions these topics have, then call ``partitions_counted``."""

    number: int
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Start:
    """These are owned now: hand out their records."""

    tps: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Stop:
    """Hand out nothing more of these and commit them; call ``stopped`` when their user is done with them."""

    number: int
    tps: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Drop:
    """These are not owned any more; nothing can be committed."""

    tps: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Fail:
    """The member cannot go on."""

    code: ErrorCode
    doing: str


Effect = (
    FindCoordinator | SendJoin | SendSync | SendHeartbeat | SendLeave | CountPartitions | Start | Stop | Drop | Fail
)


class JoinedMember(NamedTuple):
    """A member, as the coordinator describes it to the leader."""

    member_id: str
    group_instance_id: str | None
    subscription: bytes


class JoinAnswer(NamedTuple):
    """The answer to SendJoin; ``members`` of the leader only."""

    code: ErrorCode
    member_id: str = ""
    generation_id: int = -1
    protocol_name: str = ""
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
