"""A partition's log with transactions, through the dispatcher: Produce, WriteTxnMarkers, Fetch, ListOffsets,
DescribeProducers, and the coordinator's verification before a transaction's first batch.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.transaction_verification import TransactionToVerify, TransactionVerification
from kafka_zk.broker.security.authorizer import Authorizer, Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.protocol.request import RequestContext
from kafka_zk.storage.records.end_transaction_marker import MarkerBatch
from tests.kafka_zk.broker.conftest import Harness, batch
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetched, values

Make = Callable[..., Harness]
TP = TopicPartition("t", 0)
ID = "transfers"
COMMIT, ABORT = True, False


def transactional(
    sequence: int = 0, *found: bytes, producer: int = 7, epoch: int = 0, is_transactional: bool = True
) -> bytes:
    return batch(
        *(found or (b"x",)),
        producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=is_transactional,
    )  # fmt: skip


def produce(*records: bytes | tuple[int, bytes], transactional_id: str | None = ID, acks: int = -1) -> Any:
    """One batch for each partition; the default is partition 0."""
    request = codec.request(ApiKey.PRODUCE)
    data = request.TopicProduceData
    numbered = [each if isinstance(each, tuple) else (0, each) for each in records]
    partitions = [data.PartitionProduceData(index=index, records=found) for index, found in numbered]
    return request(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[data(name="t", partition_data=partitions)],
    )


def codes(broker: Harness, request: Any, version: int = 11) -> list[int]:
    (topic,) = broker.ask(ApiKey.PRODUCE, version, request).responses
    return [each.error_code for each in topic.partition_responses]


def markers(
    *wanted: tuple[int, bool], epoch: int = 0, coordinator_epoch: int = 0, partitions: Sequence[int] = (0,)
) -> Any:
    """One marker for each (producer id, whether it commits)."""
    request = codec.request(ApiKey.WRITE_TXN_MARKERS)
    marker = request.WritableTxnMarker
    return request(
        markers=[
            marker(
                producer_id=producer,
                producer_epoch=epoch,
                transaction_result=result,
                topics=[marker.WritableTxnMarkerTopic(name="t", partition_indexes=list(partitions))],
                coordinator_epoch=coordinator_epoch,
            )
            for producer, result in wanted
        ]
    )


def marked(broker: Harness, request: Any, version: int = 1) -> dict[int, list[int]]:
    """Codes by producer id."""
    return {
        each.producer_id: [told.error_code for topic in each.topics for told in topic.partitions]
        for each in broker.ask(ApiKey.WRITE_TXN_MARKERS, version, request).markers
    }


def fetch(offset: int = 0, *, committed: bool = True, max_wait_ms: int = 0, max_bytes: int = 1 << 20) -> Any:
    request = codec.request(ApiKey.FETCH)
    topic = request.FetchTopic
    partition = topic.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=max_bytes, current_leader_epoch=-1,
        last_fetched_epoch=-1, log_start_offset=-1,
    )  # fmt: skip
    return request(
        replica_id=-1, max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, isolation_level=int(committed),
        session_id=0, session_epoch=-1, forgotten_topics_data=[], rack_id="",
        topics=[topic(topic="t", partitions=[partition])],
    )  # fmt: skip


def aborted(partition: Any) -> list[tuple[int, int]] | None:
    found = partition.aborted_transactions
    return None if found is None else [(each.producer_id, each.first_offset) for each in found]


def list_offset(broker: Harness, timestamp: int, *, committed: bool) -> int:
    request = codec.request(ApiKey.LIST_OFFSETS)
    topic = request.ListOffsetsTopic
    partition = topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    asked = request(replica_id=-1, isolation_level=int(committed), topics=[topic(name="t", partitions=[partition])])
    return int(broker.ask(ApiKey.LIST_OFFSETS, 7, asked).topics[0].partitions[0].offset)


def test_readers_of_committed_data_see_a_transaction_when_it_ends(harness: Make) -> None:
    """Readers of uncommitted data see it immediately. The marker wakes a waiting fetch."""
    broker = harness()
    broker.lead("t")
    assert codes(broker, produce(batch(b"before"), transactional_id=None)) == [0]
    assert codes(broker, produce(transactional(0, b"in", b"side"))) == [0]
    assert codes(broker, produce(batch(b"after"), transactional_id=None)) == [0]
    answer = fetched(broker.ask(ApiKey.FETCH, 11, fetch()))
    assert (values(answer.records), answer.last_stable_offset, answer.high_watermark) == ([b"before"], 1, 4)
    assert aborted(answer) == []
    uncommitted = fetched(broker.ask(ApiKey.FETCH, 11, fetch(committed=False)))
    assert values(uncommitted.records) == [b"before", b"in", b"side", b"after"] and aborted(uncommitted) is None
    assert [list_offset(broker, -1, committed=each) for each in (True, False)] == [1, 4]
    answers: list[Any] = []
    broker.start(ApiKey.FETCH, 11, fetch(1, max_wait_ms=10_000)).addCallback(answers.append)
    assert not answers
    assert codes(broker, produce(batch(b"later"), transactional_id=None)) == [0]
    assert not answers, "nothing has become stable"
    assert marked(broker, markers((7, COMMIT))) == {7: [0]}
    (answer,) = answers
    assert values(fetched(answer).records)[:4] == [b"in", b"side", b"after", b"later"]
    assert (fetched(answer).last_stable_offset, aborted(fetched(answer))) == (6, [])


@pytest.mark.parametrize("version", [4, 5, 7, 11, 12])
def test_aborted_transactions_are_told_with_what_holds_records_of_them(harness: Make, version: int) -> None:
    broker = harness()
    broker.lead("t")
    codes(broker, produce(transactional(producer=7)))
    codes(broker, produce(transactional(producer=8)))
    assert marked(broker, markers((7, ABORT))) == {7: [0]}
    assert marked(broker, markers((8, ABORT))) == {8: [0]}
    codes(broker, produce(transactional(1, producer=7)))
    assert marked(broker, markers((7, COMMIT))) == {7: [0]}
    assert aborted(fetched(broker.ask(ApiKey.FETCH, version, fetch()))) == [(7, 0), (8, 1)]
    assert aborted(fetched(broker.ask(ApiKey.FETCH, version, fetch(0, max_bytes=1)))) == [(7, 0)]
    assert aborted(fetched(broker.ask(ApiKey.FETCH, version, fetch(3)))) == [(8, 1)], "its marker is still there"
    assert aborted(fetched(broker.ask(ApiKey.FETCH, version, fetch(4)))) == []


def test_a_timestamp_is_looked_up_among_what_is_stable(harness: Make) -> None:
    broker = harness()
    broker.lead("t")
    codes(broker, produce(transactional()))
    assert [list_offset(broker, 1, committed=each) for each in (True, False)] == [-1, 0]
    marked(broker, markers((7, COMMIT)))
    assert list_offset(broker, 1, committed=True) == 0


def test_who_may_not_use_a_transactional_id_writes_in_no_transaction(harness: Make) -> None:
    broker = harness()
    broker.lead("t")
    refused = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    assert codes(broker, produce(transactional(), transactional_id=None)) == refused

    class Forbidding(Authorizer):
        def authorize(self, context: RequestContext, operation: Operation, resource: Any) -> bool:
            return bool(resource.type != "TransactionalId")

    broker.services.authorizer = Forbidding()
    assert codes(broker, produce(transactional())) == refused
    failures: list[Any] = []
    broker.start(ApiKey.PRODUCE, 11, produce(transactional(), acks=0)).addErrback(failures.append)
    assert failures[0].check(ProtocolError)
    assert codes(broker, produce(batch(b"x"))) == [0], "a batch outside a transaction needs no such permission"


def test_a_producer_with_a_transaction_writes_nothing_outside_of_it(harness: Make) -> None:
    broker = harness()
    broker.lead("t", 2)
    assert codes(broker, produce(transactional())) == [0]
    outside = transactional(1, is_transactional=False)
    assert codes(broker, produce(outside)) == [ErrorCode.INVALID_TXN_STATE]
    assert codes(broker, produce((0, transactional(1)), (1, transactional(producer=8)))) == [
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    ] * 2
    marker = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=1, transactional=True, control=True)
    assert codes(broker, produce(marker)) == [ErrorCode.INVALID_RECORD]
    assert marked(broker, markers((7, COMMIT))) == {7: [0]}
    assert codes(broker, produce(outside)) == [0]


def test_a_marker_fences_older_epochs_of_producers_and_coordinators(harness: Make) -> None:
    broker = harness()
    broker.lead("t")
    codes(broker, produce(transactional()))
    assert marked(broker, markers((7, ABORT), epoch=1, coordinator_epoch=3)) == {7: [0]}
    assert codes(broker, produce(transactional(1))) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert codes(broker, produce(transactional(1, epoch=1))) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert codes(broker, produce(transactional(0, epoch=1))) == [0]
    assert marked(broker, markers((7, COMMIT), epoch=1, coordinator_epoch=2)) == {
        7: [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    }
    assert marked(broker, markers((7, COMMIT), epoch=0, coordinator_epoch=4)) == {
        7: [ErrorCode.INVALID_PRODUCER_EPOCH]
    }
    assert marked(broker, markers((7, COMMIT), epoch=1, coordinator_epoch=3)) == {7: [0]}


@pytest.mark.parametrize("version", [0, 1])
def test_markers_are_answered_for_each_producer_and_partition(harness: Make, version: int) -> None:
    """Listeners receive the markers that were written."""
    broker = harness()
    broker.lead("t")
    told: list[tuple[TopicPartition, int, int, bool]] = []

    def tell(tp: TopicPartition, first_offset: int, ends: Sequence[MarkerBatch]) -> None:
        for offset, each in enumerate(ends, first_offset):
            told.append((tp, offset, each.header.producer_id, each.marker.is_abort))

    broker.services.replicas.marker_listeners.append(tell)
    wanted = markers((7, COMMIT), (8, ABORT), partitions=[0, 5])
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert marked(broker, wanted, version) == {7: [0, missing], 8: [0, missing]}
    assert told == [(TP, 0, 7, False), (TP, 1, 8, True)]
    assert marked(broker, markers(), version) == {}

    class Forbidding(Authorizer):
        def authorize(self, context: RequestContext, operation: Operation, resource: Any) -> bool:
            return bool(resource.type != "Cluster")

    broker.services.authorizer = Forbidding()
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert marked(broker, markers((7, COMMIT)), version) == {7: [denied]}


def test_a_leader_that_is_none_any_more_writes_no_marker(harness: Make) -> None:
    broker = harness()
    topic_id = broker.lead("t")
    broker.lead_again("t", topic_id, leader=1, leader_epoch=1, replicas=[0, 1], isr=[0, 1])
    assert marked(broker, markers((7, COMMIT))) == {7: [ErrorCode.NOT_LEADER_OR_FOLLOWER]}


def test_describe_producers_tells_open_transactions(harness: Make) -> None:
    broker = harness()
    broker.lead("t")
    codes(broker, produce(batch(b"x"), transactional_id=None))
    codes(broker, produce(transactional()))
    codes(broker, produce(transactional(producer=8)))
    marked(broker, markers((8, COMMIT), coordinator_epoch=5))
    request = codec.request(ApiKey.DESCRIBE_PRODUCERS)
    asked = request(topics=[request.TopicRequest(name="t", partition_indexes=[0])])
    (partition,) = broker.ask(ApiKey.DESCRIBE_PRODUCERS, 0, asked).topics[0].partitions
    found = {each.producer_id: each for each in partition.active_producers}
    assert [(found[7].producer_epoch, found[7].last_sequence)] == [(0, 0)]
    assert [(found[each].coordinator_epoch, found[each].current_txn_start_offset) for each in (7, 8)] == [
        (-1, 1), (5, -1)
    ]  # fmt: skip
    assert found[7].last_timestamp == 1_700_000_000_000 < found[8].last_timestamp


class Coordinator:
    """A coordinator whose responses the test sends."""

    def __init__(self, broker: Harness) -> None:
        self.asked: list[tuple[TransactionToVerify, Sequence[TopicPartition]]] = []
        self.answers: list[Deferred[dict[TopicPartition, ErrorCode]]] = []
        self.is_enabled = True
        replicas = broker.services.replicas
        replicas.verification = TransactionVerification(
            lambda tp: replicas.partition(tp).leader_log(), lambda: self.is_enabled, self.ask, broker.clock.wall_ms
        )

    def ask(
        self, transaction: TransactionToVerify, tps: Sequence[TopicPartition]
    ) -> Awaitable[dict[TopicPartition, ErrorCode]]:
        self.asked.append((transaction, tps))
        self.answers.append(Deferred())
        return self.answers[-1]

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.answers.pop(0).callback({} if code is ErrorCode.NONE else {TP: code})


def test_the_coordinator_is_asked_before_the_first_batch_of_a_transaction(harness: Make) -> None:
    broker = harness()
    broker.lead("t")
    coordinator = Coordinator(broker)
    answers: list[Any] = []
    for sequence in (0, 1):
        broker.start(ApiKey.PRODUCE, 11, produce(transactional(sequence))).addCallback(answers.append)
        if not sequence:
            assert not answers
            coordinator.answer()
    assert [each.responses[0].partition_responses[0].error_code for each in answers] == [0, 0]
    assert coordinator.asked == [(TransactionToVerify(ID, 7, 0, knows_abortable=True), [TP])]
    assert codes(broker, produce(transactional(1))) == [0], "the retry repeats a stored batch"
    marked(broker, markers((7, COMMIT)))
    broker.start(ApiKey.PRODUCE, 11, produce(transactional(2)))
    assert len(coordinator.asked) == 2


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_what_the_coordinator_does_not_confirm_is_not_appended(harness: Make, said: ErrorCode, told: ErrorCode) -> None:
    broker = harness()
    broker.lead("t")
    coordinator = Coordinator(broker)
    answers: list[Any] = []
    broker.start(ApiKey.PRODUCE, 11, produce(transactional())).addCallback(answers.append)
    coordinator.answer(said)
    assert answers[0].responses[0].partition_responses[0].error_code == told
    assert list_offset(broker, -1, committed=False) == 0


def test_a_confirmation_counts_for_one_transaction_only(harness: Make) -> None:
    """The transaction ended before the response came, which may belong to the previous one."""
    broker = harness()
    broker.lead("t")
    coordinator = Coordinator(broker)
    answers: list[Any] = []
    broker.start(ApiKey.PRODUCE, 11, produce(transactional())).addCallback(answers.append)
    assert marked(broker, markers((7, ABORT))) == {7: [0]}
    coordinator.answer()
    assert answers[0].responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TXN_STATE


def test_no_later_batch_overtakes_one_that_was_refused(harness: Make) -> None:
    broker = harness()
    broker.lead("t")
    coordinator = Coordinator(broker)
    answers: list[Any] = []
    for sequence, code in ((0, ErrorCode.NETWORK_EXCEPTION), (1, ErrorCode.NONE), (0, ErrorCode.NONE)):
        broker.start(ApiKey.PRODUCE, 11, produce(transactional(sequence))).addCallback(answers.append)
        coordinator.answer(code)
    found = [each.responses[0].partition_responses[0].error_code for each in answers]
    assert found == [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0]


def test_nobody_is_asked_while_that_is_switched_off(harness: Make) -> None:
    broker = harness()
    broker.lead("t")
    Coordinator(broker).is_enabled = False
    assert codes(broker, produce(transactional())) == [0]
