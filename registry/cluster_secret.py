"""The secret that all brokers of a cluster share."""

from random import Random

from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.client.pipeline import get_or_create
from kafka_zk.registry.znodes.cluster_secret import CLUSTER_SECRET, SIZE_BYTES


async def cluster_secret(client: RegistryClient, random: Random) -> bytes:
    """Read the secret, or create it. Raises: RegistryError; InvalidZnode for a wrong size."""
    data, _ = await get_or_create(client, CLUSTER_SECRET, lambda: random.randbytes(SIZE_BYTES))
    if len(data or b"") != SIZE_BYTES:
        raise InvalidZnode(f"{CLUSTER_SECRET}: {SIZE_BYTES} bytes are expected; delete it to get a new one")
    return bytes(data or b"")
