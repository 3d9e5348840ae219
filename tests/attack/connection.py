"""A connection that attacks: it sends raw frames, and records whether it got responses."""

import socket
import struct

PATIENCE_S = 120.0
"""Longer than any attack may last, so that a wait ends with the attack's deadline."""


class Connection:
    """One TCP connection to the broker. ``waiting``: a frame was sent and got neither a response nor a refusal.
    ``refused``: the broker closed the connection while a frame waited for its response.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.local_port: int = self._socket.getsockname()[1]
        self.waiting = False
        self.refused = False

    @property
    def name(self) -> str:
        """The peer's name in the broker's log."""
        return f"127.0.0.1:{self.local_port}"

    def send(self, data: bytes | memoryview) -> bool:
        """Send a frame or a part of one; False when the broker has closed the connection."""
        self.waiting = True
        try:
            self._socket.sendall(data)
        except ConnectionError:
            self._was_closed()
            return False
        return True

    def answer(self) -> bytes | None:
        """The next response without its size; None when the broker has closed the connection."""
        size = self._receive(4)
        frame = None if size is None else self._receive(struct.unpack(">i", size)[0])
        if frame is None:
            self._was_closed()
        self.waiting = False
        return frame

    def ask(self, frame: bytes) -> bytes | None:
        """Send a whole frame; returns its response, or None when the broker closes the connection."""
        return self.answer() if self.send(frame) else None

    def cut(self) -> None:
        """Close the connection with a reset, whatever is in progress."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self.waiting = False
        self._socket.close()

    def shut_down(self) -> None:
        """Wake a thread that waits on the connection. ``waiting`` stays as it is."""
        waiting = self.waiting
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return
        finally:
            self.waiting = waiting

    def _was_closed(self) -> None:
        self.refused = True
        self.waiting = False

    def _receive(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                part = self._socket.recv(min(size - len(data), 1 << 20))
            except ConnectionError:
                return None
            if not part:
                return None
            data += part
        return bytes(data)
