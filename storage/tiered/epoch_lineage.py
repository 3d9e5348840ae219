"""The leader epochs of a log, and which of their offsets the remote log has. Pure.

A lineage is a list of (epoch, its first offset), ascending, as in ``leader-epoch-checkpoint``. Two brokers that have an
offset in the same epoch have the same record there. After an unclean election, the remote log may also have segments
with epochs, or last parts of epochs, that the new leader's lineage lacks; these parts are not read. Brokers use this
module; ``kafka-zk tier check`` uses ``remote_log_metadata.gaps``.
Source: RemoteLogManager.isRemoteSegmentWithinLeaderEpochs, findHighestRemoteOffset@3.9.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata

Lineage = Sequence[tuple[int, int]]


class RemoteExtent(NamedTuple):
    """Read the offsets from ``first`` to ``last`` (inclusive) in ``segment``. The segment may contain offsets after
    ``last``, which do not belong to the lineage."""

    segment: RemoteLogSegmentMetadata
    first: int
    last: int


def epochs_within(lineage: Lineage, start: int, end: int) -> tuple[tuple[int, int], ...]:
    """(Epoch, its first offset in the segment) of a segment that has the offsets ``start`` to ``end`` (inclusive).

    Epochs without records are left out. Empty if the lineage begins after ``end``.
    """
    found: list[tuple[int, int]] = []
    for epoch, epoch_start in lineage:
        if epoch_start > end:
            break
        if found and found[-1][1] >= epoch_start:
            found.pop()
        found.append((epoch, max(start, epoch_start)))
    return tuple(found)


def locate(log: RemotePartitionLog, lineage: Lineage, offset: int, end: int) -> RemoteExtent | None:
    """The segment that has ``offset``, and the last offset of the same epoch to read from it; None if no readable
    segment has ``offset``.

    ``end``: a limit, at most the log end offset: after an unclean election, the log may end within a segment and have
    no later epoch yet.
    """
    at = bisect_right(lineage, offset, key=lambda entry: entry[1])
    found = log.find(lineage[at - 1][0], offset) if at and offset < end else None
    if found is None:
        return None
    segment, last = found
    epoch_end = lineage[at][1] if at < len(lineage) else end
    return RemoteExtent(segment, offset, min(last, epoch_end - 1, end - 1))


def extents(log: RemotePartitionLog, lineage: Lineage, start: int, end: int) -> Iterator[RemoteExtent]:
    """Yield the extents of the remote log within ``[start, end)``, ascending, without overlaps.

    These are the offsets that ``locate`` finds. A segment that begins within a longer one hides the rest of it.
    """
    offset = start
    while offset < end:
        found = locate(log, lineage, offset, end)
        following = _next_start(log, lineage, offset)
        until = end if following is None else min(end, following)
        if found is not None:
            last = min(found.last, until - 1)
            yield RemoteExtent(found.segment, offset, last)
            until = last + 1
        offset = until


def _next_start(log: RemotePartitionLog, lineage: Lineage, offset: int) -> int | None:
    """The first offset after ``offset`` at which an epoch or a segment of its epoch begins; None if there is none."""
    at = bisect_right(lineage, offset, key=lambda entry: entry[1])
    starts = [lineage[at][1]] if at < len(lineage) else []
    if at and (segment_start := log.next_start(lineage[at - 1][0], offset)) is not None:
        starts.append(segment_start)
    return min(starts, default=None)


def is_covered(log: RemotePartitionLog, lineage: Lineage, start: int, end: int) -> bool:
    """True if each offset in ``[start, end)`` can be read from the remote log."""
    offset = start
    for extent in extents(log, lineage, start, end):
        if extent.first != offset:
            return False
        offset = extent.last + 1
    return offset >= end


def latest_tiered_offset(log: RemotePartitionLog, lineage: Lineage, log_end_offset: int) -> int:
    """The last offset of the lineage that was ever copied, for ListOffsets -5; -1 if there is none."""
    epoch_end = log_end_offset
    for epoch, epoch_start in reversed(lineage):
        highest = log.highest_offset(epoch)
        if highest >= 0:
            return min(highest, epoch_end - 1)
        epoch_end = epoch_start
    return -1


def first_readable_offset(
    log: RemotePartitionLog, lineage: Lineage, log_start_offset: int, local_start_offset: int
) -> int:
    """The log start offset that a new leader should have, never below its present one.

    The previous leader may have deleted remote segments, and failed before its followers adopted the resulting log
    start offset. Call this only with complete metadata, because a log start offset never moves back. If the result is
    above the leader's high watermark, wait until the high watermark reaches it.

    A lineage that begins later than the log was rebuilt from local segments, and does not show which older segments are
    readable. In this case, the log start offset stays, because retention would delete everything before a later one.
    Source: RemoteLogManager.findLogStartOffset@3.9.
    """
    if not lineage or lineage[0][1] > log_start_offset:
        return log_start_offset
    first = next(extents(log, lineage, log_start_offset, local_start_offset), None)
    return max(log_start_offset, local_start_offset if first is None else first.first)
