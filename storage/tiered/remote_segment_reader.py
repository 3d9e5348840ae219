"""Reads remote segments: records by offset and by timestamp, and aborted transactions.

All methods block, and may run on several threads at a time. Recently used indexes are kept in memory.
Source: RemoteLogManager.read, lookupTimestamp, collectAbortedTransactions, RemoteIndexCache@3.9.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import UUID

from kafka_zk.base.types import TimestampOffset
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.records.record_batch import HEADER_SIZE, BatchHeader, check_crc, iter_batches, read_header
from kafka_zk.storage.records.record_decoder import decode_records
from kafka_zk.storage.segments.offset_index import parse_offset_index
from kafka_zk.storage.segments.time_index import iter_time_index, valid_time_index
from kafka_zk.storage.segments.transaction_index import AbortedTransaction, decode_transaction_index
from kafka_zk.storage.tiered.epoch_lineage import RemoteExtent
from kafka_zk.storage.tiered.object_store import NoSuchObject
from kafka_zk.storage.tiered.recent_values import RecentValues
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata
from kafka_zk.storage.tiered.segment_storage import SegmentPart, SegmentStorage

_MOST_INDEX_BYTES = 16 << 20
_CHUNK_BYTES = 256 << 10
_POSITION_MASK = 0xFFFFFFFF


class RemoteIndexCache:
    """Keeps the most recently used parts of segments in memory, up to ``max_bytes``, which may change. A part that does
    not exist counts as empty."""

    def __init__(self, storage: SegmentStorage, max_bytes: Callable[[], int]) -> None:
        self._storage = storage
        self._kept: RecentValues[tuple[UUID, SegmentPart], bytes] = RecentValues(max_bytes)

    def get(self, segment: RemoteLogSegmentMetadata, part: SegmentPart) -> bytes:
        """Raises: ObjectStoreError; NoSuchObject if a part that every segment has is missing."""
        key = segment.segment_id.id, part
        data = self._kept.get(key)
        if data is None:
            data = self._read(segment, part)
            self._kept.keep(key, data, len(data))
        return data

    def _read(self, segment: RemoteLogSegmentMetadata, part: SegmentPart) -> bytes:
        try:
            return self._storage.read_part(segment, part, _MOST_INDEX_BYTES)
        except NoSuchObject:
            if part is not SegmentPart.TRANSACTION_INDEX:
                raise
            return b""


class RemoteSegmentReader:
    """All methods raise ObjectStoreError, and CorruptRecord for damaged batches."""

    def __init__(self, storage: SegmentStorage, cache: RemoteIndexCache) -> None:
        self._storage = storage
        self._cache = cache

    def read(self, extent: RemoteExtent, max_bytes: int) -> bytes:
        """Whole batches, beginning with the one that contains the extent's first offset; at most ``max_bytes`` unless
        the first one is larger. Empty if the segment has no records from there to the extent's end."""
        segment, offset, last = extent
        position, header = self._find(segment, offset)
        if header is None or header.last_offset > last:
            return b""
        data = self._storage.read(segment, position, max(header.size_bytes, min(max_bytes, segment.size_bytes)))
        end = 0
        for at, each in iter_batches(data):
            check_crc(data, at, each)
            if each.last_offset > last:
                break
            end = at + each.size_bytes
        if not end:
            raise CorruptRecord(f"segment {segment.start_offset}: no whole batch at position {position}")
        return data[:end]

    def offset_for_timestamp(self, extents: Iterable[RemoteExtent], timestamp_ms: int) -> TimestampOffset | None:
        """The first record with at least this timestamp in these extents, which are searched in order; None if there is
        none."""
        for segment, first, last in extents:
            if segment.max_timestamp_ms < timestamp_ms:
                continue
            entries = iter_time_index(
                valid_time_index(self._cache.get(segment, SegmentPart.TIME_INDEX)), segment.start_offset
            )
            before = [offset for entry_ms, offset in entries if entry_ms < timestamp_ms]
            for data, at, header in self._batches(segment, max([first, *before])):
                if header.base_offset > last:
                    break
                if header.max_timestamp < timestamp_ms:
                    continue
                for record in decode_records(data, at):
                    if record.timestamp_ms >= timestamp_ms and first <= record.offset <= last:
                        return TimestampOffset(record.timestamp_ms, record.offset, header.partition_leader_epoch)
        return None

    def aborted_transactions(
        self, segments: Sequence[RemoteLogSegmentMetadata], start_offset: int, end_offset: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """Aborted transactions with records in ``[start_offset, end_offset)``, and whether later segments can be
        skipped. ``segments``: the segment with the records, and the following ones."""
        found = []
        for segment in segments:
            for entry in decode_transaction_index(self._cache.get(segment, SegmentPart.TRANSACTION_INDEX)):
                if entry.last_offset >= start_offset and entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_offset >= start_offset and entry.last_stable_offset >= end_offset:
                    return found, True
        return found, False

    def _find(self, segment: RemoteLogSegmentMetadata, offset: int) -> tuple[int, BatchHeader | None]:
        """Position and header of the first batch that ends at or after ``offset``."""
        position = self._position_for(segment, offset)
        while position < segment.size_bytes:
            data = self._storage.read(segment, position, _CHUNK_BYTES)
            at = 0
            while len(data) - at >= HEADER_SIZE:
                header = _sound(read_header(data, at), segment, position + at)
                if header.last_offset >= offset:
                    return position + at, header
                at += header.size_bytes
            if not at:
                raise CorruptRecord(f"segment {segment.start_offset} ends at position {position}")
            position += at
        return position, None

    def _batches(self, segment: RemoteLogSegmentMetadata, offset: int) -> Iterator[tuple[bytes, int, BatchHeader]]:
        """(Data, position in the data, header) of the batches, beginning with the one that contains ``offset``."""
        position, header = self._find(segment, offset)
        while header is not None and position < segment.size_bytes:
            data = self._storage.read(segment, position, max(_CHUNK_BYTES, header.size_bytes))
            end = 0
            for at, each in iter_batches(data):
                yield data, at, each
                end = at + each.size_bytes
            if not end:
                raise CorruptRecord(f"segment {segment.start_offset}: no whole batch at position {position}")
            position += end
            rest = data[end : end + HEADER_SIZE]
            if len(rest) < HEADER_SIZE:
                rest = self._storage.read(segment, position, HEADER_SIZE)
            header = _sound(read_header(rest), segment, position) if len(rest) == HEADER_SIZE else None

    def _position_for(self, segment: RemoteLogSegmentMetadata, offset: int) -> int:
        entries = parse_offset_index(self._cache.get(segment, SegmentPart.OFFSET_INDEX))
        slot = bisect_right(entries, max(0, offset - segment.start_offset) << 32 | _POSITION_MASK)
        return entries[slot - 1] & _POSITION_MASK if slot else 0


def _sound(header: BatchHeader, segment: RemoteLogSegmentMetadata, position: int) -> BatchHeader:
    is_inside = HEADER_SIZE <= header.size_bytes <= segment.size_bytes - position
    if header.magic != 2 or not is_inside:
        raise CorruptRecord(
            f"segment {segment.start_offset}: no batch at position {position}: magic {header.magic}, length"
            f" {header.batch_length}"
        )
    return header
