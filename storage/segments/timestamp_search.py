"""Finds a segment's first record at or after a timestamp.

``search_segment`` does a bounded part (``AT_ONCE``) on the calling thread and yields the rest as ``SearchWork`` for a
helper process. The helper's part is also bounded (``AT_MOST``), because a header may claim a timestamp that no record
has. At its bounds, a search returns the first offset that it did not examine, so reading from there misses no match.
Tests: tests/storage/segments/test_timestamp_search.py, tests/storage/log/test_log.py.
"""

from collections.abc import Generator, Iterator
from typing import NamedTuple

from kafka_zk.base.types import TimestampOffset
from kafka_zk.storage.files.errors import UnpacksTooBig
from kafka_zk.storage.records.record_batch import (
    HEADER_SIZE,
    MAX_UNCOMPRESSED_BYTES,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    read_header,
)
from kafka_zk.storage.records.record_stream import MAX_RECORDS, batch_chunks, walk
from kafka_zk.storage.records.varint import as_long
from kafka_zk.storage.segments.segment import Segment
from kafka_zk.storage.segments.segment_scan import iter_spans, read_range


class SearchBounds(NamedTuple):
    """Limits of a search: batch headers, records, and uncompressed bytes."""

    batch_count: int
    record_count: int
    size_bytes: int


AT_ONCE = SearchBounds(300, 2_000, 128 * 1024)
AT_MOST = SearchBounds(2_000_000, MAX_RECORDS, MAX_UNCOMPRESSED_BYTES)


class Beyond(NamedTuple):
    """The search reached its bounds. ``position``: the first unexamined batch. ``answer``: the result if the search
    ends here."""

    position: int
    answer: TimestampOffset


Result = TimestampOffset | Beyond | None
"""The record found; None if there is none."""


class SearchWork(NamedTuple):
    """A search from ``position``, a batch boundary, to ``end`` of a segment file."""

    position: int
    end: int
    timestamp_ms: int
    start_offset: int

    def run_on(self, descriptor: int) -> Result:
        """Run the whole search, in a helper process or here. Raises: CorruptRecord, InvalidRecord, OSError."""
        return self.within(AT_MOST, descriptor)

    def within(self, bounds: SearchBounds, descriptor: int) -> Result:
        batches_left, records_left, bytes_left = bounds
        for span in iter_spans(descriptor, self.position, self.end):
            batches_left -= 1
            if span.last_offset < self.start_offset or span.magic != 2:
                continue
            header = read_header(read_range(descriptor, span.position, HEADER_SIZE))
            if header.max_timestamp >= self.timestamp_ms:
                records_left -= header.record_count
                bytes_left -= span.size_bytes
            if batches_left < 0 or records_left < 0 or bytes_left < 0:
                return self._beyond(span.position, header)
            if header.max_timestamp < self.timestamp_ms:
                continue
            counter = _Counter()
            batch = read_range(descriptor, span.position, span.size_bytes)
            try:
                found = self._in_batch(header, counter.count(batch_chunks(batch, header, bytes_left)))
            except UnpacksTooBig:
                return self._beyond(span.position, header)
            if found is not None:
                return found
            bytes_left -= counter.size_bytes
        return None

    def _beyond(self, position: int, header: BatchHeader) -> Beyond:
        timestamp_ms = max(header.max_timestamp, self.timestamp_ms)
        offset = max(header.base_offset, self.start_offset)
        return Beyond(position, TimestampOffset(timestamp_ms, offset, header.partition_leader_epoch))

    def _in_batch(self, header: BatchHeader, chunks: Iterator[bytes]) -> TimestampOffset | None:
        wanted_ms = self.timestamp_ms
        first_delta = self.start_offset - header.base_offset
        base_ms = header.base_timestamp
        has_append_time = header.attributes & TIMESTAMP_TYPE_FLAG
        for _, _, timestamp_delta, offset_delta, _, _ in walk(chunks, header.record_count):
            if offset_delta < first_delta:
                continue
            timestamp_ms = header.max_timestamp if has_append_time else as_long(base_ms + timestamp_delta)
            if timestamp_ms >= wanted_ms:
                offset = header.base_offset + offset_delta
                return TimestampOffset(timestamp_ms, offset, header.partition_leader_epoch)
        return None


class _Counter:
    size_bytes = 0

    def count(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.size_bytes += len(chunk)
            yield chunk


Search = Generator[tuple[Segment, SearchWork] | None, Result, TimestampOffset | None]
"""A resumable search: it yields work and is resumed with the result, or yields None to pause."""


def search_segment(segment: Segment, work: SearchWork) -> Search:
    """Yields the work beyond ``AT_ONCE``."""
    result = work.within(AT_ONCE, segment.fileno())
    if isinstance(result, Beyond):
        segment.pin_for_reader()  # retention may delete the segment before the work runs
        try:
            result = yield segment, work._replace(position=result.position)
        finally:
            segment.unpin()
    return result.answer if isinstance(result, Beyond) else result
