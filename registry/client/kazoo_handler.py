"""Makes kazoo wait and connect on its own thread, with poll, buffered sockets, and TLS settings."""

import select
import socket
import ssl
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler


class _BufferedSocket(socket.socket):
    """A buffered socket: without a buffer, kazoo reads every length and body separately."""

    _READ_AHEAD_BYTES = 64 * 1024

    def __init__(self, plain: socket.socket) -> None:
        super().__init__(plain.family, plain.type, plain.proto, fileno=plain.detach())
        self._ahead = b""
        self._position = 0

    def pending(self) -> int:
        """Number of buffered bytes. kazoo calls this because TLS sockets have it."""
        return len(self._ahead) - self._position

    def recv(self, size: int, flags: int = 0) -> bytes:
        if not self.pending():
            self._ahead, self._position = super().recv(self._READ_AHEAD_BYTES, flags), 0
        start = self._position
        self._position = min(start + size, len(self._ahead))
        return self._ahead[start : self._position]


class InlineHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Runs callbacks, which only post, on kazoo's connection thread, in order."""

    running = False  # kazoo then calls back directly, without a queue

    def __init__(self, tls_context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._tls_context = tls_context
        self.connect_timeout_s = 0.0  # per server; kazoo itself waits a whole session timeout

    def start(self) -> None:
        """Does nothing: there are no worker threads."""

    def stop(self) -> None:
        """Does nothing: there are no worker threads."""

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def select(self, readers: Any, writers: Any, _: Any, timeout: float | None = None) -> Any:
        """Like select.select, without its limit on descriptors; kazoo's own version creates an epoll object per
        call."""
        poll = select.poll()
        ahead = [reader for reader in readers if hasattr(reader, "pending") and reader.pending()]
        for reader in readers:
            poll.register(reader, select.POLLIN)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poll.poll(0 if ahead else None if timeout is None else timeout * 1000)}
        return (
            [reader for reader in readers if reader in ahead or reader.fileno() in ready],
            [writer for writer in writers if writer.fileno() in ready],
            [],
        )

    def create_connection(self, *args: Any, hostname: str | None = None, **kwargs: Any) -> Any:
        plain = super().create_connection(*args, **{**kwargs, "timeout": self.connect_timeout_s})
        if self._tls_context is None:
            return _BufferedSocket(plain)
        # The connection string's name, not the reverse lookup of an address.
        return self._tls_context.wrap_socket(plain, server_hostname=hostname)
