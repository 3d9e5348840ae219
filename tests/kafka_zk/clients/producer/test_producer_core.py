"""The producer's cores together against a model broker, with requests and answers that get lost."""

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError, KafkaTimeoutError
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
        self.idempotence = Idempotence() if self.config.idempotent else None
        if self.idempotence is not None:
            self.idempotence.set_producer_id(7, 0)
        self.completion = BatchCompletion(self.accumulator, self.idempotence, self.config)
        self.wires: dict[int, deque[list[ProducerBatch]]] = {node: deque() for node in NODES}
        self.leaders: dict[int, int] = {}

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
                batch.encode()
            self.wires[node].append(batches)

    def exchange(self, node: int) -> None:
        """The oldest request of a connection arrives, and so does its answer."""
        if self.wires[node]:
            batches = self.wires[node].popleft()
            for batch, result in [(batch, self._ask(node, batch)) for batch in batches]:
                self.completion.handle(batch, result, self.now_ms)

    def cut(self, node: int, arrived: int) -> None:
        """The connection breaks after ``arrived`` of its requests reached the broker; no answer comes."""
        lost = list(self.wires[node])
        self.wires[node].clear()
        for batches in lost[:arrived]:
            for batch in batches:
                self._ask(node, batch)
        for batches in lost:
            for batch in batches:
                error = PartitionResult(batch.tp.partition, ErrorCode.NETWORK_EXCEPTION)
                self.completion.handle(batch, error, self.now_ms)

    def settle(self) -> None:
        """No more faults: go on until everything has its outcome."""
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

    def _ask(self, node: int, batch: ProducerBatch) -> PartitionResult:
        tp = batch.tp
        if batch.done:  # expired; its bytes are gone here, on a wire they would arrive all the same
            return PartitionResult(tp.partition, ErrorCode.NETWORK_EXCEPTION)
        if self.leader_of(tp) != node:
            return PartitionResult(tp.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.broker.produce(tp, bytes(batch.encode()))


def make_world(**options: Any) -> World:
    defaults = {"batch_size": 300, "buffer_memory": 6_000, "linger_ms": 5, "retry_backoff_ms": 20}
    return World(ProducerConfig.from_properties({**defaults, **options}))


def run_faulty(world: World, seed: int, steps: int = 400) -> None:
    """Append, send, lose connections and move leaders, by the seed."""
    source = random.Random(seed)
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
            world.leaders[source.randrange(3)] = source.choice(NODES)
    world.settle()


@pytest.mark.parametrize("seed", range(40))
def test_every_record_is_written_once_and_in_order(seed: int) -> None:
    """Lost requests, lost answers and moving leaders neither lose, double nor reorder a record of a partition."""
    world = make_world()
    run_faulty(world, seed)
    for tp, sent in world.sent.items():
        assert world.broker.logs[tp] == [value for value, _ in sent]
        for position, (_, future) in enumerate(sent):
            assert future.value().offset == position
    assert world.accumulator.used_bytes == 0


@pytest.mark.parametrize("seed", range(20))
def test_buffer_memory_is_never_exceeded(seed: int) -> None:
    """``append`` refuses rather than hold more than buffer.memory, and everything taken is given back."""
    world = make_world(buffer_memory=1_500)
    run_faulty(world, seed)
    assert 0 < world.most_used_bytes <= 1_500
    assert world.accumulator.used_bytes == 0


@pytest.mark.parametrize("seed", range(20))
def test_without_idempotence_one_in_flight_keeps_order(seed: int) -> None:
    """max.in.flight=1 without idempotence: records may be doubled by a retry, but never lost or overtaken."""
    world = make_world(enable_idempotence=False, max_in_flight_requests_per_connection=1)
    run_faulty(world, seed)
    for tp, sent in world.sent.items():
        first_places = [world.broker.logs[tp].index(value) for value, _ in sent]
        assert first_places == sorted(first_places)


@pytest.mark.parametrize("seed", range(20))
def test_a_broker_that_forgot_the_producer_does_not_stop_it(seed: int) -> None:
    """When the broker loses its producer state the epoch is bumped; nothing is lost (a retry may be written twice)."""
    world = make_world()
    for round_number in range(4):
        for index in range(12):
            world.append(index % 3, b"%d/%d" % (round_number, index))
        world.drain()
        world.cut(0, len(world.wires[0]) if seed % 2 else 0)
        world.broker.forget_producers()
        world.now_ms += 100
        for node in NODES:
            world.exchange(node)
    world.settle()
    for tp, sent in world.sent.items():
        assert {value for value, _ in sent} <= set(world.broker.logs[tp])
        assert all(future.value().offset >= 0 for _, future in sent)


@pytest.mark.parametrize("seed", range(20))
def test_expired_batches_fail_and_later_ones_go_on(seed: int) -> None:
    """delivery.timeout.ms fails what could not be delivered; acknowledged records are in the log once and in order."""
    world = make_world(delivery_timeout_ms=400, request_timeout_ms=100)
    source = random.Random(seed)
    for step in range(300):
        world.now_ms += source.randrange(12)
        if source.random() < 0.6:
            world.append(source.randrange(3), b"%d" % step)
        world.drain()
        if source.random() < 0.25:
            node = source.choice(NODES)
            world.cut(node, source.randint(0, len(world.wires[node])))
        elif step < 100 or step > 200:
            world.exchange(source.choice(NODES))
    world.settle()
    for tp, sent in world.sent.items():
        log = world.broker.logs.get(tp, [])
        acked = []
        for value, future in sent:
            try:
                acked.append((future.value().offset, value))
            except KafkaTimeoutError:
                continue
        assert acked == sorted(acked)
        assert all(log[offset] == value for offset, value in acked)
        assert len(set(log)) == len(log), "a record was written twice"


def test_too_large_batch_is_split_and_keeps_its_order() -> None:
    """MESSAGE_TOO_LARGE halves the batch until it fits; futures follow their records into the parts."""
    world = make_world(batch_size=2_000)
    world.broker.batch_bytes_max = 200
    for index in range(20):
        world.append(0, b"%02d" % index + b"x" * 50)
    world.settle()
    tp = TopicPartition("t", 0)
    assert world.broker.logs[tp] == [value for value, _ in world.sent[tp]]
    assert [future.value().offset for _, future in world.sent[tp]] == list(range(20))
    assert world.accumulator.used_bytes == 0


def test_single_record_too_large_for_the_broker_fails_with_its_code() -> None:
    """A record that no split can make smaller fails; the partition goes on under a new epoch without a gap."""
    world = make_world(batch_size=100)
    world.broker.batch_bytes_max = 200
    world.append(0, b"x" * 300)
    world.append(0, b"fits")
    world.settle()
    bad, good = (future for _, future in world.sent[TopicPartition("t", 0)])
    with pytest.raises(KafkaError) as caught:
        bad.value()
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert good.value().offset == 0


def test_refused_record_is_told_apart_from_its_neighbours() -> None:
    """Record errors of the answer reach just the records they name; the others learn that they were not at fault."""
    world = make_world()
    futures = [world.append(0, b"%d" % index) for index in range(3)]
    world.now_ms += 10
    world.drain()
    (batch,) = world.wires[0].popleft()
    refusal = PartitionResult(0, ErrorCode.INVALID_RECORD, record_errors=[(1, "no key")], error_message="bad batch")
    world.completion.handle(batch, refusal, world.now_ms)
    messages = []
    for future in futures:
        assert future is not None
        with pytest.raises(KafkaError) as caught:
            future.value()
        messages.append(str(caught.value))
    assert "no key" in messages[1]
    assert "other records" in messages[0] and "other records" in messages[2]


def test_duplicate_without_remembered_offset_is_success_without_offset() -> None:
    """DUPLICATE_SEQUENCE_NUMBER means written long ago."""
    world = make_world()
    future = world.append(0, b"v")
    world.now_ms += 10
    world.drain()
    (batch,) = world.wires[0].popleft()
    world.completion.handle(batch, PartitionResult(0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER), world.now_ms)
    assert future is not None and future.value().offset == -1


def test_an_append_calls_the_sender_for_each_new_batch_only() -> None:
    """Whoever appends: nobody has to look whether there is work."""
    world = make_world()
    calls: list[int] = []
    world.accumulator.on_work = lambda: calls.append(len(calls))
    world.append(0, b"a")
    world.append(0, b"b")
    assert len(calls) == 1
    world.append(1, b"c")
    assert len(calls) == 2
