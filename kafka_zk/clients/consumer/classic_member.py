"""One member of a group that the broker coordinates: the member's side of Kafka's classic group protocol.

Pure. Every method takes an event and the time, and returns effects; ``tick`` acts on what is due, ``next_due_ms`` says
when that is. A request that was lost is answered with NETWORK_EXCEPTION.

A member owns partitions under a *lease*, which is renewed by every answer of the coordinator: it ends a session timeout
after the request was sent, and a rebalance timeout after the last one that met no rebalance, so not later than the
coordinator gives the member up. A Java consumer has no such thing;
with it no two of our members hand out records of a partition at the same time.

Source: AbstractCoordinator.java, ConsumerCoordinator.java@3.9; KIP-345, KIP-394, KIP-429, KIP-814.
Tests: tests/kafka_zk/clients/consumer/test_classic_member.py, test_group_schedules.py.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.assignors import ASSIGNORS, GroupMemberSubscription, PartitionAssignor
from kafka_zk.clients.consumer.group_effects import (
    CountPartitions,
    Drop,
    Effect,
    Fail,
    FindCoordinator,
    JoinAnswer,
    JoinedMember,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    Start,
    Stop,
)
from kafka_zk.protocol.consumer_protocol import (
    NO_GENERATION,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from kafka_zk.protocol.errors import ErrorCode, ProtocolError

UNKNOWN_MEMBER_ID = ""

_COORDINATOR_GONE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)
_NOTHING: frozenset[TopicPartition] = frozenset()


class MemberState(enum.Enum):
    """Where the member is in the protocol."""

    UNJOINED = "wants to join"
    STOPPING = "gives its partitions back before it joins"
    JOINING = "waits for the other members"
    COUNTING = "leads, and finds out which partitions there are"
    SYNCING = "waits for its assignment"
    STABLE = "has its assignment"
    AWAY = "has left until its user asks for records again"
    LEFT = "has left, or cannot go on"


_UNJOINED, _STOPPING, _JOINING, _COUNTING, _SYNCING, _STABLE, _AWAY, _LEFT = MemberState
_ALL_BUT_LEFT = frozenset(MemberState) - {_LEFT}

VALID_PREVIOUS_STATES: dict[MemberState, frozenset[MemberState]] = {
    _UNJOINED: _ALL_BUT_LEFT,
    _STOPPING: frozenset({_STABLE}),
    _JOINING: frozenset({_UNJOINED}),
    _COUNTING: frozenset({_JOINING}),
    _SYNCING: frozenset({_JOINING, _COUNTING}),
    _STABLE: frozenset({_SYNCING}),
    _AWAY: _ALL_BUT_LEFT,
    _LEFT: frozenset(MemberState),
}
"""From which states each can be entered."""

_REBALANCING = frozenset({_JOINING, _COUNTING, _SYNCING})
_HEARTBEATS = frozenset({_STOPPING, _COUNTING, _STABLE})
"""While a JoinGroup or SyncGroup waits, the coordinator expects none, and could not answer any on that connection."""


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """Times in milliseconds; ``assignors`` are names of ``ASSIGNORS``, the favourite first."""

    assignors: tuple[str, ...]
    group_instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_interval_ms: int
    retry_backoff_ms: int


class ClassicMember:
    """See the module's text.

    Attributes:
        owned: the partitions of this member, those that are being given back included.
        generation_id: what commits are made under.
    """

    def __init__(self, config: MemberConfig) -> None:
        self.state = MemberState.UNJOINED
        self.member_id = UNKNOWN_MEMBER_ID
        self.generation_id = NO_GENERATION
        self.owned = _NOTHING
        self._config = config
        self._assignors: Sequence[PartitionAssignor] = [ASSIGNORS[name] for name in config.assignors]
        self._is_cooperative = all(assignor.is_cooperative for assignor in self._assignors)
        self._topics: tuple[str, ...] = ()
        self._joined_topics: tuple[str, ...] = ()
        self._owned_generation = NO_GENERATION
        self._stops: dict[int, frozenset[TopicPartition]] = {}
        self._must_rejoin = False
        self._reason = ""
        self._is_closing = False
        self._coordinator_known = False
        self._number = 0
        self._request: SendJoin | SendSync | CountPartitions | None = None
        self._heartbeat: SendHeartbeat | None = None
        self._sent_ms = 0
        self._heartbeat_due_ms = 0
        self._retry_ms = 0
        self._lease_until_ms: int | None = None
        self._calm_ms = 0
        self._joined: JoinAnswer | None = None
        self._counts: Mapping[str, int] | None = None
        self._effects: list[Effect] = []

    # --- the lease ---

    def may_act(self, now_ms: int) -> bool:
        """Whether what is owned is certainly still owned."""
        return self._lease_until_ms is not None and now_ms < self._lease_until_ms

    @property
    def is_there(self) -> bool:
        """Whether this member belongs to its group, or tries to."""
        return self.state not in (_AWAY, _LEFT)

    @property
    def is_rebalancing(self) -> bool:
        """Whether it has begun to join and has no assignment yet: the coordinator takes no commits until it has."""
        return self.state in _REBALANCING

    @property
    def stopping(self) -> frozenset[TopicPartition]:
        """What of ``owned`` is being given back."""
        return _NOTHING.union(*self._stops.values())

    @property
    def is_leader(self) -> bool:
        """Whether this member made the assignment of its generation."""
        return self._counts is not None and self.state is _STABLE

    # --- from the user ---

    def start(self, topics: Sequence[str], now_ms: int) -> list[Effect]:
        """Join the group, subscribed to these."""
        self._topics = tuple(sorted(topics))
        self._lose_coordinator()
        return self._go_on(now_ms)

    def subscribe(self, topics: Sequence[str], now_ms: int) -> list[Effect]:
        """Subscribe to these from now on: a regular expression matches other topics than before."""
        self._topics = tuple(sorted(topics))
        if self.state is _STABLE and self._topics != self._joined_topics:
            self._rejoin("the subscription changed")
        return self._go_on(now_ms)

    def partitions_changed(self, counts: Mapping[str, int], now_ms: int) -> list[Effect]:
        """Topics of the group have these many partitions now; the leader assigns anew if that is news."""
        if self.is_leader and self._counts is not None:
            known = self._counts
            if any(counts.get(topic, 0) != count for topic, count in known.items()):
                self._rejoin("the number of partitions changed")
        return self._go_on(now_ms)

    @property
    def watched_topics(self) -> frozenset[str]:
        """The topics that the whole group reads, which its leader has to look after."""
        return frozenset(self._counts) if self.is_leader and self._counts is not None else frozenset()

    def close(self) -> None:
        """The user goes, and is given time to give back what is owned: take nothing new.

        Until ``leave`` heartbeats go on, and so does a rebalance that was joined with partitions; none is begun.
        """
        self._is_closing = True

    def leave(self, reason: str) -> list[Effect]:
        """Leave the group; whoever calls this has stopped and committed what was owned. Static members just go."""
        if self.member_id and self.state is not _LEFT and self._config.group_instance_id is None:
            self._effects.append(SendLeave(self.member_id, reason))
        self._end()
        return self._take()

    def give_up(self, reason: str) -> list[Effect]:
        """The user does not come back for more (max.poll.interval.ms): leave until they do."""
        if not self.is_there:
            return []
        if self.member_id and self._config.group_instance_id is None:
            self._effects.append(SendLeave(self.member_id, reason))
        self._forget_member()
        self._enter(_AWAY)
        return self._take()

    def come_back(self, now_ms: int) -> list[Effect]:
        """The user asks for records: join again after ``give_up``."""
        if self.state is _AWAY:
            self._enter(_UNJOINED)
            self._retry_ms = now_ms
        return self._go_on(now_ms)

    # --- from the driver ---

    def coordinator_found(self, now_ms: int) -> list[Effect]:
        """There is a coordinator to send requests to."""
        self._coordinator_known = True
        self._heartbeat_due_ms = now_ms
        return self._go_on(now_ms)

    def stopped(self, number: int, now_ms: int) -> list[Effect]:
        """What ``Stop`` asked for is done: its partitions are committed, and not owned any more."""
        self.owned -= self._stops.pop(number, _NOTHING)
        if not self._stops and self.state is _STOPPING:
            self._enter(_UNJOINED)
        return self._go_on(now_ms)

    def partitions_counted(self, number: int, counts: Mapping[str, int], now_ms: int) -> list[Effect]:
        """The answer to ``CountPartitions``; a topic that does not exist has none."""
        if not self._is_awaited(number, CountPartitions):
            return []
        joined = self._joined
        assert joined is not None, "it was counted for this generation"
        self._counts = counts
        if joined.skip_assignment:  # a static member came back to lead; the assignment is there
            self._sync({}, now_ms)
            return self._take()
        members = [self._understood(each) for each in joined.members]
        assigned = ASSIGNORS[joined.protocol_name].assign(members, {t: count for t, count in counts.items() if count})
        self._sync({member_id: write_assignment(tps) for member_id, tps in assigned.items()}, now_ms)
        return self._take()

    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed."""
        return self._go_on(now_ms)

    def next_due_ms(self) -> int | None:
        """When ``tick`` has something to do; None while an answer is awaited."""
        if not self._coordinator_known or self.state is _LEFT:
            return None
        due = []
        if self._wants_to_join:
            due.append(self._retry_ms)
        if self.state in _HEARTBEATS and self._heartbeat is None:
            due.append(self._heartbeat_due_ms)
        return min(due, default=None)

    # --- answers ---

    def join_answered(self, number: int, answer: JoinAnswer, now_ms: int) -> list[Effect]:
        """The answer to ``SendJoin``."""
        if not self._is_awaited(number, SendJoin):
            return []
        if answer.code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self._enter(_UNJOINED)
        elif answer.code is ErrorCode.NONE:
            self._take_generation(answer, now_ms)
        else:
            self._join_refused(answer.code, now_ms)
        return self._go_on(now_ms)

    def sync_answered(self, number: int, code: ErrorCode, assignment: bytes, now_ms: int) -> list[Effect]:
        """The answer to ``SendSync``."""
        if not self._is_awaited(number, SendSync):
            return []
        if code is ErrorCode.NONE:
            self._renew_lease(self._sent_ms, is_calm=True)
            self._take_assignment(assignment, now_ms)
        else:
            self._sync_refused(code, now_ms)
        return self._go_on(now_ms)

    def heartbeat_answered(self, number: int, code: ErrorCode, sent_ms: int, now_ms: int) -> list[Effect]:
        """The answer to ``SendHeartbeat``, which was sent at ``sent_ms``."""
        if self._heartbeat is None or self._heartbeat.number != number:
            return []
        sent, self._heartbeat = self._heartbeat, None
        if sent.member_id != self.member_id or sent.generation_id != self.generation_id:
            return self._go_on(now_ms)
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._renew_lease(sent_ms, is_calm=code is ErrorCode.NONE)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is _STABLE:
                self._rejoin("the group rebalances")
        elif code is not ErrorCode.NONE:
            self._refused(code, now_ms, "a heartbeat")
        return self._go_on(now_ms)

    def commit_refused(self, member_id: str, generation_id: int, code: ErrorCode, now_ms: int) -> list[Effect]:
        """A commit that was made under these was refused."""
        if self.state is _LEFT or (member_id, generation_id) != (self.member_id, self.generation_id):
            return []
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is _STABLE:
                self._rejoin("the group rebalances")
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID):
            self._refused(code, now_ms, "a commit")
        elif code in _COORDINATOR_GONE:
            self._lose_coordinator()
        return self._go_on(now_ms)

    # --- joining ---

    @property
    def _wants_to_join(self) -> bool:
        return self.state is _UNJOINED and (bool(self.owned) or not self._is_closing)

    def _go_on(self, now_ms: int) -> list[Effect]:
        """Do what is due in this state."""
        if self.state is _STABLE and self._must_rejoin and not (self._stops or self._is_closing):
            self._begin_joining()
        if self._coordinator_known:
            if self._wants_to_join and self._retry_ms <= now_ms:
                self._join(now_ms)
            elif self.state in _HEARTBEATS and self._heartbeat is None and self._heartbeat_due_ms <= now_ms:
                self._beat(now_ms)
        return self._take()

    def _rejoin(self, reason: str) -> None:
        self._must_rejoin = True
        self._reason = reason

    def _begin_joining(self) -> None:
        """An eager member gives back everything first; a cooperative one keeps what it has."""
        self._must_rejoin = False
        if self._is_cooperative or not self.owned:
            self._enter(_UNJOINED)
        else:
            self._enter(_STOPPING)
            self._stop(self.owned)

    def _join(self, now_ms: int) -> None:
        self._enter(_JOINING)
        self._counts = None
        self._joined_topics = self._topics
        owned = self.owned if self._is_cooperative else _NOTHING
        subscription = write_subscription(Subscription(self._topics, owned, self._owned_generation))
        protocols = tuple((assignor.name, subscription) for assignor in self._assignors)
        self._send(SendJoin(self._next_number(), self.member_id, protocols, self._reason), now_ms)

    def _take_generation(self, answer: JoinAnswer, now_ms: int) -> None:
        if answer.protocol_name not in self._config.assignors:
            self._fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"joining a group that runs {answer.protocol_name}")
            return
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        self._reason = ""
        self._joined = answer
        self._heartbeat = None
        self._heartbeat_due_ms = now_ms + self._config.heartbeat_interval_ms
        if answer.leader != answer.member_id or not answer.members:
            self._sync({}, now_ms)
            return
        self._enter(_COUNTING)
        topics = {topic for each in answer.members for topic in self._understood(each).subscription.topics}
        self._request = CountPartitions(self._next_number(), frozenset(topics))
        self._effects.append(self._request)

    def _sync(self, assignments: Mapping[str, bytes], now_ms: int) -> None:
        assert self._joined is not None
        self._enter(_SYNCING)
        protocol_name = self._joined.protocol_name
        sync = SendSync(self._next_number(), self.member_id, self.generation_id, protocol_name, assignments)
        self._send(sync, now_ms)

    def _take_assignment(self, assignment: bytes, now_ms: int) -> None:
        try:
            assigned = frozenset(read_assignment(assignment))
        except ProtocolError:
            self._fail(ErrorCode.UNKNOWN_SERVER_ERROR, "reading the assignment that the group's leader sent")
            return
        self._enter(_STABLE)
        self._owned_generation = self.generation_id
        self._heartbeat_due_ms = now_ms + (self._config.heartbeat_interval_ms if self.may_act(now_ms) else 0)
        if self._is_closing:
            return  # nobody else is given what is owned before this member leaves
        fitting = frozenset(tp for tp in assigned if tp.topic in self._joined_topics)
        if fitting != assigned:  # a static member came back with another subscription, and nobody assigned anew
            self._rejoin("the assignment does not fit the subscription")
        gone, new = self.owned - fitting, fitting - self.owned
        if gone:
            self._rejoin("partitions were given back")
            self._stop(gone)
        if new:
            self.owned |= new
            self._effects.append(Start(new))
        if self._topics != self._joined_topics:
            self._rejoin("the subscription changed")

    @staticmethod
    def _understood(member: JoinedMember) -> GroupMemberSubscription:
        """Who sends what nobody understands is subscribed to nothing."""
        try:
            subscription = read_subscription(member.subscription)
        except ProtocolError:
            subscription = Subscription(())
        return GroupMemberSubscription(member.member_id, member.group_instance_id, subscription)

    # --- refusals ---

    def _join_refused(self, code: ErrorCode, now_ms: int) -> None:
        self._enter(_UNJOINED)
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget_member()
            self._retry_ms = now_ms + self._config.retry_backoff_ms
        elif code is ErrorCode.REBALANCE_IN_PROGRESS or code.retriable:
            self._retry(code, now_ms)
        else:
            self._fail(code, "joining the group")

    def _sync_refused(self, code: ErrorCode, now_ms: int) -> None:
        self._enter(_UNJOINED)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._reason = "the group rebalances"
        else:
            self._refused(code, now_ms, "asking for the assignment")

    def _refused(self, code: ErrorCode, now_ms: int, doing: str) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            # The others have gone on without this member: what it had is theirs.
            member_id = self.member_id
            self._forget_member()
            if code is ErrorCode.ILLEGAL_GENERATION:
                self.member_id = member_id
            self._retry_ms = now_ms
        elif code.retriable:
            self._retry(code, now_ms)
        else:
            self._fail(code, doing)

    def _retry(self, code: ErrorCode, now_ms: int) -> None:
        self._retry_ms = self._heartbeat_due_ms = now_ms + self._config.retry_backoff_ms
        if code in _COORDINATOR_GONE:
            self._lose_coordinator()

    def _lose_coordinator(self) -> None:
        if self.state is not _LEFT:
            self._coordinator_known = False
            self._effects.append(FindCoordinator())

    def _forget_member(self) -> None:
        self._lose_all()
        self.member_id, self.generation_id = UNKNOWN_MEMBER_ID, NO_GENERATION
        self._owned_generation = NO_GENERATION
        self._lease_until_ms = self._heartbeat = self._request = None
        self._must_rejoin = False
        self._enter(_UNJOINED)

    def _fail(self, code: ErrorCode, doing: str) -> None:
        self._lose_all()
        self._end()
        self._effects.append(Fail(code, doing))

    def _end(self) -> None:
        self._enter(_LEFT)
        self._lease_until_ms = self._heartbeat = self._request = None

    # --- inside ---

    def _stop(self, tps: frozenset[TopicPartition]) -> None:
        number = self._next_number()
        self._stops[number] = tps
        self._effects.append(Stop(number, tps))

    def _lose_all(self) -> None:
        if self.owned:
            self._effects.append(Drop(self.owned))
        self.owned = _NOTHING
        self._stops = {}

    def _renew_lease(self, sent_ms: int, *, is_calm: bool) -> None:
        """``is_calm``: no rebalance was under way. Who does not join one in time is out, heartbeats or not."""
        if is_calm:
            self._calm_ms = sent_ms
        until_ms = min(sent_ms + self._config.session_timeout_ms, self._calm_ms + self._config.rebalance_timeout_ms)
        self._lease_until_ms = max(until_ms, self._lease_until_ms or until_ms)

    def _beat(self, now_ms: int) -> None:
        self._heartbeat = SendHeartbeat(self._next_number(), self.member_id, self.generation_id)
        self._heartbeat_due_ms = now_ms + self._config.heartbeat_interval_ms
        self._effects.append(self._heartbeat)

    def _send(self, request: SendJoin | SendSync, now_ms: int) -> None:
        self._request = request
        self._sent_ms = now_ms
        self._effects.append(request)

    def _is_awaited(self, number: int, kind: type[SendJoin] | type[SendSync] | type[CountPartitions]) -> bool:
        if not isinstance(self._request, kind) or self._request.number != number:
            return False
        self._request = None
        return True

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _enter(self, state: MemberState) -> None:
        assert self.state in VALID_PREVIOUS_STATES[state], f"{self.state} -> {state}"
        self.state = state

    def _take(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects
