"""Batches that are tiny to send and huge to decode: no other request waits, and memory use stays bounded."""

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from unittest.mock import Mock

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.network.memory_pool import MemoryAccount, MemoryPool
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.records import conversion
from kafka_zk.storage.records.compression import Compression, compress
from kafka_zk.storage.records.legacy_message_set import encode_message, read_message_set, wrap
from kafka_zk.storage.records.log_validator import validate_batch
from kafka_zk.storage.records.record_batch import read_header
from kafka_zk.storage.records.record_decoder import decode_records
from tests.kafka_zk.broker.conftest import CONTEXT, Harness, batch
from tests.kafka_zk.broker.handlers.data.big_batches import NOW_MS, SMALLEST_RECORD, batch_of, tiny_records
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, fetched, produce, produced
from tests.kafka_zk.broker.handlers.test_other_apis import list_offsets, listed

R = TypeVar("R")

pytestmark = pytest.mark.slow

Make = Callable[..., Harness]
MANY = 50_000
TOO_MANY = 1_000_001
CODECS = [Compression.gzip, Compression.snappy, Compression.lz4, Compression.zstd]


class Threads:
    """Work that the broker has given to threads waits until the test lets it run."""

    def __init__(self, broker: Harness) -> None:
        self.waiting: list[tuple[Callable[[], object], Deferred[Any]]] = []
        broker.services.replicas.run_in_thread = self._run

    def _run(self, work: Callable[[], R]) -> "Deferred[R]":
        self.waiting.append((work, Deferred()))
        return self.waiting[-1][1]

    def finish_one(self) -> None:
        work, done = self.waiting.pop(0)
        work()
        done.callback(None)


@pytest.fixture
def broker(harness: Make) -> Harness:
    """The broker leads ``own``, which has its own codec, and ``plain``, which keeps the producer's batches."""
    made = harness()
    made.configs.topics["own"] = {"compression.type": "gzip", "max.message.bytes": "10000000"}
    made.configs.topics["plain"] = {"max.message.bytes": "10000000"}
    for topic in ("own", "plain", "t"):
        made.lead(topic)
    return made


@pytest.fixture
def peak() -> Iterator[Callable[[], int]]:
    """The peak of Python's memory since the test began, beyond the memory in use at that time."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    yield lambda: tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()


def store(broker: Harness, records: bytes) -> None:
    """Append a batch to ``plain`` without a check of its records, as brokers did before the check existed."""
    log = broker.services.replicas.partition(TopicPartition("plain", 0)).leader_log()
    batch = bytearray(records)
    log.append_as_leader(batch, validate_batch(batch), leader_epoch=0, now_ms=NOW_MS, conforms_to=log.config)


def begin(broker: Harness, api_key: ApiKey, version: int, request: Any) -> list[Any]:
    answers: list[Any] = []
    broker.start(api_key, version, request).addCallback(answers.append)
    return answers


def listed_of(broker: Harness, topic: str, timestamp: int) -> Any:
    request = list_offsets(timestamp)
    request.topics[0].name = topic
    return listed(broker, request)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_of_too_many_records_is_refused_by_its_header(
    broker: Harness, codec: Compression, peak: Callable[[], int]
) -> None:
    """The batch claims more than a million records; the broker unpacks none of them."""
    records = tiny_records(TOO_MANY, codec)
    tracemalloc.reset_peak()
    for topic in ("own", "plain"):
        assert produced(broker, produce(records, topic=topic)).error_code == ErrorCode.INVALID_RECORD
    assert peak() < 4 * len(records) + 2_000_000


@pytest.mark.parametrize("claimed", [3, MANY - 1, MANY + 1])
@pytest.mark.parametrize("codec", CODECS)
def test_a_count_that_differs_from_the_headers_is_refused(broker: Harness, codec: Compression, claimed: int) -> None:
    """The batch has fewer or more records than its header claims."""
    records = batch_of(SMALLEST_RECORD * MANY, claimed, codec)
    for topic in ("own", "plain"):
        assert produced(broker, produce(records, topic=topic)).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS)
def test_a_big_batch_is_taken_apart_elsewhere(broker: Harness, codec: Compression, peak: Callable[[], int]) -> None:
    """A helper process decodes it, other requests are served during that time, and none of its records enters the
    broker's memory.
    """
    records = tiny_records(MANY, codec)
    threads = Threads(broker)
    tracemalloc.reset_peak()
    answer = begin(broker, ApiKey.PRODUCE, 9, produce(records, topic="own"))
    assert not answer and len(threads.waiting) == 1
    assert produced(broker, produce(batch(b"x"))).base_offset == 0
    threads.finish_one()
    assert answer[0].responses[0].partition_responses[0].error_code == 0
    assert peak() < 4 * len(records) + 2_000_000
    assert read_header(fetched(broker.ask(ApiKey.FETCH, 11, fetch(0, topic="own"))).records).record_count == MANY


@pytest.mark.parametrize("codec", CODECS)
def test_a_lookup_in_a_big_batch_is_done_elsewhere(
    broker: Harness, codec: Compression, peak: Callable[[], int]
) -> None:
    """The lookup is by timestamp. The header claims a newer record than the batch contains, so all of it is searched.
    """
    store(broker, tiny_records(MANY, codec, max_timestamp_ms=NOW_MS + 1))
    assert produced(broker, produce(batch(b"x", timestamp_ms=NOW_MS + 1), topic="plain")).error_code == 0
    threads = Threads(broker)
    tracemalloc.reset_peak()
    request = list_offsets(NOW_MS + 1)
    request.topics[0].name = "plain"
    answer = begin(broker, ApiKey.LIST_OFFSETS, 7, request)
    assert not answer and len(threads.waiting) == 1
    assert produced(broker, produce(batch(b"x"))).base_offset == 0
    threads.finish_one()
    found = answer[0].topics[0].partitions[0]
    assert (found.error_code, found.offset, found.timestamp) == (0, MANY, NOW_MS + 1)
    assert peak() < 2_000_000


@pytest.mark.parametrize("timestamp", [NOW_MS, -3])
def test_a_lookup_does_not_take_a_batch_of_too_many_records_apart(
    broker: Harness, timestamp: int, peak: Callable[[], int]
) -> None:
    """The response has the batch's first offset, so reading from there skips no record."""
    store(broker, tiny_records(TOO_MANY))
    tracemalloc.reset_peak()
    found = listed_of(broker, "plain", timestamp)
    assert (found.error_code, found.offset, found.timestamp) == (0, 0, NOW_MS)
    assert peak() < 2_000_000


@pytest.mark.parametrize("codec", [Compression.none, Compression.gzip, Compression.snappy, Compression.lz4])
def test_a_big_batch_is_converted_for_an_old_consumer_elsewhere(
    broker: Harness, codec: Compression, peak: Callable[[], int]
) -> None:
    """Fetch version 2. The broker's memory holds little more than the response."""
    assert produced(broker, produce(tiny_records(MANY, codec), topic="plain")).error_code == 0
    threads = Threads(broker)
    request = fetch(0, topic="plain")
    request.topics[0].partitions[0].partition_max_bytes = 10_000_000
    tracemalloc.reset_peak()
    answer = begin(broker, ApiKey.FETCH, 2, request)
    assert not answer and len(threads.waiting) == 1
    assert produced(broker, produce(batch(b"x"))).base_offset == 0
    threads.finish_one()
    records = fetched(answer[0]).records
    assert peak() < 6 * len(records) + 2_000_000  # the harness puts the answer together and decodes it
    tracemalloc.stop()
    assert sum(1 for _ in read_message_set(records)) == MANY


def test_a_batch_of_too_many_records_is_not_converted(broker: Harness, peak: Callable[[], int]) -> None:
    """An old consumer receives the error INVALID_RECORD."""
    store(broker, tiny_records(TOO_MANY, Compression.gzip))
    tracemalloc.reset_peak()
    assert fetched(broker.ask(ApiKey.FETCH, 2, fetch(0, topic="plain"))).error_code == ErrorCode.INVALID_RECORD
    assert peak() < 2_000_000


def old_set(count: int) -> bytes:
    """A compressed set of magic 1 in which each message claims to be the first."""
    messages = encode_message(0, 1, 0, NOW_MS, None, None) * count
    return wrap(compress(Compression.gzip, messages), Compression.gzip, 1, count - 1, 0, NOW_MS)


def test_a_big_message_set_is_converted_elsewhere_and_its_offsets_are_given_anew(
    broker: Harness, peak: Callable[[], int]
) -> None:
    """This is Produce version 2."""
    sent = old_set(MANY)
    threads = Threads(broker)
    tracemalloc.reset_peak()
    answer = begin(broker, ApiKey.PRODUCE, 2, produce(sent, topic="plain"))
    assert not answer and len(threads.waiting) == 1
    assert produced(broker, produce(batch(b"x"))).base_offset == 0
    threads.finish_one()
    threads.finish_one()  # the check of the converted batch
    assert answer[0].responses[0].partition_responses[0].error_code == 0
    assert peak() < 2_000_000
    tracemalloc.stop()
    records = fetched(broker.ask(ApiKey.FETCH, 11, fetch(0, topic="plain"))).records
    assert [record.offset for record in decode_records(records)] == list(range(MANY))


def test_a_message_set_of_too_many_messages_is_refused(broker: Harness) -> None:
    assert produced(broker, produce(old_set(TOO_MANY), topic="plain"), 2).error_code == ErrorCode.INVALID_RECORD


def test_a_batch_that_is_taken_apart_leaves_the_others_of_its_request_alone(broker: Harness) -> None:
    """The other partitions are appended and readable before the big batch is examined; each has its own result."""
    broker.configs.topics["own"]["flush.messages"] = "1"
    list(broker.services.replicas.update_topic_configs({"own": broker.configs.topics["own"]}))
    threads = Threads(broker)
    request = produce(tiny_records(MANY), topic="own")
    request.topic_data += produce(batch(b"x", b"y")).topic_data
    request.topic_data += produce(batch(b"z"), topic="nowhere").topic_data
    answer = begin(broker, ApiKey.PRODUCE, 9, request)
    assert fetched(broker.ask(ApiKey.FETCH, 11, fetch(0))).high_watermark == 2
    while threads.waiting:
        threads.finish_one()
    results = [(topic.name, topic.partition_responses[0]) for topic in answer[0].responses]
    assert [(name, result.error_code, result.base_offset) for name, result in results] == [
        ("own", 0, 0), ("t", 0, 0), ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    ]  # fmt: skip


def test_a_topic_whose_codec_changes_meanwhile_gets_the_new_one(broker: Harness) -> None:
    """The helper's result for the old configuration is discarded."""
    threads = Threads(broker)
    answer = begin(broker, ApiKey.PRODUCE, 9, produce(tiny_records(MANY), topic="own"))
    changed = {"compression.type": "lz4", "max.message.bytes": "10000000"}
    list(broker.services.replicas.update_topic_configs({"own": changed}))
    while threads.waiting:
        threads.finish_one()
    assert answer[0].responses[0].partition_responses[0].error_code == 0
    records = fetched(broker.ask(ApiKey.FETCH, 11, fetch(0, topic="own"))).records
    assert read_header(records).compression == Compression.lz4


def test_small_batches_of_one_request_give_others_their_turn(broker: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch is decoded without a helper, but not all of them in one turn."""
    turns: list[float] = []
    call_later = broker.clock.callLater

    def counted(delay_s: float, *call: Any) -> Any:
        turns.append(delay_s)
        return call_later(delay_s, *call)

    monkeypatch.setattr(broker.clock, "callLater", counted)
    request = produce(batch(b"x", compression="zstd"), topic="own")
    for _ in range(9):
        request.topic_data += produce(batch(b"x", compression="zstd"), topic="own").topic_data
    answer = begin(broker, ApiKey.PRODUCE, 9, request)
    broker.clock.advance(0)
    assert turns == [0] * 4
    assert [topic.partition_responses[0].base_offset for topic in answer[0].responses] == list(range(10))


def begin_old_fetch(broker: Harness, memory: MemoryAccount) -> list[Any]:
    """Fetch two partitions with one record each."""
    request = fetch(0, topic="plain")
    request.topics += fetch(0).topics
    answers: list[Any] = []
    broker.start(ApiKey.FETCH, 2, request, CONTEXT._replace(memory=memory)).addCallback(answers.append)
    return answers


def converted(answer: list[Any]) -> list[bool]:
    return [bool(topic.partitions[0].records) for topic in answer[0].responses]


def test_conversions_wait_for_room_or_give_what_they_have(broker: Harness) -> None:
    """Conversions use the budget of all requests, and hold the memory of the old message sets until these are sent."""
    assert produced(broker, produce(batch(b"x"), topic="plain")).error_code == 0
    assert produced(broker, produce(batch(b"y"))).error_code == 0
    pool = MemoryPool(1000)
    holder, overdrawn, reader = (pool.account() for _ in range(3))
    holder.take(1000)
    overdrawn.when_taken(1, lambda: None)
    answer = begin_old_fetch(broker, reader)
    assert not answer
    holder.give_back(110)
    assert converted(answer) == [True, False]
    assert reader.size_bytes == len(answer[0].responses[0].partitions[0].records) == 35
    reader.settle()
    assert pool.used_bytes == 890


def test_the_oldest_conversion_may_finish(broker: Harness) -> None:
    """The oldest conversion may finish whatever the others hold, even if those wait for memory, too."""
    assert produced(broker, produce(batch(b"x"), topic="plain")).error_code == 0
    pool = MemoryPool(1000)
    readers = [pool.account() for _ in range(5)]
    for reader in readers:  # their requests
        reader.take(200)
    answers = [begin_old_fetch(broker, reader) for reader in readers]
    for count, reader in enumerate(readers):
        assert [bool(answer) for answer in answers[: count + 1]] == [True] * (count + 1)
        reader.settle()
    assert (pool.used_bytes, pool.overdraft_bytes) == (0, 0)


def test_a_conversion_that_never_finds_room_is_refused(broker: Harness) -> None:
    """The consumer can continue after the refused batch, and only the other partition's memory stays in use."""
    assert produced(broker, produce(batch(b"x" * 100), topic="plain")).error_code == 0
    assert produced(broker, produce(batch(b"y"))).error_code == 0
    pool = MemoryPool(150)
    reader = pool.account()
    answer = begin_old_fetch(broker, reader)
    assert [topic.partitions[0].error_code for topic in answer[0].responses] == [ErrorCode.INVALID_RECORD, 0]
    assert converted(answer) == [False, True]
    assert pool.used_bytes == 35


def test_a_conversion_that_fails_gives_its_memory_back(broker: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory is returned immediately, not with the response."""
    assert produced(broker, produce(batch(b"x"), topic="plain")).error_code == 0
    monkeypatch.setattr(conversion, "down_convert_batch", Mock(side_effect=CorruptRecord("damaged")))
    pool = MemoryPool(1000)
    answer = begin_old_fetch(broker, pool.account())
    assert answer[0].responses[0].partitions[0].error_code == ErrorCode.CORRUPT_MESSAGE
    assert pool.used_bytes == 0
