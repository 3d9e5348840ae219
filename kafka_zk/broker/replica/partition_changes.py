"""The partitions that changed last, so that an observer need not examine all of them. Pure."""

from collections import deque
from itertools import islice

from kafka_zk.base.types import TopicPartition

KEPT = 10_000


class PartitionChanges:
    """``count``: number of changes so far."""

    __slots__ = ("_last", "count")

    def __init__(self) -> None:
        self.count = 0
        self._last: deque[TopicPartition] = deque(maxlen=KEPT)

    def note(self, tp: TopicPartition) -> None:
        """Note that records were appended, the high watermark moved, or the role changed."""
        self.count += 1
        self._last.append(tp)

    def since(self, count: int) -> set[TopicPartition] | None:
        """The partitions that changed since ``count`` was read; None if there were more than KEPT changes."""
        missed = self.count - count
        return set(islice(reversed(self._last), missed)) if missed <= len(self._last) else None
