"""Reads snapshots of a ZooKeeper server: the znodes before the oldest file of its transaction log.

The server continues while it writes a snapshot, so a snapshot may include later transactions, which the log repeats.

Source: FileSnap.java, DataTree.java, EphemeralType.java and zookeeper.jute@3.9.
"""

import gzip
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kafka_zk.recorder.zookeeper_files.folder import files_folder, zxid_of
from kafka_zk.recorder.zookeeper_files.jute import INT, read_buffer, read_text, skip_acls

_MAGIC = b"ZKSN"
_FILE_HEADER_BYTES = 16
_MOST_BYTES = 4 << 30
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
    """The oldest complete snapshot at or after transaction ``least_zxid``. Raises: OSError."""
    files = sorted((zxid_of(file), file) for file in files_folder(data_dir).glob("snapshot.*") if zxid_of(file) >= 0)
    for zxid, file in files:
        if zxid >= least_zxid and (znodes := _znodes(_content(file))) is not None:
            return Snapshot(zxid, znodes)
    return None


def _content(file: Path) -> bytes:
    """Empty if the file cannot be decompressed."""
    if file.suffix != ".gz":
        return file.read_bytes()
    try:
        with gzip.open(file) as opened:
            return opened.read(_MOST_BYTES)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return b""


def _znodes(data: bytes) -> dict[str, Znode] | None:
    try:
        return _parse(data) if data.startswith(_MAGIC) else None
    except struct.error:
        return None


def _parse(data: bytes) -> dict[str, Znode]:
    (count,) = INT.unpack_from(data, _FILE_HEADER_BYTES)
    position = _FILE_HEADER_BYTES + INT.size + max(0, count) * _SESSION_BYTES
    (count,) = INT.unpack_from(data, position)  # number of distinct ACL lists
    position += INT.size
    for _ in range(count):
        position = skip_acls(data, position + _LONG.size)
    znodes = {}
    path, position = read_text(data, position)
    while path != _END:
        content, position = read_buffer(data, position)
        position += _LONG.size  # the index of the ACL list
        czxid, mzxid, _, mtime_ms, version, _, _, owner, _ = _STAT.unpack_from(data, position)
        if path and path != _OF_ZOOKEEPER and not path.startswith(f"{_OF_ZOOKEEPER}/"):
            znodes[path] = Znode(content, version, czxid, mzxid, mtime_ms, _session(owner))
        path, position = read_text(data, position + _STAT.size)
    return znodes


def _session(owner: int) -> int:
    """Containers and TTL znodes store other values in this field."""
    is_other = owner == _CONTAINER or (owner >> 56) & 0xFF == _TTL_BYTE
    return 0 if is_other else owner
