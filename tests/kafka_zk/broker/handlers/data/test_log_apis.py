"""DeleteRecords, DescribeLogDirs, OffsetForLeaderEpoch, DescribeProducers."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.files import checkpoints
from kafka_zk.storage.files.checkpoints import read_offsets
from kafka_zk.storage.files.filenames import LOG_START_OFFSET_CHECKPOINT
from tests.kafka_zk.broker.conftest import Harness, batch
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, fetched, produce, produced

Make = Callable[..., Harness]


def delete(offset: int, topic: str = "t", partition: int = 0) -> Any:
    request = codec.request(ApiKey.DELETE_RECORDS)
    named = request.DeleteRecordsTopic
    wanted = named.DeleteRecordsPartition(partition_index=partition, offset=offset)
    return request(topics=[named(name=topic, partitions=[wanted])], timeout_ms=1000)


def deleted(broker: Harness, request: Any, version: int = 2) -> tuple[int, int]:
    result = broker.ask(ApiKey.DELETE_RECORDS, version, request).topics[0].partitions[0]
    return result.error_code, result.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_deleted_records_are_out_of_range(harness: Make, version: int) -> None:
    """The low watermark never goes back; -1 deletes all committed records."""
    broker = harness()
    broker.lead("t")
    produced(broker, produce(batch(b"a", b"b", b"c")))
    assert deleted(broker, delete(2), version) == (0, 2)
    assert deleted(broker, delete(1), version) == (0, 2)
    assert fetched(broker.ask(ApiKey.FETCH, 11, fetch(1))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert deleted(broker, delete(-1), version) == (0, 3)
    assert produced(broker, produce(batch(b"d"))).base_offset == 3


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (delete(9), ErrorCode.OFFSET_OUT_OF_RANGE),
        (delete(-2), ErrorCode.OFFSET_OUT_OF_RANGE),
        (delete(0, "unknown"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (delete(0, partition=5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (delete(0, "__consumer_offsets"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_cannot_be_deleted_gets_kafkas_code(harness: Make, request_: Any, code: ErrorCode) -> None:
    """The low watermark in the response is -1."""
    broker = harness()
    broker.lead("t")
    broker.lead("__consumer_offsets")
    assert deleted(broker, request_) == (code, -1)


def test_a_deletion_is_durable_when_it_is_answered(harness: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash right after the response brings no record back; if the disk cannot guarantee that, the response is an
    error.
    """
    broker = harness()
    broker.lead("t")
    produced(broker, produce(batch(b"a", b"b", b"c")))
    (directory,) = broker.services.replicas.logs.live_directories
    assert deleted(broker, delete(2)) == (0, 2)
    assert read_offsets(str(directory / LOG_START_OFFSET_CHECKPOINT)) == {TopicPartition("t", 0): 2}

    def fail(*args: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(checkpoints, "write_offsets", fail)
    assert deleted(broker, delete(3)) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert not broker.services.replicas.logs.live_directories


@pytest.mark.parametrize("version", range(5))
def test_log_dirs_tell_size_and_space(harness: Make, version: int) -> None:
    """The response has all partitions if the request names none; otherwise, the named partitions that exist."""
    broker = harness()
    broker.lead("t", partitions=2)
    produced(broker, produce(batch(b"abc")))
    request = codec.request(ApiKey.DESCRIBE_LOG_DIRS)
    (directory,) = broker.ask(ApiKey.DESCRIBE_LOG_DIRS, version, request(topics=None)).results
    sizes = {(named.name, p.partition_index): p.partition_size for named in directory.topics for p in named.partitions}
    assert sizes == {("t", 0): len(batch(b"abc")), ("t", 1): 0}
    assert directory.error_code == 0
    assert version < 4 or directory.total_bytes >= directory.usable_bytes > 0
    asked = request(topics=[request.DescribableLogDirTopic(topic="t", partitions=[1, 7])])
    (directory,) = broker.ask(ApiKey.DESCRIBE_LOG_DIRS, version, asked).results
    assert [[p.partition_index for p in named.partitions] for named in directory.topics] == [[1]]


def epoch_request(epoch: int, *, current: int = -1, topic: str = "t") -> Any:
    request = codec.request(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    named = request.OffsetForLeaderTopic
    wanted = named.OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    return request(replica_id=-1, topics=[named(topic=topic, partitions=[wanted])])


def epoch_end(broker: Harness, request: Any, version: int = 4) -> tuple[int, int, int]:
    found = broker.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, request).topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


def test_the_end_of_an_epoch_is_where_the_next_one_began(harness: Make) -> None:
    """The current epoch ends at the log end; an unknown later one has no end."""
    broker = harness()
    topic_id = broker.lead("t")
    produced(broker, produce(batch(b"a", b"b")))
    assert broker.lead_again("t", topic_id, leader_epoch=2) == 0
    produced(broker, produce(batch(b"c")))
    assert epoch_end(broker, epoch_request(0)) == (0, 0, 2)
    assert epoch_end(broker, epoch_request(1)) == (0, 0, 2)
    assert epoch_end(broker, epoch_request(2, current=2)) == (0, 2, 3)
    assert epoch_end(broker, epoch_request(5)) == (0, -1, -1)
    assert epoch_end(broker, epoch_request(0, current=1))[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert epoch_end(broker, epoch_request(0, current=3))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert epoch_end(broker, epoch_request(0, topic="u"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_offset_for_leader_epoch_is_answered(harness: Make, version: int) -> None:
    """Version 0 has no epoch in its response."""
    broker = harness()
    broker.lead("t")
    produced(broker, produce(batch(b"a")))
    assert epoch_end(broker, epoch_request(0), version) == (0, 0 if version else -1, 1)


def test_producers_are_described(harness: Make) -> None:
    """The response has the leader's state of each producer id."""
    broker = harness()
    broker.lead("t")
    produced(broker, produce(batch(b"x", b"y", producer_id=5, producer_epoch=1, base_sequence=0)))
    request = codec.request(ApiKey.DESCRIBE_PRODUCERS)
    wanted = request(
        topics=[
            request.TopicRequest(name="t", partition_indexes=[0, 7]),
            request.TopicRequest(name="u", partition_indexes=[0]),
            request.TopicRequest(name="bad name", partition_indexes=[0]),
        ]
    )
    known, unknown, bad = broker.ask(ApiKey.DESCRIBE_PRODUCERS, 0, wanted).topics
    (producer,) = known.partitions[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (5, 1, 1)
    assert (producer.current_txn_start_offset, producer.coordinator_epoch) == (-1, -1)
    assert known.partitions[1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert bad.partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
