"""Watches all znodes of any ZooKeeper that allows reads, and reports changes as transactions."""

from functools import partial

from kafka_zk.base.clock import wall_ms
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, DataSet, Deleted, Operation, Transaction
from kafka_zk.registry.client.client import RegistryClient, ZnodeStat
from kafka_zk.registry.client.watches import ChildrenWatcher, DataWatcher, Watcher

OF_ZOOKEEPER = "/zookeeper"
"""ZooKeeper's own znodes, which are not watched."""


class TreeWatcher:
    """Reports changes below the client's chroot, from the first read on, on the thread of the client's callbacks.

    Of several changes between two reads, only the last is reported. Transactions have the znode's mzxid. The zxid of a
    deletion is unknown: such transactions have 0 and the time of observation. Times never decrease, so the order is
    kept. The session is the owner of an ephemeral znode, else 0.
    """

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._watchers: dict[str, tuple[Watcher, Watcher]] = {}
        self._children: dict[str, set[str]] = {}  # watched children of each watched znode
        self._there: dict[str, int] = {}  # czxid of each existing znode
        self._seen: list[Transaction] = []
        self._last_ms = 0
        self._watch("/")

    def read(self) -> list[Transaction]:
        seen, self._seen = self._seen, []
        return seen

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
        if self._there.get(path) != stat.czxid:
            self._gone(path)
            self._there[path] = stat.czxid
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
        if self._there.pop(path, None) is not None:
            self._tell(0, wall_ms(), 0, Deleted(path))

    def _tell(self, zxid: int, time_ms: int, session: int, operation: Operation) -> None:
        self._last_ms = max(self._last_ms, time_ms)
        self._seen.append(Transaction(zxid, self._last_ms, session, (operation,)))
