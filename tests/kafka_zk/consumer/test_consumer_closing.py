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
