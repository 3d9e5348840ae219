"""The offsets that one group has committed, and those whose records are being written.

Two commits of a partition may be written at the same time: what counts is their order in the log. Pure.
Source: GroupMetadata.scala@3.9 (onOffsetCommitAppend, removeExpiredOffsets), KIP-211 (retention).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from kafka_zk.group.records import NO_EXPIRY, OffsetAndMetadata
from kafka_zk.storage.types import TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Committed(NamedTuple):
    """``record_offset``: where its batch begins in the log."""

    record_offset: int
    offset: OffsetAndMetadata


class GroupOffsets:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, Committed] = {}
        self._pending: dict[TopicPartition, OffsetAndMetadata] = {}

    def __len__(self) -> int:
        return len(self._committed)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._committed)

    def __bool__(self) -> bool:
        """Whether anything is stored, or about to be."""
        return bool(self._committed or self._pending)

    def get(self, tp: TopicPartition) -> OffsetAndMetadata | None:
        """What is committed, if anything."""
        committed = self._committed.get(tp)
        return None if committed is None else committed.offset

    def among(self, tps: frozenset[TopicPartition]) -> set[TopicPartition]:
        """Those of them for which something is committed."""
        return self._committed.keys() & tps

    def is_pending(self, tp: TopicPartition) -> bool:
        """Whether a commit is being written: what is committed now may be old in a moment."""
        return tp in self._pending

    def load(self, tp: TopicPartition, committed: Committed) -> None:
        """What was found in the log."""
        self._committed[tp] = committed

    def stored(self, offsets: Offsets, record_offset: int) -> None:
        """They are in the log, at its end, and nobody had to wait for that."""
        for tp, offset in offsets.items():
            self._committed[tp] = Committed(record_offset, offset)
        if self._pending:  # earlier ones, which count no longer
            for tp in offsets:
                self._pending.pop(tp, None)

    def begin(self, offsets: Offsets) -> None:
        """These are being written."""
        self._pending.update(offsets)

    def written(self, offsets: Offsets, record_offset: int) -> None:
        """They are in the log, at ``record_offset``."""
        for tp, offset in offsets.items():
            known = self._committed.get(tp)
            if tp in self._pending and (known is None or known.record_offset < record_offset):
                self._committed[tp] = Committed(record_offset, offset)
        self.failed(offsets)

    def failed(self, offsets: Offsets) -> None:
        """They are written no longer; a later commit of the same partition still may be."""
        for tp, offset in offsets.items():
            if self._pending.get(tp) == offset:
                del self._pending[tp]

    def remove(self, tps: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forget what is committed and pending for them; returns those for which something was."""
        removed = []
        for tp in tps:
            was_pending = self._pending.pop(tp, None) is not None
            if self._committed.pop(tp, None) is not None or was_pending:
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

        Args:
            retention_ms: offsets.retention.minutes.
            unused_since_ms: since when the whole group is unused; None counts from each commit.
            subscribed: topics whose offsets are in use.
        """
        expired = []
        for tp in tps:
            offset = self.get(tp)
            if offset is None or tp.topic in subscribed or tp in self._pending:
                continue
            if offset.expire_timestamp_ms != NO_EXPIRY:  # as clients before 2.1 ask for
                is_over = wall_ms >= offset.expire_timestamp_ms
            else:
                since_ms = offset.commit_timestamp_ms if unused_since_ms is None else unused_since_ms
                is_over = wall_ms - since_ms >= retention_ms
            if is_over:
                expired.append(tp)
        return expired
