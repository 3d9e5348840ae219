"""Listeners that are added and removed while a broker runs. Real sockets and logs, ZooKeeper in memory."""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.error import CannotListenError

from kafka_zk.base.events import Event
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.handlers.configs import config_resources
from kafka_zk.broker.process import client_report, listener_retry
from kafka_zk.broker.process.broker import Broker
from kafka_zk.broker.process.events import ClientsSeen
from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.process.tokens import ListenerTokenKeys
from kafka_zk.embedded.certificates import CertificateAuthority
from kafka_zk.network.client import KafkaConnection, connect
from kafka_zk.network.connection_quotas import UNLIMITED
from kafka_zk.network.listener import Listener, ListenerSettings
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.errors import NoAuth
from kafka_zk.security.client_keys import client_security
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper
from tests.kafka_zk.network.harness import LocalReactor

ANY = "127.0.0.1:0"


class Running:
    """A broker with the listener PLAINTEXT, and clients of it."""

    def __init__(self, folder: Path) -> None:
        self.reactor = LocalReactor()
        zookeeper = SimZooKeeper(self.reactor, delay_ms=(0.0, 0.1))  # type: ignore[arg-type]
        keys = {
            "zookeeper.connect": "in-memory:1", "listeners": f"PLAINTEXT://{ANY}", "log.dirs": str(folder),
            "password.encoder.secret": "encoder-secret", "inter.broker.listener.name": "PLAINTEXT",
        }  # fmt: skip
        config, _ = KafkaConfig.from_properties(keys)
        self.seen: list[Event] = []
        client = zookeeper.client("broker")
        self.broker = Broker(Machine.of(self.reactor), config, client, pytest.fail, observe=self.seen.append)
        self.reactor.result_of(self.broker.start())
        self._registry = BrokerRegistry(zookeeper.client("tool"))
        self._number = 0

    def alter(self, **properties: str) -> None:
        """Returns when the broker has applied the change. Raises: ApiError."""
        self.set({key.replace("_", "."): value for key, value in properties.items()})

    def set(self, properties: Mapping[str, str]) -> None:
        self.store(properties)
        self.follow()

    def store(self, properties: Mapping[str, str]) -> None:
        """Returns when the broker has received the value."""
        services = self.broker.services
        self._number += 1
        marked = {**properties, "max.connections": str(1000 + self._number)}
        self.reactor.result_of(
            config_resources.change_broker(services, marked, per_broker=True, validate_only=False)
        )
        self.reactor.until(lambda: services.config.max_connections == 1000 + self._number)

    def follow(self) -> None:
        self.reactor.result_of(self.broker._bound.follow(self.broker._register_changes))

    def endpoints(self) -> dict[str, int]:
        """The ports that are registered in ZooKeeper, by listener."""
        live = self.reactor.result_of(self._registry.live())
        info, _ = live[self.broker.broker_id]
        return {endpoint.name: endpoint.port for endpoint in info.endpoints}

    def connect(self, port: int, security: ClientSecurity = NO_SECURITY) -> KafkaConnection:
        connection: KafkaConnection = self.reactor.result_of(
            connect(self.reactor, "127.0.0.1", port, client_id="test", security=security)
        )
        return connection

    def answers(self, connection: KafkaConnection) -> bool:
        try:
            self.reactor.result_of(connection.request(ApiKey.DESCRIBE_CLUSTER))
        except Exception:
            return False
        return True

    def stop(self) -> None:
        self.reactor.result_of(self.broker.stop())
        self.reactor.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path / "logs")
    yield made
    made.stop()


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def plain(port: int) -> dict[str, str]:
    return {
        "listeners": f"PLAINTEXT://{ANY},CLIENT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:PLAINTEXT",
    }


WITH_LOGINS = {
    "listeners": f"PLAINTEXT://{ANY},CLIENT://{ANY}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
    "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.client.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="pw-a";'
    ),
}


def test_a_listener_comes_and_goes_and_other_connections_stay(running: Running) -> None:
    first = running.connect(running.endpoints()["PLAINTEXT"])
    running.set(plain(0))
    port = running.endpoints()["CLIENT"]
    second = running.connect(port)
    assert running.answers(first) and running.answers(second)
    running.set({})
    assert set(running.endpoints()) == {"PLAINTEXT"}
    assert running.answers(first) and not running.answers(second) and not is_open(port)


def test_a_listener_moves_and_its_connections_stay(running: Running) -> None:
    before = running.endpoints()["PLAINTEXT"]
    first = running.connect(before)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running.alter(listeners=f"PLAINTEXT://127.0.0.1:{port}")
    assert running.endpoints() == {"PLAINTEXT": port}
    assert running.answers(first) and running.answers(running.connect(port)) and not is_open(before)
    running.alter(listeners=f"PLAINTEXT://127.0.0.2:{port}")
    assert running.answers(first) and not is_open(port)


def test_a_new_listener_takes_the_port_of_one_that_goes(running: Running) -> None:
    running.set(plain(0))
    port = running.endpoints()["CLIENT"]
    old = running.connect(port)
    running.set(
        {
            "listeners": f"PLAINTEXT://{ANY},OTHER://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        }
    )
    assert running.endpoints()["OTHER"] == port
    assert not running.answers(old) and running.answers(running.connect(port))


@pytest.mark.parametrize("moved", [False, True])
def test_a_port_that_is_taken_changes_nothing(running: Running, moved: bool) -> None:
    """The client receives Kafka's error message; nothing is stored."""
    before = running.endpoints()
    first = running.connect(before["PLAINTEXT"])
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        wanted = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"} if moved else plain(port)
        with pytest.raises(ApiError) as refused:
            running.set(wanted)
    assert refused.value.message == f"Socket server failed to bind to 127.0.0.1:{port}: Address already in use."
    assert running.endpoints() == before and running.answers(first)
    assert running.broker.services.dynamic_config.own == {}


def test_a_port_that_is_taken_after_the_check_is_logged(
    running: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener is not registered, and opens with the next change once the port is free."""
    monkeypatch.setattr(running.broker._dynamic_config, "check_listeners", lambda config: None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        running.set(plain(port))
        assert set(running.endpoints()) == {"PLAINTEXT"}
        moved = {**plain(port), "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        running.set(moved)
        assert running.answers(running.connect(running.broker._bound._by_name["PLAINTEXT"].port))
        assert len(running.broker.services.client_quotas._settings) == 1
    assert caplog.text.count("Socket server failed to bind") >= 2
    running.set(plain(port))
    assert running.endpoints()["CLIENT"] == port


def test_a_listener_that_comes_again_with_logins_is_not_the_open_one(running: Running) -> None:
    """The listener was removed while an earlier change was slow, so it was still open when it was added again."""
    running.set(plain(0))
    old = running.connect(running.endpoints()["CLIENT"])
    changing = running.broker._bound._changing
    running.reactor.result_of(changing.acquire())
    running.store({})
    running.store(WITH_LOGINS)
    changing.release()
    running.follow()
    assert not running.answers(old)
    assert not running.answers(running.connect(running.endpoints()["CLIENT"]))


def test_the_limit_of_a_listener_that_is_there_changes(running: Running) -> None:
    """Kafka allows this, too."""
    [listener] = running.broker._bound
    connection = running.connect(listener.port)
    for limit in ("5", "3", None):
        running.set({} if limit is None else {"listener.name.plaintext.max.connections": limit})
        assert listener._settings.max_connections == (UNLIMITED if limit is None else int(limit))
        assert running.answers(connection)


def test_a_listener_whose_users_are_hidden_is_not_added_and_the_others_are_registered(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    async def hidden() -> None:
        raise NoAuth("/config/users")

    running.broker._bound._load_users = hidden
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    prefix = "listener.name.client."
    running.set(
        {
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CLIENT://{ANY}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
            f"{prefix}sasl.enabled.mechanisms": "SCRAM-SHA-256",
            f"{prefix}scram-sha-256.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
        }
    )
    assert running.endpoints() == {"PLAINTEXT": port}
    assert "the listener CLIENT is not added" in caplog.text


def test_who_is_connected_is_told_from_the_first_secured_listener_on(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_report, "INTERVAL_MS", 10)
    assert running.answers(running.connect(running.endpoints()["PLAINTEXT"]))
    assert running.broker.parts._client_report is not None
    running.set(WITH_LOGINS)
    running.connect(running.endpoints()["PLAINTEXT"])
    running.reactor.until(lambda: any(isinstance(each, ClientsSeen) and each.clients for each in running.seen))


def test_a_listener_that_goes_leaves_nothing_behind(running: Running) -> None:
    """The broker also stops fetching keys from the listener's OAuth provider, which it has done since its start."""

    class Fetching:
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    quotas = running.broker.services.client_quotas
    fetched = running.broker._token_keys._by_listener
    for _ in range(3):
        running.set(plain(0))
        fetching: Any = Fetching()
        fetched["CLIENT"] = fetching
        assert len(quotas._settings) == 2
        running.set({})
        assert len(quotas._settings) == 1 and fetching.is_closed
    assert "CLIENT" not in fetched


def test_a_listener_that_lost_its_old_address_in_a_move_is_not_registered_until_it_is_back(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process took the address; the connections stay."""
    running.set(plain(0))
    port = running.endpoints()["CLIENT"]
    connection = running.connect(port)

    def taken(listener: Listener, settings: ListenerSettings) -> Any:
        raise CannotListenError(settings.host, settings.port, OSError("taken"))

    moved = {**plain(0), "listeners": f"PLAINTEXT://{ANY},CLIENT://127.0.0.2:{port}"}
    with monkeypatch.context() as patched:
        patched.setattr(Listener, "_bound", taken)
        running.set(moved)
        assert set(running.endpoints()) == {"PLAINTEXT"}
    running.set(moved)
    assert set(running.endpoints()) == {"PLAINTEXT", "CLIENT"} and running.answers(connection)


def test_a_listener_comes_by_itself_once_its_port_is_free(
    running: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retries become less frequent, and the log has one line about them."""
    monkeypatch.setattr(running.broker._dynamic_config, "check_listeners", lambda config: None)
    monkeypatch.setattr(listener_retry, "MIN_WAIT_MS", 5)
    attempts = 0
    add = running.broker._bound._try_to_add

    async def counted(*arguments: Any) -> None:
        nonlocal attempts
        attempts += 1
        await add(*arguments)

    monkeypatch.setattr(running.broker._bound, "_try_to_add", counted)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        running.set(plain(port))
        running.reactor.until(lambda: attempts >= 4)
        assert set(running.endpoints()) == {"PLAINTEXT"}
    running.reactor.until(lambda: "CLIENT" in running.endpoints())
    assert running.endpoints()["CLIENT"] == port and running.answers(running.connect(port))
    assert caplog.text.count("the listener CLIENT is not added") == 1
    assert not running.broker._bound._retrying.active()


def test_a_listener_whose_users_were_hidden_comes_once_they_can_be_read(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_retry, "MIN_WAIT_MS", 5)
    load, hidden = running.broker._bound._load_users, True

    async def perhaps() -> None:
        if hidden:
            raise NoAuth("/config/users")
        await load()

    running.broker._bound._load_users = perhaps
    prefix = "listener.name.client."
    running.set(
        {
            "listeners": f"PLAINTEXT://{ANY},CLIENT://{ANY}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
            f"{prefix}sasl.enabled.mechanisms": "SCRAM-SHA-256",
            f"{prefix}scram-sha-256.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
        }
    )
    assert set(running.endpoints()) == {"PLAINTEXT"}
    hidden = False
    running.reactor.until(lambda: "CLIENT" in running.endpoints())


def test_a_move_that_waits_for_its_address_keeps_the_old_one(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.broker._dynamic_config, "check_listeners", lambda config: None)
    monkeypatch.setattr(listener_retry, "MIN_WAIT_MS", 5)
    running.set(plain(0))
    before = running.endpoints()["CLIENT"]
    port_before = running.broker._bound._by_name["CLIENT"]._port
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        running.set(plain(port))
        retries = 0
        again = running.broker._bound._tried_again

        async def counted() -> None:
            nonlocal retries
            retries += 1
            await again()

        monkeypatch.setattr(running.broker._bound, "_tried_again", counted)
        running.reactor.until(lambda: retries >= 2)
        assert running.endpoints()["CLIENT"] == before and running.answers(running.connect(before))
        assert running.broker._bound._by_name["CLIENT"]._port is port_before
    running.reactor.until(lambda: running.endpoints()["CLIENT"] == port)


def test_a_broker_that_stops_tries_no_listener_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(tmp_path / "logs")
    monkeypatch.setattr(running.broker._dynamic_config, "check_listeners", lambda config: None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        running.set(plain(other.getsockname()[1]))
        assert running.broker._bound._retrying.active()
        running.reactor.result_of(running.broker.stop())
    assert not running.broker._bound._retrying.active()
    running.reactor.close()


def test_keys_of_tokens_are_fetched_until_the_last_client_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a broker hands over its leaderships, clients with a token of a new key still log in."""
    order: list[str] = []
    stop, close = Listener.stop, ListenerTokenKeys.close

    async def stopped(listener: Listener, timeout_s: float = 5.0) -> None:
        await stop(listener, timeout_s)
        order.append("clients")

    def closed(keys: ListenerTokenKeys) -> None:
        close(keys)
        order.append("keys")

    monkeypatch.setattr(Listener, "stop", stopped)
    monkeypatch.setattr(ListenerTokenKeys, "close", closed)
    Running(tmp_path).stop()
    assert order[:2] == ["clients", "keys"]


def test_a_broker_that_has_stopped_listens_no_more(tmp_path: Path) -> None:
    """A change of its configuration was waiting for an earlier change."""
    running = Running(tmp_path / "logs")
    running.set(plain(0))
    bound = running.broker._bound
    running.reactor.result_of(bound._changing.acquire())
    running.store({**plain(0), "listeners": f"PLAINTEXT://{ANY},CLIENT://127.0.0.2:0"})
    listeners = list(bound)
    running.reactor.result_of(running.broker.stop())
    bound._changing.release()
    running.follow()
    for listener in listeners:
        running.reactor.result_of(listener.move("127.0.0.2", 0))
    assert not any(listener.is_bound for listener in (*listeners, *bound))
    running.reactor.close()


@pytest.mark.parametrize("host", ["fe80::1%a..b", "fe80::1%" + "a" * 64])
def test_a_host_with_an_unusable_scope_is_refused(running: Running, host: str) -> None:
    with pytest.raises(ApiError, match="failed to bind to"):
        running.alter(**{**plain(0), "listeners": f"PLAINTEXT://{ANY},CLIENT://{host}:0"})


def test_listeners_with_tls_and_logins_come_to_a_broker_that_had_none(running: Running, tmp_path: Path) -> None:
    authority = CertificateAuthority("authority")
    keystore = authority.write_keystore(tmp_path / "broker.pem", "broker", ("localhost", "127.0.0.1"))
    truststore = authority.write_truststore(tmp_path / "ca.pem")
    prefix = "listener.name.sasl_ssl."
    module = "org.apache.kafka.common.security"
    added = {
        "listeners": f"PLAINTEXT://{ANY},SASL_SSL://{ANY}",
        f"{prefix}ssl.keystore.type": "PEM",
        f"{prefix}ssl.keystore.location": str(keystore),
        f"{prefix}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        f"{prefix}plain.sasl.jaas.config": f'{module}.plain.PlainLoginModule required user_alice="pw-a";',
        f"{prefix}scram-sha-256.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
    }
    for left_out in (f"{prefix}ssl.keystore.location", f"{prefix}plain.sasl.jaas.config"):
        with pytest.raises(ApiError, match=r"listener SASL_SSL \(SASL_SSL\): .*(no private key|is missing)"):
            running.set({key: value for key, value in added.items() if key != left_out})
    running.set(added)
    client: dict[str, Any] = {
        "security.protocol": "SASL_SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(truststore),
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module}.plain.PlainLoginModule required username="alice" password="pw-a";',
    }  # fmt: skip
    connection = running.connect(running.endpoints()["SASL_SSL"], client_security(client))
    assert running.answers(connection)
    assert running.broker.parts.tls is not None and set(running.broker.parts.tls.days_left()) == {"SASL_SSL"}
    running.set({})
    assert not running.answers(connection) and running.broker.parts.tls.days_left() == {}
