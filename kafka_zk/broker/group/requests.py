"""What the core of a group is asked, and what it wants done.

A ``Reply`` names a request that is still to be answered; the core only hands it back. Times come as ``Now``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_zk.broker.coordinator.replies import Reply
from kafka_zk.broker.group.events import CoordinatorEvent
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
        new_member_id: the id to give if ``member_id`` is UNKNOWN_MEMBER_ID; no member has it yet.
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
    """The last member is gone; no request waits for this."""

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


class Happened(NamedTuple):
    """For observers: an event, its cause, and the fields that ``kind`` has beyond CoordinatorEvent's.

    A member's metadata and assignment are the bytes that clients sent; ``GroupReporter`` reads them.
    """

    kind: type[CoordinatorEvent]
    cause: str
    fields: tuple[Any, ...]


Effect = AnswerJoin | AnswerSync | StoreGroup | Happened
