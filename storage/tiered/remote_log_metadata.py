"""The remote logs of partitions, built from the records of ``__remote_log_metadata`` in their order. Pure.

A lookup finds the segment that contains an offset of a leader epoch, as a broker does for a consumer. A segment
replaces one that was finished earlier if it contains all offsets that the earlier one has in an epoch. The replaced
segment stays listed, because its objects exist until retention deletes them.
Source: RemoteLogMetadataCache.java, RemoteLogLeaderEpochState.java@3.9.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from kafka_zk.storage.tiered.segment_metadata import (
    TRANSITIONS,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

RemoteLogRecord = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata


class _EpochSegments:
    """The readable segments of one leader epoch, by their first offset in it."""

    __slots__ = ("_highest", "_ids", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ids: dict[int, UUID] = {}
        self._highest = -1

    def add(self, start: int, end: int, segment_id: UUID) -> None:
        while self._starts and self._starts[-1] >= start and self._highest <= end:
            del self._ids[self._starts.pop()]
        if start not in self._ids:
            insort(self._starts, start)
        self._ids[start] = segment_id
        self._highest = max(self._highest, end)

    def remove(self, start: int, segment_id: UUID) -> None:
        if self._ids.get(start) == segment_id:
            del self._ids[start]
            self._starts.remove(start)

    def floor(self, offset: int) -> UUID | None:
        at = bisect_right(self._starts, offset)
        return self._ids[self._starts[at - 1]] if at else None

    def next_start(self, offset: int) -> int | None:
        at = bisect_right(self._starts, offset)
        return self._starts[at] if at < len(self._starts) else None

    def ids(self) -> Iterable[UUID]:
        return self._ids.values()

    @property
    def highest(self) -> int:
        return self._highest


class RemotePartitionLog:
    """The remote log of one partition. ``segments``: all that are not deleted yet, by id."""

    __slots__ = ("_epochs", "segments")

    def __init__(self) -> None:
        self.segments: dict[UUID, RemoteLogSegmentMetadata] = {}
        self._epochs: dict[int, _EpochSegments] = {}

    def apply(self, record: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> bool:
        """Returns False for a record that a broker drops: an illegal transition, or an update of an unknown segment."""
        key = record.segment_id.id
        known = self.segments.get(key)
        if record.state not in TRANSITIONS[None if known is None else known.state]:
            return False
        if isinstance(record, RemoteLogSegmentMetadata):
            self.segments[key] = record
            return True
        if known is None:
            return False
        now = known.updated(record)
        self._refer(now)
        if now.state is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            del self.segments[key]
        else:
            self.segments[key] = now
        return True

    def _refer(self, segment: RemoteLogSegmentMetadata) -> None:
        for epoch, start, end in segment.epoch_ranges():
            state = self._epochs.setdefault(epoch, _EpochSegments())
            if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
                state.add(start, end, segment.segment_id.id)
            else:
                state.remove(start, segment.segment_id.id)

    def find(self, epoch: int, offset: int) -> tuple[RemoteLogSegmentMetadata, int] | None:
        """The segment from which a broker reads ``offset`` of ``epoch``, and the epoch's last offset in that segment;
        None if no segment has the offset."""
        state = self._epochs.get(epoch)
        key = None if state is None else state.floor(offset)
        if key is None:
            return None
        segment = self.segments[key]
        end = next(end for each, _, end in segment.epoch_ranges() if each == epoch)
        return (segment, end) if offset <= end else None

    def next_start(self, epoch: int, offset: int) -> int | None:
        """The first offset after ``offset`` at which a segment of ``epoch`` begins; None if there is none."""
        state = self._epochs.get(epoch)
        return None if state is None else state.next_start(offset)

    def highest_offset(self, epoch: int) -> int:
        """The last offset of ``epoch`` that was ever readable, -1 if none was. Deletions do not lower it."""
        state = self._epochs.get(epoch)
        return -1 if state is None else state.highest

    def unreachable(self, epochs: Iterable[int]) -> list[RemoteLogSegmentMetadata]:
        """The finished segments that no lookup in these epochs finds, because they were replaced or are of a lost
        lineage."""
        found = {key for epoch in epochs if epoch in self._epochs for key in self._epochs[epoch].ids()}
        return [
            segment
            for key, segment in self.segments.items()
            if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED and key not in found
        ]


class RemoteLogMetadata:
    """The remote logs of all partitions whose records were applied. A log without segments is forgotten, with its
    highest offsets."""

    def __init__(self) -> None:
        self.partitions: dict[TopicIdPartition, RemotePartitionLog] = {}

    def apply(self, record: RemoteLogRecord) -> None:
        if isinstance(record, RemotePartitionDeleteMetadata):
            if record.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
                self.partitions.pop(record.tp, None)
            return
        log = self.partitions.setdefault(record.segment_id.tp, RemotePartitionLog())
        log.apply(record)
        if not log.segments:
            del self.partitions[record.segment_id.tp]


def gaps(
    log: RemotePartitionLog, lineage: Sequence[tuple[int, int]], start: int, end: int
) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of each range of offsets in ``[start, end)`` that no lookup finds.

    ``lineage``: (epoch, its start offset) in the leader's log, ascending. Older offsets also belong to the first epoch.
    """
    starts = [each for _, each in lineage[1:]]
    offset, missing_from = start, None
    while offset < end:
        at = bisect_right(starts, offset)
        epoch = lineage[at][0]
        epoch_end = min(end, starts[at]) if at < len(starts) else end
        following = log.next_start(epoch, offset)  # a segment that begins here hides the rest of a longer one
        until = epoch_end if following is None else min(following, epoch_end)
        found = log.find(epoch, offset)
        if found is None:
            missing_from = offset if missing_from is None else missing_from
            offset = until
            continue
        if missing_from is not None:
            yield missing_from, offset - 1
            missing_from = None
        offset = min(found[1] + 1, until)
    if missing_from is not None:
        yield missing_from, end - 1
