"""Reads of remote records that take longer than their fetch waits."""

import gc
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import maybeDeferred

from kafka_zk.base.client_gone import ClientGone
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.handlers.data.fetch import handle
from kafka_zk.broker.tiered.unclaimed_reads import RemoteRecords
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import RequestHeader
from tests.kafka_zk.broker.conftest import CONTEXT
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch
from tests.kafka_zk.broker.tiered.test_remote_reads import (
    append_compacted,
    ask,
    empty_handed,
    offsets,
    pending,
    with_remote_records,
)
from tests.kafka_zk.broker.tiered.tiered_broker import TURN_S, TieredBroker
from tests.storage.helpers import T0, append, batch


@pytest.fixture
def broker(tmp_path: Path) -> TieredBroker:
    return with_remote_records(tmp_path)


def test_a_slow_store_delays_a_consumer_for_a_known_time(broker: TieredBroker) -> None:
    """``remote.fetch.max.wait.ms``, whatever the fetch would wait. The read goes on, and the next fetch gets its
    records."""
    broker.threads.holds = True
    answers = pending(broker, 2, max_wait_ms=10_000)
    broker.harness.clock.advance(0.499)
    assert not answers
    broker.harness.clock.advance(0.001)
    answers += pending(broker, 2)
    broker.harness.clock.advance(0.5)
    assert [(each.error_code, each.records, each.high_watermark) for each in answers] == [(0, b"", 7)]
    assert len(broker.threads.held) == 1
    broker.threads.holds = False
    broker.threads.release()
    for path in broker.remote_folder.rglob("*.log"):
        path.unlink()
    assert offsets(ask(broker, 2)) == [2, 3]


def test_the_longest_wait_of_a_fetch_is_dynamic(broker: TieredBroker) -> None:
    broker.threads.holds = True
    keys = {"zookeeper.connect": "127.0.0.1:2181", "remote.fetch.max.wait.ms": "2000"}
    broker.harness.services.config, _ = KafkaConfig.from_properties(keys)
    answer = pending(broker, 2)
    broker.harness.clock.advance(1.999)
    assert not answer
    broker.harness.clock.advance(0.001)
    assert [(each.error_code, each.records) for each in answer] == [(0, b"")]


def test_a_smaller_fetch_gets_a_part_of_a_read_that_was_left(broker: TieredBroker) -> None:
    left_read(broker, 2)
    assert offsets(ask(broker, 2, max_bytes=1)) == [2]


def test_a_new_leader_epoch_reads_again(broker: TieredBroker) -> None:
    """An unclean election may have replaced the records."""
    left_read(broker, 2)
    broker.harness.lead_again("t", broker.topic_id, leader_epoch=1)
    empty_handed(broker, 2)


def test_a_client_that_disconnects_leaves_its_read(broker: TieredBroker) -> None:
    """Clients often fetch again through another connection."""
    broker.threads.holds = True
    body = memoryview(bytearray(codec.encode_body(fetch(2), ApiKey.FETCH, 12)))
    fetching = handle(broker.harness.services, CONTEXT, RequestHeader(ApiKey.FETCH, 12, 7, "client"), body)
    fetching.send(None).abandon()
    with pytest.raises(ClientGone):
        fetching.send(None)
    assert not broker.harness.clock.getDelayedCalls()
    pending(broker, 2)
    assert len(broker.threads.held) == 1


def test_a_late_read_keeps_no_other_records_in_memory(broker: TieredBroker) -> None:
    """A response has the records of the partitions that were read in time."""
    broker.harness.configs.topics["u"] = broker.harness.configs.topics["t"]
    broker.harness.lead("u")
    other = broker.replicas.partitions[TopicPartition("u", 0)].leader_log()
    for offset in range(7):
        append(other, batch(value=b"other" * 8, timestamp_ms=T0 + offset))
    other.follow_log_end()
    for _ in range(2):
        broker.run()
    assert other.local_log_start_offset == 6
    request = fetch(2)
    request.topics += fetch(2).topics
    request.topics[1].topic = "u"
    broker.threads.holds = True
    answer: list[Any] = []
    broker.harness.start(ApiKey.FETCH, 12, request).addCallback(answer.append)
    work, done = broker.threads.held.pop()
    maybeDeferred(work).chainDeferred(done)
    broker.harness.clock.advance(0.5)
    assert [bool(topic.partitions[0].records) for topic in answer[0].responses] == [False, True]
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, RemoteRecords) and b"other" in each.records]


def left_read(broker: TieredBroker, offset: int) -> None:
    """A fetch leaves a read, which then ends. Another read would find nothing."""
    broker.threads.holds = True
    pending(broker, offset)
    broker.harness.clock.advance(0.5)
    broker.threads.holds = False
    broker.threads.release()
    for path in broker.remote_folder.rglob("*.log"):
        path.unlink()


def test_records_that_became_remote_during_a_read_are_not_skipped(tmp_path: Path) -> None:
    """The read found no records before the first local offset of its time. A later fetch claims it."""
    broker = TieredBroker(tmp_path, local_retention_bytes="100", local_retention_ms="-1")
    append_compacted(broker, 1)
    broker.log.extend_to(3, T0)
    broker.fill(2)
    broker.run()
    assert broker.log.local_log_start_offset == 3
    broker.threads.holds = True
    empty_handed(broker, 2)
    broker.threads.holds = False
    broker.threads.release()
    broker.fill(4)
    broker.manager.run_tasks()
    broker.clock.advance(TURN_S)
    assert broker.log.local_log_start_offset > 4
    empty_handed(broker, 2)
    assert offsets(ask(broker, 2))[0] == 3
