"""Configuration keys are Kafka's, and values are checked immediately."""

import pytest

from kafka_zk.clients.connection.config import ClientConfig, format_bootstrap_servers, parse_bootstrap_servers
from kafka_zk.clients.connection.errors import ConfigError
from kafka_zk.clients.consumer.config import ReaderConfig
from kafka_zk.clients.producer.config import ProducerConfig


def test_both_spellings_and_strings_are_taken() -> None:
    """``linger.ms`` and ``linger_ms`` are one key; numbers and booleans may be strings."""
    config = ProducerConfig.from_properties({"linger.ms": "5", "batch_size": 100, "enable.idempotence": "false"})
    assert (config.linger_ms, config.batch_size, config.idempotent) == (5, 100, False)
    assert ReaderConfig.from_properties({"check.crcs": "false"}).check_crcs is False


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"linger.msec": 1}, "linger.msec: no such configuration"),
        ({"linger.ms": "soon"}, "linger.ms: 'soon' is not a whole number"),
        ({"linger.ms": -1}, "linger.ms: -1 is not between 0 and"),
        ({"compression.type": "zip"}, "compression.type: 'zip' is not one of none, gzip"),
        ({"acks": "two"}, "acks: 'two' is not one of all"),
        ({"enable.idempotence": "yes"}, "neither true nor false"),
        ({"enable.idempotence": True, "acks": 1}, "enable.idempotence: true needs acks=all"),
        ({"enable.idempotence": True, "retries": 0}, "needs retries above 0"),
        ({"delivery.timeout.ms": 1000}, "delivery.timeout.ms must be at least"),
        ({"bootstrap.servers": "localhost"}, "bootstrap.servers: 'localhost' is not host:port"),
        ({"bootstrap.servers": "h:9092,SASL_SSL://h:9093"}, "'SASL_SSL://h:9093' contradicts security.protocol"),
        ({"bootstrap.servers": "ssl://h:9093"}, "'ssl://h:9093' contradicts security.protocol=PLAINTEXT"),
        ({"bootstrap.servers": "PLAINTEXT://h"}, "'PLAINTEXT://h' is not host:port"),
        ({"bootstrap.servers": "PLAINTEXT://:9092"}, "is not host:port"),
        ({"bootstrap.servers": "h:9092/path"}, "is not host:port"),
        ({"bootstrap.servers": "h:70000"}, "is not host:port"),
        ({"bootstrap.servers": " , "}, "at least one host:port"),
    ],
)
def test_bad_configuration_names_key_and_what_is_allowed(properties: dict[str, object], said: str) -> None:
    """One sentence names the key and its allowed values."""
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        ProducerConfig.from_properties(properties)


@pytest.mark.parametrize(
    ("options", "idempotent"),
    [
        ({}, True),
        ({"acks": "1"}, False),
        ({"retries": 0}, False),
        ({"max_in_flight_requests_per_connection": 6}, False),
    ],
)
def test_idempotence_is_on_unless_something_forbids_it(options: dict[str, object], idempotent: bool) -> None:
    """As in Java, acks, retries and requests in flight may turn the default off."""
    assert ProducerConfig.from_properties(options).idempotent is idempotent


def test_addresses() -> None:
    """Addresses may be lists, strings with spaces and trailing commas, IPv6, and have listener names, as Kafka's
    clients accept.
    """
    assert parse_bootstrap_servers("a:1, [::1]:2,") == (("a", 1), ("::1", 2))
    assert parse_bootstrap_servers(" ,PLAINTEXT://a.b-c_d:1 ,, EXTERNAL://[::1]:2 ,") == (("a.b-c_d", 1), ("::1", 2))
    assert parse_bootstrap_servers(["plaintext://a:1, b:2,", "c:3"]) == (("a", 1), ("b", 2), ("c", 3))
    assert format_bootstrap_servers([("a", 1), ("::1", 2)]) == "a:1,[::1]:2"
    assert ClientConfig(bootstrap_servers=("h:9",)).bootstrap_addresses == (("h", 9),)
    with pytest.raises(ConfigError, match="at least one"):
        parse_bootstrap_servers("")
