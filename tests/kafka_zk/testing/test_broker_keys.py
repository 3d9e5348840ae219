"""The keys that all test brokers have."""

import pytest

from kafka_zk.testing.broker_keys import cluster_keys

REPLICATION = "offsets.topic.replication.factor"


@pytest.mark.parametrize(("broker_count", "factor"), [(1, "1"), (2, "2"), (3, None)])
def test_a_small_cluster_has_a_replica_on_each_broker(broker_count: int, factor: str | None) -> None:
    """With three brokers, three replicas are Kafka's default, and tests may stop one before the first group."""
    assert cluster_keys(broker_count).get(REPLICATION) == factor


def test_the_first_member_of_a_group_does_not_wait() -> None:
    assert cluster_keys(3)["group.initial.rebalance.delay.ms"] == "0"
