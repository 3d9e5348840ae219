"""Checks at a start whether a segment's indexes match its file.

Tests: tests/storage/segments/test_recovery.py, tests/storage/test_damaged_files.py.
"""

from contextlib import suppress

from kafka_zk.storage.files import files
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.segments import segment_scan
from kafka_zk.storage.segments.segment import MAX_RELATIVE_OFFSET, Segment
from kafka_zk.storage.segments.time_index import NO_TIMESTAMP


def index_problem(segment: Segment, is_final: bool) -> tuple[str, str] | None:
    """(Path of the index, problem) for a segment with records; None if both indexes are usable.

    Damage shows in the first or last entry, so only these are checked; each lookup compares its entry with the batch
    (``Segment.find``). An offset index that lost its end only makes lookups slow. A time index that lost its end would
    hide records from lookups and let retention delete them, so it must cover the last records.

    Args:
        is_final: the segment was closed, with a time index entry for its newest record.
    """
    if not segment.size_bytes:
        return None
    for index in (segment.offset_index, segment.time_index):
        if not files.exists(index.path):
            return index.path, "is missing"
    for offset, position in segment.offset_index.edges():
        if not segment.is_indexed_batch(position, offset):
            return segment.offset_index.path, f"names position {position} for offset {offset}, unlike the log"
    timestamp_ms, offset = segment.time_index.last_entry
    if not segment.is_indexed_timestamp(timestamp_ms, offset):
        return segment.time_index.path, f"names offset {offset} for timestamp {timestamp_ms}, unlike the log"
    newest_ms = _newest_timestamp_at_end_ms(segment) if is_final else -1
    if newest_ms > timestamp_ms:
        return segment.time_index.path, f"ends with timestamp {timestamp_ms}, before the records' {newest_ms}"
    return None


def _newest_timestamp_at_end_ms(segment: Segment) -> int:
    """The largest timestamp of the readable batches from the last indexed batch on; -1 if there is none."""
    newest_ms = NO_TIMESTAMP
    with suppress(CorruptRecord):
        for span in segment.spans(segment.position_for(segment.base_offset + MAX_RELATIVE_OFFSET)):
            if span.magic == 2:
                newest_ms = max(newest_ms, segment.header_at(span.position).max_timestamp)
    return newest_ms


def next_offset(segment: Segment) -> int:
    """The offset after the last complete batch; the base offset if the segment is empty.

    Raises: CorruptRecord if the index does not match, or no batch follows its last entry.
    """
    following = segment.base_offset
    last_entry = segment.offset_index.last_entry
    for span in segment.spans(last_entry[1]):
        following = span.last_offset + 1
        if span.position == last_entry[1] and last_entry[1] and not segment_scan.is_indexed(span, last_entry[0]):
            raise CorruptRecord(f"{segment.path}: the last index entry does not fit the batch at {span.position}")
    if last_entry[1] and following <= last_entry[0]:
        raise CorruptRecord(f"{segment.path}: the last index entry points to position {last_entry[1]}, after the end")
    return following
