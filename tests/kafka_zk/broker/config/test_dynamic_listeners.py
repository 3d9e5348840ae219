"""Which changes of listeners a running broker accepts, with Kafka's error messages."""

import pytest

from kafka_zk.broker.config.dynamic_config import DynamicBrokerConfig
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig
from kafka_zk.protocol.errors import ApiError, ErrorCode

TWO = "PLAINTEXT://127.0.0.1:9092,CLIENT://127.0.0.1:9093"
STATIC = {
    "zookeeper.connect": "z:1", "broker.id": "0", "listeners": TWO, "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:PLAINTEXT,NEW:SASL_PLAINTEXT",
    "password.encoder.secret": "encoder-secret",
}  # fmt: skip
PLAIN = "listener.name.new.plain.sasl.jaas.config"
MODULE = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="hush-hush";'
NEW = {
    "listeners": f"{TWO},NEW://127.0.0.1:9094",
    "listener.name.new.sasl.enabled.mechanisms": "PLAIN",
    PLAIN: MODULE,
}


def dynamic(**changed: str) -> DynamicBrokerConfig:
    return DynamicBrokerConfig({**STATIC, **{key.replace("_", "."): value for key, value in changed.items()}})


def refusal(config: DynamicBrokerConfig, properties: dict[str, str]) -> str:
    with pytest.raises(ApiError) as refused:
        config.validate(properties, per_broker=True)
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    return refused.value.message or ""


@pytest.mark.parametrize(
    "properties",
    [
        NEW,
        {"listeners": "PLAINTEXT://127.0.0.1:9092"},
        {"listeners": "PLAINTEXT://127.0.0.1:9192,CLIENT://127.0.0.1:9093"},
        {
            "listeners": f"{TWO},OTHER://127.0.0.1:9094",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,OTHER:PLAINTEXT",
        },
        {"listeners": "PLAINTEXT://127.0.0.1:9092,CLIENT://[::1]:9092"},
        {"listeners": "PLAINTEXT://127.0.0.1:0,CLIENT://127.0.0.1:0"},
        {"advertised.listeners": "PLAINTEXT://kafka.example:9092"},
        {"listener.name.client.max.connections": "5", "listener.name.client.max.connection.creation.rate": "7"},
    ],
)
def test_listeners_are_added_removed_and_moved(properties: dict[str, str]) -> None:
    config = dynamic()
    config.validate(properties, per_broker=True)
    taken = config.take(config.stored(properties), {})
    for key, value in properties.items():
        assert taken.properties[key] == value


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        (
            {"listeners": "CLIENT://127.0.0.1:9093"},
            "requirement failed: inter.broker.listener.name must be a listener name defined in advertised.listeners. "
            "The valid options based on currently configured listeners are CLIENT",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://h:1,OTHER://h:2"},
            "requirement failed: advertised.listeners listener names must be equal to or a subset of the ones defined "
            "in listeners. Found PLAINTEXT,OTHER. The valid options based on the current configuration are "
            "PLAINTEXT,CLIENT",
        ),
        (
            {"listeners": f"{TWO},CLIENT://127.0.0.1:9094"},
            f"requirement failed: Each listener must have a different name, listeners: {TWO},CLIENT://127.0.0.1:9094",
        ),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:9092,CLIENT://127.0.0.2:9092"},
            "requirement failed: If you have two listeners on the same port then one needs to be IPv4 and the other "
            "IPv6, listeners: PLAINTEXT://127.0.0.1:9092,CLIENT://127.0.0.2:9092, port: 9092",
        ),
        (
            {"listeners": "PLAINTEXT://localhost:9092,CLIENT://:9092"},
            "requirement failed: Each listener must have a different port, listeners: "
            "PLAINTEXT://localhost:9092,CLIENT://:9092",
        ),
        (
            {"listeners": "PLAINTEXT://localhost:9092,CLIENT://127.0.0.1:9092"},
            "Each listener must have a different port unless exactly one listener has an IPv4 address and the other "
            "IPv6 address, listeners: PLAINTEXT://localhost:9092,CLIENT://127.0.0.1:9092, port: 9092",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT"},
            "Security protocol cannot be updated for existing listener ListenerName(CLIENT)",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CLIENT:PLAINTEXT"},
            "Security protocol cannot be updated for existing listener ListenerName(PLAINTEXT)",
        ),
        (
            {"listener.name.client.sasl.mechanism.inter.broker.protocol": "PLAIN"},
            "Configs cannot be updated dynamically for existing listener ListenerName(CLIENT), restart broker or "
            "create a new listener for update",
        ),
        ({PLAIN: MODULE}, f"{PLAIN}: this broker has no such listener"),
    ],
)
def test_what_is_refused(properties: dict[str, str], told: str) -> None:
    assert refusal(dynamic(), properties) == told


def test_the_control_plane_listener_stays() -> None:
    told = refusal(dynamic(control_plane_listener_name="CLIENT"), {"listeners": "PLAINTEXT://127.0.0.1:9092"})
    assert told.startswith("requirement failed: control.plane.listener.name must be a listener name defined in")


def test_the_first_listener_stays_where_it_is_the_one_between_brokers() -> None:
    """After a restart, the broker would use another listener for brokers."""
    config = dynamic(inter_broker_listener_name="")
    turned = ",".join(reversed(TWO.split(",")))
    assert refusal(config, {"listeners": turned}).startswith("listeners: PLAINTEXT must stay first")


def test_the_passwords_of_a_login_module_are_encoded() -> None:
    config = dynamic()
    stored = config.stored(NEW)
    assert "hush-hush" not in str(stored)
    assert config.usable(stored, per_broker=True) == NEW


def test_the_keys_of_a_listener_may_stay_when_it_goes() -> None:
    """Kafka accepts keys of a removed listener, too."""
    config = dynamic()
    config.take(config.stored(NEW), {})
    config.validate({**NEW, "listeners": TWO}, per_broker=True)


def test_listeners_are_of_one_broker() -> None:
    with pytest.raises(ApiError, match="at default cluster level, broker id must be specified"):
        dynamic().validate({PLAIN: MODULE}, per_broker=False)


def test_a_running_broker_keeps_its_listeners_when_the_new_ones_cannot_be_understood() -> None:
    """An old tool wrote the new listeners to ZooKeeper; the broker must not open listeners that were removed."""
    config = dynamic()
    assert config.take({"listeners": "PLAINTEXT://127.0.0.1:9092"}, {}).listener_names == {"PLAINTEXT"}
    assert config.take({"listeners": "nonsense"}, {"max.connections": "7"}).listener_names == {"PLAINTEXT"}


def test_a_broker_does_not_start_with_other_listeners_than_it_had() -> None:
    with pytest.raises(InvalidBrokerConfig, match="dynamic configuration in ZooKeeper: listeners=nonsense"):
        dynamic().refuse_unbuilt_security({"listeners": "nonsense"}, {})


def test_a_broker_has_at_most_1000_keys() -> None:
    """Each change examines all keys, and no client is served during that time."""
    dynamic().validate({f"of.a.plugin.{number}": "x" for number in range(1_000)}, per_broker=True)
    many = {f"of.a.plugin.{number}": "x" for number in range(1_001)}
    assert "1001 configuration keys" in refusal(dynamic(), many)


def test_a_broker_with_more_keys_may_lose_some() -> None:
    """Apache Kafka may have stored more keys; kafka-configs may change or remove a part of them."""
    stored = {f"of.a.plugin.{number}": "x" for number in range(1_500)}
    broker = dynamic()
    broker.take(stored, {})
    fewer = dict(list(stored.items())[100:])
    broker.validate(fewer, per_broker=True)
    broker.validate(stored | {"of.a.plugin.0": "y"}, per_broker=True)
    assert "1501 configuration keys" in refusal(broker, stored | {"another": "x"})
