"""Znodes that are only parents contain null, as Kafka's do, because a Kafka broker parses other data as JSON.

Seen on Apache Kafka 3.9.1: with zero-length data in ``/latest_producer_id_block`` its controller answers every
AllocateProducerIds with UNKNOWN_SERVER_ERROR.
"""

from collections.abc import Awaitable
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import Create, RegistryClient
from kafka_zk.registry.client.pipeline import results
from kafka_zk.registry.cluster_id import get_or_create
from kafka_zk.registry.isr import notify_isr_change
from kafka_zk.registry.paths import PERSISTENT_PATHS, ensure_persistent_paths
from kafka_zk.registry.topics import TopicRegistry
from tests.registry.group_lab import GroupLab

PARENTS = ("/brokers", "/config", "/admin", "/cluster")


def test_the_parents_that_a_broker_makes_hold_null(lab: GroupLab) -> None:
    """The znodes are PERSISTENT_PATHS, all of their parents, and the chroot."""
    client = lab.clients[0]

    async def story() -> dict[str, bytes | None]:
        await ensure_persistent_paths(client)
        await get_or_create(client, "mkVdRtWgSDuKPUN-Pm3aGw")
        await notify_isr_change(client, [TopicPartition("t", 0)])
        await TopicRegistry(client).request_deletion("t")
        paths = [*PARENTS, *PERSISTENT_PATHS, "/admin/delete_topics/t"]
        return {path: (await client.get(path))[0] for path in paths}

    assert {path for path, data in lab.run(story()).items() if data is not None} == set()


def test_null_and_empty_data_are_told_apart(lab: GroupLab) -> None:
    client: RegistryClient = lab.clients[0]

    async def story() -> list[Any]:
        await results([client.create("/null"), client.create("/empty", b"")])
        await client.multi([Create("/m-null"), Create("/m-empty", b""), Create("/m-null/child", ephemeral=True)])
        asked: list[Awaitable[Any]] = [
            client.get(path) for path in ("/null", "/empty", "/m-null", "/m-empty", "/m-null/child")
        ]
        return [(data, stat.data_length) for data, stat in await results(asked)]

    assert lab.run(story()) == [(None, 0), (b"", 0), (None, 0), (b"", 0), (None, 0)]
