"""What the user of a member does with the partitions that it owns, whichever kind of group it is in."""

from abc import ABC, abstractmethod

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.group_commits import GroupCommits
from kafka_zk.clients.consumer.group_delivery import GroupDelivery
from kafka_zk.clients.consumer.starts import Start


class OwnedPartitions(ABC):
    """Base of the consumers of both kinds of groups."""

    _delivery: GroupDelivery | None

    @abstractmethod
    def _joined(self) -> tuple[GroupDelivery, GroupCommits]:
        """Raises: KafkaError before the first ``start``."""

    def assignment(self) -> list[TopicPartition]:
        """The partitions that this consumer owns now, sorted."""
        return [] if self._delivery is None else self._delivery.assignment

    def position(self, tp: TopicPartition) -> int | None:
        """The offset of the next record of an owned partition; None while its start is looked up."""
        return self._joined()[0].position(tp)

    def high_watermark(self, tp: TopicPartition) -> int:
        """The high watermark in the last response, -1 before the first one."""
        return self._joined()[0].state.high_watermark(tp)

    def seek(self, tp: TopicPartition, start: Start) -> None:
        """Continue at another offset of an owned partition; the next commit writes the new position."""
        self._joined()[0].seek(tp, start)

    def pause(self, *partitions: TopicPartition) -> None:
        """Deliver no more records of these owned partitions until ``resume``, or until they are reassigned."""
        self._joined()[0].pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Resume paused partitions."""
        self._joined()[0].unpause(partitions)
