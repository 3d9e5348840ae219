"""A secured broker under attack, and hostile OpenSSL clients."""

import contextlib
import datetime
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kafka_zk.embedded.ports import free_ports
from kafka_zk.testing.certificates import CertificateAuthority
from tests.attack.connection import Connection
from tests.attack.siege import Siege

PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="pw-a";'
_TIMEOUT_S = 30.0
_EXPIRED = datetime.timedelta(minutes=-5)


@dataclass(frozen=True)
class Certificates:
    """PEM files. ``good`` is the certificate of a client that the broker trusts."""

    authority: Path
    good: Path
    expired: Path
    of_another: Path


@dataclass(frozen=True)
class Secured:
    """A siege of a broker with a listener for each protocol; SSL asks for certificates."""

    siege: Siege
    ports: dict[str, int]
    files: Certificates

    def connect(self, protocol: str) -> Connection:
        """A connection that is accounted for, to a listener without TLS."""
        connection = Connection(self.ports[protocol])
        self.siege.victim.connections.append(connection)
        return connection

    @contextlib.contextmanager
    def socket(self, protocol: str) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.ports[protocol]), _TIMEOUT_S) as made:
            yield made

    def context(self, certificate: Path | None = None) -> ssl.SSLContext:
        """The TLS context of a client that trusts the broker."""
        context = ssl.create_default_context(cafile=str(self.files.authority))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context

    def is_let_in(self, protocol: str, context: ssl.SSLContext) -> bool:
        """Whether the broker keeps the connection after the handshake."""
        try:
            with self.socket(protocol) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as made:
                made.settimeout(0.3)  # with TLS 1.3, a certificate is refused after the client's handshake
                return made.recv(1) != b""
        except TimeoutError:
            return True
        except OSError:
            return False

    def lines(self, position: int, word: str) -> list[str]:
        """The lines of the broker's log since ``position`` that contain this word."""
        return [line for line in self.siege.victim.log(position).splitlines() if word in line]


def secured(make_siege: Callable[..., Siege], folder: Path, more: Mapping[str, str] | None = None) -> Secured:
    """The siege of a new broker; ``more``: further properties."""
    authority, other = CertificateAuthority("the broker's"), CertificateAuthority("another")
    files = Certificates(
        authority.write_truststore(folder / "authority.pem"),
        authority.write_keystore(folder / "good.pem", "good"),
        authority.write_keystore(folder / "expired.pem", "expired", lifetime=_EXPIRED),
        other.write_keystore(folder / "other.pem", "other"),
    )
    keystore = authority.write_keystore(folder / "broker.pem", "broker", ["127.0.0.1"])
    ports = dict(zip(PROTOCOLS, free_ports(len(PROTOCOLS)), strict=True))
    properties = {
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore),
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(files.authority),
        "listener.name.ssl.ssl.client.auth": "required", "sasl.enabled.mechanisms": "PLAIN",
        **{f"listener.name.{name}.plain.sasl.jaas.config": _PLAIN for name in ("sasl_plaintext", "sasl_ssl")},
        **(more or {}),
    }  # fmt: skip
    return Secured(make_siege(properties=properties, secured_ports=ports), ports, files)


def client_hello() -> bytes:
    """The first bytes that a TLS client sends."""
    context = ssl.create_default_context()
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(received, sent, server_hostname="localhost").do_handshake()
    return sent.read()
