"""What the core of a group is asked, and what it wants done.

A ``Reply`` names a request that is still to be answered; the core only hands it back. Times come as ``Now``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kafka_zk.broker.coordinator.replies import Reply
from kafka_zk.broker.group.records import GroupMetadataValue
from kafka_zk.protocol.errors import ErrorCode

UNKNOWN_MEMBER_ID = ""
NO_GENERATION = -1
LAST_GENERATION = 2**31 - 1

Protocols = tuple[tuple[str, bytes], ...]
"""The assignors that a member supports, the one it likes best first, each with the member's metadata for it."""


class Now(NamedTuple):
    """``monotonic_ms`` counts deadlines, ``wall_ms`` (since 1970) is stored."""

    monotonic_ms: int
    wall_ms: int


class JoinGroup(NamedTuple):
    """A JoinGroup request.

    Args:
        new_member_id: the id to give if ``member_id`` is UNKNOWN_MEMBER_ID; nobody has it yet.
        requires_known_member_id: whether the client can be sent away to come back with its id (KIP-394, version 4).
        can_skip_assignment: whether a static leader that returns understands ``skip_assignment`` (version 9).
    """

    member_id: str
    new_member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_known_member_id: bool = True
    can_skip_assignment: bool = False
    reason: str = ""

    def by(self, member_id: str) -> "JoinedMember":
        """The member that it makes under this id, with its metadata for the protocol that it likes best."""
        return JoinedMember(member_id, self.group_instance_id, self.protocols[0][1])


class SyncGroup(NamedTuple):
    """A SyncGroup request; protocol type and name are None before version 5."""

    member_id: str
    generation_id: int
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] | None = None

    def agrees_with(self, protocol_type: str | None, protocol_name: str | None) -> bool:
        """A client that names protocol type and name (version 5) means the group's."""
        return self.protocol_type in (None, protocol_type) and self.protocol_name in (None, protocol_name)


class JoinedMember(NamedTuple):
    """What the leader learns of a member."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The answer to a JoinGroup; ``members`` only for the leader."""

    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncResult(NamedTuple):
    """The answer to a SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


# What is to be done when a group record is written.


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """The leader's assignment of a generation becomes valid."""

    generation_id: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class StaticMemberStored:
    """A static member has come back under ``new_member_id``; if the write fails it is ``old_member_id`` again."""

    generation_id: int
    group_instance_id: str
    old_member_id: str
    new_member_id: str
    old_protocols: Protocols
    old_session_timeout_ms: int
    old_rebalance_timeout_ms: int
    previous_leader: str
    can_skip_assignment: bool


@dataclass(frozen=True, slots=True)
class EmptyStored:
    """The last member is gone; nobody waits for this."""

    generation_id: int


Stored = AssignmentStored | StaticMemberStored | EmptyStored


# Effects.


class AnswerJoin(NamedTuple):
    """Answer a JoinGroup."""

    reply: Reply
    result: JoinResult


class AnswerSync(NamedTuple):
    """Answer a SyncGroup."""

    reply: Reply
    result: SyncResult


@dataclass(frozen=True, slots=True)
class StoreGroup:
    """Write the group's record, then call ``Group.stored`` with ``then`` and what became of it."""

    value: GroupMetadataValue
    then: Stored


@dataclass(frozen=True, slots=True)
class RebalanceBegan:
    """For those who watch: the group prepares a rebalance, and why."""

    generation_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class GenerationBegan:
    """For those who watch: these are the members of a new generation; with none the group is empty."""

    generation_id: int
    protocol_name: str | None
    leader: str
    member_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AssignmentDone:
    """For those who watch: every member has its assignment (opaque bytes)."""

    generation_id: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class MemberIdGiven:
    """For those who watch: a client was sent away, to come back with this id."""

    member_id: str


@dataclass(frozen=True, slots=True)
class MemberJoins:
    """For those who watch: a JoinGroup is accepted, of a new member or of one that joins again."""

    member: JoinedMember
    is_new: bool


@dataclass(frozen=True, slots=True)
class MemberTold:
    """For those who watch: a heartbeat was answered by REBALANCE_IN_PROGRESS."""

    member_id: str


@dataclass(frozen=True, slots=True)
class MemberSyncs:
    """For those who watch: a SyncGroup came from this member."""

    member_id: str


class Departure(Enum):
    """How a member goes."""

    LEFT = "left"
    SESSION_ENDED = "session ended"
    DROPPED = "dropped"
    """It lives, for all the group knows, but did not do in time what it had to."""


@dataclass(frozen=True, slots=True)
class MemberRemoved:
    """For those who watch: a member left, failed, or did not come back in time."""

    member_id: str
    departure: Departure
    reason: str


@dataclass(frozen=True, slots=True)
class StaticMemberReplaced:
    """For those who watch: a static member is known by another member id from now on; who has the old one is fenced."""

    group_instance_id: str
    old_member_id: str
    new_member_id: str


GroupEvent = (
    RebalanceBegan
    | GenerationBegan
    | AssignmentDone
    | MemberIdGiven
    | MemberJoins
    | MemberTold
    | MemberSyncs
    | MemberRemoved
    | StaticMemberReplaced
)
Effect = AnswerJoin | AnswerSync | StoreGroup | GroupEvent
