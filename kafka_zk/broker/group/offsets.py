"""The offsets that one group has committed, and those whose records are being written.

Two commits of a partition may be written at the same time: what counts is their order in the log. Those of
transactions (KIP-98, KIP-447) wait for the marker that ends them; then, too, the order in the log counts, not that of
the ends. Pure.
Source: GroupMetadata.scala@3.9 (onOffsetCommitAppend, removeExpiredOffsets), KIP-211 (retention).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.records import NO_EXPIRY, OffsetAndMetadata
from kafka_zk.broker.group.transactional_offsets import Marker, TransactionalOffsets, Written

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

OFFSET_BYTES = 400  # of memory, measured, beside the metadata
_METADATA = attrgetter("metadata")


def _metadata_bytes(offsets: Iterable[OffsetAndMetadata]) -> int:
    """How long their metadata is. A loop in C: a commit of many partitions pays for each of them."""
    return sum(map(len, map(_METADATA, offsets)))


@dataclass
class OpenTransactions:
    """What is in the log for one group: ``offsets`` by producer id, and, of the same partitions, where the batch of
    what is ``committed`` begins."""

    offsets: dict[int, dict[TopicPartition, Written]] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)


class GroupOffsets:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.size_bytes = 0  # of memory, of what is committed
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._pending: dict[TopicPartition, OffsetAndMetadata] = {}
        self._pending_count = 0  # of all commits that are being written, also of the same partition
        self._record_offsets: dict[TopicPartition, int] = {}  # of what is committed, since others may become so
        self._transactional = TransactionalOffsets()

    def __len__(self) -> int:
        return len(self._committed)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._committed)

    def __bool__(self) -> bool:
        """Whether anything is stored, or about to be."""
        return bool(self._committed or self._pending or self._transactional)

    def get(self, tp: TopicPartition) -> OffsetAndMetadata | None:
        """What is committed, if anything."""
        return self._committed.get(tp)

    def among(self, tps: frozenset[TopicPartition]) -> set[TopicPartition]:
        """Those of them for which something is committed."""
        return self._committed.keys() & tps

    def is_pending(self, tp: TopicPartition) -> bool:
        """Whether a commit is being written: what is committed now may be old in a moment."""
        return tp in self._pending or tp in self._transactional

    def load(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """What was found in the log; kept as it is."""
        self._committed = offsets
        self.size_bytes = OFFSET_BYTES * len(offsets) + _metadata_bytes(offsets.values())

    def load_open(self, open_transactions: "OpenTransactions") -> None:
        """What transactions without an end have in the log."""
        for producer_id, offsets in open_transactions.offsets.items():
            for tp, written in offsets.items():
                self._transactional.load(producer_id, {tp: written.offset}, written.record_offset)
        self._record_offsets.update(open_transactions.committed)

    def stored(self, offsets: Offsets, record_offset: int) -> None:
        """They are in the log, at its end (``record_offset``), and the append took no time."""
        self.size_bytes += self.growth_bytes(offsets)
        self._committed.update(offsets)
        if self._pending_count or self._transactional:  # of earlier ones, which count no longer
            self._record_offsets.update(dict.fromkeys(offsets, record_offset))
            for tp in offsets:
                self._pending.pop(tp, None)

    def begin(self, offsets: Offsets) -> None:
        """These are being written."""
        self._pending.update(offsets)
        self._pending_count += len(offsets)

    def written(self, offsets: Offsets, record_offset: int) -> None:
        """They are in the log, in the batch that begins at ``record_offset``."""
        for tp, offset in offsets.items():
            if tp in self._pending and self._record_offsets.get(tp, -1) < record_offset:
                self._put(tp, offset)
                self._record_offsets[tp] = record_offset
        self.failed(offsets)

    def failed(self, offsets: Offsets) -> None:
        """They are written no longer; a later commit of the same partition still may be."""
        for tp, offset in offsets.items():
            if self._pending.get(tp) == offset:
                del self._pending[tp]
        self._pending_count -= len(offsets)
        self._forget_record_offsets()

    def begin_in_transaction(self, producer_id: int, offsets: Offsets) -> None:
        """These are being written in a transaction."""
        self._transactional.begin(producer_id, offsets.keys())

    def written_in_transaction(self, producer_id: int, offsets: Offsets, record_offset: int) -> None:
        """They are in the log and count when the transaction is committed."""
        marker = self._transactional.written(producer_id, offsets, record_offset)
        if marker is not None:
            self._end(marker, {tp: Written(offset, record_offset) for tp, offset in offsets.items()})

    def failed_in_transaction(self, producer_id: int, offsets: Offsets) -> None:
        """They are not in the log; the client hears of it, and will not commit."""
        self._transactional.failed(producer_id, offsets.keys())
        self._forget_record_offsets()

    def end_transaction(self, producer_id: int, marker: Marker) -> None:
        """The marker is in the log. A commit counts unless a later one of its partition counts already."""
        self._end(marker, self._transactional.end(producer_id, marker))

    def has_transaction_of(self, producer_id: int) -> bool:
        """Whether something of the producer waits for a marker, or is being written."""
        return self._transactional.has(producer_id)

    def _end(self, marker: Marker, ended: Mapping[TopicPartition, Written]) -> None:
        for tp, (offset, record_offset) in ended.items() if marker.is_committed else ():
            if self._record_offsets.get(tp, -1) < record_offset:
                self._put(tp, offset)
                self._record_offsets[tp] = record_offset
        self._forget_record_offsets()

    def growth_bytes(self, offsets: Offsets) -> int:
        """How much more memory these take than what is committed for the same partitions."""
        committed = self._committed
        new_count = len(offsets.keys() - committed.keys())
        replaced = filter(None, map(committed.get, offsets))
        return OFFSET_BYTES * new_count + _metadata_bytes(offsets.values()) - _metadata_bytes(replaced)

    def _put(self, tp: TopicPartition, offset: OffsetAndMetadata) -> None:
        self.size_bytes += self.growth_bytes({tp: offset})
        self._committed[tp] = offset

    @property
    def producer_ids(self) -> list[int]:
        """Of the transactions that have not ended here."""
        return self._transactional.producer_ids

    def _forget_record_offsets(self) -> None:
        if not self._pending_count and not self._transactional:
            self._record_offsets.clear()

    def remove(self, tps: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forget what is committed and pending for them; returns those for which something was."""
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
        """All partitions for which something is committed or being written."""
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
        """Those of them whose offset is older than it may get; it is not removed here.

        An offset is kept while a pending commit or an open transaction is about to replace it. Kafka 3.9 removes it,
        and compaction may then remove the transaction's offset, too, since it precedes the tombstone.

        Args:
            retention_ms: offsets.retention.minutes.
            unused_since_ms: since when the whole group is unused; None counts from each commit.
            subscribed: topics whose offsets are in use.
        """
        expired = []
        for tp in tps:
            offset = self.get(tp)
            if offset is None or tp.topic in subscribed:
                continue
            if offset.expire_timestamp_ms != NO_EXPIRY:  # as clients before 2.1 ask for
                is_over = wall_ms >= offset.expire_timestamp_ms
            else:
                since_ms = offset.commit_timestamp_ms if unused_since_ms is None else unused_since_ms
                is_over = wall_ms - since_ms >= retention_ms
            if is_over and not self.is_pending(tp):
                expired.append(tp)
        return expired
