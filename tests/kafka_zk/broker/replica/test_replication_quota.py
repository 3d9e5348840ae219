"""Which replicas a topic's list names, and when they are throttled."""

import pytest

from kafka_zk.base.rate import QuotaWindow
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.replica.replication_quota import (
    UNLIMITED,
    ReplicationQuota,
    ReplicationQuotas,
)
from kafka_zk.storage.files.log_config import LogConfig

TP = TopicPartition("t", 3)
WINDOW = QuotaWindow(sample_count=3, sample_ms=1000)


def test_a_quota_is_exceeded_above_its_rate_until_the_rate_has_fallen() -> None:
    quota = ReplicationQuota(WINDOW)
    quota.record(10_000, 0)
    assert not quota.is_exceeded(0)
    quota.configure(1000, WINDOW)
    assert quota.is_exceeded(0)
    quota.configure(10_000, WINDOW)
    assert not quota.is_exceeded(0), "a rate equal to the quota is allowed"
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
    """The list has entries of partition and broker, in this order."""
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
