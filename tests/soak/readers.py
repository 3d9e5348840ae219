"""Readers of all partitions from their start, librdkafka's and ours, for campaigns that judge the records that they
receive."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_zk.base import types
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from tests.soak.client_thread import ClientThread

METADATA_MS = 300
_POLL_MS = 100


class Given(NamedTuple):
    """A record as a reader returned it."""

    partition: int
    offset: int
    value: bytes


class Source(Protocol):
    """The source of a ``Reader``'s records."""

    @property
    def name(self) -> str: ...

    def poll(self) -> Iterator[Given]:
        """The records that arrive within ``_POLL_MS``. Raises any error after which records may be missing."""
        ...

    def close(self) -> None: ...


class LibrdkafkaSource:
    name = "librdkafka's reader"

    def __init__(self, bootstrap: str, topic: str, partitions: int, isolation_level: str) -> None:
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "log_level": 0, "group.id": "none", "enable.auto.commit": False,
            "auto.offset.reset": "error", "topic.metadata.refresh.interval.ms": METADATA_MS,
            "isolation.level": isolation_level, "fetch.wait.max.ms": _POLL_MS, "socket.timeout.ms": 10000,
        })  # fmt: skip
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])

    def poll(self) -> Iterator[Given]:
        for message in self._consumer.consume(500, _POLL_MS / 1000):
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is None:
                assert partition is not None and offset is not None
                yield Given(partition, offset, message.value() or b"")
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # after any other error, it retries
                raise KafkaException(error)

    def close(self) -> None:
        self._consumer.close()


class OurSource:
    name = "our reader"

    def __init__(self, bootstrap: str, topic: str, partitions: int, isolation_level: str) -> None:
        self._reader = BlockingReader(
            bootstrap_servers=bootstrap, isolation_level=isolation_level, auto_offset_reset="none",
            retry_backoff_ms=50, request_timeout_ms=10_000,
        )  # fmt: skip
        self._reader.assign({types.TopicPartition(topic, number): 0 for number in range(partitions)})

    def poll(self) -> Iterator[Given]:
        for record in self._reader.poll(_POLL_MS):
            yield Given(record.partition, record.offset, record.value or b"")

    def close(self) -> None:
        self._reader.close()


class Reader(ClientThread):
    """Passes all records of a source to ``_observe`` until it is stopped."""

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self._source = source
        super().__init__()

    def _run(self) -> None:
        while not self._ends.is_set():
            for given in self._source.poll():
                self._observe(given)
        self._source.close()

    def _observe(self, given: Given) -> None:
        raise NotImplementedError
