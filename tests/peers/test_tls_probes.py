"""Which clients a TLS port accepts, case by case, at Apache Kafka 3.9.1 and at our broker in one cluster with it."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Mapping

import pytest

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import request_header
from tests.peers.sasl_pair import KAFKA, OURS, SaslPair, sasl_pair

pytestmark = pytest.mark.peers

_TIMEOUT_S = 20.0
_REQUEST = request_header(ApiKey.API_VERSIONS, 0, 7, "probe")
_FRAME = struct.pack(">i", len(_REQUEST)) + _REQUEST


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslPair]:
    with sasl_pair(tmp_path_factory.mktemp("pair")) as running:
        yield running


def context(pair: SaslPair, certificate: str | None = "client") -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(pair.folder / "authority.pem"))
    if certificate is not None:
        made.load_cert_chain(pair.folder / f"{certificate}.pem")
    return made


def bounded(pair: SaslPair, lowest: ssl.TLSVersion, highest: ssl.TLSVersion, ciphers: str = "") -> ssl.SSLContext:
    made = context(pair)
    made.minimum_version, made.maximum_version = lowest, highest
    if ciphers:
        made.set_ciphers(ciphers)
    return made


V1, V1_1, V1_2, V1_3 = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
ROWS: Mapping[str, Callable[[SaslPair], ssl.SSLContext]] = {
    "a good certificate": context,
    "no certificate": lambda pair: context(pair, None),
    "a certificate of another authority": lambda pair: context(pair, "other"),
    "an expired certificate": lambda pair: context(pair, "expired"),
    "TLS 1.3 only": lambda pair: bounded(pair, V1_3, V1_3),
    "TLS 1.2 only": lambda pair: bounded(pair, V1_2, V1_2),
    "TLS 1.1 at most": lambda pair: bounded(pair, V1, V1_1, "ALL:@SECLEVEL=0"),
    "no authentication of the broker": lambda pair: bounded(pair, V1_2, V1_2, "aNULL:@SECLEVEL=0"),
    "no encryption": lambda pair: bounded(pair, V1_2, V1_2, "eNULL:@SECLEVEL=0"),
}


def answer(pair: SaslPair, broker: int, made: ssl.SSLContext) -> str:
    """Whether a request gets a response, and over which TLS version. With TLS 1.3, the broker may refuse after the
    client's handshake.
    """
    try:
        with (
            socket.create_connection(("127.0.0.1", pair.ports[broker]["TLS"]), _TIMEOUT_S) as plain,
            made.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            connection.sendall(_FRAME)
            return f"answered over {connection.version()}" if connection.recv(4) else "refused"
    except OSError as error:
        assert not isinstance(error, TimeoutError), "the broker did not close the connection"
        return "refused"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
@pytest.mark.parametrize("name", ROWS)
def test_a_client_of_tls_is_let_in_or_refused_as_at_apache_kafka(pair: SaslPair, name: str) -> None:
    seen = {broker: answer(pair, broker, ROWS[name](pair)) for broker in (KAFKA, OURS)}
    assert seen[OURS] == seen[KAFKA]
    assert ("answered" in seen[OURS]) == (name in ("a good certificate", "TLS 1.3 only", "TLS 1.2 only"))


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", _FRAME, b"\x16\x03\x01\x00\x05junk!", bytes(64)],
    ids=["HTTP", "Kafka in plain text", "junk in a record", "zeros"],
)  # fmt: skip
def test_what_is_no_tls_ends_the_connection_as_at_apache_kafka(pair: SaslPair, said: bytes) -> None:
    """There is no response, except a TLS alert (a record of type 21), which both brokers may send."""
    seen = {}
    for broker in (KAFKA, OURS):
        with socket.create_connection(("127.0.0.1", pair.ports[broker]["TLS"]), _TIMEOUT_S) as connection:
            connection.sendall(said)
            received = b""
            try:
                while part := connection.recv(4096):
                    received += part
            except ConnectionError:
                pass
            seen[broker] = received[:1] in (b"", b"\x15")
    assert seen == {KAFKA: True, OURS: True}
