"""End somebody else's ZooKeeper session, as an expiry does.

A session is resumed by whoever knows its id and password, and closed by whoever resumed it. ZooKeeper derives the
password from the id (SessionTrackerImpl, ZooKeeperServer#generatePasswd@3.9: java.util.Random seeded with id xor a
constant), so a test can end the session of any process: its ephemerals vanish at once, and the owner learns "session
expired" when it connects again. No pause of the process and no waiting is needed.
"""

import socket
import struct
import time

from kafka_zk.registry.close_session import CLOSE_REQUEST, PASSWORD_BYTES, connect_request, resumed_session

_SECRET = 0xB3415C00
_JAVA_RANDOM_MULTIPLIER = 0x5DEECE66D
_JAVA_RANDOM_MASK = (1 << 48) - 1
_TIMEOUT_MS = 10_000



class SessionUnknown(Exception):
    """The server does not know the session, or not any more."""


def session_password(session_id: int) -> bytes:
    """The password that a ZooKeeper server gives to a session."""
    state = ((session_id ^ _SECRET) ^ _JAVA_RANDOM_MULTIPLIER) & _JAVA_RANDOM_MASK
    password = b""
    while len(password) < PASSWORD_BYTES:
        state = (state * _JAVA_RANDOM_MULTIPLIER + 0xB) & _JAVA_RANDOM_MASK
        password += struct.pack("<I", state >> 16)
    return password


def expire_session(host: str, port: int, session_id: int, timeout_s: float = 10) -> None:
    """End a session on the server at ``host:port``; returns once its ephemerals are gone.

    Its owner notices that the session was taken and may take it back before it is closed: then once more.

    Raises: SessionUnknown, also when the owner was quicker for ``timeout_s``.
    """
    end_s = time.monotonic() + timeout_s
    is_ours = False
    while True:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            if _resume(connection, session_id):
                is_ours = True
                connection.sendall(CLOSE_REQUEST)
                if _is_answered(connection):
                    return
            elif is_ours:  # closed, only the answer was lost
                return
            else:
                raise SessionUnknown(f"ZooKeeper at {host}:{port} has no session {session_id:#x}")
        if time.monotonic() >= end_s:
            raise SessionUnknown(f"the owner of session {session_id:#x} takes it back again and again")


def _resume(connection: socket.socket, session_id: int) -> bool:
    """Take the session over; False if the server does not know it."""
    connection.sendall(connect_request(session_id, session_password(session_id), _TIMEOUT_MS))
    return resumed_session(_receive_packet(connection)) == session_id


def _is_answered(connection: socket.socket) -> bool:
    try:
        _receive_packet(connection)
    except (SessionUnknown, ConnectionError):
        return False
    return True


def _receive_packet(connection: socket.socket) -> bytes:
    (size_bytes,) = struct.unpack(">i", _receive(connection, 4))
    return _receive(connection, size_bytes)


def _receive(connection: socket.socket, size_bytes: int) -> bytes:
    received = b""
    while len(received) < size_bytes:
        chunk = connection.recv(size_bytes - len(received))
        if not chunk:
            raise SessionUnknown("ZooKeeper closed the connection")
        received += chunk
    return received
