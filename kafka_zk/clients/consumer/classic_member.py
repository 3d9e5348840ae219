"""A member's side of Kafka's classic group protocol.

Pure. Every method takes an event and the time, and returns effects. ``tick`` performs due actions; ``next_due_ms`` is
the time of the next one. For a lost request, the driver reports the response NETWORK_EXCEPTION.

A member owns partitions (``member_partitions``) under a lease (``member_lease``); ``classic_states`` has its states.

Source: AbstractCoordinator.java, ConsumerCoordinator.java@3.9; KIP-345, KIP-394, KIP-429, KIP-814.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.assignors import ASSIGNORS, GroupMemberSubscription, PartitionAssignor
from kafka_zk.clients.consumer.classic_states import HEARTBEATS, REBALANCING, TRANSITIONS, Event, MemberState
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
from kafka_zk.clients.consumer.member_lease import MemberLease
from kafka_zk.clients.consumer.member_partitions import NOTHING, MemberPartitions
from kafka_zk.clients.consumer.member_requests import MemberRequests
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


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """Times in milliseconds. ``assignors``: names of ``ASSIGNORS``, the preferred one first."""

    assignors: tuple[str, ...]
    group_instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_interval_ms: int
    retry_backoff_ms: int


@dataclass(slots=True)
class _Joined:
    """The generation that this member is joining or joined last.

    ``topics``: this member's subscription. ``answer``: the response to its JoinGroup. ``counts``: partition counts of
    all members' topics, if this member leads.
    """

    topics: tuple[str, ...] = ()
    answer: JoinAnswer | None = None
    counts: Mapping[str, int] | None = None


class ClassicMember:
    """``generation_id``: the generation under which offsets are committed."""

    def __init__(self, config: MemberConfig) -> None:
        self.state = MemberState.UNJOINED
        self.member_id = UNKNOWN_MEMBER_ID
        self.generation_id = NO_GENERATION
        self._config = config
        self._assignors: Sequence[PartitionAssignor] = [ASSIGNORS[name] for name in config.assignors]
        self._is_cooperative = all(assignor.is_cooperative for assignor in self._assignors)
        self._topics: tuple[str, ...] = ()
        self._lease = MemberLease(config.session_timeout_ms, config.rebalance_timeout_ms)
        self._partitions = MemberPartitions()
        self._requests = MemberRequests()
        self._joined = _Joined()
        self._must_rejoin = False
        self._reason = ""
        self._is_closing = False
        self._effects: list[Effect] = []

    def may_act(self, now_ms: int) -> bool:
        """True if this member certainly still owns its partitions; any thread."""
        return self._lease.holds(now_ms)

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return self._partitions.owned

    @property
    def stopping(self) -> frozenset[TopicPartition]:
        """The partitions that are being revoked."""
        return self._partitions.stopping

    @property
    def is_there(self) -> bool:
        """True if this member belongs to its group, or tries to join."""
        return self.state not in (MemberState.AWAY, MemberState.LEFT)

    @property
    def is_rebalancing(self) -> bool:
        """True from the start of a join until the assignment arrives. The coordinator accepts no commits in that
        time.
        """
        return self.state in REBALANCING

    @property
    def watched_topics(self) -> Mapping[str, int]:
        """Topic -> partition count, for all members' topics, at the last join; empty unless this member leads."""
        return self._joined.counts or {} if self.state is MemberState.STABLE else {}

    # --- from the user ---

    def start(self, topics: Sequence[str], now_ms: int) -> list[Effect]:
        self._topics = tuple(sorted(topics))
        self._lose_coordinator()
        return self._advance(now_ms)

    def subscribe(self, topics: Sequence[str], now_ms: int) -> list[Effect]:
        """Handle a change of the topics that the regular expression matches."""
        self._topics = tuple(sorted(topics))
        if self.state is MemberState.STABLE and self._topics != self._joined.topics:
            self._rejoin("the subscription changed")
        return self._advance(now_ms)

    def partitions_changed(self, counts: Mapping[str, int], now_ms: int) -> list[Effect]:
        """The leader rejoins if a count has changed."""
        if any(counts.get(topic, 0) != count for topic, count in self.watched_topics.items()):
            self._rejoin("the number of partitions changed")
        return self._advance(now_ms)

    def close(self) -> None:
        """Accept no new partitions from now on, so that the user can process the last records.

        Heartbeats continue until ``leave``. A rebalance in progress continues; no new one begins.
        """
        self._is_closing = True

    def leave(self, reason: str) -> list[Effect]:
        """Leave after delivery has stopped and offsets are committed. A static member sends no LeaveGroup."""
        if self.member_id and self.state is not MemberState.LEFT and self._config.group_instance_id is None:
            self._effects.append(SendLeave(self.member_id, reason))
        self._end()
        return self._take()

    def give_up(self, reason: str) -> list[Effect]:
        """The user has not polled for max.poll.interval.ms: leave until they poll again."""
        if not self.is_there:
            return []
        if self.member_id and self._config.group_instance_id is None:
            self._effects.append(SendLeave(self.member_id, reason))
        self._forget_member()
        self._happened(Event.GIVEN_UP)
        return self._take()

    def come_back(self, now_ms: int) -> list[Effect]:
        if self.state is MemberState.AWAY:
            self._happened(Event.CAME_BACK)
            self._requests.retry_ms = now_ms
        return self._advance(now_ms)

    # --- from the driver ---

    def coordinator_found(self, now_ms: int) -> list[Effect]:
        self._requests.is_coordinator_known = True
        self._requests.heartbeat_due_ms = now_ms
        return self._advance(now_ms)

    def stopped(self, number: int, now_ms: int) -> list[Effect]:
        """The partitions of the effect ``Stop`` are committed and no longer owned."""
        self._partitions.stopped(number)
        if self.state is MemberState.STOPPING and not self.stopping:
            self._happened(Event.STOPPED)
        return self._advance(now_ms)

    def partitions_counted(self, number: int, counts: Mapping[str, int], now_ms: int) -> list[Effect]:
        """The result of ``CountPartitions``; a topic that does not exist has no partitions."""
        if not self._requests.is_answered(number, CountPartitions):
            return []
        answer = self._joined.answer
        assert answer is not None, "partitions are counted for a generation"
        self._joined.counts = counts
        self._happened(Event.COUNTED)
        if answer.skip_assignment:  # a static member returned as leader, and the group keeps its assignment
            self._sync(answer, {}, now_ms)
            return self._take()
        members = [self._understood(each) for each in answer.members]
        assigned = ASSIGNORS[answer.protocol_name].assign(members, {t: count for t, count in counts.items() if count})
        self._sync(answer, {member_id: write_assignment(tps) for member_id, tps in assigned.items()}, now_ms)
        return self._take()

    def tick(self, now_ms: int) -> list[Effect]:
        return self._advance(now_ms)

    def next_due_ms(self) -> int | None:
        """None while a response is awaited."""
        requests = self._requests
        if not requests.is_coordinator_known or self.state is MemberState.LEFT:
            return None
        due = []
        if self._wants_to_join:
            due.append(requests.retry_ms)
        if self.state in HEARTBEATS and requests.heartbeat is None:
            due.append(requests.heartbeat_due_ms)
        return min(due, default=None)

    # --- answers ---

    def join_answered(self, number: int, answer: JoinAnswer, now_ms: int) -> list[Effect]:
        if not self._requests.is_answered(number, SendJoin):
            return []
        if answer.code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self._happened(Event.REFUSED)
        elif answer.code is ErrorCode.NONE:
            self._take_generation(answer, now_ms)
        else:
            self._join_refused(answer.code, now_ms)
        return self._advance(now_ms)

    def sync_answered(self, number: int, code: ErrorCode, assignment: bytes, now_ms: int) -> list[Effect]:
        if not self._requests.is_answered(number, SendSync):
            return []
        if code is ErrorCode.NONE:
            self._lease.renew(self._requests.sent_ms, is_calm=True)
            self._take_assignment(assignment, now_ms)
        else:
            self._sync_refused(code, now_ms)
        return self._advance(now_ms)

    def heartbeat_answered(self, number: int, code: ErrorCode, sent_ms: int, now_ms: int) -> list[Effect]:
        sent = self._requests.heartbeat
        if sent is None or sent.number != number:
            return []
        self._requests.heartbeat = None
        if sent.member_id != self.member_id or sent.generation_id != self.generation_id:
            return self._advance(now_ms)
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._lease.renew(sent_ms, is_calm=code is ErrorCode.NONE)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is MemberState.STABLE:
                self._rejoin("the group rebalances")
        elif code is not ErrorCode.NONE:
            self._refused(code, now_ms, "a heartbeat")
        return self._advance(now_ms)

    def commit_refused(self, member_id: str, generation_id: int, code: ErrorCode, now_ms: int) -> list[Effect]:
        if self.state is MemberState.LEFT or (member_id, generation_id) != (self.member_id, self.generation_id):
            return []
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is MemberState.STABLE:
                self._rejoin("the group rebalances")
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID):
            self._refused(code, now_ms, "a commit")
        elif code in _COORDINATOR_GONE:
            self._lose_coordinator()
        return self._advance(now_ms)

    # --- joining ---

    @property
    def _wants_to_join(self) -> bool:
        return self.state is MemberState.UNJOINED and (bool(self.owned) or not self._is_closing)

    def _advance(self, now_ms: int) -> list[Effect]:
        if self.state is MemberState.STABLE and self._must_rejoin and not (self.stopping or self._is_closing):
            self._begin_joining()
        due_ms = self.next_due_ms()
        if due_ms is not None and due_ms <= now_ms:
            if self._wants_to_join:
                self._join(now_ms)
            else:
                self._beat(now_ms)
        return self._take()

    def _rejoin(self, reason: str) -> None:
        self._must_rejoin = True
        self._reason = reason

    def _begin_joining(self) -> None:
        """An eager member first gives up all partitions; a cooperative one keeps them."""
        self._must_rejoin = False
        if self._is_cooperative or not self.owned:
            self._happened(Event.REBALANCES)
        else:
            self._happened(Event.STOPS)
            self._stop(self.owned)

    def _join(self, now_ms: int) -> None:
        self._happened(Event.JOIN_SENT)
        self._joined = _Joined(self._topics)
        owned = self.owned if self._is_cooperative else NOTHING
        subscription = write_subscription(Subscription(self._topics, owned, self._partitions.generation_id))
        protocols = tuple((assignor.name, subscription) for assignor in self._assignors)
        self._send(SendJoin(self._requests.next_number(), self.member_id, protocols, self._reason), now_ms)

    def _take_generation(self, answer: JoinAnswer, now_ms: int) -> None:
        if answer.protocol_name not in self._config.assignors:
            self._fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"joining a group that runs {answer.protocol_name}")
            return
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        self._reason = ""
        self._joined.answer = answer
        self._requests.heartbeat = None
        self._requests.heartbeat_due_ms = now_ms + self._config.heartbeat_interval_ms
        if answer.leader != answer.member_id or not answer.members:
            self._happened(Event.FOLLOWS)
            self._sync(answer, {}, now_ms)
            return
        self._happened(Event.LEADS)
        topics = {topic for each in answer.members for topic in self._understood(each).subscription.topics}
        self._send(CountPartitions(self._requests.next_number(), frozenset(topics)), now_ms)

    def _sync(self, answer: JoinAnswer, assignments: Mapping[str, bytes], now_ms: int) -> None:
        number = self._requests.next_number()
        sync = SendSync(number, self.member_id, self.generation_id, answer.protocol_name, assignments)
        self._send(sync, now_ms)

    def _take_assignment(self, assignment: bytes, now_ms: int) -> None:
        try:
            assigned = frozenset(read_assignment(assignment))
        except ProtocolError:
            self._fail(ErrorCode.UNKNOWN_SERVER_ERROR, "reading the assignment that the group's leader sent")
            return
        self._happened(Event.ASSIGNED)
        self._partitions.generation_id = self.generation_id
        self._requests.heartbeat_due_ms = now_ms + (self._config.heartbeat_interval_ms if self.may_act(now_ms) else 0)
        if self._is_closing:
            return  # no other member gets the owned partitions before this one leaves
        fitting = frozenset(tp for tp in assigned if tp.topic in self._joined.topics)
        if fitting != assigned:  # a static member returned with another subscription and got its old assignment
            self._rejoin("the assignment does not fit the subscription")
        gone, new = self.owned - fitting, fitting - self.owned
        if gone:
            self._rejoin("partitions were given back")
            self._stop(gone)
        if new:
            self._partitions.owned |= new
            self._effects.append(Start(new))
        if self._topics != self._joined.topics:
            self._rejoin("the subscription changed")

    @staticmethod
    def _understood(member: JoinedMember) -> GroupMemberSubscription:
        try:
            subscription = read_subscription(member.subscription)
        except ProtocolError:
            subscription = Subscription(())
        return GroupMemberSubscription(member.member_id, member.group_instance_id, subscription)

    # --- refusals ---

    def _join_refused(self, code: ErrorCode, now_ms: int) -> None:
        self._happened(Event.REFUSED)
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget_member()
            self._requests.retry_ms = now_ms + self._config.retry_backoff_ms
        elif code is ErrorCode.REBALANCE_IN_PROGRESS or code.retriable:
            self._retry(code, now_ms)
        else:
            self._fail(code, "joining the group")

    def _sync_refused(self, code: ErrorCode, now_ms: int) -> None:
        self._happened(Event.REFUSED)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._reason = "the group rebalances"
        else:
            self._refused(code, now_ms, "asking for the assignment")

    def _refused(self, code: ErrorCode, now_ms: int, doing: str) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            # The group continued without this member: other members own its partitions.
            member_id = self.member_id
            self._forget_member()
            if code is ErrorCode.ILLEGAL_GENERATION:
                self.member_id = member_id
            self._happened(Event.EXPELLED)
            self._requests.retry_ms = now_ms
        elif code.retriable:
            self._retry(code, now_ms)
        else:
            self._fail(code, doing)

    def _retry(self, code: ErrorCode, now_ms: int) -> None:
        self._requests.retry_ms = self._requests.heartbeat_due_ms = now_ms + self._config.retry_backoff_ms
        if code in _COORDINATOR_GONE:
            self._lose_coordinator()

    def _lose_coordinator(self) -> None:
        if self.state is not MemberState.LEFT:
            self._requests.is_coordinator_known = False
            self._effects.append(FindCoordinator())

    def _forget_member(self) -> None:
        self._lose_all()
        self.member_id, self.generation_id = UNKNOWN_MEMBER_ID, NO_GENERATION
        self._lease.end()
        self._requests.forget()
        self._must_rejoin = False

    def _fail(self, code: ErrorCode, doing: str) -> None:
        self._lose_all()
        self._end()
        self._effects.append(Fail(code, doing))

    def _end(self) -> None:
        self._happened(Event.ENDED)
        self._lease.end()
        self._requests.forget()

    # --- internals ---

    def _happened(self, event: Event) -> None:
        self.state = TRANSITIONS[event][self.state]

    def _stop(self, tps: frozenset[TopicPartition]) -> None:
        number = self._requests.next_number()
        self._partitions.stop(number, tps)
        self._effects.append(Stop(number, tps))

    def _lose_all(self) -> None:
        if lost := self._partitions.lose():
            self._effects.append(Drop(lost))

    def _beat(self, now_ms: int) -> None:
        requests = self._requests
        requests.heartbeat = SendHeartbeat(requests.next_number(), self.member_id, self.generation_id)
        requests.heartbeat_due_ms = now_ms + self._config.heartbeat_interval_ms
        self._effects.append(requests.heartbeat)

    def _send(self, request: SendJoin | SendSync | CountPartitions, now_ms: int) -> None:
        self._requests.sent(request, now_ms)
        self._effects.append(request)

    def _take(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects
