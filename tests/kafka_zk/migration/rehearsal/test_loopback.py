"""Which strings in znodes are addresses, and what becomes of them."""

import json

import pytest

from kafka_zk.migration.rehearsal.loopback import with_loopback


def config(key: str, value: str) -> bytes:
    return json.dumps({"version": 1, "config": {key: value}}).encode()


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("listeners", "PLAINTEXT://b1.example:9092,SSL://[fd00::1]:9093,X://:9094", "PLAINTEXT://{},SSL://{},X://{}"),
        ("advertised.listeners", "INSIDE://localhost:9092", "INSIDE://{}"),
        ("controller.quorum.voters", "3000@c1:9093,3001@10.0.0.1:9093", "3000@{},3001@{}"),
        ("remote.bootstrap.servers", "b1:9092, [fd00::1]:9092", "{}, {}"),
        ("sasl.oauthbearer.token.endpoint.url", "https://u:p@idp.example/token?x=1", "https://u:p@{}/token?x=1"),
        ("max.connections.per.ip.overrides", "b1:100,10.0.0.1:200", "{},{}"),
    ],
)
def test_addresses_lead_nowhere(key: str, value: str, expected: str) -> None:
    changed = json.loads(with_loopback("/config/brokers/1", config(key, value)) or b"")
    assert changed == {"version": 1, "config": {key: expected.replace("{}", "127.0.0.1:1")}}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("host.name", "b1"),
        ("advertised.host.name", "b1.example"),
        ("a.key", "10.1.2.3"),
        ("a.key", "fd00::5"),
    ],
)
def test_hosts_without_a_port(key: str, value: str) -> None:
    changed = json.loads(with_loopback("/config/brokers/1", config(key, value)) or b"")
    assert changed["config"][key] == "127.0.0.1"


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/config/topics/orders", config("leader.replication.throttled.replicas", "0:101,1:102")),
        ("/config/topics/orders", config("cleanup.policy", "compact,delete")),
        ("/config/topics/orders", config("message.format.version", "0.10.2.1")),
        ("/config/brokers/1", config("ssl.keystore.location", "file:///etc/kafka/keys")),
        ("/config/brokers/1", config("metric.reporters", "org.example.Reporter")),
        ("/config/brokers/1", config("ssl.key.password", "encryptedPassword:aGVsbG8=,iterations:4096")),
        ("/config/brokers/1", config("sasl.kerberos.principal.to.local.rules", "RULE:[1:$1@$0](.*)s/@.*//,DEFAULT")),
        ("/config/users/alice", config("SCRAM-SHA-256", "salt=bQ==,stored_key=b,server_key=b,iterations=4096")),
        ("/config/ips/10.0.0.1", config("connection_creation_rate", "10")),
        ("/kafka-acl/Topic/orders", b'{"version":1,"acls":[{"principal":"User:42","host":"10.0.0.9"}]}'),
        ("/delegation_token/tokens/a", b'{"owner":"User:42"}'),
        ("/brokers/topics/orders", b'{"version":2,"partitions":{"0":[1]}}'),
        ("/controller_epoch", b"7"),
        ("/admin/delete_topics/a", None),
        ("/binary", b"\xff\xfe"),
    ],
)
def test_other_data_keep_every_byte(path: str, data: bytes | None) -> None:
    assert with_loopback(path, data) == data


def test_a_malformed_configuration_stays_malformed() -> None:
    assert with_loopback("/config/topics/t", b'{"config": PLAINTEXT://b1:9092') == b'{"config": PLAINTEXT://127.0.0.1:1'


def test_an_address_anywhere_else() -> None:
    registration = b'{"host":"b1","port":9092,"endpoints":["PLAINTEXT://b1:9092"]}'
    expected = b'{"host":"127.0.0.1","port":9092,"endpoints":["PLAINTEXT://127.0.0.1:1"]}'
    assert with_loopback("/elsewhere", registration) == expected
