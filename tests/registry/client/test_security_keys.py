"""Kafka's keys for a secured ZooKeeper: how they are read, and which are refused."""

import re
from pathlib import Path

import pytest

from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.registry.client.errors import InvalidSecurity
from kafka_zk.registry.client.security import NO_SECURITY, Credentials, Tls
from kafka_zk.registry.client.security_keys import zookeeper_security
from kafka_zk.testing.variants import server_security, write_login


def test_without_keys_nothing_is_secured() -> None:
    assert zookeeper_security({"zookeeper.connect": "h:1", "zookeeper.set.acl": "false"}) == NO_SECURITY


def test_kafkas_keys_make_tls(tmp_path: Path) -> None:
    made = dict(server_security("mtls", tmp_path).client_properties)
    security = zookeeper_security(
        {
            **made,
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.endpoint.identification.algorithm": "",
            "zookeeper.ssl.enabled.protocols": "TLSv1.3, TLSv1.2",
        }
    )
    assert security.set_acl and security.has_identity
    assert security.tls == Tls(
        tmp_path / "truststore.pem", tmp_path / "client.pem", None, False, ("TLSv1.3", "TLSv1.2"), ()
    )


def test_tls_keys_without_enable_do_nothing() -> None:
    """Kafka does the same: zookeeper.ssl.client.enable decides."""
    assert zookeeper_security({"zookeeper.ssl.truststore.location": "absent.jks"}) == NO_SECURITY


def test_a_login_file_makes_sasl(tmp_path: Path) -> None:
    login = str(write_login(tmp_path / "jaas.conf", "Other", username="kafka", password="s"))
    keys = {"java.security.auth.login.config": login}
    assert zookeeper_security(keys) == NO_SECURITY, "without a section Client, the login file is for something else"
    keys["zookeeper.sasl.clientconfig"] = "Other"
    assert zookeeper_security(keys).sasl == Credentials("kafka", "s")
    assert zookeeper_security({**keys, "zookeeper.sasl.client": "false"}) == NO_SECURITY


TLS = {"zookeeper.ssl.client.enable": "true"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"zookeeper.set.acl": "true"}, "^zookeeper.set.acl=true: allowed with an identity"),
        ({"zookeeper.set.acl": "yes"}, "^zookeeper.set.acl=yes: must be true or false"),
        ({**TLS, "zookeeper.ssl.truststore.location": "t.jks"}, "must be a PEM.*keytool"),
        ({**TLS, "zookeeper.ssl.keystore.location": "k.p12"}, "must be a PEM.*openssl"),
        ({**TLS, "zookeeper.ssl.truststore.location": "absent.pem"}, "absent.pem: "),
        ({**TLS, "zookeeper.ssl.crl.enable": "true"}, "crl.enable=true: must be false"),
        ({"zookeeper.auth.digest": "kafka"}, "must be user:password"),
        ({"java.security.auth.login.config": "/absent/jaas.conf"}, "^java.security.auth.login.config=.*: No such file"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_used_is_refused_with_its_key(keys: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidSecurity, match=message):
        zookeeper_security(keys)
    with pytest.raises(InvalidBrokerConfig, match=re.compile(message)):
        KafkaConfig.from_properties({"zookeeper.connect": "h:1", **keys})


def test_kerberos_is_refused_rather_than_ignored(tmp_path: Path) -> None:
    login = tmp_path / "jaas.conf"
    login.write_text("Client { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true; };")
    with pytest.raises(InvalidSecurity, match=r"Krb5LoginModule.*Kerberos is not supported"):
        zookeeper_security({"java.security.auth.login.config": str(login)})


def test_a_login_without_a_password_is_refused(tmp_path: Path) -> None:
    login = write_login(tmp_path / "jaas.conf", "Client", username="kafka")
    with pytest.raises(InvalidSecurity, match="lacks username or password"):
        zookeeper_security({"java.security.auth.login.config": str(login)})


def test_a_broker_warns_of_none_of_the_keys(tmp_path: Path) -> None:
    keys = {**server_security("mtls", tmp_path).client_properties, "zookeeper.sasl.client": "true"}
    config, warnings = KafkaConfig.from_properties({"zookeeper.connect": "h:1", **keys})
    assert warnings == []
    assert config.zookeeper_security.set_acl
