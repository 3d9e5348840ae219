"""The secret that all brokers of a cluster share."""

import contextlib
from random import Random

from kafka_zk.registry.client.client import Create, RegistryClient
from kafka_zk.registry.client.errors import InvalidZnode, NodeExists, NoNode
from kafka_zk.registry.client.pipeline import create_with_parents
from kafka_zk.registry.znodes.cluster_secret import CLUSTER_SECRET, SIZE_BYTES


async def cluster_secret(client: RegistryClient, random: Random) -> bytes:
    """Read the secret, or create it. Raises: RegistryError; InvalidZnode for a wrong size."""
    while True:
        try:
            data, _ = await client.get(CLUSTER_SECRET)
        except NoNode:
            with contextlib.suppress(NodeExists):  # another broker created it
                await create_with_parents(client, Create(CLUSTER_SECRET, random.randbytes(SIZE_BYTES)))
            continue
        if len(data or b"") != SIZE_BYTES:
            raise InvalidZnode(f"{CLUSTER_SECRET}: {SIZE_BYTES} bytes are expected; delete it to get a new one")
        return bytes(data or b"")
