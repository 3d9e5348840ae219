"""Acknowledgements, long polls and size limits as foreign clients see them."""

from __future__ import annotations

import time
import uuid
from typing import Any

import confluent_kafka
import pytest

from tests.peers.clients.base import ClientFailed, Read, Write
from tests.peers.clients.java_clients import JavaConsumer, JavaDriver
from tests.peers.clients.librdkafka import ConfluentConsumer, ConfluentProducer
from tests.peers.processes import wait_until
from tests.peers.records import Record
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_MAX_MESSAGE_BYTES = 1_048_588
#: Far above the response time of a broker that wakes the waiting fetch, and far below the fetch's own maximum wait.
_PROMPT_S = 3.0
_LONG_POLL_MS = 20_000


def _topic(target: Target, *, partitions: int = 1) -> str:
    name = f"delivery-{uuid.uuid4().hex[:8]}"
    target.create_topic(name, partitions=partitions)
    return name


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_with_every_kind_of_acknowledgement(target: Target, java_driver: JavaDriver, acks: str) -> None:
    """acks=0 has no response at all, and the connection must stay usable afterwards."""
    topic = _topic(target)
    record: dict[str, Any] = {"partition": 0, "timestamp_ms": None, "key": None, "value": "YQ==", "headers": []}
    config = {"acks": acks, "enable.idempotence": "false", "batch.size": "0"}
    java_driver.result("produce", target.bootstrap, topic=topic, config=config, records=[record] * 50)
    wait_until(lambda: target.end_offset(topic, 0) == 50, 20, "50 records")
    found = JavaConsumer(java_driver).read(Read(target.bootstrap, topic, 0, 0, 50))
    assert [each.value for each in found] == [b"a"] * 50


def test_waiting_fetch_is_answered_when_a_record_arrives(target: Target) -> None:
    """A consumer that waits at the end of the log, in a long poll of 20 s, gets the record immediately."""
    topic = _topic(target)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": "never-joined",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": _LONG_POLL_MS,
            "socket.timeout.ms": 3 * _LONG_POLL_MS,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        assert consumer.poll(1.0) is None
        ConfluentProducer().write(Write(target.bootstrap, topic, 0, "none", [Record(b"k", b"v")]))
        acknowledged_s = time.monotonic()
        message = consumer.poll(_LONG_POLL_MS / 1000)
        assert message is not None and message.value() == b"v"
        assert time.monotonic() - acknowledged_s < _PROMPT_S
    finally:
        consumer.close()


def test_record_of_the_maximum_size_passes_and_a_bigger_one_is_refused(target: Target) -> None:
    """message.max.bytes is 1 MiB and 12 bytes for a batch; MSG_SIZE_TOO_LARGE reaches the user."""
    topic = _topic(target)
    overhead_bytes = 100
    write = Write(target.bootstrap, topic, 0, "none", [Record(None, b"x" * (_MAX_MESSAGE_BYTES - overhead_bytes))])
    producer = {"bootstrap.servers": target.bootstrap, "message.max.bytes": 2 * _MAX_MESSAGE_BYTES}
    failures: list[str] = []

    def delivered(error: confluent_kafka.KafkaError | None, _message: confluent_kafka.Message) -> None:
        if error is not None:
            failures.append(error.name())

    client = confluent_kafka.Producer(producer)
    client.produce(topic, write.records[0].value, partition=0, on_delivery=delivered)
    assert client.flush(30) == 0
    assert failures == []
    client.produce(topic, b"x" * (_MAX_MESSAGE_BYTES + 1), partition=0, on_delivery=delivered)
    assert client.flush(30) == 0
    assert failures == ["MSG_SIZE_TOO_LARGE"]
    found = ConfluentConsumer().read(Read(target.bootstrap, topic, 0, 0, 1))
    assert _is_only(found, write.records[0].value)
    assert target.end_offset(topic, 0) == 1


def _is_only(found: list[Record], value: bytes | None) -> bool:
    """True if exactly one record with `value` was found; a comparison in the assertion would print a megabyte."""
    return [record.value for record in found] == [value]


def test_unknown_partition_is_refused(target: Target) -> None:
    """A producer that insists on partition 5 of 1 gets an error, not silence."""
    topic = _topic(target)
    with pytest.raises(ClientFailed, match=r"(?i)partition"):
        ConfluentProducer().write(Write(target.bootstrap, topic, 5, "none", [Record(None, b"lost")]))


def test_records_of_all_partitions_come_back(target: Target, java_driver: JavaDriver) -> None:
    """The partitions are on several brokers; each client finds each leader."""
    topic = _topic(target, partitions=4)
    records: list[dict[str, Any]] = [
        {"partition": number % 4, "timestamp_ms": number + 1, "key": None, "value": "YQ==", "headers": []}
        for number in range(40)
    ]
    java_driver.result("produce", target.bootstrap, topic=topic, records=records)
    for partition in range(4):
        found = ConfluentConsumer().read(Read(target.bootstrap, topic, partition, 0, 10))
        assert [record.timestamp_ms for record in found] == [partition + 1 + 4 * n for n in range(10)]
