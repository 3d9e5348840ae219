"""Compacts a log's closed segments: writes them without records that later ones replace.

The dirty part is read into an offset map. Then all segments are written as ``.cleaned`` files beside the originals;
small segments are merged. The broker swaps them in later (``segment_swap``), so a helper process can do the cleaning,
and can be killed at any time.

Source: Cleaner in LogCleaner.scala@3.9.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kafka_zk.base.clock import monotonic_s
from kafka_zk.base.clock import sleep as machine_sleep
from kafka_zk.native.loading import implementation
from kafka_zk.storage.cleaner.cleaned_transactions import CleanedTransactions, Marker, TransactionEnds, read_marker
from kafka_zk.storage.cleaner.offset_map import OffsetMap
from kafka_zk.storage.cleaner.record_filter import (
    Filtered,
    LastRecord,
    Retention,
    filter_batch,
    filter_entry,
    read_checked,
    uncompressed_records,
)
from kafka_zk.storage.cleaner.record_loops import RecordLoops, record_loops
from kafka_zk.storage.files import files
from kafka_zk.storage.files.config_table import LONG_MAX
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.files.filenames import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
)
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.records.legacy_message_set import read_message_set
from kafka_zk.storage.records.record_batch import CONTROL_FLAG, check_crc, read_header
from kafka_zk.storage.segments.offset_index import OffsetIndex, serialize_offset_index
from kafka_zk.storage.segments.recovery import IndexBuilder
from kafka_zk.storage.segments.segment_scan import BatchSpan, iter_batches_at, iter_spans, read_range
from kafka_zk.storage.segments.segment_swap import remove_cleaned
from kafka_zk.storage.segments.transaction_index import decode_transaction_index, encode_transaction_index

MAX_POSITION = 0x7FFFFFFF
_THROTTLE_WINDOW_S = 0.3


class CleanerConfig(NamedTuple):
    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    load_factor: float = 0.9
    io_buffer_bytes: int = 512 * 1024
    max_bytes_per_second: float = float("inf")  # reads and writes together


class SegmentFile(NamedTuple):
    """A segment as its owner knows it; data after ``size_bytes`` are ignored."""

    base_offset: int
    size_bytes: int


class CleanedSegment(NamedTuple):
    """Durable ``.cleaned`` files that may replace segments."""

    replaced: tuple[SegmentFile, ...]  # the new segment has the first one's base offset
    size_bytes: int

    @property
    def base_offset(self) -> int:
        return self.replaced[0].base_offset


@dataclass(slots=True)
class CleanerStats:
    """Statistics of a cleaning, in bytes on disk, compressed or not. Source: CleanerStats@3.9."""

    map_bytes_read: int = 0
    map_records_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    invalid_records_read: int = 0
    buffer_utilization: float = 0.0
    elapsed_index_s: float = 0.0
    elapsed_s: float = 0.0


class Cleaned(NamedTuple):
    """Result of a cleaning: everything before ``end_offset`` is clean once the last segment is swapped in."""

    end_offset: int
    stats: CleanerStats


class CleanWork(NamedTuple):
    """A cleaning that a helper process runs. ``report`` receives each CleanedSegment; the result is a Cleaned.

    Args:
        segments: ascending, from the first to the last that may be cleaned.
        later_segments: the segments after these, in which transactions may end.
        first_dirty_offset: end of the last cleaning.
        uncleanable_offset: end of ``segments``.
        now_ms: wall clock, ms since the epoch.
        last_records: the last record of each producer that the log knows.
    """

    directory: str
    segments: tuple[SegmentFile, ...]
    later_segments: tuple[SegmentFile, ...]
    first_dirty_offset: int
    uncleanable_offset: int
    now_ms: int
    log_config: LogConfig
    config: CleanerConfig
    last_records: Mapping[int, LastRecord]

    def run(self, report: Callable[[CleanedSegment], None]) -> Cleaned:
        """Raises CorruptRecord, InvalidRecord or UnsupportedCompression if the log cannot be cleaned; OSError."""
        return _Cleaning(self).run(report)


class Throttler:
    """Sleeps to limit the rate of reads and writes. Source: Throttler.java@3.9."""

    def __init__(
        self,
        bytes_per_second: float,
        clock_s: Callable[[], float] = monotonic_s,
        sleep: Callable[[float], None] = machine_sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._clock_s = clock_s
        self._sleep = sleep
        self._window_start_s = clock_s()
        self._window_bytes = 0

    def spend(self, size_bytes: int) -> None:
        self._window_bytes += size_bytes
        elapsed_s = self._clock_s() - self._window_start_s
        due_s = self._window_bytes / self._rate
        if due_s - elapsed_s > _THROTTLE_WINDOW_S:
            self._sleep(due_s - elapsed_s)
        elif elapsed_s > _THROTTLE_WINDOW_S and elapsed_s > due_s:  # unused capacity does not accumulate
            self._window_start_s += elapsed_s
            self._window_bytes = 0


class _Cleaning:
    def __init__(self, work: CleanWork) -> None:
        self._work = work
        self._throttler = Throttler(work.config.max_bytes_per_second)
        self._ends = TransactionEnds(self._markers)
        self._stats = CleanerStats()

    def run(self, report: Callable[[CleanedSegment], None]) -> Cleaned:
        work = self._work
        started_s = monotonic_s()
        remove_cleaned(work.directory)  # if a .cleaned file were left, the next start would ignore a .swap file
        native = implementation().native
        offsets = OffsetMap(
            work.config.dedupe_buffer_bytes,
            work.config.load_factor,
            range(work.first_dirty_offset, work.uncleanable_offset),
            native,
        )
        ends = TransactionEnds(self._markers)
        try:
            loops = record_loops(offsets, native)
            self._fill(offsets, loops)
            self._stats.elapsed_index_s = monotonic_s() - started_s
            end_offset = offsets.latest_offset + 1
            transactions = CleanedTransactions(ends)
            retention = Retention(
                offsets.get,
                loops.choose,
                offsets.latest_offset,
                work.uncleanable_offset,
                work.now_ms,
                work.log_config.delete_retention_ms,
                work.last_records,
                transactions,
                offsets.replaced,
            )
            segments = [segment for segment in work.segments if segment.base_offset < end_offset]
            newest_clean = [segment for segment in work.segments if segment.base_offset < work.first_dirty_offset][-1:]
            horizon_ms = sum(self._modified_ms(segment) for segment in newest_clean)
            horizon_ms -= work.log_config.delete_retention_ms if newest_clean else 0
            for group in self._groups(segments):
                report(self._clean_group(group, retention, horizon_ms))
            self._stats.buffer_utilization = offsets.utilization
            self._stats.elapsed_s = monotonic_s() - started_s
            return Cleaned(end_offset, self._stats)
        finally:
            for each in (self._ends, ends):
                each.close()
            offsets.close()

    # -- the offset map -------------------------------------------------------------------------------------------

    def _fill(self, offsets: OffsetMap, loops: RecordLoops) -> None:
        """Store each key's last offset, from the first dirty offset until the map is full."""
        work = self._work
        slot = _slot_of(work.segments, work.first_dirty_offset)
        bases = [segment.base_offset for segment in work.segments[slot + 1 :]] + [work.uncleanable_offset]
        for segment, next_base in zip(work.segments[slot:], bases, strict=True):
            if not self._fill_from(segment, offsets, loops):
                return
            offsets.latest_offset = max(offsets.latest_offset, next_base - 1)  # the segment may end before this

    def _fill_from(self, segment: SegmentFile, offsets: OffsetMap, loops: RecordLoops) -> bool:
        """Returns True if the whole segment fits into the map. Batches are added whole, because they are cleaned
        whole."""
        start_offset = self._work.first_dirty_offset
        position = self._position_before(segment, start_offset)
        for span, batch in self._batches(segment, position):
            if span.last_offset >= start_offset:
                if span.magic < 2 or span.base_offset <= offsets.latest_offset:  # offsets may repeat
                    offsets.forget_replaced()
                if not self._note_keys(span, batch, offsets, loops):
                    if offsets.latest_offset < start_offset:
                        raise CorruptRecord(f"the first batch has more keys than the {offsets.max_size} of the map")
                    return False
                offsets.latest_offset = max(offsets.latest_offset, span.last_offset)
        return True

    def _note_keys(self, span: BatchSpan, batch: bytes, offsets: OffsetMap, loops: RecordLoops) -> bool:
        """Add a batch's keys to the map; False if it is full. Keys of aborted transactions are ignored."""
        start_offset = self._work.first_dirty_offset
        stats = self._stats
        stats.map_bytes_read += span.size_bytes
        if span.magic < 2:
            messages = list(read_message_set(batch))
            stats.map_records_read += len(messages)
            return all(
                offsets.put(message.key, message.offset)
                for message in messages
                if message.key is not None and message.offset >= start_offset
            )
        header = read_checked(batch)
        stats.map_records_read += header.record_count
        if header.is_control:
            self._ends.pass_marker(header)
            return True
        if self._ends.is_aborted(header):
            return True
        data, start = uncompressed_records(batch, header)
        return loops.note_keys(data, start, header, start_offset)

    def _position_before(self, segment: SegmentFile, offset: int) -> int:
        """The position at which a search for an offset begins: from the index if it is valid, else 0."""
        if offset <= segment.base_offset:
            return 0
        index = OffsetIndex(self._path(segment, OFFSET_INDEX_SUFFIX), segment.base_offset)
        slot = index.slot_of(offset)
        if not slot:
            return 0
        _, position = index.entry(slot - 1)
        with files.opened(self._path(segment, LOG_SUFFIX)) as descriptor:
            try:
                span = next(iter_spans(descriptor, position, segment.size_bytes), None)
            except CorruptRecord:
                return 0
        return position if span is not None and span.base_offset <= offset else 0

    # -- segments -------------------------------------------------------------------------------------------------

    def _groups(self, segments: Sequence[SegmentFile]) -> list[tuple[SegmentFile, ...]]:
        sizes = [
            SegmentSize(
                segment,
                self._index_bytes(segment, OFFSET_INDEX_SUFFIX),
                self._index_bytes(segment, TIME_INDEX_SUFFIX),
            )
            for segment in segments
        ]
        config = self._work.log_config
        return group_segments(sizes, config.segment_bytes, config.segment_index_bytes, self._work.uncleanable_offset)

    def _clean_group(
        self, group: tuple[SegmentFile, ...], retention: Retention, legacy_horizon_ms: int
    ) -> CleanedSegment:
        """Write the ``.cleaned`` files of one group, durably."""
        last_modified_ms = 0
        with _CleanedWriter(
            self._path(group[0], ""), group[0].base_offset, self._work.log_config.index_interval_bytes
        ) as writer:
            retention.transactions.begin_segment()
            for segment in group:
                aborted = files.read_file(self._path(segment, TRANSACTION_INDEX_SUFFIX))
                retention.transactions.add_indexed(decode_transaction_index(aborted or b""))
                last_modified_ms = self._modified_ms(segment)
                legacy = partial(filter_entry, keeps_tombstones=last_modified_ms > legacy_horizon_ms)
                for span, batch in self._batches(segment, 0):
                    is_legacy = span.magic < 2
                    left = legacy(batch, span, retention) if is_legacy else filter_batch(batch, retention)
                    self._count(span, left)
                    if left.data is not None:
                        writer.write(left)
                        self._throttler.spend(len(left.data))
            writer.transaction_index = encode_transaction_index(retention.transactions.aborted)
            writer.finish(last_modified_ms)
            return CleanedSegment(group, writer.position)

    def _count(self, span: BatchSpan, left: Filtered) -> None:
        stats = self._stats
        stats.bytes_read += span.size_bytes
        stats.bytes_written += 0 if left.data is None else len(left.data)
        stats.records_read += left.read_count
        stats.records_kept += left.kept_count
        stats.invalid_records_read += left.keyless_count

    def _batches(self, segment: SegmentFile, position: int) -> Iterator[tuple[BatchSpan, bytes]]:
        """The batches from ``position`` on. Raises: CorruptRecord if ``position`` is not a batch boundary."""
        chunk_bytes, spend = self._work.config.io_buffer_bytes, self._throttler.spend
        with files.opened(self._path(segment, LOG_SUFFIX)) as descriptor:
            yield from iter_batches_at(descriptor, position, segment.size_bytes, chunk_bytes, spend)

    def _markers(self, ends: TransactionEnds) -> Generator[Marker, None, None]:
        """The markers from the pass's position to the end of the log."""
        segments = (*self._work.segments, *self._work.later_segments)
        ends_at = [*(segment.base_offset for segment in segments[1:]), LONG_MAX]
        for segment, end_offset in zip(segments, ends_at, strict=True):
            if ends.passed >= end_offset:
                continue  # the segment may already be replaced
            with files.opened(self._path(segment, LOG_SUFFIX)) as descriptor:
                for span in iter_spans(descriptor, 0, segment.size_bytes):
                    if ends.passed >= end_offset:
                        break
                    if span.attributes & CONTROL_FLAG and span.last_offset >= ends.passed:
                        batch = read_range(descriptor, span.position, span.size_bytes)
                        header = read_header(batch)
                        check_crc(batch, 0, header)
                        marker = read_marker(batch, header)
                        if marker is not None:
                            yield marker

    def _path(self, segment: SegmentFile, suffix: str) -> str:
        return f"{self._work.directory}/{offset_file(segment.base_offset, suffix)}"

    def _modified_ms(self, segment: SegmentFile) -> int:
        found = files.status(self._path(segment, LOG_SUFFIX))
        if found is None:
            raise FileNotFoundError(2, "No such file", self._path(segment, LOG_SUFFIX))
        return found.modified_ms

    def _index_bytes(self, segment: SegmentFile, suffix: str) -> int:
        found = files.status(self._path(segment, suffix))
        return 0 if found is None else found.size_bytes


class SegmentSize(NamedTuple):
    """The sizes that determine how segments are grouped."""

    segment: SegmentFile
    offset_index_bytes: int
    time_index_bytes: int


def group_segments(
    sizes: Sequence[SegmentSize], max_bytes: int, max_index_bytes: int, end_offset: int
) -> list[tuple[SegmentFile, ...]]:
    """Group adjacent segments whose uncleaned sizes fit into one segment.

    ``end_offset``: the end of the last segment. Offsets in a segment are relative, so their range is also limited.
    Source: Cleaner.groupSegmentsBySize@3.9.
    """
    groups: list[list[SegmentFile]] = []
    log_bytes = offset_index_bytes = time_index_bytes = 0
    for index, (segment, offset_bytes, time_bytes) in enumerate(sizes):
        last_offset = (sizes[index + 1].segment.base_offset if index + 1 < len(sizes) else end_offset) - 1
        log_bytes += segment.size_bytes
        offset_index_bytes += offset_bytes
        time_index_bytes += time_bytes
        if (
            not groups
            or log_bytes > max_bytes
            or offset_index_bytes > max_index_bytes
            or time_index_bytes > max_index_bytes
            or (segment.size_bytes and last_offset - groups[-1][0].base_offset > MAX_POSITION)
        ):
            groups.append([])
            log_bytes, offset_index_bytes, time_index_bytes = segment.size_bytes, offset_bytes, time_bytes
        groups[-1].append(segment)
    return [tuple(group) for group in groups]


def _slot_of(segments: Sequence[SegmentFile], offset: int) -> int:
    """Index of the segment that contains the offset; 0 if the offset is before all segments."""
    return max(0, sum(segment.base_offset <= offset for segment in segments) - 1)


class _CleanedWriter:
    """Writes one segment's ``.cleaned`` files; removes them unless ``finish`` is called."""

    def __init__(self, path: str, base_offset: int, index_interval_bytes: int) -> None:
        self._path = path
        self._index = IndexBuilder(base_offset, index_interval_bytes)
        self._pending = bytearray()
        self._descriptor = -1
        self._is_finished = False
        self.transaction_index = b""
        self.position = 0

    def __enter__(self) -> "_CleanedWriter":
        self._descriptor = files.open_new(self._path + LOG_SUFFIX + CLEANED_SUFFIX)
        return self

    def write(self, left: Filtered) -> None:
        assert left.data is not None
        if self.position + len(left.data) > MAX_POSITION:
            raise CorruptRecord(f"{self._path}: what is left does not fit into a segment")
        self._index.add(self.position, left.last_offset, left.max_timestamp_ms)
        self._pending += left.data
        self.position += len(left.data)
        if len(self._pending) >= 1 << 20:
            self._write_out()

    def _write_out(self) -> None:
        files.write_all(self._descriptor, self._pending)
        self._pending = bytearray()

    def finish(self, modified_ms: int) -> None:
        """Make all files durable. ``modified_ms``: modification time of the replaced segments."""
        self._write_out()
        files.sync_file(self._descriptor)
        offset_entries, time_entries = self._index.finish()
        contents = {
            OFFSET_INDEX_SUFFIX: serialize_offset_index(offset_entries),
            TIME_INDEX_SUFFIX: time_entries,
        }
        if self.transaction_index:
            contents[TRANSACTION_INDEX_SUFFIX] = self.transaction_index
        for suffix, content in contents.items():
            path = self._path + suffix + CLEANED_SUFFIX
            files.write_file(path, content)
            files.sync_path(path)
        files.set_modified(self._path + LOG_SUFFIX + CLEANED_SUFFIX, modified_ms)
        self._is_finished = True

    def __exit__(self, *_: object) -> None:
        files.close(self._descriptor)
        if not self._is_finished:
            for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
                files.remove_file(self._path + suffix + CLEANED_SUFFIX)
