"""Finds the partition count of a coordinator's topic. Keys map to partitions by this count, so all brokers must agree.

A starting broker reads the count from ZooKeeper, as in Kafka, because a new controller may first send only some
partitions. A topic that is created later is complete when it is announced. The count is fixed for a topic id, because
after an increase keys would map to partitions without their records.
Source: GroupCoordinator.startup, TransactionCoordinator.startup, KafkaZkClient.getTopicPartitionCount@3.9.
"""

from collections.abc import Iterable
from contextlib import suppress
from uuid import UUID

from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.protocol import uuids
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.topics import TopicRegistry


class PartitionCount:
    """A callable that returns the partition count, or ``configured`` until the topic exists."""

    def __init__(self, metadata: MetadataCache, topic: str, configured: int) -> None:
        self.topic = topic
        self._metadata = metadata
        self._configured = configured
        self._counted: tuple[UUID | None, int] | None = None

    def __call__(self) -> int:
        partitions = self._metadata.topics.get(self.topic)
        counted = self._counted
        if not partitions:
            return self._configured if counted is None else counted[1]
        topic_id = self._metadata.topic_ids.get(self.topic)
        if counted is None:
            counted = self._counted = topic_id, len(partitions)
        elif counted[0] is not topic_id and counted[0] != topic_id and topic_id is not None:
            # Older controllers send no topic ids, so a re-created topic is not recognised.
            counted = self._counted = topic_id, counted[1] if counted[0] is None else len(partitions)
        return counted[1]

    def found(self, topic_id: UUID | None, count: int) -> None:
        """Set the count that was read from ZooKeeper."""
        self._counted = topic_id, count


async def count_in_zookeeper(topics: TopicRegistry, counts: Iterable[PartitionCount]) -> None:
    """Read the counts of existing topics; the controller handles invalid znodes.

    Raises: RegistryError.
    """
    for each in counts:
        with suppress(InvalidZnode):
            assignment = (await topics.assignments([each.topic])).get(each.topic)
            if assignment is not None and assignment.partitions:
                topic_id = None if assignment.topic_id is None else uuids.from_text(assignment.topic_id)
                each.found(topic_id, len(assignment.partitions))
