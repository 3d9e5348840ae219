"""ListOffsets and offset errors as clients see them: both ends, by timestamp, out of range."""

from __future__ import annotations

import uuid

import confluent_kafka
import kafka
import pytest

from tests.peers.clients.base import ClientFailed, Read, Write
from tests.peers.clients.java_clients import JavaDriver
from tests.peers.clients.librdkafka import ConfluentConsumer, ConfluentProducer
from tests.peers.records import Record
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_FIRST_TIMESTAMP_MS = 1_700_000_000_000
_STEP_MS = 10
_COUNT = 500


@pytest.fixture(scope="module")
def topic(target: Target) -> str:
    """A partition with one record every 10 ms of record time, in several batches."""
    name = f"timed-{uuid.uuid4().hex[:8]}"
    target.create_topic(name, config={"index.interval.bytes": "100"})
    records = [
        Record(b"k", b"%d" % number, timestamp_ms=_FIRST_TIMESTAMP_MS + number * _STEP_MS) for number in range(_COUNT)
    ]
    for start in range(0, _COUNT, 100):
        ConfluentProducer().write(Write(target.bootstrap, name, 0, "none", records[start : start + 100]))
    return name


#: A timestamp to look up, and the offset of the first record at or after it (None: there is none).
_LOOKUPS = (
    (0, 0),
    (_FIRST_TIMESTAMP_MS, 0),
    (_FIRST_TIMESTAMP_MS + 1, 1),
    (_FIRST_TIMESTAMP_MS + 250 * _STEP_MS, 250),
    (_FIRST_TIMESTAMP_MS + 250 * _STEP_MS - 1, 250),
    (_FIRST_TIMESTAMP_MS + (_COUNT - 1) * _STEP_MS, _COUNT - 1),
    (_FIRST_TIMESTAMP_MS + _COUNT * _STEP_MS, None),
)


def test_java_finds_ends_and_timestamps(target: Target, topic: str, java_driver: JavaDriver) -> None:
    """The test calls beginningOffsets, endOffsets and offsetsForTimes of KafkaConsumer."""
    answer = java_driver.result(
        "offsets", target.bootstrap, topic=topic, partition=0, timestamps=[timestamp_ms for timestamp_ms, _ in _LOOKUPS]
    )
    assert (answer["beginning"], answer["end"]) == (0, _COUNT)
    assert answer["at"] == [
        None if offset is None else [offset, _FIRST_TIMESTAMP_MS + offset * _STEP_MS] for _, offset in _LOOKUPS
    ]


def test_librdkafka_finds_ends_and_timestamps(target: Target, topic: str) -> None:
    """The test calls get_watermark_offsets and offsets_for_times; past the end, librdkafka returns -1 (end)."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": target.bootstrap, "group.id": "never-joined"})
    try:
        partition = confluent_kafka.TopicPartition(topic, 0)
        assert consumer.get_watermark_offsets(partition, timeout=30) == (0, _COUNT)
        for timestamp_ms, offset in _LOOKUPS:
            asked = confluent_kafka.TopicPartition(topic, 0, timestamp_ms)
            (found,) = consumer.offsets_for_times([asked], timeout=30)
            assert found.offset == (-1 if offset is None else offset), timestamp_ms
    finally:
        consumer.close()


def test_kafka_python_finds_ends_and_timestamps(target: Target, topic: str) -> None:
    """The test calls beginning_offsets, end_offsets and offsets_for_times of kafka-python."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=target.bootstrap, group_id=None)
    try:
        partition = kafka.TopicPartition(topic, 0)
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: _COUNT}
        for timestamp_ms, offset in _LOOKUPS:
            found = consumer.offsets_for_times({partition: timestamp_ms})[partition]
            assert (found and found.offset) == offset, timestamp_ms
    finally:
        consumer.close()


def test_offset_beyond_the_end_is_out_of_range(target: Target, topic: str, java_driver: JavaDriver) -> None:
    """OFFSET_OUT_OF_RANGE reaches Java's and librdkafka's users as their own error, not as silence."""
    answer = java_driver.ask(
        "consume",
        target.bootstrap,
        topic=topic,
        partition=0,
        offset=_COUNT + 1,
        count=1,
        timeout_ms=20_000,
        config={"auto.offset.reset": "none"},
    )
    assert answer.get("error", "").startswith("OffsetOutOfRangeException")
    with pytest.raises(ClientFailed, match=r"(?i)out of range"):
        ConfluentConsumer().read(Read(target.bootstrap, topic, 0, _COUNT + 1, 1))


def test_unknown_topic_is_an_error_for_a_reader(target: Target, java_driver: JavaDriver) -> None:
    """Auto-creation is off for consumers, so the missing topic is never created."""
    name = f"nobody-made-{uuid.uuid4().hex[:8]}"
    answer = java_driver.ask(
        "offsets",
        target.bootstrap,
        topic=name,
        partition=0,
        timestamps=[],
        config={"default.api.timeout.ms": "1500", "allow.auto.create.topics": "false"},
    )
    assert answer.get("error", "").startswith("TimeoutException")
    assert name not in java_driver.ask("describe", target.bootstrap, topic=name).get("leaders", [])
