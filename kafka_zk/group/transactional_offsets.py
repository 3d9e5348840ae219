"""The offsets of one group that transactions have committed and that wait for the end of their transaction.

Pure. Source: GroupMetadata.scala@3.9 (pendingTransactionalOffsetCommits).
Tests: tests/kafka_zk/group/test_transactional_commits.py.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kafka_zk.group.records import OffsetAndMetadata
from kafka_zk.storage.types import TopicPartition


class Producer(NamedTuple):
    """Whose transaction it is."""

    producer_id: int
    producer_epoch: int


class Written(NamedTuple):
    """An offset, and where the batch with its record begins in the log."""

    offset: OffsetAndMetadata
    record_offset: int


class TransactionalOffsets:
    """By producer; the last one of a partition in the log counts.

    What is being written replaces nothing: unlike in Kafka, a commit of a zombie that the log refuses leaves that of
    its successor, which has the same producer id, as it was.
    """

    def __init__(self) -> None:
        self._of: dict[int, dict[TopicPartition, Written]] = {}
        self._writing: Counter[TopicPartition] = Counter()

    def __bool__(self) -> bool:
        """Whether a transaction has not ended."""
        return bool(self._of or self._writing)

    def __contains__(self, tp: TopicPartition) -> bool:
        """Whether a transaction that has not ended commits an offset of the partition."""
        return tp in self._writing or any(tp in offsets for offsets in self._of.values())

    @property
    def producer_ids(self) -> list[int]:
        return list(self._of)

    def begin(self, tps: Collection[TopicPartition]) -> None:
        """Offsets of these are being written."""
        self._writing.update(tps)

    def written(
        self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], record_offset: int
    ) -> None:
        """They are in the log."""
        self.failed(offsets.keys())
        staged = self._of.setdefault(producer_id, {})
        for tp, offset in offsets.items():
            if tp not in staged or staged[tp].record_offset < record_offset:
                staged[tp] = Written(offset, record_offset)

    def failed(self, tps: Collection[TopicPartition]) -> None:
        """They are written no longer."""
        self._writing.subtract(tps)
        self._writing = +self._writing

    def end(self, producer_id: int) -> dict[TopicPartition, Written]:
        """The transaction is over: what it has in the log. A second end has nothing."""
        return self._of.pop(producer_id, {})

    def remove(self, tp: TopicPartition) -> None:
        """Forget what transactions commit for the partition."""
        for producer_id, staged in list(self._of.items()):
            staged.pop(tp, None)
            if not staged:
                del self._of[producer_id]
