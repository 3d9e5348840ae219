"""A group core's requests, results and effects.

A ``Reply`` identifies a waiting request; the core stores it and returns it with the result.
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
    """``monotonic_ms`` for deadlines, ``wall_ms`` (since the epoch) for records."""

    monotonic_ms: int
    wall_ms: int


class JoinGroup(NamedTuple):
    """A JoinGroup request.

    Args:
        new_member_id: unused, for a client with UNKNOWN_MEMBER_ID.
        requires_known_member_id: the client first gets its id, then joins with it (KIP-394, version 4).
        can_skip_assignment: the client knows ``skip_assignment`` (version 9).
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
    """``protocol_type`` and ``protocol_name`` are None before version 5."""

    member_id: str
    generation_id: int
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] | None = None

    def agrees_with(self, protocol_type: str | None, protocol_name: str | None) -> bool:
        """True if the request's type and name are equal to the group's, or absent."""
        return self.protocol_type in (None, protocol_type) and self.protocol_name in (None, protocol_name)


class JoinedMember(NamedTuple):
    """A member as sent to the leader."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The response to a JoinGroup.

    Attributes:
        member_id: the id in the request, or a newly assigned id.
        generation_id: NO_GENERATION with an error.
        skip_assignment: for a returning static leader, which must not assign.
        members: for the leader only.
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
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


# Actions after a group record was written.


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """The leader's assignment takes effect, unless another generation has begun."""

    generation_id: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class StaticMemberStored:
    """A static member is back as ``new_member_id``; if the write fails, the ``old_*`` values are restored.

    ``previous_leader``: the leader for clients that do not know ``skip_assignment``.
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
    """The last member has left; no request waits."""

    generation_id: int


Stored = AssignmentStored | StaticMemberStored | EmptyStored


# Effects.


class AnswerJoin(NamedTuple):
    reply: Reply
    result: JoinResult


class AnswerSync(NamedTuple):
    reply: Reply
    result: SyncResult


@dataclass(frozen=True, slots=True)
class StoreGroup:
    """Write the record, then call ``Group.stored`` with ``then`` and the error or NONE."""

    value: GroupMetadataValue
    then: Stored


class Happened(NamedTuple):
    """An event for observers. ``fields``: the fields that ``kind`` adds to CoordinatorEvent.

    ``GroupReporter`` decodes members' metadata and assignments, which are bytes from clients.
    """

    kind: type[CoordinatorEvent]
    cause: str
    fields: tuple[Any, ...]


Effect = AnswerJoin | AnswerSync | StoreGroup | Happened
