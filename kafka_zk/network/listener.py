"""A listener: one address on which the broker accepts connections.

Binding and accepting are separate: a broker registers with its bound ports, and accepts when it is ready.
"""

import math
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import Factory
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.logger import Logger

from kafka_zk.base.turns import in_slices
from kafka_zk.network.addresses import peer_address
from kafka_zk.network.connection import BrokerConnection
from kafka_zk.network.connection_quotas import UNLIMITED, ConnectionQuotas
from kafka_zk.network.connection_rates import MOST_HELD
from kafka_zk.network.connection_settings import ConnectionSettings
from kafka_zk.network.supervised_connection import SupervisedConnection
from kafka_zk.network.transport import FramePort

_log = Logger()

IDLE_CHECKS = 10
"""Number of idle checks per ``max_idle_ms``: an idle connection is closed after 1.0 to 1.1 times ``max_idle_ms``."""

STALLED_S = 10.0
"""A connection is closed if its incomplete request receives nothing for this long (or up to 1.5 times as long), because
others may need the memory.
"""

STALLED_CHECKS = 2

SLOW_BYTES_PER_S = 64 * 1024
"""While requests wait for memory, an incomplete request that arrives more slowly than this counts as stalled."""


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """Settings of one listener.

    Attributes:
        host: address to bind; "": all addresses.
        port: 0: any free port.
        send_buffer_size_bytes, receive_buffer_size_bytes: -1: the system's default.
        max_idle_ms: connections that are idle for this long are closed; 0 or less: never.
        inter_broker: only brokers connect; ``max.connections`` does not apply.
        max_connections: the limit of this listener alone.
    """

    host: str
    port: int
    backlog: int = 50
    send_buffer_size_bytes: int = -1
    receive_buffer_size_bytes: int = -1
    max_idle_ms: int = 600000
    inter_broker: bool = False
    max_connections: int = UNLIMITED


class Port(Protocol):
    """A ``FramePort``, or the simulator's replacement."""

    accept_limit: Callable[[], int] | None

    def startListening(self) -> None:
        """Raises CannotListenError."""

    def start_accepting(self) -> None: ...

    def stopListening(self) -> Any:
        """Returns None, or a Deferred that fires when the port is closed."""

    def getHost(self) -> Any:
        """The bound address, with attribute ``port``."""


OpenPort = Callable[[int, Any, int, str, Any], Port]
"""(port, protocol factory, backlog, host, reactor) -> a port that does not listen yet."""

_Overdue = tuple[SupervisedConnection, Callable[[SupervisedConnection], bool], Callable[[], None]]
"""(Connection, function that checks whether it must still be closed, function that closes it)."""

_IS_STALLED, _HOLDS_MEMORY = attrgetter("is_stalled"), attrgetter("holds_memory")


def _is_idle(connection: SupervisedConnection) -> bool:
    return not (connection.active or connection.is_busy)


class _ConnectionFactory(Factory):
    noisy = False

    def __init__(self, build: "Callable[[Any], SupervisedConnection | _HeldConnection | None]") -> None:
        self._build = build

    def buildProtocol(self, addr: Any) -> "SupervisedConnection | _HeldConnection | None":
        return self._build(addr)


class Listener:
    """Binds a port, accepts connections, and closes idle and stalled ones."""

    def __init__(
        self,
        reactor: Any,
        settings: ListenerSettings,
        connections: ConnectionSettings,
        quotas: ConnectionQuotas,
        open_port: OpenPort = FramePort,
    ) -> None:
        self._reactor = reactor
        self._open_port = open_port
        self._settings = settings
        self._connection_settings = connections
        self._quotas = quotas
        self._port: Port | None = None
        self._number = 0
        self._check: Any = None
        self._is_stopped = False  # True once ``stop_accepting`` was called
        self._check_interval_s = STALLED_S / STALLED_CHECKS
        self._idle_checks = 0  # checks without progress that make a connection idle; 0: never
        if settings.max_idle_ms > 0:
            self._check_interval_s = min(self._check_interval_s, settings.max_idle_ms / IDLE_CHECKS / 1000)
            self._idle_checks = math.ceil(settings.max_idle_ms / 1000 / self._check_interval_s)
        self._stalled_checks = math.ceil(STALLED_S / self._check_interval_s)
        self._quiet_checks: dict[SupervisedConnection, int] = {}
        self._is_giving_up = False
        self._all_closed: Deferred[None] | None = None
        self._pause: Any = None  # timer, while a connection rate prevents accepting
        self._tls_context: Any = None  # set by ``renew_tls``; a new port opens with the original context

    @property
    def name(self) -> str:
        return self._connection_settings.listener_name

    @property
    def connections(self) -> list[SupervisedConnection]:
        return list(self._quiet_checks)

    @property
    def port(self) -> int:
        assert self._port is not None, "not bound"
        port: int = self._port.getHost().port
        return port

    @property
    def address(self) -> tuple[str, int]:
        """Host and port as configured."""
        return self._settings.host, self._settings.port

    def bind(self) -> int:
        """Returns the port. Raises CannotListenError."""
        self._port = self._bound(self._settings)
        return self.port

    def _bound(self, settings: ListenerSettings) -> Port:
        factory: Any = _ConnectionFactory(self._build)
        port = self._open_port(settings.port, factory, settings.backlog, settings.host, self._reactor)
        port.accept_limit = self._accept_limit
        if self._tls_context is not None:
            self._renew(port)
        port.startListening()
        return port

    @property
    def is_bound(self) -> bool:
        """True while the port is open. A failed move closes it if the old address is no longer free."""
        return self._port is not None

    async def move(self, host: str, port: int) -> None:
        """Listen at another address, with the same connections. Does nothing after ``stop_accepting``.

        Raises CannotListenError; the listener then has the old address or none (``is_bound``).
        """
        if not self._may_bind():
            return
        moved = replace(self._settings, host=host, port=port)
        try:
            taken, left = self._bound(moved), self._port
        except CannotListenError:
            if self._port is None or self.port != port:
                raise
            # The old address may block the new one: the same port at another host.
            await self._close_port()
            if not self._may_bind():
                return
            taken, left = self._exchanged(moved), None
        self._settings, self._port = moved, taken
        if self._check is not None:
            taken.start_accepting()
        await _closed(left)

    def _may_bind(self) -> bool:
        return not self._is_stopped

    def _exchanged(self, moved: ListenerSettings) -> Port:
        """Raises CannotListenError after trying to bind the old address again."""
        try:
            return self._bound(moved)
        except CannotListenError:
            self._port = self._bound(self._settings)
            if self._check is not None:
                self._port.start_accepting()
            raise

    async def _close_port(self) -> None:
        port, self._port = self._port, None
        await _closed(port)

    def serve_brokers_only(self, *, only: bool) -> None:
        """Set whether only brokers use this listener, for new connections."""
        self._settings = replace(self._settings, inter_broker=only)
        self._connection_settings.between_brokers = only

    def limit(self, max_connections: int) -> None:
        is_raised = max_connections > self._settings.max_connections
        self._settings = replace(self._settings, max_connections=max_connections)
        if is_raised and self._check is not None and self._pause is None:
            self._accept_again()

    def renew_tls(self, context: Any) -> None:
        """Use this ``ssl.SSLContext`` for new connections of a TLS listener, even after a move."""
        self._tls_context = context
        if self._port is not None:
            self._renew(self._port)

    def _renew(self, port: Any) -> None:
        port.context = self._tls_context

    def start_accepting(self) -> None:
        assert self._port is not None, "not bound"
        self._port.start_accepting()
        self._schedule_check()

    def _accept_limit(self) -> int:
        """How many connections to accept now; at most one if a rate applies."""
        settings = self._settings
        own = settings.max_connections - len(self._quiet_checks)
        if self._pause is not None or own <= 0:
            return 0  # ``_accept_again`` or ``_lost`` resumes accepting
        available = own if settings.inter_broker else min(own, self._available())
        is_limited = self._quotas.rates.is_limited(self.name, is_protected=settings.inter_broker)
        return min(available, 1) if is_limited else available

    def _available(self) -> int:
        available = self._quotas.available()
        if available == 0 and self._quotas.lacks_descriptors():
            _log.warn(
                "{listener}: new connections wait, because {count} are open and the open-file limit (ulimit -n) is"
                " nearly reached. Raise the limit or lower max.connections",
                listener=self.name,
                count=self._quotas.count,
            )
        if available == 0 and self._port is not None:
            self._quotas.when_available(self._port.start_accepting)
        return available

    def _build(self, addr: Any) -> "SupervisedConnection | _HeldConnection | None":
        host = peer_address(addr.host)
        rates, now_ms = self._quotas.rates, int(self._reactor.seconds() * 1000)
        held_ms = rates.refused_ms(self.name, host, now_ms)
        if held_ms:
            return self._hold(held_ms)
        pause_ms = rates.accepted(self.name, now_ms, is_protected=self._settings.inter_broker)
        if pause_ms and self._pause is None:
            self._pause = self._reactor.callLater(pause_ms / 1000, self._accept_again)
        if not self._quotas.opened(host):
            _log.warn(
                "{listener}: closed a new connection from {host}, which has too many", listener=self.name, host=host
            )
            return None
        self._number += 1
        connection = _ListenerConnection(self._connection_settings, self._number, self._lost)
        connection.host = host
        connection.socket_settings = self._settings
        self._quiet_checks[connection] = 0
        return connection

    def _accept_again(self) -> None:
        self._pause = None
        if self._port is not None:
            self._port.start_accepting()

    def _hold(self, held_ms: int) -> "_HeldConnection | None":
        """Hold a connection unread and then close it: its address is above its rate."""
        quotas = self._quotas
        if quotas.held_count >= MOST_HELD:
            return None
        quotas.hold()
        return _HeldConnection(self._reactor, held_ms, quotas.release)

    def _lost(self, connection: BrokerConnection) -> None:
        assert isinstance(connection, _ListenerConnection)
        was_full = len(self._quiet_checks) >= self._settings.max_connections
        del self._quiet_checks[connection]
        if was_full and self._pause is None:
            self._accept_again()
        self._quotas.closed(connection.host)
        if not self._quiet_checks and self._all_closed is not None:
            closed, self._all_closed = self._all_closed, None
            closed.callback(None)

    def _schedule_check(self) -> None:
        """Schedule one check at a time, so that a suspended process does not count the checks that it missed."""
        self._check = self._reactor.callLater(self._check_interval_s, self._look_for_quiet_connections)

    def _look_for_quiet_connections(self) -> None:
        """Count each connection's checks without progress, and close stalled and idle connections in slices, because
        there may be thousands.

        While requests wait for memory, waiting requests that hold memory are ended early, and connections whose peer
        does not read are closed.
        """
        self._schedule_check()
        is_waited_for = self._connection_settings.memory.is_waited_for
        overdue: list[_Overdue] = []
        least_bytes = int(SLOW_BYTES_PER_S * self._check_interval_s) if is_waited_for else 1
        for connection, checks in list(self._quiet_checks.items()):
            if is_waited_for:
                connection.expire_request_early()
            if connection.made_progress(least_bytes):
                self._quiet_checks[connection] = 0
                continue
            self._quiet_checks[connection] = checks + 1
            is_over = checks + 1 >= self._stalled_checks
            if is_over and connection.is_stalled:
                overdue.append((connection, _IS_STALLED, partial(connection.give_up_request, STALLED_S)))
            elif is_over and is_waited_for and connection.holds_memory:
                overdue.append((connection, _HOLDS_MEMORY, partial(connection.give_up_answer, STALLED_S)))
            elif checks >= self._idle_checks > 0:
                overdue.append((connection, _is_idle, connection.abort))
        if overdue and not self._is_giving_up:
            self._is_giving_up = True
            ensureDeferred(in_slices(self._reactor, self._given_up(overdue)))

    def _given_up(self, overdue: list[_Overdue]) -> Iterator[None]:
        """Close the connections that are still overdue, one per step, because some may make progress between steps."""
        try:
            for connection, is_overdue, give_up in overdue:
                if self._quiet_checks.get(connection) and is_overdue(connection):
                    give_up()
                yield
        finally:
            self._is_giving_up = False

    def stop_accepting(self) -> "Deferred[None]":
        """Close the port permanently, but no connection. Fires when the port is closed."""
        self._is_stopped = True
        for timer in (self._check, self._pause):
            if timer is not None and timer.active():
                timer.cancel()
        return Deferred.fromCoroutine(self._close_port())

    async def stop(self, timeout_s: float = 5.0) -> None:
        """Close the port, and connections when their queue is sent or after ``timeout_s``."""
        await self.stop_accepting()
        if not self._quiet_checks:
            return
        all_closed: Deferred[None] = Deferred()
        self._all_closed = all_closed
        for connection in self.connections:
            connection.close()
        late = self._reactor.callLater(timeout_s, self._abort_all)
        await all_closed
        if late.active():
            late.cancel()

    def _abort_all(self) -> None:
        for connection in self.connections:
            connection.abort()


async def _closed(port: Port | None) -> None:
    if port is not None and (closing := port.stopListening()) is not None:
        await closing


class _HeldConnection(TwistedProtocol):
    """A connection that is closed unread after ``held_ms``; then ``over`` is called once."""

    def __init__(self, clock: Any, held_ms: int, over: Callable[[], None]) -> None:
        self._clock = clock
        self._held_ms = held_ms
        self._over = over
        self._end: Any = None

    def connectionMade(self) -> None:
        transport: Any = self.transport
        transport.pauseProducing()
        self._end = self._clock.callLater(self._held_ms / 1000, transport.abortConnection)

    def connectionLost(self, reason: Any = None) -> None:
        if self._end is not None and self._end.active():
            self._end.cancel()
        self._over()


class _ListenerConnection(SupervisedConnection):
    host: str
    socket_settings: ListenerSettings

    def connectionMade(self) -> None:
        transport: Any = self.transport
        transport.setTcpNoDelay(True)
        transport.setTcpKeepAlive(True)
        _set_buffer_sizes(transport, self.socket_settings)
        super().connectionMade()


def _set_buffer_sizes(transport: Any, settings: ListenerSettings) -> None:
    for option, size_bytes in (
        (socket.SO_SNDBUF, settings.send_buffer_size_bytes),
        (socket.SO_RCVBUF, settings.receive_buffer_size_bytes),
    ):
        if size_bytes != -1:
            transport.getHandle().setsockopt(socket.SOL_SOCKET, option, size_bytes)
