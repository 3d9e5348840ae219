"""The end of a consumer in a group of the broker, with brokers and without."""

import pytest
from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock

from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.consumer.consumer import Consumer
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.clients.connection.fake_cluster import advance, finish
from tests.kafka_zk.clients.consumer.fake_broker_group import BrokersOfOneMember, joined, two_partitions
from tests.kafka_zk.clients.consumer.fake_group import A

CLOSE_S = 10.0
"""The total time for the last commit and LeaveGroup."""


@pytest.fixture
def brokers(clock: Clock) -> BrokersOfOneMember:
    return two_partitions(clock)


def consume(clock: Clock, consumer: Consumer) -> None:
    """The records of the first poll are processed, those of the second are not."""
    for _ in range(2):
        assert finish(clock, run(consumer.poll(1_000)))


def test_a_closed_consumer_has_committed_and_left(clock: Clock, brokers: BrokersOfOneMember) -> None:
    consumer = joined(clock, brokers, max_poll_records=10)
    consume(clock, consumer)
    finish(clock, run(consumer.close()), 0.1)
    assert sum(brokers.groups["g"].offsets.values()) == 10
    assert brokers.left == ["m"]
    advance(clock, 2)
    assert clock.getDelayedCalls() == []


@pytest.mark.parametrize("gone_for_s", [0.0, 20.0], ids=["just now", "for a while"])
def test_a_consumer_without_brokers_is_closed_in_a_bounded_time(
    clock: Clock, brokers: BrokersOfOneMember, gone_for_s: float
) -> None:
    """The last commit and LeaveGroup are given up, and no work remains in the background."""
    consumer = joined(clock, brokers, max_poll_records=10)
    consume(clock, consumer)
    brokers.refuse()
    advance(clock, gone_for_s)
    finish(clock, run(consumer.close()), CLOSE_S + 0.1)
    assert brokers.left == []
    advance(clock, 2)
    assert clock.getDelayedCalls() == []


@pytest.mark.parametrize("api_key", [ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_COMMIT], ids=lambda key: key.name)
def test_a_consumer_whose_coordinator_never_gets_ready_is_closed_in_a_bounded_time(
    clock: Clock, brokers: BrokersOfOneMember, api_key: ApiKey
) -> None:
    consumer = joined(clock, brokers, max_poll_records=10)
    consume(clock, consumer)
    brokers.errors = [(api_key, ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 10_000
    finish(clock, run(consumer.close()), CLOSE_S + 0.1)
    advance(clock, 2)
    assert clock.getDelayedCalls() == []


def test_heartbeats_go_on_until_users_have_given_their_partitions_up(
    clock: Clock, brokers: BrokersOfOneMember
) -> None:
    """Users that hold records get time. During that time the member stays in the group and does not rejoin."""
    consumer = joined(clock, brokers, max_poll_records=10, session_timeout_ms=6_000, heartbeat_interval_ms=2_000)
    consume(clock, consumer)
    closing = run(consumer.leave())
    for is_rebalancing in (False, True):
        brokers.is_rebalancing = is_rebalancing
        beats = len(brokers.asked(ApiKey.HEARTBEAT))
        advance(clock, 7)
        assert len(brokers.asked(ApiKey.HEARTBEAT)) >= beats + 3
    assert brokers.left == [] and len(brokers.asked(ApiKey.JOIN_GROUP)) == 1
    consumer.streams[0].handout.done()
    finish(clock, closing, 0.1)
    assert sum(brokers.groups["g"].offsets.values()) == 20 and brokers.left == ["m"]
    advance(clock, 2)
    assert clock.getDelayedCalls() == []


def test_a_rebalance_goes_on_until_users_have_given_their_partitions_up(
    clock: Clock, brokers: BrokersOfOneMember
) -> None:
    """A cooperative member that must give up its user's partitions makes its last commit in the generation that
    begins.
    """
    consumer = joined(clock, brokers, max_poll_records=10, partition_assignment_strategy="cooperative-sticky")
    consume(clock, consumer)
    brokers.held.add(ApiKey.JOIN_GROUP)
    brokers.is_rebalancing = True
    advance(clock, 4)
    closing = run(consumer.leave())
    advance(clock, 1)
    brokers.release()
    advance(clock, 4)
    assert brokers.generation == 2 and brokers.left == []
    consumer.streams[0].handout.done()
    finish(clock, closing, 0.5)
    assert sum(brokers.groups["g"].offsets.values()) == 20 and brokers.left == ["m"]


def test_commits_under_way_are_settled_before_the_consumer_leaves(clock: Clock, brokers: BrokersOfOneMember) -> None:
    """The commits belong to a rebalance that began just before the consumer was closed."""
    consumer = joined(clock, brokers, max_poll_records=10)
    consume(clock, consumer)
    for stream in consumer.streams:
        stream.awaited = False
    advance(clock, 0.1)
    brokers.errors = [(ApiKey.OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 10
    brokers.is_rebalancing = True
    while len(brokers.errors) > 8:
        advance(clock, 0.1)
    finish(clock, run(consumer.close()), 2)
    last = brokers.asked(ApiKey.OFFSET_COMMIT, ApiKey.LEAVE_GROUP)[-2:]
    assert last == [ApiKey.OFFSET_COMMIT, ApiKey.LEAVE_GROUP]
    assert sum(brokers.groups["g"].offsets.values()) == 10


def test_commits_that_the_user_has_asked_for_are_written_before_the_consumer_leaves(
    clock: Clock, brokers: BrokersOfOneMember
) -> None:
    consumer = joined(clock, brokers, max_poll_records=10, enable_auto_commit=False)
    consume(clock, consumer)
    asked = [run(consumer.commit({A: offset})) for offset in (3, 4, 5)]
    finish(clock, run(consumer.close()), 0.1)
    assert [finish(clock, each) for each in asked] == [None] * 3
    assert brokers.groups["g"].offsets == {A: 5} and brokers.left == ["m"]


def test_who_waits_for_a_rebalance_leaves_at_once(clock: Clock, brokers: BrokersOfOneMember) -> None:
    """The coordinator withholds the response to JoinGroup and handles no later request on that connection."""
    consumer = joined(clock, brokers)
    brokers.held.add(ApiKey.JOIN_GROUP)
    brokers.is_rebalancing = True
    advance(clock, 4)
    finish(clock, run(consumer.close()), 0.1)
    assert brokers.left == ["m"]


def test_a_close_waits_for_a_user_no_longer_than_it_should_whoever_else_waits_for_them(
    clock: Clock, brokers: BrokersOfOneMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebalance waits for max.poll.interval.ms, which is longer. No work remains in the background."""
    monkeypatch.setattr("kafka_zk.clients.consumer.consumer_coordinator._CLOSE_PATIENCE_S", 3.0)
    consumer = joined(clock, brokers, max_poll_records=10)
    consume(clock, consumer)
    brokers.is_rebalancing = True
    advance(clock, 4)
    finish(clock, run(consumer.leave()), 3.1)
    assert sum(brokers.groups["g"].offsets.values()) == 10 and brokers.left == ["m"]
    advance(clock, 2)
    assert clock.getDelayedCalls() == []


@pytest.mark.parametrize("is_rebalancing", [False, True])
def test_nothing_goes_on_behind_a_close_that_was_given_up(
    clock: Clock, brokers: BrokersOfOneMember, is_rebalancing: bool
) -> None:
    """The caller cancels the close while it waits for users."""
    consumer = joined(clock, brokers, max_poll_records=10)
    consume(clock, consumer)
    brokers.is_rebalancing = is_rebalancing
    advance(clock, 4)
    closing = run(consumer.leave())
    closing.addErrback(lambda failure: failure.trap(CancelledError))
    advance(clock, 1)
    closing.cancel()
    advance(clock, 2)
    assert clock.getDelayedCalls() == []
