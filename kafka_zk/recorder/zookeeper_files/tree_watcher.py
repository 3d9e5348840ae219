"""Watches all znodes of any ZooKeeper that allows reads, and reports changes as transactions."""

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from kafka_zk.base.clock import wall_ms
from kafka_zk.recorder.zookeeper_files.transaction_log import (
    Created,
    DataSet,
    Deleted,
    Operation,
    SessionClosed,
    Transaction,
)
from kafka_zk.registry.client.client import RegistryClient, ZnodeStat
from kafka_zk.registry.client.watches import ChildrenWatcher, DataWatcher, Watcher

OF_ZOOKEEPER = "/zookeeper"
"""ZooKeeper's own znodes, which are not watched."""


class _There(NamedTuple):
    """``session``: the ephemeral owner, 0 if the znode is persistent."""

    czxid: int
    session: int


class TreeWatcher:
    """Reports changes below the client's chroot, from the first read on, on the thread of the client's callbacks.

    Of several changes between two reads, only the last is reported. Transactions have the znode's mzxid. The zxid of a
    deletion is unknown: such transactions have 0 and the time of observation. Times never decrease, so the order is
    kept. The session is the owner of an ephemeral znode, else 0. A session seems to end when its last ephemeral znode
    is deleted (see ``with_session_ends``).
    """

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._watchers: dict[str, tuple[Watcher, Watcher]] = {}
        self._children: dict[str, set[str]] = {}  # watched children of each watched znode
        self._there: dict[str, _There] = {}  # the existing znodes
        self._seen: list[Transaction] = []
        self._last_ms = 0
        self._watch("/")

    def read(self) -> list[Transaction]:
        seen, self._seen = self._seen, []
        return with_session_ends(seen, {each.session for each in self._there.values()})

    def close(self) -> None:
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.close()

    def _watch(self, path: str) -> None:
        self._children[path] = set()
        data = DataWatcher(self._client, path, partial(self._data_read, path))
        self._watchers[path] = (data, ChildrenWatcher(self._client, path, partial(self._children_read, path)))

    def _children_read(self, parent: str, names: list[str]) -> None:
        prefix = parent.rstrip("/")
        children = {f"{prefix}/{name}" for name in names} - {OF_ZOOKEEPER}
        known = self._children[parent]
        self._children[parent] = children
        for path in sorted(known - children):
            self._forget(path)
        for path in sorted(children - known):
            self._watch(path)

    def _data_read(self, path: str, data: bytes | None, stat: ZnodeStat | None) -> None:
        if path == "/":
            return
        if stat is None:
            self._gone(path)
            return
        operation: Operation = DataSet(path, data, stat.version)
        known = self._there.get(path)
        if known is None or known.czxid != stat.czxid:
            self._gone(path)
            self._there[path] = _There(stat.czxid, stat.ephemeral_owner)
            self._tell(stat.czxid, stat.ctime_ms, stat.ephemeral_owner, Created(path, data, bool(stat.ephemeral_owner)))
        if stat.version:
            self._tell(stat.mzxid, stat.mtime_ms, stat.ephemeral_owner, operation)

    def _forget(self, path: str) -> None:
        for below in sorted(self._children.pop(path), reverse=True):
            self._forget(below)
        for watcher in self._watchers.pop(path):
            watcher.close()
        self._gone(path)

    def _gone(self, path: str) -> None:
        if (gone := self._there.pop(path, None)) is not None:
            self._tell(0, wall_ms(), gone.session, Deleted(path))

    def _tell(self, zxid: int, time_ms: int, session: int, operation: Operation) -> None:
        self._last_ms = max(self._last_ms, time_ms)
        self._seen.append(Transaction(zxid, self._last_ms, session, (operation,)))


def with_session_ends(seen: list[Transaction], living: Collection[int]) -> list[Transaction]:
    """Put the deletions of a session's last ephemeral znodes together, as the end of that session. Pure.

    ZooKeeper deletes all ephemeral znodes of a session in the transaction that ends it, but watches report each
    deletion separately. So a session whose ephemeral znodes are all gone is assumed to have ended where the first of
    them was deleted, unless it created another one after that. A client that deletes its last ephemeral znode and keeps
    its session looks the same.

    Other deletions get no session, because their client is unknown.

    Args:
        seen: what one read found, in order.
        living: sessions that still own a znode.
    """
    ended: dict[int, list[int]] = {}  # session -> indexes of the deletions that are its end
    for index, each in enumerate(seen):
        [operation] = each.operations
        if each.session in living or not each.session:
            continue
        if isinstance(operation, Deleted):
            ended.setdefault(each.session, []).append(index)
        elif isinstance(operation, Created):
            ended.pop(each.session, None)
    ends = {indexes[0]: indexes for indexes in ended.values()}
    merged = {index for indexes in ended.values() for index in indexes[1:]}
    return [
        _session_end(seen, ends[index]) if index in ends else _without_author(each)
        for index, each in enumerate(seen) if index not in merged
    ]  # fmt: skip


def _without_author(transaction: Transaction) -> Transaction:
    is_deletion = isinstance(transaction.operations[0], Deleted)
    return replace(transaction, session=0) if is_deletion and transaction.session else transaction


def _session_end(seen: list[Transaction], indexes: list[int]) -> Transaction:
    first = seen[indexes[0]]
    paths = [each.path for index in indexes for each in seen[index].operations if isinstance(each, Deleted)]
    return Transaction(first.zxid, first.time_ms, first.session, (SessionClosed(tuple(paths), inferred=True),))
