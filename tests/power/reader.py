"""The actions of clients after the power came back: they take over the transactional id, read everything, and append
records.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import confluent_kafka

from tests.power.history import Found, Log, Offsets, Record, Topic
from tests.power.topics import GROUP, TRANSACTIONAL_GROUP, TRANSACTIONAL_ID

_TIMEOUT_S = 40
_QUIET = {"log_level": 2}
_BATCH = 2_000
_STUCK_S = 5


class NotReadable(Exception):
    """A log or the offsets of a group cannot be read."""


class NotAppendable(Exception):
    """A topic accepts no record, or no transaction."""


def take_over(bootstrap: str) -> confluent_kafka.Producer:
    """A new producer of the transactions: the broker completes prepared transactions, and aborts open ones. Raises:
    NotAppendable.
    """
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": TRANSACTIONAL_ID, "linger.ms": 0, **_QUIET}
    )
    try:
        producer.init_transactions(_TIMEOUT_S)
    except confluent_kafka.KafkaException as error:
        raise NotAppendable(f"the transactional id cannot be taken over: {error}") from error
    return producer


def read(bootstrap: str, topics: Sequence[Topic]) -> Found:
    """Read all logs and both groups' offsets. Raises: NotReadable."""
    transactional = [topic.name for topic in topics if topic.transactional]
    logs, group = _read(bootstrap, GROUP, [topic.name for topic in topics], "read_uncommitted")
    if group is None:
        raise NotReadable(f"the offsets of {GROUP} cannot be read")
    committed, transactional_group = _read(bootstrap, TRANSACTIONAL_GROUP, transactional, "read_committed")
    for name, log in committed.items():
        logs[name] = logs[name]._replace(committed=log.records, is_stuck=logs[name].is_stuck or log.is_stuck)
    return Found(logs, group, transactional_group)


def _read(bootstrap: str, group: str, topics: Sequence[str], isolation: str) -> tuple[dict[str, Log], Offsets | None]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "isolation.level": isolation,
         "check.crcs": True, "enable.partition.eof": True, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 10,
         **_QUIET}
    )  # fmt: skip
    try:
        stored = _committed(consumer, topics)
        reading = _Reading(consumer, topics)
        reading.run()
        logs = {}
        for topic in topics:
            start, end = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=_TIMEOUT_S)
            records = {offset: record for offset, record in reading.records[topic].items() if offset >= start}
            logs[topic] = Log(start, end, records, is_stuck=topic in reading.unread)
        return logs, stored
    except confluent_kafka.KafkaException as error:
        raise NotReadable(str(error)) from error
    finally:
        consumer.close()


def _committed(consumer: confluent_kafka.Consumer, topics: Sequence[str]) -> Offsets | None:
    """The group's offsets; None if no final response comes in time, for example while a transaction that commits them
    is open.
    """
    asked = [confluent_kafka.TopicPartition(topic, 0) for topic in topics]
    try:
        return {each.topic: each.offset for each in consumer.committed(asked, timeout=_TIMEOUT_S) if each.offset >= 0}
    except confluent_kafka.KafkaException as error:
        if error.args[0].code() != confluent_kafka.KafkaError._TIMED_OUT:
            raise
        return None


class _Reading:
    """Reads all topics from their first offset to their end. ``unread``: the topics that were not read to the end when
    no record arrived for a few seconds.
    """

    def __init__(self, consumer: confluent_kafka.Consumer, topics: Sequence[str]) -> None:
        self.records: dict[str, dict[int, Record]] = {topic: {} for topic in topics}
        self.unread = set(topics)
        self._consumer = consumer

    def run(self) -> None:
        """Raises: NotReadable for an error that a consumer does not retry."""
        beginning = confluent_kafka.OFFSET_BEGINNING
        self._consumer.assign([confluent_kafka.TopicPartition(topic, 0, beginning) for topic in self.unread])
        heard_s = time.monotonic()
        while self.unread and time.monotonic() < heard_s + _STUCK_S:
            for message in self._consumer.consume(_BATCH, 0.02):
                heard_s = time.monotonic()
                self._take(message)

    def _take(self, message: confluent_kafka.Message) -> None:
        error, topic, offset = message.error(), str(message.topic()), message.offset()
        if error is None and offset is not None:
            self.records[topic][offset] = Record(message.key() or b"", message.value())
        elif error is not None and error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            self.unread.discard(topic)
        elif error is not None and not error.retriable():
            raise NotReadable(f"{topic}: {error}")


def append(bootstrap: str, topics: Sequence[Topic], transactions: confluent_kafka.Producer) -> None:
    """Append a record to each topic, to the transactional ones in a transaction. Raises: NotAppendable."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "message.timeout.ms": 20_000, **_QUIET}
    )
    refused: list[str] = []
    try:
        transactions.begin_transaction()
        for topic in topics:
            (transactions if topic.transactional else producer).produce(
                topic.name, b"after the cut", b"after", partition=0,
                on_delivery=lambda error, message: refused.append(f"{message.topic()}: {error}") if error else None,
            )  # fmt: skip
        transactions.commit_transaction(_TIMEOUT_S)
        producer.flush(_TIMEOUT_S)
    except confluent_kafka.KafkaException as error:
        raise NotAppendable(str(error)) from error
    if refused:
        raise NotAppendable("; ".join(refused))
