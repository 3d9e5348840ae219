"""Offsets of one group in transactions that have not ended. Pure.

Source: GroupMetadata.scala@3.9 (pendingTransactionalOffsetCommits).
Tests: tests/kafka_zk/broker/group/test_transactional_commits.py.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.records import OffsetAndMetadata


class Producer(NamedTuple):
    """The producer of a transaction."""

    producer_id: int
    producer_epoch: int


class Written(NamedTuple):
    """An offset, and the base offset of the batch with its record."""

    offset: OffsetAndMetadata
    record_offset: int


class Marker(NamedTuple):
    """A transaction marker: its offset in the log, and whether it commits."""

    offset: int
    is_committed: bool


@dataclass
class _Appending:
    """Number of a producer's appends in progress, and the markers reported meanwhile. ``count`` is at least 1."""

    count: int = 0
    markers: list[Marker] = field(default_factory=list)


class TransactionalOffsets:
    """Offsets by producer; of several for a partition, the last one in the log is kept.

    An append in progress replaces nothing: if the log refuses a zombie's commit, that of its successor with the same
    producer id stays, unlike in Kafka. The order in the log decides, not that of the calls: with ``flush.messages``, a
    marker can be reported before offsets that precede it.

    Attributes:
        _of: appended offsets that wait for their marker, by producer id; no inner dict is empty.
        _writing: number of appends in progress, by partition; never 0.
        _appending: appends in progress, by producer id.
    """

    def __init__(self) -> None:
        self._of: dict[int, dict[TopicPartition, Written]] = {}
        self._writing: Counter[TopicPartition] = Counter()
        self._appending: dict[int, _Appending] = {}

    def __bool__(self) -> bool:
        """Whether a transaction is open or an append in progress."""
        return bool(self._of or self._appending)

    def __contains__(self, tp: TopicPartition) -> bool:
        """Whether an open transaction has an offset of the partition, or one is being appended."""
        return tp in self._writing or any(tp in offsets for offsets in self._of.values())

    @property
    def producer_ids(self) -> list[int]:
        return list(self._of)

    def has(self, producer_id: int) -> bool:
        """Whether the producer has an open transaction or an append in progress."""
        return producer_id in self._of or producer_id in self._appending

    def begin(self, producer_id: int, tps: Collection[TopicPartition]) -> None:
        """An append of offsets for these partitions starts."""
        self._writing.update(tps)
        self._appending.setdefault(producer_id, _Appending()).count += 1

    def written(
        self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], record_offset: int
    ) -> Marker | None:
        """The append succeeded. Returns the marker if it was reported already; otherwise the offsets wait for it."""
        markers = self._appending[producer_id].markers
        marker = min((each for each in markers if each.offset > record_offset), default=None)
        self.failed(producer_id, offsets.keys())
        if marker is None:
            self.load(producer_id, offsets, record_offset)
        return marker

    def load(
        self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], record_offset: int
    ) -> None:
        """Appended offsets wait for their marker."""
        staged = self._of.setdefault(producer_id, {})
        for tp, offset in offsets.items():
            if tp not in staged or staged[tp].record_offset < record_offset:
                staged[tp] = Written(offset, record_offset)

    def failed(self, producer_id: int, tps: Collection[TopicPartition]) -> None:
        """An append ended."""
        self._writing.subtract(tps)
        self._writing = +self._writing
        self._appending[producer_id].count -= 1
        if not self._appending[producer_id].count:
            del self._appending[producer_id]

    def end(self, producer_id: int, marker: Marker) -> dict[TopicPartition, Written]:
        """End a transaction; returns its appended offsets. Empty for a marker that was processed before."""
        if producer_id in self._appending:
            self._appending[producer_id].markers.append(marker)
        staged = self._of.pop(producer_id, {})
        ended = {tp: each for tp, each in staged.items() if each.record_offset < marker.offset}
        if len(ended) < len(staged):  # the rest belongs to the next transaction
            self._of[producer_id] = {tp: each for tp, each in staged.items() if tp not in ended}
        return ended

    def remove(self, tp: TopicPartition) -> None:
        """Remove the partition's offsets from all open transactions."""
        for producer_id, staged in list(self._of.items()):
            staged.pop(tp, None)
            if not staged:
                del self._of[producer_id]
