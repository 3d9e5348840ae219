"""A segment's sparse time index. An entry says that no record up to its offset has a later timestamp.

File: entries of 12 bytes, ``timestamp (int64, ms), relative offset (int32)``, big-endian, both ascending. The timestamp
is the largest up to the offset. A killed Kafka broker leaves zeros at the end. Lookups are rare (ListOffsets), so only
unwritten entries and the last entry stay in memory.
Source: TimeIndex.java@3.9.
"""

from collections.abc import Iterator
from contextlib import suppress
from struct import Struct

from kafka_zk.storage.files import files
from kafka_zk.storage.files.files import read_file, remove_file

_ENTRY = Struct(">qi")
ENTRY_SIZE = 12
_ZERO = bytes(ENTRY_SIZE)
NO_TIMESTAMP = -1


def valid_time_index(data: bytes) -> bytes:
    """The content of an index file, without zeros or an incomplete entry at the end."""
    end = len(data) // ENTRY_SIZE * ENTRY_SIZE
    while end and data[end - ENTRY_SIZE : end] == _ZERO:
        end -= ENTRY_SIZE
    return data[:end]


def iter_time_index(data: bytes, base_offset: int) -> Iterator[tuple[int, int]]:
    """(Timestamp in ms, offset) of every entry in valid content."""
    for timestamp_ms, relative in _ENTRY.iter_unpack(data):
        yield timestamp_ms, base_offset + relative


def _read_end(path: str) -> tuple[int, bytes]:
    """The number of valid entries, and the last entry. Reads the whole file only if it ends in zeros."""
    with suppress(FileNotFoundError), files.opened(path) as descriptor:
        end = files.size_bytes(path) // ENTRY_SIZE * ENTRY_SIZE
        last = files.pread(descriptor, ENTRY_SIZE, end - ENTRY_SIZE) if end else b""
        if last == _ZERO:
            data = valid_time_index(read_file(path) or b"")
            end, last = len(data), data[-ENTRY_SIZE:]
        return end // ENTRY_SIZE, last
    return 0, b""


class TimeIndex:
    """The time index of one segment; the file is opened for each use.

    ``is_changed``: this process has written the file.
    """

    __slots__ = ("_last", "_tail", "_written_count", "base_offset", "is_changed", "path")

    def __init__(self, path: str, base_offset: int, *, is_new: bool = False) -> None:
        self.path = path
        self.base_offset = base_offset
        self._tail = b""
        self._last = (NO_TIMESTAMP, base_offset)
        self._written_count = 0 if is_new else -1  # -1: not read yet
        self.is_changed = False

    def _load(self) -> None:
        if self._written_count < 0:
            self._written_count, last = _read_end(self.path)
            if last:
                timestamp_ms, relative = _ENTRY.unpack(last)
                self._last = (timestamp_ms, self.base_offset + relative)

    @property
    def last_entry(self) -> tuple[int, int]:
        """(Timestamp in ms, offset) of the last entry; (-1, base offset) if the index is empty."""
        self._load()
        return self._last

    @property
    def count(self) -> int:
        self._load()
        return self._written_count + len(self._tail) // ENTRY_SIZE

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry if its timestamp is larger than the last entry's."""
        self._load()
        if timestamp_ms > self._last[0]:
            self._tail += _ENTRY.pack(timestamp_ms, offset - self.base_offset)
            self._last = (timestamp_ms, offset)

    def lookup(self, timestamp_ms: int) -> tuple[int, int]:
        """The last entry up to ``timestamp_ms``; (-1, base offset) if none."""
        data = self._content()
        low, high = 0, len(data) // ENTRY_SIZE
        while low < high:
            middle = (low + high) // 2
            if _ENTRY.unpack_from(data, middle * ENTRY_SIZE)[0] <= timestamp_ms:
                low = middle + 1
            else:
                high = middle
        if not low:
            return NO_TIMESTAMP, self.base_offset
        found_ms, relative = _ENTRY.unpack_from(data, (low - 1) * ENTRY_SIZE)
        return found_ms, self.base_offset + relative

    def _content(self) -> bytes:
        self._load()
        return (read_file(self.path) or b"")[: self._written_count * ENTRY_SIZE] + self._tail

    def truncate_to_offset(self, offset: int) -> None:
        """Drop entries from ``offset`` on, in memory and file."""
        kept = b"".join(
            _ENTRY.pack(timestamp_ms, entry_offset - self.base_offset)
            for timestamp_ms, entry_offset in iter_time_index(self._content(), self.base_offset)
            if entry_offset < offset
        )
        self.replace(kept)

    def replace(self, data: bytes) -> None:
        if data != read_file(self.path):  # after a crash, most files are up to date
            self.is_changed = True
            files.write_file(self.path, data)
        self._tail = b""
        self._written_count = -1
        self._last = (NO_TIMESTAMP, self.base_offset)

    def write_out(self) -> bool:
        """Append new entries, without fsync. Returns True if there were any."""
        if not self._tail:
            return False
        self.is_changed = True
        files.write_end(self.path, self._written_count * ENTRY_SIZE, self._tail)
        self._written_count += len(self._tail) // ENTRY_SIZE
        self._tail = b""
        return True

    def remove(self) -> None:
        remove_file(self.path)
