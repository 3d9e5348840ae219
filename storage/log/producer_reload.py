"""What a log knows of its producers and of aborted transactions, read anew: after a start and after a truncation.

The newest snapshot that still holds is loaded, and what follows it is replayed. A replay meets the markers, so the
transaction indexes of that part of the log are brought into line with it, too.
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
"""So much of the log is looked through for batches that a snapshot does not have: a client has few under way."""
RECALLED_HEADERS = 1_000_000
"""So many batches are looked at for all producers together, some 1.5 µs each: a client may have thousands of producer
ids, each with a sequence that does not fit."""


def reload_producers(
    producers: ProducerState,
    segments: LogSegments,
    log_start_offset: int,
    log_end_offset: int,
    rebuild_from: int | None = None,
) -> Steps[None]:
    """The replay may be done elsewhere. ``rebuild_from``: the transaction indexes cannot be relied on from there on."""
    producers.recall = EarlierBatches(segments)
    start_offset = producers.load_snapshot(segments.directory, log_start_offset, log_end_offset, rebuild_from)
    if start_offset >= log_end_offset:
        if rebuild_from is not None:
            segments.replace_aborted(log_end_offset, ())
        return
    following = segments[segments.slot_of(start_offset) :]
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
    """Reads what the snapshot does not have, for RECALLED_HEADERS; from then on nothing, as in Kafka."""

    def __init__(self, segments: LogSegments) -> None:
        self._segments = segments
        self._headers_left = RECALLED_HEADERS

    def __call__(self, entry: ProducerEntry, offset: int) -> list[ProducedBatch]:
        """The producer's batches of its epoch within ``RECALLED_BYTES`` before ``offset``, oldest first, but for what
        cannot be read."""
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
    except CorruptRecord:  # its readers find out
        return
