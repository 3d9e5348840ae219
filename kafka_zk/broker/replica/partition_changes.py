"""Which partitions have changed last, for those who look at many and want to look only where something has happened.

Pure. Tests: tests/kafka_zk/broker/replica/test_partition_changes.py.
"""

from collections import deque
from itertools import islice

from kafka_zk.base.types import TopicPartition

KEPT = 10_000


class PartitionChanges:
    """``count``: how many there were; a look at everything knows of all of them."""

    __slots__ = ("_last", "count")

    def __init__(self) -> None:
        self.count = 0
        self._last: deque[TopicPartition] = deque(maxlen=KEPT)

    def note(self, tp: TopicPartition) -> None:
        """Records came, the high watermark has moved, or it is led otherwise than before."""
        self.count += 1
        self._last.append(tp)

    def since(self, count: int) -> set[TopicPartition] | None:
        """What has changed since there were so many changes; None if that is not known any more."""
        missed = self.count - count
        return set(islice(reversed(self._last), missed)) if missed <= len(self._last) else None
