"""Clients from before 0.11: Produce 0 to 2 and Fetch 0 to 3 through the dispatcher."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.records.compression import Compression
from kafka_zk.storage.records.legacy_message_set import LegacyMessage, read_message_set, write_message_set
from tests.kafka_zk.broker.conftest import Harness, batch
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, fetched, produce, produced, values

R = TypeVar("R")

Make = Callable[..., Harness]
NOW_MS = 1_700_000_000_000


def message_set(magic: int, *texts: bytes, codec: Compression = Compression.none) -> bytes:
    messages = [
        LegacyMessage(offset, magic, NOW_MS if magic else -1, False, None, text) for offset, text in enumerate(texts)
    ]
    return write_message_set(messages, magic, codec)


def messages(answer: Any) -> list[tuple[int, int, int, bytes | None]]:
    return [
        (message.magic, message.offset, message.timestamp_ms, message.value)
        for message in read_message_set(fetched(answer).records or b"", partial_tail=True)
    ]


def answered(broker: Harness, version: int, request: Any) -> Any:
    """The response, after the reactor turns that it needs."""
    answers: list[Any] = []
    broker.start(ApiKey.FETCH, version, request).addCallback(answers.append)
    while not answers:
        broker.clock.advance(0.001)
    return answers[0]


@pytest.mark.parametrize("codec", [Compression.none, Compression.gzip, Compression.snappy, Compression.lz4])
@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (2, 0)])
def test_old_producers_sets_are_stored_as_batches(harness: Make, version: int, magic: int, codec: Compression) -> None:
    """Today's consumers read what the old producers sent."""
    broker = harness()
    broker.configs.topics["t"] = {"segment.ms": str(2**62)}  # without timestamps the log rolls by the wall clock
    broker.lead("t")
    assert produced(broker, produce(message_set(magic, b"a", b"b", codec=codec)), version).base_offset == 0
    assert produced(broker, produce(message_set(magic, b"c", codec=codec)), version).base_offset == 2
    answer = fetched(broker.ask(ApiKey.FETCH, 11, fetch(0)))
    assert (answer.high_watermark, values(answer.records)) == (3, [b"a", b"b", b"c"])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_old_consumers_get_message_sets(harness: Make, version: int, magic: int, codec: str) -> None:
    """Magic 0 sets have no timestamps, magic 1 sets have them; the offsets stay the same."""
    broker = harness()
    broker.lead("t")
    produced(broker, produce(batch(b"a", b"b", compression=codec)))
    produced(broker, produce(batch(b"c", compression=codec)))
    stamp = NOW_MS if magic else -1
    answer = broker.ask(ApiKey.FETCH, version, fetch(0))
    assert messages(answer) == [(magic, 0, stamp, b"a"), (magic, 1, stamp, b"b"), (magic, 2, stamp, b"c")]
    assert fetched(answer).high_watermark == 3
    assert messages(broker.ask(ApiKey.FETCH, version, fetch(1)))[-1] == (magic, 2, stamp, b"c")


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (message_set(0, b"x") + message_set(1, b"y"), ErrorCode.INVALID_RECORD),
        (message_set(1, b"x", codec=Compression.gzip) * 2, ErrorCode.INVALID_RECORD),
        (message_set(0, b"x")[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (message_set(1, b"x" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_what_is_wrong_with_a_set_gets_kafkas_code(harness: Make, records: bytes, code: ErrorCode) -> None:
    """The partition gets an error, and nothing is appended."""
    broker = harness()
    broker.lead("t")
    assert produced(broker, produce(records), 2).error_code == code
    assert fetched(broker.ask(ApiKey.FETCH, 11, fetch(0))).high_watermark == 0


def test_down_conversion_can_be_switched_off(harness: Make) -> None:
    """With message.downconversion.enable=false, old consumers receive UNSUPPORTED_VERSION."""
    broker = harness()
    broker.configs.topics["t"] = {"message.downconversion.enable": "false"}
    broker.lead("t")
    produced(broker, produce(batch(b"a")))
    assert fetched(broker.ask(ApiKey.FETCH, 3, fetch(0))).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert fetched(broker.ask(ApiKey.FETCH, 4, fetch(0))).error_code == 0


def test_a_codec_without_an_old_form_stops_an_old_fetcher_there(harness: Make) -> None:
    """The old consumer receives the records before the zstd batch, then the error."""
    broker = harness()
    broker.lead("t")
    produced(broker, produce(batch(b"a")))
    produced(broker, produce(batch(b"z", compression="zstd")))
    assert [message[3] for message in messages(broker.ask(ApiKey.FETCH, 3, fetch(0)))] == [b"a"]
    assert fetched(broker.ask(ApiKey.FETCH, 3, fetch(1))).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("version", range(3))
def test_a_message_above_the_limit_does_not_come_before_version_3(harness: Make, version: int) -> None:
    """Before version 3 the limit is strict."""
    broker = harness()
    broker.lead("t")
    produced(broker, produce(batch(b"x" * 1000)))
    request = fetch(0)
    request.topics[0].partitions[0].partition_max_bytes = 100
    assert not fetched(broker.ask(ApiKey.FETCH, version, request)).records


def test_a_message_that_is_cut_is_left_out(harness: Make) -> None:
    """The complete messages before it are stored; a set without a complete message gets no offset and no error."""
    broker = harness()
    broker.lead("t")
    answer = produced(broker, produce(message_set(1, b"a") + message_set(1, b"b")[:-1]), 2)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    for records in (b"", message_set(1, b"b")[:-1]):
        answer = produced(broker, produce(records), 2)
        assert (answer.error_code, answer.base_offset) == (0, -1)
    assert fetched(broker.ask(ApiKey.FETCH, 11, fetch(0))).high_watermark == 1


def test_version_3_gets_one_message_whatever_its_limit(harness: Make) -> None:
    """KIP-74: a consumer always makes progress."""
    broker = harness()
    broker.lead("t")
    produced(broker, produce(batch(b"x" * 1000)))
    request = fetch(0)
    request.topics[0].partitions[0].partition_max_bytes = 100
    assert [message[3] for message in messages(broker.ask(ApiKey.FETCH, 3, request))] == [b"x" * 1000]


def test_big_conversions_give_the_reactor_its_turns(harness: Make) -> None:
    """A fetch larger than one conversion takes several responses, each of which lets other requests run."""
    broker = harness()
    broker.lead("t")
    for number in range(6):
        produced(broker, produce(batch(bytes([65 + number]) * 100_000)))
    seen: list[bytes | None] = []
    while len(seen) < 6:
        request = fetch(len(seen))
        waiting: list[Any] = []
        broker.start(ApiKey.FETCH, 3, request).addCallback(waiting.append)
        assert not waiting, "the response came without a turn for other requests"
        got = [message[3] for message in messages(answered(broker, 3, request))]
        assert len(got) <= 3
        seen += got
    assert [value[:1] for value in seen if value] == [b"A", b"B", b"C", b"D", b"E", b"F"]


def test_an_old_producer_is_answered_after_its_own_flush(harness: Make) -> None:
    """While a thread converts the request's second set, another producer's request flushes its own records only."""
    broker = harness()
    broker.configs.topics["t"] = {"flush.messages": "1"}
    for topic in ("t", "u"):
        broker.lead(topic)
    threads: list[tuple[Callable[[], object], Deferred[Any]]] = []

    def run_later(work: Callable[[], R]) -> "Deferred[R]":
        threads.append((work, Deferred()))
        return threads[-1][1]

    def finish_one() -> None:
        work, done = threads.pop(0)
        work()
        done.callback(None)

    broker.services.replicas.run_in_thread = run_later
    ours = produce(message_set(1, b"a"))
    ours.topic_data += produce(message_set(1, b"x" * 300_000), topic="u").topic_data
    answers: list[Any] = []
    broker.start(ApiKey.PRODUCE, 2, ours).addCallback(answers.append)
    broker.start(ApiKey.PRODUCE, 9, produce(batch(b"b"))).addCallback(lambda _: None)
    log = broker.services.replicas.partition(TopicPartition("t", 0)).log
    assert log is not None and not answers
    finish_one()  # the conversion
    assert not answers or log.recovery_point == log.log_end_offset
    while threads:
        finish_one()
    assert answers and log.recovery_point == log.log_end_offset == 2


def test_a_file_that_is_gone_leaves_no_other_file_open(harness: Make) -> None:
    """The second file was removed while it was closed; the first partition's slice was already pinned."""
    broker = harness()
    for topic in ("t", "u"):
        broker.lead(topic)
        produced(broker, produce(batch(b"a"), topic=topic))
        broker.ask(ApiKey.FETCH, 3, fetch(0, topic=topic))  # the broker remembers where the next fetch begins
        produced(broker, produce(batch(b"b"), topic=topic))
    first, second = (broker.services.replicas.logs.get(TopicPartition(topic, 0)) for topic in ("t", "u"))
    assert first is not None and second is not None
    second.segments.active.release_resources()
    os.unlink(second.segments.active.path)
    request = fetch(1)
    request.topics += fetch(1, topic="u").topics
    answer = broker.ask(ApiKey.FETCH, 3, request)
    codes = {topic.topic: topic.partitions[0].error_code for topic in answer.responses}
    assert codes == {"t": ErrorCode.NONE, "u": ErrorCode.KAFKA_STORAGE_ERROR}
    assert not first.segments.active.is_pinned
