"""A world for the producer's cores: one producer without sockets and timers, and connections to a model broker."""

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.producer.batch import ProducerBatch
from kafka_zk.clients.producer.completion import BatchCompletion
from kafka_zk.clients.producer.config import ProducerConfig
from kafka_zk.clients.producer.future import RecordFuture
from kafka_zk.clients.producer.idempotence import Idempotence
from kafka_zk.clients.producer.record_accumulator import RecordAccumulator
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.produce import PartitionResult
from tests.kafka_zk.clients.producer.model_broker import ModelBroker

NODES = (0, 1)


class OnWire(NamedTuple):
    """A batch and its bytes as sent: the bytes keep their sequence when the batch gets another one."""

    batch: ProducerBatch
    data: bytes


@dataclass
class World:
    """One producer's cores, a broker model, and a connection per node whose requests arrive in order or not at all."""

    config: ProducerConfig
    broker: ModelBroker = field(default_factory=ModelBroker)
    now_ms: int = 1_000_000
    sent: dict[TopicPartition, list[tuple[bytes, RecordFuture]]] = field(default_factory=dict)
    most_used_bytes: int = 0

    def __post_init__(self) -> None:
        self.accumulator = RecordAccumulator(self.config, lambda: self.now_ms)
        is_transactional = self.config.transactional_id is not None
        self.idempotence = Idempotence(transactional=is_transactional) if self.config.idempotent else None
        if self.idempotence is not None:
            self.idempotence.set_producer_id(7, 0)
        self.completion = BatchCompletion(self.accumulator, self.idempotence, self.config)
        self.wires: dict[int, deque[list[OnWire]]] = {node: deque() for node in NODES}
        self.leaders: dict[int, int] = {}
        self.unready: dict[int, int] = {}  # the number of requests for which the partition's new leader is not ready

    def leader_of(self, tp: TopicPartition) -> int:
        return self.leaders.get(tp.partition, tp.partition % len(NODES))

    def append(self, partition: int, value: bytes) -> RecordFuture | None:
        future = self.accumulator.append("t", partition, b"k", value, self.now_ms, ())
        if future is not None:
            self.sent.setdefault(TopicPartition("t", partition), []).append((value, future))
        self.most_used_bytes = max(self.most_used_bytes, self.accumulator.used_bytes)
        return future

    def drain(self) -> None:
        self.completion.expire(self.now_ms)
        if self.idempotence is not None:
            self.idempotence.prepare()
            if self.idempotence.needs_producer_id:
                self.idempotence.set_producer_id(8, 0)
        may = self.idempotence.may_drain if self.idempotence is not None else lambda _: True
        limit = self.config.max_in_flight_requests_per_connection
        with_room = [node for node in NODES if len(self.wires[node]) < limit]
        drained = self.accumulator.drain(self.leader_of, with_room, may, self.config.max_request_size, self.now_ms)
        for node, batches in drained.requests.items():
            for batch in batches:
                if self.idempotence is not None:
                    self.idempotence.drained(batch)
            self.wires[node].append([OnWire(batch, bytes(batch.encode())) for batch in batches])

    def exchange(self, node: int) -> None:
        """Deliver the oldest request of a connection and its response."""
        if self.wires[node]:
            request = self.wires[node].popleft()
            for sent, result in [(sent, self._ask(node, sent)) for sent in request]:
                self.completion.handle(sent.batch, result, self.now_ms)

    def cut(self, node: int, arrived: int) -> None:
        """Break the connection after ``arrived`` of its requests reached the broker; no response arrives."""
        lost = list(self.wires[node])
        self.wires[node].clear()
        for request in lost[:arrived]:
            for sent in request:
                self._ask(node, sent)
        for request in lost:
            for batch, _ in request:
                error = PartitionResult(batch.tp.partition, ErrorCode.NETWORK_EXCEPTION)
                self.completion.handle(batch, error, self.now_ms)

    def settle(self) -> None:
        """Run without faults until every record has its outcome."""
        self.accumulator.begin_flush()
        for _ in range(2_000):
            if self.all_done():
                break
            self.drain()
            for node in NODES:
                self.exchange(node)
            self.now_ms += 50
        self.accumulator.end_flush()
        assert self.all_done()

    def all_done(self) -> bool:
        return all(future.done() for sent in self.sent.values() for _, future in sent)

    def refuse(self, code: ErrorCode, node: int = 0) -> None:
        """The broker responds to the oldest request of a connection with an error, and writes nothing of it."""
        for batch, _ in self.wires[node].popleft():
            self.completion.handle(batch, PartitionResult(batch.tp.partition, code, log_start_offset=0), self.now_ms)

    def send_batches(self, *values: bytes, partition: int = 0) -> list[RecordFuture]:
        """Send each value in a batch of its own, as far as this is allowed now."""
        futures = []
        for value in values:
            future = self.append(partition, value + b"." * self.config.batch_size)
            assert future is not None
            futures.append(future)
        self.drain_all()
        return futures

    def drain_all(self) -> None:
        """Drain until the producer may send no more requests at this time."""
        before = -1
        while before != (before := sum(len(wire) for wire in self.wires.values())):
            self.drain()

    def values(self, partition: int = 0) -> list[bytes]:
        """The values in the partition's log, without the padding of ``send_batches``."""
        return [(value or b"").rstrip(b".") for value in self.broker.logs.get(TopicPartition("t", partition), [])]

    def _ask(self, node: int, sent: OnWire) -> PartitionResult:
        tp = sent.batch.tp
        if self.leader_of(tp) != node:
            return PartitionResult(tp.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.unready.get(tp.partition, 0) > 0:
            self.unready[tp.partition] -= 1
            return PartitionResult(tp.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.broker.produce(tp, sent.data)


def make_world(**options: Any) -> World:
    defaults = {"batch_size": 300, "buffer_memory": 6_000, "linger_ms": 5, "retry_backoff_ms": 20}
    return World(ProducerConfig.from_properties({**defaults, **options}))


def run_faulty(world: World, seed: int, steps: int = 400) -> None:
    """Append, send, lose connections, and move leaders, which are not ready immediately, by the seed."""
    source = random.Random(seed)
    world.unready = {partition: source.randrange(5) for partition in range(3)}
    for step in range(steps):
        world.now_ms += source.randrange(8)
        choice = source.random()
        if choice < 0.5:
            world.append(source.randrange(3), b"%d" % step + b"." * source.randrange(120))
        elif choice < 0.7:
            world.drain()
        elif choice < 0.9:
            world.exchange(source.choice(NODES))
        elif choice < 0.97:
            node = source.choice(NODES)
            world.cut(node, source.randint(0, len(world.wires[node])))
        else:
            partition = source.randrange(3)
            world.leaders[partition] = source.choice(NODES)
            world.unready[partition] = source.randrange(4)
    world.settle()


def make_known_world(**options: Any) -> World:
    """A world whose broker has acknowledged a first batch of partition 0, so that the next ones need not wait."""
    world = make_world(**options)
    world.send_batches(b"first")
    world.exchange(0)
    return world


def settle_in(world: World, limit_ms: int) -> None:
    """Settle, and check that no batch waited for ``delivery.timeout.ms``."""
    started_ms = world.now_ms
    world.settle()
    assert world.now_ms - started_ms <= limit_ms


def code_of(future: RecordFuture) -> ErrorCode | None:
    """The code of a record's error; None if it was acknowledged."""
    try:
        future.value()
    except KafkaError as error:
        return error.code
    return None
