"""As whom the page changes a cluster: what brokers and ZooKeeper derive from the same settings."""

from pathlib import Path

import pytest

from kafka_zk.cli.page.principals import principal_at_brokers, principal_in_zookeeper
from kafka_zk.registry.client.security import Credentials, Security, Tls
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity, KerberosLogin, SaslSettings
from kafka_zk.security.password import Password
from kafka_zk.security.tls_settings import TlsSettings


@pytest.mark.parametrize(
    ("security", "principal"),
    [
        (NO_SECURITY, "User:ANONYMOUS"),
        (ClientSecurity("SSL", TlsSettings()), "User:ANONYMOUS"),
        (ClientSecurity("SASL_SSL", TlsSettings(), SaslSettings("PLAIN", "anna", Password("x"))), "User:anna"),
        (ClientSecurity("SASL_SSL", TlsSettings(), SaslSettings("SCRAM-SHA-256", "id", Password("x"), is_token=True)),
         "the owner of delegation token id"),
        (ClientSecurity("SASL_SSL", TlsSettings(), SaslSettings("OAUTHBEARER", tokens=object())),
         "the principal of its OAUTHBEARER token"),
        (ClientSecurity("SASL_SSL", TlsSettings(), SaslSettings("GSSAPI", kerberos=KerberosLogin("kafka", "anna@R"))),
         "the Kerberos principal anna@R"),
        (ClientSecurity("SASL_SSL", TlsSettings(), SaslSettings("GSSAPI", kerberos=KerberosLogin("kafka"))),
         "its Kerberos ticket"),
    ],
)  # fmt: skip
def test_brokers_derive_the_principal_from_the_login(security: ClientSecurity, principal: str) -> None:
    assert principal_at_brokers(security) == principal
    assert "x" not in principal_at_brokers(security).replace("principal", "")


def test_zookeeper_knows_every_identity_of_a_session() -> None:
    assert principal_in_zookeeper(Security()) == "world:anyone"
    proven = Security(Tls(keystore=Path("k.pem")), Credentials("anna", "secret"), Credentials("ops", "secret"))
    assert principal_in_zookeeper(proven) == "sasl:anna and digest:ops and its certificate"
