"""The identity of a client at a listener with TLS."""

import pytest

from kafka_zk.broker.process.listeners import _principals
from kafka_zk.broker.security.login_stats import LoginStats
from kafka_zk.security.listener_security import ListenerSecurity, ListenerTls
from kafka_zk.security.principal_mapping import PrincipalMapper
from kafka_zk.security.tls_settings import TlsSettings


def test_a_certificate_that_cannot_be_read_is_nobodys() -> None:
    """The ValueError refuses the connection."""
    security = ListenerSecurity("SSL", ListenerTls(TlsSettings(None, None), "required", PrincipalMapper("DEFAULT")))
    logins = LoginStats(lambda: 0.0)
    principal_of = _principals(security, logins)
    assert principal_of is not None
    assert principal_of(None) == "User:ANONYMOUS"
    with pytest.raises(ValueError):
        principal_of(b"\x30\x00")
    assert (logins.successful, logins.failed) == (1, 1)
