"""Reads snapshots of a ZooKeeper server: the znodes before the oldest file of its transaction log.

The server continues while it writes a snapshot, so a snapshot may include later transactions, which the log repeats.

Source: FileSnap.java, DataTree.java, EphemeralType.java and zookeeper.jute@3.9.
"""

import gzip
import struct
import zlib
from collections.abc import Iterable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from kafka_zk.recorder.zookeeper_files.folder import files_folder, zxid_of
from kafka_zk.recorder.zookeeper_files.jute import INT, Stream

_MAGIC = b"ZKSN"
_FILE_HEADER_BYTES = 16
MOST_UNPACKED_BYTES = 1 << 30
"""A compressed snapshot that is larger when unpacked is not read."""
_SESSION_BYTES = 12  # id and timeout
_LONG = struct.Struct(">q")
_STAT = struct.Struct(">qqqqiiiqq")
"""czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeralOwner, pzxid"""
_END = "/"
_OF_ZOOKEEPER = "/zookeeper"
_CONTAINER = -(1 << 63)
_TTL_BYTE = 0xFF


class Znode(NamedTuple):
    """A znode. ``session``: the owner of an ephemeral znode, 0 for other znodes."""

    data: bytes | None
    version: int
    czxid: int
    mzxid: int
    mtime_ms: int
    session: int


class Snapshot(NamedTuple):
    """All znodes by path after transaction ``zxid`` or slightly later, without the root and ``/zookeeper``."""

    zxid: int
    znodes: Mapping[str, Znode]


def oldest_snapshot(data_dir: Path, least_zxid: int) -> Snapshot | None:
    """The oldest complete snapshot at or after transaction ``least_zxid``; None if there is none. Raises: OSError."""
    return _first_complete(each for each in _files(data_dir) if each[0] >= least_zxid)


def newest_snapshot(data_dir: Path) -> Snapshot | None:
    """The newest complete snapshot; None if there is none. Raises: OSError."""
    return _first_complete(reversed(_files(data_dir)))


def _files(data_dir: Path) -> list[tuple[int, Path]]:
    return sorted((zxid_of(file), file) for file in files_folder(data_dir).glob("snapshot.*") if zxid_of(file) >= 0)


def _first_complete(files: Iterable[tuple[int, Path]]) -> Snapshot | None:
    for zxid, file in files:
        if (znodes := _znodes(file)) is not None:
            return Snapshot(zxid, znodes)
    return None


def _znodes(file: Path) -> dict[str, Znode] | None:
    """None if the file is not a complete snapshot. Reading ends at the first invalid field."""
    is_packed = file.suffix == ".gz"
    most_bytes = MOST_UNPACKED_BYTES if is_packed else file.stat().st_size
    try:
        with gzip.open(file) if is_packed else file.open("rb") as opened:
            return _parse(Stream(BufferedReader(opened) if isinstance(opened, gzip.GzipFile) else opened, most_bytes))
    except (struct.error, EOFError, gzip.BadGzipFile, zlib.error):
        return None


def _parse(stream: Stream) -> dict[str, Znode]:
    """Raises: struct.error."""
    if not stream.read(_FILE_HEADER_BYTES).startswith(_MAGIC):
        raise struct.error("not a snapshot")
    stream.skip(stream.count() * _SESSION_BYTES)
    for _ in range(stream.count()):  # distinct ACL lists
        stream.skip(_LONG.size)
        for _ in range(stream.count()):
            stream.skip(INT.size)  # the permissions; then scheme and id
            stream.buffer()
            stream.buffer()
    znodes: dict[str, Znode] = {}
    path, is_root = stream.text(), True
    while path != _END:
        if not (path.startswith("/") or (is_root and not path)):
            raise struct.error(f"{path[:100]!r} is not a path")
        content = stream.buffer()
        stream.skip(_LONG.size)  # the index of the ACL list
        czxid, mzxid, _, mtime_ms, version, _, _, owner, _ = _STAT.unpack(stream.read(_STAT.size))
        if path and path != _OF_ZOOKEEPER and not path.startswith(f"{_OF_ZOOKEEPER}/"):
            znodes[path] = Znode(content, version, czxid, mzxid, mtime_ms, _session(owner))
        path, is_root = stream.text(), False
    return znodes


def _session(owner: int) -> int:
    """The owner's session, or 0. Containers and TTL znodes store other values in the field ``ephemeralOwner``."""
    is_other = owner == _CONTAINER or (owner >> 56) & 0xFF == _TTL_BYTE
    return 0 if is_other else owner
