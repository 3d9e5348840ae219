"""Which settings real brokers and controllers get in a rehearsal."""

from pathlib import Path

import pytest

from kafka_zk.migration.mode import Mode
from kafka_zk.migration.rehearsal.broker_settings import (
    Place,
    UnusableSettings,
    by_broker,
    listeners,
    of_broker,
    of_controllers,
    secrets,
)

GIVEN = {
    "broker.id": "7",
    "listeners": "INSIDE://b7.example.com:9092, OUTSIDE://0.0.0.0:9093",
    "advertised.listeners": "INSIDE://b7.example.com:9092,OUTSIDE://203.0.113.7:9093",
    "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT,OUTSIDE:SSL",
    "inter.broker.listener.name": "INSIDE",
    "listener.name.inside.plain.sasl.jaas.config": 'org.Plain required username="broker" password="hunter2";',
    "zookeeper.connect": "zk1.example.com:2181/kafka",
    "zookeeper.ssl.client.enable": "true",
    "controller.quorum.voters": "3000@c1.example.com:9093",
    "log.dirs": "/data/a,/data/b",
    "inter.broker.protocol.version": "3.8",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin;User:42",
    "metric.reporters": "org.example.Reporter",
    "sasl.oauthbearer.jwks.endpoint.url": "https://login.example.com/keys",
    "message.max.bytes": "1500000",
}
QUORUM = {"controller.quorum.voters": "3000@127.0.0.1:5", "controller.listener.names": "REHEARSAL_CONTROLLER"}
PLACE = Place(Path("/copy"), {"INSIDE": 6, "OUTSIDE": 7}, "127.0.0.1:4/kafka", QUORUM)


@pytest.mark.parametrize("mode", [Mode.ZOOKEEPER, Mode.MIGRATION, Mode.KRAFT])
def test_no_address_and_no_folder_of_the_cluster_is_left(mode: Mode) -> None:
    found = of_broker(7, GIVEN, mode, PLACE)
    text = str(found)
    assert not [each for each in ("example.com", "0.0.0.0", "203.0", "/data", "Reporter") if each in text], text
    assert found["advertised.listeners"] == found["listeners"] == "INSIDE://127.0.0.1:6,OUTSIDE://127.0.0.1:7"
    assert found["log.dirs"] == "/copy/logs-0,/copy/logs-1"
    assert (found["message.max.bytes"], found["super.users"]) == ("1500000", "User:admin;User:42")


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("sasl.oauthbearer.token.endpoint.url", "https://10.1.2.3/token", "https://127.0.0.1:1"),
        ("config.providers.secrets.param.where", "10.1.2.3:8200", "127.0.0.1:1"),
        ("org.example.audit.target", "10.1.2.3", "127.0.0.1"),
        ("listener.name.a.plain.sasl.jaas.config", 'x y required u="http://10.1.2.3:80" password="http://h:8";',
         'password="http://h:8"'),
        ("sasl.jaas.config", "x required userProvider='ldap://10.1.2.3/' user_a='10.9.9.9:1';", "user_a='10.9.9.9:1'"),
        ("ssl.key.password", "abc.d:123", "abc.d:123"),
        ("super.users", "User:42;User:10.9", "User:42;User:10.9"),
        ("log.message.format.version", "0.10.2.1", "0.10.2.1"),
        ("ssl.keystore.location", "/etc/kafka/b7.jks", "/etc/kafka/b7.jks"),
        ("leader.replication.throttled.replicas", "0:1,1:2", "0:1,1:2"),
    ],
)  # fmt: skip
def test_an_address_in_any_setting_is_replaced_and_nothing_else(key: str, value: str, kept: str) -> None:
    found = str(of_broker(7, {**GIVEN, key: value}, Mode.KRAFT, PLACE)[key])
    assert kept in found and "10.1.2.3" not in found


def test_each_mode_has_the_keys_of_its_step() -> None:
    zookeeper, migration, kraft = (
        of_broker(7, GIVEN, mode, PLACE) for mode in (Mode.ZOOKEEPER, Mode.MIGRATION, Mode.KRAFT)
    )  # fmt: skip
    flag, protocol = "zookeeper.metadata.migration.enable", "inter.broker.protocol.version"
    assert zookeeper["zookeeper.connect"] == migration["zookeeper.connect"] == "127.0.0.1:4/kafka"
    assert (zookeeper.get(flag), migration[flag]) == (None, "true")
    assert "controller.quorum.voters" not in zookeeper and migration.items() >= QUORUM.items()
    assert (migration[protocol], migration["broker.id"]) == ("3.8", 7)
    assert (kraft["process.roles"], kraft["node.id"]) == ("broker", 7)
    assert not {"zookeeper.connect", flag, protocol, "broker.id"} & kraft.keys()
    assert "StandardAuthorizer" in str(kraft["authorizer.class.name"])
    protocols = "INSIDE:SASL_PLAINTEXT,OUTSIDE:SSL,REHEARSAL_CONTROLLER:PLAINTEXT"
    assert migration["listener.security.protocol.map"] == kraft["listener.security.protocol.map"] == protocols


def test_controllers_reach_the_brokers_as_these_do_and_trust_their_own_listener() -> None:
    found = of_controllers(GIVEN)
    assert found["inter.broker.listener.name"] == "INSIDE"
    assert found["super.users"] == "User:admin;User:42;User:ANONYMOUS"
    assert "StandardAuthorizer" in found["authorizer.class.name"]
    assert found["listener.name.inside.plain.sasl.jaas.config"] == GIVEN["listener.name.inside.plain.sasl.jaas.config"]
    assert "message.max.bytes" not in found and "listeners" not in found
    assert of_controllers({})["inter.broker.listener.name"] == "PLAINTEXT"


def test_the_secrets_of_a_file() -> None:
    (jaas,) = (value for key, value in GIVEN.items() if key.endswith("jaas.config"))
    assert secrets({**GIVEN, "sasl.jaas.config": "x required user_bob='pass4';"}) >= {"hunter2", "pass4", jaas}
    assert not {"b", "broker", "1500000"} & secrets(GIVEN)
    assert secrets({"ssl.key.password": "abc", "ssl.keystore.password": "abcd"}) == {"abcd"}
    assert "two words; 'x'" in secrets({"sasl.jaas.config": """x required password="two words; 'x'";"""})


def test_texts_that_occur_everywhere_are_not_hidden() -> None:
    assert not secrets({"password.encoder.iterations": "4096", "delegation.token.expiry.time.ms": "86400000"})
    assert "true" not in secrets({"sasl.jaas.config": 'x required username="bob" tokenauth="true";'})
    assert secrets({"ssl.key.password": "12345"}) == {"12345"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": {"listeners": ""}}, "a sets no broker.id"),
        ({"a": {"broker.id": "-1"}}, "a sets no broker.id"),
        ({"a": {"broker.id": "1"}, "b": {"broker.id": "1"}}, "b has broker.id=1, which another file has, too"),
        ({"a": {"broker.id": "1"}}, "there is no server.properties of the brokers 2, 3"),
        ({"a": {"broker.id": "1", "listeners": "${file:/secrets:x}"}}, "a has listeners that are not NAME://HOST:PORT"),
        ({"a": {"broker.id": "1", "remote.log.storage.system.enable": " True"}}, "a has tiered storage"),
        ({"a": {"broker.id": "1", "listeners": "A://:1,a://:2"}}, "a has two listeners with one name"),
    ],
)
def test_files_with_which_no_broker_can_start(files: dict[str, dict[str, str]], message: str) -> None:
    with pytest.raises(UnusableSettings, match=message):
        by_broker(files, (1, 2, 3))


def test_the_usual_listener() -> None:
    assert listeners({}) == ["PLAINTEXT"]


def test_listeners_of_strimzi() -> None:
    assert listeners({"listeners": "REPLICATION-9091://0.0.0.0:9091,PLAIN-9092://0.0.0.0:9092"}) == [
        "REPLICATION-9091", "PLAIN-9092",
    ]  # fmt: skip
