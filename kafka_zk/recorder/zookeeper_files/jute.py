"""Jute, the encoding of ZooKeeper's transaction logs and snapshots.

Source: BinaryInputArchive.java, zookeeper.jute@3.9.
"""

import struct
from typing import IO

INT = struct.Struct(">i")
MOST_FIELD_BYTES = 64 << 20
"""ZooKeeper's own limit for a request, and so for each field, is ``jute.maxbuffer``, 1 MB by default."""
_CHUNK_BYTES = 1 << 20


def read_text(data: bytes, position: int) -> tuple[str, int]:
    """A string and the position after it. Raises: struct.error if the data is too short."""
    found, end = read_buffer(data, position)
    return (found or b"").decode(errors="replace"), end


def read_buffer(data: bytes, position: int) -> tuple[bytes | None, int]:
    """The bytes (None for null) and the position after them. Raises: struct.error if the data is too short."""
    (size,) = INT.unpack_from(data, position)
    start = position + INT.size
    end = start + max(0, size)
    if end > len(data):
        raise struct.error(f"{size} bytes do not fit into {len(data) - start}")
    return None if size < 0 else data[start:end], end


def text(value: str) -> bytes:
    """A string as ``read_text`` reads it."""
    return buffer(value.encode())


def buffer(value: bytes | None) -> bytes:
    """Bytes as ``read_buffer`` reads them."""
    return INT.pack(-1) if value is None else INT.pack(len(value)) + value


def skip_acls(data: bytes, position: int) -> int:
    """The position after a list of ACLs. Raises: struct.error if the data is too short."""
    (count,) = INT.unpack_from(data, position)
    position += INT.size
    for _ in range(max(0, count)):
        position += INT.size  # the permissions; then scheme and id
        for _ in range(2):
            _, position = read_buffer(data, position)
    return position


class Stream:
    """Reads fields from a file, at most ``most_bytes``. Raises: struct.error if a field does not fit; OSError."""

    def __init__(self, file: IO[bytes], most_bytes: int) -> None:
        self._file = file
        self._left_bytes = most_bytes

    def read(self, size_bytes: int) -> bytes:
        if not 0 <= size_bytes <= min(self._left_bytes, MOST_FIELD_BYTES):
            raise struct.error(f"a field cannot have {size_bytes} bytes")
        found = self._file.read(size_bytes)
        if len(found) < size_bytes:
            raise struct.error(f"{size_bytes} bytes are expected, but only {len(found)} are left")
        self._left_bytes -= size_bytes
        return found

    def skip(self, size_bytes: int) -> None:
        while size_bytes > 0:
            size_bytes -= len(self.read(min(size_bytes, _CHUNK_BYTES)))

    def integer(self) -> int:
        (found,) = INT.unpack(self.read(INT.size))
        return int(found)

    def count(self) -> int:
        return max(0, self.integer())

    def buffer(self) -> bytes | None:
        """None for null."""
        size_bytes = self.integer()
        return None if size_bytes < 0 else self.read(size_bytes)

    def text(self) -> str:
        return (self.buffer() or b"").decode(errors="replace")
