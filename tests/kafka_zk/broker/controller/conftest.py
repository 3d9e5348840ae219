"""A cluster of brokers on the in-memory ZooKeeper."""

import pytest

from tests.kafka_zk.broker.controller.world import Cluster


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()
