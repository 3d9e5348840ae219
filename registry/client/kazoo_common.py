"""One kazoo session, its errors and results: the parts of both clients that are specific to kazoo.

kazoo serves only as a connection: no recipes, retries, chroot or worker threads. These properties matter:
- After a session expires, a kazoo client creates a new one, which could run requests for the old session. So a
  KazooSession ends with its session, and the client creates another.
- A server may silently grant a new session instead of resuming the old one. Every connect compares ids.
- Every disconnect drops watches and reports a NONE event.
- While requests are sent regularly, kazoo sends no pings and does not notice a silent server. The client notices it,
  and calls ``drop_connection``.
- An exception while encoding a request would end kazoo's thread, so paths are checked first.
- A failed authentication would end the session. Here it counts as a failed connection, and is retried.
- kazoo pings as long as its thread lives. Here it pings and connects only while the owner's pulse beats (``pulse``).
- kazoo waits a whole session timeout for a server that drops packets, and tries servers in random order. Here all
  servers get equal shares of that time, and the one that failed last is tried last.
- kazoo's TLS options can neither set versions nor exclude the system's trust store, so connections are wrapped here.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.protocol.connection import ConnectionDropped, ConnectionHandler
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from kafka_zk.base.clock import monotonic_s
from kafka_zk.registry.client import errors, tls
from kafka_zk.registry.client.client import (
    Check,
    Create,
    Delete,
    EventType,
    Operation,
    SessionState,
    SetData,
    WatchedEvent,
    ZnodeStat,
    data_size,
)
from kafka_zk.registry.client.kazoo_handler import InlineHandler
from kafka_zk.registry.client.pulse import Pulse
from kafka_zk.registry.client.security import Acl, Security

PACKET_LIMIT_BYTES = 0xFFFFF  # jute.maxbuffer: a server closes the connection after a larger packet

_STOP_TIMEOUT_S = 10.0
_OVERHEAD_BYTES = 64  # header, lengths, ACL, flags
_RECONNECT_DELAY_MAX_S = 1.0

_log = logging.getLogger("registry.kazoo")
_log.addHandler(logging.NullHandler())

_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}
_ACLS = {
    Acl.OPEN: OPEN_ACL_UNSAFE,
    Acl.CREATOR: CREATOR_ALL_ACL,
    Acl.CREATOR_AND_READERS: CREATOR_ALL_ACL + READ_ACL_UNSAFE,
}
_ERRORS: tuple[tuple[type[Exception], type[errors.RegistryError]], ...] = (
    (exceptions.NodeExistsError, errors.NodeExists),
    (exceptions.NoNodeError, errors.NoNode),
    (exceptions.BadVersionError, errors.BadVersion),
    (exceptions.NotEmptyError, errors.NotEmpty),
    (exceptions.UnimplementedError, errors.Unimplemented),
    (exceptions.NoChildrenForEphemeralsError, errors.NoChildrenForEphemerals),
    (exceptions.SessionExpiredError, errors.SessionLost),  # includes its subclass ConnectionClosedError
    (exceptions.SessionMovedError, errors.ConnectionLoss),
    (exceptions.ConnectionLoss, errors.ConnectionLoss),
    (exceptions.OperationTimeoutError, errors.ConnectionLoss),
)


def registry_error(error: BaseException, path: str) -> errors.RegistryError:
    if isinstance(error, exceptions.NoAuthError):
        return errors.NoAuth(f"{path}: its ACL in ZooKeeper does not permit this operation to this client")
    if isinstance(error, exceptions.InvalidACLError):
        return errors.NoAuth(f"{path}: zookeeper.set.acl needs an identity, but this session has none in ZooKeeper")
    if isinstance(error, exceptions.SessionClosedRequireSaslError):
        return errors.AuthenticationFailed("ZooKeeper requires a SASL login; configure one for this client")
    for kazoo_type, registry_type in _ERRORS:
        if isinstance(error, kazoo_type):
            return registry_type(path)
    return errors.RegistryError(f"{path}: {error!r}")


def is_connection_end(error: BaseException) -> bool:
    """True if kazoo failed a request because its connection or session ended."""
    return isinstance(error, exceptions.ConnectionLoss | exceptions.SessionExpiredError)


def to_stat(stat: Sequence[int]) -> ZnodeStat:
    """Convert kazoo's stat, which has the same fields in the same order."""
    return ZnodeStat._make(stat)


def check_size(operations: Sequence[Operation]) -> None:
    """Raise RequestTooLarge if the server would close the connection over the size."""
    size = sum(len(operation.path.encode()) + data_size(operation) + _OVERHEAD_BYTES for operation in operations)
    if size > PACKET_LIMIT_BYTES:
        raise errors.RequestTooLarge(
            f"{operations[0].path}: a request of {size} bytes ({len(operations)} operations) is above ZooKeeper's"
            f" limit of {PACKET_LIMIT_BYTES} bytes"
        )


def start_create(kazoo: KazooClient, operation: Create, acl: Acl) -> Any:
    """Send a create. Returns kazoo's async result."""
    path, data, ephemeral, sequential = operation
    return kazoo.create_async(path, data, acl=_ACLS[acl], ephemeral=ephemeral, sequence=sequential)


def start_set_acl(kazoo: KazooClient, path: str, acl: Acl) -> Any:
    """Send a change of ACL. Returns kazoo's async result, which contains the stat."""
    return kazoo.set_acls_async(path, _ACLS[acl])


def allows_everybody(acls: Iterable[Any]) -> bool:
    """True if one of kazoo's ACLs gives every client all permissions."""
    return any(acl in OPEN_ACL_UNSAFE for acl in acls)


def start_multi(kazoo: KazooClient, operations: Sequence[Operation], acls: Sequence[Acl]) -> Any:
    """Send one transaction. ``acls``: one per operation. Returns kazoo's async result."""
    transaction = kazoo.transaction()
    for operation, acl in zip(operations, acls, strict=True):
        match operation:
            case Create(path, data, ephemeral, sequential):
                transaction.create(path, data or b"", acl=_ACLS[acl], ephemeral=ephemeral, sequence=sequential)
                if data is None:  # kazoo's transaction accepts only bytes, but its requests can contain null
                    transaction.operations[-1] = transaction.operations[-1]._replace(data=None)
            case SetData(path, data, version):
                transaction.set_data(path, data, version)
            case Delete(path, version):
                transaction.delete(path, version)
            case Check(path, version):
                transaction.check(path, version)
    return transaction.commit_async()


def multi_results(results: Sequence[Any], operations: Sequence[Operation]) -> list[str | ZnodeStat | None]:
    """A transaction's results, with the server's paths. Raises MultiFailed."""
    for index, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(
            result, exceptions.RolledBackError | exceptions.RuntimeInconsistency
        ):
            raise errors.MultiFailed(index, registry_error(result, operations[index].path))
    return [
        result if isinstance(operation, Create) else to_stat(result) if isinstance(operation, SetData) else None
        for operation, result in zip(operations, results, strict=True)
    ]


class PostedWatch:
    """A watch that posts its event to the owner's thread. Two are equal if their functions are, because kazoo keeps
    watches in sets."""

    __slots__ = ("_path", "_post", "_watch", "armed")

    def __init__(
        self, watch: Callable[[WatchedEvent], None], path: str, post: Callable[[Callable[[], None]], None]
    ) -> None:
        self._watch = watch
        self._path = path
        self._post = post
        self.armed = True  # False after a failed read, because the server has set no watch

    def __bool__(self) -> bool:
        """False after a failed read, so that kazoo forgets the watch."""
        return self.armed

    def __call__(self, event: Any) -> None:
        self._post(partial(self._watch, WatchedEvent(EventType[event.type], self._path)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PostedWatch) and self._watch == other._watch

    def __hash__(self) -> int:
        return hash(self._watch)


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """Records why a connection fails, and the response to a connect. Pings only while the owner's pulse beats."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._failed_s: dict[tuple[str, int], float] = {}  # address -> time of its last failed connection

    def _expand_client_hosts(self) -> list[tuple[str, str, int]]:
        """The addresses in the order in which they are tried. Source: ClientCnxn.java (connectTimeout) of ZooKeeper
        3.9."""
        addresses = super()._expand_client_hosts()
        client = self.client
        client.handler.connect_timeout_s = client.connect_timeout_ms() / max(1, len(addresses)) / 1000
        return sorted(addresses, key=lambda address: self._failed_s.get(address[1:], 0.0))

    def _connect_attempt(self, host: str, hostip: str, port: int, retry: Any) -> Any:
        try:
            return super()._connect_attempt(host, hostip, port, retry)
        finally:
            self._failed_s[hostip, port] = monotonic_s()

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        pulse = self.client.pulse
        if not pulse.beats:
            raise ConnectionDropped("not resumed yet: the thread that owns the session is blocked")
        try:
            timeouts = super()._connect(host, hostip, port)
        except exceptions.SessionExpiredError:
            raise
        except Exception as error:
            self.client.on_connected(error)
            raise ConnectionDropped(str(error)) from error
        pulse.told()
        self.client.on_connected(None)
        return timeouts

    def _send_ping(self, connect_timeout: float) -> None:
        pulse = self.client.pulse
        if pulse.beats:
            super()._send_ping(connect_timeout)
            pulse.told()

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        if isinstance(request, Connect):
            timeout = self.handler.connect_timeout_s
        answer = super()._invoke(timeout, request, xid)
        if isinstance(request, Connect):
            connected, _ = answer
            if connected.time_out > 0 and request.session_id not in (0, connected.session_id):
                raise exceptions.SessionExpiredError("the server gave a new session instead of the old one")
            self.client.negotiated_timeout_ms = connected.time_out
        return answer


class SessionSettings(NamedTuple):
    """Settings of all sessions of a client.

    Attributes:
        hosts: ``host:port``, comma-separated, without a chroot.
        session_timeout_ms: requested; a server may grant another one.
        connection_timeout_ms: limit for trying all servers once.
        tls_context: None for plaintext.
    """

    hosts: str
    session_timeout_ms: int
    connection_timeout_ms: int
    security: Security
    tls_context: ssl.SSLContext | None


class _SingleSessionKazoo(KazooClient):  # type: ignore[misc]
    """A kazoo client that stops with its session instead of creating a new one."""

    def __init__(
        self, settings: SessionSettings, on_connected: Callable[[Exception | None], None], pulse: Pulse
    ) -> None:
        digest, sasl = settings.security.digest, settings.security.sasl
        super().__init__(
            hosts=settings.hosts,
            timeout=settings.session_timeout_ms / 1000,
            handler=InlineHandler(settings.tls_context),
            auth_data=[("digest", f"{digest.username}:{digest.password}")] if digest else None,
            connection_retry={
                "max_tries": -1,
                "delay": 0.05,
                "max_delay": min(_RECONNECT_DELAY_MAX_S, settings.session_timeout_ms / 6000),
            },
            logger=_log,
        )
        mechanism = sasl and {"mechanism": "DIGEST-MD5", "username": sasl.username, "password": sasl.password}
        self._connection = _Connection(self, self._conn_retry.copy(), logger=_log, sasl_options=mechanism)
        self.negotiated_timeout_ms = settings.session_timeout_ms
        self._connection_timeout_ms = settings.connection_timeout_ms
        self.on_connected = on_connected
        self.pulse = pulse

    def connect_timeout_ms(self) -> float:
        """Maximum duration of trying all servers once: the smaller of session timeout and connection timeout."""
        return min(self.negotiated_timeout_ms, self._connection_timeout_ms)

    def _session_callback(self, state: Any) -> None:
        if state == KeeperState.EXPIRED_SESSION:
            self._stopped.set()
        super()._session_callback(state)


class KazooSession:
    """One ZooKeeper session from its first connect to its end.

    ``on_state`` is called on kazoo's thread with CONNECTED and SUSPENDED in turn, then once with LOST. ``on_refused``
    is called on that thread when further attempts seem pointless; they continue anyway.
    """

    def __init__(
        self,
        settings: SessionSettings,
        on_state: Callable[[KazooSession, SessionState], None],
        on_refused: Callable[[KazooSession, errors.AuthenticationFailed], None],
        pulse: Pulse,
    ) -> None:
        self.session_id = 0  # known after the first connection
        self.password = b""
        self._on_state = on_state
        self._on_refused = on_refused
        self._security = settings.security
        self._failure: Exception | None = None
        self._distrusted_count = 0
        self._kazoo = _SingleSessionKazoo(settings, self._connected, pulse)
        self._kazoo.add_listener(self._state_changed)

    def start(self) -> None:
        """Connect on another thread, without a time limit."""
        self._kazoo.start_async()

    @property
    def session_timeout_ms(self) -> int:
        """The granted timeout; before the first connection, the requested one."""
        return int(self._kazoo.negotiated_timeout_ms)

    @property
    def failure(self) -> str | None:
        """Why the last attempt to connect failed, as text that can end a sentence; None if none has failed."""
        error, over_tls = self._failure, self._security.tls
        if _closed_in_login(error):
            return "the server closed the connection during the SASL login; are user and password right?"
        if isinstance(error, ConnectionDropped) and error.__context__ is None:
            return f"the server closed the connection; does this port {'speak' if over_tls else 'ask for'} TLS?"
        return None if error is None else tls.explain(error, over_tls)

    def ask(self, start: Callable[[Any], Any], answered: Callable[[Any], None]) -> None:
        """Send a request: ``start`` gets the kazoo client and returns its async result.

        ``answered`` is called once with that result, on kazoo's thread or the calling thread.
        """
        start(self._kazoo).rawlink(answered)

    def drop_connection(self) -> None:
        """Break the connection; kazoo reconnects and resumes the session if possible."""
        connection: socket.socket | None = self._kazoo._connection._socket
        try:
            if connection is not None:
                # After SSLSocket.shutdown, kazoo's thread would read plain text.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
        except OSError:
            return  # the connection is already broken

    def end(self, ended: Callable[[], None]) -> None:
        """Close the session after earlier requests, then call ``ended`` on another thread."""

        def stop() -> None:
            try:
                self._kazoo.stop()
                self._kazoo._connection.connection_stopped.wait(_STOP_TIMEOUT_S)
                self._kazoo.close()
            except Exception as error:  # kazoo's daemon thread hangs in a connect
                _log.info("the connection did not end in time: %r", error)
            ended()

        threading.Thread(target=stop, name="kazoo-stop", daemon=True).start()

    def _connected(self, failure: Exception | None) -> None:
        self._failure = failure
        self._distrusted_count = self._distrusted_count + 1 if failure and tls.is_distrust(failure) else 0
        if isinstance(failure, _REFUSALS) and not _closed_in_login(failure):
            sasl = self._security.sasl
            who = f"user {sasl.username!r} or its password (SASL DIGEST-MD5)" if sasl else "the client's credentials"
            self._on_refused(self, errors.AuthenticationFailed(f"ZooKeeper refused {who}"))
        elif self._distrusted_count >= len(self._kazoo.hosts):  # every server was tried
            self._on_refused(self, errors.AuthenticationFailed(f"ZooKeeper is not trusted: {self.failure}"))

    def _state_changed(self, state: Any) -> None:
        if state == KazooState.CONNECTED:
            self.session_id, self.password = self._kazoo.client_id
        self._on_state(self, _STATES[state])

    def release(self) -> None:
        """Free the sockets of an ended session."""
        self.end(lambda: None)


_REFUSALS = exceptions.AuthFailedError | exceptions.SASLException | exceptions.SessionClosedRequireSaslError


def _closed_in_login(error: BaseException | None) -> bool:
    """True if the connection ended during the login, because the server rejected it or is stopping."""
    return isinstance(error, exceptions.AuthFailedError) and isinstance(error.__cause__, ConnectionDropped)
