"""One run: a world whose clients work during operations and planned faults; then *peace*, and the judges.

``play(seed)`` runs all of it. The same seed gives the same history. In peace, all faults are undone. Within
LIVENESS_MS, each partition must then have a leader and an owner and accept writes; then all records are read and all
processes are stopped.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.consumer.reader import Reader
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.controller import CONTROLLER
from kafka_zk.sim.campaign.faults import DRAWN, KINDS
from kafka_zk.sim.campaign.plan import PEACE, Fault, FaultsInForce, drawn
from kafka_zk.sim.campaign.targets import Targets
from kafka_zk.sim.judges import broker_group
from kafka_zk.sim.judges import cluster as judges
from kafka_zk.sim.judges.offsets_topic import OffsetsTopic, read_offsets_topic
from kafka_zk.sim.machine.scheduler import Stuck
from kafka_zk.sim.world.clients import (
    BROKER_GROUP,
    GROUP,
    SimBrokerMember,
    SimMember,
    SimProducer,
    key_of,
    make_admin,
    watch_offsets,
)
from kafka_zk.sim.world.history import Found, Happened, History, Lifted, Stored

BROKERS = (1, 2, 3)
NEVER = str(2**63 - 1)
DURABLE = "durable"
CACHED = "cached"
COMPACTED = "compacted"
"""Topics. DURABLE loses no acknowledged record. CACHED may lose unsynced records in a power loss. COMPACTED keeps the
last value of each key.
"""
TOPICS: Mapping[str, Mapping[str, str]] = {
    DURABLE: {},
    CACHED: {"flush.messages": NEVER},
    COMPACTED: {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.bytes": "600",
    },
}
PARTITIONS = 3
FAULTS_MS = 60_000
LIVENESS_MS = 60_000
PATIENCE_MS = 1_000
MEMBERS = ("member-1", "member-2")
BROKER_MEMBERS = ("broker-member-1", "broker-member-2")
TARGETS = (*(f"broker-{number}" for number in BROKERS), *MEMBERS, *BROKER_MEMBERS, "zookeeper")
ASSIGNORS = ("range", "cooperative-sticky")
BROKER = {
    "log.cleaner.backoff.ms": "2000",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.flush.start.offset.checkpoint.interval.ms": "5000",
    "log.index.interval.bytes": "256",  # small, because logs are short
    "log.flush.interval.messages": "1",  # overridden for CACHED; makes __consumer_offsets durable
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "500",
}


@dataclass
class Outcome:
    seed: int
    plan: list[Fault]
    violations: list[str] = field(default_factory=list)
    history: History = field(default_factory=History)
    simulated_ms: float = 0.0

    @property
    def operations(self) -> int:
        """Number of facts caused by clients."""
        return sum(not isinstance(fact, Lifted | Happened | Stored) for fact in self.history.facts)


class Run(Targets):
    """A run that a seed generates, with its own or a given plan. Faults act on it."""

    def __init__(self, seed: int, plan: Sequence[Fault] | None, kinds: Iterable[str]) -> None:
        super().__init__(seed)
        self.assignor = ASSIGNORS[seed % 2]
        self.producers: list[SimProducer] = []
        self._in_force = FaultsInForce()
        self._joined: Counter[str] = Counter()
        self._closing = False
        names = [f"broker-{number}" for number in BROKERS]
        drawn_plan = drawn(Random(f"{seed} plan"), names, MEMBERS, BROKER_MEMBERS, FAULTS_MS, tuple(kinds))
        self.plan = drawn_plan if plan is None else sorted(plan)

    # -- phases ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        world = self.world
        world.disk.fault = self._disk_fault
        for number in BROKERS:
            world.broker(number, **{key.replace(".", "_"): value for key, value in BROKER.items()})
        world.start_all()
        process = world.process("admin")
        self._admin = make_admin(world, process)
        for topic, configs in TOPICS.items():
            world.run(self._admin.create_topic(topic, PARTITIONS, 1, configs))
        self._tool = world.zookeeper.client("tool", session_timeout_ms=600_000)
        watch_offsets(world, self._tool, self._consumed(), self.history)
        self.producers = [SimProducer(world, f"producer-{n}", self._writable, self.history) for n in (1, 2)]
        for name in MEMBERS + BROKER_MEMBERS:
            self._join(name)
        for fault in self.plan:
            world.scheduler.clock.callLater(fault.at_ms / 1000, self._do, fault)
        self._supervise()

    def _join(self, name: str) -> None:
        self.note(f"start {name}")
        self._joined[name] += 1
        if name in MEMBERS:
            self.members[name] = SimMember(self.world, name, DURABLE, self.history, self._joined[name])
        else:
            self.members[name] = SimBrokerMember(self.world, name, DURABLE, self.history, self.assignor)

    def _consumed(self) -> list[TopicPartition]:
        return [TopicPartition(DURABLE, number) for number in range(PARTITIONS)]

    def _writable(self) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS)]

    def _do(self, fault: Fault) -> None:
        if self._peaceful:
            return
        self.note(str(fault))
        self._in_force.begin(self.world.scheduler.clock, fault, KINDS[fault.kind](self, fault.target))

    def _supervise(self) -> None:
        for broker in self.world.brokers.values():
            wanted = broker.has_given_up or (self._peaceful and not self._closing and not broker.is_alive)
            if wanted and not self._faulty:
                self.note(f"start {broker.name}")
                broker.start()
        self.world.scheduler.clock.callLater(1.5, self._supervise)

    def make_peace(self) -> None:
        """Undo all faults, and start the brokers and members that are down."""
        self._peaceful = True
        self._in_force.end_all()
        self._faulty.clear()
        self.world.network.heal()
        if not self.world.zookeeper.running:
            self.world.zookeeper.start()
        for broker in self.world.brokers.values():
            if not broker.is_alive:
                self.note(f"start {broker.name}")
                broker.start()
        for name in list(self.members):
            self.replace_member(name)
        self.note(PEACE)

    # -- peace ----------------------------------------------------------------------------------------------------

    def settle(self) -> tuple[dict[TopicPartition, list[Found]], OffsetsTopic]:
        """Returns the content of the logs and of ``__consumer_offsets``, once every send is acknowledged and every
        record is delivered and committed. Raises Stuck after LIVENESS_MS.
        """
        world = self.world
        for producer in self.producers:
            producer.is_stopping = True
        self._within("a broker does not start", lambda: all(each.is_started for each in world.brokers.values()))
        self._within("there is no controller", lambda: world.zookeeper.tree.exists(CONTROLLER) is not None)
        self._within("records are not answered", lambda: not any(producer.waiting for producer in self.producers))
        last = self.producers[0]
        for tp in self._writable():
            last.send(tp)
        self._within("a partition is not written to", lambda: not last.waiting)
        logs = judges.by_partition(world.run(self._read_all(), LIVENESS_MS))
        ends = {tp: found[-1].offset + 1 for tp, found in logs.items() if tp.topic == DURABLE}
        self._within("the group makes no progress", lambda: all(self._committed(tp) == end for tp, end in ends.items()))
        self._settle_broker_group(ends)
        return logs, world.run(self._read_offsets_topic(), LIVENESS_MS)

    def _settle_broker_group(self, ends: Mapping[TopicPartition, int]) -> None:
        world = self.world
        deadline_ms = world.now_ms + LIVENESS_MS
        while True:
            committed = world.run(self._admin.groups.committed(BROKER_GROUP), LIVENESS_MS)
            if all(tp in committed and committed[tp].offset == end for tp, end in ends.items()):
                return
            if world.now_ms > deadline_ms:
                raise Stuck(f"the broker group makes no progress: its offsets are {committed}, the logs end at {ends}")
            world.run_for(PATIENCE_MS)

    async def _read_offsets_topic(self) -> OffsetsTopic:
        process = self.world.process("offsets-reader")
        connect = self.world.connect_from(process)
        return await read_offsets_topic(
            Reader(process, connect=connect, bootstrap_servers=self.world.bootstrap),
            int(BROKER["offsets.topic.num.partitions"]),
            BROKER_GROUP,
        )

    def _within(self, trouble: str, condition: Callable[[], bool]) -> None:
        try:
            self.world.until(condition, LIVENESS_MS)
        except Stuck as stuck:
            raise Stuck(f"{trouble}: {stuck}") from None

    def _committed(self, tp: TopicPartition) -> int:
        tree = self.world.zookeeper.tree
        path = znodes.offset_path(GROUP, *tp)
        return int(tree.get(path)[0] or b"-1") if tree.exists(path) is not None else -1

    async def _read_all(self) -> list[Found]:
        world = self.world
        process = world.process("reader")
        reader = Reader(process, connect=world.connect_from(process), bootstrap_servers=world.bootstrap)
        partitions = self._writable()
        ends = await reader.end_offsets(partitions)
        reader.assign({tp: 0 for tp in partitions})
        found = []
        async for records in reader.batches(ends):
            found += [Found(record.tp, record.offset, record.value.decode()) for record in records]
        await reader.close()
        return found

    def stop(self) -> None:
        self._closing = True
        world = self.world
        closing: list[Any] = [producer.close() for producer in self.producers]
        closing += [member.close() for member in self.members.values()]
        closing.append(ensureDeferred(self._admin.close()))
        for each in closing:
            world.run(each, LIVENESS_MS)
        for broker in world.brokers.values():
            world.run(broker.stop(), LIVENESS_MS)
        world.run_for(PATIENCE_MS)


def play(
    seed: int,
    plan: Sequence[Fault] | None = None,
    kinds: Iterable[str] = DRAWN,
    prepare: Callable[[Run], None] = lambda run: None,
) -> Outcome:
    """``plan``: faults to use instead of those that the seed generates from ``kinds``. ``prepare``: called with the run
    before it begins.
    """
    run = Run(seed, plan, kinds)
    prepare(run)
    outcome = Outcome(seed, run.plan, history=run.history)
    with run.world as world:
        try:
            run.begin()
            world.run_for(FAULTS_MS)
            run.make_peace()
            logs, offsets = run.settle()
            run.stop()
            outcome.violations += _judged(run, logs, offsets)
        except (Stuck, KafkaError) as error:
            outcome.violations.append(f"{type(error).__name__}: {error}")
        outcome.simulated_ms = world.now_ms
    outcome.violations += [f"unexpected: {failure}" for failure in world.failures]
    return outcome


def _judged(run: Run, logs: dict[TopicPartition, list[Found]], offsets: OffsetsTopic) -> list[str]:
    facts = run.history.facts
    ends = {tp: found[-1].offset + 1 for tp, found in logs.items() if tp.topic == DURABLE}
    compacted = {tp: found for tp, found in logs.items() if tp.topic == COMPACTED}
    broken = judges.records(facts, {tp: found for tp, found in logs.items() if tp not in compacted}, {DURABLE})
    broken += judges.last_values(facts, compacted, key_of)
    broken += judges.seen(facts, logs, {DURABLE})
    broken += judges.controllers(facts)
    broken += judges.epochs(facts)
    broken += judges.group(facts, ends)
    broken += broker_group.generations(facts, BROKER_GROUP, offsets.generations)
    broken += broker_group.commits(facts, offsets.commits)
    broken += broker_group.all_handed_out(facts, ends)
    if run.world.disk.open_count:
        broken.append(f"{run.world.disk.open_count} files are left open")
    if run.world.network.transports:
        broken.append(f"{len(run.world.network.transports)} ends of connections are left open")
    return broken
