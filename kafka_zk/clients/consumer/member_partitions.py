"""The partitions of a member of a group, from their assignment until they are given back or lost. Pure."""

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol.consumer_protocol import NO_GENERATION

NOTHING: frozenset[TopicPartition] = frozenset()


class MemberPartitions:
    """What one member owns.

    Attributes:
        owned: those that are being given back included.
        generation_id: the generation of the last assignment.
    """

    def __init__(self) -> None:
        self.owned = NOTHING
        self.generation_id = NO_GENERATION
        self._stops: dict[int, frozenset[TopicPartition]] = {}

    @property
    def stopping(self) -> frozenset[TopicPartition]:
        """What of ``owned`` is being given back."""
        return NOTHING.union(*self._stops.values())

    def stop(self, number: int, tps: frozenset[TopicPartition]) -> None:
        """Begin to give these back."""
        self._stops[number] = tps

    def stopped(self, number: int) -> None:
        """What was begun under this number is done, if it was not lost meanwhile."""
        self.owned -= self._stops.pop(number, NOTHING)

    def lose(self) -> frozenset[TopicPartition]:
        """The others may own all of it by now; what was owned."""
        lost = self.owned
        self.owned, self.generation_id, self._stops = NOTHING, NO_GENERATION, {}
        return lost
