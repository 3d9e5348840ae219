"""The first step of every record, on the caller's thread: check it, choose its partition, add it to a batch.

The producer's hot path: one lock and one small object per record, no I/O.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any

from kafka_zk.base.clock import Clock
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.producer.config import ProducerConfig
from kafka_zk.clients.producer.future import RecordFuture
from kafka_zk.clients.producer.partitioners import make_partitioner
from kafka_zk.clients.producer.record_accumulator import RecordAccumulator
from kafka_zk.storage.records.record_batch import Header


class Missing(Enum):
    """Why a record cannot be accepted yet."""

    METADATA = "the topic's metadata are not known"
    PARTITION = "the topic has no such partition in the metadata"
    ROOM = "buffer.memory is full"


class RecordIntake:
    """Accepts records for one producer; any thread.

    ``refusal``: why no more records are accepted.
    """

    def __init__(self, cluster: Cluster, accumulator: RecordAccumulator, config: ProducerConfig, clock: Clock) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._partitioner = make_partitioner(config.partitioner, config.batch_size)
        self._key_serializer, self._value_serializer = config.serializers
        self._wall_ns = clock.wall_ns
        self.refusal: KafkaError | None = None

    def offer(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header],
    ) -> RecordFuture | Missing:
        """Accept a record, or change nothing and return what is missing.

        Args: ``value``, ``key``: as the serializers require; bytes or None without serializers.
        Raises: KafkaError (closed, too large), TypeError, ValueError for an invalid record, SerializationError.
        """
        if self.refusal is not None:
            raise self.refusal
        known = self._cluster.metadata.topics.get(topic)
        if known is None or not known.partitions:
            return Missing.METADATA
        count = len(known.partitions)
        if partition is not None and not 0 <= partition < count:
            if partition < 0:
                raise ValueError(f"partition must not be negative, got {partition}")
            return Missing.PARTITION
        if self._key_serializer is not None:
            key = self._key_serializer.serialize(topic, key, headers)
        if self._value_serializer is not None:
            value = self._value_serializer.serialize(topic, value, headers)
        if value is not None and type(value) is not bytes:
            value = _to_bytes("value", value)
        if key is not None and type(key) is not bytes:
            key = _to_bytes("key", key)
        if partition is None:
            partition = self._partitioner.partition(topic, key, value, count, known.available)
        if timestamp_ms is None:
            timestamp_ms = self._wall_ns() // 1_000_000
        elif timestamp_ms < 0:
            raise ValueError(f"timestamp_ms must not be negative, got {timestamp_ms}")
        future = self._accumulator.append(topic, partition, key, value, timestamp_ms, headers)
        return Missing.ROOM if future is None else future


def _to_bytes(what: str, given: object) -> bytes:
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise TypeError(f"a record's {what} must be bytes or None, not {type(given).__name__}")
