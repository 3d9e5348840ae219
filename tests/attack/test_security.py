"""T: unauthenticated clients at the listeners with TLS and logins."""

import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from OpenSSL import SSL

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from tests.attack import payloads
from tests.attack.connection import Connection
from tests.attack.secured import Secured, client_hello, secured
from tests.attack.siege import Siege, side_by_side

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

STORM = 400
THREADS = 4
RATE = 50
WINDOWS = 2
P99_MS = 50.0
HALF = 300
TOKENS = 1_000
TOKEN_BYTES = 512 * 1024
MOST_BYTES_BEFORE_LOGIN = 16 * 1024
REFUSED = 25
SEND_FALLBACK_SCSV = 0x80  # SSL_MODE_SEND_FALLBACK_SCSV


@pytest.fixture
def broker(make_siege: Callable[..., Siege], tmp_path: Path) -> Secured:
    return secured(make_siege, tmp_path)


def until_closed(connections: list[socket.socket], deadline_s: float) -> None:
    """Read all data, and assert that each connection ends."""
    for connection in connections:
        connection.settimeout(max(0.1, deadline_s - time.monotonic()))
        try:
            while connection.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        except TimeoutError:
            raise AssertionError("a connection is not closed") from None


def storm(broker: Secured) -> None:
    """Start STORM handshakes and assert that each succeeds."""
    context = broker.context()

    def shake_hands() -> int:
        made = 0
        for _ in range(STORM // THREADS):
            with broker.socket("SASL_SSL") as plain, context.wrap_socket(plain, server_hostname="127.0.0.1"):
                made += 1
        return made

    assert sum(side_by_side([shake_hands] * THREADS)) == STORM


def test_a_storm_of_handshakes(broker: Secured) -> None:
    """Each handshake succeeds, because waiting clients are not a reason to refuse one."""
    broker.siege(f"T {STORM} handshakes", lambda: storm(broker), deadline_s=60)


def test_a_storm_at_a_listener_with_a_rate(make_siege: Callable[..., Siege], tmp_path: Path) -> None:
    """The listener accepts RATE connections a second, however many come, and others hardly notice (KAFKA-10023)."""
    broker = secured(
        make_siege,
        tmp_path,
        {
            "listener.name.sasl_ssl.max.connection.creation.rate": str(RATE),
            "quota.window.num": str(WINDOWS), "quota.window.size.seconds": "1",
        },
    )  # fmt: skip

    def attack() -> None:
        began_s = time.monotonic()
        storm(broker)
        assert time.monotonic() - began_s > STORM / RATE - WINDOWS

    broker.siege(f"T {STORM} handshakes, {RATE} a second", attack, deadline_s=60, p99_ms=P99_MS)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("part", ["half a hello", "a hello"])
def test_handshakes_that_are_begun_and_never_ended(broker: Secured, part: str) -> None:
    hello = client_hello()
    sent = hello[: len(hello) // 2] if part == "half a hello" else hello
    position = broker.siege.victim.log_size()

    def attack() -> None:
        connections = []
        for _ in range(HALF):
            connections.append(socket.create_connection(("127.0.0.1", broker.ports["SASL_SSL"]), 10))
            connections[-1].sendall(sent)
        until_closed(connections, time.monotonic() + 25)
        for connection in connections:
            connection.close()
        assert len(broker.lines(position, "TLS has failed: it takes longer than")) == 1

    broker.siege(f"T {HALF} × {part}", attack, deadline_s=60)


def test_renegotiation_is_refused(broker: Secured) -> None:
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_max_proto_version(SSL.TLS1_2_VERSION)
    position = broker.siege.victim.log_size()

    def attack() -> None:
        for _ in range(REFUSED):
            with broker.socket("SASL_SSL") as plain:
                plain.settimeout(None)
                made = SSL.Connection(context, plain)
                made.set_connect_state()
                made.do_handshake()
                made.renegotiate()
                with pytest.raises(SSL.Error):
                    made.do_handshake()
                assert made.total_renegotiations() <= 1
        assert not broker.lines(position, "Traceback")

    broker.siege(f"T {REFUSED} renegotiations", attack)


def begun_login(broker: Secured, size_bytes: int) -> tuple[Connection, bytes]:
    """A connection after its SaslHandshake, and a frame with a token of the given size, without the frame's last
    byte.
    """
    connection = broker.connect("SASL_PLAINTEXT")
    request = codec.request(ApiKey.SASL_HANDSHAKE)(mechanism="PLAIN")
    body = bytes(codec.encode_body(request, ApiKey.SASL_HANDSHAKE, 1))
    assert connection.ask(payloads.frame(ApiKey.SASL_HANDSHAKE, 1, body)), "the handshake got no response"
    message = payloads.frame(ApiKey.SASL_AUTHENTICATE, 0, size_bytes.to_bytes(4) + bytes(size_bytes))
    return connection, message[:-1]


def test_tokens_that_are_too_long(broker: Secured) -> None:
    """The broker refuses the tokens as soon as their size is known, although all connections are open at once."""

    def attack() -> None:
        begun = [begun_login(broker, TOKEN_BYTES) for _ in range(TOKENS)]
        for connection, message in begun:
            connection.send(message[:1000])
        for connection, _ in begun:
            assert connection.answer() is None, "a token of 512 KB was accepted"
            connection.close()

    broker.siege(f"T {TOKENS:,} tokens of 512 KB", attack, deadline_s=60)


def test_tokens_that_stop_before_their_end(broker: Secured) -> None:
    """Many connections send such tokens concurrently, and are closed when they make no progress."""
    size_bytes = MOST_BYTES_BEFORE_LOGIN - 100

    def attack() -> None:
        begun = [begun_login(broker, size_bytes) for _ in range(TOKENS)]
        for connection, message in begun:
            connection.send(message)
        for connection, _ in begun:
            assert connection.answer() is None, "half a token got a response"
            connection.close()

    broker.siege(f"T {TOKENS:,} × half a token", attack, deadline_s=150)


def test_certificates_that_do_not_count(broker: Secured) -> None:
    """The log names each reason once."""
    files, position = broker.files, broker.siege.victim.log_size()
    refused = {
        "certificate has expired": files.expired,
        "self-signed certificate in certificate chain": files.of_another,
        "peer did not return a certificate": None,
    }

    def attack() -> None:
        for reason, certificate in refused.items():
            context = broker.context(certificate)
            for _ in range(REFUSED):
                assert not broker.is_let_in("SSL", context), f"accepted, although {reason}"
        assert broker.is_let_in("SSL", broker.context(files.good)), "a good certificate was refused"
        told = broker.lines(position, "TLS has failed")
        assert len(told) == len(refused), told
        for reason in refused:
            assert any(reason in line for line in told), (reason, told)

    broker.siege("T certificates that do not count", attack, deadline_s=60)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_older_versions_and_weak_ciphers(broker: Secured) -> None:
    def old() -> ssl.SSLContext:
        context = broker.context()
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        return context

    def weak() -> ssl.SSLContext:
        context = broker.context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("aNULL:eNULL:RC4:3DES:@SECLEVEL=0")
        return context

    def fall_back() -> None:
        """A client that signals that it tried a newer version before (RFC 7507)."""
        context = SSL.Context(SSL.TLS_METHOD)
        context.set_max_proto_version(SSL.TLS1_2_VERSION)
        context.set_mode(SEND_FALLBACK_SCSV)
        with broker.socket("SASL_SSL") as plain:
            plain.settimeout(None)
            made = SSL.Connection(context, plain)
            made.set_connect_state()
            with pytest.raises(SSL.Error, match="fallback"):
                made.do_handshake()

    position = broker.siege.victim.log_size()

    def attack() -> None:
        for context in (old(), weak()):
            for _ in range(REFUSED):
                assert not broker.is_let_in("SASL_SSL", context), "an old version or a weak cipher was accepted"
        for _ in range(REFUSED):
            fall_back()
        assert len(broker.lines(position, "TLS has failed")) == 3

    broker.siege("T downgrades", attack, deadline_s=60)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "the peer speaks HTTP"),
        (payloads.frame(ApiKey.API_VERSIONS, 0, b""), "the peer does not speak TLS"),
    ],
    ids=["HTTP", "Kafka"],
)
def test_another_protocol_on_the_port_of_tls(broker: Secured, said: bytes, reason: str) -> None:
    position = broker.siege.victim.log_size()

    def attack() -> None:
        for _ in range(REFUSED):
            with broker.socket("SASL_SSL") as made:
                made.sendall(said)
                until_closed([made], time.monotonic() + 10)
        told = broker.lines(position, "TLS has failed")
        assert len(told) == 1 and reason in told[0], told

    broker.siege(f"T {reason.split()[-1]}: no TLS on its port", attack)


def test_tls_on_the_port_of_logins(broker: Secured) -> None:
    hello = client_hello()

    def attack() -> None:
        for _ in range(REFUSED):
            with broker.socket("SASL_PLAINTEXT") as made:
                made.sendall(hello)
                until_closed([made], time.monotonic() + 10)
        told = broker.siege.victim.logged("closed")
        assert len(told) == 1 and "looks like TLS" in told[0], told

    broker.siege("T TLS on the port of logins", attack)
