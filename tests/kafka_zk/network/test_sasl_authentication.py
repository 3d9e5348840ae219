"""Logins with every mechanism, with and without TLS, and reauthentication before the session ends."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.network.client import KafkaConnection, connect
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError
from kafka_zk.security.client_keys import client_security
from kafka_zk.security.client_security import ClientSecurity
from kafka_zk.security.errors import SaslAuthenticationFailed, UnsupportedSaslMechanism
from tests.kafka_zk.network.harness import LocalReactor
from tests.secure_broker import MECHANISMS, SecureBroker, make_files, server_context

pytestmark = pytest.mark.usefixtures("threads")

OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "


@pytest.fixture
def threads(reactor: LocalReactor) -> Iterator[None]:
    """The threads that fetch tokens; a running reactor starts them itself."""
    pool = reactor.getThreadPool()
    pool.start()
    yield
    pool.stop()


def log_in_with(mechanism: str, password: str = "alice-secret", **more: Any) -> ClientSecurity:
    keys = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, **more}
    if mechanism == "OAUTHBEARER":
        keys["sasl.jaas.config"] = OAUTH + 'unsecuredLoginStringClaim_sub="alice";'
    else:
        keys |= {"sasl.username": "alice", "sasl.password": password}
    return client_security(keys)


def open_connection(reactor: LocalReactor, broker: SecureBroker, security: ClientSecurity) -> KafkaConnection:
    made = connect(reactor, "127.0.0.1", broker.port, "t", security=security)
    connection: KafkaConnection = reactor.result_of(made)
    return connection


def metadata(reactor: LocalReactor, connection: KafkaConnection) -> Any:
    return reactor.result_of(connection.request(ApiKey.METADATA, topics=None))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism(reactor: LocalReactor, mechanism: str) -> None:
    with SecureBroker().running() as broker:
        connection = open_connection(reactor, broker, log_in_with(mechanism))
        assert metadata(reactor, connection).cluster_id == "c"
        assert (broker.principals, broker.violations) == (["alice"], [])
        reactor.result_of(connection.disconnect())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_over_tls(reactor: LocalReactor, tmp_path: Path, mechanism: str) -> None:
    files = make_files(tmp_path)
    more = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(files.authority)}
    with SecureBroker(server_context(files)).running() as broker:
        connection = open_connection(reactor, broker, log_in_with(mechanism, **more))
        assert metadata(reactor, connection).cluster_id == "c"
        reactor.result_of(connection.disconnect())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_told(reactor: LocalReactor, mechanism: str) -> None:
    with SecureBroker().running() as broker, pytest.raises(SaslAuthenticationFailed) as refused:
        open_connection(reactor, broker, log_in_with(mechanism, "wr0ng"))
    assert "wr0ng" not in str(refused.value)


def test_a_token_that_is_refused(reactor: LocalReactor) -> None:
    security = client_security({
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: ("a.b.c", 1.0),
    })  # fmt: skip
    with SecureBroker().running() as broker, pytest.raises(SaslAuthenticationFailed, match="invalid_token"):
        open_connection(reactor, broker, security)


def test_a_mechanism_that_is_not_enabled(reactor: LocalReactor) -> None:
    broker = SecureBroker(mechanisms=("PLAIN",))
    with broker.running(), pytest.raises(UnsupportedSaslMechanism, match="it enables PLAIN"):
        open_connection(reactor, broker, log_in_with("SCRAM-SHA-256"))


def test_a_listener_without_sasl(reactor: LocalReactor) -> None:
    with SecureBroker(has_sasl=False).running() as broker, pytest.raises(SaslAuthenticationFailed, match="this port"):
        open_connection(reactor, broker, log_in_with("PLAIN"))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_connection_logs_in_again_while_requests_wait(reactor: LocalReactor, mechanism: str) -> None:
    with SecureBroker(lifetime_ms=200).running() as broker:
        connection = open_connection(reactor, broker, log_in_with(mechanism))
        while len(broker.principals) < 4:
            assert metadata(reactor, connection).cluster_id == "c"
        assert (broker.principals[:4], broker.violations) == (["alice"] * 4, [])
        reactor.result_of(connection.disconnect())
        due: Sequence[Any] = reactor.getDelayedCalls()
        assert not [call for call in due if call.active() and "authentic" in str(call.func)]


def test_a_user_who_may_not_log_in_again_is_disconnected_with_the_reason(reactor: LocalReactor) -> None:
    with SecureBroker(lifetime_ms=100).running() as broker:
        connection = open_connection(reactor, broker, log_in_with("PLAIN"))
        broker.users.clear()
        reactor.until(lambda: connection.lost is not None)
        with pytest.raises((SaslAuthenticationFailed, ApiError), match="Invalid username"):
            metadata(reactor, connection)
