"""Idempotent producers with acks=all and readers, librdkafka's and ours, which record everything that they do."""

import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_zk.clients.connection.errors import KafkaError as OurError
from kafka_zk.clients.connection.errors import KafkaTimeoutError
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.clients.producer.future import RecordFuture
from tests.soak.client_thread import ClientThread
from tests.soak.readers import METADATA_MS, Given, LibrdkafkaSource, OurSource, Reader, Source
from tests.soak.replication_history import Acknowledged, Read

_DELIVERY_TIMEOUT_MS = 600_000
_FLUSH_S = 120
_PAUSE_S = 0.004


class Gap(NamedTuple):
    """The time between two acknowledgements of a partition to a sender, by ``time.monotonic``."""

    begin_s: float
    end_s: float
    sender: str
    partition: int

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s

    def seconds_after(self, time_s: float) -> float:
        """The part of the gap after this time, in seconds."""
        return max(0.0, self.end_s - max(self.begin_s, time_s))


class Sender(ClientThread):
    """Sends numbered records to all partitions in turn.

    ``longest_gap`` is the longest time between two acknowledgements of a partition, since it was last set to None.
    """

    def __init__(self, topic: str, partitions: int) -> None:
        self.sent: dict[int, list[bytes]] = defaultdict(list)
        self.acknowledged: list[Acknowledged] = []
        self.longest_gap: Gap | None = None
        self._last_s: dict[int, float] = {}
        self._topic = topic
        self._partitions = partitions
        super().__init__()

    def _run(self) -> None:
        number = 0
        while not self._ends.wait(_PAUSE_S):
            value = f"{self.name}-{number}".encode()
            partition = number % self._partitions
            self.sent[partition].append(value)
            self._send(partition, value)
            number += 1
        self._flush()

    def _acknowledge(self, acknowledged: Acknowledged) -> None:
        self.acknowledged.append(acknowledged)
        now_s = time.monotonic()
        gap = Gap(self._last_s.get(acknowledged.partition, now_s), now_s, self.name, acknowledged.partition)
        if self.longest_gap is None or gap.seconds > self.longest_gap.seconds:
            self.longest_gap = gap
        self._last_s[acknowledged.partition] = now_s

    def _send(self, partition: int, value: bytes) -> None:
        raise NotImplementedError

    def _flush(self) -> None:
        raise NotImplementedError


class LibrdkafkaSender(Sender):
    name = "librdkafka"

    def __init__(self, bootstrap: str, topic: str, partitions: int, more: Mapping[str, Any]) -> None:
        super().__init__(topic, partitions)
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True, "acks": "all", "linger.ms": 5,
            "message.timeout.ms": _DELIVERY_TIMEOUT_MS, "topic.metadata.refresh.interval.ms": METADATA_MS,
            "request.timeout.ms": 5000, "socket.timeout.ms": 10000, **more,
        })  # fmt: skip

    def _send(self, partition: int, value: bytes) -> None:
        while not self._is_taken(partition, value):
            self._producer.poll(METADATA_MS / 1000)
        self._producer.poll(0)

    def _is_taken(self, partition: int, value: bytes) -> bool:
        """False while librdkafka trusts a Kafka broker that has just started and does not know the topic."""
        try:
            self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNKNOWN_TOPIC:
                raise
            return False
        return True

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            offset = message.offset()  # None for a duplicate whose offset the broker does not know
            self._acknowledge(Acknowledged(message.partition(), -1 if offset is None else offset, message.value()))
        elif error.code() == KafkaError._DESTROY:  # librdkafka dropped records for a broker that left the metadata
            self.sent[message.partition()].remove(message.value())
        else:
            self.failed.append(f"{self.name}: {message.value()!r} was not delivered: {error}")

    def _flush(self) -> None:
        if left := self._producer.flush(_FLUSH_S):
            self.failed.append(f"{self.name}: {left} records were not acknowledged within {_FLUSH_S} s")


class OurSender(Sender):
    name = "ours"

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(topic, partitions)
        self._waiting: list[tuple[bytes, RecordFuture]] = []
        self._producer = BlockingProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, acks="all", linger_ms=5, retry_backoff_ms=50,
            request_timeout_ms=5000, delivery_timeout_ms=_DELIVERY_TIMEOUT_MS,
        )  # fmt: skip

    def _send(self, partition: int, value: bytes) -> None:
        self._waiting.append((value, self._producer.send(self._topic, value, partition=partition)))
        if self._waiting[0][1].done():
            self._collect()

    def _collect(self) -> None:
        waiting = []
        for value, future in self._waiting:
            if not future.done():
                waiting.append((value, future))
                continue
            try:
                metadata = future.value()
            except OurError as error:
                self.failed.append(f"{self.name}: {value!r} was not delivered: {error!r}")
            else:
                self._acknowledge(Acknowledged(metadata.partition, metadata.offset, value))
        self._waiting = waiting

    def _flush(self) -> None:
        with contextlib.suppress(KafkaTimeoutError):  # the error then names what waits
            self._producer.flush(_FLUSH_S)
        self._collect()
        if self._waiting:
            waiting = f"{len(self._waiting)} records, first {self._waiting[0][0]!r},"
            self.failed.append(f"{self.name}: {waiting} were not acknowledged within {_FLUSH_S} s")
        self._producer.close(1)


class ReplicationReader(Reader):
    """Keeps all records, by partition."""

    def __init__(self, source: Source) -> None:
        self.read: dict[int, list[Read]] = defaultdict(list)
        super().__init__(source)

    def _observe(self, given: Given) -> None:
        self.read[given.partition].append(Read(given.offset, given.value))


def senders(bootstrap: str, topic: str, partitions: int, librdkafka: Mapping[str, Any]) -> list[Sender]:
    """``librdkafka``: additional configuration for it."""
    return [LibrdkafkaSender(bootstrap, topic, partitions, librdkafka), OurSender(bootstrap, topic, partitions)]


def readers(bootstrap: str, topic: str, partitions: int) -> list[ReplicationReader]:
    arguments = (bootstrap, topic, partitions, "read_uncommitted")
    return [ReplicationReader(LibrdkafkaSource(*arguments)), ReplicationReader(OurSource(*arguments))]
