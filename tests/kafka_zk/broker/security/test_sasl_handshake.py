"""Logins on a connection: what is answered, what is held back, and what ends the connection."""

import socket
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kafka_zk.broker.security.sasl_handshake import SaslHandshake
from kafka_zk.network.connection_settings import MOST_BYTES_BEFORE_LOGIN
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import request_header, response_body_position
from kafka_zk.security import scram
from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.listener_security import ListenerSasl
from kafka_zk.security.password import Password
from kafka_zk.security.sasl_server import SaslServer
from tests.kafka_zk.network.harness import LocalReactor, is_closed, receive_all
from tests.kafka_zk.network.server import Server, frame

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
DELAY_S = 0.05
MakeServer = Callable[..., Server]


class Login:
    """A client at a listener with PLAIN and SCRAM-SHA-256."""

    def __init__(self, reactor: LocalReactor, make_server: MakeServer) -> None:
        self.reactor = reactor
        sasl = ListenerSasl(("PLAIN", "SCRAM-SHA-256"), {"bob": Password("pw")})
        find = partial(_credential)

        async def dispatch(context: Any, header: Any, body: Any) -> list[Any]:
            return [struct.pack(">i", header.correlation_id) + b"versions"]

        self.server = make_server(
            handshake=lambda: SaslHandshake(SaslServer(sasl, find, lambda: "nonce"), reactor, dispatch, DELAY_S)
        )
        self.peer: socket.socket = self.server.connect()

    def send(self, api_key: ApiKey, version: int, **fields: Any) -> None:
        body = codec.encode_body(codec.request(api_key)(**fields), api_key, version)
        self.peer.sendall(frame(request_header(api_key, version, 7, "tester") + bytes(body)))

    def frame(self) -> bytes:
        """The next answer, which is all that has been sent."""
        received = receive_all(self.reactor, self.peer, 4)
        (size_bytes,) = struct.unpack_from(">i", received)
        assert len(received) == 4 + size_bytes
        return received[4:]

    def ask(self, api_key: ApiKey, version: int, **fields: Any) -> Any:
        self.send(api_key, version, **fields)
        data = self.frame()
        body = memoryview(data)[response_body_position(memoryview(data), api_key, version) :]
        return codec.decode_response(api_key, version, body)

    def is_closed(self) -> None:
        self.reactor.until(lambda: is_closed(self.peer))


def _credential(mechanism: str, user: str) -> scram.ScramCredential:
    password = "right" if user == "alice" else "no password fits"
    return scram.credential(mechanism, scram.salted_password(mechanism, password, b"salt", 4096), b"salt", 4096)


@pytest.fixture
def login(reactor: LocalReactor, make_server: MakeServer) -> Login:
    return Login(reactor, make_server)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_plain_opens_the_connection_for_its_user(login: Login, version: int) -> None:
    agreed = login.ask(HANDSHAKE, 1, mechanism="PLAIN")
    assert (agreed.error_code, list(agreed.mechanisms)) == (0, ["PLAIN", "SCRAM-SHA-256"])
    answer = login.ask(AUTHENTICATE, version, auth_bytes=b"\0bob\0pw")
    assert (answer.error_code, answer.error_message, bytes(answer.auth_bytes)) == (0, "", b"")
    login.send(ApiKey.LIST_GROUPS, 0)
    login.frame()
    assert [context.principal for context in login.server.contexts] == ["User:bob"]


def test_scram_takes_two_messages(login: Login) -> None:
    login.ask(HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
    client = scram.scram_client("SCRAM-SHA-256", "alice", "right", "abc")
    first = login.ask(AUTHENTICATE, 2, auth_bytes=next(client))
    last = login.ask(AUTHENTICATE, 2, auth_bytes=client.send(bytes(first.auth_bytes)))
    with pytest.raises(StopIteration):
        client.send(bytes(last.auth_bytes))


def test_a_wrong_password_is_refused_late_and_the_connection_ends(login: Login) -> None:
    login.ask(HANDSHAKE, 1, mechanism="PLAIN")
    before_s = login.reactor.seconds()
    answer = login.ask(AUTHENTICATE, 2, auth_bytes=b"\0bob\0wrong")
    assert login.reactor.seconds() - before_s >= DELAY_S
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    login.is_closed()
    assert login.server.contexts == []


def test_a_mechanism_that_is_not_enabled(login: Login) -> None:
    answer = login.ask(HANDSHAKE, 1, mechanism="GSSAPI")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert list(answer.mechanisms) == ["PLAIN", "SCRAM-SHA-256"]
    login.is_closed()


def test_clients_of_kafka_0_10_send_bare_messages(login: Login) -> None:
    """After SaslHandshake version 0."""
    login.ask(HANDSHAKE, 0, mechanism="PLAIN")
    login.peer.sendall(frame(b"\0bob\0pw"))
    assert login.frame() == b""
    login.send(ApiKey.LIST_GROUPS, 0)
    login.frame()
    assert [context.principal for context in login.server.contexts] == ["User:bob"]


def test_a_bare_message_that_is_wrong_gets_no_answer(login: Login) -> None:
    login.ask(HANDSHAKE, 0, mechanism="PLAIN")
    login.peer.sendall(frame(b"\0bob\0wrong"))
    login.is_closed()


def test_api_versions_may_come_first_and_once(login: Login) -> None:
    login.send(ApiKey.API_VERSIONS, 0)
    assert login.frame().endswith(b"versions")
    login.send(ApiKey.API_VERSIONS, 0)
    login.is_closed()


@pytest.mark.parametrize("api_key", [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.SASL_AUTHENTICATE])
def test_no_other_request_is_handled_before_the_login(login: Login, api_key: ApiKey) -> None:
    login.peer.sendall(frame(request_header(api_key, 0, 7, "tester") + b"\0\0\0\0"))
    login.is_closed()
    assert login.server.contexts == []


def test_a_large_frame_before_the_login_is_refused_before_it_is_read(login: Login) -> None:
    assert MOST_BYTES_BEFORE_LOGIN == 16_384
    login.peer.sendall(struct.pack(">i", MOST_BYTES_BEFORE_LOGIN + 1))
    login.is_closed()


@pytest.mark.parametrize(
    "message",
    [b"n,,n=" + b"a" * MOST_BYTES_BEFORE_LOGIN, b"n,,n=" + b"=2C" * (MOST_BYTES_BEFORE_LOGIN // 3),
     b"n,,n=a,r=x" + b",a=b" * (MOST_BYTES_BEFORE_LOGIN // 4) + b",", b"n,a=" + b"a" * MOST_BYTES_BEFORE_LOGIN],
    ids=["name", "escapes", "extensions", "authorization id"],
)  # fmt: skip
def test_the_largest_scram_message_is_read_in_milliseconds(message: bytes) -> None:
    """A stranger can send it, and all other connections wait meanwhile."""

    def cpu_s() -> float:
        before_s = time.thread_time()
        with pytest.raises(SaslAuthenticationFailed):
            scram.client_first(message)
        return time.thread_time() - before_s

    assert min(cpu_s() for _ in range(5)) < 0.02
