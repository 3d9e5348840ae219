"""Notifications to the controller: partitions whose ISR a leader changed, brokers that lost a log directory.

Both are lists of sequential znodes that anybody adds to and the controller reads, then deletes through its fence.
"""

from collections.abc import Iterable

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import Create, Delete, RegistryClient
from kafka_zk.registry.client.pipeline import create_with_parents
from kafka_zk.registry.znodes import isr as znodes


async def notify_isr_change(client: RegistryClient, partitions: Iterable[TopicPartition]) -> None:
    """Tell the controller that the ISR of these partitions was changed in their state znodes."""
    path = f"{znodes.ISR_CHANGES}/{znodes.ISR_CHANGE_PREFIX}"
    await create_with_parents(client, Create(path, znodes.encode_isr_change(partitions), sequential=True))


def deletions(parent: str, names: Iterable[str]) -> list[Delete]:
    """What the controller writes when it has acted on the named notifications under ``parent``."""
    return [Delete(f"{parent}/{name}") for name in sorted(names)]


async def notify_log_dir_failure(client: RegistryClient, broker_id: int) -> None:
    """Tell the controller that this broker lost a log directory."""
    path = f"{znodes.LOG_DIR_EVENTS}/{znodes.LOG_DIR_EVENT_PREFIX}"
    await create_with_parents(client, Create(path, znodes.encode_log_dir_event(broker_id), sequential=True))
