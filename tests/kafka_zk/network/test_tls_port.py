"""A listener over TLS: our client and OpenSSL's against it, storms of handshakes, and peers that never finish one."""

import contextlib
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from kafka_zk.network import tls_port
from kafka_zk.network.connection_quotas import ConnectionQuotas
from kafka_zk.network.connection_settings import ConnectionSettings
from kafka_zk.network.foreign_peers import ForeignPeers
from kafka_zk.network.listener import Listener, ListenerSettings
from kafka_zk.network.tls_port import HandshakeTurns, TlsPort
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.security.listener_security import listener_security
from kafka_zk.security.tls import server_context
from tests.kafka_zk.network.harness import CountedSlice, LocalReactor
from tests.kafka_zk.network.server import answer, request
from tests.secure_broker import Files, make_files

BIG = 5_000_000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("tls"))


class TlsServer:
    """A listener whose answer a test gives; it remembers who asked."""

    def __init__(self, reactor: LocalReactor, files: Files, client_auth: str = "none") -> None:
        self.reactor = reactor
        self.files = files
        self.principals: list[str] = []
        self.respond: Callable[[bytes], list[Any]] = lambda body: [body]
        security = listener_security(
            {
                "ssl.keystore.location": str(files.broker), "ssl.keystore.type": "PEM",
                "ssl.truststore.location": str(files.authority), "ssl.truststore.type": "PEM",
                "ssl.client.auth": client_auth,
            },
            "SSL",
            "SSL",
        )  # fmt: skip
        assert security.tls is not None
        context = server_context(security.tls.settings, client_auth)
        settings = ConnectionSettings(
            reactor, "SSL", self.dispatch, "SSL",
            principal_of=lambda certificate: f"User:{'nobody' if certificate is None else len(certificate) > 100}",
        )  # fmt: skip
        self.listener = Listener(
            reactor, ListenerSettings("127.0.0.1", 0), settings, ConnectionQuotas(),
            partial(TlsPort, context, ForeignPeers()),
        )  # fmt: skip
        self.port = self.listener.bind()
        self.listener.start_accepting()
        self.sockets: list[socket.socket] = []

    async def dispatch(self, context: RequestContext, header: RequestHeader, body: memoryview) -> list[Any]:
        self.principals.append(context.principal)
        return [struct.pack(">i", header.correlation_id), *self.respond(bytes(body))]

    def open_socket(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port))
        made.setblocking(False)
        self.sockets.append(made)
        return made

    def connect(self, **options: Any) -> ssl.SSLSocket:
        """A client of OpenSSL, its handshake done; it does not block."""
        context = ssl.create_default_context(cafile=str(self.files.authority))
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default since Python 3.13
        if options.get("certificate"):
            context.load_cert_chain(self.files.client)
        made = context.wrap_socket(self.open_socket(), server_hostname="127.0.0.1", do_handshake_on_connect=False)
        self.sockets.append(made)
        self.step(made.do_handshake)
        return made

    def step(self, operation: Callable[[], Any]) -> Any:
        """Try until it does not ask for more."""
        found: list[Any] = []

        def works() -> bool:
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                found.append(operation())
            return bool(found)

        self.reactor.until(works)
        return found[0]

    def receive(self, peer: ssl.SSLSocket, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            data += self.step(partial(peer.recv, count - len(data)))
        return bytes(data)

    def close(self) -> None:
        for each in self.sockets:
            each.close()
        self.reactor.result_of(self.listener.stop())


@pytest.fixture
def make_server(reactor: LocalReactor, files: Files) -> Iterator[Callable[..., TlsServer]]:
    made: list[TlsServer] = []

    def make(client_auth: str = "none") -> TlsServer:
        made.append(TlsServer(reactor, files, client_auth))
        return made[-1]

    yield make
    for server in made:
        server.close()


def test_requests_are_answered_and_a_peer_without_certificate_is_nobody(make_server: Callable[..., TlsServer]) -> None:
    server = make_server()
    peer = server.connect()
    peer.send(request(1, b"one") + request(2, b"two"))
    expected = answer(1, b"one") + answer(2, b"two")
    assert server.receive(peer, len(expected)) == expected
    assert server.principals == ["User:nobody"] * 2


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_the_principal_is_the_certificates(make_server: Callable[..., TlsServer], client_auth: str) -> None:
    server = make_server(client_auth)
    peer = server.connect(certificate=True)
    peer.send(request(1))
    assert server.receive(peer, 8) == answer(1)
    assert server.principals == ["User:True"]


def test_a_missing_certificate_ends_the_connection(make_server: Callable[..., TlsServer]) -> None:
    server = make_server("required")
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate required"):
        peer = server.connect()
        server.step(lambda: peer.recv(1))
    assert server.principals == []


def test_slices_and_big_frames_arrive_whole(
    make_server: Callable[..., TlsServer], make_slice: Callable[..., CountedSlice]
) -> None:
    server = make_server()
    peer = server.connect()
    part = make_slice(BIG, 3)
    server.respond = lambda body: [body[:4], part, b"tail"]
    sent = request(1, bytes(BIG))
    view = memoryview(sent)
    while view:
        view = view[server.step(partial(peer.send, view)) :]
    expected = answer(1, bytes(4) + part.read() + b"tail")
    assert server.receive(peer, len(expected)) == expected


class TurnByTurn:
    """A reactor that takes a turn when it is told to."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def callLater(self, delay_s: float, call: Callable[[], None]) -> None:
        assert delay_s == 0
        self.due.append(call)

    def turn(self) -> None:
        due, self.due = self.due, []
        for call in due:
            call()


def test_a_storm_of_handshakes_takes_turns() -> None:
    reactor, ran = TurnByTurn(), list[int]()
    turns = HandshakeTurns(reactor, steps_per_turn=2)
    for number in range(5):
        turns.run(partial(ran.append, number))
    assert ran == [0, 1]
    reactor.turn()
    assert ran == [0, 1, 2, 3]
    reactor.turn()
    assert ran == [0, 1, 2, 3, 4]
    for _ in range(3):
        reactor.turn()
    assert reactor.due == [], "an idle listener takes no turns"
    turns.run(partial(ran.append, 5))
    assert ran[-1] == 5


def test_a_handshake_that_never_ends_is_given_up(
    make_server: Callable[..., TlsServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_port, "HANDSHAKE_TIMEOUT_S", 0.05)
    server = make_server()
    silent = server.open_socket()
    server.reactor.until(lambda: len(server.listener.connections) == 1)
    silent.send(b"\x16\x03\x01")
    server.reactor.until(lambda: not server.listener.connections)


@pytest.mark.parametrize("spoken", [b"GET / HTTP/1.1\r\n\r\n", request(1, b"plaintext")])
def test_another_protocol_ends_the_connection(make_server: Callable[..., TlsServer], spoken: bytes) -> None:
    server = make_server()
    server.open_socket().send(spoken)
    server.reactor.until(lambda: not server.listener.connections)
    assert server.principals == []
