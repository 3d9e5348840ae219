"""Reads a ZooKeeper server's transaction log: every write, with its session.

Watches miss states of a znode and do not report the writer; the log contains both. A transaction is in the file before
its client gets the response. Paths are absolute and include the chroot.

Source: FileTxnLog.java, SerializeUtils.java and zookeeper.jute@3.9.
"""

import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kafka_zk.base.clock import wall_ms
from kafka_zk.recorder.zookeeper_files.jute import INT, read_buffer, read_text, skip_acls
from kafka_zk.recorder.zookeeper_files.snapshot import Znode

_FILE_HEADER_BYTES = 16
_CHUNK_BYTES = 1 << 20
_SETTLED_MS = 1_000
_DIGEST_BYTES = 12
_FIRST_ZXIDS = (1, (1 << 32) + 1)  # the first ones of a standalone server, and of an ensemble's first leader
_RECORD = struct.Struct(">qi")
_HEADER = struct.Struct(">qiqqi")
_CREATE, _DELETE, _SET_DATA, _MULTI, _CREATE2, _CREATE_CONTAINER, _DELETE_CONTAINER, _CREATE_TTL = (
    1, 2, 5, 14, 15, 19, 20, 21
)  # fmt: skip
_RECONFIG = 16
_CREATE_SESSION, _CLOSE_SESSION, _ERROR = -10, -11, -1


@dataclass(frozen=True, slots=True)
class Created:
    """``data`` None: the znode holds null. ``ephemeral``: the znode ends with its session."""

    path: str
    data: bytes | None
    ephemeral: bool


@dataclass(frozen=True, slots=True)
class DataSet:
    path: str
    data: bytes | None
    version: int


@dataclass(frozen=True, slots=True)
class Deleted:
    path: str


@dataclass(frozen=True, slots=True)
class SessionCreated:
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """``paths``: the session's ephemeral znodes, which end with it; None if the server did not log them. ``inferred``:
    not from a log, but from the end of these znodes.
    """

    paths: tuple[str, ...] | None
    inferred: bool = False


@dataclass(frozen=True, slots=True)
class Restored:
    """All znodes of a snapshot, which replace all earlier ones; not from a log."""

    znodes: Mapping[str, Znode]


Operation = Created | DataSet | Deleted | SessionCreated | SessionClosed | Restored


@dataclass(frozen=True, slots=True)
class Transaction:
    """Changes that one session made atomically: several for a multi, none for ACL changes and failures."""

    zxid: int
    time_ms: int
    session: int
    operations: tuple[Operation, ...]


class TransactionLogFollower:
    """Reads transactions written since the last call; a call without new transactions is cheap.

    Args:
        data_dir: the server's ``dataDir`` (or ``dataLogDir`` if that is set).
    """

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "version-2"
        self._file: Path | None = None
        self._position = _FILE_HEADER_BYTES
        self._files: list[Path] = []
        self._listed_ns = -1
        self.missing_until = 0
        """Transactions up to this zxid are missing: the server purged its log and kept a snapshot. 0: the log is
        complete.
        """

    def read(self, limit: int | None = None) -> list[Transaction]:
        """The transactions, oldest first; ``limit`` None: all. Raises: OSError."""
        found: list[Transaction] = []
        for file in self._unread_files():
            if file != self._file:
                self._open(file)
            for transaction in self._rest(file):
                found.append(transaction)
                if limit is not None and len(found) >= limit:
                    return found
        return found

    def _unread_files(self) -> list[Path]:
        self._list_files()
        if self._file is None:
            return self._files
        return [file for file in self._files if _first_zxid(file) >= _first_zxid(self._file)]

    def _list_files(self) -> None:
        changed_ns = self._folder.stat().st_mtime_ns if self._folder.is_dir() else 0
        if changed_ns == self._listed_ns:
            return
        self._files = sorted(self._folder.glob("log.*"), key=_first_zxid)
        self._listed_ns = changed_ns if wall_ms() - changed_ns // 1_000_000 > _SETTLED_MS else -1

    def _open(self, file: Path) -> None:
        if self._file is None and _first_zxid(file) not in _FIRST_ZXIDS and any(self._folder.glob("snapshot.?*")):
            self.missing_until = _first_zxid(file) - 1
        self._file, self._position = file, _FILE_HEADER_BYTES

    def _rest(self, file: Path) -> Iterator[Transaction]:
        """Read in chunks: the server preallocates 64 MiB of zeros, which should not be read repeatedly."""
        with file.open("rb", buffering=0) as opened:
            size = _CHUNK_BYTES
            head = os.pread(opened.fileno(), _RECORD.size, self._position)
            while len(head) == _RECORD.size and _RECORD.unpack(head)[1] > 0:
                size = max(size, _RECORD.size + _RECORD.unpack(head)[1] + 1)
                begin = self._position
                for end, transaction in _transactions(os.pread(opened.fileno(), size, begin)):
                    self._position = begin + end
                    yield transaction
                if self._position == begin:
                    return
                size = _CHUNK_BYTES
                head = os.pread(opened.fileno(), _RECORD.size, self._position)


def transactions(data_dir: Path) -> list[Transaction]:
    """All transactions in the log, oldest first. Raises: OSError."""
    return TransactionLogFollower(data_dir).read()


def _first_zxid(file: Path) -> int:
    return int(file.suffix[1:], 16)


def _transactions(data: bytes) -> Iterator[tuple[int, Transaction]]:
    position = 0
    while position + _RECORD.size <= len(data):
        checksum, size = _RECORD.unpack_from(data, position)
        start = position + _RECORD.size
        position = start + size + 1  # each record ends with 'B'
        if size < _HEADER.size or position > len(data) or data[position - 1 : position] != b"B":
            return
        body = data[start : start + size]
        if zlib.adler32(body) != checksum:
            return
        session, _, zxid, time_ms, kind = _HEADER.unpack_from(body)
        yield position, Transaction(zxid, time_ms, session, tuple(_operations(kind, body[_HEADER.size :])))


def _operations(kind: int, body: bytes) -> Iterator[Operation]:
    if kind in (_CREATE, _CREATE2, _CREATE_CONTAINER, _CREATE_TTL):
        path, position = read_text(body, 0)
        data, position = read_buffer(body, position)
        yield Created(path, data, kind in (_CREATE, _CREATE2) and body[skip_acls(body, position)] == 1)
    elif kind in (_SET_DATA, _RECONFIG):
        path, position = read_text(body, 0)
        data, position = read_buffer(body, position)
        yield DataSet(path, data, INT.unpack_from(body, position)[0])
    elif kind in (_DELETE, _DELETE_CONTAINER):
        yield Deleted(read_text(body, 0)[0])
    elif kind == _CREATE_SESSION:
        yield SessionCreated(INT.unpack_from(body)[0])
    elif kind == _CLOSE_SESSION:
        yield SessionClosed(_paths(body))
    elif kind == _MULTI:
        parts = list(_parts(body))
        if _ERROR not in (inner for inner, _ in parts):  # otherwise the multi failed
            for inner, change in parts:
                yield from _operations(inner, change)


def _parts(body: bytes) -> Iterator[tuple[int, bytes]]:
    (count,) = INT.unpack_from(body)
    position = INT.size
    for _ in range(count):
        (kind,) = INT.unpack_from(body, position)
        change, position = read_buffer(body, position + INT.size)
        yield kind, change or b""


def _paths(body: bytes) -> tuple[str, ...] | None:
    if len(body) in (0, _DIGEST_BYTES):
        return None
    (count,) = INT.unpack_from(body)
    paths, position = [], INT.size
    for _ in range(max(0, count)):
        path, position = read_text(body, position)
        paths.append(path)
    return tuple(paths)
