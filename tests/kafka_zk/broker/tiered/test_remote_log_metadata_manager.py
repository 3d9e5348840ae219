"""The metadata that brokers share through ``__remote_log_metadata``."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.partition import Role
from kafka_zk.broker.tiered.metadata_client import MetadataClient
from kafka_zk.broker.tiered.remote_log_metadata_manager import (
    CONSUME_WAIT_S,
    MetadataUnavailable,
    RemoteLogMetadataManager,
)
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC, metadata_partition
from tests.kafka_zk.broker.conftest import leader_and_isr
from tests.kafka_zk.broker.tiered.tiered_broker import TieredBroker
from tests.storage.helpers import append, batch
from tests.storage.tiered.segments import FINISHED, STARTED, T, segment, update

OTHER = T._replace(topic_id=UUID(int=1))


def outcome(waiting: Coroutine[Any, Any, Any]) -> list[Any]:
    """A list with the result or the type of the error; empty until then."""
    results: list[Any] = []
    ensureDeferred(waiting).addErrback(lambda failure: type(failure.value)).addCallback(results.append)
    return results


@pytest.fixture
def broker(tmp_path: Path) -> TieredBroker:
    broker = TieredBroker(tmp_path)
    broker.metadata.assign([T])
    return broker


def another(broker: TieredBroker) -> RemoteLogMetadataManager:
    """The manager of another broker."""
    manager = RemoteLogMetadataManager(2, broker.clock, broker.client)
    manager.assign([T])
    return manager


def test_a_written_record_is_read_back_here_and_elsewhere(broker: TieredBroker) -> None:
    other = another(broker)
    assert outcome(broker.metadata.write(segment(1, 0, 9))) == [None]
    assert outcome(broker.metadata.write(update(segment(1, 0, 9), FINISHED))) == [None]
    assert [each.state for each in broker.metadata.log(T).segments.values()] == [FINISHED]
    assert not other.log(T).segments
    assert [next(iter(log.segments.values())).end_offset for log in outcome(other.complete_log(T))] == [9]


def test_more_records_than_a_response_has_are_read(broker: TieredBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        outcome(broker.metadata.write(segment(1 + number, number, number)))
    monkeypatch.setattr("kafka_zk.broker.tiered.metadata_client._MAX_BYTES", 500)
    other = another(broker)
    assert [len(log.segments) for log in outcome(other.complete_log(T))] == [20]


def test_a_record_that_cannot_be_decoded_is_skipped(broker: TieredBroker) -> None:
    """A later version of Kafka may write such a record."""
    number = metadata_partition(T.topic_id, 0, 3)
    log = broker.replicas.partition(TopicPartition(METADATA_TOPIC, number)).leader_log()
    append(log, batch(value=b"\x01\x09\x00"))
    log.follow_log_end()
    assert outcome(broker.metadata.write(segment(1, 0, 9))) == [None]
    assert len(broker.metadata.log(T).segments) == 1


def test_a_lost_response_may_have_written_the_record(broker: TieredBroker) -> None:
    broker.connection.loses = {ApiKey.PRODUCE}
    assert outcome(broker.metadata.write(segment(1, 0, 9))) == [MetadataUnavailable]
    broker.metadata.poll()
    assert [each.state for each in broker.metadata.log(T).segments.values()] == [STARTED]


def test_a_wait_for_metadata_ends(broker: TieredBroker) -> None:
    """Until the time limit, the reads are repeated."""
    broker.connection.loses = {ApiKey.FETCH}
    reading, writing = outcome(broker.metadata.complete_log(T)), outcome(broker.metadata.write(segment(1, 0, 9)))
    broker.clock.advance(CONSUME_WAIT_S - 1)
    assert reading == writing == []
    broker.clock.advance(1)
    assert reading == writing == [MetadataUnavailable]
    assert not broker.clock.getDelayedCalls()


def test_a_cancelled_wait_needs_no_more_requests(broker: TieredBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.connection.fault = ConnectionError("refused")
    reading = ensureDeferred(broker.metadata.complete_log(T))
    reading.addErrback(lambda failure: failure.trap(CancelledError))
    reading.cancel()
    assert not broker.clock.getDelayedCalls()
    broker.connection.fault = None
    asked: list[object] = []

    async def committed_ends(*each: object) -> dict[int, int]:
        asked.append(each)
        return {}

    monkeypatch.setattr(broker.client, "committed_ends", committed_ends)
    broker.metadata.poll()
    assert not asked


def test_all_waits_end_when_their_partition_is_not_read_any_more(broker: TieredBroker) -> None:
    broker.connection.fault = ConnectionError("refused")
    waits = [outcome(broker.metadata.complete_log(T)) for _ in range(3)]
    broker.metadata.assign([])
    assert waits == [[MetadataUnavailable]] * 3
    assert not broker.clock.getDelayedCalls()


def test_a_leader_that_lost_its_checkpoint_is_not_believed(broker: TieredBroker) -> None:
    """The leader's high watermark is 0 until its followers fetch. If a tiered log's leader took that for the end of the
    metadata, it would abandon all records that are only in remote storage."""
    outcome(broker.metadata.write(segment(1, 0, 9)))
    number = metadata_partition(T.topic_id, 0, 3)
    topic_id = broker.harness.services.metadata.topic_ids[METADATA_TOPIC]
    state = {"leader_epoch": 1, "leader": 0, "isr": [0, 1], "replicas": [0, 1]}
    fields = {"controller_epoch": 1, **state}
    broker.harness.ask(ApiKey.LEADER_AND_ISR, 7, leader_and_isr(METADATA_TOPIC, topic_id, 3, fields))
    partition = broker.replicas.partitions[TopicPartition(METADATA_TOPIC, number)]
    log = partition.leader_log()
    log.update_high_watermark(0)
    other = another(broker)
    reading = outcome(other.complete_log(T))
    other.poll()
    assert reading == []
    log.update_high_watermark(log.log_end_offset)
    other.poll()
    assert [len(found.segments) for found in reading] == [1]


def test_metadata_that_an_unclean_election_lost_stop_the_tasks(
    broker: TieredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """The lost metadata stay in this broker's memory, and no task uses what is left of the log."""
    outcome(broker.metadata.write(segment(1, 0, 9)))
    number = metadata_partition(T.topic_id, 0, 3)
    log = broker.replicas.partitions[TopicPartition(METADATA_TOPIC, number)].leader_log()
    log.truncate_to(0)
    log.follow_log_end()
    reading = outcome(broker.metadata.complete_log(T))
    broker.metadata.poll()
    assert reading == []
    assert len(broker.metadata.log(T).segments) == 1
    (told,) = [record for record in caplog.records if "unclean" in record.getMessage()]
    assert told.levelname == "WARNING"


def test_a_wait_ends_when_the_metadata_can_be_read_again(broker: TieredBroker) -> None:
    broker.connection.loses = {ApiKey.FETCH}
    reading = outcome(broker.metadata.complete_log(T))
    broker.connection.loses = set()
    broker.metadata.poll()
    assert len(reading) == 1
    assert not broker.clock.getDelayedCalls()


def test_a_partition_without_a_leader_is_unavailable(broker: TieredBroker) -> None:
    broker.harness.services.metadata.topics[METADATA_TOPIC].clear()
    assert outcome(broker.metadata.write(segment(1, 0, 9))) == [MetadataUnavailable]


def test_a_refused_record_is_an_error(broker: TieredBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def produce(self: MetadataClient, partition: int, batch: bytes) -> int:
        raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    monkeypatch.setattr(MetadataClient, "produce", produce)
    assert outcome(broker.metadata.write(segment(1, 0, 9))) == [MetadataUnavailable]


def test_metadata_of_partitions_that_went_away_are_forgotten(broker: TieredBroker) -> None:
    """They are read again from the beginning when a partition comes back."""
    outcome(broker.metadata.write(segment(1, 0, 9)))
    assert metadata_partition(T.topic_id, 0, 3) != metadata_partition(OTHER.topic_id, 0, 3)
    broker.connection.loses = {ApiKey.FETCH}
    waiting = outcome(broker.metadata.complete_log(T))
    broker.metadata.assign([OTHER])
    assert waiting == [MetadataUnavailable]
    assert not broker.metadata.log(T).segments
    broker.connection.loses = set()
    broker.metadata.assign([T])
    assert [len(log.segments) for log in outcome(broker.metadata.complete_log(T))] == [1]


def test_a_response_that_was_under_way_is_not_the_newest(broker: TieredBroker) -> None:
    """Another broker may have written a record after the fetch was handled."""
    late: list[Deferred[None]] = []
    broker.connection.late = late
    broker.metadata.poll()
    reading = outcome(broker.metadata.complete_log(T))
    other = another(broker)
    ensureDeferred(other.write(segment(1, 0, 9)))
    broker.connection.late = None
    late[0].callback(None)
    assert [len(log.segments) for log in reading] == [1]
    late[1].callback(None)


def test_a_refusal_without_a_message_has_none(broker: TieredBroker) -> None:
    broker.replicas.partition(TopicPartition(METADATA_TOPIC, metadata_partition(T.topic_id, 0, 3))).role = Role.FOLLOWER
    errors: list[str] = []
    writing = ensureDeferred(broker.metadata.write(segment(1, 0, 9)))
    writing.addErrback(lambda failure: errors.append(str(failure.value)))
    assert len(errors) == 1 and "None" not in errors[0]


def test_metadata_that_are_needed_before_the_next_round_of_tasks_are_read(broker: TieredBroker) -> None:
    """A broker that has just started, or received a replica, needs them immediately; rounds are 30 s apart."""
    outcome(broker.metadata.write(segment(1, 0, 9)))
    starting = RemoteLogMetadataManager(2, broker.clock, broker.client)
    assert [len(log.segments) for log in outcome(starting.complete_log(T))] == [1]
    starting.assign([T])
    assert len(starting.log(T).segments) == 1
