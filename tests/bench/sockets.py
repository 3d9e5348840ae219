"""A client's sockets for benches that run the broker's turns themselves."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios

BUFFER_BYTES = 1024 * 1024  # a whole request or response fits, so that the number of turns does not depend on chance
TIMEOUT_S = 30


def connected(port: int) -> socket.socket:
    """A client's connection, with a receive buffer for every response."""
    made = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    return made


def waiting_bytes(connected: socket.socket) -> int:
    """Number of received bytes that the socket's owner has not read."""
    (count,) = struct.unpack("i", fcntl.ioctl(connected, termios.FIONREAD, b"\0" * 4))
    return int(count)
