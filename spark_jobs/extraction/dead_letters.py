"""Writes undecodable records to a dead-letter topic, unchanged and with headers that give their origin.

A run sends its letters in one transaction, which also commits the ends of its ranges for the broker group
GROUP-dead-letters. A run that repeats ranges skips letters below these offsets. Therefore read_committed readers see
each letter once, even after a crash; docs/how-to/spark.md lists the exceptions.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.security.client_security import ClientSecurity
from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.storage.records.record_batch import Header

TOPIC, PARTITION, OFFSET = "__connect.errors.topic", "__connect.errors.partition", "__connect.errors.offset"
REASON = "__connect.errors.exception.message"
"""The headers have Kafka Connect's names, so that its tools can read them."""
_TRANSACTION_TIMEOUT_MS = 600_000  # below the brokers' default maximum of 15 minutes
_LETTERS_BUFFERED = 10_000


class DeadLetter(NamedTuple):
    tp: TopicPartition
    offset: int
    reason: str
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_ms: int | None

    @classmethod
    def of(cls, row: Any, reason: str) -> "DeadLetter":
        """``row`` has the source's columns with headers, and the timestamp in ms as ``timestamp_ms``."""
        return cls(
            TopicPartition(row["topic"], row["partition"]),
            row["offset"],
            reason,
            _as_bytes(row["key"]),
            _as_bytes(row["value"]),
            tuple((each["key"], _as_bytes(each["value"])) for each in row["headers"] or ()),
            row["timestamp_ms"],
        )

    @property
    def all_headers(self) -> list[Header]:
        """The record's own headers, then its origin."""
        told = {TOPIC: self.tp.topic, PARTITION: self.tp.partition, OFFSET: self.offset, REASON: self.reason}
        return [*self.headers, *((name, str(value).encode()) for name, value in told.items())]


def _as_bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def done_group(group: str) -> str:
    """The broker group whose offsets show which letters were sent."""
    return f"{group}-dead-letters"


def send(
    letters: Iterable[DeadLetter], expected: int, ranges: Sequence[OffsetRange], *, topic: str, group: str,
    bootstrap_servers: str, security: ClientSecurity,
) -> int:  # fmt: skip
    """Send the letters that no earlier run has sent, and return their number. Fences an earlier run that is still
    sending.

    ``expected``: number of records that the extraction left out. Raises KafkaError, ExtractionFailed; then no letter is
    visible.
    """
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
    from kafka_zk.clients.producer.blocking import BlockingProducer

    tps = [each.tp for each in ranges]
    servers: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, "security": security}
    options: dict[str, Any] = {
        **servers,
        "transactional_id": f"kafka-zk-{done_group(group)}",
        "transaction_timeout_ms": _TRANSACTION_TIMEOUT_MS,
        "max_request_size": 2**27,
        "buffer_memory": 2**28,
    }
    with BlockingProducer(None, **options) as producer, BlockingAdmin(**servers) as admin:
        producer.init_transactions()
        done = admin.groups.stable_offsets(done_group(group), tps)
        if all(done[each.tp] >= each.until_offset for each in ranges):
            return 0
        with producer.transaction():
            sent = send_undone(producer, topic, letters, expected, done)
            ends = {each.tp: max(each.until_offset, done[each.tp]) for each in ranges}
            producer.send_offsets(ends, done_group(group))
    return sent


def send_undone(
    producer: Any, topic: str, letters: Iterable[DeadLetter], expected: int, done: Mapping[TopicPartition, int]
) -> int:
    """Send letters in the producer's transaction. Raises ExtractionFailed if their number is not ``expected``.

    The number may differ, because records are decoded again and the registry may have a new schema.
    """
    sent = found = 0
    for letter in letters:
        found += 1
        if letter.offset < done[letter.tp]:
            continue
        producer.send(topic, letter.value, letter.key, timestamp_ms=letter.timestamp_ms, headers=letter.all_headers)
        sent += 1
        if sent % _LETTERS_BUFFERED == 0:
            producer.flush()
    if found != expected:
        raise ExtractionFailed(
            f"{expected:,} records could not be decoded at first, and {found:,} a moment later: run it again"
        )
    return sent
