"""A server that drops packets, as a machine that is off or a firewall does: a connection to it is never made."""

import contextlib
import socket
from collections.abc import Iterator

LOCALHOST = "127.0.0.1"
_FILLING = 4  # more than fit into a queue of length zero


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """Its ``host:port``. The queue of its listener is full, so the kernel drops every SYN."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind((LOCALHOST, 0))
        listener.listen(0)
        for _ in range(_FILLING):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"{LOCALHOST}:{listener.getsockname()[1]}"
