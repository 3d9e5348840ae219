"""Labs for the group registries: each test that takes ``lab`` runs on the simulator and on the real ZooKeeper."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient
from kafka_zk.testing.timings import SESSION_TIMEOUT_MS
from tests.registry.group_lab import GroupLab, RealLab, SimulatedLab
from tests.registry.world import World


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.integration)])
def lab(request: pytest.FixtureRequest) -> Iterator[GroupLab]:
    """Three clients."""
    if request.param == "simulated":
        yield SimulatedLab(World(3))
        return
    zookeeper = request.getfixturevalue("zookeeper")
    with ExitStack() as stack:
        made = [KazooBlockingClient(zookeeper.connect_string, SESSION_TIMEOUT_MS) for _ in range(3)]
        yield RealLab(zookeeper, [stack.enter_context(client) for client in made])
