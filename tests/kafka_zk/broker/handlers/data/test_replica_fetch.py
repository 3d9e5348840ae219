"""Followers fetch from a leader: what they are given, and what their fetches mean for the watermark and the ISR."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.table import Dispatcher
from kafka_zk.broker.metrics.collector import BrokerCollector
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.broker.replica import delayed_delete_records
from kafka_zk.broker.replica.alter_partition_manager import Answer, Answered, IsrChange
from kafka_zk.broker.replica.isr_state import Committed, WrittenIsr
from kafka_zk.network.connection_rates import ConnectionRates
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import EpochEndOffset, FetchedPartition, FetchResponse, read_fetch_response
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, write_fetch_request
from kafka_zk.protocol.request import RequestHeader, response_body_position
from tests.kafka_zk.broker.conftest import CONTEXT, Harness, batch, update_metadata
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, fetched, produce, produced

T = TopicPartition("t", 0)
VERSION = 17
OLD_VERSION = 8  # neither epochs nor tagged fields


class Asked:
    """Where changes of the ISR go: the test answers."""

    def __init__(self) -> None:
        self.changes: list[tuple[IsrChange, Answered]] = []

    def submit(self, change: IsrChange, answered: Answered) -> None:
        self.changes.append((change, answered))

    def answer(self, code: ErrorCode | None = None) -> IsrChange:
        change, answered = self.changes.pop()
        written = WrittenIsr(change.leader_epoch, change.isr, change.partition_epoch + 1)
        answered(written if code is None else code)
        return change


class Leader:
    """Broker 0 leads t-0 with followers 1 and 2."""

    def __init__(self, broker: Harness, **state: Any) -> None:
        self.broker = broker
        self.asked = Asked()
        self.dead: set[int] = set()
        replicas = broker.services.replicas
        replicas.in_sync_rule = replicas.in_sync_rule._replace(is_alive=lambda broker_id: broker_id not in self.dead)
        replicas.isr_updates.alter_partitions = self.asked
        self.topic_id = broker.lead("t", **{"replicas": [0, 1, 2], "isr": [0, 1, 2], "leader_epoch": 4, **state})

    @property
    def partition(self) -> Any:
        return self.broker.services.replicas.partition(T)

    @property
    def high_watermark(self) -> int:
        return int(self.partition.log.high_watermark)

    def append(self, *values: bytes, acks: int = 1) -> None:
        for value in values:
            assert produced(self.broker, produce(batch(value), acks=acks)).error_code == 0

    def send(self, offset: int, follower: int = 1, version: int = VERSION, **fields: Any) -> "Deferred[FetchResponse]":
        """``fields`` are of the partition, of the request, or ``partitions`` instead of one."""
        of_partition = {key: fields.pop(key) for key in list(fields) if key in FetchPartition._fields}
        epoch = 4 if version >= 9 else -1
        partition = FetchPartition(**{
            "partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": epoch,
            "log_start_offset": 0, **of_partition,
        })  # fmt: skip
        topic, topic_id = (None, self.topic_id.bytes) if version >= 13 else ("t", None)
        topics = [FetchTopic(topic, topic_id, [partition])]
        request = FetchRequest(**{
            "max_wait_ms": 0, "min_bytes": 1, "topics": topics, "replica_id": follower, "replica_epoch": 50, **fields,
        })  # fmt: skip
        body = memoryview(bytearray(write_fetch_request(version, request)))
        header = RequestHeader(ApiKey.FETCH, version, 7, f"broker-{follower}-fetcher-0")
        sent = maybeDeferred(Dispatcher(self.broker.services).dispatch, CONTEXT, header, body)
        return sent.addCallback(_decoded, version)

    def fetch(self, offset: int, follower: int = 1, version: int = VERSION, **fields: Any) -> FetchedPartition:
        return self.fetch_all(offset, follower, version, **fields).topics[0].partitions[0]

    def fetch_all(self, offset: int, follower: int = 1, version: int = VERSION, **fields: Any) -> FetchResponse:
        answer: list[FetchResponse] = []
        self.send(offset, follower, version, **fields).addCallback(answer.append)
        [response] = answer
        return response

    def pass_time(self, ms: int) -> None:
        self.broker.clock.advance(ms / 1000)

    def shrink(self) -> None:
        list(self.broker.services.replicas.isr_updates.shrink([self.partition]))


def _decoded(parts: list[Any], version: int) -> FetchResponse:
    frame = memoryview(b"".join(part if isinstance(part, bytes | bytearray) else part.read() for part in parts))
    return read_fetch_response(version, frame[response_body_position(frame, ApiKey.FETCH, version) :])


Make = Callable[..., Leader]


@pytest.fixture
def make(harness: Callable[..., Harness]) -> Make:
    return lambda **state: Leader(harness(), **state)


def size(result: FetchedPartition) -> int:
    return 0 if result.records is None else len(result.records)


def test_a_follower_reads_to_the_log_end_and_its_next_fetch_commits(make: Make) -> None:
    """Consumers see what all in sync have; the follower that has it all first is told of it with its next fetch."""
    leader = make()
    leader.append(b"a", b"b")
    assert (leader.fetch(0, 1).high_watermark, size(leader.fetch(0, 2)) > 0) == (0, True)
    assert fetched(leader.broker.ask(ApiKey.FETCH, 11, fetch(0))).records in (None, b"")
    leader.fetch(2, 1)
    assert leader.high_watermark == 0
    assert leader.fetch(1, 2).high_watermark == 1
    assert leader.fetch(2, 2).high_watermark == leader.high_watermark == 2
    assert fetched(leader.broker.ask(ApiKey.FETCH, 11, fetch(0))).high_watermark == 2


def test_a_producer_with_all_acks_waits_for_the_followers(make: Make) -> None:
    leader = make()
    answers: list[Any] = []
    leader.broker.start(ApiKey.PRODUCE, 9, produce(batch(b"a"))).addCallback(answers.append)
    leader.fetch(1, 1)
    assert not answers
    leader.fetch(1, 2)
    assert [answer.responses[0].partition_responses[0].error_code for answer in answers] == [0]


def test_a_waiting_follower_is_woken_by_an_append_and_a_waiting_consumer_by_the_watermark(make: Make) -> None:
    """Each once, and neither by the other's news."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    follower: list[FetchResponse] = []
    consumer: list[Any] = []
    leader.send(0, max_wait_ms=500).addCallback(follower.append)
    leader.broker.start(ApiKey.FETCH, 11, fetch(0, max_wait_ms=500)).addCallback(consumer.append)
    leader.append(b"a")
    assert (len(follower), len(consumer)) == (1, 0)
    leader.send(1, max_wait_ms=500).addCallback(follower.append)
    assert (len(follower), len(consumer)) == (1, 1)
    assert fetched(consumer[0]).records


def test_a_follower_gets_at_once_what_a_producer_writes_when_that_fetch_lets_them_go_on(make: Make) -> None:
    """The log is read before the watermark advances: else producers with several requests in flight and all acks get
    on at the pace of replica.fetch.wait.max.ms."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    follower: list[FetchResponse] = []
    leader.broker.start(ApiKey.PRODUCE, 9, produce(batch(b"a"))).addCallback(lambda _: leader.append(b"b"))
    leader.send(1, max_wait_ms=500).addCallback(follower.append)
    [answer] = follower
    assert answer.topics[0].partitions[0].records


def test_a_follower_that_waited_is_told_of_a_deletion_of_records(make: Make) -> None:
    """Or whoever asked for the deletion would wait for one more fetch."""
    leader = make()
    leader.append(b"a")
    for follower in (1, 2):
        leader.fetch(1, follower)
    answers: list[FetchResponse] = []
    leader.send(1, max_wait_ms=500).addCallback(answers.append)
    delayed_delete_records.delete_records(leader.broker.services.replicas, T, 1)
    leader.pass_time(500)
    assert answers[0].topics[0].partitions[0].log_start_offset == 1


def test_every_request_of_a_session_is_a_fetch_of_all_its_partitions(make: Make) -> None:
    """An empty one says that a follower that has everything lives."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    leader.append(b"a")
    session = leader.fetch_all(1, session_epoch=0).session_id
    assert session > 0
    for epoch in range(1, 4):
        leader.pass_time(20_000)
        answer = leader.fetch_all(1, session_id=session, session_epoch=epoch, topics=[])
        assert (answer.error_code, answer.topics) == (0, [])
    leader.append(b"b")
    leader.pass_time(20_000)
    leader.shrink()
    assert not leader.asked.changes
    leader.pass_time(20_000)
    leader.shrink()
    assert leader.asked.answer().isr == (0,)


def test_a_new_watermark_is_told_in_a_session_without_records(make: Make) -> None:
    leader = make()
    leader.append(b"a")
    session = leader.fetch_all(1, session_epoch=0).session_id
    leader.fetch(1, 2)
    [topic] = leader.fetch_all(1, session_id=session, session_epoch=1, topics=[]).topics
    assert topic.partitions[0].high_watermark == 1


def test_who_is_no_replica_is_told_to_try_later(make: Make) -> None:
    """It knows more than this broker, or less; it is not counted."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    assert leader.fetch(0, 2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert leader.fetch(0, 2, OLD_VERSION).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    alone = leader.broker.lead("alone", leader_epoch=4)
    leader.topic_id = alone
    assert leader.fetch(0, 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(
    ("epoch", "code"), [(3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_follower_of_another_epoch_is_refused_and_not_counted(make: Make, epoch: int, code: ErrorCode) -> None:
    leader = make(replicas=[0, 1], isr=[0, 1])
    leader.append(b"a")
    assert leader.fetch(1, current_leader_epoch=epoch).error_code == code
    assert leader.high_watermark == 0


def test_a_follower_whose_log_parted_is_told_where(make: Make) -> None:
    """It is not counted, gets no records and need not wait (KIP-595)."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    leader.append(b"a", b"b")
    assert leader.broker.lead_again("t", leader.topic_id, leader_epoch=6, replicas=[0, 1], isr=[0, 1]) == 0
    leader.append(b"c")
    known = {"current_leader_epoch": 6, "max_wait_ms": 500}
    for offset, last_fetched_epoch in ((3, 4), (2, 5)):
        answer = leader.fetch(offset, last_fetched_epoch=last_fetched_epoch, **known)
        assert (answer.error_code, size(answer), answer.diverging_epoch) == (0, 0, EpochEndOffset(4, 2))
    assert leader.high_watermark == 0
    assert leader.fetch(2, last_fetched_epoch=4, **known).diverging_epoch is None
    assert leader.high_watermark == 2


def test_a_second_divergence_is_told_in_a_session_too(make: Make) -> None:
    """Nothing else has changed since the first one; without it the follower would ask the same for ever."""
    leader = make(leader_epoch=2)
    leader.append(b"a", b"b")
    leader.broker.lead_again("t", leader.topic_id, leader_epoch=4, replicas=[0, 1, 2], isr=[0, 1, 2])
    leader.append(b"c")
    first = leader.fetch_all(9, last_fetched_epoch=3, session_epoch=0)
    assert first.topics[0].partitions[0].diverging_epoch == EpochEndOffset(2, 2)
    session = {"session_id": first.session_id, "session_epoch": 1}
    second = leader.fetch_all(5, last_fetched_epoch=2, **session)
    assert second.topics[0].partitions[0].diverging_epoch == EpochEndOffset(2, 2)


def test_offsets_out_of_range_are_refused_both_ways(make: Make) -> None:
    """Before the log, after it, and where an epoch that the leader never had would end."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    leader.append(b"a", b"b")
    leader.fetch(2)
    leader.partition.log.increment_log_start_offset(1)
    for offset, last_fetched_epoch in ((3, -1), (0, -1), (0, 4), (2, 9)):
        answer = leader.fetch(offset, last_fetched_epoch=last_fetched_epoch)
        assert (answer.error_code, answer.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1)
    assert leader.high_watermark == 2


def test_a_follower_may_fetch_before_the_metadata_name_the_topic(make: Make) -> None:
    """LeaderAndIsr has told the id, UpdateMetadata has not come yet."""
    leader = make()
    leader.append(b"a")
    leader.broker.services.metadata.topic_names.clear()
    assert size(leader.fetch(0)) > 0


def test_a_follower_that_caught_up_joins_and_holds_the_watermark_from_then_on(make: Make) -> None:
    leader = make(isr=[0, 1])
    leader.append(b"a")
    leader.fetch(1, 1)
    assert leader.high_watermark == 1
    leader.fetch(0, 2)
    assert not leader.asked.changes
    leader.fetch(1, 2)
    leader.append(b"b")
    leader.fetch(2, 1)
    assert leader.high_watermark == 1
    assert leader.asked.answer().isr == (0, 1, 2)
    assert (leader.partition.isr, leader.partition.partition_epoch) == ([0, 1, 2], 1)
    leader.fetch(2, 2)
    assert leader.high_watermark == 2


def test_a_follower_that_could_not_join_joins_with_its_next_fetch(make: Make) -> None:
    """Nothing has changed in the partition since: its leader waited for another one's answer, or thought it dead."""
    leader = make(isr=[0])
    session = leader.fetch_all(0, 2, session_epoch=0).session_id
    leader.asked.answer(ErrorCode.INELIGIBLE_REPLICA)
    leader.dead.add(2)
    leader.fetch_all(0, 2, session_id=session, session_epoch=1, topics=[])
    leader.dead.clear()
    leader.fetch(0, 1)
    leader.fetch_all(0, 2, session_id=session, session_epoch=2, topics=[])
    assert leader.asked.answer().isr == (0, 1)
    leader.fetch_all(0, 2, session_id=session, session_epoch=3, topics=[])
    assert leader.asked.answer().isr == (0, 1, 2)


def test_the_watermark_advances_when_a_shrunk_isr_is_written_and_not_before(make: Make) -> None:
    leader = make(replicas=[0, 1], isr=[0, 1])
    waiting: list[Any] = []
    leader.broker.start(ApiKey.PRODUCE, 9, produce(batch(b"a"))).addCallback(waiting.append)
    leader.pass_time(900)
    leader.partition.remotes.followers[1].last_caught_up_ms -= 60_000
    leader.shrink()
    leader.shrink()
    assert len(leader.asked.changes) == 1 and leader.high_watermark == 0 and not waiting
    leader.asked.answer()
    assert leader.high_watermark == 1 and len(waiting) == 1


def test_a_follower_that_waits_may_ask_for_what_is_newly_led(make: Make) -> None:
    """It may hear of its new leader later than the leader does: its next fetches wait for a short time first."""
    leader = make()
    leader.pass_time(1_000)
    answered: list[Any] = []
    leader.send(0, max_wait_ms=500).addCallback(answered.append)
    leader.pass_time(400)
    assert not answered
    leader.broker.lead("u", replicas=[0, 1, 2], isr=[0, 1, 2])
    assert len(answered) == 1
    waits_ms = []
    while len(answered) < 8:
        count, waited_ms = len(answered), 0
        leader.send(0, max_wait_ms=500).addCallback(answered.append)
        while len(answered) == count:
            leader.pass_time(10)
            waited_ms += 10
        waits_ms.append(waited_ms)
    assert waits_ms == pytest.approx([20, 20, 40, 80, 160, 320, 500], abs=10)


def test_what_a_follower_told_in_an_epoch_before_its_leader_heard_of_it_counts_with_its_next_fetch(make: Make) -> None:
    """Else the watermark would stand still until the partition is looked at in its turn, seconds later."""
    leader = make(replicas=[0, 1, 2], isr=[0, 1])
    leader.append(b"a")
    session = leader.fetch_all(0, session_epoch=0).session_id
    answered: list[FetchResponse] = []
    told = {"session_id": session, "current_leader_epoch": 5, "last_fetched_epoch": 4}
    leader.send(1, **told, session_epoch=1, max_wait_ms=500).addCallback(answered.append)
    assert not answered and leader.high_watermark == 0
    leader.broker.lead_again("t", leader.topic_id, replicas=[0, 1, 2], isr=[0, 1], leader_epoch=5)
    assert len(answered) == 1
    leader.fetch_all(1, session_id=session, session_epoch=2, topics=[])
    assert leader.high_watermark == 1


def test_so_does_where_a_followers_log_begins(make: Make) -> None:
    """A deletion of records waits for it."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    leader.append(b"a")
    session = leader.fetch_all(0, session_epoch=0).session_id
    leader.fetch_all(1, session_id=session, session_epoch=1, last_fetched_epoch=4)
    assert leader.high_watermark == 1
    leader.partition.log.increment_log_start_offset(1)
    answered: list[FetchResponse] = []
    told = {"session_id": session, "current_leader_epoch": 5, "last_fetched_epoch": 4, "log_start_offset": 1}
    leader.send(1, **told, session_epoch=2, max_wait_ms=500).addCallback(answered.append)
    leader.broker.lead_again("t", leader.topic_id, replicas=[0, 1], isr=[0, 1], leader_epoch=5)
    assert len(answered) == 1 and leader.partition.low_watermark == 0
    leader.fetch_all(1, session_id=session, session_epoch=3, topics=[])
    assert leader.partition.low_watermark == 1


@pytest.mark.parametrize("metadata_come_first", [True, False])
def test_nobody_waits_for_a_follower_that_stopped_while_it_joined(make: Make, metadata_come_first: bool) -> None:
    """A broker that stops cleanly follows the new leaders for a moment, with all that they have, and is gone. The
    controller's refusal is enough: the metadata come when it is registered no more, maybe seconds later."""
    leader = make(isr=[0, 1])
    leader.append(b"a")
    leader.fetch(1, 2)
    waiting: list[Any] = []
    leader.broker.start(ApiKey.PRODUCE, 9, produce(batch(b"b"))).addCallback(waiting.append)
    leader.fetch(2, 1)
    services = leader.broker.services

    if metadata_come_first:
        leader.dead.add(2)
        services.metadata.brokers[2] = services.metadata.brokers[0]  # until now
        fields = {"controller_epoch": 1, "leader": 0, "leader_epoch": 0, "isr": [0], "replicas": [0]}
        leader.broker.ask(ApiKey.UPDATE_METADATA, 8, update_metadata("u", uuids.random_topic_id(), 1, fields))
    assert leader.high_watermark < 2 and not waiting
    leader.asked.answer(ErrorCode.INELIGIBLE_REPLICA)
    assert leader.high_watermark == 2
    assert [answer.responses[0].partition_responses[0].error_code for answer in waiting] == [ErrorCode.NONE]


def test_below_min_insync_replicas_nothing_is_shown_or_acknowledged(make: Make) -> None:
    """KIP-966: what one broker has alone would be lost with it."""
    leader = make(isr=[0])
    leader.broker.configs.topics["t"] = {"min.insync.replicas": "2"}
    list(leader.broker.services.replicas.update_topic_configs({"t": {"min.insync.replicas": "2"}}))
    leader.append(b"a")
    assert leader.high_watermark == 0
    assert produced(leader.broker, produce(batch(b"b"))).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    leader.fetch(1, 1)
    assert leader.high_watermark == 0
    leader.asked.answer()
    assert leader.high_watermark == 1


def test_who_waits_when_the_isr_shrinks_below_the_minimum_waits_until_time_is_up(make: Make) -> None:
    leader = make(replicas=[0, 1, 2], isr=[0, 1])
    list(leader.broker.services.replicas.update_topic_configs({"t": {"min.insync.replicas": "2"}}))
    waiting: list[Any] = []
    leader.broker.start(ApiKey.PRODUCE, 9, produce(batch(b"a"))).addCallback(waiting.append)
    leader.partition.remotes.followers[1].last_caught_up_ms -= 60_000
    leader.shrink()
    leader.asked.answer()
    assert not waiting  # the watermark stands still below the minimum; the producer's time runs out
    leader.pass_time(1_000)
    assert waiting[0].responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    "late", [WrittenIsr(4, (0, 1, 2), 1), ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NOT_CONTROLLER], ids=repr
)
def test_a_controller_that_decides_otherwise_ends_a_pending_change(make: Make, late: Answer) -> None:
    """What was answered to it comes late and counts for nothing."""
    leader = make(isr=[0, 1])
    leader.fetch(0, 2)
    [(_, answered)] = leader.asked.changes
    assert leader.broker.lead_again("t", leader.topic_id, leader_epoch=5, replicas=[0, 1, 2], isr=[0]) == 0
    answered(late)
    assert leader.partition.isr == [0] and leader.partition.remotes.state == Committed((0,))
    leader.fetch(0, 2, current_leader_epoch=5)
    assert [change.isr for change, _ in leader.asked.changes] == [(0, 1, 2), (0, 2)]


@pytest.mark.parametrize(
    ("code", "asked_again", "asks_later"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, 0, True),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, 0, True),
        (ErrorCode.INVALID_UPDATE_VERSION, 0, False),
        (ErrorCode.UNKNOWN_TOPIC_ID, 0, False),
        (ErrorCode.NOT_CONTROLLER, 1, False),
    ],
)
def test_a_refused_change_ends_as_its_error_says(
    make: Make, code: ErrorCode, asked_again: int, asks_later: bool
) -> None:
    """Reverted, given up until the next LeaderAndIsr, or asked for again."""
    leader = make(isr=[0, 1])
    leader.fetch(0, 2)
    leader.asked.answer(code)
    assert len(leader.asked.changes) == asked_again
    leader.fetch(0, 2)
    assert len(leader.asked.changes) == asked_again + asks_later
    assert leader.partition.isr == [0, 1]


def test_a_partition_that_is_led_no_more_asks_for_nothing(make: Make) -> None:
    leader = make(isr=[0, 1])
    leader.fetch(0, 2)
    partition = leader.partition
    leader.broker.services.replicas.stop_replica(T, -1, delete=False)
    leader.asked.answer(ErrorCode.NOT_CONTROLLER)
    assert not leader.asked.changes and partition.isr == [0, 1]


def test_deleted_records_are_gone_when_all_that_live_have_followed(make: Make) -> None:
    """Or the request's time is over."""
    leader = make()
    leader.append(b"a", b"b")
    for follower in (1, 2):
        leader.fetch(2, follower)
    answers: list[Any] = []
    for _ in range(2):
        leader.broker.start(ApiKey.DELETE_RECORDS, 2, delete_records(1)).addCallback(answers.append)
        leader.fetch(2, 1, log_start_offset=1)
        assert not answers
        leader.pass_time(500)
        [answer] = answers
        assert answer.topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        answers.clear()
    leader.broker.start(ApiKey.DELETE_RECORDS, 2, delete_records(-1)).addCallback(answers.append)
    leader.fetch(2, 1, log_start_offset=2)
    leader.fetch(2, 2, log_start_offset=2)
    result = answers[0].topics[0].partitions[0]
    assert (result.error_code, result.low_watermark) == (0, 2)


def delete_records(offset: int) -> Any:
    request = codec.request(ApiKey.DELETE_RECORDS)
    partition = request.DeleteRecordsTopic.DeleteRecordsPartition(partition_index=0, offset=offset)
    topics = [request.DeleteRecordsTopic(name="t", partitions=[partition])]
    return request(topics=topics, timeout_ms=500)


@pytest.mark.parametrize(
    ("version", "code"), [(6, ErrorCode.OFFSET_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE)]
)
def test_consumers_are_not_told_an_end_that_goes_back(make: Make, version: int, code: ErrorCode) -> None:
    """A new leader does not know yet what the one before had committed; followers may ask for the log's end."""
    leader = make()
    leader.append(b"a", b"b")
    assert leader.broker.lead_again("t", leader.topic_id, leader_epoch=5, replicas=[0, 1, 2], isr=[0, 1, 2]) == 0
    assert end_offset(leader, -1, version) == (code, -1)
    assert end_offset(leader, 1, version) == (0, 2)
    for follower in (1, 2):
        leader.fetch(2, follower, current_leader_epoch=5)
    assert end_offset(leader, -1, version) == (0, 2)


def end_offset(leader: Leader, replica_id: int, version: int) -> tuple[int, int]:
    request = codec.request(ApiKey.LIST_OFFSETS)
    asked = request.ListOffsetsTopic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    topics = [request.ListOffsetsTopic(name="t", partitions=[asked])]
    message = request(replica_id=replica_id, isolation_level=0, topics=topics)
    [topic] = leader.broker.ask(ApiKey.LIST_OFFSETS, version, message).topics
    return topic.partitions[0].error_code, topic.partitions[0].offset


def test_metrics_show_what_followers_lack_and_what_became_of_the_isr(make: Make) -> None:
    """A follower that has not fetched yet lacks nobody knows how much."""
    leader = make(isr=[0, 1])
    leader.append(b"a", b"b")
    leader.fetch(1, 1)
    values = metrics(leader)
    assert values["kafka_zk_replicalag", "1"] == 1 and ("kafka_zk_replicalag", "2") not in values
    leader.fetch(2, 2)
    assert leader.asked.answer().isr == (0, 1, 2)
    name = "kafka_server_replicamanager_"
    values = metrics(leader)
    assert (values[name + "isrexpands_total", ""], values[name + "underreplicatedpartitions", ""]) == (1, 0)


def metrics(leader: Leader) -> dict[tuple[str, str], float]:
    """By name and replica."""
    fetchers = SimpleNamespace(max_lag=0, failed_count=0)
    broker = SimpleNamespace(
        services=leader.broker.services, log_cleaner=None, replica_fetchers=fetchers, tls=None, logins={},
        connection_rates=ConnectionRates(),
    )  # fmt: skip
    client = SimpleNamespace(add_session_listener=lambda listener: None)
    collector = BrokerCollector(broker, client, RequestStats())
    samples = [sample for family in collector._replicas() for sample in family.samples]
    return {(sample.name, sample.labels.get("replica", "")): sample.value for sample in samples}


def test_a_disk_that_flushes_slowly_holds_back_the_leaders_own_part(make: Make) -> None:
    """With ``flush.messages`` the leader has what is durable; its followers may be ahead."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    leader.partition.flush_begins(0)
    leader.append(b"a")
    leader.fetch(1)
    assert leader.high_watermark == 0
    leader.partition.log.flush()
    leader.partition.flush_ended()
    assert leader.high_watermark == 1


def test_a_follower_that_waited_is_told_of_every_partition_that_has_news(make: Make) -> None:
    """Of one its records, of another the high watermark that has advanced meanwhile, of the rest nothing."""
    leader = make(replicas=[0, 1, 2], isr=[0, 1, 2])
    other = leader.broker.lead("other", 3, replicas=[0, 1, 2], isr=[0, 1, 2], leader_epoch=4)
    produced(leader.broker, produce(batch(b"a"), topic="other", partition=1, acks=1))
    topics = [
        FetchTopic(None, leader.topic_id.bytes, [FetchPartition(0, 0, 1 << 20, 4, -1, 0)]),
        FetchTopic(None, other.bytes, [FetchPartition(each, int(each == 1), 1 << 20, 4, -1, 0) for each in range(3)]),
    ]
    first = leader.fetch_all(0, topics=topics, session_epoch=0, session_id=0)
    answers: list[FetchResponse] = []
    leader.send(0, topics=[], session_id=first.session_id, session_epoch=1, max_wait_ms=500).addCallback(answers.append)
    partition = leader.broker.services.replicas.partition(TopicPartition("other", 1))
    partition.remotes.followers[2].log_end_offset = 1  # type: ignore[union-attr]
    assert partition.advance_high_watermark(0) and not answers
    leader.broker.services.replicas.changes.note(partition.tp)
    leader.append(b"b")
    [answer] = answers
    told = {(topic.topic_id, each.partition): each for topic in answer.topics for each in topic.partitions}
    assert told.keys() == {(leader.topic_id.bytes, 0), (other.bytes, 1)}
    assert size(told[leader.topic_id.bytes, 0]) > 0 and told[other.bytes, 1].high_watermark == 1
