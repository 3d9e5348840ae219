"""Closing the session of a dead process: in one write, only once, and within a time limit; also against the real
server."""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from kafka_zk.embedded.ports import LOCALHOST, free_port
from kafka_zk.embedded.session_expiry import session_password
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.close_session import CLOSE_REQUEST, SHORTEST_MS, close_session, connect_request, packet
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.testing.timings import SESSION_TIMEOUT_MS
from kafka_zk.testing.zookeeper import Chroot

SESSION_ID, PASSWORD = 0x1234, b"p" * 16
GRANTED = struct.pack(">iiqi16s", 0, 4000, SESSION_ID, 16, PASSWORD)
UNKNOWN = struct.pack(">iiqi16s", 0, 0, 0, 16, bytes(16))
CLOSED = struct.pack(">iqi", 1, 99, 0)


class Server:
    """A server that responds to the first data on each connection with the same bytes, and then sends no more."""

    def __init__(self, *answers: bytes, ends: bool = False) -> None:
        self._answers, self._ends = answers, ends
        self._listening = socket.create_server((LOCALHOST, 0))
        self.address: tuple[str, int] = self._listening.getsockname()
        self.received: list[bytes] = []
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(connection)
            self.received.append(connection.recv(4096))
            connection.sendall(b"".join(packet(answer) for answer in self._answers))
            if self._ends:
                connection.close()

    def close(self) -> None:
        self._listening.close()
        for connection in self._open:
            connection.close()


@pytest.fixture
def make_server() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def make(*answers: bytes, ends: bool = False) -> Server:
        made.append(Server(*answers, ends=ends))
        return made[-1]

    yield make
    for server in made:
        server.close()


def test_both_requests_leave_in_one_write(make_server: Callable[..., Server]) -> None:
    """A process that is paused or killed in between has sent both requests or neither."""
    server = make_server(GRANTED, CLOSED)
    assert close_session([server.address], SESSION_ID, PASSWORD)
    assert server.received == [connect_request(SESSION_ID, PASSWORD, SHORTEST_MS) + CLOSE_REQUEST]


def test_the_session_of_the_answer_must_be_the_one_that_was_meant(make_server: Callable[..., Server]) -> None:
    other = struct.pack(">iiqi16s", 0, 4000, SESSION_ID + 1, 16, PASSWORD)
    assert not close_session([make_server(UNKNOWN).address], SESSION_ID, PASSWORD)
    assert not close_session([make_server(other, CLOSED).address], SESSION_ID, PASSWORD)


def test_a_server_that_cannot_be_reached_is_passed_over(make_server: Callable[..., Server]) -> None:
    server = make_server(GRANTED, CLOSED)
    assert close_session([(LOCALHOST, free_port()), server.address], SESSION_ID, PASSWORD)


def test_a_handshake_that_hangs_costs_no_more_than_the_patience(make_server: Callable[..., Server]) -> None:
    begun_s = time.monotonic()
    tls = ssl.create_default_context()
    assert not close_session([make_server().address], SESSION_ID, PASSWORD, patience_s=0.2, tls=tls)
    assert time.monotonic() - begun_s < 1


@pytest.mark.parametrize("answers", [(), (GRANTED,), (b"",), (b"x" * 2000,)])
def test_nothing_is_sent_twice(make_server: Callable[..., Server], answers: tuple[bytes, ...]) -> None:
    """Nothing is repeated even if the attempt fails, because a second request to resume could only prolong the
    session.
    """
    broken, other = make_server(*answers, ends=True), make_server(GRANTED, CLOSED)
    assert not close_session([broken.address, other.address], SESSION_ID, PASSWORD)
    assert len(broken.received) == 1 and not other.received


def test_a_server_that_is_silent_costs_no_more_than_the_patience(make_server: Callable[..., Server]) -> None:
    silent = make_server()
    begun_s = time.monotonic()
    assert not close_session([silent.address] * 3, SESSION_ID, PASSWORD, patience_s=0.2)
    assert time.monotonic() - begun_s < 1
    assert len(silent.received) == 1


# -- the real server --------------------------------------------------------------------------------------------------

CREATE_EPHEMERAL, OPEN_TO_ALL = 1, struct.pack(">iii5si6s", 1, 31, 5, b"world", 6, b"anyone")


class DeadOwner(NamedTuple):
    """A session whose owner has created an ephemeral znode and then died."""

    session_id: int
    password: bytes


def receive(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size, socket.MSG_WAITALL)


def die_owning(server: tuple[str, int], path: str) -> DeadOwner:
    """A session with the longest timeout of the tests."""
    with socket.create_connection(server, 10) as connection:
        connection.sendall(connect_request(0, bytes(16), SESSION_TIMEOUT_MS))
        _, _, session_id, _, password = struct.unpack_from(">iiqi16s", receive(connection))
        name = path.encode()
        create = struct.pack(f">iii{len(name)}si", 1, 1, len(name), name, -1)
        connection.sendall(packet(create + OPEN_TO_ALL + struct.pack(">i", CREATE_EPHEMERAL)))
        assert struct.unpack_from(">iqi", receive(connection))[2] == 0
    return DeadOwner(session_id, password)


class World(NamedTuple):
    """A ZooKeeper, a client that observes it, and the path of the dead owner's znode."""

    server: tuple[str, int]
    client: RegistryClient
    chroot: str

    def die_owning(self, name: str = "/owned") -> DeadOwner:
        return die_owning(self.server, self.chroot + name)

    def is_there(self, name: str = "/owned") -> bool:
        async def look() -> bool:
            return await self.client.exists(name) is not None

        return run_blocking(look())

    def gone_after_s(self, limit_s: float) -> float:
        begun_s = time.monotonic()
        while self.is_there():
            assert time.monotonic() - begun_s < limit_s, "the ephemeral znode still exists"
            time.sleep(0.01)
        return time.monotonic() - begun_s


@pytest.fixture
def world(zookeeper: Chroot, zk_client: RegistryClient) -> World:
    return World((LOCALHOST, zookeeper.server.port), zk_client, zookeeper.path)


@pytest.mark.integration
def test_the_ephemerals_of_the_dead_are_gone_when_it_returns(world: World) -> None:
    dead = world.die_owning()
    assert dead.password == session_password(dead.session_id), "ZooKeeper derives the password from the id"
    assert world.is_there()
    assert close_session([world.server], *dead)
    assert not world.is_there()


@pytest.mark.integration
def test_a_stale_id_is_a_no_op(world: World) -> None:
    dead, other = world.die_owning(), world.die_owning("/other")
    assert close_session([world.server], *dead)
    assert not close_session([world.server], *dead), "the session is closed already"
    assert not close_session([world.server], dead.session_id + 1000, session_password(dead.session_id + 1000))
    assert world.is_there("/other"), "no other session is meant"
    assert close_session([world.server], *other)


@pytest.mark.integration
def test_a_wrong_password_closes_nothing(world: World) -> None:
    dead = world.die_owning()
    assert not close_session([world.server], dead.session_id, bytes(16))
    assert world.is_there()


@pytest.mark.integration
@pytest.mark.parametrize("fate", ["paused", "killed"])
def test_a_client_that_only_resumes_the_session_does_not_keep_it(world: World, fate: str) -> None:
    """The session lives only for the shortest timeout, as if only the first of the two requests had been sent: the
    connection either stays open without data or breaks.
    """
    dead = world.die_owning()
    with socket.create_connection(world.server, 10) as supervisor:
        supervisor.sendall(connect_request(*dead, SHORTEST_MS))
        _, granted_ms, session_id = struct.unpack_from(">iiq", receive(supervisor))
        assert session_id == dead.session_id and granted_ms < SESSION_TIMEOUT_MS / 2
        if fate == "killed":
            supervisor.close()
        assert world.gone_after_s(10) < SESSION_TIMEOUT_MS / 1000
