"""A snapshot of one replica's log, from which copying and deletion of its segments are decided. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from kafka_zk.storage.tiered.epoch_lineage import Lineage


class LocalSegment(NamedTuple):
    """``next_offset``: the base offset of the next segment, or the log end offset. ``max_timestamp_ms``: from
    ``Segment.largest_timestamp_ms``, which uses the file's time if the records have no timestamps."""

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp_ms: int


class TieredReplica(NamedTuple):
    """``segments``: the local segments, oldest first, at least one; the last is active.

    The offsets from ``log_start_offset`` to the first local one are in remote storage only.
    """

    lineage: Lineage
    log_start_offset: int
    segments: Sequence[LocalSegment]

    @property
    def log_end_offset(self) -> int:
        return self.segments[-1].next_offset

    def local_bytes(self, start: int, end: int) -> int:
        """Approximate size of the local records in ``[start, end)``."""
        total = 0
        for base, following, size_bytes, _ in self.segments:
            shared_count = min(end, following) - max(start, base)
            if shared_count > 0:
                total += size_bytes * shared_count // (following - base)
        return total
