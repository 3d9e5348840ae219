"""Members of a group on the in-memory ZooKeeper: real drivers, and consumers that hand out numbers instead of records.

A ``Process`` is paused and killed as a whole: neither messages nor its own timers reach it. Timers and messages that
became due during the pause arrive when the process resumes, its own timers first. So a zombie acts before it learns
that its session has ended.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from twisted.internet.base import DelayedCall
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.config import GroupConfig
from kafka_zk.rebalance.delivery import Start
from kafka_zk.rebalance.driver import GroupDriver, Identity
from kafka_zk.rebalance.events import RebalanceEvent
from kafka_zk.registry.client.client import Create, Delete, Operation
from kafka_zk.registry.client.watches import DataWatcher
from kafka_zk.registry.offsets import OffsetRefused
from kafka_zk.registry.paths import ensure_persistent_paths
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.consumers import ConsumerRegistration
from kafka_zk.registry.znodes.group_assignment import GroupAssignment, assignment_path, decode
from kafka_zk.registry.znodes.topics import TopicAssignment, encode_assignment, topic_path
from kafka_zk.sim.judges.zookeeper_group import Fact, Kind, facts_of, violations
from kafka_zk.sim.machine.scheduler import Scheduler, Stuck
from kafka_zk.sim.zookeeper.client import SimClient
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper
from tests.rebalance.old_consumer import GROUP, OldConsumer

COOPERATIVE = ("cooperative-sticky", "range")
TICK_S = 0.1
COMMIT_EVERY_TICKS = 5
STOP_MS = 30
LOOK_EVERY_MS = 5


class ProcessClock:
    """The clock of one process: its delayed calls wait while the process is paused."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held_back: list[Callable[[], object]] | None = None

    def seconds(self) -> float:
        return self._clock.seconds()

    def wall_ms(self) -> int:
        return int(self._clock.seconds() * 1000)

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000

    def callLater(self, delay: float, call: Callable[..., object], /, *args: object) -> DelayedCall:
        def due() -> None:
            if self._held_back is None:
                call(*args)
            else:
                self._held_back.append(lambda: call(*args))

        return self._clock.callLater(delay, due)

    def pause(self) -> None:
        self._held_back = self._held_back or []

    def resume(self) -> None:
        held_back, self._held_back = self._held_back or [], None
        for call in held_back:
            call()


class Process:
    """One member: a ZooKeeper client, a driver, and a consumer that hands out the next numbers at every tick."""

    def __init__(
        self, group: "Group", consumer_id: str, registration: ConsumerRegistration, config: GroupConfig | None = None
    ) -> None:
        self.group = group
        self.consumer_id = consumer_id
        self.client: SimClient = group.zookeeper.client(consumer_id, session_timeout_ms=group.session_timeout_ms)
        self.clock = ProcessClock(group.scheduler.clock)
        self.events: list[Any] = []
        self.positions: dict[TopicPartition, int] = {}  # partition -> the next number to deliver
        self.prepared: set[TopicPartition] = set()
        self.threads: dict[TopicPartition, int] = {}
        self.suspended = False
        self.alive = True
        self.leaving = False
        self.failure: BaseException | None = None
        self.refusals: list[OffsetRefused] = []
        self.stop_ms: float = STOP_MS
        self._ticks = 0
        self._committed: dict[TopicPartition, int] = {}  # the last attempt: equal positions are not sent again
        self.driver = GroupDriver(
            self.client, self.clock, Identity(GROUP, consumer_id, registration), self, config, self._observed
        )
        self.started: Deferred[Any] = ensureDeferred(self.driver.start())
        self.started.addErrback(self._start_failed)
        self.clock.callLater(TICK_S * group.scheduler.random.random(), self._tick)

    # Delivery

    def prepare(self, partitions: frozenset[TopicPartition]) -> None:
        self.prepared |= partitions

    def start(self, starts: Mapping[TopicPartition, Start]) -> None:
        for tp, start in starts.items():
            assert tp not in self.positions, f"{tp} was started twice"
            assert tp in self.prepared, f"{tp} was started without being prepared"
            self.prepared.remove(tp)
            self.positions[tp] = max(0, start.offset)
            self._committed.pop(tp, None)
            self.threads[tp] = start.thread
        self._commit({tp: 0 for tp, start in starts.items() if start.offset < 0})

    def stop(self, partitions: frozenset[TopicPartition]) -> Awaitable[Mapping[TopicPartition, int | None]]:
        offsets = {tp: self.positions.pop(tp) for tp in sorted(partitions)}
        stopped: Deferred[Mapping[TopicPartition, int | None]] = Deferred()
        self.clock.callLater(self.group.scheduler.random.uniform(0, self.stop_ms) / 1000, stopped.callback, offsets)
        return stopped

    def drop(self, partitions: frozenset[TopicPartition]) -> None:
        for tp in partitions:
            self.positions.pop(tp, None)

    def suspend(self) -> None:
        self.suspended = True

    def resume(self) -> None:
        self.suspended = False

    def _start_failed(self, failure: Failure) -> None:
        assert failure.value is not None
        self.failed(failure.value)

    def failed(self, error: BaseException) -> None:
        self.failure = error

    # Faults and changes

    def pause(self) -> None:
        """Like SIGSTOP."""
        self.clock.pause()
        self.client.pause()

    def wake(self) -> None:
        """Like SIGCONT."""
        self.clock.resume()
        self.client.resume()

    def kill(self) -> None:
        """Like kill -9: the process never sends anything again."""
        self.pause()
        self.alive = False

    def leave(self) -> "Deferred[None]":
        self.leaving = True
        return ensureDeferred(self._leave())

    async def _leave(self) -> None:
        await self.driver.leave()
        await self.client.close()
        self.alive = False

    # What tests request

    @property
    def owned(self) -> list[TopicPartition]:
        return sorted(self.positions)

    def named(self, kind: type[RebalanceEvent]) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def commit(
        self, offsets: Mapping[TopicPartition, int]
    ) -> "Deferred[Mapping[TopicPartition, OffsetRefused | None]]":
        return ensureDeferred(self.driver.commit(offsets))

    # The member's own work

    def _observed(self, event: Event) -> None:
        self.events.append(event)
        self.group.facts.extend(facts_of(event))

    def _tick(self) -> None:
        if not self.alive:
            return
        self._ticks += 1
        for tp in sorted(self.positions):
            self._hand_out(tp)
        if self._ticks % COMMIT_EVERY_TICKS == 0 and not self.leaving:
            self._commit({tp: offset for tp, offset in self.positions.items() if self._committed.get(tp) != offset})
        self.clock.callLater(self.group.tick_s, self._tick)

    def _hand_out(self, tp: TopicPartition) -> None:
        for _ in range(self.group.records_per_tick):
            if self.suspended or self.positions[tp] >= self.group.log_ends[tp] or not self.driver.lease.may_act():
                return
            self.group.handed_out(self, tp, self.positions[tp])
            self.positions[tp] += 1

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        def settled(outcomes: Mapping[TopicPartition, OffsetRefused | None]) -> None:
            self.refusals.extend(refused for refused in outcomes.values() if refused is not None)
            for tp in (tp for tp, refused in outcomes.items() if refused is not None):
                self._committed.pop(tp, None)

        self._committed.update(offsets)
        if offsets:
            self.commit(offsets).addCallback(settled)


class Group:
    """Topics, members, and the recorded facts about them."""

    def __init__(
        self,
        partitions: Mapping[str, int] | None = None,
        seed: int = 0,
        *,
        session_timeout_ms: int = 6000,
        brokers: int = 1,
    ) -> None:
        self.scheduler = Scheduler(seed)
        self.random = self.scheduler.random
        self.zookeeper = SimZooKeeper(self.scheduler.clock, seed)
        self.session_timeout_ms = session_timeout_ms
        self.tool: SimClient = self.zookeeper.client("tool", session_timeout_ms=60_000)
        self.scheduler.run(ensure_persistent_paths(self.tool))
        self.topics = TopicRegistry(self.tool)
        self.log_ends: dict[TopicPartition, int] = {}
        self.records_per_tick = 3
        self.tick_s = TICK_S
        self.facts: list[Fact] = []
        self.seen: list[str] = []  # violations that were detected immediately, with ZooKeeper as the witness
        self.processes: list[Process] = []
        self.old_consumers: list[OldConsumer] = []
        self._brokers: dict[int, SimClient] = {}
        for topic, count in (partitions or {"t": 4}).items():
            self.create_topic(topic, count)
        for broker_id in range(brokers):
            self.start_broker(broker_id)

    # Members

    def join(
        self,
        name: str,
        strategies: Sequence[str] = COOPERATIVE,
        *,
        subscription: Mapping[str, int] | None = None,
        pattern: str = znodes.STATIC,
        instance_timeout_ms: int | None = None,
        config: GroupConfig | None = None,
    ) -> Process:
        """Make a member begin to start; ``instance_timeout_ms`` makes it a static member."""
        registration = ConsumerRegistration(
            subscription or {tp.topic: 1 for tp in self.log_ends},
            pattern,
            1,
            tuple(strategies),
            name if instance_timeout_ms is not None else None,
            instance_timeout_ms,
        )
        process = Process(self, f"{GROUP}_{name}", registration, config)
        self.processes.append(process)
        return process

    def join_all(self, names: Iterable[str], strategies: Sequence[str] = COOPERATIVE, **options: Any) -> list[Process]:
        """Start one member per letter, one after the other; returns when the group is stable."""
        joined = []
        for name in names:
            joined.append(self.join(name, strategies, **options))
            self.settle()
        return joined

    def join_old(self, name: str) -> OldConsumer:
        """Start a consumer of Kafka 0.10."""
        old = OldConsumer(self, name)
        self.old_consumers.append(old)
        return old

    @property
    def live(self) -> list[Process]:
        return [process for process in self.processes if process.alive and not process.leaving]

    # Brokers and producers

    def create_topic(self, topic: str, count: int) -> None:
        self.scheduler.run(self.topics.create_topic(topic, {number: [0] for number in range(count)}, None, {}))
        self._know(topic, range(count))

    def grow_topic(self, topic: str, added: int) -> None:
        first = sum(tp.topic == topic for tp in self.log_ends)
        numbers = range(first, first + added)
        self.scheduler.run(self.topics.add_partitions(topic, {number: [0] for number in numbers}))
        self._know(topic, numbers)

    def delete_topic(self, topic: str) -> None:
        """Delete the topic's znodes, as the controller does at the end of a deletion. Group offsets stay."""
        self.scheduler.run(self.tool.multi(self.deletion(topic)))

    def make_again(self, topic: str, count: int, records: int, *, at_once: bool = False) -> None:
        """Recreate the topic with ``records`` records in each partition. ``at_once``: delete the old topic in the same
        multi.
        """
        data = encode_assignment(TopicAssignment({number: [0] for number in range(count)}))
        deletion = self.deletion(topic) if at_once else []
        self.scheduler.run(self.tool.multi([*deletion, Create(topic_path(topic), data)]))
        self.log_ends = {tp: end for tp, end in self.log_ends.items() if tp.topic != topic}
        self._know(topic, range(count))
        self.log_ends |= {tp: records for tp in self.log_ends if tp.topic == topic}

    @staticmethod
    def deletion(topic: str) -> list[Operation]:
        return [Delete(topic_path(topic))]

    def produce(self, count: int = 1) -> None:
        """Append ``count`` records to each partition."""
        for tp in self.log_ends:
            self.log_ends[tp] += count

    def start_broker(self, broker_id: int) -> None:
        client = self._brokers[broker_id] = self.zookeeper.client(f"broker-{broker_id}")
        self.scheduler.run(client.create(f"/brokers/ids/{broker_id}", b"{}", ephemeral=True))

    def stop_broker(self, broker_id: int) -> None:
        self.zookeeper.expire(self._brokers.pop(broker_id))

    def close(self) -> None:
        """End all work in progress."""
        for client in self.zookeeper.clients:
            client.disconnect()
            client.close()

    # Observations

    def handed_out(self, process: Process, tp: TopicPartition, offset: int) -> None:
        self.facts.append(Fact(self.scheduler.now_ms, process.consumer_id, Kind.HANDED_OUT, tp, offset))
        owner = self.owner(tp)
        if owner is None or owner.rpartition("-")[0] != process.consumer_id:
            self.seen.append(f"{self.scheduler.now_ms}: {process.consumer_id} handed out {tp}, the owner is {owner}")

    def owner(self, tp: TopicPartition) -> str | None:
        """The current content of the owner znode."""
        path = znodes.owner_path(GROUP, *tp)
        if self.zookeeper.tree.exists(path) is None:
            return None
        return (self.zookeeper.tree.get(path)[0] or b"").decode()

    def owners(self) -> dict[TopicPartition, str | None]:
        """Partition -> the consumer id of its owner."""
        owners = {tp: self.owner(tp) for tp in sorted(self.log_ends)}
        return {tp: None if owner is None else owner.rpartition("-")[0] for tp, owner in owners.items()}

    def offset(self, tp: TopicPartition) -> int:
        """The stored offset."""
        path = znodes.offset_path(GROUP, *tp)
        return int(self.zookeeper.tree.get(path)[0] or b"") if self.zookeeper.tree.exists(path) is not None else -1

    def assignment(self) -> GroupAssignment | None:
        """The assignment that the leader wrote last."""
        path = assignment_path(GROUP)
        return decode(path, self.zookeeper.tree.get(path)[0]) if self.zookeeper.tree.exists(path) is not None else None

    def violations(self, *, all_delivered: bool = True) -> list[str]:
        return self.seen + violations(self.facts, self.log_ends if all_delivered else None)

    def settle(self, duration_ms: float = 1000) -> None:
        """Advance the clock by this time."""
        self.scheduler.run_for(duration_ms)

    def is_served(self) -> bool:
        """True if every partition is delivered by its owner."""
        consumers: list[Process | OldConsumer] = [*self.live, *(old for old in self.old_consumers if old.alive)]
        return {tp: consumer.consumer_id for consumer in consumers for tp in consumer.positions} == self.owners()

    @property
    def counts(self) -> list[int]:
        """The number of partitions of each live member."""
        return [len(process.positions) for process in self.live]

    def until_shared(self, *counts: int, limit_ms: float = 15_000) -> None:
        """Wait until all partitions are delivered and the live members have these numbers of partitions (in any
        order)."""
        self._until(lambda: sorted(self.counts) == sorted(counts) and self.is_served(), limit_ms)

    def until_served(self, limit_ms: float = 60_000) -> None:
        """Raises Stuck if it takes longer."""
        self._until(self.is_served, limit_ms)

    def until_consumed(self, limit_ms: float = 60_000) -> None:
        """Wait until all records are delivered and committed."""
        self._until(lambda: all(self.offset(tp) == end for tp, end in self.log_ends.items()), limit_ms)

    def _until(self, condition: Callable[[], bool], limit_ms: float) -> None:
        """Wait for the condition. It is checked only every few ms, because each check is expensive."""
        end_ms = self.scheduler.now_ms + limit_ms
        while not condition():
            if self.scheduler.now_ms > end_ms:
                raise Stuck(f"the condition did not hold within {limit_ms} ms (seed {self.scheduler.seed})")
            self.settle(LOOK_EVERY_MS)

    def _know(self, topic: str, numbers: Sequence[int]) -> None:
        for number in numbers:
            tp = TopicPartition(topic, number)
            self.log_ends[tp] = 0
            DataWatcher(self.tool, znodes.offset_path(GROUP, *tp), self._storing(tp))

    def _storing(self, tp: TopicPartition) -> Callable[[bytes | None, object], None]:
        return lambda data, stat: self._stored(tp, data)

    def _stored(self, tp: TopicPartition, data: bytes | None) -> None:
        if data is not None:
            self.facts.append(Fact(self.scheduler.now_ms, "", Kind.STORED, tp, int(data)))
