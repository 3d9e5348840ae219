"""The client's transport over TLS, against OpenSSL in a thread: handshakes, big frames, and clear errors."""

import contextlib
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.error import ConnectError, ConnectionClosed, ConnectionLost

from kafka_zk.network.client import KafkaConnection, connect
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.security.client_keys import client_security
from kafka_zk.security.client_security import ClientSecurity
from kafka_zk.security.errors import SslAuthenticationFailed
from tests.kafka_zk.network.harness import CountedSlice, LocalReactor
from tests.secure_broker import Files, SecureBroker, make_files, server_context


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("tls"))


def over_tls(files: Files, **keys: Any) -> ClientSecurity:
    return client_security({"security.protocol": "SSL", "ssl.ca.location": str(files.authority), **keys})


def with_certificate(files: Files) -> ClientSecurity:
    return over_tls(files, **{"ssl.keystore.location": str(files.client), "ssl.keystore.type": "PEM"})


def open_connection(reactor: LocalReactor, port: int, security: ClientSecurity, **options: Any) -> KafkaConnection:
    made = connect(reactor, "127.0.0.1", port, "t", security=security, **options)
    connection: KafkaConnection = reactor.result_of(made)
    return connection


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_requests_and_their_answers(reactor: LocalReactor, files: Files, version: str) -> None:
    with SecureBroker(server_context(files), has_sasl=False).running() as broker:
        connection = open_connection(reactor, broker.port, over_tls(files, **{"ssl.enabled.protocols": version}))
        for _ in range(3):
            answer = reactor.result_of(connection.request(ApiKey.METADATA, topics=None))
            assert answer.brokers[0].port == broker.port
        reactor.result_of(connection.disconnect())


def test_a_client_certificate(reactor: LocalReactor, files: Files) -> None:
    with SecureBroker(server_context(files, asks_for_certificate=True), has_sasl=False).running() as broker:
        connection = open_connection(reactor, broker.port, with_certificate(files))
        reactor.result_of(connection.request(ApiKey.METADATA, topics=None))
        assert "client" in broker.peers[0]
        reactor.result_of(connection.disconnect())


def test_an_unknown_authority_is_refused(reactor: LocalReactor, files: Files) -> None:
    wrong = client_security({"security.protocol": "SSL", "ssl.ca.location": str(files.other_authority)})
    broker = SecureBroker(server_context(files))
    with broker.running(), pytest.raises(SslAuthenticationFailed, match=r"127\.0\.0\.1:\d+ .*not signed"):
        open_connection(reactor, broker.port, wrong)


def test_a_certificate_for_another_host_is_refused_unless_nobody_asks(reactor: LocalReactor, tmp_path: Path) -> None:
    files = make_files(tmp_path, "another.example")
    broker = SecureBroker(server_context(files), has_sasl=False)
    with broker.running(), pytest.raises(SslAuthenticationFailed, match="another host"):
        open_connection(reactor, broker.port, over_tls(files))
        lax = over_tls(files, **{"ssl.endpoint.identification.algorithm": ""})
        reactor.result_of(open_connection(reactor, broker.port, lax).disconnect())


@pytest.mark.parametrize("host", ["", ".example"])
def test_a_host_that_tls_cannot_name_fails_as_other_connections_do(
    reactor: LocalReactor, files: Files, host: str
) -> None:
    made = connect(reactor, host, 9, security=over_tls(files))
    with pytest.raises(ConnectError, match="is not a valid host name for TLS"):
        reactor.result_of(made)


def test_a_missing_client_certificate_is_told(reactor: LocalReactor, files: Files) -> None:
    broker = SecureBroker(server_context(files, asks_for_certificate=True), has_sasl=False)
    told = pytest.raises((SslAuthenticationFailed, ConnectionLost), match="asks for a client certificate")
    with broker.running(), told:  # the alert may be lost with the connection
        open_connection(reactor, broker.port, over_tls(files))


def test_a_port_without_tls_is_told(reactor: LocalReactor, files: Files) -> None:
    broker = SecureBroker(None)
    with broker.running(), pytest.raises(ConnectionLost, match="speak TLS at this port"):
        open_connection(reactor, broker.port, over_tls(files))


def test_a_peer_that_says_nothing_is_given_up(reactor: LocalReactor, files: Files) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ConnectionClosed):
        open_connection(reactor, silent.getsockname()[1], over_tls(files), request_timeout_s=0.2)


def _received(secured: ssl.SSLSocket, count: int) -> bytes:
    """Receives ``count`` bytes, or fewer at the end of the stream."""
    data = bytearray()
    while len(data) < count and (piece := secured.recv(count - len(data))):
        data += piece
    return bytes(data)


class Echo:
    """A server that sends frames back over TLS, slowly at first."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        self.port: int = self._listener.getsockname()[1]
        self.may_read = threading.Event()
        self.received = b""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        connection, _ = self._listener.accept()
        with contextlib.suppress(OSError), self._context.wrap_socket(connection, server_side=True) as secured:
            self.may_read.wait()
            while size := _received(secured, 4):
                frame = _received(secured, *struct.unpack(">i", size))
                self.received += frame
                secured.sendall(size + frame)

    def close(self) -> None:
        self.may_read.set()
        self._listener.close()


@pytest.fixture
def echo(files: Files) -> Iterator[Echo]:
    echo = Echo(server_context(files))
    yield echo
    echo.close()


def raw_connection(reactor: LocalReactor, echo: Echo, files: Files) -> KafkaConnection:
    return open_connection(reactor, echo.port, over_tls(files), negotiate=False)


@pytest.mark.parametrize("size", [0, 1, 16 * 1024, 300_000, 5_000_000])
def test_big_frames_go_both_ways(reactor: LocalReactor, files: Files, echo: Echo, size: int) -> None:
    connection = raw_connection(reactor, echo, files)
    echo.may_read.set()
    body = os.urandom(size)
    frames: list[bytes] = []
    connection._decoder.max_frame_size_bytes = 1 << 30
    connection._take = lambda frame: frames.append(bytes(frame))  # type: ignore[method-assign]
    half = size // 2
    connection.transport.write_frame([body[:half], memoryview(body)[half:]])  # type: ignore[union-attr]
    connection.transport.write_frame([b"last"])  # type: ignore[union-attr]
    reactor.until(lambda: len(frames) == 2)
    assert frames == [body, b"last"]
    reactor.result_of(connection.disconnect())


def test_a_slow_peer_gets_everything_and_the_queue_is_its_measure(
    reactor: LocalReactor, files: Files, echo: Echo, make_slice: Callable[..., CountedSlice]
) -> None:
    connection = raw_connection(reactor, echo, files)
    transport: Any = connection.transport
    slices = [make_slice(700_000, position) for position in (0, 5)]
    wanted = b""
    for number, each in enumerate(slices):
        transport.write_frame([b"%d" % number, each, b"end"])
        wanted += b"%d" % number + Path(each.path).read_bytes()[each.position :][:700_000] + b"end"
    transport.write_frame([b"x" * 4_000_000])
    wanted += b"x" * 4_000_000
    for _ in range(200):
        reactor.turn()
    queued_bytes = transport.queued_size_bytes
    assert 0 < queued_bytes <= len(wanted) + 12
    connection._decoder.max_frame_size_bytes = 1 << 30
    connection._take = lambda frame: None  # type: ignore[method-assign]
    echo.may_read.set()
    reactor.until(lambda: len(echo.received) == len(wanted))
    assert echo.received == wanted
    reactor.until(lambda: transport.queued_size_bytes == 0)
    reactor.result_of(connection.disconnect())


def test_slices_are_given_back_when_the_connection_ends(
    reactor: LocalReactor, files: Files, echo: Echo, make_slice: Callable[..., CountedSlice]
) -> None:
    connection = raw_connection(reactor, echo, files)
    connection.transport.write_frame([make_slice(5_000_000)])  # type: ignore[union-attr]
    reactor.turn()
    connection.end(ConnectionError("enough"))
    reactor.until(lambda: connection.lost is not None)


def _close_notify(tls: ssl.SSLObject, outgoing: ssl.MemoryBIO) -> bytes:
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.unwrap()
    return outgoing.read()


def _wrong_record(tls: ssl.SSLObject, outgoing: ssl.MemoryBIO) -> bytes:
    return b"\x17\x03\x03\x00\x20" + bytes(32)


def _until_read(
    connection: socket.socket, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, step: Callable[[], object]
) -> None:
    """Repeat ``step`` until it has enough data, which may come in the same segment as the end of the handshake."""
    while True:
        try:
            step()
            return
        except ssl.SSLWantReadError:
            connection.sendall(outgoing.read())
            incoming.write(connection.recv(65536))


def _send_at_once(
    listener: socket.socket, context: ssl.SSLContext, end: Callable[[ssl.SSLObject, ssl.MemoryBIO], bytes]
) -> None:
    """A server that sends a frame and ``end`` in one segment, and keeps the connection open."""
    connection, _ = listener.accept()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_side=True)
    with connection:
        _until_read(connection, incoming, outgoing, tls.do_handshake)
        _until_read(connection, incoming, outgoing, tls.read)  # the client is ready
        tls.write(struct.pack(">i", 5) + b"hello")
        connection.sendall(outgoing.read() + end(tls, outgoing))
        connection.recv(1)  # until the client closes


@pytest.mark.parametrize("end", [_close_notify, _wrong_record])
@pytest.mark.parametrize("pauses", [False, True])
def test_what_follows_data_in_the_same_segment_ends_the_connection(
    reactor: LocalReactor, files: Files, end: Callable[[ssl.SSLObject, ssl.MemoryBIO], bytes], pauses: bool
) -> None:
    """The end comes after the data, even if the protocol pauses in between, and although no more data arrive."""
    frames: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_send_at_once, args=(listener, server_context(files), end), daemon=True).start()
        connection = open_connection(reactor, listener.getsockname()[1], over_tls(files), negotiate=False)
        transport: Any = connection.transport

        def take(frame: memoryview) -> None:
            frames.append(bytes(frame))
            if pauses:
                transport.pauseProducing()

        connection._decoder.max_frame_size_bytes = 1 << 30
        connection._take = take  # type: ignore[method-assign]
        transport.write_frame([b"ready"])
        reactor.until(lambda: frames)
        if pauses:
            assert connection.lost is None
            transport.resumeProducing()
        reactor.until(lambda: connection.lost is not None)
    assert frames == [b"hello"]


def test_nothing_is_asked_of_openssl_when_nothing_is_left(
    reactor: LocalReactor, files: Files, echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL's error for such a call costs as much as a small record."""
    connection = raw_connection(reactor, echo, files)
    echo.may_read.set()
    transport: Any = connection.transport
    frames: list[bytes] = []
    connection._decoder.max_frame_size_bytes = 1 << 30
    connection._take = lambda frame: frames.append(bytes(frame))  # type: ignore[method-assign]
    transport.write_frame([b"first"])
    reactor.until(lambda: frames)
    reads: list[tuple[Any, ...]] = []
    decrypting = transport._tls

    class Counting:
        pending = decrypting.pending

        def read(self, *wanted: Any) -> int:
            reads.append(wanted)
            return int(decrypting.read(*wanted))

    monkeypatch.setattr(transport, "_tls", Counting())
    decrypting.write(struct.pack(">i", 6) + b"second")
    transport.socket.sendall(transport._outgoing.read())
    reactor.until(lambda: len(frames) == 2)
    assert len(reads) == 1
    monkeypatch.undo()
    reactor.result_of(connection.disconnect())


def test_closing_in_the_middle_of_a_handshake(reactor: LocalReactor, files: Files) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        connection = open_connection(reactor, port, over_tls(files), negotiate=False)
        waiting = connection.send_raw(ApiKey.METADATA, 1, [b""])
        waiting.addErrback(lambda _: None)
        reactor.result_of(connection.disconnect())
