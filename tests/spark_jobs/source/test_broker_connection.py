"""The executors' connection over TLS and SASL, against a small broker in a thread."""

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.spark_jobs.errors import AuthenticationError, OptionError
from kafka_zk.spark_jobs.source.broker_connection import BrokerConnection
from kafka_zk.spark_jobs.source.cluster_client import ClientSettings, ClusterClient
from kafka_zk.spark_jobs.source.options import parse, security_of
from kafka_zk.spark_jobs.source.planner import client_settings
from tests.secure_broker import MECHANISMS, Files, SecureBroker, make_files, server_context

OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
OPTIONS = {"kafka.bootstrap.servers": "h:9093", "subscribe": "t"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def broker(files: Files) -> Iterator[SecureBroker]:
    with SecureBroker(server_context(files)).running() as broker:
        yield broker


def keys(files: Files, mechanism: str = "SCRAM-SHA-256", **more: str) -> dict[str, str]:
    login = {"sasl.username": "alice", "sasl.password": "alice-secret"}
    if mechanism == "OAUTHBEARER":
        login = {"sasl.jaas.config": OAUTH + 'unsecuredLoginStringClaim_sub="alice";'}
    return {"security.protocol": "SASL_SSL", "ssl.ca.location": str(files.authority), "sasl.mechanism": mechanism,
            **login, **{name.replace("_", "."): value for name, value in more.items()}}  # fmt: skip


def connect(port: int, keys: dict[str, str]) -> BrokerConnection:
    return BrokerConnection("127.0.0.1", port, client_id="t", timeout_ms=5_000, security=security_of(keys))


def metadata(connection: BrokerConnection) -> Any:
    return connection.request(ApiKey.METADATA, codec.request(ApiKey.METADATA)(topics=None))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism(broker: SecureBroker, files: Files, mechanism: str) -> None:
    connection = connect(broker.port, keys(files, mechanism))
    assert metadata(connection).cluster_id == "c"
    assert (broker.principals, broker.violations) == (["alice"], [])
    connection.close()


def test_a_client_certificate(files: Files) -> None:
    pem = {"ssl.certificate.location": str(files.client), "ssl.key.location": str(files.client)}
    secured = {"security.protocol": "SSL", "ssl.ca.location": str(files.authority)}
    with SecureBroker(server_context(files, asks_for_certificate=True), has_sasl=False).running() as broker:
        with pytest.raises(AuthenticationError, match="certificate"):
            connect(broker.port, {**secured, **pem, "ssl.ca.location": str(files.other_authority)})
        connection = connect(broker.port, {**secured, "ssl.keystore.type": "PEM",
                                           "ssl.keystore.location": str(files.client)})  # fmt: skip
        assert metadata(connection).cluster_id == "c"
        connection.close()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"sasl_password": "wr0ng"}, "logging in to 127.0.0.1"),
        ({"ssl_ca_location": "other"}, "not signed by an authority"),
        ({"sasl_mechanism": "SCRAM-SHA-512"}, "it enables PLAIN"),
    ],
)
def test_a_refusal_says_why_without_the_secret(files: Files, changed: dict[str, str], told: str) -> None:
    if "ssl_ca_location" in changed:
        changed = {"ssl_ca_location": str(files.other_authority)}
    broker = SecureBroker(server_context(files), mechanisms=("PLAIN", "SCRAM-SHA-256"))
    with broker.running(), pytest.raises(AuthenticationError, match=told) as refused:
        connect(broker.port, keys(files, **changed))
    assert "wr0ng" not in str(refused.value)


@pytest.mark.parametrize("asks", [False, True])
def test_plaintext_at_a_port_for_tls_is_told_at_once(files: Files, asks: bool) -> None:
    """If it were not reported, retries would fail for two minutes."""
    with SecureBroker(server_context(files, asks_for_certificate=asks)).running() as broker:
        settings = ClientSettings(f"127.0.0.1:{broker.port}")
        with ClusterClient(settings) as client, pytest.raises(AuthenticationError, match="expects TLS: security"):
            client.refresh(None)


def test_a_port_where_nobody_speaks_kafka_is_not_taken_for_tls() -> None:
    def close_two(server: socket.socket) -> None:
        for _ in range(2):
            server.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        closing = threading.Thread(target=close_two, args=(server,))
        closing.start()
        with pytest.raises(ConnectionError):
            connect(server.getsockname()[1], {})
        closing.join()


def test_a_session_is_renewed_between_requests(files: Files) -> None:
    with SecureBroker(server_context(files), lifetime_ms=100).running() as broker:
        connection = connect(broker.port, keys(files))
        deadline_s = time.monotonic() + 30
        while len(broker.principals) < 3 and time.monotonic() < deadline_s:
            assert metadata(connection).cluster_id == "c"
        assert broker.principals[:3] == ["alice"] * 3 and not broker.violations
        connection.close()


def test_options_and_settings_show_no_secret(files: Files) -> None:
    options = parse({**OPTIONS, **{f"kafka.{key}": value for key, value in keys(files).items()}})
    settings = client_settings(options.kafka, "h:9093")
    assert isinstance(settings, ClientSettings) and settings.security.protocol == "SASL_SSL"
    assert "alice-secret" not in repr(options) and "alice-secret" not in repr(settings)


@pytest.mark.parametrize("keys", [{"sasl.password": "s3cret"}, {"security.protocol": "X", "sasl.password": "s3cret"}])
def test_contradictions_are_told_by_the_options_name(keys: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=r"^kafka\.") as refused:
        parse({**OPTIONS, **{f"kafka.{key}": value for key, value in keys.items()}})
    assert "s3cret" not in str(refused.value)
