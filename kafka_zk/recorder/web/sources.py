"""A server's transaction log, watches on the whole tree, and traces."""

from dataclasses import replace
from pathlib import Path
from typing import Protocol

from kafka_zk.base.clock import monotonic_s
from kafka_zk.recorder.timeline.trace_file import Traced, TraceFollower
from kafka_zk.recorder.zookeeper_files.snapshot import oldest_snapshot
from kafka_zk.recorder.zookeeper_files.transaction_log import (
    Created,
    DataSet,
    Deleted,
    Operation,
    Restored,
    SessionClosed,
    Transaction,
    TransactionLogFollower,
)
from kafka_zk.recorder.zookeeper_files.tree_watcher import TreeWatcher
from kafka_zk.registry.client import connect_string
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient
from kafka_zk.registry.client.security import NO_SECURITY, Security
from kafka_zk.registry.znodes.secrets import masked

SESSION_TIMEOUT_MS = 10_000
PROCESS_MS = 20
REREAD_S = 10.0
"""Changes that are read within this time after an interruption may have been written during it."""
MOST_AT_ONCE = 10_000
MOST_AT_ONCE_BYTES = 16 * 1024 * 1024
MOST_PROBLEMS = 5
MOST_TRACE_BYTES = 4 * 1024 * 1024
"""Maximum bytes that one call reads from a trace file."""


class Source(Protocol):
    """``described``: a description of the source. ``misses``: a description of what the source may lack; "" if it lacks
    nothing. ``behind``: True if the last read did not return everything. ``interrupted``: True if that read may have
    returned changes late because of an interruption.
    """

    described: str
    behind: bool

    @property
    def interrupted(self) -> bool: ...

    @property
    def misses(self) -> str: ...

    def read(self) -> list[Transaction]:
        """New transactions. Raises: OSError."""

    def close(self) -> None: ...


class Traces(Protocol):
    def read(self) -> list[Traced]:
        """New events, in each process's order. Raises: OSError."""


class LogSource:
    """The transaction log of a server on this machine: every change with its session, from the beginning.

    If the server has purged a beginning that is not recorded yet, a snapshot replaces it.

    Args:
        data_dir: the server's ``dataLogDir``.
        chroot: removed from paths; znodes outside of it are ignored.
        after_zxid: the last recorded transaction.
        snapshot_dir: the server's ``dataDir``, if it is another folder.
    """

    interrupted = False

    def __init__(
        self, data_dir: Path, chroot: str = "", after_zxid: int = 0, *, snapshot_dir: Path | None = None
    ) -> None:
        self._after_zxid = after_zxid
        self._snapshot_dir = snapshot_dir or data_dir
        self._follower = TransactionLogFollower(data_dir)
        self._purged_until = 0
        self._read: list[Transaction] = []  # read, but not returned yet
        self._chroot = chroot
        self.described = f"the transaction log in {data_dir}"
        self.behind = False
        self.skipped: list[Transaction] = []
        """What the last call read but did not return, because it is recorded already, or a snapshot replaces it."""

    @property
    def misses(self) -> str:
        purged = f"the changes up to zxid {self._purged_until:#x}: ZooKeeper purged that part of its log"
        return "; ".join([*([purged] if self._purged_until else ()), *self._follower.problems[:MOST_PROBLEMS]])

    def read(self) -> list[Transaction]:
        """Reads at most MOST_AT_ONCE transactions, so that a long log does not block the page."""
        read = self._read = self._read or self._follower.read(MOST_AT_ONCE, MOST_AT_ONCE_BYTES)
        restored = self._restored(read)  # if this fails, the next call tries these again
        self._read = []
        self.behind = self._follower.behind
        self.skipped = self._shown([each for each in read if each.zxid <= self._after_zxid])
        return self._shown(restored + [each for each in read if each.zxid > self._after_zxid])

    def _shown(self, read: list[Transaction]) -> list[Transaction]:
        found = [without_secrets(each) for each in read]
        return [_within(self._chroot, each) for each in found] if self._chroot else found

    def _restored(self, read: list[Transaction]) -> list[Transaction]:
        """Return the znodes whose history is no longer in the log, as the first transactions."""
        missing_until = self._follower.missing_until
        if self._purged_until or missing_until <= self._after_zxid:
            return []
        snapshot = oldest_snapshot(self._snapshot_dir, missing_until)
        self._purged_until = missing_until
        if snapshot is None:
            return []
        self._purged_until = self._after_zxid = snapshot.zxid
        changed_ms = max((znode.mtime_ms for znode in snapshot.znodes.values()), default=0)
        first_ms = min((each.time_ms for each in read if each.zxid > snapshot.zxid), default=changed_ms)
        return [Transaction(snapshot.zxid, min(changed_ms, first_ms), 0, (Restored(snapshot.znodes),))]

    def close(self) -> None:
        """Nothing to close: no file stays open between two reads."""


class WatchSource:
    """Reads changes with watches on all znodes of any ZooKeeper. Raises: RegistryError."""

    def __init__(self, zookeeper: str, security: Security = NO_SECURITY) -> None:
        self._client = KazooBlockingClient(zookeeper, SESSION_TIMEOUT_MS, security=security)
        self._client.start()
        self._watcher = TreeWatcher(self._client)
        self._chroot = connect_string.parse(zookeeper).chroot
        self.described = f"watches on ZooKeeper {zookeeper}"
        self.behind = False
        self._interrupted_s = monotonic_s()  # the first reads also find old changes
        self.misses: str = "changes between a watch and the read that follows it; who made a change"

    @property
    def session_id(self) -> int | None:
        return self._client.session_id

    @property
    def session_state(self) -> SessionState:
        return self._client.state

    @property
    def interrupted(self) -> bool:
        return monotonic_s() - self._interrupted_s < REREAD_S

    def read(self) -> list[Transaction]:
        self._client.process(PROCESS_MS)
        if self._client.state is not SessionState.CONNECTED:
            self._interrupted_s = monotonic_s()
        return [without_secrets(each, self._chroot) for each in self._watcher.read()]

    def close(self) -> None:
        self._watcher.close()
        self._client.close()


class TraceSource:
    """Reads the files and folders that brokers and members write with ``--trace``."""

    def __init__(self, *paths: Path, from_start: bool) -> None:
        self._followers = [TraceFollower(path, from_start) for path in paths]
        self._unread: list[TraceFollower] = []
        self._found: list[Traced] = []  # events read before a file that could not be read

    def read(self) -> list[Traced]:
        """New events; a long trace is read in bounded parts. Raises: OSError; the next call continues there."""
        self._unread = self._unread or list(self._followers)
        while self._unread:
            self._found += self._unread[0].read(MOST_TRACE_BYTES)
            del self._unread[0]
        found, self._found = self._found, []
        return found


def without_secrets(transaction: Transaction, chroot: str = "") -> Transaction:
    """``chroot``: a prefix that the transaction's paths lack."""
    operations = tuple(_masked(chroot, each) for each in transaction.operations)
    return Transaction(transaction.zxid, transaction.time_ms, transaction.session, operations)


def _masked(chroot: str, operation: Operation) -> Operation:
    if isinstance(operation, Created | DataSet):
        return replace(operation, data=masked(chroot + operation.path, operation.data))
    if isinstance(operation, Restored):
        znodes = operation.znodes.items()
        return Restored({path: each._replace(data=masked(chroot + path, each.data)) for path, each in znodes})
    return operation


def _within(chroot: str, transaction: Transaction) -> Transaction:
    operations = tuple(moved for each in transaction.operations if (moved := _moved(chroot, each)) is not None)
    return Transaction(transaction.zxid, transaction.time_ms, transaction.session, operations)


def _moved(chroot: str, operation: Operation) -> Operation | None:
    if isinstance(operation, Created):
        path = _inside(chroot, operation.path)
        return None if path is None else Created(path, operation.data, operation.ephemeral)
    if isinstance(operation, DataSet):
        path = _inside(chroot, operation.path)
        return None if path is None else DataSet(path, operation.data, operation.version)
    if isinstance(operation, Deleted):
        path = _inside(chroot, operation.path)
        return None if path is None else Deleted(path)
    if isinstance(operation, SessionClosed) and operation.paths is not None:
        paths = (_inside(chroot, path) for path in operation.paths)
        return replace(operation, paths=tuple(path for path in paths if path is not None))
    if isinstance(operation, Restored):
        told = ((_inside(chroot, path), znode) for path, znode in operation.znodes.items())
        return Restored({path: znode for path, znode in told if path is not None})
    return operation


def _inside(chroot: str, path: str) -> str | None:
    return path[len(chroot) :] if path.startswith(f"{chroot}/") else None
