"""The broker's side of a login with Kerberos, without the library: tests/peers/secured/test_kerberos.py has a KDC."""

from types import SimpleNamespace

import pytest

from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.kerberos import GssapiServer


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
