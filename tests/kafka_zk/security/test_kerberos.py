"""The broker's side of a login with Kerberos, without the library: tests/peers/secured/test_kerberos.py has a KDC."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from kafka_zk.security import kerberos
from kafka_zk.security.client_security import KerberosLogin
from kafka_zk.security.errors import RefusedForNow, SaslAuthenticationFailed
from kafka_zk.security.kerberos import GssapiServer, TicketUnavailable, gssapi_client
from kafka_zk.security.listener_sasl import KerberosListener, ListenerSasl
from kafka_zk.security.sasl_server import Credentials, SaslListener, SaslServer, SaslState

NO_CRED, CREDENTIALS_EXPIRED, FAILURE = 7, 11, 13  # RFC 2744
EXPIRED = -1765328352
REPLAY, NOT_YET_VALID, WRONG_KEY, UNREACHABLE = -1765328350, 2**32 - 1765328351, -1765328353, -1765328228


class GSSError(Exception):
    def __init__(self, said: str, min_code: int = WRONG_KEY, maj_code: int = FAILURE << 16) -> None:
        super().__init__(said)
        self.min_code = min_code
        self.maj_code = maj_code


class RefusingContext:
    """A context with an error token for the client, as the library has if the client also wants to authenticate the
    broker.
    """

    __DEFER_STEP_ERRORS__ = True
    complete = False

    def __init__(self, **_: object) -> None:
        pass

    def step(self, token: bytes) -> bytes:
        if self.__DEFER_STEP_ERRORS__:
            return b"error token"
        raise GSSError(f"{token!r} is for another key")


def test_a_ticket_that_is_refused_fails_the_login_at_once() -> None:
    """If the error token were a challenge, the client would close the connection and the broker would log nothing."""
    gssapi = SimpleNamespace(SecurityContext=RefusingContext, exceptions=SimpleNamespace(GSSError=GSSError))
    with pytest.raises(SaslAuthenticationFailed) as refused:
        GssapiServer(gssapi, None).answer(b"ticket")
    assert refused.value.reason == "GSSAPI: b'ticket' is for another key"


def refused(min_code: int) -> SaslAuthenticationFailed:
    """The failure of a login whose ticket the library refuses with this code."""

    class Context(RefusingContext):
        def step(self, token: bytes) -> bytes:
            raise GSSError("not now", min_code)

    gssapi = SimpleNamespace(SecurityContext=Context, exceptions=SimpleNamespace(GSSError=GSSError))
    with pytest.raises(SaslAuthenticationFailed) as failed:
        GssapiServer(gssapi, None).answer(b"ticket")
    return failed.value


def test_a_broker_refuses_a_replay_and_a_ticket_of_the_future_only_for_now() -> None:
    """The client's clock may be fast, or two logins may fall into the same microsecond; KerberosError@3.9."""
    assert isinstance(refused(REPLAY), RefusedForNow)
    assert isinstance(refused(NOT_YET_VALID), RefusedForNow)
    assert not isinstance(refused(WRONG_KEY), RefusedForNow)


def test_a_client_that_is_refused_for_now_gets_no_response() -> None:
    """After an error response the client would not retry; after a closed connection it does."""
    listener = cast(KerberosListener, SimpleNamespace(service=SimpleNamespace(login=lambda: Replayed())))

    class Replayed:
        def answer(self, message: bytes) -> bytes:
            raise RefusedForNow("GSSAPI failed", "GSSAPI: a replay")

    sasl = ListenerSasl(("GSSAPI",), {}, kerberos=listener)
    server = SaslServer(SaslListener(sasl, cast(Credentials, None), str, int))
    assert server.handshake("GSSAPI")
    reply = server.authenticate(b"ticket")
    assert (reply.is_told, reply.reason, server.state) == (False, "GSSAPI: a replay", SaslState.FAILED)


@pytest.mark.parametrize(
    ("min_code", "kind"),
    [(REPLAY, TicketUnavailable), (NOT_YET_VALID, TicketUnavailable), (UNREACHABLE, TicketUnavailable),
     (WRONG_KEY, SaslAuthenticationFailed)],
)  # fmt: skip
def test_a_client_tries_again_if_the_ticket_may_come_later(
    monkeypatch: pytest.MonkeyPatch, min_code: int, kind: type[Exception]
) -> None:
    def step(token: bytes = b"") -> bytes:
        raise GSSError("not now", min_code)

    monkeypatch.setattr(kerberos, "gssapi_module", lambda: library(step))
    with pytest.raises(kind, match="not now"):
        gssapi_client(KerberosLogin("kafka", "alice@REALM.COM", ""), "broker")


@pytest.mark.parametrize(
    "error",
    [GSSError("no ticket", 0, NO_CRED << 16), GSSError("no ticket", 0, CREDENTIALS_EXPIRED << 16),
     GSSError("no ticket", EXPIRED)],
)  # fmt: skip
def test_a_client_that_had_a_ticket_waits_for_another(monkeypatch: pytest.MonkeyPatch, error: GSSError) -> None:
    """A client that never had a ticket fails immediately, as a Java client does at its start (KerberosError@3.9)."""
    failing: list[GSSError] = [error]

    def step(token: bytes = b"") -> bytes:
        if failing:
            raise failing[0]
        return b"ticket"

    monkeypatch.setattr(kerberos, "gssapi_module", lambda: library(step))
    monkeypatch.setattr(kerberos, "_had_ticket", set())
    login = KerberosLogin("kafka", cache="/tmp/cache")
    with pytest.raises(SaslAuthenticationFailed, match="no ticket"):
        gssapi_client(login, "broker")
    failing.clear()
    gssapi_client(login, "broker")
    failing.append(error)
    with pytest.raises(TicketUnavailable, match="no ticket"):
        gssapi_client(login, "broker")
    with pytest.raises(SaslAuthenticationFailed):
        gssapi_client(KerberosLogin("kafka", cache="/tmp/another"), "broker")


def library(step: Callable[[], bytes]) -> SimpleNamespace:
    """A fake of the module ``gssapi``. ``step``: returns the client's ticket or raises an error."""
    return SimpleNamespace(
        Name=lambda *_: None,
        NameType=SimpleNamespace(kerberos_principal=None, hostbased_service=None),
        MechType=SimpleNamespace(kerberos=None),
        RequirementFlag=SimpleNamespace(mutual_authentication=None, integrity=None),
        Credentials=lambda **_: None,
        SecurityContext=lambda **_: SimpleNamespace(step=step),
        exceptions=SimpleNamespace(GSSError=GSSError),
    )


def test_logins_use_the_ticket_caches_of_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library would keep a new cache for each login until the process ends. Two concurrent logins never share one.
    """
    caches: list[str] = []
    beside: list[KerberosLogin] = []

    def credentials(*, store: dict[str, str], **_: object) -> None:
        caches.append(store["ccache"])
        if beside:
            gssapi_client(beside.pop(), "broker")

    gssapi = SimpleNamespace(
        Name=lambda *_: None,
        NameType=SimpleNamespace(kerberos_principal=None, hostbased_service=None),
        MechType=SimpleNamespace(kerberos=None),
        RequirementFlag=SimpleNamespace(mutual_authentication=None, integrity=None),
        Credentials=credentials,
        SecurityContext=lambda **_: SimpleNamespace(step=lambda: b"ticket"),
        exceptions=SimpleNamespace(GSSError=GSSError),
    )
    monkeypatch.setattr(kerberos, "gssapi_module", lambda: gssapi)
    login = KerberosLogin("kafka", "alice@REALM.COM", "/alice.keytab")
    beside.append(login)
    for _ in range(3):
        gssapi_client(login, "broker")
    outer, inner, second, third = caches
    assert outer != inner
    assert {second, third} <= {outer, inner}
    gssapi_client(KerberosLogin("kafka", "bob@REALM.COM", "/alice.keytab"), "broker")
    assert caches[-1] not in (outer, inner)
