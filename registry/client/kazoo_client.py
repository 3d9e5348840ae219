"""The code that the Twisted and the blocking kazoo client share, without threads.

kazoo's thread puts responses and events into one inbox, in order, and the owner's thread handles them. So a watch event
is seen before a response that includes its change. On kazoo's thread, only ``_post`` and its callees run.

Operations need state CONNECTED. A new connection becomes CONNECTED when the leader answers a ``sync``, so the lease is
held. Requests fail with ConnectionLoss before SUSPENDED is announced, and with SessionLost before LOST. After LOST, the
client opens the next session.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, cast

from kafka_zk.registry.client import connect_string
from kafka_zk.registry.client.chroot import Chroot
from kafka_zk.registry.client.client import Create, Delete, Operation, SessionState, SetData, Watch, ZnodeStat
from kafka_zk.registry.client.errors import (
    AuthenticationFailed,
    ConnectionLoss,
    ConnectionTimeout,
    NoAuth,
    NodeExists,
    RegistryError,
    SessionLost,
    Unimplemented,
)
from kafka_zk.registry.client.kazoo_common import (
    KazooSession,
    PostedWatch,
    SessionSettings,
    allows_everybody,
    check_size,
    is_connection_end,
    multi_results,
    registry_error,
    start_create,
    start_multi,
    start_set_acl,
    to_stat,
)
from kafka_zk.registry.client.kazoo_multi_read import found_or_none, start_multi_read
from kafka_zk.registry.client.lease import Lease
from kafka_zk.registry.client.pulse import Pulse
from kafka_zk.registry.client.security import Security
from kafka_zk.registry.client.session import add_listener, complete_when_connected, notify
from kafka_zk.registry.client.tls import client_context


def _start_sync(kazoo: Any) -> Any:
    return kazoo.sync_async("/")


class _Request:
    __slots__ = ("by_leader", "convert", "path", "sent_ms", "waiting")

    def __init__(self, path: str, sent_ms: float, waiting: Any, convert: Callable[[Any], Any], by_leader: bool) -> None:
        self.path = path
        self.by_leader = by_leader  # False for reads: any server answers
        self.sent_ms = sent_ms
        self.waiting = waiting  # has callback(result) and errback(exception)
        self.convert = convert


class KazooClientBase(ABC):
    """Implements RegistryClient except for threads; see the two subclasses."""

    def __init__(
        self,
        servers: str,
        session_timeout_ms: int,
        connection_timeout_ms: int | None,
        clock_ms: Callable[[], float],
        security: Security,
    ) -> None:
        parsed = connect_string.parse(servers)
        self._chroot = Chroot(parsed.chroot)
        self._chroot_made = not parsed.chroot
        self._clock_ms = clock_ms
        self._security = security
        self._settings = SessionSettings(
            parsed.hosts,
            session_timeout_ms,
            connection_timeout_ms or session_timeout_ms,
            security,
            client_context(security.tls) if security.tls else None,
        )
        self._inbox: deque[Callable[[], None]] = deque()
        self._session: KazooSession | None = None
        self._session_id: int | None = None
        self._state = SessionState.LOST
        self._lease = Lease(session_timeout_ms)
        self._connection_count = 0
        self._listeners: list[Callable[[SessionState], None]] = []
        self._outstanding: dict[_Request, None] = {}
        self._closed = False
        self._has_multi_read = True
        self.request_count = 0
        """Number of requests by the client's user; a multi counts as one."""

    # RegistryClient

    @property
    def session_id(self) -> int | None:
        return self._session_id

    @property
    def session_password(self) -> bytes:
        """The password for resuming or closing the session; empty if there is no session."""
        return self._session.password if self._session is not None else b""

    @property
    def session_timeout_ms(self) -> int:
        return self._session.session_timeout_ms if self._session is not None else self._settings.session_timeout_ms

    @property
    def state(self) -> SessionState:
        return self._state

    def add_session_listener(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        return add_listener(self._listeners, listener)

    def connected(self) -> Awaitable[None]:
        waiting = self._new_waiting()
        complete_when_connected(self, waiting)
        return cast(Awaitable[None], waiting)

    def lease_held(self) -> bool:
        return self._lease.held(self._clock_ms())

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[bytes | None, ZnodeStat]]:
        full, posted = self._chroot.full(path), self._posted(watch, path)
        return self._submit(
            path, lambda kazoo: kazoo.get_async(full, posted), lambda got: (got[0], to_stat(got[1])), posted
        )

    def get_all(self, paths: Sequence[str]) -> Awaitable[list[tuple[bytes | None, ZnodeStat] | NoAuth | None]]:
        if not paths:
            return self._done([])
        if not self._has_multi_read:
            return self._failed(Unimplemented(paths[0]))
        full = [self._chroot.full(path) for path in paths]
        return self._submit(
            paths[0], lambda kazoo: start_multi_read(kazoo, full), lambda results: found_or_none(results, paths)
        )

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[ZnodeStat | None]:
        full, posted = self._chroot.full(path), self._posted(watch, path)
        return self._submit(
            path,
            lambda kazoo: kazoo.exists_async(full, posted),
            lambda stat: None if stat is None else to_stat(stat),
            posted,
        )

    def children(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[list[str], ZnodeStat]]:
        full, posted = self._chroot.full(path), self._posted(watch, path)
        return self._submit(
            path,
            lambda kazoo: kazoo.get_children_async(full, posted, include_data=True),
            lambda got: (sorted(got[0]), to_stat(got[1])),
            posted,
        )

    def create(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False
    ) -> Awaitable[str]:
        operation, acl = Create(self._chroot.full(path), data, ephemeral, sequential), self._security.acl(path)
        return self._write(operation, lambda kazoo: start_create(kazoo, operation, acl), self._chroot.relative)

    def set(self, path: str, data: bytes, version: int = -1) -> Awaitable[ZnodeStat]:
        operation = SetData(self._chroot.full(path), data, version)
        return self._write(operation, lambda kazoo: kazoo.set_async(operation.path, data, version), to_stat)

    def delete(self, path: str, version: int = -1) -> Awaitable[None]:
        operation = Delete(self._chroot.full(path), version)
        return self._write(operation, lambda kazoo: kazoo.delete_async(operation.path, version), lambda _: None)

    def multi(self, operations: Sequence[Operation]) -> Awaitable[list[str | ZnodeStat | None]]:
        if not operations:
            return self._done([])
        full = [self._chroot.operation(operation) for operation in operations]
        acls = [self._security.acl(operation.path) for operation in operations]

        def convert(results: Any) -> list[str | ZnodeStat | None]:
            converted = multi_results(results, full)
            return [self._chroot.relative(result) if isinstance(result, str) else result for result in converted]

        return self._write(full, lambda kazoo: start_multi(kazoo, full, acls), convert)

    def reset_acl(self, path: str) -> Awaitable[ZnodeStat]:
        """Set the ACL that the znode would get if this client created it. Raises NoNode, NoAuth."""
        full, acl = self._chroot.full(path), self._security.acl(path)
        return self._submit(path, lambda kazoo: start_set_acl(kazoo, full, acl), to_stat, by_leader=True)

    def is_open(self, path: str) -> Awaitable[bool]:
        """True if the znode's ACL allows every client to read and change it. Raises NoNode, NoAuth."""
        full = self._chroot.full(path)
        return self._submit(path, lambda kazoo: kazoo.get_acls_async(full), lambda got: allows_everybody(got[0]))

    def sync(self) -> Awaitable[None]:
        return self._submit("/", _start_sync, lambda _: None, by_leader=True)

    # Differences between the two clients

    @abstractmethod
    def _new_waiting(self) -> Any:
        """A new awaitable with ``callback(result)`` and ``errback(exception)``."""

    @abstractmethod
    def _wake(self) -> None:
        """Schedule ``_work_off`` on the owner's thread, from any thread."""

    @abstractmethod
    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run on the owner's thread."""

    def _pulse(self) -> Pulse:
        """Detects whether the owner's thread is frozen; the default is a pulse that always beats."""
        return Pulse(None)

    @abstractmethod
    def _started(self, failure: RegistryError | None) -> None:
        """Called when the first connection was announced, or when the chroot cannot be created."""

    # Requests

    def _submit(
        self,
        path: str,
        start: Callable[[Any], Any],
        convert: Callable[[Any], Any],
        watch: PostedWatch | None = None,
        *,
        by_leader: bool = False,
    ) -> Awaitable[Any]:
        self.request_count += 1
        if self._closed or self._state is SessionState.LOST:
            return self._failed(SessionLost(path))
        if self._state is SessionState.SUSPENDED:
            return self._failed(ConnectionLoss(path))
        return self._send(path, start, convert, watch, by_leader=by_leader)

    def _write(
        self, operation: Operation | list[Operation], start: Callable[[Any], Any], convert: Callable[[Any], Any]
    ) -> Awaitable[Any]:
        operations = operation if isinstance(operation, list) else [operation]
        try:
            check_size(operations)
        except RegistryError as error:
            return self._failed(error)
        return self._submit(operations[0].path, start, convert, by_leader=True)

    def _send(
        self,
        path: str,
        start: Callable[[Any], Any],
        convert: Callable[[Any], Any],
        watch: PostedWatch | None = None,
        *,
        by_leader: bool = False,
    ) -> Awaitable[Any]:
        assert self._session is not None
        request = _Request(path, self._clock_ms(), self._new_waiting(), convert, by_leader)
        self._outstanding[request] = None

        def answered(answer: Any) -> None:  # on kazoo's thread
            if watch is not None and not answer.successful():
                watch.armed = False
            self._post(partial(self._answered, request, answer))

        self._session.ask(start, answered)
        return cast(Awaitable[Any], request.waiting)

    def _answered(self, request: _Request, answer: Any) -> None:
        if request not in self._outstanding:
            return  # the request has failed with its session, or kazoo repeats a result
        if not answer.successful() and is_connection_end(answer.exception):
            return  # the state change that follows makes the request fail
        del self._outstanding[request]
        if answer.successful():
            self._renew_lease(request)
            try:
                result = request.convert(answer.value)
            except RegistryError as failed:
                request.waiting.errback(failed)
            else:
                request.waiting.callback(result)
            return
        error = registry_error(answer.exception, request.path)
        if isinstance(error, Unimplemented):
            self._has_multi_read = False  # another multi-read would break the connection again
        if not isinstance(error, ConnectionLoss | SessionLost):
            self._renew_lease(request)  # an error also proves that the server is alive
        request.waiting.errback(error)

    def _renew_lease(self, request: _Request) -> None:
        """Renew the lease only for responses of the leader, because a server that has lost the leader still answers
        reads."""
        if request.by_leader:
            self._lease.answered(request.sent_ms)

    def _fail_outstanding(self, error: type[RegistryError]) -> None:
        outstanding, self._outstanding = self._outstanding, {}
        for request in outstanding:
            request.waiting.errback(error(request.path))

    def _done(self, result: Any) -> Awaitable[Any]:
        waiting = self._new_waiting()
        waiting.callback(result)
        return cast(Awaitable[Any], waiting)

    def _failed(self, error: RegistryError) -> Awaitable[Any]:
        waiting = self._new_waiting()
        waiting.errback(error)
        return cast(Awaitable[Any], waiting)

    def _posted(self, watch: Watch | None, path: str) -> PostedWatch | None:
        return None if watch is None else PostedWatch(watch, path, self._post_event)

    # The thread hop

    def _post(self, call: Callable[[], None]) -> None:
        """Schedule ``call`` on the owner's thread, in order, from any thread."""
        self._inbox.append(call)
        self._wake()

    def _post_event(self, call: Callable[[], None]) -> None:
        self._post(lambda: None if self._closed else call())

    # Sessions

    def _open_session(self) -> None:
        self._session = self._new_session()

    def _new_session(self) -> KazooSession:
        session = KazooSession(
            self._settings,
            lambda session, state: self._post(partial(self._session_changed, session, state)),
            lambda session, error: self._post(partial(self._refused, session, error)),
            self._pulse(),
        )
        session.start()
        return session

    def _session_changed(self, session: KazooSession, state: SessionState) -> None:
        if session is not self._session or self._closed:
            return
        self._connection_count += 1
        if state is SessionState.CONNECTED:
            if self._session_id != session.session_id:
                self._lease = Lease(session.session_timeout_ms)
            self._run(self._greet(self._connection_count))
        elif state is SessionState.SUSPENDED:
            suspended = SessionState.LOST if self._state is SessionState.LOST else SessionState.SUSPENDED
            self._change_state(suspended, ConnectionLoss)  # kazoo may still send queued requests
        else:
            self._end_session(session)
            self._open_session()

    def _refused(self, session: KazooSession, error: AuthenticationFailed) -> None:
        if session is self._session and not self._closed:
            self._started(error)

    async def _greet(self, connection_count: int) -> None:
        """Check a new connection, create the chroot, and announce the connection."""
        try:
            if not self._chroot_made:
                await self._make_chroot()
            await self._heartbeat()
            await self._recognise(connection_count)
        except (ConnectionLoss, SessionLost):
            return  # the next state change follows
        except RegistryError as error:
            self._started(error)
            return
        if connection_count == self._connection_count and not self._closed:
            assert self._session is not None
            self._session_id = self._session.session_id
            self._change_state(SessionState.CONNECTED)
            self._started(None)

    @abstractmethod
    async def _recognise(self, connection_count: int) -> None:
        """Wait until the servers prove to belong to the right cluster."""

    async def _make_chroot(self) -> None:
        ancestors, acl = self._chroot.ancestors(), self._security.acl("/")
        if await self._send("/", lambda kazoo: kazoo.exists_async(ancestors[-1]), lambda stat: stat) is None:
            for path in ancestors:
                try:
                    await self._send(path, partial(start_create, operation=Create(path), acl=acl), lambda made: made)
                except NodeExists:
                    continue
        self._chroot_made = True

    def _heartbeat(self) -> Awaitable[None]:
        """Renew the lease with a request to the leader."""
        return self._send("/", _start_sync, lambda _: None, by_leader=True)

    def _end_session(self, session: KazooSession) -> None:
        session.release()
        self._session_id = None
        self._lease.revoke()
        self._change_state(SessionState.LOST, SessionLost)

    def _change_state(self, state: SessionState, error: type[RegistryError] | None = None) -> None:
        changed, self._state = state is not self._state, state
        if error is not None:
            self._fail_outstanding(error)  # after the state change, so that an immediate retry is rejected
        if changed:
            notify(self._listeners, state)

    def _connection_timeout(self) -> ConnectionTimeout:
        reason = self._session.failure if self._session is not None else None
        return ConnectionTimeout(
            f"no ZooKeeper server at {self._settings.hosts} could be reached within"
            f" {self._settings.connection_timeout_ms} ms"
            + (f": {reason}" if reason else "")
        )
