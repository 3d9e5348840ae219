"""The offsets of one group that transactions have committed and that wait for the end of their transaction.

Pure. Source: GroupMetadata.scala@3.9 (pendingTransactionalOffsetCommits).
Tests: tests/kafka_zk/broker/group/test_transactional_commits.py.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.records import OffsetAndMetadata


class Producer(NamedTuple):
    """Whose transaction it is."""

    producer_id: int
    producer_epoch: int


class Written(NamedTuple):
    """An offset, and where the batch with its record begins in the log."""

    offset: OffsetAndMetadata
    record_offset: int


class Marker(NamedTuple):
    """A transaction marker: its offset in the log, and whether it commits."""

    offset: int
    is_committed: bool


@dataclass
class _Appending:
    """The appends of a producer that are under way, and the markers that were reported meanwhile."""

    count: int = 0
    markers: list[Marker] = field(default_factory=list)


class TransactionalOffsets:
    """By producer; the last one of a partition in the log counts.

    What is being written replaces nothing: unlike in Kafka, a commit of a zombie that the log refuses leaves that of
    its successor, which has the same producer id, as it was. What counts is the order in the log, not that of the
    calls: with ``flush.messages`` a marker may be reported before the offsets that precede it.
    """

    def __init__(self) -> None:
        self._of: dict[int, dict[TopicPartition, Written]] = {}
        self._writing: Counter[TopicPartition] = Counter()
        self._appending: dict[int, _Appending] = {}  # by producer

    def __bool__(self) -> bool:
        """Whether a transaction has not ended."""
        return bool(self._of or self._appending)

    def __contains__(self, tp: TopicPartition) -> bool:
        """Whether a transaction that has not ended commits an offset of the partition."""
        return tp in self._writing or any(tp in offsets for offsets in self._of.values())

    @property
    def producer_ids(self) -> list[int]:
        return list(self._of)

    def has(self, producer_id: int) -> bool:
        """Whether something of the producer waits for the end of a transaction, or is being written."""
        return producer_id in self._of or producer_id in self._appending

    def begin(self, producer_id: int, tps: Collection[TopicPartition]) -> None:
        """Offsets of these are being written."""
        self._writing.update(tps)
        self._appending.setdefault(producer_id, _Appending()).count += 1

    def written(
        self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], record_offset: int
    ) -> Marker | None:
        """They are in the log. Returns their marker if that was reported first; else they wait for it."""
        markers = self._appending[producer_id].markers
        marker = min((each for each in markers if each.offset > record_offset), default=None)
        self.failed(producer_id, offsets.keys())
        if marker is None:
            self.load(producer_id, offsets, record_offset)
        return marker

    def load(
        self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], record_offset: int
    ) -> None:
        """They are in the log, and wait for their marker."""
        staged = self._of.setdefault(producer_id, {})
        for tp, offset in offsets.items():
            if tp not in staged or staged[tp].record_offset < record_offset:
                staged[tp] = Written(offset, record_offset)

    def failed(self, producer_id: int, tps: Collection[TopicPartition]) -> None:
        """They are written no longer."""
        self._writing.subtract(tps)
        self._writing = +self._writing
        self._appending[producer_id].count -= 1
        if not self._appending[producer_id].count:
            del self._appending[producer_id]

    def end(self, producer_id: int, marker: Marker) -> dict[TopicPartition, Written]:
        """The transaction is over: what it has in the log. A second end has nothing."""
        if producer_id in self._appending:
            self._appending[producer_id].markers.append(marker)
        staged = self._of.pop(producer_id, {})
        ended = {tp: each for tp, each in staged.items() if each.record_offset < marker.offset}
        if len(ended) < len(staged):  # the rest is of the next one
            self._of[producer_id] = {tp: each for tp, each in staged.items() if tp not in ended}
        return ended

    def remove(self, tp: TopicPartition) -> None:
        """Forget what transactions commit for the partition."""
        for producer_id, staged in list(self._of.items()):
            staged.pop(tp, None)
            if not staged:
                del self._of[producer_id]
