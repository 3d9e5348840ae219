"""Markers reach the leaders of their partitions, even if brokers fail and leaders change."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs, formatEvent

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.metadata.cache import AliveBroker, MetadataCache, PartitionInfo
from kafka_zk.broker.transaction.marker_channels import (
    LOOK_UP_PAUSE_S,
    RETRY_S,
    SETTLED_AFTER_S,
    MarkersToSend,
    TransactionMarkerChannels,
    TxnMarker,
)
from kafka_zk.broker.transaction.partitions import CoordinatedPartition
from kafka_zk.broker.transaction.requests import ProducerIdAndEpoch, SendMarkers
from kafka_zk.broker.transaction.transaction import Transaction
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.errors import SessionLost

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
NONE = ErrorCode.NONE


class World:
    """Brokers 0 and 1 are alive; each request waits until ``answer``."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.metadata = MetadataCache()
        self.metadata.brokers = {number: AliveBroker(number, {}, None) for number in (0, 1)}
        self.requests: list[tuple[int, Sequence[TxnMarker], Deferred[Any]]] = []
        self.written: list[TopicPartition] = []
        self.owned = CoordinatedPartition(0, 7)
        self.in_zookeeper = {"t"}
        self.failure: Exception | None = None
        self.looked_up: list[list[str]] = []
        self.channels = TransactionMarkerChannels(
            self.clock, self.metadata, self.write, self.on_written, self.find_missing
        )

    async def find_missing(self, topics: Collection[str]) -> Collection[str]:
        self.looked_up.append(sorted(topics))
        if self.failure is not None:
            raise self.failure
        return set(topics) - self.in_zookeeper

    def on_written(self, owned: Any, transaction: Any, tps: Any) -> None:
        self.written += sorted(tps)

    def lead(self, tp: TopicPartition, leader: int) -> None:
        self.metadata.topics.setdefault(tp.topic, {})[tp.partition] = PartitionInfo(1, leader, 0, [], 0, [], [])

    def write(self, broker_id: int, markers: Sequence[TxnMarker]) -> "Deferred[Any]":
        answer: Deferred[Any] = Deferred()
        self.requests.append((broker_id, markers, answer))
        return answer

    def send(self, *tps: TopicPartition, producer_id: int = 5) -> None:
        markers = SendMarkers(ProducerIdAndEpoch(producer_id, 3), True, frozenset(tps))
        self.channels.send(MarkersToSend(self.owned, Transaction.new("x", producer_id, 1, 1), markers))

    def sent(self) -> list[tuple[int, list[tuple[int, list[TopicPartition]]]]]:
        return [(who, [(each.producer_id, list(each.tps)) for each in markers]) for who, markers, _ in self.requests]

    def answer(self, number: int, code: ErrorCode | Exception = NONE) -> None:
        _, markers, answer = self.requests[number]
        if isinstance(code, Exception):
            answer.errback(code)
        else:
            answer.callback({each.producer_id: dict.fromkeys(each.tps, code) for each in markers})


@pytest.fixture
def world() -> World:
    made = World()
    for tp, leader in ((T0, 0), (T1, 1), (T2, 1)):
        made.lead(tp, leader)
    return made


def test_each_leader_gets_its_partitions(world: World) -> None:
    world.send(T0, T1, T2)
    assert sorted(world.sent()) == [(0, [(5, [T0])]), (1, [(5, [T1, T2])])]
    assert world.requests[0][1][0][:4] == (5, 3, 7, True)
    world.answer(0)
    world.answer(1)
    assert sorted(world.written) == [T0, T1, T2]


def test_what_comes_up_meanwhile_goes_with_the_next_request(world: World) -> None:
    for producer_id in (5, 6, 7):
        world.send(T0, producer_id=producer_id)
    assert world.sent() == [(0, [(5, [T0])])]
    world.answer(0)
    assert world.sent()[1:] == [(0, [(6, [T0]), (7, [T0])])]


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ConnectionError("lost")]
)
def test_a_leader_that_has_moved_is_followed(world: World, code: ErrorCode | Exception) -> None:
    world.send(T0)
    world.answer(0, code)
    world.lead(T0, 1)
    assert len(world.requests) == 1
    world.clock.advance(RETRY_S)
    assert world.sent()[1:] == [(1, [(5, [T0])])]
    world.answer(1)
    assert world.written == [T0]


def test_a_partition_without_a_leader_is_waited_for(world: World) -> None:
    world.lead(T0, -1)
    world.lead(T1, 9)  # a broker that is not alive
    world.send(T0, T1)
    assert (world.requests, world.channels.unknown_destination_count) == ([], 1)
    for tp in (T0, T1):
        world.lead(tp, 1)
    world.clock.advance(RETRY_S)
    assert world.sent() == [(1, [(5, [T0, T1])])]


def test_a_partition_that_is_gone_needs_no_marker(world: World) -> None:
    """Right after a start, ZooKeeper shows that the partition is gone. Once the controller has sent everything, the
    metadata show it.
    """
    deleted = TopicPartition("deleted", 0)
    world.send(deleted, T0)
    assert world.written == [deleted]
    assert world.sent() == [(0, [(5, [T0])])]
    world.clock.advance(SETTLED_AFTER_S)
    world.send(deleted)
    assert (world.written, world.looked_up) == ([deleted] * 2, [["deleted"]])


@pytest.mark.parametrize("failure", [None, SessionLost("gone")])
def test_a_topic_that_may_be_there_is_looked_up_again_after_a_pause(world: World, failure: Exception | None) -> None:
    """The partition counts as deleted no later than when the metadata should contain it."""
    pending = TopicPartition("pending", 0)
    world.in_zookeeper.add("pending")
    world.failure = failure
    world.send(pending)
    world.clock.pump([RETRY_S] * int((SETTLED_AFTER_S - 1) / RETRY_S))
    assert world.written == []
    assert world.channels.unknown_destination_count == 1
    assert SETTLED_AFTER_S <= len(world.looked_up) <= SETTLED_AFTER_S / LOOK_UP_PAUSE_S
    world.clock.pump([RETRY_S] * int(2 / RETRY_S))
    assert (world.requests, world.written) == ([], [pending])


def test_an_ending_survives_a_look_up_that_breaks(world: World) -> None:
    """The transaction ends even if a bug in our code causes the failure; the bug is logged."""
    pending = TopicPartition("pending", 0)
    world.failure = ValueError("a bug")
    with capturedLogs() as logged:
        world.send(pending)
    assert [each["log_level"] for each in logged if "log_failure" in each] == [LogLevel.error]
    world.failure = None
    world.clock.pump([RETRY_S] * (int(LOOK_UP_PAUSE_S / RETRY_S) + 2))
    assert world.written == [pending]


def test_topics_of_one_turn_are_looked_up_together(world: World) -> None:
    due: list[Any] = []
    world.channels = TransactionMarkerChannels(
        world.clock, world.metadata, world.write, world.on_written, world.find_missing, due.append
    )
    for number in range(3):
        world.send(TopicPartition(f"deleted-{number}", 0), producer_id=number)
    for each in due:
        each()
    assert world.looked_up == [["deleted-0", "deleted-1", "deleted-2"]]
    assert len(world.written) == 3


def test_what_the_controller_has_yet_to_tell_is_not_gone(world: World) -> None:
    """A controller sends many partitions to a broker that has just registered in several requests."""
    for broker_epoch in (5, 9):
        known, world.metadata.topics = world.metadata.topics, {}
        world.metadata.broker_epoch = broker_epoch
        world.send(T0)
        world.clock.advance(RETRY_S)
        assert (world.requests, world.written) == ([], [])
        world.metadata.topics = known
        world.clock.advance(RETRY_S)
        assert world.sent() == [(0, [(5, [T0])])]
        world.answer(0)
        assert world.written == [T0]
        world.clock.advance(SETTLED_AFTER_S)
        world.requests.clear()
        world.written.clear()


class CostlyClock(Clock):
    """A clock that advances at each reading. ``delays``: those of all scheduled calls."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: list[float] = []

    def seconds(self) -> float:
        self.rightNow += 0.0005
        return self.rightNow

    def callLater(self, delay: float, call: Any, *args: Any) -> Any:  # type: ignore[override]
        self.delays.append(delay)
        return super().callLater(delay, call, *args)


def test_many_that_wait_for_a_leader_leave_others_their_turn(world: World) -> None:
    """Retries take at most a tenth of the time."""
    world.lead(T0, -1)
    clock = CostlyClock()
    world.channels = TransactionMarkerChannels(clock, world.metadata, world.write, world.on_written, world.find_missing)
    for producer_id in range(200):
        world.send(T0, producer_id=producer_id)
    assert clock.delays == [RETRY_S]
    clock.advance(RETRY_S)
    assert clock.delays.count(0) > 20
    assert clock.delays[-1] > 10 * 200 * 0.0005
    world.lead(T0, 0)
    clock.advance(clock.delays[-1])
    world.answer(0)
    assert world.written == [T0]


def test_before_the_controller_has_spoken_nothing_is_gone(world: World) -> None:
    brokers, world.metadata.brokers = world.metadata.brokers, {}
    topics, world.metadata.topics = world.metadata.topics, {}
    world.send(T0)
    assert world.written == []
    world.metadata.brokers, world.metadata.topics = brokers, topics
    world.clock.advance(RETRY_S)
    assert world.sent() == [(0, [(5, [T0])])]


def test_what_cannot_be_told_of_one_transaction_keeps_no_other_from_its_end(world: World) -> None:
    failing = Transaction.new("failing", 5, 1, 1)

    def on_written(owned: Any, transaction: Any, tps: Any) -> None:
        if transaction is failing:
            raise RuntimeError("a bug")
        world.on_written(owned, transaction, tps)

    world.channels = TransactionMarkerChannels(world.clock, world.metadata, world.write, on_written, world.find_missing)
    for number, transaction in enumerate((failing, *(Transaction.new(name, 5, 1, 1) for name in "ab"))):
        markers = SendMarkers(ProducerIdAndEpoch(number, 3), True, frozenset([T0]))
        world.channels.send(MarkersToSend(world.owned, transaction, markers))
    world.answer(0)
    world.answer(1)
    assert world.written == [T0, T0]
    world.metadata.topics.clear()  # the topics are gone
    for transaction in (failing, Transaction.new("c", 5, 1, 1)):
        markers = SendMarkers(ProducerIdAndEpoch(7, 3), True, frozenset([T1]))
        world.channels.send(MarkersToSend(world.owned, transaction, markers))
    world.clock.pump([SETTLED_AFTER_S, RETRY_S])
    assert world.written == [T0, T0, T1]


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_a_fenced_coordinator_gives_up(world: World, code: ErrorCode) -> None:
    world.send(T0)
    world.answer(0, code)
    world.clock.advance(10 * RETRY_S)
    assert (len(world.requests), world.written) == (1, [])


def test_what_has_become_void_is_not_sent(world: World) -> None:
    world.send(T0)
    world.send(T0, producer_id=6)
    world.owned.is_current = False
    world.answer(0, ConnectionError("lost"))
    world.clock.advance(10 * RETRY_S)
    assert len(world.requests) == 1


def test_nothing_is_sent_after_the_end(world: World) -> None:
    world.lead(T1, -1)
    world.send(T0, T1)
    assert world.clock.getDelayedCalls(), "the coordinator still looks for a leader"
    world.channels.close()
    assert world.clock.getDelayedCalls() == []
    world.answer(0, ConnectionError("lost"))
    world.clock.advance(10 * RETRY_S)
    assert len(world.requests) == 1
    assert world.clock.getDelayedCalls() == []


def test_a_large_backlog_goes_in_several_requests(world: World) -> None:
    many = [TopicPartition("t", number) for number in range(1_500)]
    for tp in many:
        world.lead(tp, 0)
    for producer_id in (5, 6, 7, 8):
        world.send(*many, producer_id=producer_id)
    world.answer(0)
    assert [[producer_id for producer_id, _ in markers] for _, markers in world.sent()] == [[5], [6, 7]]


def test_what_comes_up_in_one_turn_goes_together(world: World) -> None:
    due: list[Any] = []
    world.channels = TransactionMarkerChannels(
        world.clock, world.metadata, world.write, world.on_written, world.find_missing, due.append
    )
    for producer_id in (5, 6):
        world.send(T0, T1, producer_id=producer_id)
    assert world.requests == []
    for each in due:
        each()
    assert sorted(world.sent()) == [(0, [(5, [T0]), (6, [T0])]), (1, [(5, [T1]), (6, [T1])])]
    world.channels.close()
    world.send(T2)
    assert len(due) == 2


def test_a_broker_that_writes_at_once_is_not_waited_for(world: World) -> None:
    """Markers that the response causes go into the next request; markers that failed are retried."""
    asked: list[list[int]] = []
    codes = {5: NONE, 6: ErrorCode.NOT_LEADER_OR_FOLLOWER, 7: NONE}

    def write(broker_id: int, markers: Sequence[TxnMarker]) -> Any:
        asked.append([each.producer_id for each in markers])
        if len(asked) == 1:
            raise OSError("the disk")
        return {each.producer_id: dict.fromkeys(each.tps, codes[each.producer_id]) for each in markers}

    def on_written(owned: Any, transaction: Any, tps: Any) -> None:
        world.on_written(owned, transaction, tps)
        if len(world.written) == 1:
            world.send(T0, producer_id=7)

    world.channels = TransactionMarkerChannels(world.clock, world.metadata, write, on_written, world.find_missing)
    world.send(T0)
    world.clock.advance(RETRY_S)
    assert (asked, world.written) == ([[5], [5], [7]], [T0, T0])
    world.send(T0, producer_id=6)
    codes[6] = NONE
    world.clock.advance(RETRY_S)
    assert (asked[3:], world.written) == ([[6], [6]], [T0] * 3)


def test_the_log_says_once_why_a_broker_writes_no_markers() -> None:
    """Retries fail twenty times a second. Another reason, or the same one after a success, is logged again."""
    world = World()
    world.lead(T0, 1)
    world.send(T0)
    with capturedLogs() as logged:
        for number in range(20):
            world.answer(number, ConnectionError("refused"))
            world.clock.advance(RETRY_S)
        world.answer(20, ConnectionError("reset"))
        world.clock.advance(RETRY_S)
        world.answer(21)
        world.send(T0)
        world.answer(22, ConnectionError("reset"))
    told = [formatEvent(event) for event in logged]
    assert [text for text in told if text and "did not write markers" in text] == [
        "broker 1 did not write markers: refused",
        "broker 1 did not write markers: reset",
        "broker 1 did not write markers: reset",
    ]
