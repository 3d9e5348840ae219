"""A consumer in a group releases partitions, or loses them: when, and with which offsets."""


from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.consumer.records import ConsumerRecord
from tests.kafka_zk.clients.connection.fake_cluster import FakeCluster, advance, finish
from tests.kafka_zk.clients.consumer.fake_group import A, FakeGroup, joined, offsets, poll, write


def test_release_waits_for_the_holder_to_ask_for_more(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """The consumer then commits everything that was handed out; it hands out no record during the wait."""
    consumer = joined(clock, brokers, group, max_poll_records=10)
    group.assign(A)
    poll(clock, consumer)
    released = group.revoke(A)
    advance(clock, 1)
    assert not released.called and consumer.assignment() == []
    assert poll(clock, consumer, 0) == []
    finish(clock, released, 0.1)
    assert group.committed == {A: 10}


def test_release_is_at_once_when_nothing_is_held(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """A member whose user waits for records does not delay the group (complaint 7)."""
    consumer = joined(clock, brokers, group)
    group.assign(A)
    assert len(poll(clock, consumer)) == 40
    waiting = run(consumer.poll(60_000))
    released = group.revoke(A)
    assert released.called and group.committed == {A: 40}
    assert not waiting.called


def test_release_waits_no_longer_than_the_backoff(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """Records that are held at that time are delivered again, beginning with the first one."""
    consumer = joined(clock, brokers, group, max_poll_records=10, rebalance_backoff_ms=500)
    group.assign(A)
    poll(clock, consumer)
    poll(clock, consumer)
    released = group.revoke(A)
    advance(clock, 0.49)
    assert [released.called] == [False]
    advance(clock, 0.02)
    assert released.called and group.committed == {A: 10}


@given(backoff_ms=st.integers(0, 50), user_ms=st.integers(0, 50))
@settings(max_examples=60, deadline=None)
def test_two_timeouts_that_race_have_one_outcome(backoff_ms: int, user_ms: int) -> None:
    """Complaint 8: the user returns before, after or exactly when the backoff ends. The release happens once, by then,
    and its offset shows whether the user was in time. No record is skipped.
    """
    clock = Clock()
    cluster = FakeCluster(clock, {"t": [0, 1]})
    write(cluster, A, 0, 40)
    group = FakeGroup(clock)
    consumer = joined(clock, cluster, group, max_poll_records=10, rebalance_backoff_ms=backoff_ms)
    group.assign(A)
    poll(clock, consumer)
    released = group.revoke(A)
    back: list[Deferred[list[ConsumerRecord]]] = []
    clock.callLater(user_ms / 1000, lambda: back.append(run(consumer.poll(0))))
    advance(clock, max(backoff_ms, user_ms) / 1000 + 0.002)
    assert released.called and back[0].called
    assert group.committed[A] in ({10} if user_ms < backoff_ms else {0} if user_ms > backoff_ms else {0, 10})


def test_without_automatic_commits_the_release_writes_nothing(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """The user may still commit while the release waits."""
    consumer = joined(clock, brokers, group, max_poll_records=10, auto_commit_enable=False)
    group.committed[A] = 0
    group.assign(A)
    poll(clock, consumer)
    released = group.revoke(A)
    finish(clock, run(consumer.commit()))
    poll(clock, consumer, 0)
    finish(clock, released)
    assert group.commits == [{A: 10}] and group.committed == {A: 10}


def test_a_lost_partition_ends_the_wait_for_its_holder(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """The session ends during a release, so the release commits nothing."""
    consumer = joined(clock, brokers, group, max_poll_records=10)
    group.assign(A)
    poll(clock, consumer)
    released = group.revoke(A)
    group.lose(A)
    finish(clock, released, 0.1)
    assert group.committed == {A: 0}, "the start that auto.offset.reset chose"


def test_a_partition_that_comes_back_starts_where_it_was_committed(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """Records that the user still holds from the former ownership do not count in the new one."""
    consumer = joined(clock, brokers, group, max_poll_records=10, auto_commit_interval_ms=100)
    group.assign(A)
    poll(clock, consumer)
    group.lose(A)
    group.committed[A] = 25
    group.assign(A)
    advance(clock, 0.5)
    assert group.committed == {A: 25}
    assert offsets(poll(clock, consumer))[0] == 25
    assert consumer.assignment() == [A]


def test_a_release_never_takes_back_what_the_user_committed(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """The user commits, works, and does not return in time: no other member is given those records."""
    consumer = joined(clock, brokers, group, max_poll_records=10, rebalance_backoff_ms=500)
    group.assign(A)
    poll(clock, consumer)
    finish(clock, run(consumer.commit()))
    finish(clock, group.revoke(A), 1)
    assert group.committed == {A: 10}
