"""A clock and a cluster on plain values."""

import pytest
from twisted.internet.task import Clock

from tests.kafka_zk.clients.connection.fake_cluster import FakeCluster


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def brokers(clock: Clock) -> FakeCluster:
    """Two brokers, and a topic with three partitions."""
    return FakeCluster(clock, {"t": [0, 1, 0]})
