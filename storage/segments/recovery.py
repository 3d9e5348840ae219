"""Scans a segment after an unclean shutdown, and rebuilds its indexes.

Everything before the recovery point is durable, so the scan begins at the last index entry before it, or at the
segment's start without a usable index. From the recovery point on, every CRC is checked, and the first bad batch ends
the log. Durable batches are kept even if damaged; readers report them. After a damaged header, the scan continues at
the next batch found. If it finds none, the log continues in a new segment at the recovery point. The scan only reads,
so it may run in a helper process.
"""

from array import array
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from kafka_zk.storage.files import files
from kafka_zk.storage.files.files import read_file
from kafka_zk.storage.records.record_batch import (
    CONTROL_FLAG,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MIN_BATCH_LENGTH,
)
from kafka_zk.storage.segments.offset_index import parse_offset_index
from kafka_zk.storage.segments.time_index import NO_TIMESTAMP, valid_time_index

_HEADER = Struct(">qiibIhiqq")  # the header's fields up to max_timestamp
_ATTRIBUTES_POSITION = 22  # position of the lower byte
_TIME_ENTRY = Struct(">qi")
_MAX_RELATIVE_OFFSET = 0x7FFFFFFF
_REPORT_BYTES = 32 << 20


def _ignore(size_bytes: int) -> None:
    """Reports no progress."""


class SegmentScan(NamedTuple):
    """``valid_bytes``: size of the part of the file to keep; damaged batches before the recovery point stay in it.
    ``next_offset``: the offset that follows this part. ``reason``: why the rest must be cut off; None if there is no
    rest."""

    valid_bytes: int
    next_offset: int
    offset_entries: bytes  # native 64-bit words, see offset_index
    time_entries: bytes
    max_timestamp_ms: int
    max_timestamp_offset: int
    epochs: tuple[tuple[int, int], ...]  # (leader epoch, first offset), ascending
    reason: str | None
    keeps_damage: bool = False  # the rest is durable but damaged: keep it, continue in a new segment
    has_markers: bool = False  # a scanned batch has a marker


class IndexBuilder:
    """Collects the index entries that appends would have written."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.offset_entries = array("Q")
        self.time_entries = bytearray()
        self.max_timestamp = (NO_TIMESTAMP, base_offset)
        self.last_time = NO_TIMESTAMP
        self.last_indexed_position = 0

    def enter(self, position: int, offset_before: int) -> None:
        """Add an entry so that lookups skip the damage before this batch."""
        self.offset_entries.append((offset_before - self.base_offset) << 32 | position)
        self.last_indexed_position = position

    def forget_from(self, offset: int) -> None:
        """Drop the entries from ``offset`` on."""
        relative = offset - self.base_offset
        while self.offset_entries and self.offset_entries[-1] >> 32 >= relative:
            self.offset_entries.pop()
        self.last_indexed_position = self.offset_entries[-1] & 0xFFFFFFFF if self.offset_entries else 0
        kept = list(_TIME_ENTRY.iter_unpack(self.time_entries))
        while kept and kept[-1][1] >= relative:
            kept.pop()
        del self.time_entries[len(kept) * _TIME_ENTRY.size :]
        self.last_time, last_relative = kept[-1] if kept else (NO_TIMESTAMP, 0)
        if self.max_timestamp[1] >= offset:
            self.max_timestamp = (self.last_time, self.base_offset + last_relative)

    def add(self, position: int, last_offset: int, max_timestamp_ms: int) -> None:
        if max_timestamp_ms > self.max_timestamp[0]:
            self.max_timestamp = (max_timestamp_ms, last_offset)
        if position - self.last_indexed_position > self.interval_bytes:
            self.offset_entries.append((last_offset - self.base_offset) << 32 | position)
            self.last_indexed_position = position
            if self.max_timestamp[0] > self.last_time:
                self._add_time_entry()

    def _add_time_entry(self) -> None:
        self.last_time = self.max_timestamp[0]
        self.time_entries += _TIME_ENTRY.pack(self.last_time, self.max_timestamp[1] - self.base_offset)

    def finish(self) -> "tuple[array[int], bytes]":
        """The entries of both indexes of a closed segment, including the time index entry for its newest record."""
        if self.max_timestamp[0] > self.last_time:
            self._add_time_entry()
        return self.offset_entries, bytes(self.time_entries)


def scan_segment(
    log_path: str,
    index_path: str,
    time_index_path: str,
    base_offset: int,
    recovery_point: int,
    interval_bytes: int,
    report: Callable[[int], None] = _ignore,
) -> SegmentScan:
    """Scan without changes; ``report`` gets the number of bytes scanned since its last call.

    Source: LogSegment.recover@3.9, except for the start at the recovery point.
    """
    size_bytes = files.size_bytes(log_path)
    builder = IndexBuilder(base_offset, interval_bytes)
    if not size_bytes:
        return SegmentScan(0, base_offset, b"", b"", NO_TIMESTAMP, base_offset, (), None)
    with files.mapped(log_path) as view:
        start, expected = _resume(view, builder, index_path, time_index_path, recovery_point)
        report(start)
        return _scan(view, start, expected, builder, recovery_point, report)


def _resume(
    view: memoryview, builder: IndexBuilder, index_path: str, time_index_path: str, recovery_point: int
) -> tuple[int, int]:
    """Use the index up to the recovery point if it matches the log. Returns (position, lowest expected offset)."""
    base_offset = builder.base_offset
    entries = parse_offset_index(read_file(index_path) or b"")
    while entries and base_offset + (entries[-1] >> 32) >= recovery_point:
        entries.pop()
    if not entries:
        return 0, base_offset
    position = entries[-1] & 0xFFFFFFFF
    last_offset = base_offset + (entries[-1] >> 32)
    if position + HEADER_SIZE > len(view) or list(entries) != sorted(entries):
        return 0, base_offset
    found_offset, length, _, magic, _, _, delta, _, _ = _HEADER.unpack_from(view, position)
    if magic != 2 or length < MIN_BATCH_LENGTH or found_offset + delta != last_offset:
        return 0, base_offset
    builder.offset_entries = entries
    builder.last_indexed_position = position
    for timestamp_ms, relative in _TIME_ENTRY.iter_unpack(valid_time_index(read_file(time_index_path) or b"")):
        if relative > last_offset - base_offset or timestamp_ms <= builder.last_time:
            break
        builder.time_entries += _TIME_ENTRY.pack(timestamp_ms, relative)
        builder.last_time = timestamp_ms
        builder.max_timestamp = (timestamp_ms, base_offset + relative)
    return position, found_offset


def _scan(
    view: memoryview,
    position: int,
    next_offset: int,
    builder: IndexBuilder,
    recovery_point: int,
    report: Callable[[int], None],
) -> SegmentScan:
    end = len(view)
    reported = position
    epochs: list[tuple[int, int]] = []
    reason = None
    keeps_damage = False
    has_markers = False
    unchecked: tuple[int, int] | None = None  # (position, lowest offset) of the previous batch, if durable
    while position < end:
        batch = judge_batch(view, position, next_offset, builder.base_offset, recovery_point)
        if isinstance(batch, str):
            reason = batch
            if unchecked is not None and not _crc_fits(view, unchecked[0]):
                position, next_offset = unchecked  # that batch's length or last offset was wrong
                builder.forget_from(next_offset)
            elif next_offset >= recovery_point:
                break
            unchecked = None
            found = find_batch(view, position + 1, next_offset, builder.base_offset)
            if found is None:
                keeps_damage = True
                position, next_offset = end, recovery_point
                break
            position, next_offset = found
            builder.enter(position, next_offset - 1)
            continue
        base_offset, last_offset, epoch, max_timestamp_ms, following = batch
        unchecked = (position, next_offset) if last_offset < recovery_point else None
        builder.add(position, last_offset, max_timestamp_ms)
        if view[position + _ATTRIBUTES_POSITION] & CONTROL_FLAG:
            has_markers = True
        reason = None
        if epoch >= 0 and (not epochs or epoch > epochs[-1][0]):
            epochs.append((epoch, base_offset))
        next_offset = last_offset + 1
        position = following
        if position - reported >= _REPORT_BYTES:
            report(position - reported)
            reported = position
    report(end - reported)
    return SegmentScan(
        position,
        next_offset,
        builder.offset_entries.tobytes(),
        bytes(builder.time_entries),
        *builder.max_timestamp,
        tuple(epochs),
        None if keeps_damage else reason,
        keeps_damage,
        has_markers,
    )


def judge_batch(
    view: memoryview, position: int, next_offset: int, segment_offset: int, recovery_point: int
) -> tuple[int, int, int, int, int] | str:
    """Check the batch at ``position``. Returns (base offset, last offset, epoch, max timestamp, position after it), or
    the problem."""
    left = len(view) - position
    if left < HEADER_SIZE:
        return f"{left} bytes are too few for a batch header"
    base_offset, length, epoch, magic, crc, _, delta, _, max_timestamp_ms = _HEADER.unpack_from(view, position)
    if magic != 2 or length < MIN_BATCH_LENGTH or delta < 0:
        return f"no batch: magic {magic}, length {length}, last offset delta {delta}"
    if length + LOG_OVERHEAD > left:
        return f"a batch of {length + LOG_OVERHEAD} bytes with {left} left"
    last_offset = base_offset + delta
    if base_offset < next_offset or last_offset - segment_offset > _MAX_RELATIVE_OFFSET:
        return f"offset {base_offset} where at least {next_offset} was expected"
    following = position + length + LOG_OVERHEAD
    if last_offset >= recovery_point and crc32c(view[position + CRC_START : following]) != crc:
        return f"the CRC of the batch at offset {base_offset} does not match"
    return base_offset, last_offset, epoch, max_timestamp_ms, following


def _crc_fits(view: memoryview, position: int) -> bool:
    _, length, _, _, crc, _, _, _, _ = _HEADER.unpack_from(view, position)
    following: int = position + length + LOG_OVERHEAD
    fits: bool = crc32c(view[position + CRC_START : following]) == crc
    return fits


def find_batch(view: memoryview, position: int, next_offset: int, segment_offset: int) -> tuple[int, int] | None:
    """(Position, base offset) of the next valid batch after damage; None if there is none. Each byte with the value of
    the magic byte is a candidate, which ``judge_batch`` checks with its CRC."""
    end = len(view)
    step = 1 << 20
    for chunk_start in range(position + MAGIC_POSITION, end, step):
        chunk = bytes(view[chunk_start : chunk_start + step])
        index = chunk.find(2)
        while index >= 0:
            candidate = chunk_start + index - MAGIC_POSITION
            batch = judge_batch(view, candidate, next_offset, segment_offset, 0)
            if not isinstance(batch, str):
                return candidate, batch[0]
            index = chunk.find(2, index + 1)
    return None
