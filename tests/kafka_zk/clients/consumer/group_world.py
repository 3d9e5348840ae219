"""Members of a group, each with the core of our consumer, and the core of the coordinator: requests are slow or lost,
users are slow, members are killed, and the coordinator moves.

One seed decides everything. The judges: no member hands out records of a partition while another one may; a generation
gives each partition to one member; committed offsets never go back; no record is skipped.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.coordinator.replies import Reply
from kafka_zk.broker.group.config import GroupConfig
from kafka_zk.broker.group.group import Group
from kafka_zk.broker.group.records import GroupMetadataValue
from kafka_zk.broker.group.requests import (
    AnswerJoin,
    AnswerSync,
    JoinGroup,
    JoinResult,
    Now,
    StoreGroup,
    SyncGroup,
    SyncResult,
)
from kafka_zk.broker.group.requests import Effect as GroupEffect
from kafka_zk.clients.consumer.classic_member import ClassicMember, MemberConfig
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
from kafka_zk.protocol.consumer_protocol import read_assignment
from kafka_zk.protocol.errors import ErrorCode

SESSION_MS = 6_000
REBALANCE_MS = 10_000
HEARTBEAT_MS = 2_000
STEP_MS = 50
TOPICS = {"a": 3, "b": 4}


@dataclass
class Consumer:
    """A member with its user and its connection."""

    name: str
    member: ClassicMember
    topics: tuple[str, ...]
    group_instance_id: str | None = None
    alive: bool = True
    failed: ErrorCode | None = None
    is_closing: bool = False
    frozen_until_ms: int = 0
    busy_until_ms: int = 0
    coordinator: int = 0
    """The epoch of the coordinator that it found last."""
    last_arrival_ms: int = 0
    last_answer_ms: int = 0
    delivering: dict[TopicPartition, int] = field(default_factory=dict)
    """The next record to hand out for each partition that is started and not stopped."""
    stops: dict[int, dict[TopicPartition, int]] = field(default_factory=dict)


@dataclass
class World:
    """The group, its members, and the clock."""

    seed: int
    lose: float = 0.0
    fail_store: float = 0.0
    delay: float = 0.0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.ms = 0
        self.counts = dict(TOPICS)
        self.broken: list[str] = []
        self.consumers: list[Consumer] = []
        self.committed: dict[TopicPartition, int] = {}
        self.handed_out: dict[TopicPartition, int] = {}
        self.given: dict[tuple[int, TopicPartition], str] = {}
        self.answered_members: dict[int, str] = {}
        self.stored: GroupMetadataValue | None = None
        self.coordinator_until_ms = 0
        self._calls: list[tuple[int, int, Callable[[], None]]] = []
        self._call_count = 0
        self._waiting: dict[Reply, Callable[[Any], None]] = {}
        self._make_group()

    @property
    def now(self) -> Now:
        return Now(self.ms, 1_700_000_000_000 + self.ms)

    def _make_group(self) -> None:
        config = GroupConfig(initial_rebalance_delay_ms=100)
        self.epoch = getattr(self, "epoch", 0) + 1
        if self.stored is None:
            self.group = Group("g", config, self.now)
            self.apply_group([])
        else:
            self.group, effects = Group.loaded("g", config, self.stored, self.now)
            self.apply_group(effects)

    # --- members ---

    def add(
        self, assignors: tuple[str, ...] = ("range",), topics: tuple[str, ...] = ("a", "b"), instance: str | None = None
    ) -> Consumer:
        config = MemberConfig(assignors, instance, SESSION_MS, REBALANCE_MS, HEARTBEAT_MS, 100)
        consumer = Consumer(f"c{len(self.consumers)}", ClassicMember(config), topics, instance)
        self.consumers.append(consumer)
        self.apply(consumer, consumer.member.start(topics, self.ms))
        return consumer

    def living(self) -> list[Consumer]:
        return [each for each in self.consumers if each.alive and each.failed is None]

    def kill(self, consumer: Consumer) -> None:
        consumer.alive = False
        consumer.delivering.clear()

    def leave(self, consumer: Consumer) -> None:
        """The user gets time; then the member commits, outside a rebalance, and leaves."""
        if consumer.is_closing:
            return
        consumer.is_closing = True
        consumer.member.close()
        held, consumer.delivering = consumer.delivering, {}
        self.later(self.random.choice((0, 0, 3_000, 12_000)), lambda: self._give_back(consumer, held))

    def _give_back(self, consumer: Consumer, held: dict[TopicPartition, int]) -> None:
        if not consumer.alive:
            return
        is_frozen = consumer.frozen_until_ms > self.ms
        if is_frozen or consumer.stops or (consumer.member.is_rebalancing and consumer.member.owned):
            self.later(100, lambda: self._give_back(consumer, held))
            return
        owned = {tp: offset for tp, offset in held.items() if tp in consumer.member.owned}
        self._commit(consumer, owned, lambda: self._go(consumer))

    def _go(self, consumer: Consumer) -> None:
        self.apply(consumer, consumer.member.leave("the consumer was closed"))
        consumer.alive = False

    def move_coordinator(self, away_ms: int) -> None:
        """There is no coordinator for some time; then another broker takes over with the stored state."""
        self.apply_group(self.group.unload())
        self._waiting.clear()
        self.coordinator_until_ms = self.ms + away_ms
        self._make_group()

    # --- time ---

    def run(self, for_ms: int) -> None:
        end_ms = self.ms + for_ms
        while self.ms < end_ms:
            self.ms += STEP_MS
            due = sorted(call for call in self._calls if call[0] <= self.ms)
            self._calls = [call for call in self._calls if call[0] > self.ms]
            for _, _, call in due:
                call()
            if self.coordinator_until_ms <= self.ms:
                self.apply_group(self.group.tick(self.now))
            for consumer in self.random.sample(self.living(), len(self.living())):
                self._act(consumer)

    def later(self, delay_ms: int, call: Callable[[], None]) -> None:
        self._call_count += 1
        self._calls.append((self.ms + delay_ms, self._call_count, call))

    def _act(self, consumer: Consumer) -> None:
        if consumer.frozen_until_ms > self.ms:
            return
        due_ms = consumer.member.next_due_ms()
        if due_ms is not None and due_ms <= self.ms:
            self.apply(consumer, consumer.member.tick(self.ms))
        if consumer.busy_until_ms > self.ms:
            return
        for number in list(consumer.stops):
            self._finish_stop(consumer, number)
        if not consumer.member.may_act(self.ms):
            return
        for tp in list(consumer.delivering):
            self._hand_out(consumer, tp)
        if self.random.random() < 0.1:
            self._commit(consumer, dict(consumer.delivering))

    def _hand_out(self, consumer: Consumer, tp: TopicPartition) -> None:
        for other in self.consumers:
            if other is consumer or not other.alive or tp not in other.delivering:
                continue
            if other.member.may_act(self.ms) and not (self._is_replaced(consumer) or self._is_replaced(other)):
                self.broken.append(f"{self.ms}: {consumer.name} and {other.name} hand out {tp}")
        offset = consumer.delivering[tp]
        if offset > self.handed_out.get(tp, 0):
            self.broken.append(f"{self.ms}: {consumer.name} passes over records of {tp}")
        self.handed_out[tp] = max(self.handed_out.get(tp, 0), offset + 1)
        consumer.delivering[tp] = offset + 1

    def _is_replaced(self, consumer: Consumer) -> bool:
        """A younger member has its group.instance.id, so it is fenced and learns this with its next heartbeat
        (KIP-345).
        """
        younger = self.consumers[self.consumers.index(consumer) + 1 :]
        instance = consumer.group_instance_id
        return instance is not None and any(each.group_instance_id == instance for each in younger)

    # --- a consumer's effects ---

    def apply(self, consumer: Consumer, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case FindCoordinator():
                    self._find_coordinator(consumer)
                case SendJoin() | SendSync() | SendHeartbeat() | SendLeave():
                    self._send(consumer, effect)
                case CountPartitions():
                    delay_ms = self.random.choice((0, 0, 200, 3_000))
                    self.later(delay_ms, partial(self._count, consumer, effect))
                case Start(tps):
                    for tp in tps:
                        if tp in consumer.delivering:
                            self.broken.append(f"{consumer.name} starts {tp} twice")
                        self._begin(consumer, tp)
                case Stop(number, tps):
                    consumer.stops[number] = {tp: consumer.delivering.pop(tp) for tp in tps}
                case Drop(tps):
                    for tp in tps:
                        consumer.delivering.pop(tp, None)
                    consumer.stops.clear()
                case Fail(code):
                    consumer.failed = code

    def _begin(self, consumer: Consumer, tp: TopicPartition) -> None:
        consumer.delivering[tp] = self.committed.get(tp, 0)
        generation = consumer.member.generation_id
        other = self.given.setdefault((generation, tp), consumer.name)
        if other != consumer.name and consumer.group_instance_id is None:
            self.broken.append(f"generation {generation} gives {tp} to {other} and {consumer.name}")

    def _find_coordinator(self, consumer: Consumer) -> None:
        def found() -> None:
            if not consumer.alive:
                return
            if self.coordinator_until_ms > self.ms or self.random.random() < self.lose:
                self.later(100, found)
            else:
                consumer.coordinator = self.epoch
                self.apply(consumer, consumer.member.coordinator_found(self.ms))

        self.later(50, found)

    def _count(self, consumer: Consumer, count: CountPartitions) -> None:
        if consumer.alive:
            counts = {topic: self.counts.get(topic, 0) for topic in count.topics}
            self.apply(consumer, consumer.member.partitions_counted(count.number, counts, self.ms))

    def _finish_stop(self, consumer: Consumer, number: int) -> None:
        offsets = consumer.stops.pop(number)

        def done() -> None:
            if consumer.alive:
                self.apply(consumer, consumer.member.stopped(number, self.ms))

        self._commit(consumer, offsets, done)

    # --- requests ---

    def _send(self, consumer: Consumer, request: SendJoin | SendSync | SendHeartbeat | SendLeave) -> None:
        sent_ms = self.ms

        def answer(result: Any) -> None:
            if not consumer.alive:
                return
            if consumer.frozen_until_ms > self.ms:
                self.later(consumer.frozen_until_ms - self.ms, lambda: answer(result))
            else:
                self.apply(consumer, self._answer(consumer, request, sent_ms, result))

        self._exchange(consumer, lambda reply: self._ask(consumer, request, reply), answer)

    def _exchange(
        self, consumer: Consumer, ask: Callable[[Callable[[Any], None]], None], answer: Callable[[Any], None]
    ) -> None:
        """A request arrives after the earlier ones; it or its response may be lost, which the member notices."""
        lost = self.random.random() < self.lose
        reaches = not lost or self.random.random() < 0.5
        delay_ms = self.random.choice((300, 2_000, 5_000)) if self.random.random() < self.delay else 0
        consumer.last_arrival_ms = max(consumer.last_arrival_ms, self.ms + delay_ms)
        epoch = consumer.coordinator

        def reply(result: Any) -> None:
            if not lost:
                back_ms = self.random.choice((300, 2_000, 5_000)) if self.random.random() < self.delay else 0
                consumer.last_answer_ms = max(consumer.last_answer_ms, self.ms + back_ms)
                self.later(consumer.last_answer_ms - self.ms, lambda: answer(result))

        def arrive() -> None:
            if self.coordinator_until_ms > self.ms or self.epoch != epoch:
                reply(ErrorCode.NOT_COORDINATOR)
            elif reaches:
                ask(reply)

        self.later(consumer.last_arrival_ms - self.ms, arrive)
        if lost:
            self.later(consumer.last_arrival_ms - self.ms + 500, lambda: answer(ErrorCode.NETWORK_EXCEPTION))

    def _ask(self, consumer: Consumer, request: Any, reply: Callable[[Any], None]) -> None:
        instance = consumer.group_instance_id
        match request:
            case SendJoin():
                new_member_id = f"{consumer.name}-{self.random.randrange(10**6)}"
                join = JoinGroup(
                    request.member_id, new_member_id, instance, consumer.name, "h", SESSION_MS, REBALANCE_MS,
                    "consumer", request.protocols, can_skip_assignment=True, reason=request.reason,
                )  # fmt: skip
                self.apply_group(self.group.join(join, self._reply(reply), self.now))
            case SendSync():
                sync = SyncGroup(
                    request.member_id, request.generation_id, instance, "consumer", request.protocol_name,
                    request.assignments,
                )  # fmt: skip
                self._check_assignments(request.assignments)
                self.apply_group(self.group.sync(sync, self._reply(reply), self.now))
            case SendHeartbeat():
                reply(self.group.heartbeat(request.member_id, instance, request.generation_id, self.now))
            case SendLeave():
                _, effects = self.group.leave(request.member_id, instance, request.reason, self.now)
                self.apply_group(effects)

    def _check_assignments(self, assignments: Mapping[str, bytes]) -> None:
        given = [tp for assignment in assignments.values() for tp in read_assignment(assignment)]
        if len(set(given)) != len(given):
            self.broken.append("a leader gives a partition to two members")

    def _answer(self, consumer: Consumer, request: Any, sent_ms: int, result: Any) -> list[Effect]:
        member = consumer.member
        code = result if isinstance(result, ErrorCode) else ErrorCode.NONE
        match request:
            case SendJoin(number):
                return member.join_answered(number, _join_answer(result), self.ms)
            case SendSync(number):
                if isinstance(result, SyncResult):
                    return member.sync_answered(number, result.error, result.assignment, self.ms)
                return member.sync_answered(number, code, b"", self.ms)
            case SendHeartbeat(number):
                return member.heartbeat_answered(number, code, sent_ms, self.ms)
        return []

    def _commit(
        self, consumer: Consumer, offsets: dict[TopicPartition, int], done: Callable[[], None] | None = None
    ) -> None:
        member = consumer.member
        member_id, generation_id, instance = member.member_id, member.generation_id, consumer.group_instance_id

        def ask(reply: Callable[[Any], None]) -> None:
            code = self.group.commit_refusal(member_id, instance, generation_id)
            if code is ErrorCode.NONE:
                for tp, offset in offsets.items():
                    if offset < self.committed.get(tp, 0):
                        self.broken.append(f"{self.ms}: {consumer.name} sets {tp} back")
                    self.committed[tp] = offset
            reply(code)

        def answer(code: ErrorCode) -> None:
            if not consumer.alive:
                return
            if code is not ErrorCode.NONE:
                self.apply(consumer, member.commit_refused(member_id, generation_id, code, self.ms))
            if done is not None:
                done()

        self._exchange(consumer, ask, answer)

    # --- the group's effects ---

    def _reply(self, answer: Callable[[Any], None]) -> Reply:
        self._call_count += 1
        reply = Reply(self._call_count)
        self._waiting[reply] = answer
        return reply

    def apply_group(self, effects: list[GroupEffect]) -> None:
        for effect in effects:
            if isinstance(effect, AnswerJoin | AnswerSync):
                answer = self._waiting.pop(effect.reply, None)
                if answer is not None:
                    answer(effect.result)
            elif isinstance(effect, StoreGroup):
                failed = self.random.random() < self.fail_store
                self.later(self.random.choice((0, 0, 100)), self._stored(effect, failed=failed))

    def _stored(self, effect: StoreGroup, *, failed: bool) -> Callable[[], None]:
        epoch = self.epoch

        def done() -> None:
            if epoch != self.epoch:
                return
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE if failed else ErrorCode.NONE
            if not failed:
                self.stored = effect.value
            self.apply_group(self.group.stored(effect.then, error, self.now))

        return done

    # --- the end ---

    def at_rest(self) -> str:
        """The reason why the group is not at rest, or "": all members are in one generation, and each partition has one
        owner.
        """
        living = self.living()
        owned: dict[TopicPartition, str] = {}
        for consumer in living:
            if consumer.member.generation_id != self.group.generation_id or not consumer.member.may_act(self.ms):
                return f"{consumer.name} is {consumer.member.state} in generation {consumer.member.generation_id}"
            if consumer.member.owned != consumer.delivering.keys():
                return f"{consumer.name} owns {consumer.member.owned} and delivers {set(consumer.delivering)}"
            for tp in consumer.member.owned:
                if tp in owned:
                    return f"{tp} is owned by {owned[tp]} and {consumer.name}"
                owned[tp] = consumer.name
        topics = {topic for consumer in living for topic in consumer.topics}
        wanted = {TopicPartition(topic, number) for topic in topics for number in range(self.counts.get(topic, 0))}
        return "" if owned.keys() == wanted else f"nobody owns {sorted(wanted - owned.keys())}"


def _join_answer(result: JoinResult | ErrorCode) -> JoinAnswer:
    if isinstance(result, ErrorCode):
        return JoinAnswer(result)
    members = tuple(JoinedMember(*each) for each in result.members)
    return JoinAnswer(
        result.error, result.member_id, result.generation_id, result.protocol_name or "", result.leader,
        result.skip_assignment, members,
    )  # fmt: skip
