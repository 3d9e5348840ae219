"""One group's members: ids, leader, and the protocols that all support.

Source: MemberMetadata.scala, GroupMetadata.scala@3.9.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kafka_zk.broker.coordinator.replies import Reply
from kafka_zk.broker.group.records import GroupMetadataValue, StoredMember
from kafka_zk.broker.group.requests import UNKNOWN_MEMBER_ID, JoinedMember, Protocols

MEMBER_BYTES = 800  # measured memory of a member, without variable parts
_PENDING_BYTES = 200


def protocols_bytes(protocols: Protocols) -> int:
    return sum(2 * sys.getsizeof(name) + sys.getsizeof(metadata) for name, metadata in protocols)


@dataclass(slots=True)
class Member:
    """One member.

    Attributes:
        member_id: unique; changes only when a static member returns.
        group_instance_id: unique among static members; None if dynamic.
        session_timeout_ms: maximum time between two requests of the member.
        rebalance_timeout_ms: maximum time for the member to rejoin.
        protocols: name and metadata, by preference.
        assignment: the last assignment in effect; b"" after a generation without an assignment.
        joining, syncing: the waiting JoinGroup or SyncGroup.
        is_new: True before the member's first generation; only then can it expire while its JoinGroup waits.
        deadline_ms: monotonic time when the member fails unless it sends a request. None if the deadline passed while a
            request waited: the response sets the next deadline.
        size_bytes: the member's part of ``Members.size_bytes``.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    joining: Reply | None = None
    syncing: Reply | None = None
    is_new: bool = False
    deadline_ms: int | None = None
    size_bytes: int = 0

    def metadata(self, protocol_name: str) -> bytes:
        """The member's metadata for an assignor. Raises: KeyError if the member does not support it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise KeyError(protocol_name)

    @property
    def protocol_names(self) -> frozenset[str]:
        """The protocol names as a set, because a client may repeat a name."""
        return frozenset(name for name, _ in self.protocols)

    def vote(self, candidates: Iterable[str]) -> str:
        """The candidate that the member prefers. Raises: StopIteration if it supports no candidate."""
        return next(name for name, _ in self.protocols if name in candidates)

    @property
    def has_pending_request(self) -> bool:
        """True if a request of the member waits, which prevents heartbeats."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)


class Members:
    """The members of a group, oldest first.

    Attributes:
        leader: member id of the leader; None if there are no members.
        static: group instance id -> member id.
        pending: member ids given to clients and not used yet -> expiry (monotonic ms).
        joining_count: number of members whose JoinGroup waits.
        size_bytes: memory of members and pending ids.
        _supporters: protocol name -> number of members that support it, never 0.
    """

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._supporters: Counter[str] = Counter()
        self.leader: str | None = None
        self.static: dict[str, str] = {}
        self.pending: dict[str, int] = {}
        self.joining_count = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._members.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> Member:
        return self._members[member_id]

    def get(self, member_id: str) -> Member | None:
        return self._members.get(member_id)

    def member_to_update(self, member_id: str, group_instance_id: str | None) -> Member | None:
        """The member that a JoinGroup with these ids would update or, if static, replace."""
        if member_id == UNKNOWN_MEMBER_ID and group_instance_id is not None:
            member_id = self.static.get(group_instance_id, UNKNOWN_MEMBER_ID)
        return self._members.get(member_id)

    @property
    def ids(self) -> tuple[str, ...]:
        """Member ids, oldest member first."""
        return tuple(self._members)

    @property
    def all_joined(self) -> bool:
        """True if every member has joined, and every pending id was used."""
        return self.joining_count == len(self._members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self._members.values()), default=0)

    def add(self, member: Member) -> None:
        """Add a member whose ids are unused; the member id may be pending."""
        assert member.member_id not in self._members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static
            self.static[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._members[member.member_id] = member
        self._supporters.update(member.protocol_names)
        self.joining_count += member.joining is not None
        self._end_pending(member.member_id)
        self._measure(member)

    def give_id(self, member_id: str, until_ms: int) -> None:
        """Reserve an id for a client until ``until_ms`` (monotonic)."""
        self.pending[member_id] = until_ms
        self.size_bytes += _PENDING_BYTES + sys.getsizeof(member_id)

    def _end_pending(self, member_id: str) -> None:
        if self.pending.pop(member_id, None) is not None:
            self.size_bytes -= _PENDING_BYTES + sys.getsizeof(member_id)

    def _measure(self, member: Member) -> None:
        names = (member.member_id, member.group_instance_id, member.client_id, member.client_host)
        size_bytes = MEMBER_BYTES + sum(map(sys.getsizeof, names))
        size_bytes += protocols_bytes(member.protocols) + len(member.assignment)
        self.size_bytes += size_bytes - member.size_bytes
        member.size_bytes = size_bytes

    def remove(self, member_id: str) -> Member | None:
        """Remove a member, or a pending id (None). The oldest member replaces a removed leader."""
        self._end_pending(member_id)
        member = self._members.pop(member_id, None)
        if member is None:
            return None
        self.size_bytes -= member.size_bytes
        self._end_support(member.protocol_names)
        self.joining_count -= member.joining is not None
        if member.group_instance_id is not None:
            del self.static[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._members), None)
        return member

    def rename_static(self, group_instance_id: str, new_member_id: str) -> Member:
        """Change the member id of a static member, whose position does not change."""
        old_member_id = self.static[group_instance_id]
        member = self._members[old_member_id]
        member.member_id = new_member_id
        self._members = {other.member_id: other for other in self._members.values()}
        self.static[group_instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id
        return member

    def set_joining(self, member: Member, reply: Reply | None) -> Reply | None:
        """Set the waiting JoinGroup and return the previous one; None: no JoinGroup waits."""
        previous, member.joining = member.joining, reply
        self.joining_count += (reply is not None) - (previous is not None)
        return previous

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        self._end_support(member.protocol_names)
        member.protocols = protocols
        self._supporters.update(member.protocol_names)
        self._measure(member)

    def _end_support(self, names: Iterable[str]) -> None:
        """Decrease the member count of these protocols. Forget unsupported ones, because clients could invent names
        without limit."""
        for name in names:
            self._supporters[name] -= 1
            if not self._supporters[name]:
                del self._supporters[name]

    def assign(self, member: Member, assignment: bytes) -> None:
        member.assignment = assignment
        self._measure(member)

    @property
    def assignments_bytes(self) -> int:
        return sum(len(member.assignment) for member in self._members.values())

    def support(self, protocols: Protocols) -> bool:
        """True if all members support one of these protocols."""
        return any(self._supporters[name] == len(self._members) for name, _ in protocols)

    def elect_joined_leader(self) -> bool:
        """If the leader has not joined, replace it by the oldest member that has. Returns False if no member has
        joined."""
        if self.leader is None or self._members[self.leader].joining is not None:
            return self.leader is not None
        joined = next((member.member_id for member in self._members.values() if member.joining is not None), None)
        if joined is None:
            return False
        self.leader = joined
        return True

    def choose_protocol(self) -> str:
        """The protocol that most members prefer, of those that all support; in a tie, the first voted for."""
        candidates = {name for name, count in self._supporters.items() if count == len(self._members)}
        votes = Counter(member.vote(candidates) for member in self._members.values())
        return votes.most_common(1)[0][0]

    def joined(self, protocol_name: str) -> tuple[JoinedMember, ...]:
        """The members as they are sent to the leader."""
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(protocol_name))
            for member in self._members.values()
        )

    def stored(self, protocol_name: str | None, assignments: Mapping[str, bytes]) -> tuple[StoredMember, ...]:
        """The stored form of the members. ``assignments``: by member id."""
        return tuple(
            StoredMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(protocol_name) if protocol_name is not None else b"",
                assignments[member.member_id],
            )
            for member in self._members.values()
        )

    def load(self, value: GroupMetadataValue) -> None:
        """Load stored members, each of which supports the group's protocol."""
        for stored in value.members:
            protocols = ((value.protocol_name or "", stored.subscription),)
            member = Member(
                stored.member_id, stored.group_instance_id, stored.client_id, stored.client_host,
                stored.session_timeout_ms, stored.rebalance_timeout_ms, protocols, stored.assignment,
            )  # fmt: skip
            self.add(member)
        if value.leader is not None and value.leader in self._members:
            self.leader = value.leader
