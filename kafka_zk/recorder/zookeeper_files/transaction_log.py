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
from kafka_zk.recorder.zookeeper_files.folder import files_folder, zxid_of
from kafka_zk.recorder.zookeeper_files.jute import INT, read_buffer, read_text, skip_acls
from kafka_zk.recorder.zookeeper_files.snapshot import Znode

_FILE_HEADER = struct.Struct(">4siq")
_FILE_HEADER_BYTES = _FILE_HEADER.size
_MAGIC, _FILE_VERSION = b"ZKLG", 2
_MOST_RECORD_BYTES = 64 << 20
"""ZooKeeper's own limit is ``jute.maxbuffer``, 1 MB by default."""
_CHUNK_BYTES = 1 << 20
_SETTLED_MS = 1_000
_DIGEST_BYTES = 12
_COUNTER = 0xFFFF_FFFF
"""The lower half of a zxid, which begins at 1 in each epoch of the leader."""
_FIRST_ZXIDS = (1, (1 << 32) + 1)  # the first zxids of a standalone server, and of an ensemble's first leader
_RECORD = struct.Struct(">qi")
_HEADER = struct.Struct(">qiqqi")
_CREATE, _DELETE, _SET_DATA, _MULTI, _CREATE2, _CREATE_CONTAINER, _DELETE_CONTAINER, _CREATE_TTL = (
    1, 2, 5, 14, 15, 19, 20, 21
)  # fmt: skip
_RECONFIG = 16
_CREATE_SESSION, _CLOSE_SESSION, _ERROR = -10, -11, -1


@dataclass(frozen=True, slots=True)
class Created:
    """``data``: None if the znode holds null. ``ephemeral``: the znode ends with its session."""

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
    """``paths``: the session's ephemeral znodes, which end with it; None if the server did not log them.

    ``expired``: the server ended the session, because it received nothing within the timeout. Otherwise the client
    closed it.
    ``inferred``: the end was concluded from the deletion of these znodes, not read from a log; ``expired`` is unknown.
    """

    paths: tuple[str, ...] | None
    expired: bool = False
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
        data_dir: the server's ``dataDir`` (or ``dataLogDir`` if that is set), or a folder with its files.
    """

    def __init__(self, data_dir: Path) -> None:
        self._folder = files_folder(data_dir)
        self._file: Path | None = None
        self._position = _FILE_HEADER_BYTES
        self._files: list[Path] = []
        self._listed_ns = -1
        self._foreign: list[Path] = []
        self._problems: dict[Path, str] = {}
        self.missing_until = 0
        """Transactions up to this zxid are missing: the server purged its log. 0: the log is complete."""
        self.behind = False
        """True if the last read returned at one of its limits, before the log's end."""

    @property
    def problems(self) -> list[str]:
        """So far, a sentence for each file that is damaged or is not a transaction log."""
        foreign = (f"{file.name} is not named like a file of a transaction log" for file in self._foreign)
        return [*foreign, *self._problems.values()]

    @property
    def has_files(self) -> bool:
        return bool(self._files)

    def damage_after(self, zxid: int) -> list[str]:
        """A sentence for each file whose damage or absence hides transactions after ``zxid``, in the part that was read
        so far. A missing end of an earlier epoch is not noticed.
        """
        following = dict(zip(self._files, self._files[1:], strict=False))
        found = [
            problem for file, problem in self._problems.items()
            if file not in following or zxid_of(following[file]) > zxid + 1
        ]  # fmt: skip
        if self.missing_until > zxid and (self.missing_until & _COUNTER or self.missing_until >> 32 <= zxid >> 32):
            found.append(f"the transactions from {zxid + 1:#x} to {self.missing_until:#x} are in no file")
        return found

    def read(self, limit: int | None = None, most_bytes: int | None = None) -> list[Transaction]:
        """The transactions, oldest first.

        Args:
            limit, most_bytes: return after this number of transactions or bytes; None: all.
        Raises: OSError.
        """
        found: list[Transaction] = []
        read_bytes, self.behind = 0, False
        for file in self._unread_files():
            if file != self._file:
                self._open(file)
            for size, transaction in self._rest(file):
                found.append(transaction)
                read_bytes += size
                if len(found) == limit or (most_bytes is not None and read_bytes >= most_bytes):
                    self.behind = True
                    return found
        return found

    def _unread_files(self) -> list[Path]:
        self._list_files()
        if self._file is None:
            return self._files
        return [file for file in self._files if zxid_of(file) >= zxid_of(self._file)]

    def _list_files(self) -> None:
        changed_ns = self._folder.stat().st_mtime_ns if self._folder.is_dir() else 0
        if changed_ns == self._listed_ns:
            return
        named = sorted(self._folder.glob("log.*"), key=lambda file: (zxid_of(file), file.name))
        self._files = [file for file in named if zxid_of(file) >= 0]
        self._foreign = [file for file in named if zxid_of(file) < 0]
        self._listed_ns = changed_ns if wall_ms() - changed_ns // 1_000_000 > _SETTLED_MS else -1

    def _open(self, file: Path) -> None:
        if self._file is None and zxid_of(file) not in _FIRST_ZXIDS:
            self.missing_until = max(0, zxid_of(file) - 1)
        self._file, self._position = file, _FILE_HEADER_BYTES

    def _rest(self, file: Path) -> Iterator[tuple[int, Transaction]]:
        """Each transaction with its size in bytes.

        Read in chunks: the server preallocates 64 MiB of zeros, which should not be read repeatedly.
        """
        with file.open("rb", buffering=0) as opened:
            self._problems.pop(file, None)
            if not _is_log(os.pread(opened.fileno(), _FILE_HEADER_BYTES, 0)):
                self._problems[file] = f"{file.name} is not a file of a transaction log of ZooKeeper 3.4 to 3.9"
                return
            while size := self._next_size(opened.fileno()):
                begin = self._position
                for end, transaction in _transactions(os.pread(opened.fileno(), max(size, _CHUNK_BYTES), begin)):
                    taken, self._position = begin + end - self._position, begin + end
                    yield taken, transaction
                if self._position == begin:
                    break
            if _is_damaged(opened.fileno(), self._position):
                where = f"{file.name} is damaged at byte {self._position:,}"
                self._problems[file] = f"{where}: the transactions after it in this file are missing"

    def _next_size(self, descriptor: int) -> int:
        """The size of the next record, if its head is complete; 0 at the end."""
        head = os.pread(descriptor, _RECORD.size, self._position)
        size = _RECORD.unpack(head)[1] if len(head) == _RECORD.size else 0
        return _RECORD.size + size + 1 if 0 < size <= _MOST_RECORD_BYTES else 0


def transactions(data_dir: Path) -> list[Transaction]:
    """All transactions in the log, oldest first. Raises: OSError."""
    return TransactionLogFollower(data_dir).read()


def _is_log(head: bytes) -> bool:
    """True also for a file whose head the server has not written yet."""
    if len(head) < _FILE_HEADER_BYTES or not any(head):
        return True
    return _FILE_HEADER.unpack(head)[:2] == (_MAGIC, _FILE_VERSION)


def _is_damaged(descriptor: int, position: int) -> bool:
    """True if more data follows the invalid record at ``position``. After a torn write, only zeros follow."""
    head = os.pread(descriptor, _RECORD.size, position)
    size = _RECORD.unpack(head)[1] if len(head) == _RECORD.size else 0
    if not size:
        return False
    if not 0 < size <= _MOST_RECORD_BYTES:
        return True
    return any(os.pread(descriptor, _CHUNK_BYTES, position + _RECORD.size + size + 1))


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
        session, request_number, zxid, time_ms, kind = _HEADER.unpack_from(body)
        try:
            operations = tuple(_operations(kind, body[_HEADER.size :], request_number))
        except (struct.error, IndexError):
            return  # the checksum is correct, but the content is invalid
        yield position, Transaction(zxid, time_ms, session, operations)


def _operations(kind: int, body: bytes, request_number: int) -> Iterator[Operation]:
    """``request_number``: the client's number for the request; 0 for a request of the server itself."""
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
        yield SessionClosed(_paths(body), expired=request_number == 0)
    elif kind == _MULTI:
        parts = list(_parts(body))
        if _ERROR not in (inner for inner, _ in parts):  # a multi with an error was not applied
            for inner, change in parts:
                if inner == _MULTI:
                    raise struct.error("ZooKeeper has no multi in a multi")
                yield from _operations(inner, change, request_number)


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
