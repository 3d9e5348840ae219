"""server.properties: types, bounds, synonyms, and errors that name the key."""

import re

import pytest

from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig, Listener

MINIMAL = {"zookeeper.connect": "127.0.0.1:2181", "broker.id": "0"}


def parse(**properties: str) -> KafkaConfig:
    config, warnings = KafkaConfig.from_properties(
        {**MINIMAL, **{k.replace("_", "."): v for k, v in properties.items()}}
    )
    assert warnings == []
    return config


def test_defaults_are_kafkas() -> None:
    """A minimal file gives Kafka's defaults."""
    config = parse()
    assert config.listener_list == [Listener("PLAINTEXT", "PLAINTEXT", "", 9092)]
    assert config.zookeeper_session_timeout_ms == 18_000
    assert config.connection_timeout_ms == 18_000
    assert config.topic_defaults.retention_ms == 7 * 24 * 3600 * 1000
    assert config.topic_defaults.max_message_bytes == 1_048_588


def test_the_most_precise_spelling_of_a_topic_default_wins() -> None:
    """log.retention.ms overrides .minutes, which overrides .hours, as in Kafka."""
    assert parse(log_retention_hours="2").topic_defaults.retention_ms == 7_200_000
    assert parse(log_retention_hours="2", log_retention_minutes="3").topic_defaults.retention_ms == 180_000
    assert parse(log_retention_minutes="3", log_retention_ms="4").topic_defaults.retention_ms == 4
    assert parse(log_retention_hours="-1").topic_defaults.retention_ms == -1


def test_names_of_listeners_have_no_case() -> None:
    """ListenerName.normalised does the same in Kafka."""
    config = parse(
        listeners="INTERNAL://h:1,CTRL://h:2", inter_broker_listener_name="internal",
        control_plane_listener_name="ctrl",
        listener_security_protocol_map="INTERNAL:PLAINTEXT,CTRL:PLAINTEXT",
    )  # fmt: skip
    assert config.broker_listeners == ["INTERNAL", "CTRL"]


def test_an_override_beats_the_file() -> None:
    """``--override`` wins."""
    config, _ = KafkaConfig.from_properties(MINIMAL, {"broker.id": "7"})
    assert config.broker_id == 7


def test_an_unknown_key_is_told_with_the_nearest_one() -> None:
    given = {"zookeeper.connect": "h:1", "log.retention.hurs": "1", "my.own.plugin": "x"}
    _, warnings = KafkaConfig.from_properties(given)
    assert warnings == [
        "log.retention.hurs: unknown configuration key, ignored; did you mean log.retention.hours?",
        "my.own.plugin: unknown configuration key, ignored",
    ]


def test_a_key_that_is_only_kept_is_not_unknown() -> None:
    """A key of Kafka that has no effect here is not taken for a spelling mistake."""
    _, warnings = KafkaConfig.from_properties({**MINIMAL, "alter.config.policy.class.name": ""})
    assert warnings == ["alter.config.policy.class.name: ignored, this broker does not use it"]


def test_an_unknown_key_is_a_warning_that_names_it() -> None:
    """A misspelt key is a warning; a key that only a JVM broker uses is not."""
    _, warnings = KafkaConfig.from_properties({**MINIMAL, "lisneters": "x", "num.io.threads": "8"})
    assert len(warnings) == 1
    assert "lisneters" in warnings[0]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("broker.id", "x"),
        ("broker.id", "-2"),
        ("num.partitions", "0"),
        ("auto.create.topics.enable", "yes"),
        ("listeners", "PLAINTEXT:9092"),
        ("listeners", "OUTSIDE://:9092"),
        ("listeners", "PLAINTEXT://:1,PLAINTEXT://:2"),
        ("listeners", "PLAINTEXT://h\0:9092"),
        ("listeners", "PLAINTEXT://ü..h:9092"),
        ("advertised.listeners", "EXTERNAL://h:1"),
        ("inter.broker.listener.name", "INTERNAL"),
        ("control.plane.listener.name", "CONTROL"),
        ("control.plane.listener.name", "plaintext"),
        ("zookeeper.connect", ""),
        ("log.retention.hours", "x"),
        ("log.segment.bytes", "3"),
        ("log.cleanup.policy", "shred"),
        ("log.cleaner.dedupe.buffer.size", "1048576"),
        ("log.cleaner.threads", "-1"),
        ("log.cleaner.backoff.ms", "-1"),
        ("default.replication.factor", "0"),
        ("offsets.topic.replication.factor", "0"),
        ("offsets.topic.num.partitions", "0"),
        ("group.max.size", "0"),
        ("socket.request.max.bytes", "0"),
        ("queued.max.request.bytes", "1000"),
        ("process.roles", "broker"),
        ("zookeeper.metadata.migration.enable", "true"),
    ],
)
def test_a_bad_value_is_refused_with_its_key(key: str, value: str) -> None:
    """The message names the key that the user wrote and what its value must be."""
    with pytest.raises(InvalidBrokerConfig, match=f"^{re.escape(key)}.*must"):
        KafkaConfig.from_properties({**MINIMAL, key: value})


def test_a_listener_is_advertised_as_bound_unless_said_otherwise() -> None:
    """advertised.listeners overrides by name."""
    config = parse(
        listeners="PLAINTEXT://127.0.0.1:1,INTERNAL://127.0.0.1:2",
        advertised_listeners="PLAINTEXT://kafka.example:9",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
    )
    assert [(a.name, a.host, a.port) for a in config.advertised_listener_list] == [
        ("PLAINTEXT", "kafka.example", 9),
        ("INTERNAL", "127.0.0.1", 2),
    ]
