"""Topics with ``flush.messages``: a record is neither acknowledged nor readable before it is durable."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol.api_keys import ApiKey
from tests.kafka_zk.broker.conftest import Harness, batch
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, fetched, produce, produced, values
from tests.kafka_zk.broker.handlers.test_other_apis import list_offsets, listed
from tests.kafka_zk.broker.handlers.transactions.test_transactions_in_logs import codes, markers, transactional
from tests.kafka_zk.broker.handlers.transactions.test_transactions_in_logs import produce as produce_in_transaction

R = TypeVar("R")


class Disk:
    """Each flush waits until the test lets it run."""

    def __init__(self, broker: Harness) -> None:
        self._waiting: list[tuple[Callable[[], object], Deferred[Any]]] = []
        broker.services.replicas.run_in_thread = self._run_later

    def _run_later(self, work: Callable[[], R]) -> "Deferred[R]":
        self._waiting.append((work, Deferred()))
        return self._waiting[-1][1]

    def finish_one(self) -> None:
        work, done = self._waiting.pop(0)
        work()
        done.callback(None)


@pytest.fixture
def broker(harness: Callable[..., Harness]) -> Harness:
    made = harness()
    for topic in ("t", "u"):
        made.configs.topics[topic] = {"flush.messages": "1"}
        made.lead(topic)
    return made


def begin(broker: Harness, api_key: ApiKey, version: int, request: Any) -> list[Any]:
    """Send the request; its response is appended to the list."""
    answers: list[Any] = []
    broker.start(api_key, version, request).addCallback(answers.append)
    return answers


def test_a_record_is_seen_when_it_is_durable(broker: Harness) -> None:
    """After a power cut another record must not get an offset that a consumer has already read."""
    produced(broker, produce(batch(b"a")))
    disk = Disk(broker)
    waiting = begin(broker, ApiKey.FETCH, 11, fetch(1, max_wait_ms=1000))
    first = begin(broker, ApiKey.PRODUCE, 9, produce(batch(b"b")))
    second = begin(broker, ApiKey.PRODUCE, 9, produce(batch(b"c")))
    assert not (waiting or first or second)
    seen = fetched(broker.ask(ApiKey.FETCH, 11, fetch(0)))
    assert (seen.high_watermark, values(seen.records)) == (1, [b"a"])
    assert listed(broker, list_offsets(-1)).offset == 1
    disk.finish_one()
    assert first and not second
    assert values(fetched(waiting[0]).records) == [b"b"]
    disk.finish_one()
    assert second
    assert fetched(broker.ask(ApiKey.FETCH, 11, fetch(2))).high_watermark == 3


def test_a_repeated_batch_is_answered_when_the_first_one_is_durable(broker: Harness) -> None:
    """An idempotent producer whose connection broke sends its batch again on another connection."""
    disk = Disk(broker)
    records = batch(b"a", producer_id=5000, producer_epoch=0, base_sequence=0)
    begin(broker, ApiKey.PRODUCE, 9, produce(records))
    again = begin(broker, ApiKey.PRODUCE, 9, produce(records))
    assert not again
    disk.finish_one()
    disk.finish_one()
    assert again[0].responses[0].partition_responses[0].base_offset == 0
    assert fetched(broker.ask(ApiKey.FETCH, 11, fetch(0))).high_watermark == 1


def test_a_request_is_answered_after_its_own_flush(broker: Harness) -> None:
    """The request completes a fetch, after which the same connection sends another produce. Our request must not be
    completed by that one's flush.
    """
    broker.configs.topics["u"] = {}
    list(broker.services.replicas.update_topic_configs({"u": {}}))
    disk = Disk(broker)
    fetched_first = broker.start(ApiKey.FETCH, 11, fetch(0, topic="u", max_wait_ms=1000))
    fetched_first.addCallback(lambda _: begin(broker, ApiKey.PRODUCE, 9, produce(batch(b"x"), topic="t")))
    ours = produce(batch(b"a"), topic="t")
    ours.topic_data += produce(batch(b"b"), topic="u").topic_data
    answer = begin(broker, ApiKey.PRODUCE, 9, ours)
    log = broker.services.replicas.partition(TopicPartition("t", 0)).log
    assert log is not None and log.log_end_offset == 2
    assert not answer, "the response came before its records were durable"
    disk.finish_one()
    disk.finish_one()
    assert answer and log.recovery_point == 2


def test_markers_that_are_written_together_are_seen_when_all_are_durable(broker: Harness) -> None:
    for producer in (7, 8):
        assert codes(broker, produce_in_transaction(transactional(producer=producer))) == [0]
    disk = Disk(broker)
    marked = begin(broker, ApiKey.WRITE_TXN_MARKERS, 1, markers((7, True), (8, True)))
    assert (fetched(broker.ask(ApiKey.FETCH, 11, fetch(0))).high_watermark, marked) == (2, [])
    disk.finish_one()
    assert fetched(broker.ask(ApiKey.FETCH, 11, fetch(0))).high_watermark == 4
    assert [[part.error_code for topic in each.topics for part in topic.partitions] for each in marked[0].markers] == [
        [0], [0],
    ]
