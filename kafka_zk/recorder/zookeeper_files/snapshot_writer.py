"""Writes a snapshot from which a new ZooKeeper server starts, without sessions and without a transaction log.

Every znode is persistent, and every client may read and change it. A sequential znode is numbered by its parent's
``cversion``, which is made higher than the number of every child.

Source: FileSnap.java, SnapStream.java, DataTree.java and ReferenceCountedACLCache.java@3.9.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from kafka_zk.recorder.zookeeper_files.jute import INT, buffer, text
from kafka_zk.recorder.zookeeper_files.snapshot import Znode

_HEADER = b"ZKSN" + struct.pack(">iq", 2, -1)
_OPEN_TO_ALL = -1
_LONG = struct.Struct(">q")
_STAT = struct.Struct(">qqqqiiiqq")
_SEQUENCE_DIGITS = 10
_OWN = ("", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")
"""The root, which is written as an empty path, and ZooKeeper's own znodes."""


def write_snapshot(data_dir: Path, zxid: int, znodes: Mapping[str, Znode]) -> Path:
    """``znodes`` by path, without the root and ``/zookeeper``; parents that are missing are added. ``zxid``: not lower
    than that of any znode. Raises: OSError, FileExistsError if the folder has a snapshot of this zxid.
    """
    folder = data_dir / "version-2"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"snapshot.{zxid:x}"
    with path.open("xb") as file:
        checksum = 1
        for part in _parts(znodes):
            checksum = zlib.adler32(part, checksum)
            file.write(part)
        file.write(_LONG.pack(checksum) + text("/"))
    return path


def _parts(znodes: Mapping[str, Znode]) -> Iterator[bytes]:
    yield _HEADER + INT.pack(0) + INT.pack(0)  # neither sessions nor lists of ACLs
    paths = sorted({*_OWN, *znodes, *(parent for path in znodes for parent in _parents(path))}, key=_depth_first)
    cversions = _cversions(paths)
    for path in paths:
        yield _record(path, znodes.get(path), cversions.get(path, 0))
    yield text("/")


def _depth_first(path: str) -> list[str]:
    return path.split("/")


def _parents(path: str) -> Iterator[str]:
    parent = path.rpartition("/")[0]
    while parent:
        yield parent
        parent = parent.rpartition("/")[0]


def _cversions(paths: list[str]) -> dict[str, int]:
    """Each parent's ``cversion``: at least the number of children, and higher than each child's sequence number."""
    counts: dict[str, int] = {}
    highest: dict[str, int] = {}
    for path in paths:
        parent, _, name = path.rpartition("/")
        counts[parent] = counts.get(parent, 0) + 1
        digits = name[-_SEQUENCE_DIGITS:]
        if len(digits) == _SEQUENCE_DIGITS and digits.isascii() and digits.isdigit() and int(digits) < 2**31 - 1:
            highest[parent] = max(highest.get(parent, 0), int(digits) + 1)
    return {parent: max(count, highest.get(parent, 0)) for parent, count in counts.items()}


def _record(path: str, znode: Znode | None, cversion: int) -> bytes:
    data, version, czxid, mzxid, mtime_ms, _ = znode or Znode(b"", 0, 0, 0, 0, 0)
    stat = _STAT.pack(czxid, mzxid, mtime_ms, mtime_ms, version, cversion, 0, 0, max(czxid, mzxid))
    return text(path) + buffer(data) + _LONG.pack(_OPEN_TO_ALL) + stat
