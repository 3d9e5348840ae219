"""The broker's side of a login with Kerberos, without the library: tests/peers/secured/test_kerberos.py has a KDC."""

from types import SimpleNamespace

import pytest

from kafka_zk.security import kerberos
from kafka_zk.security.client_security import KerberosLogin
from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.kerberos import GssapiServer, gssapi_client


class GSSError(Exception):
    pass


class RefusingContext:
    """Has an error token for the client, like the library's if the client wants to authenticate the broker, too."""

    __DEFER_STEP_ERRORS__ = True
    complete = False

    def __init__(self, **_: object) -> None:
        pass

    def step(self, token: bytes) -> bytes:
        if self.__DEFER_STEP_ERRORS__:
            return b"error token"
        raise GSSError(f"{token!r} is for another key")


def test_a_ticket_that_is_refused_fails_the_login_at_once() -> None:
    """With the error token as a challenge, the client would close the connection and the broker would log nothing."""
    gssapi = SimpleNamespace(SecurityContext=RefusingContext, exceptions=SimpleNamespace(GSSError=GSSError))
    with pytest.raises(SaslAuthenticationFailed) as refused:
        GssapiServer(gssapi, None).answer(b"ticket")
    assert refused.value.reason == "GSSAPI: b'ticket' is for another key"


def test_logins_use_the_ticket_caches_of_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache for each login would be kept by the library until the process ends. Two at a time never share one."""
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
