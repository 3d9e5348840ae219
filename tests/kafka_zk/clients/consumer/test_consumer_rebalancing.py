"""A consumer in a broker-side group during a rebalance: which requests are sent, which wait, and which succeed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.consumer.consumer import Consumer
from kafka_zk.clients.consumer.errors import CommitRefused
from kafka_zk.clients.consumer.rebalance_listener import RebalanceListener
from kafka_zk.protocol.api_keys import ApiKey
from tests.kafka_zk.clients.connection.fake_cluster import advance, finish
from tests.kafka_zk.clients.consumer.fake_broker_group import BrokersOfOneMember, joined, two_partitions
from tests.kafka_zk.clients.consumer.fake_group import A

COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky", "enable_auto_commit": False}
REQUEST_TIMEOUT_S = 5.0


@pytest.fixture
def brokers(clock: Clock) -> BrokersOfOneMember:
    return two_partitions(clock)


def rejoining(clock: Clock, brokers: BrokersOfOneMember) -> None:
    """The coordinator starts a rebalance and waits for another member."""
    brokers.held.add(ApiKey.JOIN_GROUP)
    brokers.is_rebalancing = True
    advance(clock, 4)
    assert ApiKey.JOIN_GROUP in [api_key for each in brokers.arrived.values() for _, api_key, _, _ in each]


def outcome_of(deferred: Deferred[Any]) -> list[Any]:
    outcome: list[Any] = []
    deferred.addBoth(outcome.append)
    return outcome


@pytest.mark.parametrize("held", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP], ids=lambda key: key.name)
def test_a_commit_waits_for_the_rebalance_and_is_made_in_the_new_generation(
    clock: Clock, brokers: BrokersOfOneMember, held: ApiKey
) -> None:
    consumer = joined(clock, brokers, request_timeout_ms=round(REQUEST_TIMEOUT_S * 1000), **COOPERATIVE)
    rejoining(clock, brokers)
    brokers.held.add(held)
    if held is ApiKey.SYNC_GROUP:
        brokers.release()
        brokers.held.add(held)
        advance(clock, 0.1)
    outcome = outcome_of(run(consumer.commit({A: 5})))
    advance(clock, REQUEST_TIMEOUT_S + 2)
    assert outcome == []
    brokers.release()
    advance(clock, 1)
    assert outcome == [None] and brokers.groups["g"].offsets == {A: 5}
    assert brokers.asked(ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT) == [
        ApiKey.JOIN_GROUP, ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT
    ]  # fmt: skip


def test_a_commit_is_refused_when_the_rebalance_takes_too_long(clock: Clock, brokers: BrokersOfOneMember) -> None:
    """The error is that of Kafka's consumer (RebalanceInProgressException), but comes only after
    default.api.timeout.ms.
    """
    consumer = joined(clock, brokers, request_timeout_ms=1_000, default_api_timeout_ms=5_000, **COOPERATIVE)
    rejoining(clock, brokers)
    connect_count = brokers.connect_count
    with pytest.raises(CommitRefused, match="REBALANCE_IN_PROGRESS"):
        finish(clock, run(consumer.commit({A: 5})), 5.1)
    brokers.release()
    advance(clock, 1)
    assert brokers.generation == 2 and brokers.connect_count == connect_count and "g" not in brokers.groups
    finish(clock, run(consumer.commit({A: 5})))


class _Commits(RebalanceListener):
    """A listener that commits before partitions are released."""

    consumer: Consumer

    async def before_releasing_partitions(self, partitions: Collection[TopicPartition]) -> None:
        await self.consumer.commit(dict.fromkeys(partitions, 7))


def test_what_a_listener_commits_when_partitions_go_is_written_before_the_member_joins(
    clock: Clock, brokers: BrokersOfOneMember
) -> None:
    listener = _Commits()
    listener.consumer = joined(clock, brokers, listener=listener, enable_auto_commit=False)
    rejoining(clock, brokers)
    assert set(brokers.groups["g"].offsets.values()) == {7}


def test_partitions_that_are_added_while_the_assignment_is_waited_for_are_assigned(
    clock: Clock, brokers: BrokersOfOneMember
) -> None:
    """The leader had counted the partitions before; its metadata are refreshed at any time."""
    consumer = joined(clock, brokers, **COOPERATIVE)
    brokers.held.add(ApiKey.SYNC_GROUP)
    brokers.is_rebalancing = True
    advance(clock, 4)
    brokers.leaders["t"].append(0)
    assert consumer._joined is not None
    finish(clock, run(consumer._joined.group._cluster.refresh()))
    brokers.release()
    advance(clock, 1)
    assert [tp.partition for tp in consumer.assignment()] == [0, 1, 2]


def test_a_join_is_waited_for_as_long_as_any_request(clock: Clock, brokers: BrokersOfOneMember) -> None:
    """The group waits for its slowest member, whose max.poll.interval.ms may be longer."""
    consumer = joined(clock, brokers, max_poll_interval_ms=1_000, request_timeout_ms=12_000, **COOPERATIVE)
    run(consumer.poll(60_000)).addCallback(lambda _: run(consumer.poll(60_000)))
    rejoining(clock, brokers)
    connect_count = brokers.connect_count
    advance(clock, 8)
    brokers.release()
    advance(clock, 0.5)
    assert brokers.generation == 2 and brokers.connect_count == connect_count
