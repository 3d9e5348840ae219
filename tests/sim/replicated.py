"""A run of replicated partitions: topics of three replicas, faults, then peace, and the judges of replication.

There are three brokers; with every third seed there are five, and partitions move between them.
``play_replicated(seed)`` runs all of it. ``ACKNOWLEDGED_BY_TWO`` is durable and has ``min.insync.replicas`` 2,
``BY_ONE`` 1. ``CACHED`` and ``COMPACTED`` are not flushed: a power loss may remove those of their records that
``power_losses`` excuses. The judges see the brokers' replicas every SAMPLE_MS, and every state that is written to
ZooKeeper. Tests: tests/sim/test_replicated.py.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import inf
from random import Random
from types import MappingProxyType
from typing import Any

from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.clients.connection.errors import ClientClosed, KafkaError
from kafka_zk.clients.connection.waiting import sleep
from kafka_zk.clients.consumer.reader import Reader
from kafka_zk.registry.client.client import Create, Operation, SetData, WatchedEvent
from kafka_zk.registry.znodes import admin, controller, topics
from kafka_zk.registry.znodes.brokers import broker_path
from kafka_zk.registry.znodes.topics import TopicAssignment
from kafka_zk.sim.campaign.plan import Fault, drawn
from kafka_zk.sim.campaign.run import FAULTS_MS, LIVENESS_MS, NEVER, PATIENCE_MS, Outcome, Run
from kafka_zk.sim.judges import cluster as judges
from kafka_zk.sim.machine.scheduler import Stuck
from kafka_zk.sim.world.clients import SEND_EVERY_S, SimProducer, key_of, make_admin
from kafka_zk.sim.world.history import Acked, Fact, Found, HandedOut, Sent
from kafka_zk.sim.zookeeper.znode_tree import Result, ZnodeTree
from tests.sim import replica_judges
from tests.sim.power_losses import PowerLosses
from tests.sim.promptness import COMPOSED_MS, disturbed, in_time, reassigned
from tests.sim.replica_judges import EndSeen, StateSample, StateWrite
from tests.sim.replica_logs import ReplicaLogs
from tests.sim.replica_samples import Running, hosted_replicas, is_ahead, log_end, partitions_of, sampled

ACKNOWLEDGED_BY_TWO = "by-two"
BY_ONE = "by-one"
CACHED = "cached"
COMPACTED = "compacted"
TOPICS: Mapping[str, Mapping[str, str]] = {
    ACKNOWLEDGED_BY_TWO: {"min.insync.replicas": "2", "flush.messages": "1"},
    BY_ONE: {"min.insync.replicas": "1", "flush.messages": "1"},
    CACHED: {"min.insync.replicas": "2", "flush.messages": NEVER},
    COMPACTED: {
        "min.insync.replicas": "2",
        "flush.messages": NEVER,
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.bytes": "600",
    },
}
PARTITIONS = 2
REPLICATION_FACTOR = 3
SAMPLE_MS = 20
READS_EVERY_S = 0.4
ISR_FULL_MS = 30_000
"""ISRs must be full this long after all brokers are back."""
IN_TIME_MS = 8_000
"""A record waits for a lagging follower for ``replica.lag.time.max.ms``, and up to half of it until the next check."""
AGREEMENT_EVERY = 250  # samples
BROKER = {
    "log.cleaner.backoff.ms": "2000",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.flush.start.offset.checkpoint.interval.ms": "5000",
    "replica.fetch.max.bytes": "1000",  # a restarted broker catches up in many steps
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.wait.max.ms": "200",
    "replica.socket.timeout.ms": "3000",
    "controller.socket.timeout.ms": "3000",
    "offsets.topic.replication.factor": "1",
}
REPLICATION_FAULTS = (
    "kill",
    "power",
    "pause",
    "stop",
    "expire",
    "disconnect",
    "lose-request",
    "cut-zookeeper",
    "stop-zookeeper",
    "break",
    "cut",
    "slow",
    "clock",
)
_STATE = "/state"


rare_key_of = partial(key_of, keys=60)
"""With 60 keys, a record stays the last one of its key for longer than a broker needs to restart and catch up."""

_SEQUENCE_PROBABILITY = 0.3


class HeardTree(ZnodeTree):
    """A tree that reports every write: the operation and its session."""

    def __init__(self, run: "ReplicatedRun") -> None:
        super().__init__()
        self._run = run

    def apply(self, operation: Operation, session_id: int, now_ms: int) -> tuple[Result, list[WatchedEvent]]:
        done = super().apply(operation, session_id, now_ms)
        self._run.written([operation], session_id)
        return done

    def apply_multi(
        self, operations: Sequence[Operation], session_id: int, now_ms: int
    ) -> tuple[list[Result], list[WatchedEvent]]:
        done = super().apply_multi(operations, session_id, now_ms)
        self._run.written(operations, session_id)
        return done


class ReplicatedRun(Run):
    """The state of a run; faults act on it as on a ``Run``."""

    topics: Mapping[str, Mapping[str, str]] = TOPICS
    properties: Mapping[str, str] = BROKER
    sequences: Sequence[str] = ("late-orders", "lag", "depose", "outlived", "unnoticed", "unsynced")
    kinds: Sequence[str] = REPLICATION_FAULTS
    send_every_s = SEND_EVERY_S
    reader_options: Mapping[str, Any] = MappingProxyType({})
    faults_ms = FAULTS_MS

    def __init__(self, seed: int, plan: Sequence[Fault] | None, kinds: Iterable[str]) -> None:
        super().__init__(seed, plan or (), REPLICATION_FAULTS)
        self.broker_ids = tuple(range(1, 6 if seed % 3 == 2 else 4))
        names = [f"broker-{number}" for number in self.broker_ids]
        if plan is None:
            self.plan = drawn(Random(f"{seed} replicated plan"), names, (), (), self.faults_ms, tuple(kinds))
            if kinds == self.kinds:
                self.plan = _with_a_sequence(
                    Random(f"{seed} sequence"), self.plan, names, self.faults_ms, self.sequences
                )
        self.power_losses = PowerLosses()
        self.states: dict[TopicPartition, StateSample] = {}
        self.writes: list[StateWrite] = []
        self.ends: list[EndSeen] = []
        self.broken: list[str] = []
        self._sample_count = 0
        self._replica_logs = ReplicaLogs(self.world.disk)
        self._writers: dict[int, int] = {}
        self.world.zookeeper.tree = HeardTree(self)

    # -- phases ---------------------------------------------------------------------------------------------------

    def hosts(self) -> list[str]:
        return [broker.name for broker in self.world.brokers.values()]

    def begin(self) -> None:
        world = self.world
        for number in self.broker_ids:
            broker = world.broker(number, **{key.replace(".", "_"): value for key, value in self.properties.items()})
            broker.power_lost = partial(self._power_lost, number)
        world.start_all()
        self._admin = make_admin(world, world.process("admin"))
        for topic, configs in self.topics.items():
            world.run(self._admin.create_topic(topic, PARTITIONS, REPLICATION_FACTOR, configs))
        self._tool = world.zookeeper.client("tool", session_timeout_ms=600_000)
        self.producers = [
            SimProducer(world, f"producer-{n}", self._writable, self.history, self.send_every_s, rare_key_of)
            for n in (1, 2)
        ]
        for producer in self.producers:
            producer.acknowledged = self.acknowledged
        self._reader_process = world.process("reader")
        self._reader = Reader(
            self._reader_process,
            connect=world.connect_from(self._reader_process),
            bootstrap_servers=world.bootstrap,
            request_timeout_ms=5_000,
            **self.reader_options,
        )
        self._reader.assign({tp: 0 for tp in self._writable()})
        self._reading = ensureDeferred(self._read()).addErrback(world.failed)
        for fault in self.plan:
            world.scheduler.clock.callLater(fault.at_ms / 1000, self._do, fault)
        self._supervise()
        self._sample()
        if len(self.broker_ids) > 3:
            world.scheduler.clock.callLater(5, self._reassign)

    def _writable(self) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS)]

    def _reassign(self) -> None:
        """Request a move of a partition, as old tools do."""
        if self._peaceful:
            return
        tp = self.random.choice(self._writable())
        replicas = self.random.sample(self.broker_ids, REPLICATION_FACTOR)
        self.note(f"reassign {tp} to {replicas}")
        order = {"topic": tp.topic, "partition": tp.partition, "replicas": replicas}
        data = json.dumps({"version": 1, "partitions": [order]}).encode()
        self._tool.create(admin.REASSIGN_PARTITIONS, data).addErrback(lambda failure: None)  # another is in progress
        self.world.scheduler.clock.callLater(self.random.uniform(3, 12), self._reassign)

    async def _read(self) -> None:
        """Repeatedly fetch the partitions' ends and read up to them."""
        while True:
            try:
                asked_ms = self.world.now_ms
                ends = await self._reader.end_offsets(self._writable())
                self.ends += [EndSeen(asked_ms, tp, offset) for tp, offset in ends.items()]
                async for records in self._reader.batches(ends):
                    for record in records:
                        assert record.value is not None
                        value = record.value.decode()
                        self.history.add(HandedOut(self.world.now_ms, "reader", record.tp, record.offset, value))
                await sleep(self._reader_process, READS_EVERY_S)
            except ClientClosed:
                return
            except KafkaError as error:
                self.note(f"the reader fails: {error}")
                await sleep(self._reader_process, 0.5)

    def _power_lost(self, broker_id: int) -> None:
        self.power_losses.power_lost(self.world.now_ms, broker_id)

    # -- observations ---------------------------------------------------------------------------------------------

    def written(self, operations: Iterable[Operation], session_id: int) -> None:
        """Called when a session has written to ZooKeeper."""
        for operation in operations:
            if isinstance(operation, Create | SetData) and operation.path.endswith(_STATE):
                self._state_written(operation.path, session_id)

    def _state_written(self, path: str, session_id: int) -> None:
        _, _, _, topic, _, number, _ = path.split("/")
        data, stat = self.world.zookeeper.tree.get(path)
        state = topics.decode_state(topic, int(number), data, stat.version)
        tp = TopicPartition(topic, int(number))
        sample = StateSample(
            self.world.now_ms,
            tp,
            state.leader,
            state.leader_epoch,
            state.controller_epoch,
            tuple(state.isr),
            stat.version,
        )
        newest_epoch = int(self.world.zookeeper.tree.get(controller.CONTROLLER_EPOCH)[0] or b"0")
        self.writes.append(StateWrite(self._writer(session_id), newest_epoch, sample))
        self.states[tp] = sample
        self._compare_with_the_watermark(sample, self._running())
        self.broken += self.power_losses.written(
            self.world.now_ms, tp, sample.leader, sample.isr, self._registered_ms()
        )
        self.note(str(self.writes[-1]))

    def _registered_ms(self) -> dict[int, float]:
        """The registration time of each live broker."""
        tree = self.world.zookeeper.tree
        stats = {broker_id: tree.exists(broker_path(broker_id)) for broker_id in self.broker_ids}
        return {broker_id: stat.ctime_ms for broker_id, stat in stats.items() if stat is not None}

    def _writer(self, session_id: int) -> int:
        for client in self.world.zookeeper.clients:
            if client.session_id is not None and client.name.startswith("broker-"):
                self._writers.setdefault(client.session_id, int(client.name.rpartition("-")[2]))
        return self._writers[session_id]

    def replicas_of(self, tp: TopicPartition) -> dict[int, Partition]:
        """The replicas at live brokers that are leaders or followers and have a log."""
        return hosted_replicas(tp, self._running())

    def _running(self) -> Running:
        """The partitions of each broker."""
        return {broker.broker_id: partitions_of(broker) for broker in self.world.brokers.values()}

    def _sample(self) -> None:
        self._sample_count += 1
        running = self._running()
        for state in self.states.values():
            if is_ahead(state, running):
                self._compare_with_the_watermark(state, running)
        if self._sample_count % AGREEMENT_EVERY == 0:
            self.compare_logs()
        self.world.scheduler.clock.callLater(SAMPLE_MS / 1000, self._sample)

    def _compare_with_the_watermark(self, state: StateSample, running: Running) -> None:
        if not is_ahead(state, running):
            return
        hosted = hosted_replicas(state.tp, running)
        samples = {broker_id: sampled(broker_id, partition) for broker_id, partition in hosted.items()}
        self.broken += replica_judges.watermark(self.world.now_ms, state, samples)

    def acknowledged(self, fact: Acked) -> None:
        """Judge an acknowledgement that a producer received. A power loss may have removed the record from a broker
        since it was committed.
        """
        wanted = int(self.topics[fact.tp.topic]["min.insync.replicas"])
        ends = {broker.broker_id: log_end(broker, fact.tp) for broker in self.world.brokers.values()}
        if not _is_flushed(fact.tp):
            ends |= dict.fromkeys(self.power_losses.lost_since(self._sent_ms(fact)))
        self.broken += replica_judges.acknowledged(fact.time_ms, fact.tp, fact.offset, wanted, ends)

    def _sent_ms(self, fact: Acked) -> float:
        return next(
            sent.time_ms
            for sent in reversed(self.history.facts)
            if isinstance(sent, Sent) and (sent.tp, sent.value) == (fact.tp, fact.value)
        )

    def compare_logs(self) -> None:
        for tp, state in self.states.items():
            members = {
                broker_id: partition
                for broker_id, partition in self.replicas_of(tp).items()
                if broker_id in state.isr and partition.leader_epoch == state.leader_epoch
            }
            if tp.topic == COMPACTED:  # each replica is compacted independently
                keys = [self._replica_logs.read_keys(*member) for member in members.items()]
                self.broken += replica_judges.last_records(self.world.now_ms, tp, keys)
                continue
            logs = [self._replica_logs.read(*member) for member in members.items()]
            self.broken += replica_judges.agreement(self.world.now_ms, tp, logs)
            if self._is_durable(tp.topic):
                self.broken += replica_judges.durable(self.world.now_ms, tp, logs)

    def _is_durable(self, topic: str) -> bool:
        flush_messages = self.properties.get("log.flush.interval.messages")
        return self.topics.get(topic, {}).get("flush.messages", flush_messages) == "1"

    # -- peace ----------------------------------------------------------------------------------------------------

    def settle_replicas(self) -> dict[TopicPartition, list[Found]]:
        """Wait until all requests are answered, the ISRs are full, and all records are read. Raises: Stuck after
        LIVENESS_MS.
        """
        world = self.world
        for producer in self.producers:
            producer.is_stopping = True
        self._within("a broker does not start", lambda: all(each.is_started for each in world.brokers.values()))
        self._wait_for_full_isrs()
        self._within("records are not answered", lambda: not any(producer.waiting for producer in self.producers))
        last = self.producers[0]
        for tp in self._writable():
            last.send(tp)
        self._within("a partition is not written to", lambda: not last.waiting)
        logs = judges.by_partition(world.run(self._read_all(), LIVENESS_MS))
        ends = {tp: found[-1].offset + 1 for tp, found in logs.items()}
        self._within(
            "replicas do not have everything",
            lambda: all(
                partition.log is not None and partition.log.high_watermark == end
                for tp, end in ends.items()
                for broker_id, partition in self.replicas_of(tp).items()
                if broker_id in self._assignment(tp.topic).partitions[tp.partition]
            ),
        )
        self.compare_logs()
        return logs

    def _wait_for_full_isrs(self) -> None:
        deadline_ms = self.world.now_ms + ISR_FULL_MS
        while not self._is_whole():
            if self.world.now_ms > deadline_ms:
                raise Stuck(f"an ISR is not full after {ISR_FULL_MS} ms: {list(self.states.values())}")
            self.world.run_for(PATIENCE_MS)

    def _is_whole(self) -> bool:
        if self.world.zookeeper.tree.exists(admin.REASSIGN_PARTITIONS) is not None:
            return False
        for topic in self.topics:
            assignment = self._assignment(topic)
            if assignment.adding or assignment.removing:
                return False
            for number, replicas in assignment.partitions.items():
                if sorted(self.states[TopicPartition(topic, number)].isr) != sorted(replicas):
                    return False
        return True

    def _assignment(self, topic: str) -> TopicAssignment:
        """The assignment in ZooKeeper. A broker without a session may keep replicas that a reassignment took from it:
        as in Kafka, it is not notified later.
        """
        return topics.decode_assignment(topic, self.world.zookeeper.tree.get(topics.topic_path(topic))[0])

    def judged_facts(self) -> list[Fact]:
        """The history without acknowledgements and reads of records that a power loss may have removed."""
        sent_ms = {(fact.tp, fact.value): fact.time_ms for fact in self.history.facts if isinstance(fact, Sent)}

        def is_excused(fact: Fact) -> bool:
            if not isinstance(fact, Acked | HandedOut) or _is_flushed(fact.tp):
                return False
            return sent_ms.get((fact.tp, fact.value), inf) <= self.power_losses.excused_until_ms(fact.tp)

        return [fact for fact in self.history.facts if not is_excused(fact)]

    def stop(self) -> None:
        self.world.run(self._reader.close(), LIVENESS_MS)
        self.world.run(self._reading, LIVENESS_MS)
        super().stop()


def play_replicated(
    seed: int, plan: Sequence[Fault] | None = None, kinds: Iterable[str] = REPLICATION_FAULTS
) -> Outcome:
    """Play one run. ``plan``: faults instead of those that the seed draws from ``kinds``."""
    return play_run(ReplicatedRun(seed, plan, kinds))


def play_run(run: ReplicatedRun) -> Outcome:
    """Play faults, then peace, then judge. A violation during the faults ends the run."""
    outcome = Outcome(run.world.seed, run.plan, history=run.history)
    with run.world as world:
        try:
            run.begin()
            world.scheduler.run_for(run.faults_ms, lambda: bool(run.broken))
            if not run.broken:
                run.make_peace()
                logs = run.settle_replicas()
                run.stop()
                outcome.violations += _judged(run, logs)
        except (Stuck, KafkaError) as error:
            outcome.violations.append(f"{type(error).__name__}: {error}")
        outcome.simulated_ms = world.now_ms
    outcome.violations += run.broken + _judged_states(run)
    outcome.violations += [f"unexpected: {failure}" for failure in world.failures]
    return outcome


def _judged(run: ReplicatedRun, logs: Mapping[TopicPartition, list[Found]]) -> list[str]:
    facts = run.judged_facts()
    compacted = {tp: found for tp, found in logs.items() if tp.topic == COMPACTED}
    plain = {tp: found for tp, found in logs.items() if tp.topic != COMPACTED}
    kept = {tp.topic for tp in plain}
    broken = judges.records(facts, plain, kept)
    broken += judges.last_values(facts, compacted, rare_key_of)
    broken += judges.seen(facts, plain, kept)
    broken += in_time(run.history.facts, disturbed(run.history.facts), IN_TIME_MS, reassigned(facts))
    broken += judges.epochs(facts)
    broken += replica_judges.ends(
        each for each in run.ends if each.time_ms > run.power_losses.excused_until_ms(each.tp) or _is_flushed(each.tp)
    )
    if run.world.disk.open_count:
        broken.append(f"{run.world.disk.open_count} files are left open")
    if run.world.network.transports:
        broken.append(f"{len(run.world.network.transports)} ends of connections are left open")
    return broken


def _is_flushed(tp: TopicPartition) -> bool:
    return tp.topic not in (CACHED, COMPACTED)


def _judged_states(run: ReplicatedRun) -> list[str]:
    """Judge the history of the state znodes, even of a run that got stuck."""
    facts = run.history.facts
    broken = judges.controllers(facts)
    broken += replica_judges.leaders(facts)
    broken += replica_judges.states(write.state for write in run.writes)
    broken += replica_judges.writers(facts, run.writes)
    return broken


def _with_a_sequence(
    random: Random, plan: Sequence[Fault], brokers: Sequence[str], end_ms: int, kinds: Sequence[str]
) -> list[Fault]:
    """The plan, sometimes with one of these sequences added; the sequence ends before ``end_ms``."""
    if random.random() >= _SEQUENCE_PROBABILITY:
        return list(plan)
    at_ms = random.randint(1_000, end_ms - COMPOSED_MS)
    return sorted([*plan, Fault(at_ms, random.choice(kinds), random.choice(brokers), 0)])
