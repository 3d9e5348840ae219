"""Every write of a ZooKeeper server, with the session that made it, from its transaction log.

No watch sees all states that a znode had; the log does. Source: FileTxnLog.java and zookeeper.jute@3.9.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_FILE_HEADER_BYTES = 16
_RECORD = struct.Struct(">qi")
_HEADER = struct.Struct(">qiqqi")
_CREATE, _SET_DATA, _MULTI, _CREATE2 = 1, 5, 14, 15


class Write(NamedTuple):
    """A znode was created, or its data set, by a session."""

    zxid: int
    time_ms: int
    session: int
    path: str
    data: bytes


def writes(data_dir: Path) -> list[Write]:
    """All creations and changes, oldest first, of a server's ``dataDir``; what it writes just now may be missing."""
    found: list[Write] = []
    for file in (data_dir / "version-2").glob("log.*"):
        found += _writes_of(file.read_bytes())
    return sorted(found, key=lambda write: write.zxid)


def _writes_of(log: bytes) -> Iterator[Write]:
    position = _FILE_HEADER_BYTES
    while position + _RECORD.size <= len(log):
        _, size = _RECORD.unpack_from(log, position)
        position += _RECORD.size
        if not size or position + size >= len(log):  # what follows was only reserved, or is not complete yet
            return
        session, _, zxid, time_ms, kind = _HEADER.unpack_from(log, position)
        for path, data in _changes(kind, log[position + _HEADER.size : position + size]):
            yield Write(zxid, time_ms, session, path, data)
        position += size + 1  # each ends with 'B'


def _changes(kind: int, body: bytes) -> Iterator[tuple[str, bytes]]:
    if kind in (_CREATE, _SET_DATA, _CREATE2):
        path, position = _buffer(body, 0)
        data, _ = _buffer(body, position)
        yield path.decode(), data
    elif kind == _MULTI:
        (count,) = struct.unpack_from(">i", body)
        position = 4
        for _ in range(count):
            (inner,) = struct.unpack_from(">i", body, position)
            change, position = _buffer(body, position + 4)
            yield from _changes(inner, change)


def _buffer(body: bytes, position: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(">i", body, position)
    start = position + 4
    end = start + max(0, size)
    return body[start:end], end
