"""Ids of topics with replicas on this broker (KIP-516).

Tests: tests/kafka_zk/broker/replica/test_manager.py.
"""

import uuid

from kafka_zk.broker.replica.partition import Partition
from kafka_zk.protocol import uuids


class TopicIds:
    """An id is known until the topic's last replica is removed."""

    def __init__(self) -> None:
        self._topics: dict[uuid.UUID, tuple[str, set[int]]] = {}  # name and hosted partitions

    def name(self, topic_id: uuid.UUID) -> str | None:
        """The topic with this id; None if this broker has no replica of it."""
        known = self._topics.get(topic_id)
        return None if known is None else known[0]

    def give(self, partition: Partition, topic_id: uuid.UUID) -> None:
        """Set the id of the partition's topic; zero means none."""
        if partition.topic_id == topic_id:
            return
        self.forget(partition)
        partition.topic_id = topic_id
        if topic_id != uuids.ZERO:
            self._topics.setdefault(topic_id, (partition.tp.topic, set()))[1].add(partition.tp.partition)

    def forget(self, partition: Partition) -> None:
        """Remove a replica that is gone."""
        _, numbers = self._topics.get(partition.topic_id, ("", set()))
        numbers.discard(partition.tp.partition)
        if not numbers:
            self._topics.pop(partition.topic_id, None)
