"""Closes a dead process's ZooKeeper session, so that its ephemerals are deleted immediately.

One write both resumes and closes the session, so no crash can leave it open in between. The requested timeout is the
minimum, so that the session soon expires if the close is lost.
Source: ZooKeeperServer#processConnectRequest, NIOServerCnxn#readConnectRequest@3.9: after a connect request that
resumes a session, the server continues to read.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafka_zk.base.clock import monotonic_s

if TYPE_CHECKING:
    import ssl

PATIENCE_S = 1.0
SHORTEST_MS = 1
"""The requested session timeout; ZooKeeper raises it to ``minSessionTimeout``."""
PASSWORD_BYTES = 16
_LARGEST_ANSWER_BYTES = 1024

_CONNECT_REQUEST = struct.Struct(">iqiqi16s?")  # protocol version, last zxid, timeout, session id, size, password, ro
_CONNECT_RESPONSE = struct.Struct(">iiq")  # protocol version, timeout, session id; then the password
_REPLY_HEADER = struct.Struct(">iqi")  # xid, zxid, error
_CLOSE_SESSION = -11


def packet(content: bytes) -> bytes:
    """A packet: the length of the content, then the content."""
    return struct.pack(">i", len(content)) + content


def connect_request(session_id: int, password: bytes, timeout_ms: int) -> bytes:
    """The connect request that resumes a session."""
    return packet(_CONNECT_REQUEST.pack(0, 0, timeout_ms, session_id, PASSWORD_BYTES, password, False))


CLOSE_REQUEST = packet(struct.pack(">ii", 1, _CLOSE_SESSION))
"""Ends a connection's session."""


def resumed_session(answer: bytes) -> int:
    """The session id in the response to a connect request; 0 if the server does not know the session."""
    _, timeout_ms, session_id = _CONNECT_RESPONSE.unpack_from(answer)
    return int(session_id) if timeout_ms > 0 else 0


def close_session(
    servers: Sequence[tuple[str, int]],
    session_id: int,
    password: bytes,
    *,
    tls: ssl.SSLContext | None = None,
    patience_s: float = PATIENCE_S,
) -> bool:
    """Try once to close the session, at the first reachable server, within ``patience_s``.

    Returns True if a server confirmed the close. If not, the session had ended already, or will expire.
    """
    deadline_s = monotonic_s() + patience_s
    for number, (host, port) in enumerate(servers):
        left_s = max(0.001, deadline_s - monotonic_s())
        try:
            connection = _connect(host, port, tls, left_s / (len(servers) - number))
        except OSError:  # nothing was sent to this server
            continue
        with connection:
            try:
                return _ask(connection, session_id, password, deadline_s)
            except (OSError, struct.error):
                return False
    return False


def _connect(host: str, port: int, tls: ssl.SSLContext | None, limit_s: float) -> socket.socket:
    """Connect within ``limit_s``, which includes all addresses of the host name and the TLS handshake."""
    deadline_s = monotonic_s() + limit_s
    failure = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            connection = socket.socket(family, kind, protocol)
        except OSError as error:  # for example, the machine has no IPv6
            failure = error
            continue
        try:
            connection.settimeout(max(0.001, deadline_s - monotonic_s()))
            connection.connect(address)
            if tls is None:
                return connection
            connection.settimeout(max(0.001, deadline_s - monotonic_s()))
            return tls.wrap_socket(connection, server_hostname=host)
        except OSError as error:
            connection.close()
            failure = error
        except BaseException:
            connection.close()
            raise
    raise failure


def _ask(connection: socket.socket, session_id: int, password: bytes, deadline_s: float) -> bool:
    connection.sendall(connect_request(session_id, password, SHORTEST_MS) + CLOSE_REQUEST)
    if resumed_session(_receive_packet(connection, deadline_s)) != session_id:
        return False
    _, _, error = _REPLY_HEADER.unpack_from(_receive_packet(connection, deadline_s))
    return bool(error == 0)


def _receive_packet(connection: socket.socket, deadline_s: float) -> bytes:
    """Raises: OSError, also at the deadline or if the server closes the connection."""
    (size_bytes,) = struct.unpack(">i", _receive(connection, 4, deadline_s))
    if not 0 <= size_bytes <= _LARGEST_ANSWER_BYTES:
        raise ConnectionError(f"a response of {size_bytes} bytes: not a ZooKeeper server")
    return _receive(connection, size_bytes, deadline_s)


def _receive(connection: socket.socket, size_bytes: int, deadline_s: float) -> bytes:
    received = b""
    while len(received) < size_bytes:
        connection.settimeout(max(0.001, deadline_s - monotonic_s()))
        chunk = connection.recv(size_bytes - len(received))
        if not chunk:
            raise ConnectionError("ZooKeeper closed the connection")
        received += chunk
    return received
