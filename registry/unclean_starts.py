"""Unclean starts of brokers that no controller has handled yet.

After an unclean start, a broker may lack records that were only in its page cache, so it must leave the ISRs. This
follows KIP-966, which Kafka has only with KRaft.
"""

from collections.abc import Mapping

from kafka_zk.registry.client.client import Create, Delete, Operation, RegistryClient
from kafka_zk.registry.client.pipeline import children_of, ensure_paths
from kafka_zk.registry.znodes import unclean_start as znodes


async def read_unclean_starts(client: RegistryClient) -> dict[int, list[str]]:
    """The znodes' paths by broker id, read in one request."""
    found: dict[int, list[str]] = {}
    for name in await children_of(client, znodes.UNCLEAN_STARTS):
        broker_id = znodes.broker_of(name)
        if broker_id is not None:
            found.setdefault(broker_id, []).append(f"{znodes.UNCLEAN_STARTS}/{name}")
    return found


async def announcement(client: RegistryClient, broker_id: int, timestamp_ms: int) -> list[Operation]:
    """Operations for a registration's multi: create a new znode, and delete the broker's earlier ones.

    The multi fails with NoNode if a controller has just deleted an earlier znode; then call this again.
    """
    await ensure_paths(client, [znodes.UNCLEAN_STARTS])
    known: Mapping[int, list[str]] = await read_unclean_starts(client)
    return [
        *(Delete(path) for path in known.get(broker_id, ())),
        Create(znodes.path_prefix(broker_id), znodes.encode(timestamp_ms), sequential=True),
    ]
