"""Finding in a log's segments: the slice for a fetch, the offset for a timestamp.

Where a slice ended, the next fetch of the same consumer begins: these positions are remembered, so that a consumer that
reads along needs no index lookup and no header scan at its start. Tests: tests/storage/test_log.py.
"""

from bisect import bisect_right
from typing import NamedTuple

from kafka_zk.storage.segment import FileSlice, Segment
from kafka_zk.storage.timestamp_search import Search, SearchWork, search_segment

_REMEMBERED_POSITIONS = 16


class LogRead(NamedTuple):
    """The answer to one read.

    ``next_offset`` is where the next read goes on. ``too_big`` says that there is data but even the first batch is
    bigger than the limit and the caller did not want it alone.
    """

    slice: FileSlice | None
    next_offset: int
    too_big: bool


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


class LogReader:
    """Reads over a list of segments that its log goes on changing."""

    __slots__ = ("_positions", "_segments")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._positions: dict[int, tuple[Segment, int]] = {}

    def forget_positions(self) -> None:
        """Segments went away or were cut."""
        self._positions.clear()

    def slot_of(self, offset: int) -> int:
        """Index of the segment whose range holds ``offset``; 0 if it lies before all of them."""
        return max(bisect_right(self._segments, offset, key=_base_offset) - 1, 0)

    def read(self, fetch_offset: int, max_bytes: int, upper: int, end_offset: int, min_one_batch: bool) -> LogRead:
        """See ``Log.read``; ``fetch_offset < upper <= end_offset``."""
        segments = self._segments
        known = self._positions.get(fetch_offset)
        if known is not None and known[1] < known[0].size_bytes:
            segment, start = known
            is_last = segment is segments[-1]
            next_base = end_offset if is_last else segments[self.slot_of(segment.base_offset) + 1].base_offset
        else:
            slot = self.slot_of(fetch_offset)
            while True:
                segment = segments[slot]
                span = segment.find(fetch_offset)
                slot += 1
                if span is not None or slot == len(segments):
                    break
            if span is None:
                return LogRead(None, fetch_offset, False)
            start = span.position
            next_base = end_offset if slot == len(segments) else segments[slot].base_offset
        return self._slice(segment, start, fetch_offset, max_bytes, upper, next_base, min_one_batch)

    def _slice(
        self,
        segment: Segment,
        start: int,
        fetch_offset: int,
        max_bytes: int,
        upper: int,
        next_base: int,
        min_one_batch: bool,
    ) -> LogRead:
        """Cut the slice: to the segment's end, to the upper bound, to the last batch that fits."""
        end = segment.size_bytes
        next_offset = next_base
        if upper < next_base:
            next_offset = upper
            span = segment.find(upper)
            if span is not None:
                end, next_offset = span.position, span.base_offset
        if end <= start:
            return LogRead(None, fetch_offset, False)
        if end - start > max_bytes:
            boundary, offset, first_size = segment.boundary(start, start + max_bytes)
            if boundary > start:
                end, next_offset = boundary, offset
            elif not min_one_batch:
                return LogRead(None, fetch_offset, True)
            elif start + first_size < end:
                end = start + first_size
                next_offset = segment.header_at(end).base_offset
        positions = self._positions
        if len(positions) >= _REMEMBERED_POSITIONS:
            del positions[next(iter(positions))]
        positions[next_offset] = (segment, end)
        return LogRead(FileSlice(segment, start, end - start), next_offset, False)

    def offset_for_timestamp(self, timestamp_ms: int, start_offset: int) -> Search:
        """The first record at or after ``start_offset`` whose timestamp is at least ``timestamp_ms``.

        Segments may come and go while the search is suspended.
        """
        segment: Segment | None = self._segments[self.slot_of(start_offset)]
        while segment is not None:
            if segment.max_timestamp_ms >= timestamp_ms:
                position = segment.position_for_timestamp(timestamp_ms, start_offset)
                work = SearchWork(position, segment.size_bytes, timestamp_ms, start_offset)
                found = yield from search_segment(segment, work)
                if found is not None:
                    return found
            yield None
            segment = self._segment_after(segment)
        return None

    def _segment_after(self, segment: Segment) -> Segment | None:
        slot = bisect_right(self._segments, segment.base_offset, key=_base_offset)
        return self._segments[slot] if slot < len(self._segments) else None

    def max_timestamp_offset(self) -> Search:
        """The first record with the largest timestamp of all."""
        newest: Segment | None = None
        segment: Segment | None = self._segments[0]
        while segment is not None:
            if newest is None or segment.max_timestamp_ms > newest.max_timestamp_ms:
                newest = segment
            yield None
            segment = self._segment_after(segment)
        if newest is not None and newest not in self._segments:  # retention took it between two steps
            return (yield from self.max_timestamp_offset())
        if newest is None or newest.max_timestamp_ms < 0:
            return None
        span = newest.find(newest.max_timestamp_offset)
        if span is None:
            return None
        largest_ms = newest.header_at(span.position).max_timestamp
        return (
            yield from search_segment(newest, SearchWork(span.position, span.position + span.size_bytes, largest_ms, 0))
        )
