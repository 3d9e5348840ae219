"""The sparse offset index of a segment: which byte position to start from to find an offset.

File: entries of 8 bytes, ``relative offset (int32), position (int32)``, big-endian, ascending; the offset is that of
the *last* record of the batch that starts at the position. A file that a killed Kafka broker left is padded with zeros.
Entries live in an ``array`` of 64-bit words (offset in the upper half), so that a lookup is one ``bisect`` in C.

New entries are collected in memory and written by ``write_out`` – before an fsync of the log, at a roll and on close –
because after a crash the index of everything not yet flushed is rebuilt anyway.
Source: OffsetIndex.java, AbstractIndex.java@3.9. Tests: tests/storage/segments/test_offset_index.py.
"""

import sys
from array import array
from bisect import bisect_right
from contextlib import suppress

from kafka_zk.storage.files import files
from kafka_zk.storage.files.files import read_file, remove_file

ENTRY_SIZE = 8
_POSITION_MASK = 0xFFFFFFFF
_MAX_RELATIVE_OFFSET = 0x7FFFFFFF
_SWAP = sys.byteorder == "little"


def parse_offset_index(data: bytes) -> "array[int]":
    """The entries of an index file's content, without a zero-padded tail and without a torn last entry."""
    used_bytes = len(data.rstrip(b"\0"))
    entry_count = min(len(data) // ENTRY_SIZE, -(-used_bytes // ENTRY_SIZE))
    entries = array("Q")
    entries.frombytes(data[: entry_count * ENTRY_SIZE])
    if _SWAP:
        entries.byteswap()
    return entries


def serialize_offset_index(entries: "array[int]") -> bytes:
    """The bytes of an index file for ``(relative offset << 32) | position`` words."""
    if not _SWAP:
        return entries.tobytes()
    swapped = entries[:]
    swapped.byteswap()
    return swapped.tobytes()


def _read_edges(path: str) -> "array[int]":
    """The first and the last entry of a file, which is read whole only if its end is padded with zeros."""
    with suppress(FileNotFoundError), files.opened(path) as descriptor:
        end = files.size_bytes(path) // ENTRY_SIZE * ENTRY_SIZE
        last = files.pread(descriptor, ENTRY_SIZE, end - ENTRY_SIZE) if end else b""
        if any(last):
            return parse_offset_index(files.pread(descriptor, ENTRY_SIZE, 0) + last)
        return parse_offset_index(read_file(path) or b"")
    return array("Q")


def _position_of(entry: int) -> int:
    return entry & _POSITION_MASK


class OffsetIndex:
    """The index of one segment. Loaded from its file on first use; the file is never kept open.

    ``is_changed``: this process has written to the file.
    """

    __slots__ = ("_entries", "_written_count", "base_offset", "is_changed", "path")

    def __init__(self, path: str, base_offset: int, *, is_new: bool = False) -> None:
        self.path = path
        self.base_offset = base_offset
        self._entries: array[int] | None = array("Q") if is_new else None
        self._written_count = 0  # how many entries the file holds
        self.is_changed = False

    @property
    def entries(self) -> "array[int]":
        """All entries as 64-bit words, loaded if need be."""
        if self._entries is None:
            self._entries = parse_offset_index(read_file(self.path) or b"")
            self._written_count = len(self._entries)
        return self._entries

    @property
    def count(self) -> int:
        return len(self.entries)

    @property
    def last_entry(self) -> tuple[int, int]:
        """(offset, position) of the last entry; (base offset, 0) if there is none."""
        entries = self.entries
        if not entries:
            return self.base_offset, 0
        return self.base_offset + (entries[-1] >> 32), entries[-1] & _POSITION_MASK

    def append(self, offset: int, position: int) -> None:
        """Add an entry; offset and position are beyond those of the last one."""
        relative = offset - self.base_offset
        assert 0 <= relative <= _MAX_RELATIVE_OFFSET and position <= _MAX_RELATIVE_OFFSET
        self.entries.append(relative << 32 | position)

    def edges(self) -> list[tuple[int, int]]:
        """(offset, position) of the first and the last entry, none without any. Entries that are not loaded stay so."""
        entries = _read_edges(self.path) if self._entries is None else self._entries
        return [(self.base_offset + (entry >> 32), entry & _POSITION_MASK) for entry in (*entries[:1], *entries[-1:])]

    def entry(self, slot: int) -> tuple[int, int]:
        """(offset, position) of an entry."""
        entry = self.entries[slot]
        return self.base_offset + (entry >> 32), entry & _POSITION_MASK

    def slot_of(self, offset: int) -> int:
        """How many entries are of batches whose last offset is at most ``offset``."""
        relative = min(offset - self.base_offset, _MAX_RELATIVE_OFFSET)
        return bisect_right(self.entries, relative << 32 | _POSITION_MASK) if relative >= 0 else 0

    def floor_position(self, position: int) -> int:
        """The largest indexed position that is at most ``position``; 0 if there is none."""
        entries = self.entries
        slot = bisect_right(entries, position, key=_position_of)
        return entries[slot - 1] & _POSITION_MASK if slot else 0

    def ceiling_position(self, position: int) -> int | None:
        """The smallest indexed position above ``position``, None if there is none."""
        entries = self.entries
        slot = bisect_right(entries, position, key=_position_of)
        return entries[slot] & _POSITION_MASK if slot < len(entries) else None

    def truncate_to_position(self, position: int) -> None:
        """Drop the entries of batches that start at ``position`` or after it, in memory and in the file."""
        entries = self.entries
        slot = bisect_right(entries, position - 1, key=_position_of)
        del entries[slot:]
        self.rewrite()

    def replace(self, entries: "array[int]") -> None:
        """Take rebuilt entries instead of what is there."""
        self._entries = entries
        self.rewrite()

    def rewrite(self) -> None:
        """Write the file anew (zero padding goes away)."""
        data = serialize_offset_index(self.entries)
        if data != read_file(self.path):  # as it is, with most partitions of a broker that crashed
            self.is_changed = True
            files.write_file(self.path, data)
        self._written_count = len(self.entries)

    def write_out(self) -> bool:
        """Append the new entries to the file; returns whether there were any. The caller syncs."""
        if self._entries is None or len(self._entries) == self._written_count:
            return False
        self.is_changed = True
        new = serialize_offset_index(self._entries[self._written_count :])
        files.write_end(self.path, self._written_count * ENTRY_SIZE, new)  # a zero-padded tail may have been there
        self._written_count = len(self._entries)
        return True

    def unload(self) -> None:
        """Forget the entries in memory; they come back from the file. Unwritten ones are written first, or stay."""
        with suppress(OSError):  # it may be another log's turn: the next flush of this one meets the error again
            self.write_out()
            self._entries = None

    def remove(self) -> None:
        remove_file(self.path)
