"""The secret that all brokers of a cluster share."""

from random import Random

import pytest

from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.cluster_secret import cluster_secret
from kafka_zk.registry.znodes.cluster_secret import CLUSTER_SECRET
from tests.registry.world import World


def test_the_first_broker_makes_it_and_the_others_read_it() -> None:
    world = World()

    async def story() -> None:
        first = await cluster_secret(world.clients[0], Random(1))
        assert len(first) == 32
        assert await cluster_secret(world.clients[1], Random(2)) == first

    world.scheduler.run(story())


def test_a_znode_that_is_no_secret_is_refused() -> None:
    """A short secret could be guessed."""
    world = World()

    async def story() -> None:
        await cluster_secret(world.clients[0], Random(1))
        await world.clients[0].set(CLUSTER_SECRET, b"short")
        with pytest.raises(InvalidZnode, match=CLUSTER_SECRET):
            await cluster_secret(world.clients[0], Random(1))

    world.scheduler.run(story())
