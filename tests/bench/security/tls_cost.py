"""The processor time that TLS adds to a Produce request: `python -m tests.bench.security.tls_cost`.

One process runs the broker's turns in plaintext and over TLS, one after the other. Each turn reads all requests that a
producer has in flight. For comparison, OpenSSL alone decrypts the same requests and encrypts the same responses. What
TLS costs beyond that is Python's part.
"""

from __future__ import annotations

import contextlib
import ssl
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import quantiles

import click

from kafka_zk.network.tls_port import TlsPort
from tests.bench.request_cost import OneBroker
from tests.bench.security.brokers import make_certificates
from tests.bench.sockets import TIMEOUT_S, connected, waiting_bytes
from tests.peers.processes import wait_until

ROWS = (("produce 1 KB", 5), ("produce 1 KB", 1), ("produce 64 KB", 1))
"""Kind of request, and the number of them in flight."""

_RECEIVE_BYTES = 64 * 1024
_HANDSHAKE_TURN_S = 0.01
_RESPONSE_BYTES = 60
_WARM_UP = 0.2  # of the turns


class TlsPair:
    """Both ends of a TLS connection in memory."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        self.to_server, self.to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = server.wrap_bio(self.to_server, self.to_client, server_side=True)
        self.client = client.wrap_bio(self.to_client, self.to_server, server_hostname="127.0.0.1")
        while not self._has_finished():
            pass
        self._drop_tickets()

    def _has_finished(self) -> bool:
        finished = 0
        for end in (self.client, self.server):
            try:
                end.do_handshake()
                finished += 1
            except ssl.SSLWantReadError:
                pass
        return finished == 2

    def _drop_tickets(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            self.client.read(1)

    def turn_s(self, request: bytes, response: bytes, count: int) -> float:
        """The time in which the server decrypts ``count`` requests and encrypts their responses together."""
        for _ in range(count):
            self.client.write(request)
        room = memoryview(bytearray(len(request)))
        begun_s = time.thread_time()
        for _ in range(count):
            filled = 0
            while filled < len(request):
                filled += int(self.server.read(len(request) - filled, room[filled:]))
        self.server.write(response * count)
        data = self.to_client.read()
        spent_s = time.thread_time() - begun_s
        self.to_client.write(data)
        self.client.read(len(response) * count)
        return spent_s


class SecuredBroker(OneBroker):
    """A broker with one client in plaintext and one over TLS."""

    def __init__(self, folder: Path, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        super().__init__(folder)
        listener, port = self.listen(partial(TlsPort, server, lambda: None))
        self._secured = connected(port)
        self._secured.setblocking(False)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = client.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        wait_until(self._has_shaken_hands, TIMEOUT_S, "the handshake")
        self._secured.setblocking(True)
        (connection,) = listener.connections
        self._secured_broker_socket = connection.transport.socket  # type: ignore[union-attr]

    def _has_shaken_hands(self) -> bool:
        try:
            self._tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False
        finally:
            if self._outgoing.pending:
                self._secured.sendall(self._outgoing.read())
            self._reactor.doIteration(_HANDSHAKE_TURN_S)
            with contextlib.suppress(BlockingIOError):
                self._incoming.write(self._secured.recv(_RECEIVE_BYTES))

    def plain_turn_s(self, kind: str, count: int) -> float:
        """The time of a turn with ``count`` requests of the kind."""
        request = self.request(kind) * count
        self._client.sendall(request)
        wait_until(lambda: waiting_bytes(self._broker_socket) == len(request), TIMEOUT_S, "the requests")
        spent_s = self._timed_turn_s()
        for _ in range(count):
            self._receive(kind)
        return spent_s

    def secured_turn_s(self, kind: str, count: int) -> float:
        """The same over TLS."""
        for _ in range(count):
            self._tls.write(self.request(kind))
        request = self._outgoing.read()
        self._secured.sendall(request)
        wait_until(lambda: waiting_bytes(self._secured_broker_socket) == len(request), TIMEOUT_S, "the requests")
        spent_s = self._timed_turn_s()
        for _ in range(count):
            (size_bytes,) = struct.unpack(">i", self._decrypted(4))
            self._decrypted(size_bytes)
        return spent_s

    def _decrypted(self, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            try:
                data += self._tls.read(size_bytes - len(data))
            except ssl.SSLWantReadError:
                self._incoming.write(self._secured.recv(_RECEIVE_BYTES))
        return data

    def _timed_turn_s(self) -> float:
        begun_s = time.thread_time()
        self._reactor.doIteration(TIMEOUT_S)
        return time.thread_time() - begun_s


def contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Those of a server with a certificate for P-256, and of a client."""
    make_certificates(folder)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "ec.pem", folder / "ec.key")
    return server, ssl.create_default_context(cafile=str(folder / "ec.pem"))


def fast_us(turns_s: Sequence[float], count: int) -> float:
    """The first decile of a request's time in us: other work on the machine only makes turns longer."""
    return quantiles(turns_s[int(len(turns_s) * _WARM_UP) :], n=10)[0] / count * 1e6


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--turns", type=click.IntRange(20), default=2_000, show_default=True, help="Turns of each kind.")
def main(turns: int) -> None:
    """Measure the processor time of a Produce request in plaintext and over TLS, and OpenSSL's part of it."""
    with tempfile.TemporaryDirectory(prefix="kafka-zk-tls-cost-") as name:
        folder = Path(name)
        server, client = contexts(folder / "certificates")
        broker = SecuredBroker(folder / "broker", server, client)
        click.echo("| request | in flight | plaintext, us | TLS, us | TLS adds, us | OpenSSL alone, us |")
        click.echo("|---|---:|---:|---:|---:|---:|")
        for kind, count in ROWS:
            broker.secured_turn_s(kind, 1)
            pair = TlsPair(server, client)
            request, response = broker.request(kind), bytes(_RESPONSE_BYTES)
            steps: Sequence[Callable[[], float]] = (
                partial(broker.plain_turn_s, kind, count),
                partial(broker.secured_turn_s, kind, count),
                partial(pair.turn_s, request, response, count),
            )
            samples = [[step() for step in steps] for _ in range(turns)]
            plain, secured, alone = (fast_us(each, count) for each in zip(*samples, strict=True))
            click.echo(f"| {kind} | {count} | {plain:.1f} | {secured:.1f} | {secured - plain:.1f} | {alone:.1f} |")


if __name__ == "__main__":
    main()
