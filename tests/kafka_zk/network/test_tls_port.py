"""A listener with TLS: our client and OpenSSL's, storms of handshakes, and peers that never complete one."""

import contextlib
import fcntl
import socket
import ssl
import struct
import termios
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.network import tls_port, tls_transport
from kafka_zk.network.connection_quotas import ConnectionQuotas
from kafka_zk.network.connection_settings import AwaitsCertificate, ConnectionSettings
from kafka_zk.network.listener import Listener, ListenerSettings
from kafka_zk.network.tls_port import HandshakeTurns, TlsPort
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.security.listener_security import listener_security
from kafka_zk.security.tls import server_context
from tests.kafka_zk.network.harness import CountedSlice, LocalReactor
from tests.kafka_zk.network.server import answer, request
from tests.peers.processes import wait_until
from tests.secure_broker import Files, make_files
from tests.secure_broker import server_context as renewed_context

BIG = 5_000_000
ONE_RECORD_BYTES = 17_000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("tls"))


def principal_of(certificate: bytes | None) -> str | None:
    return f"User:{'nobody' if certificate is None else len(certificate) > 100}"


class TlsServer:
    """A listener whose responses the test gives; it records the principals.

    ``may_answer``: what every request waits for. ``has_answers``: whether requests get responses at all.
    """

    def __init__(
        self,
        reactor: LocalReactor,
        files: Files,
        client_auth: str = "none",
        principal_of: Callable[[bytes | None], str | None] = principal_of,
    ) -> None:
        self.reactor = reactor
        self.files = files
        self.principals: list[str] = []
        self.failures = 0
        self.respond: Callable[[bytes], list[Any]] = lambda body: [body]
        self.may_answer: Deferred[None] | None = None
        self.has_answers = True
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
        settings = ConnectionSettings(reactor, "SSL", self.dispatch, "SSL", principal_of=principal_of)
        self.listener = Listener(
            reactor, ListenerSettings("127.0.0.1", 0), settings, ConnectionQuotas(),
            partial(TlsPort, context, self.tell_failure),
        )  # fmt: skip
        self.port = self.listener.bind()
        self.listener.start_accepting()
        self.sockets: list[socket.socket] = []

    def tell_failure(self) -> None:
        self.failures += 1

    async def dispatch(self, context: RequestContext, header: RequestHeader, body: memoryview) -> list[Any] | None:
        self.principals.append(context.principal)
        if self.may_answer is not None:
            await self.may_answer
        answer = [struct.pack(">i", header.correlation_id), *self.respond(bytes(body))]
        return answer if self.has_answers else None

    def open_socket(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port))
        made.setblocking(False)
        self.sockets.append(made)
        return made

    def connect(self, **options: Any) -> ssl.SSLSocket:
        """An OpenSSL client after its handshake; it does not block."""
        context = ssl.create_default_context(cafile=str(self.files.authority))
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default since Python 3.13
        if options.get("certificate"):
            context.load_cert_chain(self.files.client)
        made = context.wrap_socket(self.open_socket(), server_hostname="127.0.0.1", do_handshake_on_connect=False)
        self.sockets.append(made)
        self.step(made.do_handshake)
        return made

    def step(self, operation: Callable[[], Any]) -> Any:
        """Repeat ``step`` until it needs no more data."""
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

    def make(client_auth: str = "none", **options: Any) -> TlsServer:
        made.append(TlsServer(reactor, files, client_auth, **options))
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


def test_a_listener_that_moves_shows_its_renewed_certificate(
    reactor: LocalReactor, make_server: Callable[..., TlsServer], tmp_path: Path
) -> None:
    """The listener must not return to the certificate and the authorities that it started with."""
    server = make_server()
    server.files = make_files(tmp_path)
    server.listener.renew_tls(renewed_context(server.files))
    server.connect()
    reactor.result_of(server.listener.move("127.0.0.1", 0))
    assert server.listener.port != server.port
    server.port = server.listener.port
    server.connect()


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


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("error", [None, ValueError("a bad name"), RuntimeError("a bug")])
def test_a_peer_whose_certificate_says_nothing_gets_no_answer(
    make_server: Callable[..., TlsServer], monkeypatch: pytest.MonkeyPatch, error: Exception | None, is_late: bool
) -> None:
    if is_late:  # each step waits for the next turn, in which no doRead ends the connection

        def wait(turns: HandshakeTurns, step: Callable[[], None]) -> None:
            turns._reactor.callLater(0, step)

        monkeypatch.setattr(HandshakeTurns, "run", wait)

    def fails(certificate: bytes | None) -> None:
        if error is not None:
            raise error

    server = make_server("required", principal_of=fails)
    with contextlib.suppress(OSError):  # the connection may end before the client knows that it is established
        peer = server.connect(certificate=True)
        peer.send(request(1))
        assert server.step(partial(peer.recv, 1)) == b""
    server.reactor.until(lambda: not server.listener.connections)
    assert server.principals == []


def test_nothing_is_answered_before_the_certificate_is_known() -> None:
    with pytest.raises(ProtocolError):
        AwaitsCertificate().request(None, None, None).send(None)  # type: ignore[arg-type]


def send_all(server: TlsServer, peer: ssl.SSLSocket, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[server.step(partial(peer.send, view)) :]


def answer_next(server: TlsServer) -> None:
    """Respond to the waiting request; the next one will wait, too."""
    waiting, server.may_answer = server.may_answer, Deferred()
    assert waiting is not None
    waiting.callback(None)


def test_what_came_before_the_end_of_the_connection_is_handled(make_server: Callable[..., TlsServer]) -> None:
    server = make_server()
    server.has_answers = False
    peer = server.connect()
    server.may_answer = Deferred()
    count = 20_000
    send_all(server, peer, b"".join(request(number) for number in range(count)))
    peer.shutdown(socket.SHUT_WR)
    for _ in range(20):
        server.reactor.turn()
    waiting, server.may_answer = server.may_answer, None
    waiting.callback(None)
    server.reactor.until(lambda: not server.listener.connections)
    assert len(server.principals) == count


def test_a_connection_that_pauses_again_and_again_keeps_little(make_server: Callable[..., TlsServer]) -> None:
    server = make_server()
    peer = server.connect()
    server.may_answer = Deferred()
    small = request(1, bytes(1000)) * 1000
    kept = []
    for number in range(200):
        with contextlib.suppress(ssl.SSLWantWriteError):
            peer.send(small)
        server.reactor.until(lambda number=number: len(server.principals) > number)  # type: ignore[misc]
        (connection,) = server.listener.connections
        kept.append(connection.transport._incoming.pending)  # type: ignore[union-attr]
        answer_next(server)
    assert max(kept) <= tls_transport._RECEIVE_BYTES + ONE_RECORD_BYTES


def test_five_batches_of_a_producer_are_received_in_one_turn(
    make_server: Callable[..., TlsServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL receives the batches in small pieces, because its buffer never shrinks."""
    server = make_server()
    peer = server.connect()
    (connection,) = server.listener.connections
    transport: Any = connection.transport
    server.reactor.until(lambda: not transport._handshaking)
    server.reactor.turn()
    transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    fed: list[int] = []
    incoming = transport._incoming

    class Counting:
        @property
        def pending(self) -> int:
            return int(incoming.pending)

        def write(self, data: memoryview) -> int:
            fed.append(len(data))
            return int(incoming.write(data))

    monkeypatch.setattr(transport, "_incoming", Counting())
    batch = request(1, bytes(16 * 1024))
    for _ in range(5):
        peer.sendall(batch)
    wait_until(lambda: waiting_bytes(transport.socket) > 5 * len(batch), 10, "the batches")
    server.reactor.doIteration(0)
    assert len(server.principals) == 5
    assert max(fed) <= 2 * len(batch)
    monkeypatch.undo()


def waiting_bytes(receiver: socket.socket) -> int:
    (count,) = struct.unpack("i", fcntl.ioctl(receiver, termios.FIONREAD, bytes(4)))
    return int(count)


def test_a_handshake_that_waits_for_its_turn_receives_nothing(make_server: Callable[..., TlsServer]) -> None:
    server = make_server()
    storm = [server.open_socket() for _ in range(tls_port.HANDSHAKE_STEPS_PER_TURN * 3)]
    server.reactor.until(lambda: len(server.listener.connections) == len(storm))
    for _ in range(50):
        for each in storm:
            with contextlib.suppress(OSError):
                each.send(bytes.fromhex("1603010fff") + bytes(4096))  # an incomplete TLS record
        server.reactor.turn()
    held = [connection.transport._incoming.pending for connection in server.listener.connections]  # type: ignore[union-attr]
    assert all(size <= 2 * tls_transport._HANDSHAKE_RECEIVE_BYTES for size in held)


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
    """A reactor whose turns the test runs."""

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
    server.reactor.until(lambda: server.failures)
    server.reactor.until(lambda: not server.listener.connections)
    assert (server.principals, server.failures) == ([], 1)
