"""Logins on a connection: responses, delays, and what ends the connection."""

import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.base.threads import ReactorThreads
from kafka_zk.broker.security.login_stats import LoginStats
from kafka_zk.broker.security.sasl_handshake import MOST_BYTES_ANSWERED, SaslHandshake, SaslHandshakes
from kafka_zk.network.connection_settings import MOST_BYTES_BEFORE_LOGIN
from kafka_zk.network.connection_states import Phase
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import request_header, response_body_position
from kafka_zk.security import scram
from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.listener_sasl import ListenerSasl
from kafka_zk.security.password import Password
from kafka_zk.security.sasl_server import SaslListener, SaslServer
from kafka_zk.security.scram import TokenCredential
from kafka_zk.security.token_validation import TokenValidator, ValidToken
from tests.kafka_zk.network.harness import LocalReactor, is_closed, receive_all
from tests.kafka_zk.network.server import Server, frame

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
DELAY_S = 0.05
MakeServer = Callable[..., Server]


class HandClock:
    """Timers of the reactor, and a time of day that the test sets."""

    def __init__(self, reactor: LocalReactor) -> None:
        self.callLater = reactor.callLater
        self.now_s = 1000.0

    def seconds(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)

    def wall_ns(self) -> int:
        return int(self.now_s * 1e9)


def frame_of(api_key: ApiKey, version: int, **fields: Any) -> bytes:
    body = codec.encode_body(codec.request(api_key)(**fields), api_key, version)
    return frame(request_header(api_key, version, 7, "tester") + bytes(body))


class Login:
    """A client at a listener with PLAIN and SCRAM-SHA-256. ``session_ms``: the lifetime of its sessions, 0 for
    unlimited.
    """

    def __init__(self, reactor: LocalReactor, make_server: MakeServer, session_ms: int = 0, **options: Any) -> None:
        self.reactor = reactor
        self.clock = HandClock(reactor)
        self.stats = LoginStats(self.clock.seconds)
        users = {"bob": Password("pw"), "eve": Password("pw")}
        mechanisms = ("PLAIN", "SCRAM-SHA-256", *(("OAUTHBEARER",) if "tokens" in options else ()))
        sasl = ListenerSasl(mechanisms, users, {"PLAIN": session_ms}, **options)

        async def dispatch(context: Any, header: Any, body: Any) -> list[Any]:
            error = b"\0\x2a" if header.client_id is None else b"\0\0"
            return [struct.pack(">i", header.correlation_id), error + b"versions"]

        listener = SaslListener(sasl, Users(), lambda: "nonce", self.clock.wall_ms)
        handshakes = SaslHandshakes(self.clock, dispatch, DELAY_S, self.stats, ReactorThreads(reactor))
        self.server = make_server(
            handshake=lambda: SaslHandshake(SaslServer(listener), handshakes)
        )
        self.peer: socket.socket = self.server.connect()

    def send(self, api_key: ApiKey, version: int, **fields: Any) -> None:
        self.peer.sendall(frame_of(api_key, version, **fields))

    def frame(self) -> bytes:
        """The next response, which must be the only one."""
        received = receive_all(self.reactor, self.peer, 4)
        (size_bytes,) = struct.unpack_from(">i", received)
        assert len(received) == 4 + size_bytes
        return received[4:]

    def ask(self, api_key: ApiKey, version: int, **fields: Any) -> Any:
        self.send(api_key, version, **fields)
        data = self.frame()
        body = memoryview(data)[response_body_position(memoryview(data), api_key, version) :]
        return codec.decode_response(api_key, version, body)

    def log_in(self, user: str = "bob", mechanism: str = "PLAIN", version: int = 2) -> Any:
        assert self.ask(HANDSHAKE, 1, mechanism=mechanism).error_code == 0
        return self.ask(AUTHENTICATE, version, auth_bytes=f"\0{user}\0pw".encode())

    def until_session_ends(self) -> None:
        (connection,) = self.server.listener.connections
        self.reactor.until(lambda: connection._phase is Phase.HANDSHAKING)

    def is_closed(self) -> None:
        self.reactor.until(lambda: is_closed(self.peer))


class Users:
    """alice with a password, and with a token ``token`` of hers."""

    def find(self, mechanism: str, user: str) -> scram.ScramCredential:
        password = "right" if user == "alice" else "no password fits"
        return scram.credential(mechanism, scram.salted_password(mechanism, password, b"salt", 4096), b"salt", 4096)

    def find_token(self, mechanism: str, token_id: str) -> TokenCredential:
        return TokenCredential(self.find(mechanism, "alice" if token_id == "token" else ""), "alice", 1_060_000)


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


def test_a_session_by_a_token_ends_with_it_and_is_marked(login: Login) -> None:
    """The test's clock stands at 1,000 s."""
    login.ask(HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
    client = scram.scram_client("SCRAM-SHA-256", "token", "right", "abc", is_token=True)
    first = login.ask(AUTHENTICATE, 2, auth_bytes=next(client))
    last = login.ask(AUTHENTICATE, 2, auth_bytes=client.send(bytes(first.auth_bytes)))
    assert last.session_lifetime_ms == 60_000
    login.send(ApiKey.LIST_GROUPS, 0)
    login.frame()
    assert [(each.principal, each.token_authenticated) for each in login.server.contexts] == [("User:alice", True)]


def test_a_token_that_ends_during_the_login_lets_nobody_in(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client with such a token could otherwise keep an unfinished login open until it expires."""
    login.ask(HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
    client = scram.scram_client("SCRAM-SHA-256", "token", "right", "abc", is_token=True)
    first = login.ask(AUTHENTICATE, 2, auth_bytes=next(client))
    none = TokenCredential(scram.invented_credential("SCRAM-SHA-256", "token", b"secret"))
    monkeypatch.setattr(Users, "find_token", lambda *asked: none)
    last = login.ask(AUTHENTICATE, 2, auth_bytes=client.send(bytes(first.auth_bytes)))
    assert last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_session_that_is_over_at_once_answers_nothing(reactor: LocalReactor, make_server: MakeServer) -> None:
    """The session's token has expired within the allowed clock skew. The request arrives in the same read."""

    class Tokens(TokenValidator):
        def validate(self, token: str, now_ms: int) -> ValidToken:
            return ValidToken("alice", now_ms - 1)

    login = Login(reactor, make_server, tokens=Tokens())
    assert login.ask(HANDSHAKE, 1, mechanism="OAUTHBEARER").error_code == 0
    message = frame_of(AUTHENTICATE, 2, auth_bytes=b"n,,\x01auth=Bearer t\x01\x01")
    login.peer.sendall(message + frame_of(ApiKey.LIST_GROUPS, 0))
    login.is_closed()
    assert login.server.contexts == [] and login.stats.expired == 1


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
    """The messages follow SaslHandshake version 0."""
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


def test_api_versions_may_be_asked_again_after_an_error(login: Login) -> None:
    for _ in range(2):
        login.peer.sendall(frame(request_header(ApiKey.API_VERSIONS, 0, 7, None)))
        assert login.frame().endswith(b"\x2aversions")
    assert login.log_in().error_code == 0


@pytest.mark.parametrize("api_key", [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.SASL_AUTHENTICATE])
def test_no_other_request_is_handled_before_the_login(login: Login, api_key: ApiKey) -> None:
    login.peer.sendall(frame(request_header(api_key, 0, 7, "tester") + b"\0\0\0\0"))
    login.is_closed()
    assert login.server.contexts == []


@pytest.mark.parametrize("api_key", [ApiKey.LIST_GROUPS, ApiKey.API_VERSIONS, HANDSHAKE])
def test_another_request_ends_the_login_once_a_mechanism_is_agreed(login: Login, api_key: ApiKey) -> None:
    """The response has ILLEGAL_SASL_STATE, and is delayed like that to a wrong password."""
    login.ask(HANDSHAKE, 1, mechanism="PLAIN")
    before_s = login.reactor.seconds()
    fields = {"mechanism": "PLAIN"} if api_key == HANDSHAKE else {}
    assert login.ask(api_key, 0, **fields).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert login.reactor.seconds() - before_s >= DELAY_S
    login.is_closed()
    assert login.server.contexts == [] and login.stats.failed == 1


def test_a_large_request_that_interrupts_a_login_is_not_parsed(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unauthenticated client can send it, and all other connections would wait 34 ms for 8 KB of topics."""
    login.ask(HANDSHAKE, 1, mechanism="PLAIN")
    monkeypatch.setattr(codec, "decode_request", lambda *_: pytest.fail("parsed"))
    topics = (MOST_BYTES_ANSWERED // 2).to_bytes(4, "big") + bytes(MOST_BYTES_ANSWERED)
    login.peer.sendall(frame(request_header(ApiKey.METADATA, 0, 7, "tester") + topics))
    login.is_closed()
    assert login.server.contexts == [] and login.stats.failed == 1


UNKNOWN_VERSIONS = frame(request_header(ApiKey.API_VERSIONS, 99, 7, "tester"))


def test_an_unknown_version_of_api_versions_does_not_change_the_login(login: Login) -> None:
    for _ in range(2):
        login.peer.sendall(UNKNOWN_VERSIONS)
        assert login.frame()[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
    assert login.log_in().error_code == 0
    login.peer.sendall(UNKNOWN_VERSIONS)
    assert login.frame()[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def test_an_unknown_version_of_api_versions_does_not_come_second(login: Login) -> None:
    login.send(ApiKey.API_VERSIONS, 0)
    login.frame()
    login.peer.sendall(UNKNOWN_VERSIONS)
    login.is_closed()


def test_an_unknown_version_of_api_versions_ends_the_login_once_a_mechanism_is_agreed(login: Login) -> None:
    """The response has version 0 and lists no APIs."""
    login.ask(HANDSHAKE, 1, mechanism="PLAIN")
    login.peer.sendall(UNKNOWN_VERSIONS)
    assert login.frame() == struct.pack(">ihi", 7, ErrorCode.ILLEGAL_SASL_STATE, 0)
    login.is_closed()
    assert login.stats.failed == 1


def test_an_unknown_version_of_api_versions_is_not_answered_after_the_end_of_a_session(
    reactor: LocalReactor, make_server: MakeServer
) -> None:
    login = Login(reactor, make_server, session_ms=20)
    login.log_in()
    login.until_session_ends()
    login.peer.sendall(UNKNOWN_VERSIONS)
    login.is_closed()
    assert login.stats.expired == 1


def test_the_password_no_longer_counts_after_another_request(login: Login) -> None:
    """Both requests arrive in one read; the second must not be read while the response to the first is delayed."""
    login.ask(HANDSHAKE, 1, mechanism="PLAIN")
    login.peer.sendall(frame_of(ApiKey.LIST_GROUPS, 0) + frame_of(AUTHENTICATE, 2, auth_bytes=b"\0bob\0pw"))
    login.frame()
    login.is_closed()
    assert login.stats.successful == 0


def test_a_request_that_interrupts_a_login_must_be_complete(login: Login) -> None:
    login.ask(HANDSHAKE, 1, mechanism="PLAIN")
    login.peer.sendall(frame(request_header(ApiKey.METADATA, 1, 7, "tester") + b"\0\0"))
    login.is_closed()


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
    """An unauthenticated client can send it, and all other connections wait during that time."""

    def cpu_s() -> float:
        before_s = time.thread_time()
        with pytest.raises(SaslAuthenticationFailed):
            scram.client_first(message)
        return time.thread_time() - before_s

    assert min(cpu_s() for _ in range(5)) < 0.02


# --- sessions that end, and clients that log in again (KIP-368) ---


@pytest.fixture
def session(reactor: LocalReactor, make_server: MakeServer) -> Login:
    return Login(reactor, make_server, session_ms=3_600_000)


def test_a_client_is_told_how_long_its_session_lasts_and_logs_in_again(session: Login) -> None:
    assert session.log_in().session_lifetime_ms == 3_600_000
    session.clock.now_s += 2
    for _ in range(2):
        assert session.log_in().session_lifetime_ms == 3_600_000
        session.send(ApiKey.LIST_GROUPS, 0)
        session.frame()
        session.clock.now_s += 1
    assert [context.principal for context in session.server.contexts] == ["User:bob"] * 2
    assert (session.stats.successful, session.stats.reauthentications) == (1, 2)


@pytest.mark.parametrize("version", [0, 2])
def test_after_the_end_of_a_session_any_request_ends_the_connection(
    reactor: LocalReactor, make_server: MakeServer, version: int
) -> None:
    """Clients that cannot reauthenticate are disconnected, too (KAFKA-9241)."""
    login = Login(reactor, make_server, session_ms=20)
    login.log_in(version=version)
    login.until_session_ends()
    login.send(ApiKey.LIST_GROUPS, 0)
    login.is_closed()
    assert login.server.contexts == []
    assert (login.stats.expired, login.stats.without_reauthentication) == (1, version == 0)


def test_a_client_may_log_in_after_the_end_of_its_session(reactor: LocalReactor, make_server: MakeServer) -> None:
    login = Login(reactor, make_server, session_ms=20)
    login.log_in()
    login.until_session_ends()
    assert login.log_in().error_code == 0


def test_logging_in_again_is_possible_once_a_second(session: Login) -> None:
    """A handshake that comes too early counts as any other request: the response is ILLEGAL_SASL_STATE."""
    session.log_in()
    session.log_in()
    session.clock.now_s += 0.9
    session.send(HANDSHAKE, 1, mechanism="PLAIN")
    session.frame()
    assert [context.principal for context in session.server.contexts] == ["User:bob"]


@pytest.mark.parametrize("version", [0, 1])
def test_messages_of_a_later_login_are_no_longer_than_those_of_the_first(session: Login, version: int) -> None:
    """All connections wait while a message is read, and requests after the first login may have megabytes."""
    session.log_in()
    assert session.ask(HANDSHAKE, version, mechanism="PLAIN").error_code == 0
    message = b"\0bob\0" + b"x" * MOST_BYTES_BEFORE_LOGIN
    if version:
        session.send(AUTHENTICATE, 2, auth_bytes=message)
    else:
        session.peer.sendall(frame(message))
    session.is_closed()
    assert session.stats.failed_reauthentications == 0


def test_a_session_without_an_end_cannot_be_renewed(login: Login) -> None:
    login.log_in()
    login.send(HANDSHAKE, 1, mechanism="PLAIN")
    login.frame()
    assert len(login.server.contexts) == 1


def test_another_user_cannot_take_over_a_connection(session: Login) -> None:
    session.log_in()
    answer = session.log_in("eve")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.bob: User.eve"
    session.is_closed()
    assert (session.stats.failed, session.stats.failed_reauthentications) == (0, 1)


def test_another_mechanism_ends_the_connection_at_the_next_request(session: Login) -> None:
    session.log_in()
    assert session.ask(HANDSHAKE, 1, mechanism="SCRAM-SHA-256").error_code == 0
    session.send(AUTHENTICATE, 2, auth_bytes=b"n,,n=alice,r=abc")
    session.is_closed()
    assert session.stats.failed_reauthentications == 1


def test_nothing_but_the_login_is_handled_while_a_client_logs_in_again(session: Login) -> None:
    session.log_in()
    session.ask(HANDSHAKE, 1, mechanism="PLAIN")
    assert session.ask(ApiKey.LIST_GROUPS, 0).error_code == ErrorCode.ILLEGAL_SASL_STATE
    session.is_closed()
    assert session.server.contexts == []
    assert session.stats.failed_reauthentications == 1


def test_no_timer_is_left_of_a_connection_that_is_gone(session: Login) -> None:
    session.log_in()
    far_s = session.reactor.seconds() + 3_000
    timers: list[Any] = [call for call in session.reactor.getDelayedCalls() if call.getTime() > far_s]  # type: ignore[misc]
    assert len(timers) == 1
    session.peer.close()
    session.reactor.until(lambda: not session.server.listener.connections)
    assert not timers[0].active()


def test_a_class_of_the_user_is_asked_in_a_thread(reactor: LocalReactor, make_server: MakeServer) -> None:
    """The check may wait for other systems; the reactor continues in the meantime."""
    asked: list[threading.Thread] = []

    def check(user: str, password: str) -> bool:
        asked.append(threading.current_thread())
        return password == "pw"

    login = Login(reactor, make_server, check_password=check, blocking=frozenset({"PLAIN"}))
    reactor.getThreadPool().start()
    try:
        assert login.log_in("another").error_code == 0
        assert asked[0] is not threading.current_thread()
    finally:
        reactor.getThreadPool().stop()
