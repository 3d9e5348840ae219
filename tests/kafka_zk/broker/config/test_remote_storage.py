"""Remote storage in ``server.properties``."""

import pytest

from kafka_zk.broker.config import kafka_config
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.broker.config.remote_storage import RemoteStorageConfig
from kafka_zk.broker.config.values import BadValue, TieredStorageDisabled, check_topic
from kafka_zk.storage.files.log_config import LogConfig

TIERED = {
    "zookeeper.connect": "z:1", "broker.id": "0", "log.dirs": "/x",
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "rsm.config.dir": "/remote",
}  # fmt: skip


def test_remote_storage_cannot_be_turned_on_yet() -> None:
    """A broker that ignored the key would delete records that are not copied, and offer none that are."""
    with pytest.raises(InvalidBrokerConfig, match=r"^remote\.log\.storage\.system\.enable=true: must be false"):
        KafkaConfig.from_properties(TIERED)
    config, warnings = KafkaConfig.from_properties({**TIERED, "remote.log.storage.system.enable": "false"})
    assert not config.topic_defaults.remote_log_storage_system_enable
    assert len(warnings) == 1  # rsm.config.dir


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_config, "_check_no_remote_storage", lambda config: None)


@pytest.mark.usefixtures("allowed")
def test_the_keys_of_the_plugins() -> None:
    config, warnings = KafkaConfig.from_properties(
        {**TIERED, "rlmm.config.remote.log.metadata.topic.num.partitions": "5"}
    )
    assert RemoteStorageConfig.of(config) == ("/remote", 5, 3)
    assert config.topic_defaults.remote_log_storage_system_enable
    assert not warnings


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("remote.log.storage.manager.class.name", "com.example.Storage"),
        ("remote.log.storage.manager.class.name", ""),
        ("rsm.config.dir", ""),
        ("rlmm.config.remote.log.metadata.topic.num.partitions", "0"),
        ("rlmm.config.remote.log.metadata.topic.replication.factor", "many"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(key: str, text: str) -> None:
    config, _ = KafkaConfig.from_properties({**TIERED, key: text})
    with pytest.raises(InvalidBrokerConfig, match=f"^{key}"):
        RemoteStorageConfig.of(config)


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
    """With Kafka's sentences. Without remote storage, the same settings are harmless."""
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
