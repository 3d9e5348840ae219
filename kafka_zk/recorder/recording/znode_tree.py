"""All znodes at one moment, and the changes between moments. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafka_zk.recorder.zookeeper_files.snapshot import Znode
from kafka_zk.recorder.zookeeper_files.transaction_log import (
    Created,
    DataSet,
    Deleted,
    Operation,
    Restored,
    SessionClosed,
    Transaction,
)


class Change(NamedTuple):
    """The znode at ``path`` before and after an operation; None if it did not exist then."""

    path: str
    before: Znode | None
    after: Znode | None

    @property
    def undone(self) -> "Change":
        return Change(self.path, self.after, self.before)


class ZnodeTree:
    """Znodes by path, without the root. ``znodes`` is read-only for callers."""

    def __init__(self, znodes: Mapping[str, Znode] | None = None) -> None:
        self.znodes: dict[str, Znode] = {}
        self._ephemerals: defaultdict[int, set[str]] = defaultdict(set)
        for path, znode in (znodes or {}).items():
            self.apply(Change(path, None, znode))

    @property
    def sessions(self) -> set[int]:
        """The sessions that own an ephemeral znode."""
        return set(self._ephemerals)

    def take(self, transaction: Transaction) -> list[Change]:
        """Apply a transaction. Operations that do not fit the znodes are applied as far as possible: an incomplete log,
        for example, may delete unknown znodes.
        """
        changes = []
        for operation in transaction.operations:
            for change in self._changes(transaction, operation):
                if not _same(change):
                    changes.append(change)
                self.apply(change)
        return changes

    def apply(self, change: Change) -> None:
        """Apply a change, whatever the znode was before."""
        before = self.znodes.get(change.path)
        if before is not None and before.session:
            self._ephemerals[before.session].discard(change.path)
            if not self._ephemerals[before.session]:
                del self._ephemerals[before.session]
        if change.after is None:
            self.znodes.pop(change.path, None)
            return
        self.znodes[change.path] = change.after
        if change.after.session:
            self._ephemerals[change.after.session].add(change.path)

    def _changes(self, transaction: Transaction, operation: Operation) -> Iterator[Change]:
        zxid, time_ms, session = transaction.zxid, transaction.time_ms, transaction.session
        if isinstance(operation, Created):
            owner = session if operation.ephemeral else 0
            after = Znode(operation.data, 0, zxid, zxid, time_ms, owner)
            yield Change(operation.path, self.znodes.get(operation.path), after)
        elif isinstance(operation, DataSet):
            before = self.znodes.get(operation.path)
            czxid, owner = (before.czxid, before.session) if before is not None else (0, 0)
            after = Znode(operation.data, operation.version, czxid, zxid, time_ms, owner)
            yield Change(operation.path, before, after)
        elif isinstance(operation, Deleted):
            yield from self._deleted(operation.path)
        elif isinstance(operation, Restored):
            for path in sorted(self.znodes.keys() - operation.znodes.keys(), reverse=True):
                yield from self._deleted(path)
            for path, znode in sorted(operation.znodes.items()):
                yield Change(path, self.znodes.get(path), znode)
        elif isinstance(operation, SessionClosed):
            told = operation.paths if operation.paths is not None else sorted(self._ephemerals.get(session, ()))
            for path in told:
                yield from self._deleted(path)

    def _deleted(self, path: str) -> Iterator[Change]:
        before = self.znodes.get(path)
        if before is not None:
            yield Change(path, before, None)


def _same(change: Change) -> bool:
    """True if an observer has re-read a znode without changes."""
    before, after = change.before, change.after
    return before is not None and after is not None and (before[:2], before.session) == (after[:2], after.session)
