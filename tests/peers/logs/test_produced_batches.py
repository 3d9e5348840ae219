"""The stored header and records of a produced batch are equal in Apache Kafka 3.9.1 and in ours.

Ours responds INVALID_RECORD where Kafka fails with UNKNOWN_SERVER_ERROR (records that do not decompress): producers
give up after both.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.produce import (
    PartitionData,
    PartitionResult,
    ProduceRequest,
    TopicData,
    read_produce_response,
    write_produce_request,
)
from kafka_zk.storage.records.compression import Compression, compress
from kafka_zk.storage.records.record_batch import TIMESTAMP_TYPE_FLAG, RecordBatchBuilder, assemble_batch, set_crc
from tests.bench.partition_wire import Wire
from tests.peers.targets import APACHE_KAFKA, Target
from tests.storage.records.test_record_check import MALFORMED

pytestmark = pytest.mark.peers

_PRODUCE, _LIST_OFFSETS = 8, 7
_LEADER_TIMEOUT_S = 30
_MAX_TIMESTAMP = -3
_LONG, _SHORT = Struct(">q"), Struct(">h")
NOW_MS = int(time.time() * 1000)


class Found(NamedTuple):
    offset: int
    timestamp_ms: int


class Topic:
    """A new topic of one partition. Requests go to every broker until the leader responds."""

    def __init__(self, target: Target, **config: str) -> None:
        self._name = f"batches-{uuid.uuid4().hex[:8]}"
        target.create_topic(self._name, config={key.replace("_", "."): value for key, value in config.items()})
        self._ports = target.ports

    def _asked(self, api_key: ApiKey, version: int, body: bytes) -> Iterator[bytes]:
        """Responses of all brokers, yielded repeatedly, because CreateTopics may return before the leader knows that it
        leads.
        """
        deadline = time.monotonic() + _LEADER_TIMEOUT_S
        while time.monotonic() < deadline:
            for port in self._ports:
                with Wire(port, 30) as wire:
                    wire.send(api_key, version, body)
                    yield wire.receive()
        raise AssertionError(f"no broker became the leader of {self._name} in {_LEADER_TIMEOUT_S} s")

    def produce(self, batch: bytes | bytearray) -> PartitionResult:
        topics = [TopicData(self._name, [PartitionData(0, batch)])]
        request = write_produce_request(_PRODUCE, ProduceRequest(None, -1, 10_000, topics))
        body = b"".join(bytes(part) for part in request)
        results = (
            read_produce_response(_PRODUCE, memoryview(answer)).topics[0].partitions[0]
            for answer in self._asked(ApiKey.PRODUCE, _PRODUCE, body)
        )
        return next(result for result in results if result.error_code not in _ELSEWHERE)

    def lookup(self, timestamp: int) -> Found:
        request = codec.request(ApiKey.LIST_OFFSETS)
        of_topic = request.ListOffsetsTopic
        partition = of_topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
        message = request(replica_id=-1, isolation_level=0, topics=[of_topic(name=self._name, partitions=[partition])])
        body = bytes(codec.encode_body(message, ApiKey.LIST_OFFSETS, _LIST_OFFSETS))
        for answer in self._asked(ApiKey.LIST_OFFSETS, _LIST_OFFSETS, b"\0" + body):
            found: Any = codec.decode_response(ApiKey.LIST_OFFSETS, _LIST_OFFSETS, answer[1:])
            result = found.topics[0].partitions[0]
            if result.error_code not in _ELSEWHERE:
                return Found(result.offset, result.timestamp)
        raise AssertionError("_asked raises at its deadline")


_ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def batch(
    timestamps: tuple[int, ...], *, codec: str = "none", max_timestamp_ms: int | None = None, append_time: bool = False
) -> bytearray:
    builder = RecordBatchBuilder(codec)
    for timestamp_ms in timestamps:
        builder.append(timestamp_ms, b"k", b"v")
    made = bytearray(builder.build())
    if max_timestamp_ms is not None:
        _LONG.pack_into(made, 35, max_timestamp_ms)
    if append_time:
        _SHORT.pack_into(made, 21, _SHORT.unpack_from(made, 21)[0] | TIMESTAMP_TYPE_FLAG)
    set_crc(made)
    return made


@pytest.mark.parametrize("kind", MALFORMED)
@pytest.mark.parametrize("used", [Compression.none, Compression.gzip])
def test_a_batch_that_no_reader_can_read_is_refused(target: Target, used: Compression, kind: str) -> None:
    """Kafka responds with UNKNOWN_SERVER_ERROR to some of them, and does not check the lengths of compressed
    records.
    """
    records = compress(used, MALFORMED[kind]) if used else MALFORMED[kind]
    made = assemble_batch(records, attributes=used, record_count=1, base_timestamp=NOW_MS, max_timestamp=NOW_MS)
    expected = {int(ErrorCode.INVALID_RECORD)}
    if target.name == APACHE_KAFKA:
        expected.add(int(ErrorCode.UNKNOWN_SERVER_ERROR))
        if used and kind in ("longer than the batch", "negative length"):
            expected.add(0)
    assert Topic(target).produce(made).error_code in expected


@pytest.mark.parametrize("claimed_ms", [-1, 0, NOW_MS + 10**9], ids=["none", "zero", "far ahead"])
@pytest.mark.parametrize("used", ["none", "gzip"])
@pytest.mark.parametrize("config", [{}, {"cleanup_policy": "compact"}, {"compression_type": "lz4"}])
def test_the_largest_timestamp_is_that_of_the_records(
    target: Target, config: dict[str, str], used: str, claimed_ms: int
) -> None:
    topic = Topic(target, **config)
    sent = batch((NOW_MS, NOW_MS + 1000), codec=used, max_timestamp_ms=claimed_ms)
    assert topic.produce(sent).error_code == 0
    assert topic.lookup(NOW_MS) == Found(0, NOW_MS)
    assert topic.lookup(NOW_MS + 1) == Found(1, NOW_MS + 1000)
    assert topic.lookup(NOW_MS + 1001) == Found(-1, -1)
    assert topic.lookup(_MAX_TIMESTAMP) == Found(1, NOW_MS + 1000)


def test_without_timestamps_the_first_record_has_the_largest(target: Target) -> None:
    topic = Topic(target)
    assert topic.lookup(_MAX_TIMESTAMP) == Found(-1, -1)
    for _ in range(2):
        assert topic.produce(batch((-1, -1))).error_code == 0
    assert topic.lookup(_MAX_TIMESTAMP) == Found(0, -1)


@pytest.mark.parametrize(
    ("config", "max_timestamp_ms", "error"),
    [
        ({}, None, 0),
        ({}, -1, ErrorCode.INVALID_TIMESTAMP),
        ({"message_timestamp_type": "LogAppendTime"}, None, ErrorCode.INVALID_TIMESTAMP),
    ],
)
@pytest.mark.parametrize("used", ["none", "gzip"])
def test_a_producer_that_sets_log_append_time(
    target: Target, used: str, config: dict[str, str], max_timestamp_ms: int | None, error: int
) -> None:
    topic = Topic(target, **config)
    sent = batch((NOW_MS, NOW_MS), codec=used, max_timestamp_ms=max_timestamp_ms, append_time=True)
    result = topic.produce(sent)
    assert result.error_code == error
    assert [each[0] for each in result.record_errors] == ([0, 1] if error else [])


@pytest.mark.parametrize("used", ["none", "gzip"])
def test_each_record_outside_the_bounds_is_named(target: Target, used: str) -> None:
    topic = Topic(target, message_timestamp_before_max_ms="3600000")
    old_ms = NOW_MS - 10**7
    result = topic.produce(batch((NOW_MS, old_ms, NOW_MS, old_ms), codec=used))
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each[0] for each in result.record_errors] == [1, 3]
    assert str(old_ms) in (result.record_errors[0][1] or "")
    assert result.error_message == "One or more records have been rejected due to invalid timestamp"
