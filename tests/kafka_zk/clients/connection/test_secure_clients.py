"""Our clients against a broker with TLS and SASL: security keys, and errors that are not retried."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.config import ClientConfig, parse_bootstrap_servers
from kafka_zk.clients.connection.errors import (
    AuthenticationError,
    ConfigError,
    SaslAuthenticationError,
    SslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from kafka_zk.clients.consumer.zookeeper_config import ZookeeperConsumerConfig
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.security.client_security import NO_SECURITY
from tests.secure_broker import Files, SecureBroker, make_files, server_context

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def broker(files: Files) -> Iterator[SecureBroker]:
    with SecureBroker(server_context(files)).running() as broker:
        yield broker


def keys(files: Files, **more: Any) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL", "ssl.ca.location": str(files.authority), "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice", "sasl.password": "alice-secret",
        **{name.replace("_", "."): value for name, value in more.items()},
    }  # fmt: skip


def ask(broker: SecureBroker, **options: Any) -> list[str]:
    servers = f"SASL_SSL://127.0.0.1:{broker.port}"
    with BlockingAdmin(bootstrap_servers=servers, default_api_timeout_ms=5_000, **options) as admin:
        return admin.list_topics()


def test_a_client_takes_single_keys_or_one_mapping(broker: SecureBroker, files: Files) -> None:
    assert ask(broker, **keys(files)) == []
    assert ask(broker, **{name.replace(".", "_"): value for name, value in keys(files).items()}) == []
    assert ask(broker, security=keys(files)) == []
    assert ask(broker, security=ClientConfig.from_properties(keys(files)).security) == []


@pytest.mark.parametrize(
    ("changed", "error", "told"),
    [
        ({"sasl_password": "wr0ng"}, SaslAuthenticationError, "logging in to 127.0.0.1"),
        ({"sasl_mechanism": "PLAIN", "sasl_password": "wr0ng"}, SaslAuthenticationError, "Invalid username"),
        ({"ssl_ca_location": "other"}, SslAuthenticationError, "ssl.truststore.location"),
        ({"security_protocol": "SASL_PLAINTEXT"}, ConfigError, "SASL_SSL"),
    ],
)
def test_a_refusal_is_raised_at_once_and_shows_no_secret(
    broker: SecureBroker, files: Files, changed: dict[str, Any], error: type[Exception], told: str
) -> None:
    if changed.get("ssl_ca_location"):
        changed = {"ssl_ca_location": str(files.other_authority)}
    with pytest.raises(error) as refused:
        ask(broker, **keys(files, **changed))
    assert told in str(refused.value) and "wr0ng" not in str(refused.value)


def test_errors_have_kafkas_codes_and_are_not_retriable(files: Files) -> None:
    broker = SecureBroker(server_context(files), mechanisms=("PLAIN",))
    with broker.running(), pytest.raises(UnsupportedSaslMechanismError) as refused:
        ask(broker, **keys(files))
    assert refused.value.code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert not refused.value.retriable


def test_a_producer_is_refused_as_well(broker: SecureBroker, files: Files) -> None:
    options = {"bootstrap.servers": f"127.0.0.1:{broker.port}", **keys(files, sasl_password="wr0ng")}
    with BlockingProducer(None, **options) as producer, pytest.raises(AuthenticationError):
        producer.partitions_for("t")


def test_configurations_show_no_secret(files: Files) -> None:
    config = ClientConfig.from_properties(keys(files))
    assert "alice-secret" not in repr(config)
    assert pickle.loads(pickle.dumps(config)) == config


def test_a_zookeeper_consumer_has_both_kinds_of_security(files: Files) -> None:
    config = ZookeeperConsumerConfig.from_properties(
        {"group.id": "g", "zookeeper.auth.digest": "u:p", "zookeeper.set.acl": "true", **keys(files)}
    )
    assert config.security == config.reader.security == config.offsets_channel.security != NO_SECURITY
    assert config.zookeeper_security.set_acl


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"sasl.username": "alice"}, "security.protocol"),
        ({"security": {}, "sasl.username": "alice"}, "cannot be combined"),
        ({"sasl.usrname": "alice"}, "did you mean sasl.username"),
        ({"bootstrap.servers": "SSL://h:1"}, "security.protocol to SSL"),
        ({"bootstrap.servers": "PLAINTEXT://h:1", "security.protocol": "SSL"}, "contradicts"),
    ],
)
def test_contradictions_are_refused(properties: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ClientConfig.from_properties(properties)


def test_names_of_listeners_are_no_protocols() -> None:
    assert parse_bootstrap_servers("INTERNAL://h:1,SSL://h:2", "SSL") == (("h", 1), ("h", 2))
