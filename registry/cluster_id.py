"""The cluster's id, created by its first broker and never changed.

Source: KafkaZkClient.createOrGetClusterId in Kafka 3.9; KIP-78.
"""

import base64
from random import Random

from kafka_zk.base.randomness import SYSTEM_RANDOM, random_uuid
from kafka_zk.registry.client import pipeline
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import cluster_id as znodes


def random_id(random: Random = SYSTEM_RANDOM) -> str:
    """A new id in the format of Kafka's Uuid: 22 characters of url-safe base64, without a leading dash."""
    while True:
        text = base64.urlsafe_b64encode(random_uuid(random).bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


async def get_or_create(client: RegistryClient, proposed: str) -> str:
    """The cluster's id; if there is none, create it as ``proposed``. Raises InvalidZnode."""
    data, _ = await pipeline.get_or_create(client, znodes.CLUSTER_ID, lambda: znodes.encode(proposed))
    return znodes.decode(data)


def mismatch(expected: str, data: bytes | None) -> str | None:
    """The problem if ``data`` is not the id of cluster ``expected``.

    Kafka then raises InconsistentClusterIdException at the start. A running broker must also check, because from
    another cluster's ZooKeeper it would receive that cluster's partitions, and treat its own as deleted.
    """
    try:
        stored = None if data is None else znodes.decode(data)
    except InvalidZnode as error:
        return f"ZooKeeper's cluster id cannot be understood, {error}: the broker of cluster {expected} waits"
    if stored == expected:
        return None
    found = f"another cluster's id, {stored}" if stored is not None else "no cluster id"
    return (
        f"ZooKeeper has {found}, and this broker is of cluster {expected}: ZooKeeper's data were lost or replaced."
        " The broker does not register there and writes nothing; partitions that it leads are still served."
        f" Restore ZooKeeper's data (at least {znodes.CLUSTER_ID}), or stop the broker"
    )
