"""What a broker does for transactions, measured: transactions a second, readers of what is committed, memory of ids."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice

import confluent_kafka

from kafka_zk.protocol.api_keys import ApiKey
from tests.bench import measure
from tests.bench.pairs import BrokerLife, Figure, Measured
from tests.bench.partition_wire import Wire
from tests.bench.transaction_wire import TransactionalProducer, await_coordinator, init_body, transact

TOPIC = "bench"
PARTITIONS = 10
#: Beyond Kafka's config/server.properties.
OVERRIDES = {"auto.create.topics.enable": "false"}

SHAPES = ((1, 1), (10, 1), (100, 1), (10, 10), (100, 10))
"""Records of a transaction, and the partitions that they are spread over."""
_TIMES = {1: 1000, 16: 150}
"""Transactions of each producer, by how many producers there are."""
_READ_TRANSACTIONS = 10_000
_IDS = 100_000
_CONNECTIONS = 16
_READ_S = 60


def _key(producers: int, records: int, partitions: int) -> str:
    return f"p{producers}_r{records}_t{partitions}"


def _title(producers: int, records: int, partitions: int) -> str:
    counted = ((producers, "producer"), (records, "record"), (partitions, "partition"))
    told = [f"{count} {thing}{'s' * (count > 1)}" for count, thing in counted]
    return f"{told[0]}, {told[1]} in {told[2]}"


_WHATS = (("per_s", "", "a second", "≥ 1"), ("p99_ms", ", p99", "ms", "≤ 1"), ("cpu_us", ", CPU", "us each", "≤ 0.6"))
FIGURES = {
    **{
        f"{_key(producers, *shape)}_{what}": Figure(_title(producers, *shape) + suffix, unit, wanted)
        for producers in _TIMES
        for shape in SHAPES
        for what, suffix, unit, wanted in _WHATS
    },
    "read_all_per_s": Figure("read_uncommitted, transactions of 10 records", "records/s", "≥ 1"),
    "read_committed_per_s": Figure("read_committed, the same", "records/s", "≥ 1"),
    "read_all_cpu_us": Figure("read_uncommitted, CPU of the broker", "us a record", "≤ 0.6"),
    "read_committed_cpu_us": Figure("read_committed, CPU of the broker", "us a record", "≤ 0.6"),
    "ids_per_s": Figure("new transactional ids", "a second", "≥ 1"),
    "id_bytes": Figure("memory of one id", "bytes", "≤ 1"),
    "idle_bytes": Figure("memory before", "MB", "≤ 1", 1e6),
}


class Transactions(BrokerLife):
    """The transactions of one broker."""

    def prepare(self) -> Measured:
        """Make the topics."""
        idle_bytes = self._memory_bytes()
        self._target.create_topic(TOPIC, partitions=PARTITIONS)
        with ExitStack() as stack:
            [wire] = self._wires(stack, 1)
            await_coordinator(wire, "prepare")
        return {"idle_bytes": idle_bytes}

    def _producers(
        self, stack: ExitStack, topic: str, name: str, shape: tuple[int, int, int]
    ) -> list[TransactionalProducer]:
        count, records, partitions = shape
        made = [
            TransactionalProducer(wire, f"{name}-{number}", topic, range(partitions), records)
            for number, wire in enumerate(self._wires(stack, count))
        ]
        for producer in made:
            producer.init()
        return made

    def commits(self, number: int) -> Measured:
        """One producer, and sixteen at the same pace, commit transactions one after the other."""
        measured: Measured = {}
        for count, times in _TIMES.items():
            for records, partitions in SHAPES:
                key = _key(count, records, partitions)
                with ExitStack() as stack:
                    producers = self._producers(stack, TOPIC, f"{key}-{number}", (count, records, partitions))
                    transact(producers, self._count(times // 10))
                    cpu_s, begun_s = measure.cpu_seconds(self._pid), time.perf_counter()
                    took_s = transact(producers, self._count(times))
                    all_s, used_s = time.perf_counter() - begun_s, measure.cpu_seconds(self._pid) - cpu_s
                measured[f"{key}_per_s"] = len(took_s) / all_s
                measured[f"{key}_p99_ms"] = sorted(took_s)[int(len(took_s) * 0.99)] * 1000
                measured[f"{key}_cpu_us"] = used_s / len(took_s) * 1e6
        return measured

    def reads(self, number: int) -> Measured:
        """librdkafka reads small transactions, with both isolation levels."""
        topic = f"read-{number}"
        self._target.create_topic(topic)
        times = self._count(_READ_TRANSACTIONS)
        with ExitStack() as stack:
            transact(self._producers(stack, topic, topic, (_CONNECTIONS, 10, 1)), max(1, times // _CONNECTIONS))
        count = max(1, times // _CONNECTIONS) * _CONNECTIONS * 10
        measured: Measured = {}
        for key, level in (("all", "read_uncommitted"), ("committed", "read_committed")):
            cpu_s, begun_s = measure.cpu_seconds(self._pid), time.perf_counter()
            self._read(topic, level, count)
            took_s, used_s = time.perf_counter() - begun_s, measure.cpu_seconds(self._pid) - cpu_s
            measured |= {f"read_{key}_per_s": count / took_s, f"read_{key}_cpu_us": used_s / count * 1e6}
        return measured

    def _read(self, topic: str, level: str, count: int) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self._target.bootstrap, "group.id": "none", "isolation.level": level}
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        end_s = time.monotonic() + _READ_S
        while count > 0:
            count -= len(consumer.consume(10_000, 0.1))
            if time.monotonic() > end_s:
                raise TimeoutError(f"{count} records of {topic} were not read within {_READ_S} s")
        consumer.close()

    def ids(self, number: int) -> Measured:
        """Producers that begin, and never write."""
        count = self._count(_IDS)
        before_bytes, begun_s = self._memory_bytes(), time.perf_counter()
        bodies = (init_body(f"an-application-{number}-{each}") for each in range(count))
        with ExitStack() as stack:
            wires = self._wires(stack, _CONNECTIONS)
            while part := list(islice(bodies, _CONNECTIONS)):
                _ask_all(wires, part)
        took_s = time.perf_counter() - begun_s
        grown_bytes = self._memory_bytes() - before_bytes
        return {"ids_per_s": count / took_s, "id_bytes": max(0, grown_bytes) / count}


def _ask_all(wires: Sequence[Wire], bodies: Sequence[bytes]) -> None:
    for wire, body in zip(wires, bodies, strict=False):
        wire.send(ApiKey.INIT_PRODUCER_ID, 1, body)
    for wire, _ in zip(wires, bodies, strict=False):
        wire.receive()
