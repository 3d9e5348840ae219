"""The end of a consumer in a group: closing, failures, and calls that come too early or too late."""

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafka_zk.clients.connection.errors import ClientClosed, KafkaError
from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.consumer.zookeeper_consumer import ZookeeperConsumer
from kafka_zk.registry.client.errors import ConnectionTimeout, DuplicateConsumerId
from tests.kafka_zk.clients.connection.fake_cluster import FakeCluster, advance, finish
from tests.kafka_zk.clients.consumer.fake_broker_group import BrokersOfOneMember
from tests.kafka_zk.clients.consumer.fake_group import A, FakeGroup, joined, poll, write


def test_close_commits_what_was_processed_and_does_not_wait(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """The caller of close is the one that holds records, and those records may not be processed."""
    consumer = joined(clock, brokers, group, max_poll_records=10)
    group.assign(A)
    poll(clock, consumer)
    poll(clock, consumer)
    finish(clock, run(consumer.close()), 0.1)
    assert group.committed == {A: 10}
    finish(clock, run(consumer.close()), 0.1)
    with pytest.raises(ClientClosed):
        poll(clock, consumer)
    advance(clock, 1)
    assert clock.getDelayedCalls() == []


@pytest.mark.parametrize(("fails", "committed"), [(False, 10), (True, 0)])
def test_leaving_the_block_says_whether_the_last_records_are_processed(
    fails: bool, committed: int, clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """An exception means that the last records are not processed."""
    consumer = joined(clock, brokers, group, max_poll_records=10)
    group.assign(A)

    async def use() -> None:
        async with consumer:
            await consumer.poll(1_000)
            if fails:
                raise ZeroDivisionError

    if fails:
        with pytest.raises(ZeroDivisionError):
            finish(clock, run(use()))
    else:
        finish(clock, run(use()))
    assert group.committed == {A: committed}


def test_a_close_during_the_start_leaves_no_session(clock: Clock) -> None:
    """ZooKeeper responds after the close."""
    opened: Deferred[Any] = Deferred()
    closed: list[bool] = []

    class Client:
        async def close(self) -> None:
            closed.append(True)

    async def open_client() -> Any:
        return await opened

    consumer = ZookeeperConsumer(clock, group_id="g", open_client=open_client)
    consumer.subscribe(["t"])
    starting = run(consumer.start())
    finish(clock, run(consumer.close()), 0.1)
    opened.callback(Client())
    with pytest.raises(ClientClosed):
        finish(clock, starting, 0.1)
    assert closed == [True]


def test_a_member_that_cannot_go_on_says_why(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """For example, another member took its id. The waiting call raises the error, and so does every later call."""
    consumer = joined(clock, brokers, group)
    waiting = run(consumer.poll(60_000))
    group.delivery.failed(KafkaError("fenced"))
    for each in (waiting, run(consumer.poll(0))):
        with pytest.raises(KafkaError, match="fenced"):
            finish(clock, each, 0.1)
    finish(clock, run(consumer.close()), 0.1)


def test_close_does_not_wait_for_a_zookeeper_that_is_gone(
    clock: Clock, brokers: FakeCluster, group: FakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the session timeout the consumer loses its partitions anyway."""
    consumer = joined(clock, brokers, group, rebalance_backoff_ms=100)
    hanging: Deferred[None] = Deferred()

    async def leave() -> None:
        await hanging

    monkeypatch.setattr(group, "leave", leave)
    closed = run(consumer.close())
    advance(clock, 6.0)
    assert not closed.called
    advance(clock, 0.2)
    assert closed.called


def test_close_does_not_wait_for_brokers_that_keep_the_offsets_and_are_gone(clock: Clock, group: FakeGroup) -> None:
    """With offsets.storage=kafka, the last commit is given up, and the search for the coordinator ends."""
    brokers = BrokersOfOneMember(clock, {"t": [0, 1]})
    write(brokers, A, 0, 40)
    options: dict[str, Any] = {"offsets_storage": "kafka", "offsets_channel_backoff_ms": 1, "rebalance_backoff_ms": 100}
    consumer = joined(clock, brokers, group, max_poll_records=10, **options)
    group.assign(A)
    assert poll(clock, consumer) and poll(clock, consumer)
    brokers.refuse()
    advance(clock, 20)
    finish(clock, run(consumer.close()), 6.2)
    advance(clock, 2)
    assert clock.getDelayedCalls() == []


def test_what_comes_too_early_or_too_late_is_said(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """Each error is one sentence."""
    fresh = ZookeeperConsumer(clock, group_id="g")
    with pytest.raises(KafkaError, match="call subscribe first"):
        poll(clock, fresh)
    with pytest.raises(KafkaError, match="has not joined its group yet"):
        fresh.seek(A, 0)
    with pytest.raises(ValueError, match="subscribe to topics, to a white_list or to a black_list"):
        fresh.subscribe()
    for streams in (0, 10_001):
        with pytest.raises(ValueError, match=f"a consumer has 1 to 10000 streams, not {streams}"):
            fresh.subscribe(["t"], streams=streams)
    consumer = joined(clock, brokers, group)
    with pytest.raises(KafkaError, match="subscription cannot change"):
        consumer.subscribe(["u"])


def test_close_keeps_what_the_user_committed(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """The user's commit counts although the user still holds those records."""
    consumer = joined(clock, brokers, group, max_poll_records=10)
    group.assign(A)
    poll(clock, consumer)
    finish(clock, run(consumer.commit()))
    finish(clock, run(consumer.close()), 0.1)
    assert group.committed == {A: 10}


def test_a_start_without_zookeeper_may_be_tried_again(clock: Clock) -> None:
    """Each attempt reports the connection error, not that the consumer has joined."""
    attempts: list[int] = []

    async def open_client() -> Any:
        attempts.append(1)
        raise ConnectionTimeout("no ZooKeeper server could be reached")

    consumer = ZookeeperConsumer(clock, group_id="g", open_client=open_client)
    consumer.subscribe(["t"])
    for _ in range(2):
        with pytest.raises(ConnectionTimeout):
            poll(clock, consumer)
    assert len(attempts) == 2


def test_a_member_that_was_refused_says_so_at_every_call(
    clock: Clock, brokers: FakeCluster, group: FakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member's name is taken. The second call must not claim that the member has joined."""

    async def start() -> None:
        raise DuplicateConsumerId("g", "g_1")

    monkeypatch.setattr(group, "start", start)
    with pytest.raises(DuplicateConsumerId):
        joined(clock, brokers, group)
    consumer: Any = group.delivery.streams[0]  # type: ignore[attr-defined]
    with pytest.raises(DuplicateConsumerId):
        finish(clock, run(consumer.poll(0)))


def test_commits_that_the_user_has_asked_for_are_written_before_the_consumer_leaves(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    consumer = joined(clock, brokers, group, max_poll_records=10, auto_commit_enable=False)
    group.assign(A)
    poll(clock, consumer)
    group.commit_takes_s = 0.1
    asked = [run(consumer.commit({A: offset})) for offset in (3, 4, 5)]
    finish(clock, run(consumer.close()), 1)
    assert [finish(clock, each) for each in asked] == [None] * 3
    assert group.committed == {A: 5}
