"""The client's half of the simulated ZooKeeper: a ``RegistryClient`` with Deferreds.

It also has the faults of one process: ``disconnect``, ``cut``/``heal``, ``pause``/``resume`` and ``lose_request``.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed

from kafka_zk.registry.client.chroot import Chroot
from kafka_zk.registry.client.client import (
    Create,
    Delete,
    EventType,
    Operation,
    SessionState,
    SetData,
    Watch,
    WatchedEvent,
    ZnodeStat,
)
from kafka_zk.registry.client.errors import ConnectionLoss, NoAuth, NoNode, RegistryError, SessionLost
from kafka_zk.registry.client.lease import Lease
from kafka_zk.registry.client.session import add_listener, cancellable, complete_when_connected, notify
from kafka_zk.sim.zookeeper.server import Answer, Link, Request, Server, Session

_RECONNECT_DELAY_MS = (5.0, 50.0)
_READS = ("get", "get_all", "exists", "children")  # a follower answers these; everything else goes to the leader


class SimClient:
    """Created by ``SimZooKeeper.client``."""

    def __init__(self, server: Server, name: str, session_timeout_ms: int, chroot: str) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()  # requests sent, by kind
        self._server = server
        self._chroot = Chroot(chroot)
        self._timeout_ms = session_timeout_ms
        self._lease = Lease(session_timeout_ms)
        self._state = SessionState.LOST
        self._session_id: int | None = None
        self._link: Link | None = None
        self._listeners: list[Callable[[SessionState], None]] = []
        self._outstanding: dict[Request, None] = {}
        self._data_watches: defaultdict[str, dict[Watch, None]] = defaultdict(dict)
        self._child_watches: defaultdict[str, dict[Watch, None]] = defaultdict(dict)
        self._closed = False
        self._reachable = True
        self._held_back: list[Callable[[], None]] | None = None  # a list while the process is paused
        self._lose: tuple[int, bool] | None = None
        self._seen_zxid = 0
        self.has_heartbeats = True
        self._plan_ping()

    # RegistryClient

    @property
    def session_id(self) -> int | None:
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._timeout_ms

    @property
    def state(self) -> SessionState:
        return self._state

    def add_session_listener(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        return add_listener(self._listeners, listener)

    def connected(self) -> "Deferred[None]":
        waiting: Deferred[None] = Deferred()
        complete_when_connected(self, waiting)
        return waiting

    def lease_held(self) -> bool:
        return self._lease.held(self._server.now_ms)

    def call_later(self, delay_s: float, work: Callable[[], None]) -> Callable[[], None]:
        return cancellable(self._server.clock, delay_s, work)

    def get(self, path: str, watch: Watch | None = None) -> "Deferred[tuple[bytes | None, ZnodeStat]]":
        def run(server: Server, session: Session) -> tuple[bytes | None, ZnodeStat]:
            found = server.tree.get(full)
            if watch is not None:
                server.watch_data(full, session.link)
            return found

        full = self._chroot.full(path)
        return self._submit("get", full, run, watch)

    def get_all(self, paths: Sequence[str]) -> "Deferred[list[tuple[bytes | None, ZnodeStat] | NoAuth | None]]":
        def read(server: Server, path: str) -> tuple[bytes | None, ZnodeStat] | NoAuth | None:
            try:
                return server.tree.get(path)
            except NoNode:
                return None
            except NoAuth as error:
                return error

        def run(server: Server, session: Session) -> list[tuple[bytes | None, ZnodeStat] | NoAuth | None]:
            return [read(server, path) for path in full]

        full = [self._chroot.full(path) for path in paths]
        return self._submit("get_all", full[0] if full else "/", run)

    def exists(self, path: str, watch: Watch | None = None) -> "Deferred[ZnodeStat | None]":
        def run(server: Server, session: Session) -> ZnodeStat | None:
            if watch is not None:
                server.watch_data(full, session.link)
            return server.tree.exists(full)

        full = self._chroot.full(path)
        return self._submit("exists", full, run, watch)

    def children(self, path: str, watch: Watch | None = None) -> "Deferred[tuple[list[str], ZnodeStat]]":
        def run(server: Server, session: Session) -> tuple[list[str], ZnodeStat]:
            found = server.tree.children(full)
            if watch is not None:
                server.watch_children(full, session.link)
            return found

        full = self._chroot.full(path)
        return self._submit("children", full, run, watch)

    def create(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False
    ) -> "Deferred[str]":
        return self._write("create", Create(path, data, ephemeral, sequential))

    def set(self, path: str, data: bytes, version: int = -1) -> "Deferred[ZnodeStat]":
        return self._write("set", SetData(path, data, version))

    def delete(self, path: str, version: int = -1) -> "Deferred[None]":
        return self._write("delete", Delete(path, version))

    def multi(self, operations: Sequence[Operation]) -> "Deferred[list[str | ZnodeStat | None]]":
        full = [self._chroot.operation(operation) for operation in operations]

        def run(server: Server, session: Session) -> list[str | ZnodeStat | None]:
            results, events = server.tree.apply_multi(full, session.session_id, int(server.now_ms))
            server.fire(events)
            return [self._relative(result) for result in results]

        return self._submit("multi", full[0].path if full else "/", run)

    def sync(self) -> "Deferred[None]":
        return self._submit("sync", "/", lambda server, session: None)

    def close(self) -> "Deferred[None]":
        def run(server: Server, session: Session) -> None:
            if session.link is not None:
                server.forget(session.link)
            server.end_session(session, expired=False)

        if self._closed or self._link is None:
            self._end()
            return succeed(None)
        closing = self._submit("close", "/", run)
        self._closed = True
        return closing.addErrback(lambda failure: None).addCallback(lambda _: self._end())

    # Faults

    def disconnect(self) -> None:
        """Break the connection. A random number of pending requests is still applied. The client reconnects."""
        if self._link is None:
            return
        link, self._link = self._link, None
        link.break_off()
        self.receive(self._connection_lost)

    def cut(self, *, silent: bool = False) -> None:
        """Cut the network until ``heal``. ``silent``: packets vanish, and both ends notice only by their timeouts."""
        self._reachable = False
        if silent and self._link is not None:
            link = self._link
            link.silent = True
            self._server.call_at(
                self._server.now_ms + self._timeout_ms * 2 / 3,
                lambda: self.disconnect() if self._link is link else None,
            )
        else:
            self.disconnect()

    @property
    def is_cut_silently(self) -> bool:
        """True while packets vanish and neither side has noticed."""
        return self._link is not None and self._link.silent

    def heal(self) -> None:
        """The client reconnects on its own."""
        self._reachable = True
        if self._link is not None and self._link.silent:
            self.disconnect()

    def pause(self) -> None:
        """Act like SIGSTOP: no heartbeats are sent, and nothing is received until ``resume``."""
        if self._held_back is None:
            self._held_back = []

    def resume(self) -> None:
        """Receive everything that arrived during the pause, in order."""
        held_back, self._held_back = self._held_back or [], None
        for message in held_back:
            message()

    def lose_request(self, after: int = 0, *, applied: bool) -> None:
        """Break the connection at the next request, or after ``after`` more. ``applied``: the server applies the
        request.
        """
        self._lose = (after, applied)

    # The server's half calls these

    def attach(self, link: Link, session_id: int) -> None:
        """Use this connection, because the session was opened or resumed over it."""
        self._link, self._session_id = link, session_id
        self._seen_zxid = self._server.tree.zxid
        self._lease.answered(self._server.now_ms)
        self._change_state(SessionState.CONNECTED)

    def receive(self, message: Callable[[], None]) -> None:
        if self._held_back is not None:
            self._held_back.append(message)
        else:
            message()

    def answered(self, request: Request, answer: Answer) -> None:
        if request not in self._outstanding:
            return
        del self._outstanding[request]
        self._seen_zxid = max(self._seen_zxid, request.zxid)
        if request.kind not in _READS:
            self._lease.answered(request.sent_ms)
        if request.watch is not None:
            self._remember_watch(request, answer)
        if request.waiting is None:
            return
        if isinstance(answer, RegistryError):
            request.waiting.errback(answer)
        else:
            request.waiting.callback(answer)

    def fired(self, event: WatchedEvent) -> None:
        watches: list[Watch] = []
        if event.type is not EventType.CHILD:
            watches.extend(self._data_watches.pop(event.path, ()))
        if event.type in (EventType.CHILD, EventType.DELETED):
            watches.extend(self._child_watches.pop(event.path, ()))
        for watch in watches:
            watch(WatchedEvent(event.type, self._chroot.relative(event.path)))

    # Internals

    def _write(self, kind: str, operation: Operation) -> "Deferred[Any]":
        full = self._chroot.operation(operation)

        def run(server: Server, session: Session) -> Any:
            result, events = server.tree.apply(full, session.session_id, int(server.now_ms))
            server.fire(events)
            return self._relative(result)

        return self._submit(kind, full.path, run)

    def _submit(
        self, kind: str, path: str, run: Callable[[Server, Session], Any], watch: Watch | None = None
    ) -> "Deferred[Any]":
        if self._closed or self._state is SessionState.LOST:
            return fail(SessionLost(path))
        if self._link is None and self._state is SessionState.SUSPENDED:
            return fail(ConnectionLoss(path))
        self.counts[kind] += 1
        request = Request(kind, path, self._server.now_ms, run, Deferred(), watch)
        self._outstanding[request] = None
        waiting = request.waiting
        assert waiting is not None
        if self._link is None:
            pass  # while paused: the connection loss arrives later, and then fails the request
        elif self._lose is not None and self._lose[0] == 0:
            self._lose_now(request)
        else:
            if self._lose is not None:
                self._lose = (self._lose[0] - 1, self._lose[1])
            self._link.send(request)
        return waiting

    def _lose_now(self, request: Request) -> None:
        assert self._lose is not None and self._link is not None
        applied, self._lose, link = self._lose[1], None, self._link
        while link.inbound:
            self._server.process(link, link.inbound.popleft())
        session = self._server.session_of(link)
        if applied and session is not None:
            request.apply(self._server, session)
        link.break_off()  # the client notices a little later
        self._server.call_at(self._server.later(), lambda: self.disconnect() if self._link is link else None)

    def _remember_watch(self, request: Request, answer: Answer) -> None:
        assert request.watch is not None
        if isinstance(answer, NoNode):
            return  # only ``exists`` sets a watch on an absent znode
        watches = self._child_watches if request.kind == "children" else self._data_watches
        watches[request.path][request.watch] = None

    def _relative(self, result: str | ZnodeStat | None) -> str | ZnodeStat | None:
        return self._chroot.relative(result) if isinstance(result, str) else result

    def _connection_lost(self) -> None:
        if self._closed:
            self._fail_outstanding(ConnectionLoss)  # including the close request, whose response is not awaited
            return
        self._change_state(SessionState.SUSPENDED, ConnectionLoss)
        self._drop_watches()
        self._plan_reconnect()

    def _session_lost(self) -> None:
        self._session_id = None
        self._lease.revoke()
        self._change_state(SessionState.LOST, SessionLost)
        self._plan_reconnect()

    def _plan_reconnect(self) -> None:
        delay_ms = self._server.random.uniform(*_RECONNECT_DELAY_MS)
        self._server.call_at(self._server.now_ms + delay_ms, lambda: self.receive(self._reconnect))

    def _reconnect(self) -> None:
        if self._closed or self._link is not None:
            return
        server = self._server
        if not (server.running and self._reachable and server.has_seen(self._seen_zxid)):
            self._plan_reconnect()
        elif self._session_id is None:
            self.attach(*server.open_session(self))
        else:
            link = server.resume_session(self, self._session_id)
            if link is None:
                self._session_lost()
            else:
                self.attach(link, self._session_id)

    def _plan_ping(self) -> None:
        """Like the real clients, send a sync request as a heartbeat."""

        def ping() -> None:
            if self._closed:
                return
            if self._link is not None and self._held_back is None and self.has_heartbeats:
                request = Request("ping", "/", self._server.now_ms, lambda server, session: None)
                self._outstanding[request] = None
                self._link.send(request)
            self._plan_ping()

        self._server.call_at(self._server.now_ms + self._timeout_ms / 5, ping)

    def _change_state(self, state: SessionState, error: type[RegistryError] | None = None) -> None:
        changed, self._state = state is not self._state, state
        if error is not None:
            self._fail_outstanding(error)  # after the change of state, because an immediate retry must also fail
        if changed:
            notify(self._listeners, state)

    def _fail_outstanding(self, error: type[RegistryError]) -> None:
        outstanding, self._outstanding = self._outstanding, {}
        for request in outstanding:
            if request.waiting is not None:
                request.waiting.errback(error(request.path))

    def _drop_watches(self) -> None:
        dropped = [*self._data_watches.items(), *self._child_watches.items()]
        self._data_watches.clear()
        self._child_watches.clear()
        for path, watches in dropped:
            for watch in watches:
                watch(WatchedEvent(EventType.NONE, self._chroot.relative(path)))

    def _end(self) -> None:
        self._closed = True
        if self._link is not None:
            link, self._link = self._link, None
            link.break_off()
        self._data_watches.clear()
        self._child_watches.clear()
        self._session_id = None
        self._lease.revoke()
        self._change_state(SessionState.LOST, SessionLost)
