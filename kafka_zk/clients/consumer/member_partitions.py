"""The partitions of one member, from assignment until revocation or loss. Pure."""

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol.consumer_protocol import NO_GENERATION

NOTHING: frozenset[TopicPartition] = frozenset()


class MemberPartitions:
    """``owned``: including those that are being revoked. ``generation_id``: the generation of the last assignment."""

    def __init__(self) -> None:
        self.owned = NOTHING
        self.generation_id = NO_GENERATION
        self._stops: dict[int, frozenset[TopicPartition]] = {}

    @property
    def stopping(self) -> frozenset[TopicPartition]:
        """The part of ``owned`` that is being revoked."""
        return NOTHING.union(*self._stops.values())

    def stop(self, number: int, tps: frozenset[TopicPartition]) -> None:
        self._stops[number] = tps

    def stopped(self, number: int) -> None:
        """The partitions of this revocation are no longer owned. Ignored after ``lose``."""
        self.owned -= self._stops.pop(number, NOTHING)

    def lose(self) -> frozenset[TopicPartition]:
        """Returns the partitions that were owned; they may have other owners now."""
        lost = self.owned
        self.owned, self.generation_id, self._stops = NOTHING, NO_GENERATION, {}
        return lost
