"""A server that registers as a broker, and announces and sends responses of 2 GB."""

import socket
import struct
import threading
from collections import Counter

from kafka_zk.embedded.ports import LOCALHOST
from kafka_zk.protocol.api_keys import ApiKey
from tests.attack.connection import Connection

ANNOUNCED_BYTES = 2**31 - 1
_CHUNK = bytes(1 << 20)
_HEADER = struct.Struct(">hhi")  # API key, version, correlation id


class HostilePeer:
    """Listens on ``port`` until it is closed.

    It forwards ApiVersions to an honest broker, so that others send it further requests. ``announced``: the number of
    responses of 2 GB, by the API key of their requests.

    Args:
        honest_port: of the honest broker.
    """

    def __init__(self, honest_port: int) -> None:
        self.announced: Counter[int] = Counter()
        self._honest_port = honest_port
        self._listener = socket.create_server((LOCALHOST, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer:
            try:
                while frame := _frame(peer):
                    api_key, _, correlation_id = _HEADER.unpack_from(frame, 4)
                    if api_key != ApiKey.API_VERSIONS:
                        self.announced[api_key] += 1
                        peer.sendall(struct.pack(">ii", ANNOUNCED_BYTES, correlation_id))
                        for _ in range(ANNOUNCED_BYTES // len(_CHUNK)):
                            peer.sendall(_CHUNK)
                    elif answer := self._honest_answer(frame):
                        peer.sendall(struct.pack(">i", len(answer)) + answer)
            except OSError:
                return  # the other side has closed the connection

    def _honest_answer(self, frame: bytes) -> bytes | None:
        connection = Connection(self._honest_port)
        try:
            return connection.ask(frame)
        finally:
            connection.close()


def _frame(peer: socket.socket) -> bytes:
    """A request with its size; b"" at the end of the connection."""
    with peer.makefile("rb", buffering=0) as stream:
        size = _exactly(stream, 4)
        return size + _exactly(stream, struct.unpack(">i", size)[0]) if size else b""


def _exactly(stream: socket.SocketIO, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = stream.read(count - len(data))
        if not part:
            return b""
        data += part
    return data
