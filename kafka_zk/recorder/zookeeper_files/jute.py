"""Jute, the encoding of ZooKeeper's transaction logs and snapshots.

Source: BinaryInputArchive.java, zookeeper.jute@3.9.
"""

import struct

INT = struct.Struct(">i")


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
