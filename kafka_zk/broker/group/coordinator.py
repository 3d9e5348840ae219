"""The operations of the group APIs.

``GroupCoordinator`` finds the group and supplies the time; ``LiveGroup`` carries out the effects. Client errors are
returned, not raised.
Source: GroupCoordinator.scala@3.9.
"""

from collections.abc import Collection, Iterable
from random import Random
from typing import NamedTuple

from twisted.logger import Logger

from kafka_zk.base.clock import Clock
from kafka_zk.base.randomness import SYSTEM_RANDOM, random_uuid
from kafka_zk.base.turns import in_turns
from kafka_zk.broker.coordinator.keys import is_storable
from kafka_zk.broker.coordinator.partition_count import PartitionCount
from kafka_zk.broker.group.config import CoordinatorConfig
from kafka_zk.broker.group.events import (
    JoinCompleted,
    MemberDeparted,
    MemberIdAssigned,
    MemberSynced,
    MemberToldToRejoin,
    RebalancePrepared,
)
from kafka_zk.broker.group.group import Group
from kafka_zk.broker.group.live_group import Report, now_of
from kafka_zk.broker.group.members import MEMBER_BYTES, Member, protocols_bytes
from kafka_zk.broker.group.metadata_manager import GroupMetadataManager
from kafka_zk.broker.group.offset_manager import OffsetManager
from kafka_zk.broker.group.requests import UNKNOWN_MEMBER_ID, Happened, JoinGroup, JoinResult, SyncGroup, SyncResult
from kafka_zk.broker.group.states import GroupState
from kafka_zk.broker.group.transactional_commits import TransactionalCommits
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.protocol.errors import ErrorCode

_log = Logger()

CLASSIC = "classic"
"""Group type in ListGroups: one member assigns the partitions."""

_ANY_UUID = "-00000000-0000-0000-0000-000000000000"


class MemberIdentity(NamedTuple):
    """A member in a LeaveGroup request."""

    member_id: str
    group_instance_id: str | None = None
    reason: str = ""


class LeaveResult(NamedTuple):
    """``members``: each member with its error code; empty if the whole request failed."""

    error: ErrorCode
    members: tuple[tuple[MemberIdentity, ErrorCode], ...] = ()


class GroupOverview(NamedTuple):
    """A group in a ListGroups response."""

    group_id: str
    protocol_type: str
    state: str


class DescribedMember(NamedTuple):
    """A member in DescribeGroups, without metadata and assignment unless the group is stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """A group in a DescribeGroups response."""

    error: ErrorCode
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


class GroupCoordinator:
    """``offsets``: handles committed offsets; ``transactional_commits``: handles commits in transactions.

    ``report``: called with each group event after it is logged.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        clock: Clock,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        random: Random = SYSTEM_RANDOM,
        report: Report = lambda group_id, event: None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._random = random
        self._report = report
        self._manager = GroupMetadataManager(config, clock, replicas, metadata, self._happened)
        self.offsets = OffsetManager(config, clock, self._manager)
        self.transactional_commits = TransactionalCommits(config, clock, replicas, self._manager)

    def role_changed(self, partition: Partition) -> None:
        """Load or unload the groups of a partition whose leadership this broker gains or loses."""
        self._manager.role_changed(partition)

    @property
    def partition_count(self) -> PartitionCount:
        """The partition count of ``__consumer_offsets``."""
        return self._manager.partition_count

    def partition_for(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` whose leader coordinates the group."""
        return self._manager.partition_for(group_id)

    def close(self) -> None:
        """Close all groups; all waiting requests get a response."""
        self._manager.close()

    # Membership.

    async def join(self, group_id: str, request: JoinGroup) -> JoinResult:
        """Wait for the next generation. Sets ``new_member_id`` for a new member. Raises: ClientGone."""
        error = self._manager.refusal(group_id)
        if error is ErrorCode.NONE and not self._allows(request.session_timeout_ms):
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        if error is ErrorCode.NONE and not _is_storable(request):
            error = ErrorCode.INVALID_REQUEST
        if error is ErrorCode.NONE and not self._has_room(group_id, request):
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        is_new = request.member_id == UNKNOWN_MEMBER_ID
        if error is ErrorCode.NONE and not is_new and group_id not in self._manager.groups:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not ErrorCode.NONE:
            return JoinResult(error, request.member_id)
        if is_new:
            request = request._replace(new_member_id=self._member_id(request))
        live = self._manager.get_or_create(group_id)
        reply, waiting = self._manager.replies.begin()
        live.carry_out(live.group.join(request, reply, now_of(self._clock)))
        result: JoinResult = await waiting
        if result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self._report(group_id, Happened(MemberIdAssigned, "a new member needs an id", (result.member_id,)))
        return result

    async def sync(self, group_id: str, request: SyncGroup) -> SyncResult:
        """Wait for the leader's assignment. Raises: ClientGone."""
        error = self._manager.refusal(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.REBALANCE_IN_PROGRESS  # the member must rejoin, because its assignment may not be stored
        live = self._manager.groups.get(group_id)
        if error is ErrorCode.NONE and live is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if live is None or error is not ErrorCode.NONE:
            return SyncResult(error)
        if request.assignments and request.member_id == live.group.members.leader:
            size_bytes = sum(map(len, request.assignments.values())) - live.group.members.assignments_bytes
            if not self._manager.memory.has_room(size_bytes):
                return SyncResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if request.member_id in live.group.members:
            self._report(group_id, Happened(MemberSynced, "SyncGroup", (request.member_id,)))
        reply, waiting = self._manager.replies.begin()
        live.carry_out(live.group.sync(request, reply, now_of(self._clock)))
        del request  # frees assignments from a member that does not lead
        result: SyncResult = await waiting
        return result

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        error = self._manager.refusal(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE  # the session begins when the group is loaded
        if error is not ErrorCode.NONE:
            return error
        live = self._manager.groups.get(group_id)
        if live is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = live.group.heartbeat(member_id, group_instance_id, generation_id, now_of(self._clock))
        live.wake_in_time()
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._report(group_id, Happened(MemberToldToRejoin, "rebalance in progress", (member_id,)))
        return error

    def leave(self, group_id: str, members: Iterable[MemberIdentity]) -> LeaveResult:
        """Remove members, one after the other."""
        error = self._manager.refusal(group_id)
        if error is not ErrorCode.NONE:
            return LeaveResult(error)
        return LeaveResult(ErrorCode.NONE, tuple((member, self._leave(group_id, member)) for member in members))

    def _leave(self, group_id: str, member: MemberIdentity) -> ErrorCode:
        live = self._manager.groups.get(group_id)
        if live is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error, effects = live.group.leave(*member, now_of(self._clock))
        live.carry_out(effects)
        return error

    def _has_room(self, group_id: str, request: JoinGroup) -> bool:
        size_bytes = protocols_bytes(request.protocols)
        live = self._manager.groups.get(group_id)
        ids = request.member_id, request.group_instance_id
        member = None if live is None else live.group.members.member_to_update(*ids)
        size_bytes += MEMBER_BYTES if member is None else -protocols_bytes(member.protocols)
        return self._manager.memory.has_room(size_bytes)

    def _allows(self, session_timeout_ms: int) -> bool:
        config = self._config
        return config.min_session_timeout_ms <= session_timeout_ms <= config.max_session_timeout_ms

    def _member_id(self, request: JoinGroup) -> str:
        name = request.client_id if request.group_instance_id is None else request.group_instance_id
        return f"{name}-{random_uuid(self._random)}"

    # Administration.

    async def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> tuple[ErrorCode, list[GroupOverview]]:
        """The broker's groups, filtered by state and type (case-insensitive).

        With COORDINATOR_LOAD_IN_PROGRESS, some may be missing.
        """
        if not self._manager.is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._manager.is_loading else ErrorCode.NONE
        wanted_states = {state.lower() for state in states}
        if types and CLASSIC not in {each.lower() for each in types}:
            return error, []
        return error, [
            GroupOverview(group.group_id, group.protocol_type or "", group.state.value)
            async for group in in_turns(self._clock, [live.group for live in self._manager.groups.values()])
            if group.state is not GroupState.DEAD and (not wanted_states or group.state.value.lower() in wanted_states)
        ]

    def describe(self, group_id: str) -> GroupDescription:
        """Describe a group. An unknown group has the state Dead."""
        error = self._manager.refusal(group_id, may_be_empty=True)
        if error is not ErrorCode.NONE:
            return GroupDescription(error)
        live = self._manager.groups.get(group_id)
        if live is None:
            return GroupDescription(ErrorCode.NONE, GroupState.DEAD.value)
        return _description(live.group)

    async def delete(self, group_id: str) -> ErrorCode:
        """Delete a group without members, and its committed offsets."""
        error = self._manager.refusal(group_id, may_be_empty=True)
        if error is not ErrorCode.NONE:
            return error
        live = self._manager.groups.get(group_id)
        if live is None or live.group.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if live.group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        await self.offsets.remove_group(live)
        return ErrorCode.NONE

    def _happened(self, group_id: str, event: Happened) -> None:
        kind, cause, fields = event
        if kind is RebalancePrepared:
            _log.info(
                "group {group} prepares a rebalance after generation {generation}: {reason}",
                group=group_id, generation=fields[0], reason=cause,
            )  # fmt: skip
        elif kind is JoinCompleted:
            generation, _, _, member_ids = fields
            _log.info(
                "group {group} has {count} members in generation {generation}",
                group=group_id, count=len(member_ids), generation=generation,
            )  # fmt: skip
        elif kind is MemberDeparted:
            _log.info(
                "member {member} of group {group} is removed: {reason}",
                member=fields[0], group=group_id, reason=cause,
            )  # fmt: skip
        self._report(group_id, event)


def _is_storable(request: JoinGroup) -> bool:
    """True if a record can contain the member and its protocols. The member id is one of the names plus a UUID."""
    names = [request.client_id + _ANY_UUID, (request.group_instance_id or "") + _ANY_UUID, request.protocol_type]
    return all(map(is_storable, (*names, *(name for name, _ in request.protocols))))


def _description(group: Group) -> GroupDescription:
    is_stable = group.state is GroupState.STABLE
    name = group.protocol_name if is_stable else None
    members = tuple(_described(member, name) for member in group.members)
    return GroupDescription(ErrorCode.NONE, group.state.value, group.protocol_type or "", name or "", members)


def _described(member: Member, protocol_name: str | None) -> DescribedMember:
    metadata = assignment = b""
    if protocol_name is not None:
        metadata, assignment = member.metadata(protocol_name), member.assignment
    return DescribedMember(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, metadata, assignment
    )
