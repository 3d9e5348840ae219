"""The rate over a sliding window, and which replicas a topic's list names."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.replica.replication_quota import (
    UNLIMITED,
    QuotaWindow,
    ReplicationQuota,
    ReplicationQuotas,
    SimpleRate,
)
from kafka_zk.storage.files.log_config import LogConfig

TP = TopicPartition("t", 3)
WINDOW = QuotaWindow(sample_count=3, sample_ms=1000)


def test_nothing_recorded_is_a_rate_of_nothing() -> None:
    assert SimpleRate(WINDOW).per_second(5) == 0


def test_the_first_second_counts_as_a_whole_one() -> None:
    """Else the first bytes would look like a flood."""
    rate = SimpleRate(WINDOW)
    rate.record(500, 100)
    assert rate.per_second(101) == 500
    assert rate.per_second(1100) == 500
    assert rate.per_second(2100) == 250


def test_the_rate_is_over_the_time_since_the_oldest_sample() -> None:
    rate = SimpleRate(WINDOW)
    for second in range(3):
        rate.record(600, second * 1000)
    assert rate.per_second(2000) == 900
    assert rate.per_second(3000) == 600


def test_a_sample_counts_while_its_last_event_lies_in_the_window() -> None:
    """It may have begun before."""
    rate = SimpleRate(WINDOW)
    rate.record(100, 0)
    rate.record(100, 900)
    rate.record(300, 1000)
    assert rate.per_second(3899) == pytest.approx(500 / 3.899)
    assert rate.per_second(3900) == pytest.approx(300 / 2.9)
    assert rate.per_second(4000) == 0


def test_a_steady_stream_shows_its_rate_for_ever() -> None:
    rate = SimpleRate(WINDOW)
    for now_ms in range(0, 60_000, 100):
        rate.record(70, now_ms)
    assert rate.per_second(60_000) == pytest.approx(700, rel=0.05)


def test_a_quota_is_exceeded_above_its_rate_until_the_rate_has_fallen() -> None:
    quota = ReplicationQuota(WINDOW)
    quota.record(10_000, 0)
    assert not quota.is_exceeded(0)
    quota.configure(1000, WINDOW)
    assert quota.is_exceeded(0)
    quota.configure(10_000, WINDOW)
    assert not quota.is_exceeded(0), "the rate itself is allowed"
    quota.configure(0, WINDOW)
    assert quota.is_exceeded(2999) and not quota.is_exceeded(3000)


def test_another_window_begins_anew() -> None:
    quota = ReplicationQuota(WINDOW)
    quota.record(10_000, 0)
    quota.configure(1, QuotaWindow(5, 2000))
    assert not quota.is_exceeded(0)


@pytest.mark.parametrize(
    ("replicas", "is_throttled"),
    [
        ((), False),
        (("*",), True),
        (("3:1",), True),
        (("0:1", "3:1"), True),
        (("3:2",), False),
        (("1:3",), False),
    ],
)
def test_a_topics_list_names_replicas(replicas: tuple[str, ...], is_throttled: bool) -> None:
    """By partition and broker, in this order."""
    quota = ReplicationQuota(WINDOW)
    quota.set_throttled(TP, 1, replicas)
    assert quota.is_throttled(TP) is is_throttled
    quota.set_throttled(TP, 1, ())
    assert not quota.is_throttled(TP)


def test_both_directions_follow_their_keys() -> None:
    quotas = ReplicationQuotas()
    quotas.configure(
        KafkaConfig({"zookeeper.connect": "z:1", "log.dirs": "/d", "follower.replication.throttled.rate": "70"})
    )
    assert (quotas.leader.bytes_per_second, quotas.follower.bytes_per_second) == (UNLIMITED, 70)
    quotas.apply(TP, 1, LogConfig(leader_replication_throttled_replicas=("*",)))
    assert (quotas.leader.is_throttled(TP), quotas.follower.is_throttled(TP)) == (True, False)
    quotas.apply(TP, 1, LogConfig(follower_replication_throttled_replicas=("3:1",)))
    assert (quotas.leader.is_throttled(TP), quotas.follower.is_throttled(TP)) == (False, True)
    quotas.forget(TP)
    assert not quotas.follower.throttled
