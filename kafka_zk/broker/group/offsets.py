"""The offsets that one group has committed, or is appending. Pure.

Commits of a partition can overlap; the last one in the log wins. Offsets in transactions (KIP-98, KIP-447) take effect
at the marker, but their own position in the log decides which commit is the last.
Source: GroupMetadata.scala@3.9 (onOffsetCommitAppend, removeExpiredOffsets), KIP-211 (retention).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.records import NO_EXPIRY, OffsetAndMetadata
from kafka_zk.broker.group.transactional_offsets import Marker, TransactionalOffsets, Written

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

OFFSET_BYTES = 400  # measured memory of an offset, without metadata
_METADATA = attrgetter("metadata")


def _metadata_bytes(offsets: Iterable[OffsetAndMetadata]) -> int:
    """Total length of the metadata, computed in a C loop, because commits can have many partitions."""
    return sum(map(len, map(_METADATA, offsets)))


@dataclass
class OpenTransactions:
    """A group's open transactions in the log. ``offsets``: by producer id. ``committed``: for the partitions of these
    offsets, the base offset of the committed offset's batch."""

    offsets: dict[int, dict[TopicPartition, Written]] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)


class GroupOffsets:
    """The offsets of one group.

    Attributes:
        size_bytes: memory of the committed offsets.
        _committed: the offsets in effect.
        _pending: for each partition, the last commit that is being appended outside transactions.
        _pending_count: offsets in these appends, repeated partitions included.
        _record_offsets: base offset of the committed offset's batch, only while an append or transaction is open;
            missing if older.
        _transactional: offsets of transactions that have not ended.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._pending: dict[TopicPartition, OffsetAndMetadata] = {}
        self._pending_count = 0
        self._record_offsets: dict[TopicPartition, int] = {}
        self._transactional = TransactionalOffsets()

    def __len__(self) -> int:
        return len(self._committed)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._committed)

    def __bool__(self) -> bool:
        """True if an offset is committed or may be committed later."""
        return bool(self._committed or self._pending or self._transactional)

    def get(self, tp: TopicPartition) -> OffsetAndMetadata | None:
        return self._committed.get(tp)

    def among(self, tps: frozenset[TopicPartition]) -> set[TopicPartition]:
        """The partitions in ``tps`` that have a committed offset."""
        return self._committed.keys() & tps

    def is_pending(self, tp: TopicPartition) -> bool:
        """True if an append or open transaction may replace the committed offset."""
        return tp in self._pending or tp in self._transactional

    def load(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Use offsets that were read from the log. They are not copied."""
        self._committed = offsets
        self.size_bytes = OFFSET_BYTES * len(offsets) + _metadata_bytes(offsets.values())

    def load_open(self, open_transactions: "OpenTransactions") -> None:
        for producer_id, offsets in open_transactions.offsets.items():
            for tp, written in offsets.items():
                self._transactional.load(producer_id, {tp: written.offset}, written.record_offset)
        self._record_offsets.update(open_transactions.committed)

    def stored(self, offsets: Offsets, record_offset: int, metadata_bytes: int) -> None:
        """Commit offsets that were appended at the end of the log. ``metadata_bytes``: the length of their metadata.

        Replaced offsets are examined only if a committed offset has metadata, which is rare.
        """
        committed = self._committed
        known_bytes = OFFSET_BYTES * len(committed)
        if self.size_bytes != known_bytes:
            metadata_bytes -= _metadata_bytes(filter(None, map(committed.get, offsets)))
        committed.update(offsets)
        self.size_bytes += OFFSET_BYTES * len(committed) - known_bytes + metadata_bytes
        if self._pending_count or self._transactional:  # replaces earlier commits in progress
            self._record_offsets.update(dict.fromkeys(offsets, record_offset))
            for tp in offsets:
                self._pending.pop(tp, None)

    def begin(self, offsets: Offsets) -> None:
        """Record the start of an append of these offsets."""
        self._pending.update(offsets)
        self._pending_count += len(offsets)

    def written(self, offsets: Offsets, record_offset: int) -> None:
        """Record a successful append, whose batch begins at ``record_offset``."""
        for tp, offset in offsets.items():
            if tp in self._pending and self._record_offsets.get(tp, -1) < record_offset:
                self._put(tp, offset)
                self._record_offsets[tp] = record_offset
        self.failed(offsets)

    def failed(self, offsets: Offsets) -> None:
        """Record the end of an append. Later commits stay pending."""
        for tp, offset in offsets.items():
            if self._pending.get(tp) == offset:
                del self._pending[tp]
        self._pending_count -= len(offsets)
        self._forget_record_offsets()

    def begin_in_transaction(self, producer_id: int, offsets: Offsets) -> None:
        self._transactional.begin(producer_id, offsets.keys())

    def written_in_transaction(self, producer_id: int, offsets: Offsets, record_offset: int) -> None:
        """Record a successful append. Its offsets take effect when the transaction commits."""
        marker = self._transactional.written(producer_id, offsets, record_offset)
        if marker is not None:
            self._end(marker, {tp: Written(offset, record_offset) for tp, offset in offsets.items()})

    def failed_in_transaction(self, producer_id: int, offsets: Offsets) -> None:
        """Record a failed append. The client gets an error and will not commit."""
        self._transactional.failed(producer_id, offsets.keys())
        self._forget_record_offsets()

    def end_transaction(self, producer_id: int, marker: Marker) -> None:
        """Handle a marker: the producer's offsets take effect, except where the partition has a later one in the
        log."""
        self._end(marker, self._transactional.end(producer_id, marker))

    def has_transaction_of(self, producer_id: int) -> bool:
        """True if the producer has an open transaction or an append in progress."""
        return self._transactional.has(producer_id)

    def _end(self, marker: Marker, ended: Mapping[TopicPartition, Written]) -> None:
        for tp, (offset, record_offset) in ended.items() if marker.is_committed else ():
            if self._record_offsets.get(tp, -1) < record_offset:
                self._put(tp, offset)
                self._record_offsets[tp] = record_offset
        self._forget_record_offsets()

    def growth_bytes(self, offsets: Offsets) -> int:
        """Additional memory for these offsets, compared with the committed offsets that they replace."""
        committed = self._committed
        new_count = len(offsets.keys() - committed.keys())
        replaced = filter(None, map(committed.get, offsets))
        return OFFSET_BYTES * new_count + _metadata_bytes(offsets.values()) - _metadata_bytes(replaced)

    def _put(self, tp: TopicPartition, offset: OffsetAndMetadata) -> None:
        self.size_bytes += self.growth_bytes({tp: offset})
        self._committed[tp] = offset

    @property
    def producer_ids(self) -> list[int]:
        """Producers of open transactions with appended offsets."""
        return self._transactional.producer_ids

    def _forget_record_offsets(self) -> None:
        if not self._pending_count and not self._transactional:
            self._record_offsets.clear()

    def remove(self, tps: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Remove offsets. Returns the partitions that had an offset outside transactions."""
        removed = []
        for tp in tps:
            self._transactional.remove(tp)
            was_pending = self._pending.pop(tp, None) is not None
            before = self._committed.pop(tp, None)
            if before is not None:
                self.size_bytes -= OFFSET_BYTES + len(before.metadata)
            if before is not None or was_pending:
                removed.append(tp)
        return removed

    @property
    def tps(self) -> list[TopicPartition]:
        """All partitions with a committed or pending offset outside transactions."""
        return list(dict.fromkeys((*self._committed, *self._pending)))

    def expired(
        self,
        tps: Iterable[TopicPartition],
        wall_ms: int,
        retention_ms: int,
        *,
        unused_since_ms: int | None,
        subscribed: Collection[str] = (),
    ) -> list[TopicPartition]:
        """Partitions whose offsets have expired. Removes nothing.

        An offset that an append or open transaction may replace does not expire. Kafka 3.9 removes it; compaction may
        then remove the transaction's offset, which precedes the tombstone.

        Args:
            retention_ms: offsets.retention.minutes.
            unused_since_ms: when the group became empty (wall clock); None: count from each commit.
            subscribed: topics in use.
        """
        expired = []
        for tp in tps:
            offset = self.get(tp)
            if offset is None or tp.topic in subscribed:
                continue
            if offset.expire_timestamp_ms != NO_EXPIRY:  # for clients before 2.1
                is_over = wall_ms >= offset.expire_timestamp_ms
            else:
                since_ms = offset.commit_timestamp_ms if unused_since_ms is None else unused_since_ms
                is_over = wall_ms - since_ms >= retention_ms
            if is_over and not self.is_pending(tp):
                expired.append(tp)
        return expired
