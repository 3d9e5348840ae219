"""Remote storage in ``server.properties``: the plugin's folder, and the settings of ``__remote_log_metadata``.

Source: RemoteLogManagerConfig.java, TopicBasedRemoteLogMetadataManagerConfig.java@3.9.
"""

from typing import NamedTuple

from kafka_zk.base.integers import NATURAL_INT32, decimal_integer
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig

FOLDER = "rsm.config.dir"
PARTITION_COUNT = "rlmm.config.remote.log.metadata.topic.num.partitions"
REPLICATION_FACTOR = "rlmm.config.remote.log.metadata.topic.replication.factor"


class RemoteStorageConfig(NamedTuple):
    """``folder``: in which Kafka's LocalTieredStorage has its own."""

    folder: str
    partition_count: int
    replication_factor: int

    @classmethod
    def of(cls, config: KafkaConfig) -> "RemoteStorageConfig":
        """Raises: InvalidBrokerConfig."""
        plugin = config.remote_log_storage_manager_class_name
        if plugin is None or not plugin.endswith("LocalTieredStorage"):
            raise InvalidBrokerConfig(
                f"remote.log.storage.manager.class.name={plugin or ''}: must be a name that ends in LocalTieredStorage"
            )
        folder = config.properties.get(FOLDER)
        if not folder:
            raise InvalidBrokerConfig(f"{FOLDER}: missing; must be the folder of remote storage")
        return cls(folder, _count(config, PARTITION_COUNT, 50), _count(config, REPLICATION_FACTOR, 3))


def _count(config: KafkaConfig, key: str, default: int) -> int:
    text = config.properties.get(key)
    number = default if text is None else decimal_integer(text.strip(), NATURAL_INT32)
    if not number:
        raise InvalidBrokerConfig(f"{key}={text}: must be a number of at least 1")
    return number
