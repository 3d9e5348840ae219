"""One consumer group: a pure state machine.

Methods take events (with the time if needed) and return effects: responses, a record to store, events for observers.
Call ``tick`` at ``earliest_deadline_ms``.

Source: GroupCoordinator.scala, DelayedJoin.scala, GroupMetadata.scala@3.9; KIP-62, KIP-134 (initial delay), KIP-345
(static members), KIP-394 (member ids), KIP-814 (a static leader skips the assignment).
"""

from collections.abc import Mapping

from kafka_zk.broker.coordinator.replies import Reply
from kafka_zk.broker.group.config import GroupConfig
from kafka_zk.broker.group.delayed_join import DelayedJoin
from kafka_zk.broker.group.events import (
    AssignmentCompleted,
    CoordinatorEvent,
    Departure,
    JoinCompleted,
    MemberDeparted,
    MemberJoined,
    RebalancePrepared,
    StaticMemberReturned,
)
from kafka_zk.broker.group.members import Member
from kafka_zk.broker.group.metadata import GroupMetadata
from kafka_zk.broker.group.records import GroupMetadataValue
from kafka_zk.broker.group.requests import (
    UNKNOWN_MEMBER_ID,
    AnswerJoin,
    AnswerSync,
    AssignmentStored,
    Effect,
    EmptyStored,
    Happened,
    JoinGroup,
    JoinResult,
    Now,
    StaticMemberStored,
    Stored,
    StoreGroup,
    SyncGroup,
    SyncResult,
)
from kafka_zk.broker.group.states import Event, GroupState
from kafka_zk.protocol.errors import ErrorCode

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member can wait for its first generation."""

_EMPTY, _PREPARING, _COMPLETING, _STABLE, _ = GroupState


class Group(GroupMetadata):
    """The caller knows the group's partition, and whether it is loaded.

    Attributes:
        earliest_deadline_ms: monotonic time, not after the next deadline; ``tick`` advances it.
        _join: None outside PreparingRebalance.
        _awaited_syncs: this generation's members that have not sent SyncGroup.
        _sync_deadline_ms: monotonic time when the members in ``_awaited_syncs`` are removed.
        _effects: the effects of the current call.
    """

    def __init__(self, group_id: str, config: GroupConfig, now: Now) -> None:
        super().__init__(group_id, now)
        self.earliest_deadline_ms: int | None = None
        self._config = config
        self._join: DelayedJoin | None = None
        self._awaited_syncs: set[str] = set()
        self._sync_deadline_ms: int | None = None
        self._effects: list[Effect] = []

    @classmethod
    def loaded(
        cls, group_id: str, config: GroupConfig, value: GroupMetadataValue, now: Now
    ) -> tuple["Group", list[Effect]]:
        """A group from its stored record; sessions begin now."""
        group = cls(group_id, config, now)
        group.load(value)
        for member in group.members:
            group._expect(member, member.session_timeout_ms, now)
        if len(group.members) > config.max_size:
            group._rebalance(Event.TOO_LARGE, f"loaded with more than {config.max_size} members", now)
        return group, group._take_effects()

    # Requests.

    def join(self, request: JoinGroup, reply: Reply, now: Now) -> list[Effect]:
        member_id = request.member_id
        refusal = self.refusal_by_state(Event.JOIN)
        if refusal is not ErrorCode.NONE:
            self._refuse_join(reply, member_id, refusal)
        elif not self.accepts(member_id, self._config.max_size):
            self._remove(member_id, Departure.DROPPED, "the group is full")
            self._refuse_join(reply, UNKNOWN_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif not self.supports(request):
            self._refuse_join(reply, member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif member_id == UNKNOWN_MEMBER_ID:
            self._join_new(request, reply, now)
        elif member_id in self.members.pending and request.group_instance_id is None:
            self._add(request, member_id, reply, now)
        else:
            self._join_again(request, reply, now)
        self._complete_join_if_all_came(now)
        return self._take_effects()

    def sync(self, request: SyncGroup, reply: Reply, now: Now) -> list[Effect]:
        """A member requests its assignment; the leader also sends all assignments."""
        refusal = self.refusal(Event.SYNC, request.member_id, request.group_instance_id, request.generation_id)
        is_member = refusal in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
        if is_member and not request.agrees_with(self.protocol_type, self.protocol_name):
            refusal = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if refusal is not ErrorCode.NONE:
            self._effects.append(AnswerSync(reply, SyncResult(refusal)))
            return self._take_effects()
        member = self.members[request.member_id]
        self._synced(member.member_id)
        if self.state is _STABLE:
            self._answer_sync(reply, member.assignment)
            self._expect(member, member.session_timeout_ms, now)
            return self._take_effects()
        if member.syncing is not None:  # the client has sent a new request instead
            self._effects.append(AnswerSync(member.syncing, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)))
        member.syncing = reply
        if member.member_id == self.members.leader:
            brought = request.assignments or {}
            assignments = {member_id: brought.get(member_id, b"") for member_id in self.members.ids}
            self._store(assignments, AssignmentStored(self.generation_id, assignments))
        return self._take_effects()

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int, now: Now) -> ErrorCode:
        """Extend a member's session. REBALANCE_IN_PROGRESS asks the member to rejoin."""
        refusal = self.refusal(Event.HEARTBEAT, member_id, group_instance_id, generation_id)
        if refusal in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.extend_session(member_id, now)
        return refusal

    def extend_session(self, member_id: str, now: Now) -> None:
        member = self.members.get(member_id)
        if member is not None:
            self._expect(member, member.session_timeout_ms, now)

    def leave(
        self, member_id: str, group_instance_id: str | None, reason: str, now: Now
    ) -> tuple[ErrorCode, list[Effect]]:
        """Remove a member; with UNKNOWN_MEMBER_ID, the group instance id alone identifies a static member."""
        refusal = self.refusal_by_state(Event.LEAVE)
        if refusal is not ErrorCode.NONE:
            return refusal, []
        if member_id == UNKNOWN_MEMBER_ID and group_instance_id is not None:
            member_id = self.members.static.get(group_instance_id, UNKNOWN_MEMBER_ID)
        if member_id in self.members.pending:
            self._remove(member_id, Departure.LEFT, reason)
        else:
            refusal = self.member_refusal(member_id, group_instance_id)
            if refusal is not ErrorCode.NONE:
                return refusal, []
            told = f"left: {reason}" if reason else "left"
            self._remove_and_rebalance(Event.LEAVE, member_id, told, now)
        self._complete_join_if_all_came(now)
        return ErrorCode.NONE, self._take_effects()

    # Results and time.

    def stored(self, then: Stored, error: ErrorCode, now: Now) -> list[Effect]:
        """Handle the result of the write of a ``StoreGroup`` effect."""
        if isinstance(then, AssignmentStored):
            self._assignment_stored(then, error, now)
        elif isinstance(then, StaticMemberStored):
            self._static_member_stored(then, error, now)
        return self._take_effects()

    def tick(self, now: Now) -> list[Effect]:
        """Handle deadlines that have passed."""
        now_ms = now.monotonic_ms
        if self.earliest_deadline_ms is None or now_ms < self.earliest_deadline_ms:
            return []
        for member_id in [member_id for member_id, until_ms in self.members.pending.items() if until_ms <= now_ms]:
            self._remove(member_id, Departure.DROPPED, "did not join with its assigned id")
        for member in self.members:
            if member.deadline_ms is not None and member.deadline_ms <= now_ms:
                member.deadline_ms = None
                if not member.has_pending_request:
                    self._remove_and_rebalance(
                        Event.MEMBER_FAILED, member.member_id, "failed: no heartbeat", now
                    )
        self._complete_join_if_all_came(now)
        if self._join is not None and self._join.deadline_ms <= now_ms:
            self._join_deadline_passed(self._join, now)
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now_ms:
            self._sync_deadline_passed(now)
        self.earliest_deadline_ms = min(self._deadlines(), default=None)
        return self._take_effects()

    def unload(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> list[Effect]:
        """Answer all waiting requests with ``error``, because the group is deleted or has another coordinator."""
        for member in self.members:
            if member.joining is not None:
                self._refuse_join(member.joining, member.member_id, error)
                self.members.set_joining(member, None)
            if member.syncing is not None:
                self._effects.append(AnswerSync(member.syncing, SyncResult(error)))
                member.syncing = None
        self.enter(Event.UNLOADED, None)
        self._join = self._sync_deadline_ms = self.earliest_deadline_ms = None
        return self._take_effects()

    # Joining.

    def _join_new(self, request: JoinGroup, reply: Reply, now: Now) -> None:
        instance_id = request.group_instance_id
        if instance_id is not None and instance_id in self.members.static:
            self._static_member_returns(request, instance_id, reply, now)
        elif instance_id is None and request.requires_known_member_id:
            until_ms = now.monotonic_ms + request.session_timeout_ms
            self.members.give_id(request.new_member_id, until_ms)
            self._wake_at(until_ms)
            self._refuse_join(reply, request.new_member_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add(request, request.new_member_id, reply, now)

    def _add(self, request: JoinGroup, member_id: str, reply: Reply, now: Now) -> None:
        if not len(self.members):
            self.protocol_type = request.protocol_type
        if self._join is not None and self.generation_id == 0:
            self._join.has_new_member = True
        member = Member(
            member_id, request.group_instance_id, request.client_id, request.client_host,
            request.session_timeout_ms, request.rebalance_timeout_ms, request.protocols, joining=reply, is_new=True,
        )  # fmt: skip
        self.members.add(member)
        self._tell_of_join(member, is_new=True)
        self._expect(member, NEW_MEMBER_JOIN_TIMEOUT_MS, now)
        self._rebalance(Event.JOIN, f"new member {member_id}: {request.reason or 'no reason given'}", now)

    def _join_again(self, request: JoinGroup, reply: Reply, now: Now) -> None:
        member_id = request.member_id
        refusal = self.member_refusal(member_id, request.group_instance_id)
        if refusal is ErrorCode.NONE and self.state is _EMPTY:
            refusal = ErrorCode.UNKNOWN_MEMBER_ID
        if refusal is not ErrorCode.NONE:
            self._refuse_join(reply, member_id, refusal)
            return
        member = self.members[member_id]
        is_same = member.protocols == request.protocols
        is_leader = member_id == self.members.leader
        if is_same and (self.state is _COMPLETING or (self.state is _STABLE and not is_leader)):
            # The client lost its last JoinGroup response, or is about to sync: repeat this generation.
            self._effects.append(AnswerJoin(reply, self.joined(member, self.state is _COMPLETING and is_leader)))
            return
        self._update(member, request, reply)
        what = "leader" if is_leader else "member"
        reason = f"{what} {member_id} joins again: {request.reason or 'no reason given'}"
        self._rebalance(Event.JOIN, reason, now)

    def _update(self, member: Member, request: JoinGroup, reply: Reply) -> None:
        self.members.set_protocols(member, request.protocols)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        previous = self.members.set_joining(member, reply)
        if previous is not None:  # the client has sent a new request instead
            self._refuse_join(previous, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        self._tell_of_join(member, is_new=False)

    def _tell_of_join(self, member: Member, *, is_new: bool) -> None:
        metadata = member.protocols[0][1]
        cause = "joins" if is_new else "joins again"
        self._report(MemberJoined, cause, member.member_id, is_new, member.group_instance_id, metadata)

    def _static_member_returns(self, request: JoinGroup, instance_id: str, reply: Reply, now: Now) -> None:
        old_member_id = self.members.static[instance_id]
        old = self.members[old_member_id]
        then = StaticMemberStored(
            self.generation_id, instance_id, old_member_id, request.new_member_id, old.protocols,
            old.session_timeout_ms, old.rebalance_timeout_ms, self.members.leader or "", request.can_skip_assignment,
        )  # fmt: skip
        self._fence(old)
        member = self._rename_static(instance_id, request.new_member_id)
        self._report(StaticMemberReturned, "static member returns", instance_id, old_member_id, member.member_id)
        self._update(member, request, reply)
        self._expect(member, member.session_timeout_ms, now)
        reason = f"static member {instance_id} came back"
        if self.state is _COMPLETING:
            self._rebalance(Event.JOIN, reason, now)
        elif self.state is _STABLE:
            if self.members.choose_protocol() == self.protocol_name:
                self._store({other.member_id: other.assignment for other in self.members}, then)
            else:
                self._rebalance(Event.JOIN, f"{reason} with other protocols", now)

    def _rename_static(self, group_instance_id: str, new_member_id: str) -> Member:
        old_member_id = self.members.static[group_instance_id]
        if old_member_id in self._awaited_syncs:
            self._awaited_syncs.remove(old_member_id)
            self._awaited_syncs.add(new_member_id)
        return self.members.rename_static(group_instance_id, new_member_id)

    def _fence(self, member: Member) -> None:
        if member.joining is not None:
            self._refuse_join(member.joining, member.member_id, ErrorCode.FENCED_INSTANCE_ID)
            self.members.set_joining(member, None)
        if member.syncing is not None:
            self._effects.append(AnswerSync(member.syncing, SyncResult(ErrorCode.FENCED_INSTANCE_ID)))
            member.syncing = None

    def _static_member_stored(self, then: StaticMemberStored, error: ErrorCode, now: Now) -> None:
        member = self.members.get(then.new_member_id)
        if member is None or member.joining is None or self.state is not _STABLE:
            return  # the rebalance sends the response
        reply = member.joining
        self.members.set_joining(member, None)
        if error is not ErrorCode.NONE:
            self._rename_static(then.group_instance_id, then.old_member_id)
            self.members.set_protocols(member, then.old_protocols)
            member.session_timeout_ms = then.old_session_timeout_ms
            member.rebalance_timeout_ms = then.old_rebalance_timeout_ms
            self._refuse_join(reply, UNKNOWN_MEMBER_ID, error)
        else:
            is_leader = self.members.leader == member.member_id
            # An older client must not believe that it leads, because the group does not wait for its assignment.
            leader = (self.members.leader or "") if then.can_skip_assignment else then.previous_leader
            skips = is_leader and then.can_skip_assignment
            self._effects.append(AnswerJoin(reply, self.joined(member, skips, leader=leader, skip_assignment=skips)))
        self._expect(member, member.session_timeout_ms, now)

    def _refuse_join(self, reply: Reply, member_id: str, error: ErrorCode) -> None:
        self._effects.append(AnswerJoin(reply, JoinResult(error, member_id)))

    # Rebalancing.

    def _rebalance(self, event: Event, reason: str, now: Now) -> None:
        before = self.state
        self.enter(event, now)
        if before is _PREPARING:
            return
        if before is _COMPLETING:
            self._propagate({}, ErrorCode.REBALANCE_IN_PROGRESS, now)
        self._end_of_syncs()
        timeout_ms = self.members.rebalance_timeout_ms
        if before is _EMPTY:
            delay_ms = self._config.initial_rebalance_delay_ms
            self._join = DelayedJoin.initial(now.monotonic_ms, delay_ms, timeout_ms)
        else:
            self._join = DelayedJoin(now.monotonic_ms + timeout_ms)
        self._wake_at(self._join.deadline_ms)
        self._report(RebalancePrepared, reason, self.generation_id)

    def _complete_join_if_all_came(self, now: Now) -> None:
        if self.state is not _PREPARING or self._join is None:
            return
        if not self._join.is_initial:
            if self.members.all_joined:
                self._complete_join(now)
        elif self._join.deadline_ms <= now.monotonic_ms:  # there is no initial delay
            self._join_deadline_passed(self._join, now)

    def _join_deadline_passed(self, join: DelayedJoin, now: Now) -> None:
        self._join = join.extended(now.monotonic_ms, self._config.initial_rebalance_delay_ms)
        if self._join is None:
            self._complete_join(now)
        else:
            self._wake_at(self._join.deadline_ms)

    def _complete_join(self, now: Now) -> None:
        """Begin the next generation with the members that joined, and all static ones."""
        for member in self.members:
            if member.joining is None and member.group_instance_id is None:
                self._remove(member.member_id, Departure.DROPPED, "did not rejoin in time")
        if not self.members.elect_joined_leader() and len(self.members):
            # Only static members are left, and none has joined: wait once more.
            self._join = DelayedJoin(now.monotonic_ms + self.members.rebalance_timeout_ms)
            self._wake_at(self._join.deadline_ms)
            return
        self._join = None
        self._end_of_syncs()
        self.begin_generation()
        self.enter(Event.MEMBERS_JOINED if len(self.members) else Event.NO_MEMBER_JOINED, now)
        generation = self.generation_id, self.protocol_name or "", self.members.leader or "", self.members.ids
        self._report(JoinCompleted, "all members joined, or the time limit passed", *generation)
        if self.state is _EMPTY:
            self._store({}, EmptyStored(self.generation_id))
        else:
            self._tell_generation(now)

    def _tell_generation(self, now: Now) -> None:
        for member in self.members:
            if member.joining is not None:
                result = self.joined(member, member.member_id == self.members.leader)
                self._effects.append(AnswerJoin(member.joining, result))
                self.members.set_joining(member, None)
            member.is_new = False
            self._expect(member, member.session_timeout_ms, now)
        self._awaited_syncs = set(self.members.ids)
        self._sync_deadline_ms = now.monotonic_ms + self.members.rebalance_timeout_ms
        self._wake_at(self._sync_deadline_ms)

    def _synced(self, member_id: str) -> None:
        self._awaited_syncs.discard(member_id)
        if not self._awaited_syncs:
            self._sync_deadline_ms = None

    def _end_of_syncs(self) -> None:
        self._awaited_syncs.clear()
        self._sync_deadline_ms = None

    def _sync_deadline_passed(self, now: Now) -> None:
        for member_id in sorted(self._awaited_syncs):
            self._remove(member_id, Departure.DROPPED, "did not request its assignment in time")
        self._end_of_syncs()
        self._rebalance(Event.SYNC_TIMED_OUT, Event.SYNC_TIMED_OUT.value, now)
        self._complete_join_if_all_came(now)

    def _assignment_stored(self, then: AssignmentStored, error: ErrorCode, now: Now) -> None:
        if self.state is not _COMPLETING or then.generation_id != self.generation_id:
            return  # a rebalance began before the write was complete
        if error is not ErrorCode.NONE:
            self._propagate({}, error, now)
            self._rebalance(Event.ASSIGNMENT_NOT_STORED, f"the assignment could not be stored: {error.name}", now)
            return
        self._propagate(then.assignments, ErrorCode.NONE, now)
        self.enter(Event.ASSIGNMENT_STORED, now)
        self._report(AssignmentCompleted, "the leader sent the assignment", self.generation_id, then.assignments)

    def _propagate(self, assignments: Mapping[str, bytes], error: ErrorCode, now: Now) -> None:
        for member in self.members:
            self.members.assign(member, assignments.get(member.member_id, b""))
            if member.syncing is None:
                continue
            reply, member.syncing = member.syncing, None
            if error is ErrorCode.NONE:
                self._answer_sync(reply, member.assignment)
            else:
                self._effects.append(AnswerSync(reply, SyncResult(error)))
            self._expect(member, member.session_timeout_ms, now)

    def _answer_sync(self, reply: Reply, assignment: bytes) -> None:
        result = SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol_name, assignment)
        self._effects.append(AnswerSync(reply, result))

    # Members.

    def _remove_and_rebalance(self, event: Event, member_id: str, reason: str, now: Now) -> None:
        self._remove(member_id, Departure.LEFT if event is Event.LEAVE else Departure.SESSION_ENDED, reason)
        self._rebalance(event, f"member {member_id} {reason}", now)

    def _remove(self, member_id: str, departure: Departure, reason: str) -> None:
        """Remove a member. The caller begins a rebalance if needed."""
        member = self.members.remove(member_id)
        self._synced(member_id)
        if member is None:
            return
        if member.joining is not None:
            self._refuse_join(member.joining, UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID)
        if member.syncing is not None:
            self._effects.append(AnswerSync(member.syncing, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)))
        self._report(MemberDeparted, reason, member_id, departure)

    def _expect(self, member: Member, within_ms: int, now: Now) -> None:
        member.deadline_ms = now.monotonic_ms + within_ms
        self._wake_at(member.deadline_ms)

    # Effects and deadlines.

    def _store(self, assignments: dict[str, bytes], then: Stored) -> None:
        self._effects.append(StoreGroup(self.value(assignments), then))

    def _wake_at(self, deadline_ms: int) -> None:
        if self.earliest_deadline_ms is None or deadline_ms < self.earliest_deadline_ms:
            self.earliest_deadline_ms = deadline_ms

    def _deadlines(self) -> list[int]:
        deadlines = [member.deadline_ms for member in self.members if member.deadline_ms is not None]
        deadlines += self.members.pending.values()
        if self._join is not None:
            deadlines.append(self._join.deadline_ms)
        if self._sync_deadline_ms is not None:
            deadlines.append(self._sync_deadline_ms)
        return deadlines

    def _report(self, kind: type[CoordinatorEvent], cause: str, *fields: object) -> None:
        self._effects.append(Happened(kind, cause, fields))

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects
