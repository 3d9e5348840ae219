"""A broker refuses to start if its server.properties requires a security feature that is not built."""

import pytest

from kafka_zk.broker.config.dynamic_config import DynamicBrokerConfig
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.protocol.errors import ApiError, ErrorCode

MINIMAL = {
    "zookeeper.connect": "127.0.0.1:2181",
    "listeners": "PLAINTEXT://:9092,INTERNAL://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,OUTSIDE:SASL_SSL",
}
ASKING = {
    "connections.max.reauth.ms": "3600000",
    "ssl.client.auth": "required",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.internal.ssl.client.auth": "requested",
    "listener.name.internal.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": 'PlainLoginModule required user_bob="hidden";',
    "listener.name.plaintext.scram-sha-256.sasl.server.callback.handler.class": "org.example.Callback",
    "principal.builder.class": "org.example.Principals",
    "listener.name.internal.principal.builder.class": "org.example.Principals",
    "sasl.server.callback.handler.class": "org.example.Callback",
    "sasl.client.callback.handler.class": "org.example.Callback",
    "sasl.login.callback.handler.class": "org.example.Callback",
    "sasl.login.class": "org.example.Login",
    "ssl.engine.factory.class": "org.example.Engine",
    "security.providers": "org.example.Provider",
    "client.quota.callback.class": "org.example.Quotas",
    "create.topic.policy.class.name": "org.example.Policy",
    "alter.config.policy.class.name": "org.example.Policy",
}
ASKING_NOTHING = {
    "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "listener.name.outside.ssl.client.auth": "required",
    "listener.name.outside.scram-sha-256.sasl.jaas.config": "ScramLoginModule required;",
    "listener.name.outside.principal.builder.class": "org.example.Principals",
}


@pytest.mark.parametrize("key", ASKING)
def test_security_that_is_not_built_refuses_the_start(key: str) -> None:
    """The error is one sentence that names the key and contains no secret value."""
    with pytest.raises(InvalidBrokerConfig) as refused:
        KafkaConfig.from_properties({**MINIMAL, key: ASKING[key]})
    sentence = str(refused.value)
    assert sentence.startswith(key) and "remove the key" in sentence and "\n" not in sentence
    assert "hidden" not in sentence


@pytest.mark.parametrize("key", ASKING_NOTHING)
def test_defaults_and_keys_of_unused_listeners_only_warn(key: str) -> None:
    """The broker starts, and each key that it ignores is named."""
    _, warnings = KafkaConfig.from_properties({**MINIMAL, key: ASKING_NOTHING[key]})
    assert [warning.partition(":")[0] for warning in warnings] == [key]


@pytest.mark.parametrize("key", ["ssl.keystore.location", "ssl.client.auth", "sasl.enabled.mechanisms"])
def test_keys_of_listeners_with_security_are_used(key: str) -> None:
    """The broker neither refuses these keys nor names them in a warning."""
    secured = {"listeners": "SASL_SSL://:9092", "inter.broker.listener.name": "SASL_SSL"}
    values = {"ssl.keystore.location": "/k.pem", "ssl.client.auth": "none", "sasl.enabled.mechanisms": "PLAIN"}
    config, warnings = KafkaConfig.from_properties({**MINIMAL, **secured, key: values[key]})
    assert warnings == [] and config.listener_protocols == {"SASL_SSL": "SASL_SSL"}


@pytest.mark.parametrize(
    "key",
    ["ssl.keystore.location", "ssl.client.auth", "ssl.principal.mapping.rules", "sasl.enabled.mechanisms",
     "sasl.mechanism.inter.broker.protocol", "plain.sasl.jaas.config", "scram-sha-512.sasl.jaas.config"],
)  # fmt: skip
def test_a_listener_takes_its_own_keys_of_security(key: str) -> None:
    secured = {"listeners": "SASL_SSL://:9092", "inter.broker.listener.name": "SASL_SSL"}
    _, warnings = KafkaConfig.from_properties({**MINIMAL, **secured, f"listener.name.SASL_SSL.{key}": "PLAIN"})
    assert warnings == []


@pytest.mark.parametrize(
    "key",
    ["max.connections", "max.connection.creation.rate", "num.network.threads", "log.retention.ms", "sasl.jaas.config",
     "ssl.protocol"],
)  # fmt: skip
def test_a_key_without_effect_under_a_listener_is_named(key: str) -> None:
    """Kafka reads some of these keys under a listener's prefix. Without the warning, users would rely on a limit that
    does not exist.
    """
    secured = {"listeners": "SASL_SSL://:9092", "inter.broker.listener.name": "SASL_SSL"}
    name = f"listener.name.sasl_ssl.{key}"
    _, warnings = KafkaConfig.from_properties({**MINIMAL, **secured, name: "1"})
    assert warnings == [f"{name}: ignored, this broker does not read {key} under the prefix of a listener"]


@pytest.mark.parametrize("key", ["max.conections", "plain.plain.sasl.jaas.config", "plain.", ""])
def test_a_key_under_a_listener_that_nobody_knows(key: str) -> None:
    name = f"listener.name.internal.{key}"
    _, warnings = KafkaConfig.from_properties({**MINIMAL, name: "1"})
    assert warnings == [f"{name}: unknown configuration key, ignored"]


def test_an_unprefixed_login_module_and_client_auth_are_said_to_be_ignored() -> None:
    """Kafka ignores them, too: they would protect nothing."""
    keys = {"listeners": "SASL_SSL://:9092,SSL://:9093", "inter.broker.listener.name": "SSL",
            "sasl.jaas.config": "X required;", "ssl.client.auth": "required"}  # fmt: skip
    _, warnings = KafkaConfig.from_properties({**MINIMAL, **keys})
    assert [warning.partition(":")[0] for warning in warnings] == ["ssl.client.auth", "sasl.jaas.config"]


@pytest.mark.parametrize("entry", ["plaintext:SASL_SSL", " PLAINTEXT : sasl_ssl ", "Plaintext:Sasl_Ssl"])
def test_the_map_decides_on_the_protocol(entry: str) -> None:
    """Kafka compares names and protocols without regard to case and spaces."""
    config, _ = KafkaConfig.from_properties(
        {**MINIMAL, "listener.security.protocol.map": f"{entry},INTERNAL:PLAINTEXT"}
    )
    assert config.listener_protocols == {"PLAINTEXT": "SASL_SSL", "INTERNAL": "PLAINTEXT"}


def test_the_protocol_between_brokers_names_a_listener() -> None:
    keys = {"listeners": "PLAINTEXT://:9092,SSL://:9093", "security.inter.broker.protocol": "SSL"}
    assert KafkaConfig.from_properties({**MINIMAL, **keys})[0].inter_broker_listener == "SSL"
    for wrong in ({"security.inter.broker.protocol": "SASL_SSL"}, {"inter.broker.listener.name": "PLAINTEXT"}):
        with pytest.raises(InvalidBrokerConfig, match=r"inter\.broker"):
            KafkaConfig.from_properties({**MINIMAL, **keys, **wrong})


def test_the_map_is_read_without_regard_to_case() -> None:
    config, _ = KafkaConfig.from_properties({**MINIMAL, "listener.security.protocol.map": "internal:plaintext"})
    assert [listener.security_protocol for listener in config.listener_list] == ["PLAINTEXT", "PLAINTEXT"]


@pytest.mark.parametrize("key", ASKING)
@pytest.mark.parametrize("per_broker", [True, False])
def test_alter_configs_refuses_it_too(key: str, per_broker: bool) -> None:
    """AlterConfigs responds with INVALID_REQUEST and a sentence."""
    with pytest.raises(ApiError) as refused:
        DynamicBrokerConfig(MINIMAL).validate({key: ASKING[key]}, per_broker=per_broker)
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert key in str(refused.value)


@pytest.mark.parametrize("key", ["ssl.client.auth", "listener.name.internal.ssl.client.auth"])
def test_what_zookeeper_holds_counts_at_the_start(key: str) -> None:
    """A broker that starts refuses such a value; a running broker ignores the key and keeps the rest of the
    configuration.
    """
    dynamic = DynamicBrokerConfig(MINIMAL)
    with pytest.raises(InvalidBrokerConfig, match=key):
        dynamic.refuse_unbuilt_security({}, {key: ASKING[key]})
    config = dynamic.take({key: ASKING[key]}, {"max.connections": "7"})
    assert config.max_connections == 7
    dynamic.refuse_unbuilt_security({"listener.name.outside.ssl.client.auth": "required"}, {})
