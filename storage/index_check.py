"""Whether the indexes of a segment fit its log, looked at where damage shows: the first and the last entry.

Entries in between are compared with the batch that they name when a lookup uses them (``Segment.find``). An offset
index that lost its end only makes lookups slow. A time index that lost it would hide records from lookups and let
retention take them, so it must reach as far as the segment's last records; what lies further back is not looked at.
Tests: tests/storage/test_findings.py.
"""

import os

from kafka_zk.storage.segment import Segment


def index_problem(segment: Segment, is_final: bool) -> tuple[str, str] | None:
    """(path of the index, what is wrong with it) of a segment that holds records; None if both indexes will do.

    ``is_final``: the segment was closed, so its time index has an entry for its newest record.
    """
    if not segment.size_bytes:
        return None
    for index in (segment.offset_index, segment.time_index):
        if not os.path.exists(index.path):
            return index.path, "is missing"
    for offset, position in segment.offset_index.edges():
        if not segment.is_indexed_batch(position, offset):
            return segment.offset_index.path, f"names position {position} for offset {offset}, which does not fit"
    timestamp_ms, offset = segment.time_index.last_entry
    if not segment.is_indexed_timestamp(timestamp_ms, offset):
        return segment.time_index.path, f"names offset {offset} for timestamp {timestamp_ms}, which does not fit"
    newest_ms = segment.newest_timestamp_at_end_ms() if is_final else -1
    if newest_ms > timestamp_ms:
        return segment.time_index.path, f"ends with timestamp {timestamp_ms}, before the records' {newest_ms}"
    return None
