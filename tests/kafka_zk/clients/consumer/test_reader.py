"""The Twisted reader against a cluster of plain values under a ``Clock``."""

import struct
from typing import Any

import pytest
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import BrokerError, ClientClosed
from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.consumer.reader import Reader
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.kafka_zk.clients.connection.fake_cluster import FakeCluster, advance, finish

TPS = [TopicPartition("t", 0), TopicPartition("t", 1)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def brokers(clock: Clock) -> FakeCluster:
    cluster = FakeCluster(clock, {"t": [0, 1]})
    for number in range(4):
        for tp in TPS:
            write(cluster, tp, number * 10, 10)
    return cluster


def write(cluster: FakeCluster, tp: TopicPartition, base_offset: int, count: int) -> None:
    builder = RecordBatchBuilder()
    for index in range(count):
        builder.append(1000, b"k", b"%d" % (base_offset + index))
    cluster.batches.setdefault(tp, []).append(builder.build(base_offset=base_offset))
    cluster.model.logs.setdefault(tp, []).extend([b""] * count)


def reader_for(clock: Clock, brokers: FakeCluster, **options: Any) -> Reader:
    return Reader(clock, connect=brokers.connect, bootstrap_servers="b0:9092,b1:9092", **options)


async def read_to_end(reader: Reader) -> list[ConsumerRecord]:
    ends = await reader.end_offsets(reader.assignment())
    return [record async for records in reader.batches(ends) for record in records]


def test_reads_all_partitions_to_their_end(clock: Clock, brokers: FakeCluster) -> None:
    """The reader returns every record of every partition, in order."""
    reader = reader_for(clock, brokers, max_poll_records=7)
    reader.assign(dict.fromkeys(TPS, "earliest"))
    records = finish(clock, run(read_to_end(reader)))
    for tp in TPS:
        assert [record.offset for record in records if record.tp == tp] == list(range(40))
    assert reader.high_watermark(TPS[0]) == 40


def test_leader_change_is_followed(clock: Clock, brokers: FakeCluster) -> None:
    """A leader that moved or died only costs time."""
    reader = reader_for(clock, brokers, max_partition_fetch_bytes=200)
    reader.assign(dict.fromkeys(TPS, 0))
    first = finish(clock, run(reader.poll(100)))
    brokers.move(TPS[0], 1)
    brokers.stop(0)
    rest = finish(clock, run(read_to_end(reader)), 20)
    got = [record.offset for record in first + rest if record.partition == 0]
    assert got == list(range(40))


def test_a_named_leader_is_followed_without_metadata_and_without_a_pause(clock: Clock, brokers: FakeCluster) -> None:
    """KIP-951: the leader may even be a broker that no metadata named."""
    reader = reader_for(clock, brokers, max_partition_fetch_bytes=200)
    reader.assign({TPS[0]: 0})
    finish(clock, run(reader.poll(100)))
    brokers.names_leaders = True
    brokers.node_ids.append(2)
    brokers.move(TPS[0], 2)
    del brokers.seen[:]
    while finish(clock, run(reader.position(TPS[0]))) < 40:
        assert finish(clock, run(reader.poll(20)), 0.03)
    assert (2, ApiKey.FETCH) in brokers.seen
    assert ApiKey.METADATA not in {api_key for _, api_key in brokers.seen}


def test_poll_waits_for_records_and_gives_up_in_time(clock: Clock, brokers: FakeCluster) -> None:
    """poll returns an empty list after the timeout; records that arrive before are returned immediately."""
    reader = reader_for(clock, brokers)
    reader.assign({TPS[0]: "latest"})
    assert finish(clock, run(reader.poll(200))) == []
    assert finish(clock, run(reader.position(TPS[0]))) == 40
    waiting = run(reader.poll(60_000))
    advance(clock, 0.1)
    write(brokers, TPS[0], 40, 2)
    assert [record.offset for record in finish(clock, waiting, 1)] == [40, 41]


def test_seek_goes_on_elsewhere(clock: Clock, brokers: FakeCluster) -> None:
    """A seek may go back."""
    reader = reader_for(clock, brokers, max_poll_records=5)
    reader.assign({TPS[0]: 30})
    assert finish(clock, run(reader.poll(100)))[0].offset == 30
    reader.seek(TPS[0], 12)
    assert finish(clock, run(reader.poll(100)))[0].offset == 12


def test_offset_out_of_range_resets_or_raises(clock: Clock, brokers: FakeCluster) -> None:
    """auto.offset.reset takes effect through the real lookup."""
    reader = reader_for(clock, brokers, auto_offset_reset="earliest")
    reader.assign({TPS[0]: 400})
    assert finish(clock, run(reader.poll(5_000)))[0].offset == 0
    strict = reader_for(clock, brokers, auto_offset_reset="none")
    strict.assign({TPS[0]: 400})
    with pytest.raises(BrokerError, match="fetching t-0 at offset 400: OFFSET_OUT_OF_RANGE"):
        finish(clock, run(strict.poll(5_000)))


def test_partition_that_does_not_exist_is_said(clock: Clock, brokers: FakeCluster) -> None:
    """The error is one sentence; poll does not wait until its timeout."""
    reader = reader_for(clock, brokers)
    reader.assign({TopicPartition("t", 7): 0})
    with pytest.raises(BrokerError, match=r"partition 7 of t, which has 0\.\.1"):
        finish(clock, run(reader.poll(5_000)))


def test_offsets_are_asked_again_while_the_leader_moves(clock: Clock, brokers: FakeCluster) -> None:
    """After NOT_LEADER_OR_FOLLOWER the reader refreshes the metadata and repeats the lookup."""
    reader = reader_for(clock, brokers)
    finish(clock, run(reader.partitions_for("t")))
    brokers.errors.append((ApiKey.LIST_OFFSETS, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    brokers.move(TPS[1], 0)
    assert finish(clock, run(reader.end_offsets(TPS))) == dict.fromkeys(TPS, 40)
    assert finish(clock, run(reader.beginning_offsets(TPS))) == dict.fromkeys(TPS, 0)
    assert finish(clock, run(reader.offsets_for_times({TPS[0]: 5}))) == {TPS[0]: None}


def test_close_ends_a_waiting_poll(clock: Clock, brokers: FakeCluster) -> None:
    """The poll raises ClientClosed, and no timer is left."""
    reader = reader_for(clock, brokers)
    reader.assign({TPS[0]: "latest"})
    waiting = run(reader.poll(60_000))
    advance(clock, 0.1)
    finish(clock, run(reader.close()), 0.1)
    with pytest.raises(ClientClosed):
        finish(clock, waiting, 0.1)
    advance(clock, 1)
    assert clock.getDelayedCalls() == []


def test_poll_goes_on_behind_a_marker(clock: Clock) -> None:
    """``while records := reader.poll(5_000)`` does not end at a transaction."""
    brokers = FakeCluster(clock, {"t": [0]})
    builder = RecordBatchBuilder(producer_id=1, producer_epoch=0, transactional=True, control=True)
    builder.append(1000, struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 0))
    brokers.batches[TPS[0]] = [builder.build(base_offset=0)]
    reader = Reader(
        clock, connect=brokers.connect, bootstrap_servers="b0:9092", isolation_level="read_committed"
    )
    reader.assign({TPS[0]: 0})
    polled = run(reader.poll(1_000))
    advance(clock, 0.5)
    assert not polled.called
    plain = RecordBatchBuilder()
    plain.append(1000, b"k", b"v")
    brokers.batches[TPS[0]].append(plain.build(base_offset=1))
    assert [record.offset for record in finish(clock, polled)] == [1]
