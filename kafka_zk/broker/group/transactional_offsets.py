"""One group's offsets in open transactions. Pure.

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
    producer_id: int
    producer_epoch: int


class Written(NamedTuple):
    """An offset, and the base offset of the batch with its record."""

    offset: OffsetAndMetadata
    record_offset: int


class Marker(NamedTuple):
    """A transaction marker: its offset in the log, and whether it commits the transaction."""

    offset: int
    is_committed: bool


@dataclass
class _Appending:
    """Number of a producer's appends in progress, and the markers reported during them."""

    count: int = 0
    markers: list[Marker] = field(default_factory=list)


class TransactionalOffsets:
    """Each producer's offsets; for each partition, the last one in the log.

    Unlike in Kafka, an append in progress replaces nothing: if the log rejects a zombie's commit, the commit of its
    successor with the same producer id stays. The order in the log decides, not the order of calls: with
    ``flush.messages``, a marker can be reported before offsets that precede it.

    Attributes:
        _of: producer id -> appended offsets that await their marker; never empty.
        _writing: partition -> appends in progress; never 0.
    """

    def __init__(self) -> None:
        self._of: dict[int, dict[TopicPartition, Written]] = {}
        self._writing: Counter[TopicPartition] = Counter()
        self._appending: dict[int, _Appending] = {}

    def __bool__(self) -> bool:
        """True if a transaction is open or an append is in progress."""
        return bool(self._of or self._appending)

    def __contains__(self, tp: TopicPartition) -> bool:
        """True if an open transaction has an offset of the partition, or one is being appended."""
        return tp in self._writing or any(tp in offsets for offsets in self._of.values())

    @property
    def producer_ids(self) -> list[int]:
        return list(self._of)

    def has(self, producer_id: int) -> bool:
        """True if the producer has an open transaction or an append in progress."""
        return producer_id in self._of or producer_id in self._appending

    def begin(self, producer_id: int, tps: Collection[TopicPartition]) -> None:
        """Record the start of an append of offsets for these partitions."""
        self._writing.update(tps)
        self._appending.setdefault(producer_id, _Appending()).count += 1

    def written(
        self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], record_offset: int
    ) -> Marker | None:
        """Record a successful append. Returns the transaction's marker if it was already reported; if not, the offsets
        wait for it."""
        markers = self._appending[producer_id].markers
        marker = min((each for each in markers if each.offset > record_offset), default=None)
        self.failed(producer_id, offsets.keys())
        if marker is None:
            self.load(producer_id, offsets, record_offset)
        return marker

    def load(
        self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], record_offset: int
    ) -> None:
        """Add appended offsets, which wait for their marker."""
        staged = self._of.setdefault(producer_id, {})
        for tp, offset in offsets.items():
            if tp not in staged or staged[tp].record_offset < record_offset:
                staged[tp] = Written(offset, record_offset)

    def failed(self, producer_id: int, tps: Collection[TopicPartition]) -> None:
        """Record the end of an append."""
        self._writing.subtract(tps)
        self._writing = +self._writing
        self._appending[producer_id].count -= 1
        if not self._appending[producer_id].count:
            del self._appending[producer_id]

    def end(self, producer_id: int, marker: Marker) -> dict[TopicPartition, Written]:
        """End the producer's transaction. Returns its offsets, or none if the marker was processed already."""
        if producer_id in self._appending:
            self._appending[producer_id].markers.append(marker)
        staged = self._of.pop(producer_id, {})
        ended = {tp: each for tp, each in staged.items() if each.record_offset < marker.offset}
        if len(ended) < len(staged):  # the other offsets belong to the next transaction
            self._of[producer_id] = {tp: each for tp, each in staged.items() if tp not in ended}
        return ended

    def remove(self, tp: TopicPartition) -> None:
        """Remove the partition's offsets from all open transactions."""
        for producer_id, staged in list(self._of.items()):
            staged.pop(tp, None)
            if not staged:
                del self._of[producer_id]
