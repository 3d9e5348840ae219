"""A consumer of many partitions: what the broker examines for its fetches, and that nothing is missed by that."""

from collections.abc import Callable
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.fetch_session import CONSUMERS_EVERYTHING_MS
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.conftest import Harness, batch
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import produce, produced

TOPIC = "t"
PARTITIONS = 20
VERSION = 11
MAX_WAIT_MS = 300

MakeHarness = Callable[..., Harness]
Fetch = codec.request(ApiKey.FETCH)


class Consumer:
    """Fetches all partitions of the topic in a session; ``offsets``: its positions."""

    def __init__(self, broker: Harness, min_bytes: int = 1) -> None:
        self._broker, self._min_bytes = broker, min_bytes
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self._asked: dict[int, int] = {}
        self._session_id = self._epoch = 0
        self.answers: list[Any] = []

    def start(self, max_wait_ms: int = 0) -> "Deferred[Any]":
        changed = {number: offset for number, offset in self.offsets.items() if self._asked.get(number) != offset}
        self._asked.update(changed)
        partitions = [
            Fetch.FetchTopic.FetchPartition(
                partition=number, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=-1,
                last_fetched_epoch=-1, log_start_offset=-1,
            )
            for number, offset in changed.items()
        ]  # fmt: skip
        request = Fetch(
            replica_id=-1, max_wait_ms=max_wait_ms, min_bytes=self._min_bytes, max_bytes=1 << 20, isolation_level=0,
            session_id=self._session_id, session_epoch=self._epoch, forgotten_topics_data=[], rack_id="",
            topics=[Fetch.FetchTopic(topic=TOPIC, partitions=partitions)] if partitions else [],
        )  # fmt: skip
        return self._broker.start(ApiKey.FETCH, VERSION, request).addCallback(self.answers.append)

    def take(self) -> dict[int, int]:
        """The partitions of the response, with their error codes."""
        [answer] = self.answers
        self.answers.clear()
        assert not answer.error_code
        self._session_id, self._epoch = answer.session_id, self._epoch + 1
        results = [result for topic in answer.responses for result in topic.partitions]
        for result in results:
            if result.records:
                self.offsets[result.partition_index] = result.high_watermark
        return {result.partition_index: result.error_code for result in results}

    def fetch(self, max_wait_ms: int = 0) -> dict[int, int]:
        self.start(max_wait_ms)
        return self.take()


def examined(broker: Harness, consumer: Consumer) -> int:
    """How many partitions a fetch reads."""
    replicas = broker.services.replicas
    with patch.object(replicas, "read", wraps=replicas.read) as read:
        consumer.fetch()
    return read.call_count


def append(broker: Harness, number: int) -> None:
    produced(broker, produce(batch(b"x"), TOPIC, number))


@pytest.fixture
def broker(harness: MakeHarness) -> Harness:
    broker = harness()
    broker.lead(TOPIC, PARTITIONS)
    return broker


def test_partitions_without_news_are_not_examined(broker: Harness) -> None:
    consumer = Consumer(broker)
    assert set(consumer.fetch()) == set(range(PARTITIONS))
    consumer.fetch()
    assert examined(broker, consumer) == 0
    append(broker, 7)
    assert examined(broker, consumer) == 1
    assert consumer.offsets[7] == 1
    assert examined(broker, consumer) == 1, "the position has changed, so the request lists it"
    assert examined(broker, consumer) == 0


def test_all_partitions_are_examined_now_and_then(broker: Harness) -> None:
    consumer = Consumer(broker)
    consumer.fetch()
    consumer.fetch()
    broker.clock.advance(CONSUMERS_EVERYTHING_MS / 1000)
    assert examined(broker, consumer) == PARTITIONS
    assert examined(broker, consumer) == 0


@pytest.mark.parametrize("min_bytes", [1, 2])
def test_a_waiting_fetch_is_answered_when_any_partition_gets_records(broker: Harness, min_bytes: int) -> None:
    consumer = Consumer(broker, min_bytes)
    consumer.fetch()
    consumer.fetch()
    consumer.start(MAX_WAIT_MS)
    assert not consumer.answers
    append(broker, 3)
    assert consumer.take() == {3: 0}


def test_records_that_are_too_few_wait_for_more(broker: Harness) -> None:
    consumer = Consumer(broker, min_bytes=2 * len(batch(b"x")))
    consumer.fetch()
    consumer.fetch()
    consumer.start(MAX_WAIT_MS)
    append(broker, 3)
    assert not consumer.answers
    append(broker, 5)
    assert consumer.take() == {3: 0, 5: 0}


def test_an_error_is_examined_until_it_ends(broker: Harness) -> None:
    consumer = Consumer(broker)
    consumer.fetch()
    consumer.fetch()
    broker.services.replicas.stop_replica(TopicPartition(TOPIC, 4), -1, delete=False)
    for _ in range(2):
        assert consumer.fetch() == {4: ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_session_that_ends_receives_no_more_news(broker: Harness) -> None:
    sessions = broker.services.fetch_sessions
    consumers = [Consumer(broker) for _ in range(3)]
    for consumer in consumers:
        consumer.fetch()
    watchers = broker.services.fetch_purgatory._watchers
    assert {len(each) for each in watchers.values()} == {3}
    for session_id in list(sessions._sessions):
        sessions._remove(session_id)
    assert not watchers


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_missed(broker: Harness, seed: int) -> None:
    """In any order of appends, fetches, waits and passing time, a consumer gets all records."""
    random, consumer, ends = Random(seed), Consumer(broker), dict.fromkeys(range(PARTITIONS), 0)
    consumer.fetch()
    for _ in range(60):
        choice = random.randrange(4)
        if choice == 0:
            number = random.randrange(PARTITIONS)
            append(broker, number)
            ends[number] += 1
        elif choice == 1:
            broker.clock.advance(random.choice([0.01, 1, 6]))
        else:
            consumer.start(random.choice([0, MAX_WAIT_MS]))
            if not consumer.answers and random.randrange(2):
                append(broker, 0)
                ends[0] += 1
            broker.clock.advance(MAX_WAIT_MS / 1000)
            consumer.take()
    consumer.fetch()
    assert consumer.offsets == ends
