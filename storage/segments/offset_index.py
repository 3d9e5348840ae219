"""A segment's sparse offset index, which says where to search for an offset.

File: entries of 8 bytes, ``relative offset (int32), position (int32)``, big-endian, ascending. The offset is that of
the *last* record in the batch at the position. A killed Kafka broker leaves zeros at the end. In memory, entries are
64-bit words (upper half: offset) in an ``array``: a lookup is one ``bisect`` in C.

Only ``write_out`` writes entries (before a flush, at a roll, on close), because recovery rebuilds the index of
unflushed records.
Source: OffsetIndex.java, AbstractIndex.java@3.9.
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
    """The entries of an index file, without zeros or an incomplete entry at the end."""
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
    """The first and the last entry of a file. Reads the whole file only if it ends in zeros."""
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
    """The offset index of one segment, loaded on first use; the file is not kept open.

    ``is_changed``: this process has written the file.
    """

    __slots__ = ("_entries", "_written_count", "base_offset", "is_changed", "path")

    def __init__(self, path: str, base_offset: int, *, is_new: bool = False) -> None:
        self.path = path
        self.base_offset = base_offset
        self._entries: array[int] | None = array("Q") if is_new else None
        self._written_count = 0  # entries in the file
        self.is_changed = False

    @property
    def entries(self) -> "array[int]":
        """64-bit words, loaded if needed."""
        if self._entries is None:
            self._entries = parse_offset_index(read_file(self.path) or b"")
            self._written_count = len(self._entries)
        return self._entries

    @property
    def count(self) -> int:
        return len(self.entries)

    @property
    def last_entry(self) -> tuple[int, int]:
        """(Offset, position) of the last entry; (base offset, 0) if the index is empty."""
        entries = self.entries
        if not entries:
            return self.base_offset, 0
        return self.base_offset + (entries[-1] >> 32), entries[-1] & _POSITION_MASK

    def append(self, offset: int, position: int) -> None:
        """Add an entry; both numbers must be larger than the last entry's."""
        relative = offset - self.base_offset
        assert 0 <= relative <= _MAX_RELATIVE_OFFSET and position <= _MAX_RELATIVE_OFFSET
        self.entries.append(relative << 32 | position)

    def edges(self) -> list[tuple[int, int]]:
        """(Offset, position) of the first and the last entry, without loading the others; empty if there are none."""
        entries = _read_edges(self.path) if self._entries is None else self._entries
        return [(self.base_offset + (entry >> 32), entry & _POSITION_MASK) for entry in (*entries[:1], *entries[-1:])]

    def entry(self, slot: int) -> tuple[int, int]:
        """(Offset, position) of an entry."""
        entry = self.entries[slot]
        return self.base_offset + (entry >> 32), entry & _POSITION_MASK

    def slot_of(self, offset: int) -> int:
        """Number of entries with an offset of at most ``offset``."""
        relative = min(offset - self.base_offset, _MAX_RELATIVE_OFFSET)
        return bisect_right(self.entries, relative << 32 | _POSITION_MASK) if relative >= 0 else 0

    def floor_position(self, position: int) -> int:
        """The largest indexed position up to ``position``; 0 if there is none."""
        entries = self.entries
        slot = bisect_right(entries, position, key=_position_of)
        return entries[slot - 1] & _POSITION_MASK if slot else 0

    def ceiling_position(self, position: int) -> int | None:
        """The smallest indexed position above ``position``; None if there is none."""
        entries = self.entries
        slot = bisect_right(entries, position, key=_position_of)
        return entries[slot] & _POSITION_MASK if slot < len(entries) else None

    def truncate_to_position(self, position: int) -> None:
        """Drop entries from ``position`` on, in memory and file."""
        entries = self.entries
        slot = bisect_right(entries, position - 1, key=_position_of)
        del entries[slot:]
        self.rewrite()

    def replace(self, entries: "array[int]") -> None:
        self._entries = entries
        self.rewrite()

    def rewrite(self) -> None:
        """Write the file without zeros at the end."""
        data = serialize_offset_index(self.entries)
        if data != read_file(self.path):  # after a crash, most files are up to date
            self.is_changed = True
            files.write_file(self.path, data)
        self._written_count = len(self.entries)

    def write_out(self) -> bool:
        """Append new entries, without fsync. Returns True if there were any."""
        if self._entries is None or len(self._entries) == self._written_count:
            return False
        self.is_changed = True
        new = serialize_offset_index(self._entries[self._written_count :])
        files.write_end(self.path, self._written_count * ENTRY_SIZE, new)  # overwrites zeros
        self._written_count = len(self._entries)
        return True

    def unload(self) -> None:
        """Free the entries in memory. Unwritten entries are written first; if that fails, they stay."""
        with suppress(OSError):  # another log may have caused this call; the next flush reports the error
            self.write_out()
            self._entries = None

    def remove(self) -> None:
        remove_file(self.path)
