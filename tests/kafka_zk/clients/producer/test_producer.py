"""The Twisted producer against a fake cluster in memory, under a ``Clock``."""

from typing import Any

import pytest
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import (
    BufferExhausted,
    ClientClosed,
    ConfigError,
    KafkaError,
    KafkaTimeoutError,
    RecordTooLargeError,
)
from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.producer import idempotence
from kafka_zk.clients.producer.future import RecordFuture
from kafka_zk.clients.producer.producer import Producer
from kafka_zk.clients.producer.producer_record import ProducerRecord
from kafka_zk.clients.serdes import SerializationError
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.leader_hint import CurrentLeader
from kafka_zk.protocol.produce import PartitionResult, ProduceResponse, TopicResult, write_produce_response
from tests.kafka_zk.clients.connection.fake_cluster import FakeCluster, advance, finish


def producer_for(clock: Clock, brokers: FakeCluster, **options: Any) -> Producer:
    return Producer(clock, connect=brokers.connect, bootstrap_servers="b0:9092,b1:9092", **options)


def test_send_tells_where_the_record_went(clock: Clock, brokers: FakeCluster) -> None:
    """The first send waits for metadata and a producer id; keys decide the partition as in Java."""
    producer = producer_for(clock, brokers)
    written = finish(clock, producer.send("t", b"v", key=b"abc", timestamp_ms=5))
    assert written == ("t", (479470107 & 0x7FFFFFFF) % 3, 0, 5)
    assert brokers.model.logs == {TopicPartition("t", written.partition): [b"v"]}


def test_keys_and_values_are_serialized(clock: Clock, brokers: FakeCluster) -> None:
    """A serializer is a name or an object; the caller receives the error of a value that does not fit."""
    producer = producer_for(clock, brokers, key_serializer="string", value_serializer="long")
    written = finish(clock, producer.send("t", 7, key="abc"))
    assert brokers.model.logs == {TopicPartition("t", written.partition): [b"\0\0\0\0\0\0\0\7"]}
    assert written.partition == (479470107 & 0x7FFFFFFF) % 3, "the partitioner gets the serialized bytes"
    with pytest.raises(SerializationError, match="a number"):
        finish(clock, producer.send("t", "seven"))
    with pytest.raises(ConfigError, match=r"value\.serializer: 'xml' is not one of"):
        producer_for(clock, brokers, value_serializer="xml")


def test_sends_before_the_first_metadata_keep_their_order(clock: Clock, brokers: FakeCluster) -> None:
    """Records that wait for metadata keep the order of the calls, together with those sent during the wait."""
    producer = producer_for(clock, brokers)
    sent = [producer.send("t", b"%d" % index, partition=0) for index in range(5)]
    advance(clock, 0.001)
    sent += [producer.send("t", b"%d" % index, partition=0) for index in range(5, 10)]
    offsets = [written.offset for written in finish(clock, gatherResults(sent))]
    assert offsets == list(range(10))
    assert brokers.model.logs[TopicPartition("t", 0)] == [b"%d" % index for index in range(10)]


def test_linger_gathers_records_into_one_request(clock: Clock, brokers: FakeCluster) -> None:
    """Within linger.ms records share a batch; a full batch does not wait."""
    producer = producer_for(clock, brokers, linger_ms=50, batch_size=500)
    finish(clock, run(producer.ready("t")))
    futures = [producer.send_nowait("t", b"v", partition=0) for _ in range(3)]
    advance(clock, 0.04)
    assert not futures[0].done()
    advance(clock, 0.02)
    assert [future.value().offset for future in futures] == [0, 1, 2]
    assert [key for _, key in brokers.seen].count(ApiKey.PRODUCE) == 1
    full = [producer.send_nowait("t", b"x" * 100, partition=0) for _ in range(5)]
    advance(clock, 0.01)
    assert full[0].done() and not full[-1].done()


def test_leader_change_is_followed(clock: Clock, brokers: FakeCluster) -> None:
    """After NOT_LEADER_OR_FOLLOWER, the producer fetches metadata and sends the batch to the new leader."""
    producer = producer_for(clock, brokers)
    finish(clock, producer.send("t", b"1", partition=0))
    brokers.move(TopicPartition("t", 0), 1)
    assert finish(clock, producer.send("t", b"2", partition=0)).offset == 1


def test_a_named_leader_is_followed_without_metadata_and_without_a_pause(clock: Clock, brokers: FakeCluster) -> None:
    """KIP-951: two requests and a connection take 1 ms each, where the backoff alone would take 100 ms. The leader may
    even be a broker that no metadata named.
    """
    producer = producer_for(clock, brokers)
    finish(clock, producer.send("t", b"1", partition=0))
    brokers.names_leaders = True
    brokers.node_ids.append(2)
    brokers.move(TopicPartition("t", 0), 2)
    del brokers.seen[:]
    assert finish(clock, producer.send("t", b"2", partition=0), 0.01).offset == 1
    assert brokers.seen == [(0, ApiKey.PRODUCE), (2, ApiKey.PRODUCE)]


def test_a_named_leader_that_is_no_news_is_not_asked_in_a_circle(clock: Clock, brokers: FakeCluster) -> None:
    """Two brokers redirect the producer to each other in an epoch that it knows: it pauses and fetches metadata."""
    producer = producer_for(clock, brokers)
    finish(clock, producer.send("t", b"1", partition=0))
    brokers.names_leaders = True
    brokers.leaders["t"][0] = 1  # in the same epoch
    del brokers.seen[:]
    assert finish(clock, producer.send("t", b"2", partition=0)).offset == 1
    assert (0, ApiKey.METADATA) in brokers.seen or (1, ApiKey.METADATA) in brokers.seen
    assert brokers.seen.count((0, ApiKey.PRODUCE)) == 1


def test_a_response_about_no_partition_of_the_request_ends_it(clock: Clock) -> None:
    """The response names a leader of partition -9. The records fail; later ones can be sent."""

    class Confused(FakeCluster):
        confused = True

        def answer(self, node_id: int, api_key: int, version: int, body: memoryview) -> bytes:
            if api_key != ApiKey.PRODUCE or not self.confused:
                return super().answer(node_id, api_key, version, body)
            self.confused = False
            moved = PartitionResult(-9, ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=CurrentLeader(1, 5))
            return write_produce_response(version, 0, ProduceResponse([TopicResult("t", [moved])]))

    producer = producer_for(clock, Confused(clock, {"t": [0]}), max_in_flight_requests_per_connection=1)
    with pytest.raises(KafkaError, match="lacks the partition"):
        finish(clock, producer.send("t", b"lost"))
    assert finish(clock, producer.send("t", b"sent")).offset == 0


def test_dead_broker_is_outlived(clock: Clock, brokers: FakeCluster) -> None:
    """Connections break with requests in flight; after the leader has moved, every record is written once, in order."""
    producer = producer_for(clock, brokers, batch_size=100)
    finish(clock, producer.send("t", b"0", partition=0))
    sent = [producer.send("t", b"%d" % index, partition=0) for index in range(1, 30)]
    advance(clock, 0.002)
    brokers.stop(0)
    advance(clock, 0.5)
    brokers.move(TopicPartition("t", 0), 1)
    offsets = [written.offset for written in finish(clock, gatherResults(sent))]
    assert offsets == list(range(1, 30))
    assert brokers.model.logs[TopicPartition("t", 0)] == [b"%d" % index for index in range(30)]


def test_send_fails_when_the_topic_does_not_appear(clock: Clock, brokers: FakeCluster) -> None:
    """max.block.ms bounds the wait; a topic without metadata does not delay other topics."""
    producer = producer_for(clock, brokers, max_block_ms=1_000)
    missing = producer.send("missing", b"v")
    assert finish(clock, producer.send("t", b"v")).offset == 0
    with pytest.raises(KafkaTimeoutError, match="missing"):
        finish(clock, missing)


def test_full_buffer_makes_send_wait_and_send_nowait_raise(clock: Clock, brokers: FakeCluster) -> None:
    """buffer.memory is a bound: send waits for room, send_nowait raises."""
    producer = producer_for(clock, brokers, batch_size=100, buffer_memory=300, linger_ms=1_000, max_block_ms=500)
    finish(clock, run(producer.ready("t")))
    for partition in range(3):
        producer.send_nowait("t", b"x", partition=partition)
    with pytest.raises(BufferExhausted, match="300 bytes"):
        producer.send_nowait("t", b"x", partition=0)
    waiting = producer.send("t", b"late", partition=0)
    assert finish(clock, waiting).offset == 1


def test_full_buffer_gives_up_after_max_block(clock: Clock, brokers: FakeCluster) -> None:
    """When no broker answers, waiting for room ends with BufferExhausted."""
    producer = producer_for(clock, brokers, batch_size=100, buffer_memory=100, max_block_ms=500)
    finish(clock, run(producer.ready("t")))
    brokers.stop(0)
    brokers.stop(1)
    producer.send_nowait("t", b"x", partition=0)
    with pytest.raises(BufferExhausted, match="no room for 500 ms"):
        finish(clock, producer.send("t", b"y", partition=0))


def test_send_all_respects_the_buffer_and_counts(clock: Clock, brokers: FakeCluster) -> None:
    """Any number of records fits through a small buffer; the result comes when all are acknowledged."""
    producer = producer_for(clock, brokers, batch_size=200, buffer_memory=800)
    records = (ProducerRecord(b"%03d" % index, partition=index % 3) for index in range(500))
    assert finish(clock, run(producer.send_all("t", records)), 60) == 500
    for partition in range(3):
        expected = [b"%03d" % index for index in range(partition, 500, 3)]
        assert brokers.model.logs[TopicPartition("t", partition)] == expected


def test_send_all_raises_what_a_record_met(clock: Clock, brokers: FakeCluster) -> None:
    """A refused batch ends the call with Kafka's code."""
    producer = producer_for(clock, brokers)
    finish(clock, run(producer.ready("t")))
    brokers.errors.append((ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaError) as caught:
        finish(clock, run(producer.send_all("t", [ProducerRecord(b"v", partition=0)])))
    assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_flush_does_not_wait_for_linger(clock: Clock, brokers: FakeCluster) -> None:
    """When flush returns, all earlier records are sent, including those that waited for metadata."""
    producer = producer_for(clock, brokers, linger_ms=60_000)
    sent = producer.send("t", b"v", partition=0)
    finish(clock, run(producer.flush()), 1)
    assert finish(clock, sent, 0.1).offset == 0


def test_close_delivers_then_refuses(clock: Clock, brokers: FakeCluster) -> None:
    """Closing loses no accepted record, later records are refused, and no timer is left."""
    producer = producer_for(clock, brokers, linger_ms=60_000)
    sent = producer.send("t", b"v", partition=0)
    finish(clock, run(producer.close()), 2)
    assert finish(clock, sent, 0.1).offset == 0
    with pytest.raises(ClientClosed):
        finish(clock, producer.send("t", b"v"))
    with pytest.raises(ClientClosed):
        producer.send_nowait("t", b"v")
    finish(clock, run(producer.close()), 0.1)
    advance(clock, 1)
    assert clock.getDelayedCalls() == []


def test_close_with_a_time_limit_fails_what_is_left(clock: Clock, brokers: FakeCluster) -> None:
    """Without responses, close gives up in time, and the records fail with the reason."""
    producer = producer_for(clock, brokers)
    finish(clock, run(producer.ready("t")))
    brokers.stop(0)
    brokers.stop(1)
    sent: Deferred[Any] = producer.send("t", b"v", partition=0)
    finish(clock, run(producer.close(0.5)), 1)
    with pytest.raises(ClientClosed):
        finish(clock, sent, 0.1)


def test_acks_0_answers_without_an_offset(clock: Clock, brokers: FakeCluster) -> None:
    """acks=0 promises only that the record was sent."""
    producer = producer_for(clock, brokers, acks=0)
    assert finish(clock, producer.send("t", b"v", partition=0)).offset == -1
    assert brokers.model.logs[TopicPartition("t", 0)] == [b"v"]


def test_producer_id_is_asked_again_while_the_broker_loads(clock: Clock, brokers: FakeCluster) -> None:
    """COORDINATOR_LOAD_IN_PROGRESS is retried; a permanent error ends the producer."""
    brokers.errors.append((ApiKey.INIT_PRODUCER_ID, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert finish(clock, producer_for(clock, brokers).send("t", b"v", partition=0)).offset == 0
    brokers.errors.append((ApiKey.INIT_PRODUCER_ID, ErrorCode.INVALID_REQUEST))
    refused = producer_for(clock, brokers)
    for _ in range(2):
        with pytest.raises(KafkaError) as caught:
            finish(clock, refused.send("t", b"v", partition=0))
        assert caught.value.code == ErrorCode.INVALID_REQUEST


def test_a_producer_that_acls_refused_an_id_asks_again_for_the_next_record(clock: Clock, brokers: FakeCluster) -> None:
    """Waiting records fail, but the producer stays usable: KAFKA-13668."""
    refusal = (ApiKey.INIT_PRODUCER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    brokers.errors += [refusal, refusal]
    producer = producer_for(clock, brokers)
    for _ in range(2):
        with pytest.raises(KafkaError) as caught:
            finish(clock, producer.send("t", b"v", partition=0))
        assert caught.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        clock.pump([1] * 10)  # without a record it sends no request
    assert brokers.errors == [], "both refusals were returned"
    assert finish(clock, producer.send("t", b"v", partition=0)).offset == 0


def test_records_that_wait_for_a_retry_fail_when_acls_refuse_the_next_id(
    clock: Clock, brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epochs are used up, so a new id is needed. Without a new id, the retry would wait until
    delivery.timeout.ms."""
    monkeypatch.setattr(idempotence, "_EPOCH_MAX", 0)
    producer = producer_for(clock, brokers)
    finish(clock, producer.send("t", b"a", partition=0))
    brokers.errors += [
        (ApiKey.PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (ApiKey.INIT_PRODUCER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ]
    with pytest.raises(KafkaError) as caught:
        finish(clock, producer.send("t", b"b", partition=0), 5)
    assert caught.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert finish(clock, producer.send("t", b"c", partition=0)).offset == 1
    assert brokers.model.logs[TopicPartition("t", 0)] == [b"a", b"c"]


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ({"value": "text"}, TypeError),
        ({"value": b"v", "key": 5}, TypeError),
        ({"value": b"v", "partition": -1}, ValueError),
        ({"value": b"v", "timestamp_ms": -5}, ValueError),
        ({"value": b"x" * 2_000_000}, RecordTooLargeError),
    ],
)
def test_what_is_no_record_is_refused_at_once(
    clock: Clock, brokers: FakeCluster, record: dict[str, Any], error: type[Exception]
) -> None:
    """send and send_nowait check the record before they queue it."""
    producer = producer_for(clock, brokers)
    finish(clock, run(producer.ready("t")))
    with pytest.raises(error):
        producer.send_nowait("t", **record)
    with pytest.raises(error):
        finish(clock, producer.send("t", **record), 0.01)


class PatientClock(Clock):
    """A clock that fails after 100 timers at one moment, because ``advance`` would run an endless series forever."""

    timers: tuple[float, int] = (0.0, 0)

    def callLater(self, *arguments: Any, **keywords: Any) -> Any:
        at_s, count = self.timers
        self.timers = (self.seconds(), count + 1 if at_s == self.seconds() else 1)
        assert count < 100, f"{count} timers at {at_s}"
        return super().callLater(*arguments, **keywords)


def test_the_sender_looks_once_when_a_batch_is_due() -> None:
    """The timer works at every millisecond: 1.007 s is 1007 ms, although 1.007 * 1000 is less as a float."""
    clock = PatientClock()
    producer = producer_for(clock, FakeCluster(clock, {"t": [0]}), linger_ms=5)
    finish(clock, run(producer.ready("t")))
    for begin_ms in range(1_000, 5_000, 10):
        clock.advance(begin_ms / 1000 - clock.seconds())
        future = producer.send_nowait("t", b"v")
        for passed_ms in range(10):
            clock.rightNow = (begin_ms + passed_ms) / 1000
            clock.advance(0)
        assert future.done()


def test_future_can_be_awaited_and_asked(clock: Clock, brokers: FakeCluster) -> None:
    """All callers get the same outcome, before and after it is known."""
    producer = producer_for(clock, brokers)
    finish(clock, run(producer.ready("t")))
    future = producer.send_nowait("t", b"v", partition=2)
    called: list[Any] = []
    future.add_done_callback(called.append)

    async def wait() -> Any:
        return await future

    assert finish(clock, run(wait())) == future.result() == finish(clock, run(wait()))
    assert called == [future]


def test_a_callback_that_raises_is_logged_and_concerns_nobody_else(clock: Clock, brokers: FakeCluster) -> None:
    """Other records of the batch, other batches of the response, and later records are not affected."""
    producer = producer_for(clock, brokers, linger_ms=5)
    finish(clock, run(producer.ready("t")))
    futures = [producer.send_nowait("t", b"v", partition=partition) for partition in (0, 0, 2)]
    told: list[RecordFuture] = []

    def fail(future: RecordFuture) -> None:
        raise ValueError("the program's own")

    for future in futures:
        future.add_done_callback(fail)
        future.add_done_callback(told.append)
    with capturedLogs() as logged:
        advance(clock, 1)
        futures[0].add_done_callback(fail)  # called immediately
    assert told == futures and producer.accumulator.used_bytes == 0
    assert [event["log_failure"].type for event in logged] == [ValueError] * 4
    assert finish(clock, producer.send("t", b"w", partition=0), 1).offset == 2
