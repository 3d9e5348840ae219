"""What a coordinator has loaded counts when no replica can lose it."""

from twisted.internet.defer import ensureDeferred

from kafka_zk.coordinator.committed_log import until_committed
from tests.kafka_zk.handlers.test_follower_fetch import Make, T, make

__all__ = ["make"]  # a fixture


def test_it_waits_until_the_followers_in_sync_have_what_the_log_holds_now(make: Make) -> None:
    leader = make()
    leader.append(b"a", b"b")
    done = ensureDeferred(until_committed(leader.broker.services.replicas, T, lambda: True))
    leader.append(b"later")
    leader.fetch(2, follower=1)
    assert not done.called
    leader.fetch(1, follower=2)
    assert (done.called, leader.high_watermark) == (False, 1)
    leader.fetch(2, follower=2)
    assert (done.called, leader.high_watermark) == (True, 2)


def test_it_waits_no_longer_than_anybody_wants_it(make: Make) -> None:
    leader = make()
    leader.append(b"a")
    wanted = [True]
    done = ensureDeferred(until_committed(leader.broker.services.replicas, T, lambda: wanted[0]))
    leader.pass_time(5_000)
    assert not done.called
    wanted.clear()
    wanted.append(False)
    leader.pass_time(1_000)
    assert done.called


def test_somebody_else_may_lead_the_partition(make: Make) -> None:
    leader = make()
    leader.append(b"a")
    replicas = leader.broker.services.replicas
    other = T._replace(partition=7)
    assert ensureDeferred(until_committed(replicas, other, lambda: True)).called
