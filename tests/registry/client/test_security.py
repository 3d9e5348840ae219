"""ACLs by path, and TLS settings that cannot be used."""

import ssl
from pathlib import Path

import pytest

from kafka_zk.registry.client.errors import InvalidSecurity
from kafka_zk.registry.client.security import Acl, Credentials, Security, Tls
from kafka_zk.registry.client.tls import client_context, explain
from kafka_zk.testing.certificates import CertificateAuthority


@pytest.mark.parametrize(
    ("path", "acl"),
    [
        ("/", Acl.CREATOR_AND_READERS),
        ("/brokers/ids/0", Acl.CREATOR_AND_READERS),
        ("/controller", Acl.CREATOR_AND_READERS),
        ("/config/users", Acl.CREATOR),
        ("/config/users/alice", Acl.CREATOR),
        ("/config/usersX", Acl.CREATOR_AND_READERS),
        ("/config/brokers/0", Acl.CREATOR),
        ("/config/topics/t", Acl.CREATOR_AND_READERS),
        ("/delegation_token/tokens/x", Acl.CREATOR),
        ("/delegation_token/token_changes", Acl.CREATOR_AND_READERS),
        ("/kafka-zk/secret", Acl.CREATOR),
        ("/kafka-zk", Acl.CREATOR_AND_READERS),
        ("/consumers", Acl.OPEN),
        ("/consumers/g/offsets/t/0", Acl.OPEN),
        ("/consumersX", Acl.CREATOR_AND_READERS),
    ],
)
def test_with_set_acl_a_path_has_kafkas_acl(path: str, acl: Acl) -> None:
    assert Security(set_acl=True).acl(path) is acl
    assert Security().acl(path) is Acl.OPEN


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(Security(sasl=Credentials("kafka", "secret")))


def test_only_proofs_make_an_identity() -> None:
    """A trust store authenticates the server; a key store authenticates the client."""
    assert not Security(tls=Tls(truststore=Path("ca.pem"))).has_identity
    assert Security(tls=Tls(keystore=Path("me.pem"))).has_identity
    assert Security(digest=Credentials("u", "p")).has_identity


def test_files_and_values_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    truststore = authority.write_truststore(tmp_path / "ca.pem")
    keystore = authority.write_keystore(tmp_path / "locked.pem", "broker", password="right")
    text = tmp_path / "text.pem"
    text.write_text("no certificate\n")
    client_context(Tls(truststore, keystore, "right"))
    for tls, message in (
        (Tls(tmp_path / "absent.pem"), "absent.pem.*No such file"),
        (Tls(text), "text.pem: no certificates"),
        (Tls(truststore, text), "text.pem: no private key"),
        (Tls(truststore, truststore), "ca.pem: no private key"),
        (Tls(truststore, keystore, "wrong"), "locked.pem.*password"),
        (Tls(truststore, keystore), "locked.pem.*password"),
        (Tls(protocols=("SSLv3",)), "SSLv3.*TLSv1.2, TLSv1.3"),
        (Tls(cipher_suites=("NOTHING",)), "NOTHING"),
    ):
        with pytest.raises(InvalidSecurity, match=message):
            client_context(tls)


def test_one_protocol_is_the_only_one() -> None:
    context = client_context(Tls(protocols=("TLSv1.2",)))
    assert context.minimum_version is context.maximum_version is ssl.TLSVersion.TLSv1_2


def test_a_failure_is_told_by_its_cause() -> None:
    """kazoo wraps the original errors in its own."""
    wrapped = RuntimeError("socket connection error")
    wrapped.__context__ = ConnectionRefusedError(111, "Connection refused")
    assert explain(wrapped, None) == "[Errno 111] Connection refused"
