"""A server.properties that asks for security which is not built starts no broker."""

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
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
    "security.inter.broker.protocol": "SASL_SSL",
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
    "authorizer.class.name": "",
    "super.users": " ",
    "security.inter.broker.protocol": "plaintext",
    "ssl.client.auth": "none",
    "sasl.enabled.mechanisms": "GSSAPI",
    "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "listener.name.outside.ssl.client.auth": "required",
    "listener.name.outside.scram-sha-256.sasl.jaas.config": "ScramLoginModule required;",
    "listener.name.outside.principal.builder.class": "org.example.Principals",
    "ssl.keystore.location": "/etc/kafka/keystore.jks",
}


@pytest.mark.parametrize("key", ASKING)
def test_security_that_is_not_built_refuses_the_start(key: str) -> None:
    """One sentence that names the key; a secret value is not in it."""
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


@pytest.mark.parametrize("entry", ["plaintext:SASL_SSL", " PLAINTEXT : ssl ", "Plaintext:SASL_PLAINTEXT"])
def test_a_listener_that_the_map_secures_is_not_opened(entry: str) -> None:
    """Kafka compares names and protocols without regard to case and spaces."""
    with pytest.raises(InvalidBrokerConfig, match="no usable security protocol for PLAINTEXT"):
        KafkaConfig.from_properties({**MINIMAL, "listener.security.protocol.map": f"{entry},INTERNAL:PLAINTEXT"})


def test_the_map_is_read_without_regard_to_case() -> None:
    config, _ = KafkaConfig.from_properties({**MINIMAL, "listener.security.protocol.map": "internal:plaintext"})
    assert [listener.security_protocol for listener in config.listener_list] == ["PLAINTEXT", "PLAINTEXT"]


@pytest.mark.parametrize("key", ASKING)
@pytest.mark.parametrize("per_broker", [True, False])
def test_alter_configs_refuses_it_too(key: str, per_broker: bool) -> None:
    """INVALID_REQUEST and a sentence."""
    with pytest.raises(ApiError) as refused:
        DynamicBrokerConfig(MINIMAL).validate({key: ASKING[key]}, per_broker=per_broker)
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert key in str(refused.value)


@pytest.mark.parametrize("key", ["super.users", "ssl.client.auth", "listener.name.internal.ssl.client.auth"])
def test_what_zookeeper_holds_counts_at_the_start(key: str) -> None:
    """A broker that starts refuses; one that runs ignores the key and keeps the rest of the configuration."""
    dynamic = DynamicBrokerConfig(MINIMAL)
    with pytest.raises(InvalidBrokerConfig, match=key):
        dynamic.refuse_unbuilt_security({}, {key: ASKING[key]})
    config = dynamic.take({key: ASKING[key]}, {"max.connections": "7"})
    assert config.max_connections == 7
    dynamic.refuse_unbuilt_security({"listener.name.outside.ssl.client.auth": "required"}, {})
