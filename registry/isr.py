"""Notifications to the controller: changed ISRs, and brokers that lost a log directory.

Both are sequential znodes, which the controller reads and deletes in fenced writes.
"""

from collections.abc import Iterable

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import Create, Delete, RegistryClient
from kafka_zk.registry.client.pipeline import create_with_parents
from kafka_zk.registry.znodes import isr as znodes


async def notify_isr_change(client: RegistryClient, partitions: Iterable[TopicPartition]) -> None:
    path = f"{znodes.ISR_CHANGES}/{znodes.ISR_CHANGE_PREFIX}"
    await create_with_parents(client, Create(path, znodes.encode_isr_change(partitions), sequential=True))


def deletions(parent: str, names: Iterable[str]) -> list[Delete]:
    """The operations with which the controller deletes handled notifications under ``parent``."""
    return [Delete(f"{parent}/{name}") for name in sorted(names)]


async def notify_log_dir_failure(client: RegistryClient, broker_id: int) -> None:
    path = f"{znodes.LOG_DIR_EVENTS}/{znodes.LOG_DIR_EVENT_PREFIX}"
    await create_with_parents(client, Create(path, znodes.encode_log_dir_event(broker_id), sequential=True))
