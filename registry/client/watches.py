"""Watches that miss no change: an event is a hint, and the next read sets the next watch.

ZooKeeper's watches are one-shot and end with the connection. So a watcher reads and sets the watch in one request, and
does so again after each event, reconnect and new session. It reports differences from its last report; one report may
combine several changes. It compares zxids, so a recreated znode counts as changed.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.registry.client.client import EventType, RegistryClient, SessionState, Watch, WatchedEvent, ZnodeStat
from kafka_zk.registry.client.errors import ConnectionLoss, NoAuth, NoNode, RegistryError, SessionLost
from kafka_zk.registry.client.events import Reread, WatchArmed, WatchFired

_log = Logger()

T = TypeVar("T")

FIRST_RETRY_S = 1
LONGEST_RETRY_S = 30

Zxids = tuple[int, ...]  # a znode's zxids; () if it is absent


class Watcher(Protocol):
    def close(self) -> None:
        """Stop all reports."""


class Rereader:
    """Runs ``read`` at the start, after every event and every new connection, one at a time.

    ``read`` receives the watch to set and returns (zxids, report); ``report`` is called if the zxids are new. After a
    ConnectionLoss or SessionLost, the next connection reads. After other errors (such as NoAuth: ACLs may change),
    ``read`` is repeated, with delays from FIRST_RETRY_S to LONGEST_RETRY_S; each error is logged once. ``on_hidden`` is
    called when a NoAuth is logged.
    """

    def __init__(
        self,
        client: RegistryClient,
        path: str,
        read: Callable[[Watch], Awaitable[tuple[Zxids, Callable[[], None]]]],
        events: EventSource,
        on_hidden: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._path = path
        self._read = read
        self._events = events
        self._on_hidden = on_hidden
        self._told: str | None = None  # last logged error
        self._seen: Zxids | None = None  # None: the next read always reports
        self._reading = False
        self._again: str | None = None  # cause of the next read
        self._closed = False
        self._retry_s = FIRST_RETRY_S
        self._cancel_retry: Callable[[], None] = lambda: None
        self._remove_listener = client.add_session_listener(self._session_changed)
        if client.state is SessionState.CONNECTED:
            self._start("started")

    def close(self) -> None:
        self._closed = True
        self._cancel_retry()
        self._remove_listener()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._start("connected")

    def _fired(self, event: WatchedEvent) -> None:
        if self._closed:
            return
        self._events.emit(WatchFired, self._path, event.type, cause=event.type.value)
        if event.type is not EventType.NONE:  # otherwise the new connection reads
            self._start(event.type.value)

    def _start(self, cause: str) -> None:
        if self._closed:
            return
        if self._reading:
            self._again = cause
            return
        self._reading = True
        self._cancel_retry()
        ensureDeferred(self._run(cause)).addErrback(self._failed)

    async def _run(self, cause: str) -> None:
        next_cause: str | None = cause
        while next_cause is not None and not self._closed:
            self._again = None
            try:
                zxids, report = await self._read(self._fired)
            except (ConnectionLoss, SessionLost):
                break  # the next connection reads
            self._read_done(next_cause, zxids, report)
            next_cause = self._again
        self._reading = False
        if self._again is not None and self._client.state is SessionState.CONNECTED:
            self._start(self._again)

    def _read_done(self, cause: str, zxids: Zxids, report: Callable[[], None]) -> None:
        if self._closed:
            return
        self._retry_s, self._told = FIRST_RETRY_S, None
        changed, self._seen = zxids != self._seen, zxids
        zxid = max(zxids, default=0)
        self._events.emit(Reread, self._path, changed, cause=cause, zxid=zxid)
        self._events.emit(WatchArmed, self._path, cause=cause, zxid=zxid)
        if changed:
            try:
                report()
            except Exception:
                _log.failure("the listener of {path} failed", path=self._path)

    def _failed(self, failure: Failure) -> None:
        self._reading = False
        if self._closed:
            return
        if not failure.check(RegistryError):
            _log.failure("cannot watch {path}", failure=failure, path=self._path)
        elif self._told != repr(failure.value):
            self._told = repr(failure.value)
            _log.warn(
                "cannot watch {path}: {error!r}; retrying after {seconds} s, later every {longest} s",
                path=self._path, error=failure.value, seconds=self._retry_s, longest=LONGEST_RETRY_S,
            )  # fmt: skip
            if failure.check(NoAuth):
                self._seen = None  # the next read always reports
                self._on_hidden()
        self._cancel_retry = self._client.call_later(self._retry_s, self._retry)
        self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)

    def _retry(self) -> None:
        if self._client.state is SessionState.CONNECTED:  # otherwise the next connection reads
            self._start("retry")


async def read_or_watch_creation(
    client: RegistryClient, read: Callable[[str, Watch], Awaitable[T]], path: str, watch: Watch
) -> T | None:
    """Run ``read`` (``client.get`` or ``client.children``) with the watch. If the znode is absent, watch its creation
    and return None."""
    while True:
        try:
            return await read(path, watch)
        except NoNode:
            if await client.exists(path, watch) is None:
                return None


class ChildrenWatcher:
    """Reports a znode's sorted children at the start and after each change.

    An absent znode has none; its creation is a change. If a child is deleted and recreated, the same names are reported
    again.
    """

    def __init__(
        self,
        client: RegistryClient,
        path: str,
        on_change: Callable[[list[str]], None],
        events: EventSource = SILENT,
    ) -> None:
        self._client = client
        self._path = path
        self._on_change = on_change
        self._rereader = Rereader(client, path, self._read, events)

    def close(self) -> None:
        self._rereader.close()

    async def _read(self, watch: Watch) -> tuple[Zxids, Callable[[], None]]:
        found = await read_or_watch_creation(self._client, self._client.children, self._path, watch)
        if found is None:
            return (), partial(self._on_change, [])
        names, stat = found
        return (stat.czxid, stat.pzxid), partial(self._on_change, names)


class DataWatcher:
    """Reports data and stat (None, None if absent) at the start and after each change.

    ``on_hidden`` is called when an ACL hides the znode. When the data can be read again, it is reported as a change.
    """

    def __init__(
        self,
        client: RegistryClient,
        path: str,
        on_change: Callable[[bytes | None, ZnodeStat | None], None],
        events: EventSource = SILENT,
        on_hidden: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._path = path
        self._on_change = on_change
        self._rereader = Rereader(client, path, self._read, events, on_hidden)

    def close(self) -> None:
        self._rereader.close()

    async def _read(self, watch: Watch) -> tuple[Zxids, Callable[[], None]]:
        found = await read_or_watch_creation(self._client, self._client.get, self._path, watch)
        if found is None:
            return (), partial(self._on_change, None, None)
        data, stat = found
        return (stat.czxid, stat.mzxid), partial(self._on_change, data, stat)
