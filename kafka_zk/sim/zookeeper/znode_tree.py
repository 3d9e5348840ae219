"""ZooKeeper's tree of znodes, with the semantics of server 3.9. A pure state machine, which applies one write at a
time.

Two details: the suffix of a sequential znode counts all creations under its parent but no deletions, while the
``cversion`` that clients see counts both; and a failed write uses a zxid, too.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from kafka_zk.registry.client.client import (
    Check,
    Create,
    Delete,
    EventType,
    Operation,
    SetData,
    WatchedEvent,
    ZnodeStat,
)
from kafka_zk.registry.client.errors import (
    BadVersion,
    MultiFailed,
    NoAuth,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    RegistryError,
)

Result = str | ZnodeStat | None


@dataclass(slots=True)
class _Node:
    data: bytes | None
    czxid: int
    mzxid: int
    pzxid: int
    ctime_ms: int
    mtime_ms: int
    ephemeral_owner: int = 0
    version: int = 0
    created_children: int = 0
    children: set[str] = field(default_factory=set)

    def stat(self) -> ZnodeStat:
        return ZnodeStat(
            self.czxid,
            self.mzxid,
            self.ctime_ms,
            self.mtime_ms,
            self.version,
            2 * self.created_children - len(self.children),
            0,
            self.ephemeral_owner,
            len(self.data or b""),
            len(self.children),
            self.pzxid,
        )


Backup = tuple[int, dict[str, _Node]]
"""The last zxid, and the znodes by path."""


class ZnodeTree:
    """All znodes by full path. Writes return (results, events): the client's results, and the watches that may fire."""

    def __init__(self) -> None:
        self.zxid = 0
        self.hidden: set[str] = set()  # paths whose ACL lets no client read them
        self._nodes = {"/": _Node(b"", 0, 0, 0, 0, 0)}
        self._undo: list[Callable[[], None]] = []

    def backup(self) -> Backup:
        """A copy of all znodes, which later writes do not change."""
        return self.zxid, deepcopy(self._nodes)

    def restore(self, backup: Backup) -> None:
        """Go back to what ``backup`` returned. No watch fires."""
        self.zxid, nodes = backup
        self._nodes = deepcopy(nodes)

    def get(self, path: str) -> tuple[bytes | None, ZnodeStat]:
        """Raises NoNode, NoAuth."""
        node = self._readable(path)
        return node.data, node.stat()

    def exists(self, path: str) -> ZnodeStat | None:
        node = self._nodes.get(path)
        return node.stat() if node else None

    def children(self, path: str) -> tuple[list[str], ZnodeStat]:
        """Raises NoNode, NoAuth."""
        node = self._readable(path)
        return sorted(node.children), node.stat()

    def _readable(self, path: str) -> _Node:
        node = self._node(path)
        if path in self.hidden:
            raise NoAuth(path)
        return node

    def paths(self) -> list[str]:
        return sorted(self._nodes)

    def next_zxid(self) -> int:
        self.zxid += 1
        return self.zxid

    def apply(self, operation: Operation, session_id: int, now_ms: int) -> tuple[Result, list[WatchedEvent]]:
        """Apply one write under its own zxid. Raises the RegistryError of its outcome."""
        self.next_zxid()
        self._undo.clear()
        return self._step(operation, session_id, now_ms)

    def apply_multi(
        self, operations: Sequence[Operation], session_id: int, now_ms: int
    ) -> tuple[list[Result], list[WatchedEvent]]:
        """Apply all operations under one zxid. If one fails, none is applied, and MultiFailed is raised."""
        self.next_zxid()
        self._undo.clear()
        results: list[Result] = []
        events: list[WatchedEvent] = []
        for index, operation in enumerate(operations):
            try:
                result, fired = self._step(operation, session_id, now_ms)
            except RegistryError as error:
                while self._undo:
                    self._undo.pop()()
                raise MultiFailed(index, error) from error
            results.append(result)
            events.extend(fired)
        return results, events

    def end_session(self, session_id: int, *, expired: bool) -> list[WatchedEvent]:
        """Delete the session's ephemerals under one zxid, in the order of their paths.

        ``expired``: False if its client closed it. Only subclasses that log writes use this.
        """
        self.next_zxid()
        events: list[WatchedEvent] = []
        for path in [p for p in self.paths() if self._nodes[p].ephemeral_owner == session_id]:
            events.extend(self._remove(path))
        return events

    def _step(self, operation: Operation, session_id: int, now_ms: int) -> tuple[Result, list[WatchedEvent]]:
        match operation:
            case Create():
                return self._create(operation, session_id, now_ms)
            case SetData(path, data, version):
                return self._set(path, data, version, now_ms)
            case Delete(path, version):
                node = self._versioned(path, version)
                if node.children:
                    raise NotEmpty(path)
                return None, self._remove(path)
            case Check(path, version):
                self._versioned(path, version)
                return None, []

    def _create(self, operation: Create, session_id: int, now_ms: int) -> tuple[str, list[WatchedEvent]]:
        path, parent_path = operation.path, _parent(operation.path)
        parent = self._nodes.get(parent_path)
        if parent is None:
            raise NoNode(path)
        if operation.sequential:
            path = f"{path}{parent.created_children:010d}"
        if path in self._nodes:
            raise NodeExists(path)
        if parent.ephemeral_owner:
            raise NoChildrenForEphemerals(path)
        owner = session_id if operation.ephemeral else 0
        zxid, old_pzxid = self.zxid, parent.pzxid
        self._nodes[path] = _Node(operation.data, zxid, zxid, zxid, now_ms, now_ms, owner)
        name = path.rpartition("/")[2]
        parent.children.add(name)
        parent.created_children += 1
        parent.pzxid = zxid

        def undo() -> None:
            del self._nodes[path]
            parent.children.discard(name)
            parent.created_children -= 1
            parent.pzxid = old_pzxid

        self._undo.append(undo)
        return path, [WatchedEvent(EventType.CREATED, path), WatchedEvent(EventType.CHILD, parent_path)]

    def _set(self, path: str, data: bytes, version: int, now_ms: int) -> tuple[ZnodeStat, list[WatchedEvent]]:
        node = self._versioned(path, version)
        before = (node.data, node.version, node.mzxid, node.mtime_ms)

        def undo() -> None:
            node.data, node.version, node.mzxid, node.mtime_ms = before

        self._undo.append(undo)
        node.data, node.version, node.mzxid, node.mtime_ms = data, node.version + 1, self.zxid, now_ms
        return node.stat(), [WatchedEvent(EventType.CHANGED, path)]

    def _remove(self, path: str) -> list[WatchedEvent]:
        node = self._nodes.pop(path)
        parent_path, name = _parent(path), path.rpartition("/")[2]
        parent = self._nodes[parent_path]
        old_pzxid = parent.pzxid
        parent.children.discard(name)
        parent.pzxid = self.zxid

        def undo() -> None:
            self._nodes[path] = node
            parent.children.add(name)
            parent.pzxid = old_pzxid

        self._undo.append(undo)
        return [WatchedEvent(EventType.DELETED, path), WatchedEvent(EventType.CHILD, parent_path)]

    def _node(self, path: str) -> _Node:
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node

    def _versioned(self, path: str, version: int) -> _Node:
        node = self._node(path)
        if version not in (-1, node.version):
            raise BadVersion(f"{path}: version {node.version}, not {version}")
        return node


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
