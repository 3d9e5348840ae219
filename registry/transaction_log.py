"""Every write of a ZooKeeper server, with the session that made it, from its transaction log.

No watch sees all states that a znode had, or who wrote it; the log does. A transaction is in the file before the client
that asked for it has its answer. Paths are absolute: they begin with the chroot, if there is one.

Source: FileTxnLog.java, SerializeUtils.java and zookeeper.jute@3.9.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FILE_HEADER_BYTES = 16
_RECORD = struct.Struct(">qi")
_HEADER = struct.Struct(">qiqqi")
_INT = struct.Struct(">i")
_CREATE, _DELETE, _SET_DATA, _MULTI, _CREATE2, _CREATE_CONTAINER, _DELETE_CONTAINER, _CREATE_TTL = (
    1, 2, 5, 14, 15, 19, 20, 21
)  # fmt: skip
_CREATE_SESSION, _CLOSE_SESSION, _ERROR = -10, -11, -1


@dataclass(frozen=True, slots=True)
class Created:
    """``data`` None: the znode holds null. ``ephemeral``: it lives as long as the session that created it."""

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
    """``paths``: its ephemeral znodes, which go with it; None where the server did not write them down."""

    paths: tuple[str, ...] | None


Operation = Created | DataSet | Deleted | SessionCreated | SessionClosed


@dataclass(frozen=True, slots=True)
class Transaction:
    """What one session changed at once; several operations only in a multi, none where only ACLs were set or the
    server refused it."""

    zxid: int
    time_ms: int
    session: int
    operations: tuple[Operation, ...]


class TransactionLogFollower:
    """Reads what a server wrote to its log since the last call.

    Args:
        data_dir: the server's ``dataDir`` (``dataLogDir`` where that is set).
    """

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "version-2"
        self._file: Path | None = None
        self._position = _FILE_HEADER_BYTES

    def read(self) -> list[Transaction]:
        """The new transactions, oldest first. Raises: OSError."""
        found: list[Transaction] = []
        files = sorted(self._folder.glob("log.*"), key=_first_zxid)
        for file in files[files.index(self._file) if self._file in files else 0 :]:
            if file != self._file:
                self._file, self._position = file, _FILE_HEADER_BYTES
            found += self._rest(file)
        return found

    def _rest(self, file: Path) -> Iterator[Transaction]:
        begin = self._position
        with file.open("rb") as opened:
            opened.seek(begin)
            data = opened.read()
        for end, transaction in _transactions(data):
            self._position = begin + end
            yield transaction


def transactions(data_dir: Path) -> list[Transaction]:
    """All that is in the log, oldest first. Raises: OSError."""
    return TransactionLogFollower(data_dir).read()


def _first_zxid(file: Path) -> int:
    return int(file.suffix[1:], 16)


def _transactions(data: bytes) -> Iterator[tuple[int, Transaction]]:
    """Each with the position behind it, as far as they are complete: the server reserves room with zeros."""
    position = 0
    while position + _RECORD.size <= len(data):
        _, size = _RECORD.unpack_from(data, position)
        start = position + _RECORD.size
        position = start + size + 1  # each ends with 'B'
        if not size or position > len(data) or data[position - 1 : position] != b"B":
            return
        session, _, zxid, time_ms, kind = _HEADER.unpack_from(data, start)
        operations = tuple(_operations(kind, data[start + _HEADER.size : start + size]))
        yield position, Transaction(zxid, time_ms, session, operations)


def _operations(kind: int, body: bytes) -> Iterator[Operation]:
    if kind in (_CREATE, _CREATE2, _CREATE_CONTAINER, _CREATE_TTL):
        path, position = _text(body, 0)
        data, position = _buffer(body, position)
        yield Created(path, data, kind in (_CREATE, _CREATE2) and body[_after_acls(body, position)] == 1)
    elif kind == _SET_DATA:
        path, position = _text(body, 0)
        data, position = _buffer(body, position)
        yield DataSet(path, data, _INT.unpack_from(body, position)[0])
    elif kind in (_DELETE, _DELETE_CONTAINER):
        yield Deleted(_text(body, 0)[0])
    elif kind == _CREATE_SESSION:
        yield SessionCreated(_INT.unpack_from(body)[0])
    elif kind == _CLOSE_SESSION:
        yield SessionClosed(_paths(body))
    elif kind == _MULTI:
        parts = list(_parts(body))
        if _ERROR not in (inner for inner, _ in parts):  # else nothing of it was done
            for inner, change in parts:
                yield from _operations(inner, change)


def _parts(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Of a MultiTxn: kind and body of each."""
    (count,) = _INT.unpack_from(body)
    position = _INT.size
    for _ in range(count):
        (kind,) = _INT.unpack_from(body, position)
        change, position = _buffer(body, position + _INT.size)
        yield kind, change or b""


def _paths(body: bytes) -> tuple[str, ...] | None:
    """Of CloseSessionTxn, which servers before 3.6 do not write."""
    if len(body) < _INT.size:
        return None
    (count,) = _INT.unpack_from(body)
    paths, position = [], _INT.size
    for _ in range(max(0, count)):
        path, position = _text(body, position)
        paths.append(path)
    return tuple(paths)


def _after_acls(body: bytes, position: int) -> int:
    (count,) = _INT.unpack_from(body, position)
    position += _INT.size
    for _ in range(max(0, count)):
        position += _INT.size  # the permissions; then scheme and id
        for _ in range(2):
            _, position = _buffer(body, position)
    return position


def _text(body: bytes, position: int) -> tuple[str, int]:
    data, end = _buffer(body, position)
    return (data or b"").decode(errors="replace"), end


def _buffer(body: bytes, position: int) -> tuple[bytes | None, int]:
    (size,) = _INT.unpack_from(body, position)
    start = position + _INT.size
    return (None, start) if size < 0 else (body[start : start + size], start + size)
