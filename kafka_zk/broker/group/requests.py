"""Requests to a group's core, its results, and its effects.

A ``Reply`` identifies a waiting request. The core only returns it.
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
"""Name and metadata of each assignor that a member supports, in order of preference."""


class Now(NamedTuple):
    """The current time: ``monotonic_ms`` for deadlines, ``wall_ms`` (since the epoch) for records."""

    monotonic_ms: int
    wall_ms: int


class JoinGroup(NamedTuple):
    """A JoinGroup request.

    Args:
        new_member_id: an unused id, for a client with UNKNOWN_MEMBER_ID.
        requires_known_member_id: the client must first get its id and then join with it (KIP-394, version 4).
        can_skip_assignment: the client understands ``skip_assignment`` (version 9).
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
    """A SyncGroup request. Protocol type and name are None before version 5."""

    member_id: str
    generation_id: int
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] | None = None

    def agrees_with(self, protocol_type: str | None, protocol_name: str | None) -> bool:
        """True if protocol type and name match the group's, or if the request has none (before version 5)."""
        return self.protocol_type in (None, protocol_type) and self.protocol_name in (None, protocol_name)


class JoinedMember(NamedTuple):
    """A member in the leader's JoinGroup response."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The response to a JoinGroup.

    Attributes:
        member_id: the requested id, or a newly assigned one.
        generation_id: NO_GENERATION if there is an error.
        skip_assignment: True only for a returning static leader, which must not assign.
        members: empty except for the leader.
    """

    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncResult(NamedTuple):
    """The response to a SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


# Actions after a group record was written.


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """The leader's assignment takes effect, unless the group has another generation by then."""

    generation_id: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class StaticMemberStored:
    """A static member has returned under ``new_member_id``. If the write fails, the ``old_*`` values are restored.

    ``previous_leader``: sent to clients that do not understand ``skip_assignment``.
    """

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
    """The last member has left. No request waits for the write."""

    generation_id: int


Stored = AssignmentStored | StaticMemberStored | EmptyStored


# Effects.


class AnswerJoin(NamedTuple):
    """Send the response to a JoinGroup."""

    reply: Reply
    result: JoinResult


class AnswerSync(NamedTuple):
    """Send the response to a SyncGroup."""

    reply: Reply
    result: SyncResult


@dataclass(frozen=True, slots=True)
class StoreGroup:
    """Write the group's record, then call ``Group.stored`` with ``then`` and the error or NONE."""

    value: GroupMetadataValue
    then: Stored


class Happened(NamedTuple):
    """An event for observers, its cause, and the fields that ``kind`` adds to CoordinatorEvent.

    Members' metadata and assignments are bytes from clients. ``GroupReporter`` decodes them.
    """

    kind: type[CoordinatorEvent]
    cause: str
    fields: tuple[Any, ...]


Effect = AnswerJoin | AnswerSync | StoreGroup | Happened
