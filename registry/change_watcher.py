"""Follows the sequential znodes that notify brokers of changed configs and ACLs.

Each notification is read once, in sequence order, and is only a hint: the listener reads the changed znode. Any broker
may delete notifications older than CHANGE_EXPIRATION_MS. If its clock is wrong, a notification may be deleted unread.
The parent's stat shows this, because it counts created children.
Source: ZkNodeChangeNotificationListener@3.9.
"""

from collections.abc import Callable

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from kafka_zk.base.events import EventSource
from kafka_zk.base.integers import NATURAL_INT32, decimal_integer
from kafka_zk.registry.client.client import RegistryClient, SessionState, Watch, ZnodeStat
from kafka_zk.registry.client.errors import ConnectionLoss, NoAuth, SessionLost
from kafka_zk.registry.client.pipeline import children_of, readable
from kafka_zk.registry.client.watches import Rereader, Zxids, read_or_watch_creation

_log = Logger()

CHANGE_EXPIRATION_MS = 15 * 60 * 1000


class ChangeWatcher:
    """Calls ``on_change(path, data)`` for each notification, even old ones.

    ``data``: NoAuth if an ACL hides the znode. Exceptions of ``on_change`` are logged. ``on_missed`` is called if a
    notification was deleted unread, so that anything may have changed.
    """

    def __init__(
        self,
        client: RegistryClient,
        parent: str,
        prefix: str,
        on_change: Callable[[str, bytes | NoAuth | None], None],
        events: EventSource,
        on_missed: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._parent = parent
        self._prefix = prefix
        self._on_change = on_change
        self._on_missed = on_missed
        self._last_stat: ZnodeStat | None = None
        self._read_names: set[str] = set()
        self._names: list[str] = []
        self._reading = False
        self._closed = False
        self._remove_listener = client.add_session_listener(self._session_changed)
        self._children = Rereader(client, parent, self._list, events)

    def close(self) -> None:
        self._closed = True
        self._remove_listener()
        self._children.close()

    async def _list(self, watch: Watch) -> tuple[Zxids, Callable[[], None]]:
        found = await read_or_watch_creation(self._client, self._client.children, self._parent, watch)
        if found is None:
            return (), lambda: self._listed([])
        names, stat = found
        return (stat.czxid, stat.pzxid), lambda: self._listed(names, stat)

    def _listed(self, names: list[str], stat: ZnodeStat | None = None) -> None:
        if stat is not None:
            new = set(names).difference(self._names)
            if self._last_stat is not None and _made_between(self._last_stat, stat) != len(new):
                self._on_missed()
            self._last_stat = stat
        self._names = names
        self._start()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._start()  # read the notifications that were unread when the connection broke

    def _start(self) -> None:
        if not self._reading and not self._closed:
            self._reading = True
            ensureDeferred(self._read_new()).addErrback(self._failed)

    async def _read_new(self) -> None:
        try:
            while new := self._new_names():
                paths = [f"{self._parent}/{name}" for name in new]
                answers = await readable(self._client.get(path) for path in paths)
                self._read_names.update(new)
                for path, answer in zip(paths, answers, strict=True):
                    if self._closed:
                        return
                    if answer is not None:
                        self._report(path, answer if isinstance(answer, NoAuth) else answer[0])
                if None in answers and not self._closed:
                    self._on_missed()  # one call is enough, because it causes everything to be read again
        except (ConnectionLoss, SessionLost):
            return  # the watcher continues after the reconnect
        finally:
            self._reading = False

    def _new_names(self) -> list[str]:
        """Unread names in sequence order. They are recognised by name, not by number, because another client may have
        created a znode with the largest number."""
        if self._closed:
            return []
        self._read_names.intersection_update(self._names)
        numbered = sorted((self._number(name), name) for name in self._names if name not in self._read_names)
        return [name for number, name in numbered if number >= 0]

    def _number(self, name: str) -> int:
        """The sequence number, which ZooKeeper pads with zeros; -1 if there is none."""
        number = decimal_integer(name.removeprefix(self._prefix), NATURAL_INT32)
        return -1 if number is None else number

    def _report(self, path: str, data: bytes | NoAuth | None) -> None:
        try:
            self._on_change(path, data)
        except Exception:
            _log.failure("the listener of {path} failed", path=path)

    def _failed(self, failure: Failure) -> None:
        _log.failure("cannot read {path}", failure=failure, path=self._parent)


def _made_between(before: ZnodeStat, now: ZnodeStat) -> int:
    """Children created between two stats: ``cversion`` counts creations and deletions, in 32 bits.

    Source: DataNode.copyStat (ZooKeeper 3.9).
    """
    if before.czxid != now.czxid:
        return -1  # the parent was recreated
    counts = (now.cversion + now.num_children) - (before.cversion + before.num_children)
    return counts % 2**32 // 2


async def purge(client: RegistryClient, parent: str, now_ms: int) -> int:
    """Delete notifications older than CHANGE_EXPIRATION_MS (wall clock). Returns their number."""
    paths = [f"{parent}/{name}" for name in await children_of(client, parent)]
    answers = await readable(client.exists(path) for path in paths)
    old = [
        path
        for path, answer in zip(paths, answers, strict=True)
        if isinstance(answer, ZnodeStat) and answer.ctime_ms < now_ms - CHANGE_EXPIRATION_MS
    ]
    deleted = await readable(client.delete(path) for path in old)
    return sum(not isinstance(outcome, NoAuth) for outcome in deleted)
