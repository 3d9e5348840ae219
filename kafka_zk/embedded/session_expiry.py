"""Ends the ZooKeeper session of another process, like an expiry.

A client that knows a session's id and password can resume and then close it. ZooKeeper derives the password from the id
(SessionTrackerImpl, ZooKeeperServer#generatePasswd@3.9: java.util.Random seeded with id xor a constant), so a test can
end the session of any process without pausing it or waiting. The session's ephemerals are deleted immediately, and its
owner gets "session expired" when it reconnects.
"""

import socket
import struct
from enum import Enum

from kafka_zk.base.clock import monotonic_s
from kafka_zk.registry.client.close_session import CLOSE_REQUEST, PASSWORD_BYTES, connect_request, resumed_session

_SECRET = 0xB3415C00
_JAVA_RANDOM_MULTIPLIER = 0x5DEECE66D
_JAVA_RANDOM_MASK = (1 << 48) - 1
_TIMEOUT_MS = 10_000
_ATTEMPTS = 5
"""Attempts within ``timeout_s``, even if ZooKeeper does not respond."""


class SessionUnknown(Exception):
    """The server does not know the session (any more)."""


def session_password(session_id: int) -> bytes:
    """The password that a ZooKeeper server assigns to a session."""
    state = ((session_id ^ _SECRET) ^ _JAVA_RANDOM_MULTIPLIER) & _JAVA_RANDOM_MASK
    password = b""
    while len(password) < PASSWORD_BYTES:
        state = (state * _JAVA_RANDOM_MULTIPLIER + 0xB) & _JAVA_RANDOM_MASK
        password += struct.pack("<I", state >> 16)
    return password


def expire_session(host: str, port: int, session_id: int, timeout_s: float = 10) -> None:
    """End a session; returns when its ephemerals are deleted.

    An attempt is repeated if the owner notices the takeover and resumes the session before it is closed, or if
    ZooKeeper does not respond because another client is closing the session.

    Raises: SessionUnknown, also if the owner repeatedly resumed the session for ``timeout_s``; TimeoutError if the
        server did not respond for that time; ConnectionError if nothing listens there.
    """
    end_s = monotonic_s() + timeout_s
    was_resumed = False
    while True:
        attempt = _try_to_end(host, port, session_id, timeout_s / _ATTEMPTS)
        was_resumed |= attempt is _Attempt.RESUMED
        if attempt is _Attempt.ENDED or (attempt is _Attempt.UNKNOWN and was_resumed):  # only the response was lost
            return
        if attempt is _Attempt.UNKNOWN:
            raise SessionUnknown(f"ZooKeeper at {host}:{port} has no session {session_id:#x}")
        if monotonic_s() >= end_s:
            if was_resumed:
                raise SessionUnknown(f"the owner of session {session_id:#x} resumes it repeatedly")
            raise TimeoutError(f"ZooKeeper at {host}:{port} did not respond about a session for {timeout_s:g} s")


class _Attempt(Enum):
    ENDED, UNKNOWN, RESUMED, UNANSWERED = range(4)


def _try_to_end(host: str, port: int, session_id: int, timeout_s: float) -> _Attempt:
    try:
        connection = socket.create_connection((host, port), timeout_s)
    except TimeoutError:
        return _Attempt.UNANSWERED
    found = _Attempt.UNANSWERED
    with connection:
        try:
            connection.sendall(connect_request(session_id, session_password(session_id), _TIMEOUT_MS))
            if resumed_session(_receive_packet(connection)) != session_id:
                return _Attempt.UNKNOWN
            found = _Attempt.RESUMED
            connection.sendall(CLOSE_REQUEST)
            _receive_packet(connection)
        except (TimeoutError, ConnectionError):
            return found
    return _Attempt.ENDED


def _receive_packet(connection: socket.socket) -> bytes:
    (size_bytes,) = struct.unpack(">i", _receive(connection, 4))
    return _receive(connection, size_bytes)


def _receive(connection: socket.socket, size_bytes: int) -> bytes:
    received = b""
    while len(received) < size_bytes:
        chunk = connection.recv(size_bytes - len(received))
        if not chunk:
            raise ConnectionResetError("ZooKeeper closed the connection")
        received += chunk
    return received
