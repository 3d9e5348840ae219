"""The end of a consumer in a group of the broker, with brokers and without."""

import pytest
from twisted.internet.task import Clock

from kafka_zk.client.waiting import run
from kafka_zk.consumer.consumer import Consumer
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.client.fake_cluster import advance, finish
from tests.kafka_zk.consumer.fake_broker_group import BrokersOfOneMember, joined, two_partitions

CLOSE_S = 10.0
"""What the last commit and LeaveGroup are given together."""


@pytest.fixture
def brokers(clock: Clock) -> BrokersOfOneMember:
    return two_partitions(clock)


def consume(clock: Clock, consumer: Consumer) -> None:
    """Records of the first poll are processed, those of the second are not."""
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
    """The last commit and LeaveGroup are given up, and nothing goes on in the background."""
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
    """Whoever holds records is given time; the group must not miss this member meanwhile, nor does it join again."""
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
    """A cooperative member that is asked for its user's partitions last commits in the generation that begins."""
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


def test_who_waits_for_a_rebalance_leaves_at_once(clock: Clock, brokers: BrokersOfOneMember) -> None:
    """The coordinator withholds the answer to JoinGroup, and takes nothing behind it on that connection."""
    consumer = joined(clock, brokers)
    brokers.held.add(ApiKey.JOIN_GROUP)
    brokers.is_rebalancing = True
    advance(clock, 4)
    finish(clock, run(consumer.close()), 0.1)
    assert brokers.left == ["m"]
