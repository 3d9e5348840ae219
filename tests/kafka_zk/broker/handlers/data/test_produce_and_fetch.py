"""Produce and Fetch through the dispatcher: bytes in, the same bytes out, errors where Kafka has them."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.storage.records.record_batch import RecordBatchBuilder, iter_batches
from kafka_zk.storage.records.record_decoder import decode_records
from tests.kafka_zk.broker.conftest import Harness, batch

Make = Callable[..., Harness]


def produce(records: bytes | None, topic: str = "t", partition: int = 0, acks: int = -1) -> Any:
    request = codec.request(ApiKey.PRODUCE)
    data = request.TopicProduceData
    return request(
        transactional_id=None,
        acks=acks,
        timeout_ms=1000,
        topic_data=[data(name=topic, partition_data=[data.PartitionProduceData(index=partition, records=records)])],
    )


def fetch(
    offset: int,
    *,
    topic: str = "t",
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    epoch: int = -1,
) -> Any:
    request = codec.request(ApiKey.FETCH)
    topics = request.FetchTopic
    return request(
        replica_id=-1, max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=1 << 20, isolation_level=0,
        session_id=0, session_epoch=-1, forgotten_topics_data=[], rack_id="",
        topics=[
            topics(
                topic=topic,
                partitions=[
                    topics.FetchPartition(
                        partition=0, fetch_offset=offset, partition_max_bytes=max_bytes, current_leader_epoch=epoch,
                        last_fetched_epoch=-1, log_start_offset=-1,
                    )
                ],
            )
        ],
    )  # fmt: skip


def produced(harness: Harness, request: Any, version: int = 9) -> Any:
    return harness.ask(ApiKey.PRODUCE, version, request).responses[0].partition_responses[0]


def fetched(answer: Any) -> Any:
    return answer.responses[0].partitions[0]


def values(records: bytes) -> list[bytes | None]:
    return [record.value for position, _ in iter_batches(records) for record in decode_records(records, position)]


def test_what_is_produced_is_fetched(harness: Make) -> None:
    """The broker assigns offsets; the records come back unchanged."""
    broker = harness()
    broker.lead("t")
    assert produced(broker, produce(batch(b"a", b"b"))).base_offset == 0
    assert produced(broker, produce(batch(b"c"))).base_offset == 2
    answer = fetched(broker.ask(ApiKey.FETCH, 11, fetch(2)))
    assert (answer.error_code, answer.high_watermark, values(answer.records)) == (0, 3, [b"c"])


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (produce(batch(b"x"), topic="unknown"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (produce(batch(b"x"), partition=9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (produce(batch(b"x"), acks=2), ErrorCode.INVALID_REQUIRED_ACKS),
        (produce(batch(b"x")[:-1]), ErrorCode.INVALID_RECORD),
        (produce(batch(b"x")[:60]), ErrorCode.INVALID_RECORD),
        (produce(b""), ErrorCode.INVALID_RECORD),
        (produce(batch(b"x")[:16] + b"\5" + batch(b"x")[17:]), ErrorCode.CORRUPT_MESSAGE),
        (produce(batch(b"x")[:8] + b"\0\0\0\5" + batch(b"x")[12:]), ErrorCode.CORRUPT_MESSAGE),
        (produce(batch(b"x")[:-1] + b"!"), ErrorCode.CORRUPT_MESSAGE),
        (produce(None), ErrorCode.INVALID_RECORD),
        (produce(batch(b"x") * 2), ErrorCode.INVALID_RECORD),
        (produce(batch(b"x" * 2_000_000)), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_what_is_wrong_gets_kafkas_code_and_leaves_the_log_alone(harness: Make, request_: Any, code: ErrorCode) -> None:
    """The partition gets an error, and nothing is appended."""
    broker = harness()
    broker.lead("t")
    assert produced(broker, request_).error_code == code
    assert fetched(broker.ask(ApiKey.FETCH, 11, fetch(0))).high_watermark == 0


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (2, ErrorCode.NONE),
        (3, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (7, ErrorCode.NONE),
    ],
)
def test_zstd_needs_a_version_that_knows_it(harness: Make, version: int, code: ErrorCode) -> None:
    """KIP-110: Kafka does not check versions below 3."""
    broker = harness()
    broker.lead("t")
    assert produced(broker, produce(batch(b"x", compression="zstd")), version).error_code == code


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (10, ErrorCode.NONE)],
)
def test_a_zstd_topic_is_not_for_consumers_that_do_not_know_it(harness: Make, version: int, code: ErrorCode) -> None:
    """Old consumers would take zstd batches for damaged ones."""
    broker = harness()
    broker.configs.topics["t"] = {"compression.type": "zstd"}
    broker.lead("t")
    produced(broker, produce(batch(b"x")))
    assert fetched(broker.ask(ApiKey.FETCH, version, fetch(0))).error_code == code


def test_acks_0_gets_no_answer_and_an_error_closes_the_connection(harness: Make) -> None:
    """Without a response, closing the connection is the only way to report the error."""
    broker = harness()
    broker.lead("t")
    assert broker.ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), acks=0)) is None
    failures: list[Any] = []
    broker.start(ApiKey.PRODUCE, 9, produce(batch(b"x"), topic="unknown", acks=0)).addErrback(failures.append)
    assert failures[0].check(ProtocolError)


def test_too_few_in_sync_replicas_refuse_acks_all_only(harness: Make) -> None:
    """min.insync.replicas applies to acks=all only; it cannot exceed the topic's number of replicas."""
    broker = harness()
    broker.configs.topics["t"] = broker.configs.topics["alone"] = {"min.insync.replicas": "2"}
    broker.lead("t", replicas=[0, 1])
    assert produced(broker, produce(batch(b"x"))).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produced(broker, produce(batch(b"x"), acks=1)).error_code == 0
    broker.lead("alone")
    assert produced(broker, produce(batch(b"x"), topic="alone")).error_code == 0


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_compacted_topic_takes_no_record_without_a_key(harness: Make, compression: str) -> None:
    """The broker refuses the whole batch and names each record without a key."""
    broker = harness()
    broker.configs.topics["c"] = {"cleanup.policy": "compact,delete"}
    broker.lead("c")
    builder = RecordBatchBuilder(compression)
    for key in (b"a", None, b"", None):
        builder.append(1_700_000_000_000, key, b"x")
    answer = produced(broker, produce(builder.build(), topic="c"))
    assert answer.error_code == ErrorCode.INVALID_RECORD and "2 of the batch" in answer.error_message
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert all("without key" in error.batch_index_error_message for error in answer.record_errors)
    builder = RecordBatchBuilder(compression)
    builder.append(1_700_000_000_000, b"", None)
    assert produced(broker, produce(builder.build(), topic="c")).error_code == 0


def test_clients_do_not_write_into_the_brokers_own_topics(harness: Make) -> None:
    broker = harness()
    broker.configs.topics["__consumer_offsets"] = {"cleanup.policy": "compact"}
    broker.lead("__consumer_offsets")
    refused = produced(broker, produce(batch(b"x"), topic="__consumer_offsets"))
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert fetched(broker.ask(ApiKey.FETCH, 11, fetch(0, topic="__consumer_offsets"))).error_code == 0


def test_a_fetch_waits_for_bytes_and_is_woken_by_a_produce(harness: Make) -> None:
    """A long poll receives its response in the turn of the append."""
    broker = harness()
    broker.lead("t")
    answers: list[Any] = []
    broker.start(ApiKey.FETCH, 11, fetch(0, max_wait_ms=500)).addCallback(answers.append)
    assert not answers
    produced(broker, produce(batch(b"x")))
    assert values(fetched(answers[0]).records) == [b"x"]
    assert broker.clock.getDelayedCalls() == []


def test_a_fetch_that_finds_nothing_answers_after_its_time(harness: Make) -> None:
    """The response is empty and has no error."""
    broker = harness()
    broker.lead("t")
    answers: list[Any] = []
    broker.start(ApiKey.FETCH, 11, fetch(0, max_wait_ms=500)).addCallback(answers.append)
    broker.clock.advance(0.5)
    assert (fetched(answers[0]).error_code, fetched(answers[0]).records or b"") == (0, b"")


def test_min_bytes_is_awaited(harness: Make) -> None:
    """One small batch does not complete a fetch with a larger min_bytes."""
    broker = harness()
    broker.lead("t")
    answers: list[Any] = []
    broker.start(ApiKey.FETCH, 11, fetch(0, max_wait_ms=500, min_bytes=1000)).addCallback(answers.append)
    produced(broker, produce(batch(b"x")))
    assert not answers
    produced(broker, produce(batch(b"y" * 2000)))
    assert values(fetched(answers[0]).records) == [b"x", b"y" * 2000]


@pytest.mark.parametrize(("segment_bytes", "max_bytes"), [(100, 1 << 20), (1 << 20, 100)])
def test_no_fetch_waits_for_min_bytes_before_the_log_end(harness: Make, segment_bytes: int, max_bytes: int) -> None:
    """A response that ends at a segment's end or at a limit would not grow with another produce."""
    broker = harness()
    broker.configs.topics["t"] = {"segment.bytes": str(segment_bytes)}
    broker.lead("t")
    produced(broker, produce(batch(b"x" * 30)))
    produced(broker, produce(batch(b"y" * 30)))
    answers: list[Any] = []
    for offset in (0, 1):
        request = fetch(offset, max_wait_ms=500, min_bytes=1000, max_bytes=max_bytes)
        broker.start(ApiKey.FETCH, 11, request).addCallback(answers.append)
    assert [values(fetched(answer).records) for answer in answers] == [[b"x" * 30]]
    broker.clock.advance(0.5)
    assert values(fetched(answers[1]).records) == [b"y" * 30]


def test_a_fetch_waits_for_no_record_that_it_may_not_read(harness: Make) -> None:
    """Records above the high watermark do not count towards min_bytes: the fetch waits."""
    broker = harness()
    broker.lead("t", replicas=[0, 1])
    for value in (b"x", b"y"):
        produced(broker, produce(batch(value), acks=1))
    broker.services.replicas.partition(TopicPartition("t", 0)).leader_log().update_high_watermark(1)
    answers: list[Any] = []
    request = fetch(0, max_wait_ms=500, min_bytes=1000)
    broker.start(ApiKey.FETCH, 11, request).addCallback(answers.append)
    assert not answers
    broker.clock.advance(0.5)
    assert values(fetched(answers[0]).records) == [b"x"]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (fetch(5), ErrorCode.OFFSET_OUT_OF_RANGE),
        (fetch(-1), ErrorCode.OFFSET_OUT_OF_RANGE),
        (fetch(0, topic="unknown"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (fetch(0, epoch=3), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_fetch_errors_are_answered_at_once(harness: Make, request_: Any, code: ErrorCode) -> None:
    """Waiting would not help, whatever max_wait_ms is."""
    broker = harness()
    broker.lead("t")
    request_.max_wait_ms = 60_000
    assert fetched(broker.ask(ApiKey.FETCH, 11, request_)).error_code == code


def test_a_leader_that_is_replaced_wakes_its_waiting_fetches(harness: Make) -> None:
    """The consumer learns immediately that it must find another leader."""
    broker = harness()
    broker.lead("t")
    answers: list[Any] = []
    broker.start(ApiKey.FETCH, 11, fetch(0, max_wait_ms=60_000)).addCallback(answers.append)
    request = codec.request(ApiKey.STOP_REPLICA)
    stopped = request(
        controller_id=0, controller_epoch=1, broker_epoch=1,
        topic_states=[
            request.StopReplicaTopicState(
                topic_name="t",
                partition_states=[
                    request.StopReplicaTopicState.StopReplicaPartitionState(
                        partition_index=0, leader_epoch=-2, delete_partition=True
                    )
                ],
            )
        ],
    )  # fmt: skip
    assert broker.ask(ApiKey.STOP_REPLICA, 4, stopped).error_code == 0
    assert fetched(answers[0]).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_idempotent_retry_is_answered_with_its_first_offset(harness: Make) -> None:
    """A repeated sequence is stored once (KIP-98). The second response then has the batch's timestamp, as in Kafka."""
    broker = harness()
    broker.lead("t")
    records = batch(b"x", producer_id=5, producer_epoch=0, base_sequence=0)
    first, again = (produced(broker, produce(records)) for _ in range(2))
    assert (first.base_offset, again.base_offset, again.error_code) == (0, 0, 0)
    assert (first.log_append_time_ms, again.log_append_time_ms) == (-1, 1_700_000_000_000)
    assert fetched(broker.ask(ApiKey.FETCH, 11, fetch(0))).high_watermark == 1


def test_a_flood_of_producer_ids_refuses_new_ones_only(harness: Make) -> None:
    """800,000 producer ids took 380 MB. A known producer may repeat its batch and send the next one; a refused producer
    should retry, and succeeds when other ids have expired.
    """
    broker = harness()
    broker.lead("t")
    logs = broker.services.replicas.logs
    logs.producer_ids.limit = 10

    def produce_as(producer_id: int, sequence: int = 0) -> Any:
        records = batch(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        return produced(broker, produce(records))

    honest = produce_as(1)
    codes = [produce_as(producer_id).error_code for producer_id in range(100, 150)]
    assert codes == [0] * 9 + [ErrorCode.NOT_ENOUGH_REPLICAS] * 41
    assert produce_as(1).base_offset == honest.base_offset
    assert produce_as(1, 1).error_code == 0
    list(logs.upkeep.expire_producers_steps(1_700_000_000_000 + 2 * logs.upkeep.producer_id_expiration_ms))
    assert produce_as(200).error_code == 0
    assert logs.producer_ids.count == 1
