"""Metadata and connections that are ready before a partition is assigned, so that its pause is shorter."""

from twisted.internet.task import Clock

from kafka_zk.protocol.api_keys import ApiKey
from tests.kafka_zk.clients.connection.fake_cluster import ANSWER_S, FakeCluster, advance
from tests.kafka_zk.clients.consumer.fake_group import A, B, FakeGroup, joined, offsets, poll


def test_the_topics_of_a_subscription_are_known_before_anything_is_owned(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    joined(clock, brokers, group)
    advance(clock, 10 * ANSWER_S)
    assert [api_key for _, api_key in brokers.seen] == [ApiKey.METADATA]


def test_who_owns_nothing_asks_once(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """With unreachable brokers, many idle members must not ask ZooKeeper for others all the time."""
    brokers.down |= {0, 1}
    joined(clock, brokers, group)
    advance(clock, 1)
    connect_count = brokers.connect_count
    advance(clock, 10)
    assert brokers.connect_count == connect_count


def test_claimed_partitions_are_fetched_by_connections_that_are_there(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """The first fetch is sent before any other request."""
    joined(clock, brokers, group)
    group.delivery.prepare(frozenset({A, B}))
    advance(clock, 10 * ANSWER_S)
    connect_count = brokers.connect_count
    brokers.seen.clear()
    group.committed |= {A: 0, B: 0}
    group.assign(A, B)
    clock.advance(ANSWER_S)
    assert brokers.seen == [(0, ApiKey.FETCH), (1, ApiKey.FETCH)]
    assert brokers.connect_count == connect_count


def test_what_cannot_be_prepared_is_done_later(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """The leader is down when the partition is claimed, and back when it is owned."""
    consumer = joined(clock, brokers, group)
    brokers.down.add(1)
    group.delivery.prepare(frozenset({A, B}))
    advance(clock, 10 * ANSWER_S)
    brokers.down.clear()
    group.assign(A, B)
    advance(clock, 1)
    records = poll(clock, consumer)
    assert len(offsets(records, A)) == len(offsets(records, B)) == 40
