"""Waiting for sockets, and sending on them."""

import fcntl
import os
import select
import socket
import struct
import termios
from collections.abc import Callable
from contextlib import suppress

HAS_EPOLL = hasattr(select, "epoll")

MORE_FOLLOWS: int = getattr(socket, "MSG_MORE", 0)
"""Flag of ``send``: more data follow, so an incomplete segment waits for them. 0 where the system has no such flag."""

_COPY_BYTES = 256 * 1024
_INT = struct.Struct("i")
_UNSENT: int | None = getattr(termios, "TIOCOUTQ", None)


def _copy_file(socket_descriptor: int, file_descriptor: int, position: int, count: int) -> int:
    data = os.pread(file_descriptor, min(count, _COPY_BYTES), position)
    return os.write(socket_descriptor, data) if data else 0


send_file: Callable[[int, int, int, int], int] = getattr(os, "sendfile", _copy_file)
"""(socket, file, position, count) -> number of bytes sent, 0 at the end of the file. Raises OSError.

Without ``sendfile``, the data are copied through this process.
"""


def unacknowledged_bytes(connection: socket.socket) -> int:
    """Bytes that were sent, and that the peer's system has not acknowledged. 0 if the socket is closed, or if this
    system does not count them."""
    if _UNSENT is not None:
        with suppress(OSError, ValueError):  # the socket is closed; macOS counts no bytes
            (count,) = _INT.unpack(fcntl.ioctl(connection, _UNSENT, bytes(_INT.size)))
            return int(count)
    return 0
