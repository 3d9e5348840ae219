"""A consumer whose group assigns and revokes partitions: which records are handed out when, and to which stream."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.consumer.errors import RecordDeserializationError
from kafka_zk.clients.consumer.rebalance_listener import RebalanceListener
from tests.kafka_zk.clients.connection.fake_cluster import FakeCluster, advance, finish
from tests.kafka_zk.clients.consumer.fake_group import A, B, FakeGroup, joined, offsets, poll, write


def test_nothing_is_handed_out_without_the_lease(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """may_act is called at each hand-out; once it returns True again, the waiting call continues."""
    consumer = joined(clock, brokers, group)
    group.assign(A)
    group.acting = False
    assert group.held_back_count == 0
    waiting = run(consumer.poll(60_000))
    advance(clock, 5)
    assert not waiting.called and group.held_back_count > 0
    group.acting = True
    assert len(finish(clock, waiting, 0.2)) == 40


def test_suspended_pauses_and_resumed_goes_on(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """No record is handed out while the connection is in doubt, and none is lost or repeated after it."""
    consumer = joined(clock, brokers, group, max_poll_records=10)
    group.assign(A)
    first = poll(clock, consumer)
    group.delivery.suspend()
    assert poll(clock, consumer, 500) == []
    group.delivery.resume()
    assert offsets(first + poll(clock, consumer)) == list(range(20))


def test_each_stream_has_its_own_partitions(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """The subscription has the number of streams."""
    consumer = joined(clock, brokers, group, streams=2)
    assert group.registration.subscription == {"t": 2}
    group.assign(A, thread=0)
    group.assign(B, thread=1)
    one, two = consumer.streams
    assert len(offsets(finish(clock, run(one.poll(1_000))), A)) == 40
    assert len(offsets(finish(clock, run(two.poll(1_000))), B)) == 40
    with pytest.raises(KafkaError, match="must be read through its streams"):
        poll(clock, consumer)


def test_a_paused_partition_waits(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """Records of the partition that were already fetched come after the resume."""
    consumer = joined(clock, brokers, group)
    group.assign(A, B)
    advance(clock, 0.2)
    consumer.pause(A)
    assert offsets(poll(clock, consumer, 100)) == []
    consumer.resume(A)
    assert offsets(poll(clock, consumer)) == list(range(40))
    with pytest.raises(KafkaError, match="t-7 is not owned"):
        consumer.pause(TopicPartition("t", 7))


def test_seek_moves_what_is_committed(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """A seek may go back; records that are still held no longer count."""
    consumer = joined(clock, brokers, group, auto_commit_interval_ms=100)
    group.assign(A)
    poll(clock, consumer)
    consumer.seek(A, 7)
    advance(clock, 0.2)
    assert group.committed == {A: 7}
    assert offsets(poll(clock, consumer))[0] == 7


def test_keys_and_values_are_deserialized(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """A deserializer is a name or an object."""
    consumer = joined(clock, brokers, group, key_deserializer="string", value_deserializer="json")
    group.assign(A)
    records = poll(clock, consumer)
    assert [(record.key, record.value) for record in records] == [("k", number) for number in range(40)]


def test_a_record_that_cannot_be_deserialized_is_not_passed_over(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """Earlier records come first; then the error repeats until a seek."""
    write(brokers, A, 40, 1, b"{")
    write(brokers, A, 41, 1)
    consumer = joined(clock, brokers, group, value_deserializer="json", max_poll_records=100)
    group.assign(A)
    assert offsets(poll(clock, consumer)) == list(range(40))
    for _ in range(2):
        with pytest.raises(RecordDeserializationError, match="offset 40 of t-0"):
            poll(clock, consumer)
    assert consumer.position(A) == 40
    consumer.seek(A, 41)
    assert offsets(poll(clock, consumer)) == [41]


class Recorder(RebalanceListener):
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.answer: Deferred[None] | None = None

    def before_releasing_partitions(self, partitions: Collection[TopicPartition]) -> "Deferred[None] | None":
        self.calls.append(("releasing", list(partitions)))
        return self.answer

    def before_starting_fetchers(
        self, consumer_id: str, partitions: Mapping[TopicPartition, int]
    ) -> "Deferred[None] | None":
        self.calls.append(("starting", dict(partitions)))
        return self.answer


def test_the_listener_is_told_before_release_and_start(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """Release and fetching wait for the listener's result."""
    listener = Recorder()
    consumer = joined(clock, brokers, group, listener=listener)
    listener.answer = starting = Deferred[None]()
    group.assign(A)
    assert poll(clock, consumer, 500) == []
    starting.callback(None)
    assert len(poll(clock, consumer)) == 40
    poll(clock, consumer, 0)
    listener.answer = releasing = Deferred[None]()
    released = group.revoke(A)
    assert not released.called and listener.calls == [("starting", {A: 0}), ("releasing", [A])]
    finish(clock, run(consumer.commit({A: 39})))
    releasing.callback(None)
    assert released.called


def test_a_listener_that_fails_or_hangs_stops_nothing(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """The consumer waits for a hanging listener no longer than rebalance.backoff.ms."""
    listener = Recorder()
    consumer = joined(clock, brokers, group, listener=listener)
    group.assign(A)
    assert len(poll(clock, consumer)) == 40
    poll(clock, consumer, 0)
    listener.answer = Deferred()
    released = group.revoke(A)
    advance(clock, 2.1)
    assert released.called and group.committed == {A: 40}


def test_a_partition_that_goes_while_the_listener_works_is_never_fetched(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """before_starting_fetchers took longer than the ownership lasted."""
    listener = Recorder()
    consumer = joined(clock, brokers, group, listener=listener)
    listener.answer = starting = Deferred[None]()
    group.committed[A] = 5
    group.assign(A)
    listener.answer = None
    finish(clock, group.revoke(A))
    starting.callback(None)
    assert poll(clock, consumer, 200) == [] and group.committed == {A: 5}
