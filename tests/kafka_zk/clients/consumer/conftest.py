"""A cluster of two brokers and a group, both on plain values."""

import pytest
from twisted.internet.task import Clock

from tests.kafka_zk.clients.connection.fake_cluster import FakeCluster
from tests.kafka_zk.clients.consumer.fake_group import A, B, FakeGroup, write


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def brokers(clock: Clock) -> FakeCluster:
    """Two partitions on two brokers, 40 records each."""
    cluster = FakeCluster(clock, {"t": [0, 1]})
    for tp in (A, B):
        write(cluster, tp, 0, 40)
    return cluster


@pytest.fixture
def group(clock: Clock) -> FakeGroup:
    return FakeGroup(clock)
