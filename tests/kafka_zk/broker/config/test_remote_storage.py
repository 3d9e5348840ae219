"""Remote storage in ``server.properties``."""

import pytest

from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.broker.config.remote_storage import LocalTieredStorageConfig, RemoteStorageConfig
from kafka_zk.broker.config.values import BadValue, TieredStorageDisabled, check_topic
from kafka_zk.storage.files.log_config import LogConfig

TIERED = {
    "zookeeper.connect": "z:1", "broker.id": "0", "log.dirs": "/x",
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "rsm.config.dir": "/remote",
}  # fmt: skip


def test_the_keys_of_the_plugins() -> None:
    config, warnings = KafkaConfig.from_properties(
        {**TIERED, "rlmm.config.remote.log.metadata.topic.num.partitions": "5"}
    )
    assert RemoteStorageConfig.of(config) == (LocalTieredStorageConfig("/remote"), 5, 3)
    assert config.topic_defaults.remote_log_storage_system_enable
    assert not warnings
    _, warnings = KafkaConfig.from_properties({**TIERED, "rsm.config.delete.on.close": "true"})
    assert len(warnings) == 1
    _, warnings = KafkaConfig.from_properties({**TIERED, "remote.log.storage.system.enable": "false"})
    assert len(warnings) == 1  # rsm.config.dir


@pytest.mark.parametrize("is_enabled", ["true", "false"])
def test_keys_of_a_file_that_brokers_of_apache_kafka_read_too_cause_no_warnings(is_enabled: str) -> None:
    shared = {
        "log.initial.task.delay.ms": "500",
        "remote.log.metadata.manager.class.path": "/metadata.jar",
        "remote.log.metadata.manager.listener.name": "plaintext",
        "remote.log.storage.manager.class.path": "/storage.jar",
        "remote.log.storage.system.enable": is_enabled,
    }
    _, warnings = KafkaConfig.from_properties({**TIERED, **shared})
    assert not [each for each in warnings if not each.startswith("rsm.config.dir")]


def test_the_metadata_are_read_through_the_listener_between_brokers() -> None:
    """Brokers have no other login."""
    listeners = {
        "listeners": "CLIENT://:1,PEER://:2", "listener.security.protocol.map": "CLIENT:PLAINTEXT,PEER:PLAINTEXT",
        "inter.broker.listener.name": "PEER",
    }  # fmt: skip
    key = "remote.log.metadata.manager.listener.name"
    assert KafkaConfig.from_properties({**TIERED, **listeners, key: "PEER"})[1] == []
    assert KafkaConfig.from_properties({**TIERED, **listeners, key: "CLIENT"})[1] == [
        f"{key}=CLIENT: ignored; brokers read the metadata through their own listener PEER"
    ]
    problem = rf"^{key}=OTHER: must be one of \['CLIENT', 'PEER'\]$"
    with pytest.raises(InvalidBrokerConfig, match=problem):
        KafkaConfig.from_properties({**TIERED, **listeners, key: "OTHER"})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("remote.log.storage.manager.class.name", "com.example.Storage"),
        ("remote.log.storage.manager.class.name", ""),
        ("rsm.config.dir", ""),
        ("rlmm.config.remote.log.metadata.topic.num.partitions", "0"),
        ("rlmm.config.remote.log.metadata.topic.replication.factor", "many"),
        ("remote.log.storage.manager.impl.prefix", "other."),
        ("remote.log.metadata.manager.impl.prefix", "other."),
        ("remote.log.metadata.manager.class.name", "com.example.Metadata"),
        ("remote.log.metadata.manager.listener.name", "NONE"),
        ("remote.log.manager.copier.thread.pool.size", "0"),
        ("remote.log.manager.expiration.thread.pool.size", "0"),
        ("inter.broker.protocol.version", "3.4"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(key: str, text: str) -> None:
    with pytest.raises(InvalidBrokerConfig, match=f"^{key}"):
        KafkaConfig.from_properties({**TIERED, key: text})
    KafkaConfig.from_properties({**TIERED, "remote.log.storage.system.enable": "false", key: text})


def test_defaults_that_keep_more_here_than_at_all_are_refused() -> None:
    keys = {"log.local.retention.ms": "11", "log.retention.ms": "10"}
    problem = (
        "Invalid value 11 for configuration log.local.retention.ms: Value must not be more than log.retention.ms "
        "property value: 10"
    )
    with pytest.raises(InvalidBrokerConfig, match=f"^{problem}$"):
        KafkaConfig.from_properties({**TIERED, **keys})


DEFAULTS = LogConfig(remote_log_storage_system_enable=True)


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"cleanup.policy": "compact"}, "Remote log storage is unsupported for the compacted topics"),
        ({"cleanup.policy": "compact,delete"}, "Remote log storage is unsupported for the compacted topics"),
        ({"local.retention.ms": "11", "retention.ms": "10"}, "more than retention.ms property value: 10"),
        ({"local.retention.ms": "-1"}, "must not be -1 as retention.ms value is set as 604800000."),
        ({"local.retention.bytes": "11", "retention.bytes": "10"}, "more than retention.bytes property value: 10"),
        ({"local.retention.bytes": "-1", "retention.bytes": "10"}, "must not be -1 as retention.bytes value is set"),
    ],
)
def test_a_tiered_topic_that_cannot_work_is_refused(properties: dict[str, str], problem: str) -> None:
    """The messages are Kafka's. Without remote storage, the same settings are harmless."""
    check_topic(properties, DEFAULTS)
    with pytest.raises(BadValue, match=problem):
        check_topic({**properties, "remote.storage.enable": "true"}, DEFAULTS)


@pytest.mark.parametrize(
    "properties",
    [{}, {"local.retention.ms": "10", "retention.ms": "10"}, {"local.retention.ms": "-1", "retention.ms": "-1"}],
)
def test_a_topic_is_tiered_where_there_is_remote_storage(properties: dict[str, str]) -> None:
    tiered = {**properties, "remote.storage.enable": "true"}
    assert check_topic(tiered, DEFAULTS).is_tiered
    with pytest.raises(TieredStorageDisabled):
        check_topic(tiered, LogConfig())
