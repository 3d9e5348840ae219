"""The ZooKeeper client of brokers and consumers: kazoo runs on its own thread, everything else on the reactor's.

The threads meet only in ``_wake``.

A server does not resume a session that has seen newer data than the server; it closes the connection instead. If
servers were emptied or restored, this repeats forever. So if a session could not be resumed within its timeout, the
client opens a spare one. If ZooKeeper grants the spare one while the old one still cannot be resumed, the old session
counts as lost.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kafka_zk.base.clock import boottime_ms
from kafka_zk.base.turns import SLICE_S
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.errors import NoNode, RegistryError, SessionLost
from kafka_zk.registry.client.kazoo_client import KazooClientBase
from kafka_zk.registry.client.kazoo_common import KazooSession
from kafka_zk.registry.client.pulse import Pulse
from kafka_zk.registry.client.security import NO_SECURITY, Security
from kafka_zk.registry.client.session import cancellable

_log = Logger()

_WORK_COUNT = 500  # responses per reactor turn, unless they take longer than SLICE_S
_HEARTBEATS = 5  # number of heartbeats per session timeout
_MISSED_HEARTBEATS = 3  # after this many in a row, the connection counts as dead
_RECOGNITION_INTERVAL_S = 10.0


class KazooTwistedClient(KazooClientBase):
    """A RegistryClient whose operations return Deferreds.

    Args:
        connect_string: ``host:port[,host:port…][/chroot]``.
        session_timeout_ms: requested; the server may grant another one.
        connection_timeout_ms: for ``start``'s first connection; default: the session timeout.
        security: TLS, identities and ACLs.
    Raises: InvalidConnectString, InvalidSecurity.

    There are five heartbeats per session timeout; after three without a response, the connection is dropped. If the
    reactor is blocked longer than the session timeout, the session ends, although kazoo's thread runs (``pulse``).
    """

    def __init__(
        self,
        reactor: Any,
        connect_string: str,
        session_timeout_ms: int = 18_000,
        *,
        connection_timeout_ms: int | None = None,
        security: Security = NO_SECURITY,
    ) -> None:
        super().__init__(connect_string, session_timeout_ms, connection_timeout_ms, boottime_ms, security)
        self._reactor = reactor
        self._wake_planned = False
        self._starting: Deferred[None] | None = None
        self._heartbeat_due: Any = None
        self._missed_count = 0
        self._mismatch: tuple[str, Callable[[bytes | None], str | None]] | None = None
        self._suspended_since_s: float | None = None
        self._spare: KazooSession | None = None
        self._spare_due: Any = None  # replaces the session by the spare one

    def recognise(self, path: str, mismatch: Callable[[bytes | None], str | None]) -> None:
        """Accept a connection only if ``mismatch`` returns None for the data of ``path`` (None: no znode).

        Otherwise the client repeatedly logs the mismatch as an ERROR, writes nothing, and stays SUSPENDED or LOST.
        """
        self._mismatch = path, mismatch

    async def start(self) -> None:
        """Connect, and create the chroot if it does not exist.

        Closes the client, then raises: ConnectionTimeout, AuthenticationFailed, NoAuth for the chroot.
        """
        assert self._session is None and not self._closed, "a client starts once"
        self._starting = Deferred()
        self._open_session()
        timeout = self._reactor.callLater(
            self._settings.connection_timeout_ms / 1000, lambda: self._started(self._connection_timeout())
        )
        self._heartbeat_due = self._reactor.callLater(self._heartbeat_interval_s(), self._keep_alive)
        try:
            await self._starting
        except RegistryError:
            await self.close()
            raise
        finally:
            if timeout.active():
                timeout.cancel()

    def close(self) -> "Deferred[None]":
        """End the session after all earlier requests. ZooKeeper deletes the session's ephemerals immediately.

        Fires when the session has ended, at the latest after its timeout. Requests in progress fail with SessionLost.
        """
        closed: Deferred[None] = Deferred()
        if self._closed or self._session is None:
            self._closed = True
            closed.callback(None)
            return closed
        self._closed = True
        self._connection_count += 1
        if self._heartbeat_due is not None and self._heartbeat_due.active():
            self._heartbeat_due.cancel()
        self._drop_spare()

        def ended() -> None:
            if not closed.called:
                if timeout.active():
                    timeout.cancel()
                self._session_id = None
                self._lease.revoke()
                self._change_state(SessionState.LOST, SessionLost)
                closed.callback(None)

        wait_ms = self.session_timeout_ms if self._state is SessionState.CONNECTED else 0
        timeout = self._reactor.callLater(wait_ms / 1000, ended)
        self._session.end(lambda: self._post(ended))
        return closed

    def call_later(self, delay_s: float, work: Callable[[], None]) -> Callable[[], None]:
        return cancellable(self._reactor, delay_s, work)

    def _new_waiting(self) -> "Deferred[Any]":
        return Deferred()

    def _wake(self) -> None:
        if not self._wake_planned:
            self._wake_planned = True
            self._reactor.callFromThread(self._work_off)

    def _work_off(self) -> None:
        self._wake_planned = False  # cleared first, so that later posts schedule another call
        end_s = self._reactor.seconds() + SLICE_S
        for _ in range(_WORK_COUNT):
            try:
                call = self._inbox.popleft()
            except IndexError:
                return
            try:
                call()
            except Exception:
                _log.failure("a listener or watch of the ZooKeeper client failed")
            if self._reactor.seconds() >= end_s:
                break
        self._wake()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        ensureDeferred(work).addErrback(lambda failure: _log.failure("the ZooKeeper client failed", failure=failure))

    def _pulse(self) -> Pulse:
        return Pulse(self._post)

    def _started(self, failure: RegistryError | None) -> None:
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.errback(failure) if failure is not None else starting.callback(None)

    def _heartbeat_interval_s(self) -> float:
        return self.session_timeout_ms / _HEARTBEATS / 1000

    def _keep_alive(self) -> None:
        self._heartbeat_due = self._reactor.callLater(self._heartbeat_interval_s(), self._keep_alive)
        self._watch_suspension()
        if self._state is not SessionState.CONNECTED:
            self._missed_count = 0
        elif self._missed_count == 0:
            self._missed_count = 1
            heartbeat: Any = self._heartbeat()
            heartbeat.addBoth(self._heartbeat_over)
        else:
            self._missed_count += 1
            if self._missed_count > _MISSED_HEARTBEATS and self._session is not None:
                self._missed_count = 0
                self._session.drop_connection()

    def _heartbeat_over(self, _: object) -> None:
        self._missed_count = 0

    async def _recognise(self, connection_count: int) -> None:
        while self._mismatch is not None and connection_count == self._connection_count:
            path, mismatch = self._mismatch
            try:
                data = await self._send(path, self._get_data(path), lambda got: got[0])
            except NoNode:
                data = None
            said = mismatch(data)
            if said is None:
                return
            _log.error("{said}", said=said)
            await deferLater(self._reactor, _RECOGNITION_INTERVAL_S)

    def _get_data(self, path: str) -> Callable[[Any], Any]:
        full = self._chroot.full(path)
        return lambda kazoo: kazoo.get_async(full)

    # A session that cannot be resumed

    def _watch_suspension(self) -> None:
        now_s = self._clock_ms() / 1000
        if self._state is not SessionState.SUSPENDED:
            self._suspended_since_s = None
            self._drop_spare()
        elif self._suspended_since_s is None:
            self._suspended_since_s = now_s
        elif self._spare is None and now_s - self._suspended_since_s > self.session_timeout_ms / 1000:
            self._spare = self._new_session()

    def _session_changed(self, session: KazooSession, state: SessionState) -> None:
        if session is not self._spare:
            super()._session_changed(session, state)
        elif state is SessionState.CONNECTED:
            # If all servers were down, one may resume the old session; half its timeout suffices for an attempt.
            self._spare_due = self._reactor.callLater(self.session_timeout_ms / 2000, self._take_spare)
        else:
            self._drop_spare()

    def _take_spare(self) -> None:
        old, spare, self._spare = self._session, self._spare, None
        assert old is not None and spare is not None
        if self._state is not SessionState.SUSPENDED:
            spare.release()
            return
        self._session = spare
        self._end_session(old)
        super()._session_changed(spare, SessionState.CONNECTED)

    def _drop_spare(self) -> None:
        if self._spare_due is not None and self._spare_due.active():
            self._spare_due.cancel()
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.release()
