"""A server that drops packets, like a switched-off machine or a firewall: no connection to it is ever established."""

import contextlib
import socket
from collections.abc import Iterator

LOCALHOST = "127.0.0.1"
_FILLING = 4  # more connections than a queue of length zero accepts


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """Returns the server's ``host:port``. Its listener's queue is full, so the kernel drops every SYN."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind((LOCALHOST, 0))
        listener.listen(0)
        for _ in range(_FILLING):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"{LOCALHOST}:{listener.getsockname()[1]}"
