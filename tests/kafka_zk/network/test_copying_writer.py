"""Frames over transports that take only bytes: a plain one, and TLS where pyOpenSSL is installed."""

import datetime
import os
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.network.connection import ConnectionSettings
from kafka_zk.network.connection_quotas import ConnectionQuotas
from kafka_zk.network.copying_writer import CopyingFrameWriter
from kafka_zk.network.in_flight import Response
from kafka_zk.network.listener import Listener, ListenerSettings
from kafka_zk.protocol.request import RequestContext, RequestHeader
from tests.kafka_zk.network.harness import CountedSlice, LocalReactor
from tests.kafka_zk.network.server import answer, frame, request

BIG = 4 * 1024 * 1024
Wrap = Callable[[Any], Any]


def _shake_hands(peer: ssl.SSLSocket) -> bool:
    peer.do_handshake()
    return True


class Copying:
    """A listener without sendfile, and a peer that the test lets speak TLS or not."""

    def __init__(self, reactor: LocalReactor, tls: Wrap, client_context: ssl.SSLContext | None, **options: Any) -> None:
        self.reactor = reactor
        self.parts: Callable[[], list[Any]] = lambda: []
        self.handled = 0
        settings = ConnectionSettings(reactor, "SSL", self._dispatch)
        self.listener = Listener(
            reactor, ListenerSettings("127.0.0.1", 0, tls=tls, **options), settings, ConnectionQuotas()
        )
        self._context = client_context
        self.peer = self._connect(self.listener.bind())

    async def _dispatch(self, context: RequestContext, header: RequestHeader, body: memoryview) -> Response:
        self.handled += 1
        return [struct.pack(">i", header.correlation_id), *self.parts()]

    def _connect(self, port: int) -> Any:
        self.listener.start_accepting()
        plain = socket.create_connection(("127.0.0.1", port))
        plain.setblocking(False)
        if self._context is None:
            return plain
        peer = self._context.wrap_socket(plain, do_handshake_on_connect=False)
        self.reactor.until(lambda: self._step(partial(_shake_hands, peer)))
        return peer

    def _step(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None

    @property
    def connection(self) -> Any:
        return self.reactor.until(lambda: self.listener.connections)[0]

    def receive(self, size_bytes: int) -> bytes:
        """``size_bytes``, or what came before the end of the stream."""
        received = bytearray()

        def step() -> bool:
            try:
                data = self._step(lambda: self.peer.recv(1 << 20))
            except (ConnectionResetError, ssl.SSLError):
                data = b""
            received.extend(data or b"")
            return data == b"" or len(received) >= size_bytes

        self.reactor.until(step)
        return bytes(received)

    def close(self) -> None:
        self.peer.close()
        self.reactor.result_of(self.listener.stop())


def _plain(factory: Any) -> Any:
    return factory


def _certificate(folder: Path) -> tuple[str, str]:
    """A self-signed certificate for 127.0.0.1: the files of certificate and key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + datetime.timedelta(1)
    )
    certificate = builder.sign(key, hashes.SHA256())
    pem = folder / "certificate.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_pem = folder / "key.pem"
    key_pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(pem), str(key_pem)


@pytest.fixture(params=["plain", "tls"])
def make_copying(
    request: pytest.FixtureRequest, reactor: LocalReactor, tmp_path: Path
) -> Iterator[Callable[..., Copying]]:
    tls: Wrap = _plain
    context = None
    if request.param == "tls":
        pytest.importorskip("OpenSSL", reason="pyOpenSSL comes with the test extra")
        from twisted.internet.ssl import DefaultOpenSSLContextFactory
        from twisted.protocols.tls import TLSMemoryBIOFactory

        pem, key = _certificate(tmp_path)
        server_context = DefaultOpenSSLContextFactory(key, pem)

        def tls(factory: Any) -> Any:
            made: Any = TLSMemoryBIOFactory
            return made(server_context, False, factory, clock=reactor)

        context = ssl.create_default_context(cafile=pem)
        context.check_hostname = False
    made: list[Copying] = []

    def make(**options: Any) -> Copying:
        made.append(Copying(reactor, tls, context, **options))
        return made[-1]

    yield make
    for copying in made:
        copying.close()


@pytest.fixture
def copying(make_copying: Callable[..., Copying]) -> Copying:
    return make_copying()


def test_bytes_and_slices_arrive_in_order(copying: Copying, make_slice: Callable[..., CountedSlice]) -> None:
    first, second = make_slice(1000, 3), make_slice(BIG, 7)
    copying.parts = lambda: [b"head", first, bytearray(b"between"), second, memoryview(b"tail")]
    copying.peer.send(request(1))
    expected = answer(1, b"head" + first.read() + b"between" + second.read() + b"tail")
    assert copying.receive(len(expected)) == expected
    assert isinstance(copying.connection._writer, CopyingFrameWriter)


def test_a_slow_reader_is_not_read_from(copying: Copying, make_slice: Callable[..., CountedSlice]) -> None:
    """The transport asks for a pause as long as an answer has not left: one answer in memory, not a thousand."""
    big = make_slice(2 * BIG)
    copying.parts = lambda: [big]
    copying.peer.send(request(1) + request(2) + request(3))
    copying.reactor.until(lambda: copying.handled)
    for _ in range(20):
        copying.reactor.turn(0)
    assert copying.handled == 1
    expected = b"".join(answer(number, big.read()) for number in (1, 2, 3))
    assert copying.receive(len(expected)) == expected
    assert copying.handled == 3


def test_a_truncated_file_ends_the_connection(copying: Copying, make_slice: Callable[..., CountedSlice]) -> None:
    big = make_slice(BIG)
    os.truncate(big.path, 100)
    copying.parts = lambda: [big]
    copying.peer.send(request(1))
    assert copying.receive(1) == b""


def test_a_refused_peer_gets_its_answers_first(copying: Copying, make_slice: Callable[..., CountedSlice]) -> None:
    """A registered producer would keep the connection open for ever."""
    copying.parts = lambda: [b"x" * 1000]
    copying.peer.send(request(1) + frame(b"bad"))
    assert copying.receive(1 << 20) == answer(1, b"x" * 1000)
    copying.peer.close()  # TLS waits for the other side's farewell; an idle connection is closed without
    copying.reactor.until(lambda: not copying.listener.connections)


def test_buffer_sizes_are_set_below_it(make_copying: Callable[..., Copying]) -> None:
    copying = make_copying(send_buffer_size_bytes=65536, receive_buffer_size_bytes=65536)
    copying.peer.send(request(1))
    assert copying.receive(8) == answer(1)
