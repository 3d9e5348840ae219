"""A server may start a new session when a client tries to resume one (ClickHouse Keeper does). The old session is then
LOST.

Complaint 15. Kazoo's client accepts any session in the response to a reconnect, and reports CONNECTED.
"""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO

import pytest

from kafka_zk.embedded.ports import LOCALHOST
from kafka_zk.embedded.proxy import TcpProxy
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.owners import Claimed, OwnerRegistry, Release
from kafka_zk.testing.timings import SESSION_TIMEOUT_MS
from kafka_zk.testing.zookeeper import Chroot
from tests.registry.group_lab import GROUP, claims, tp

pytestmark = pytest.mark.integration

LIMIT_MS = 10_000


class ForgetfulServer:
    """Speaks just enough of ZooKeeper's protocol to give each connection a new session, even if the client asks to
    resume one."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for connection in self.connections:
            connection.close()

    def drop_last(self) -> None:
        self.connections[-1].shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._answer, args=(connection, len(self.connections)), daemon=True).start()

    def _answer(self, connection: socket.socket, session_id: int) -> None:
        reader = connection.makefile("rb")
        try:
            self._read(reader)
            self._write(connection, struct.pack("!iiqi", 0, 4000, session_id, 16) + b"p" * 16 + b"\0")
            while True:
                (xid,) = struct.unpack_from("!i", self._read(reader))
                self._write(connection, struct.pack("!iqi", xid, 1, 0) + struct.pack("!i", 1) + b"/")
        except (OSError, struct.error):
            return

    def _read(self, reader: BinaryIO) -> bytes:
        (size,) = struct.unpack("!i", reader.read(4))
        return reader.read(size)

    def _write(self, connection: socket.socket, frame: bytes) -> None:
        connection.sendall(struct.pack("!i", len(frame)) + frame)


@pytest.fixture
def server() -> Iterator[ForgetfulServer]:
    server = ForgetfulServer()
    yield server
    server.close()


def test_an_unannounced_new_session_is_reported_as_lost(server: ForgetfulServer) -> None:
    """The client compares session ids at each connect. Listeners receive LOST, then CONNECTED with the new session
    id."""
    states: list[tuple[SessionState, int | None]] = []
    with KazooBlockingClient(f"127.0.0.1:{server.port}", 4000) as client:
        assert client.session_id == 1
        client.add_session_listener(lambda state: states.append((state, client.session_id)))
        server.drop_last()
        for _ in range(LIMIT_MS // 10):
            client.process(10)
            if states and states[-1][0] is SessionState.CONNECTED:
                break
        server.drop_last()
    assert states[:3] == [(SessionState.SUSPENDED, 1), (SessionState.LOST, None), (SessionState.CONNECTED, 3)]


def forget_session(connect_request: bytes) -> bytes:
    """Remove the session to resume from a ZooKeeper connect request, so that the server starts a new one."""
    before, after = struct.Struct(">iiqi"), struct.Struct(">qi16s")
    rest = connect_request[before.size + after.size :]
    return connect_request[: before.size] + after.pack(0, 16, b"") + rest


def test_an_owner_with_an_unannounced_new_session_owns_nothing(
    zookeeper: Chroot, make_proxy: Callable[[str, int], TcpProxy]
) -> None:
    """On the real server, the old session and its owner znode still exist, but the znode does not belong to the new
    session."""
    proxy = make_proxy(LOCALHOST, zookeeper.server.port)
    states: list[SessionState] = []
    with KazooBlockingClient(f"{proxy.address}{zookeeper.path}", SESSION_TIMEOUT_MS) as client:
        owners, first_session = OwnerRegistry(client, GROUP), client.session_id
        assert run_blocking(owners.claim(claims("a", 0))) == {tp(0): Claimed(-1, 0)}
        client.add_session_listener(states.append)
        proxy.on_first_chunk = forget_session
        proxy.drop_connections()
        for _ in range(LIMIT_MS // 10):
            client.process(10)
            if client.state is SessionState.CONNECTED and client.session_id != first_session:
                break
        proxy.on_first_chunk = bytes
        assert states == [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED]
        assert client.session_id != first_session
        assert run_blocking(owners.release({tp(0): Release(9, 0)})) == {tp(0): False}
        assert run_blocking(OffsetRegistry(client, GROUP).fetch([tp(0)]))[tp(0)].offset == -1
