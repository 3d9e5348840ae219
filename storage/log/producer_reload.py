"""Rebuilds a log's producers and aborted transactions after a start or truncation.

The log after the newest valid snapshot is replayed, which also corrects the transaction indexes.
Source: UnifiedLog.rebuildProducerState, LogSegment.updateProducerState@3.9.
Tests: tests/storage/log/test_log_transactions.py.
"""

from collections.abc import Iterator

from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.log.producer_snapshot import ProducedBatch, ProducerEntry
from kafka_zk.storage.log.producer_state import ProducerState
from kafka_zk.storage.log.recovery_work import ReplayWork, Steps
from kafka_zk.storage.records.record_batch import CONTROL_FLAG, BatchHeader, last_sequence
from kafka_zk.storage.segments.log_segments import LogSegments
from kafka_zk.storage.segments.segment import Segment

RECALLED_BYTES = 1024 * 1024
"""How much of the log is searched for batches that a snapshot lacks."""
RECALLED_HEADERS = 1_000_000
"""Maximum number of headers read for all producers together, at 1.5 µs each; otherwise a client could cause searches
for thousands of producer ids."""


def reload_producers(
    producers: ProducerState,
    segments: LogSegments,
    log_start_offset: int,
    log_end_offset: int,
    rebuild_from: int | None = None,
) -> Steps[None]:
    """Rebuild the producers; the replay may run in another process.

    ``rebuild_from``: the offset from which transaction indexes are unreliable.
    """
    producers.recall = EarlierBatches(segments)
    low = max(log_start_offset, segments[0].base_offset - 1)  # a tiered log can use the snapshot at its base offset
    start_offset = producers.load_snapshot(segments.directory, low, log_end_offset, rebuild_from)
    if start_offset >= log_end_offset:
        if rebuild_from is not None:
            segments.replace_aborted(log_end_offset, ())
        return
    following = segments[segments.slot_of(max(start_offset, segments[0].base_offset)) :]
    replayed = yield ReplayWork(
        segments.directory,
        tuple((segment.base_offset, segment.size_bytes) for segment in following),
        start_offset,
        log_end_offset,
        list(producers.producers.values()),
        sum(segment.size_bytes for segment in following),
    )
    if replayed is None:
        replayed = producers.replay(following, start_offset, log_end_offset)
    else:
        producers.take(replayed)
    segments.replace_aborted(start_offset, replayed.aborted)


class EarlierBatches:
    """Reads the batches that a snapshot lacks, up to RECALLED_HEADERS headers. After that it returns nothing, like
    Kafka."""

    def __init__(self, segments: LogSegments) -> None:
        self._segments = segments
        self._headers_left = RECALLED_HEADERS

    def __call__(self, entry: ProducerEntry, offset: int) -> list[ProducedBatch]:
        """The readable batches of the producer's epoch in the ``RECALLED_BYTES`` before ``offset``, oldest first."""
        found: list[ProducedBatch] = []
        for header in _headers_before(self._segments, offset) if self._headers_left else ():
            if not self._headers_left:
                return []
            self._headers_left -= 1
            is_theirs = (header.producer_id, header.producer_epoch) == (entry.producer_id, entry.producer_epoch)
            if is_theirs and not header.attributes & CONTROL_FLAG:
                end = last_sequence(header.base_sequence, header.last_offset_delta)
                found.append((header.base_sequence, end, header.base_offset, header.last_offset, header.max_timestamp))
        return found


def _headers_before(segments: LogSegments, offset: int) -> Iterator[BatchHeader]:
    *before, segment = segments[: segments.slot_of(offset) + 1]
    at = segment.position_for(offset)
    parts = [(segment, max(0, at - RECALLED_BYTES))]
    missing_bytes = RECALLED_BYTES - at
    while before and missing_bytes > 0:
        segment = before.pop()
        parts.append((segment, max(0, segment.size_bytes - missing_bytes)))
        missing_bytes -= segment.size_bytes
    for segment, start in reversed(parts):
        yield from _headers(segment, start, offset)


def _headers(segment: Segment, start: int, offset: int) -> Iterator[BatchHeader]:
    try:
        for span in segment.spans(segment.offset_index.floor_position(start)):
            if span.base_offset >= offset:
                return
            if span.magic == 2:
                yield segment.header_at(span.position)
    except CorruptRecord:  # readers report the damage
        return
