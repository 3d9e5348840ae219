"""One segment of a log: its ``.log`` file and indexes.

Appends go to the page cache, index entries to memory (``offset_index``). An empty log that begins at offset 0 has no
files, because creating them is most of a new partition's disk cost.
Source: LogSegment.java@3.9. Tests: tests/storage/log/test_log_files.py.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.storage.files import files
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.files.file_pool import FilePool
from kafka_zk.storage.files.filenames import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
)
from kafka_zk.storage.files.files import sync_path
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.records.record_batch import HEADER_SIZE
from kafka_zk.storage.segments import segment_scan
from kafka_zk.storage.segments.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from kafka_zk.storage.segments.offset_index import OffsetIndex
from kafka_zk.storage.segments.segment_handle import MADE_SUFFIXES, SegmentHandle
from kafka_zk.storage.segments.segment_scan import BatchSpan
from kafka_zk.storage.segments.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from kafka_zk.storage.segments.time_index import NO_TIMESTAMP, TimeIndex
from kafka_zk.storage.segments.transaction_index import TransactionIndex

MAX_RELATIVE_OFFSET = 0x7FFFFFFF
_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
_UNKNOWN = -2  # not looked up yet; -1 is Kafka's "none"
NEVER_MS = -(1 << 63)


class Segment(SegmentHandle):
    """A segment file and its indexes.

    Attributes:
        keeps_damage: the end is durable but damaged, so nothing may be written.
        young_until_ms: set by the log; records up to this timestamp cause no roll.
    """

    __slots__ = (
        "_first_timestamp_ms", "_max_timestamp_ms", "_max_timestamp_offset", "_transaction_index",
        "bytes_since_index_entry", "index_interval_bytes", "index_is_full", "keeps_damage", "max_index_bytes",
        "offset_index", "roll_jitter_ms", "time_index", "young_until_ms",
    )  # fmt: skip

    def __init__(
        self,
        directory: str,
        base_offset: int,
        pool: FilePool,
        config: LogConfig,
        *,
        size_bytes: int | None,
        created_ms: int,
        roll_jitter_ms: int,
    ) -> None:
        """``size_bytes``: the size of the file; None for a new file."""
        super().__init__(directory, base_offset, pool, size_bytes or 0, created_ms)
        is_new = size_bytes is None
        self.index_interval_bytes = config.index_interval_bytes
        self.max_index_bytes = config.segment_index_bytes
        self.roll_jitter_ms = roll_jitter_ms
        self.bytes_since_index_entry = 0
        self.index_is_full = False
        self.keeps_damage = False
        self.offset_index = OffsetIndex(self._path(OFFSET_INDEX_SUFFIX), base_offset, is_new=is_new)
        self.time_index = TimeIndex(self._path(TIME_INDEX_SUFFIX), base_offset, is_new=is_new)
        self._transaction_index: TransactionIndex | None = None  # most logs have none
        self._first_timestamp_ms = _UNKNOWN
        self.young_until_ms = NEVER_MS
        self._max_timestamp_ms = NO_TIMESTAMP if is_new else _UNKNOWN
        self._max_timestamp_offset = base_offset

    def update_config(self, config: LogConfig) -> None:
        self.index_interval_bytes = config.index_interval_bytes
        self.max_index_bytes = config.segment_index_bytes
        self.young_until_ms = NEVER_MS

    @property
    def transaction_index(self) -> TransactionIndex:
        """The aborted transactions whose markers are in this segment."""
        if self._transaction_index is None:
            self._transaction_index = TransactionIndex(self._path(TRANSACTION_INDEX_SUFFIX) + self._suffix)
        return self._transaction_index

    @property
    def has_transaction_index(self) -> bool:
        return self._transaction_index is not None or files.exists(self._path(TRANSACTION_INDEX_SUFFIX) + self._suffix)

    def prepare_transactions_sync(self) -> tuple[str | None, Callable[[], None]]:
        index = self._transaction_index
        return (None, _nothing) if index is None else index.prepare_sync()

    def close_file(self) -> None:
        """Close the file and free the index entries, which the next use loads."""
        super().close_file()
        if not self._is_abandoned:
            self.offset_index.unload()
        if self._transaction_index is not None:
            self._transaction_index.unload()

    def close(self, sync: Callable[[str], None] = sync_path) -> None:
        """Write the indexes, with ``sync`` for each file, and close the file unless a slice pins it."""
        self.write_out_indexes(final=True)
        if self.is_active:  # the indexes of closed segments are durable
            for index in (self.offset_index, self.time_index):
                if index.is_changed:
                    sync(index.path)
        transactions_path, synced = self.prepare_transactions_sync()
        if transactions_path is not None:
            sync(transactions_path)
            sync(self.directory)
        synced()
        self.release_file()

    def append(
        self, batches: bytes | bytearray | memoryview, size_bytes: int, last_offset: int, max_timestamp_ms: int
    ) -> int:
        """Append whole batches and return their position. ``max_timestamp_ms`` is that of ``last_offset``.

        Raises: OSError; a partial write is truncated if possible.
        """
        descriptor = self._descriptor if self._descriptor >= 0 else self.fileno()
        self.recently_used = True
        position = self.size_bytes
        if files.write(descriptor, batches) != size_bytes:
            self._write_again(descriptor, batches, position)
        self.size_bytes = position + size_bytes
        if not position:
            self._first_timestamp_ms = max_timestamp_ms
            self.young_until_ms = NEVER_MS
        known_ms = self._max_timestamp_ms
        if max_timestamp_ms > known_ms and (known_ms != _UNKNOWN or max_timestamp_ms > self.max_timestamp_ms):
            self._max_timestamp_ms = max_timestamp_ms
            self._max_timestamp_offset = last_offset
        if self.bytes_since_index_entry > self.index_interval_bytes:
            self._add_index_entries(last_offset, position)
            self.bytes_since_index_entry = 0
        self.bytes_since_index_entry += size_bytes
        return position

    def _add_index_entries(self, last_offset: int, position: int) -> None:
        self.offset_index.append(last_offset, position)
        self.time_index.maybe_append(self._max_timestamp_ms, self._max_timestamp_offset)
        self.update_index_is_full()

    def update_index_is_full(self) -> None:
        """Set ``index_is_full``: the next append must then roll. The time index reserves one entry."""
        self.index_is_full = (
            self.offset_index.count >= self.max_index_bytes // OFFSET_ENTRY_SIZE
            or self.time_index.count >= self.max_index_bytes // TIME_ENTRY_SIZE - 1
        )

    def write_out_indexes(self, *, final: bool = False) -> None:
        """Write new index entries, without fsync. ``final``: add an entry for the newest record."""
        if final and self._max_timestamp_ms >= 0:
            self.time_index.maybe_append(self._max_timestamp_ms, self._max_timestamp_offset)
        self.offset_index.write_out()
        self.time_index.write_out()

    def truncate_to_position(self, position: int) -> int:
        """Truncate the file and indexes at a batch boundary. Returns the size removed."""
        dropped = self.size_bytes - position
        first_dropped = self.header_at(position).base_offset if dropped >= HEADER_SIZE else None
        files.truncate(self.fileno(), position)
        self.size_bytes = position
        self.offset_index.truncate_to_position(position)
        if first_dropped is not None:
            self.time_index.truncate_to_offset(first_dropped)
            if self.has_transaction_index:
                self.transaction_index.replace(first_dropped, ())
        self.reset_timestamps()
        self.bytes_since_index_entry = 0
        self.update_index_is_full()
        return dropped

    def spans(self, position: int = 0, end: int | None = None, chunk_bytes: int = 8192) -> Iterator[BatchSpan]:
        """The batches from a boundary on. Raises CorruptRecord at the first damaged one."""
        end = self.size_bytes if end is None else end
        return segment_scan.iter_spans(self.fileno(), position, end, chunk_bytes) if position < end else iter(())

    def sound_spans(self, position: int = 0) -> Iterator[BatchSpan]:
        """Like ``spans``, but continue after damage at the next indexed batch."""
        following: int | None = position
        while following is not None:
            position = following
            try:
                for span in self.spans(position):
                    position = span.position + span.size_bytes
                    yield span
                return
            except CorruptRecord:
                following = self.offset_index.ceiling_position(position)

    def find(self, offset: int) -> BatchSpan | None:
        """The first batch that ends at or after ``offset``, or None."""
        index = self.offset_index
        slot = index.slot_of(offset)
        if slot:
            indexed_offset, position = index.entry(slot - 1)
            try:
                return segment_scan.find_offset(self.fileno(), offset, position, self.size_bytes, indexed_offset)
            except CorruptRecord:  # the index or the log is damaged; if the log is, the search below raises again
                slot -= 1
        return segment_scan.find_offset(self.fileno(), offset, self._position_before(slot), self.size_bytes)

    def boundary(self, start: int, limit: int) -> tuple[int, int, int]:
        """The last batch boundary between ``start`` and ``limit``: (position, offset, size of the batch that begins
        there)."""
        near = self.offset_index.floor_position(limit)
        if near > start:
            try:
                return segment_scan.find_boundary(self.fileno(), near, limit, self.size_bytes)
            except CorruptRecord:  # see ``find``
                pass
        return segment_scan.find_boundary(self.fileno(), start, limit, self.size_bytes)

    def position_for(self, offset: int) -> int:
        """The position at which a search for ``offset`` begins: the last indexed batch before it."""
        return self._position_before(self.offset_index.slot_of(offset))

    def position_for_timestamp(self, timestamp_ms: int, start_offset: int) -> int:
        """Where to begin a search for the first record at or after ``start_offset`` with at least this timestamp."""
        found_ms, offset = self.time_index.lookup(timestamp_ms)
        if not self.is_indexed_timestamp(found_ms, offset):
            offset = self.base_offset
        return self.position_for(max(offset, start_offset))

    def _position_before(self, slot: int) -> int:
        """The position of the last valid entry among the first ``slot`` index entries, or a position shortly before it.
        Entries are checked against the log, so a damaged index causes no wrong result."""
        step = 1
        while slot > 0:
            indexed_offset, position = self.offset_index.entry(slot - 1)
            if self.is_indexed_batch(position, indexed_offset):
                return position
            slot -= step
            step *= 2
        return 0

    def is_indexed_batch(self, position: int, indexed_offset: int) -> bool:
        """True if the log has a batch at ``position`` that matches the offset."""
        with suppress(CorruptRecord, StopIteration):
            span = next(self.spans(position, chunk_bytes=HEADER_SIZE))
            return span.base_offset >= self.base_offset and segment_scan.is_indexed(span, indexed_offset)
        return False

    def is_indexed_timestamp(self, timestamp_ms: int, offset: int) -> bool:
        """True if the batch at ``offset`` has this timestamp, or cannot be read.

        (-1, base offset) stands for an empty index.
        """
        if timestamp_ms == NO_TIMESTAMP:
            return offset == self.base_offset
        try:
            span = self.find(offset)
            if span is None or not span.base_offset <= offset <= span.last_offset:
                return False
            return span.magic != 2 or self.header_at(span.position).max_timestamp == timestamp_ms
        except CorruptRecord:
            return True

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp of any record; -1 if there is none. After a restart, it comes from the time index."""
        if self._max_timestamp_ms == _UNKNOWN:
            self._load_max_timestamp()
        return self._max_timestamp_ms

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the batch with ``max_timestamp_ms``."""
        if self._max_timestamp_ms == _UNKNOWN:
            self._load_max_timestamp()
        return self._max_timestamp_offset

    def _load_max_timestamp(self) -> None:
        self._max_timestamp_ms, self._max_timestamp_offset = self.time_index.last_entry

    def set_max_timestamp(self, timestamp_ms: int, offset: int) -> None:
        self._max_timestamp_ms, self._max_timestamp_offset = timestamp_ms, offset

    def reset_timestamps(self) -> None:
        """Reload the timestamps after a truncation, from the last index entry and the batches after it."""
        self._first_timestamp_ms = _UNKNOWN
        self.young_until_ms = NEVER_MS
        self._max_timestamp_ms, self._max_timestamp_offset = self.time_index.last_entry
        if not self.size_bytes:
            return
        if not self.is_indexed_timestamp(self._max_timestamp_ms, self._max_timestamp_offset):
            self._max_timestamp_ms, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        for span in self.spans(self.position_for(self._max_timestamp_offset)):
            timestamp_ms = self.header_at(span.position).max_timestamp if span.magic == 2 else NO_TIMESTAMP
            if timestamp_ms > self._max_timestamp_ms:
                self._max_timestamp_ms, self._max_timestamp_offset = timestamp_ms, span.last_offset

    @property
    def first_timestamp_ms(self) -> int:
        """The largest timestamp of the first batch, for time-based rolling; -1 if there is none."""
        if self._first_timestamp_ms == _UNKNOWN:
            if self.size_bytes < HEADER_SIZE:
                return NO_TIMESTAMP
            self._first_timestamp_ms = self.header_at(0).max_timestamp
        return self._first_timestamp_ms

    def largest_timestamp_ms(self) -> int:
        """The timestamp for retention: the largest record timestamp, or else the file's modification time."""
        timestamp_ms = self.max_timestamp_ms
        return timestamp_ms if timestamp_ms >= 0 else self.modified_ms()

    def move_to(self, directory: str) -> None:
        """Follow a rename of the directory."""
        self.directory = directory
        self.offset_index.path = self._path(OFFSET_INDEX_SUFFIX)
        self.time_index.path = self._path(TIME_INDEX_SUFFIX)
        if self._transaction_index is not None:
            self._transaction_index.path = self._path(TRANSACTION_INDEX_SUFFIX)

    def take_suffix(self, suffix: str) -> None:
        """Follow a rename that added this suffix to the files."""
        self._suffix = suffix
        self.offset_index.path = self._path(OFFSET_INDEX_SUFFIX) + suffix
        self.time_index.path = self._path(TIME_INDEX_SUFFIX) + suffix
        if self._transaction_index is not None:
            self._transaction_index.path = self._path(TRANSACTION_INDEX_SUFFIX) + suffix


def _nothing() -> None: ...


def open_segment(
    directory: str,
    base_offset: int,
    config: LogConfig,
    pool: FilePool,
    now_ms: int,
    *,
    size_bytes: int | None,
    random: Random = SYSTEM_RANDOM,
    is_first: bool = False,
) -> Segment:
    """Open a segment. ``size_bytes``: the size of its file; None: create a new segment.

    ``random``: for ``segment.jitter.ms``. ``is_first``: the log has no records yet. If it begins at offset 0, the first
    record creates the files. Otherwise, they are created now, because only their names preserve the offset.
    """
    jitter_ms = random.randrange(min(config.segment_jitter_ms, config.segment_ms)) if config.segment_jitter_ms else 0
    segment = Segment(
        directory, base_offset, pool, config, size_bytes=size_bytes, created_ms=now_ms, roll_jitter_ms=jitter_ms
    )
    segment.is_unmade = is_first and not base_offset
    if size_bytes is None and not segment.is_unmade:
        for suffix in MADE_SUFFIXES:
            files.write_file(f"{directory}/{offset_file(base_offset, suffix)}")
    return segment
