"""Measures brokers' work for transactions: transactions per second, readers of committed records, memory of ids."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice

import confluent_kafka
import confluent_kafka.admin

from kafka_zk.broker.coordinator.keys import partition_for
from kafka_zk.broker.transaction.state_topic import TRANSACTION_STATE_TOPIC
from kafka_zk.protocol.api_keys import ApiKey
from tests.bench.pairs import BrokerLife, Figure, Measured
from tests.bench.partition_wire import Wire
from tests.bench.transactions.wire import TransactionalProducer, Wires, await_coordinator, init_body, transact
from tests.peers.processes import wait_until
from tests.peers.targets import Target

TOPIC = "bench"
PARTITIONS = 10

SHAPES = ((1, 1), (10, 1), (100, 1), (10, 10), (100, 10))
"""The number of records of a transaction, and of the partitions that they are spread over."""
_TIMES = {1: 1000, 16: 150}
"""The number of producers -> the transactions of each."""
_READ_TRANSACTIONS = 10_000
_IDS = 100_000
_CONNECTIONS = 16
_READ_S = 60
_IN_SYNC_S = 120


def overrides(replication_factor: int) -> dict[str, str]:
    """Settings beyond Kafka's config/server.properties; of three replicas, two must be in sync."""
    insync = str(max(1, replication_factor - 1))
    return {
        "auto.create.topics.enable": "false",
        "min.insync.replicas": insync,
        "transaction.state.log.min.isr": insync,
        "transaction.state.log.replication.factor": str(replication_factor),
    }


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
    "read_all_cpu_us": Figure("read_uncommitted, CPU of the brokers", "us a record", "≤ 0.6"),
    "read_committed_cpu_us": Figure("read_committed, CPU of the brokers", "us a record", "≤ 0.6"),
    "ids_per_s": Figure("new transactional ids", "a second", "≥ 1"),
    "id_bytes": Figure("memory of one id", "bytes", "≤ 1"),
    "idle_bytes": Figure("memory before", "MB", "≤ 1", 1e6),
}


class Transactions(BrokerLife):
    """The transactions of one cluster whose brokers all have replicas of each partition."""

    def __init__(self, target: Target, scale: float = 1.0) -> None:
        super().__init__(target, scale)
        self._admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 0})
        self._coordinators: dict[int, int] = {}

    def prepare(self) -> Measured:
        """Create the topics, and measure the idle brokers."""
        idle_bytes = self._memory_bytes()
        self._create(TOPIC, PARTITIONS)
        with ExitStack() as stack:
            await_coordinator(Wires(stack, self._target.ports).to(0), "prepare")
        self._coordinators = self._leaders(TRANSACTION_STATE_TOPIC)
        return {"idle_bytes": idle_bytes}

    def _create(self, topic: str, partitions: int = 1) -> None:
        self._target.create_topic(topic, partitions=partitions, replication_factor=len(self._target.brokers))

    def _leaders(self, topic: str) -> dict[int, int]:
        """The leader of each partition, once all replicas are in sync. Raises: TimeoutError."""
        count, found = len(self._target.brokers), {}

        def is_in_sync() -> bool:
            partitions = self._admin.list_topics(topic, timeout=30).topics[topic].partitions
            found.update({number: each.leader for number, each in partitions.items()})
            return bool(partitions) and all(len(each.isrs) == count for each in partitions.values())

        wait_until(is_in_sync, _IN_SYNC_S, f"all replicas of {topic} in sync")
        return found

    def _coordinator(self, transactional_id: str) -> int:
        return self._coordinators[partition_for(transactional_id, len(self._coordinators))]

    def _producers(
        self, stack: ExitStack, topic: str, name: str, shape: tuple[int, int, int]
    ) -> list[TransactionalProducer]:
        count, records, partitions = shape
        led: dict[int, list[int]] = defaultdict(list)
        for number, leader in self._leaders(topic).items():
            if number < partitions:
                led[leader].append(number)
        made = []
        for transactional_id in (f"{name}-{number}" for number in range(count)):
            wires = Wires(stack, self._target.ports)
            leaders = [(wires.to(leader), numbers) for leader, numbers in led.items()]
            coordinator = wires.to(self._coordinator(transactional_id))
            made.append(TransactionalProducer(coordinator, transactional_id, topic, leaders, records))
        for producer in made:
            producer.init()
        return made

    def commits(self, number: int) -> Measured:
        """One producer, and sixteen in step, commit transactions one after the other."""
        measured: Measured = {}
        for count, times in _TIMES.items():
            for records, partitions in SHAPES:
                key = _key(count, records, partitions)
                with ExitStack() as stack:
                    producers = self._producers(stack, TOPIC, f"{key}-{number}", (count, records, partitions))
                    transact(producers, self._count(times // 10))
                    cpu_s, begun_s = self._cpu_s(), time.perf_counter()
                    took_s = transact(producers, self._count(times))
                    all_s, used_s = time.perf_counter() - begun_s, self._cpu_s() - cpu_s
                measured[f"{key}_per_s"] = len(took_s) / all_s
                measured[f"{key}_p99_ms"] = sorted(took_s)[int(len(took_s) * 0.99)] * 1000
                measured[f"{key}_cpu_us"] = used_s / len(took_s) * 1e6
        return measured

    def reads(self, number: int) -> Measured:
        """librdkafka reads small transactions, with both isolation levels."""
        topic = f"read-{number}"
        self._create(topic)
        times = self._count(_READ_TRANSACTIONS)
        with ExitStack() as stack:
            transact(self._producers(stack, topic, topic, (_CONNECTIONS, 10, 1)), max(1, times // _CONNECTIONS))
        count = max(1, times // _CONNECTIONS) * _CONNECTIONS * 10
        measured: Measured = {}
        for key, level in (("all", "read_uncommitted"), ("committed", "read_committed")):
            cpu_s, begun_s = self._cpu_s(), time.perf_counter()
            self._read(topic, level, count)
            took_s, used_s = time.perf_counter() - begun_s, self._cpu_s() - cpu_s
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
        """Producers initialise their ids, and never write."""
        count = self._count(_IDS)
        before_bytes, begun_s = self._memory_bytes(), time.perf_counter()
        names = (f"an-application-{number}-{each}" for each in range(count))
        with ExitStack() as stack:
            clients = [Wires(stack, self._target.ports) for _ in range(_CONNECTIONS)]
            while part := list(islice(names, _CONNECTIONS)):
                wires = [client.to(self._coordinator(name)) for client, name in zip(clients, part, strict=False)]
                _ask_all(wires, list(map(init_body, part)))
        took_s = time.perf_counter() - begun_s
        grown_bytes = self._memory_bytes() - before_bytes
        return {"ids_per_s": count / took_s, "id_bytes": max(0, grown_bytes) / count}


def _ask_all(wires: Sequence[Wire], bodies: Sequence[bytes]) -> None:
    for wire, body in zip(wires, bodies, strict=True):
        wire.send(ApiKey.INIT_PRODUCER_ID, 1, body)
    for wire in wires:
        wire.receive()
