"""``__remote_log_metadata``, created when this broker first hosts a tiered partition.

Source: TopicBasedRemoteLogMetadataManager.createTopic@3.9.
"""

from random import Random

from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.config.remote_storage import REMOTE_METADATA_REPLICATION, RemoteStorageConfig
from kafka_zk.broker.coordinator.internal_topic import InternalTopic, InternalTopicSettings
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC


class RemoteLogMetadataTopic(InternalTopic):
    """The topic's records are never deleted, and unclean elections are not allowed, because a remote segment
    without its record is lost."""

    def __init__(
        self, config: KafkaConfig, metadata: MetadataCache, topics: TopicRegistry, random: Random = SYSTEM_RANDOM
    ) -> None:
        of_storage = RemoteStorageConfig.of(config)
        settings = InternalTopicSettings(
            METADATA_TOPIC,
            of_storage.partition_count,
            of_storage.replication_factor,
            REMOTE_METADATA_REPLICATION,
            lambda replication_factor: {
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "retention.bytes": "-1",
                "remote.storage.enable": "false",
                "unclean.leader.election.enable": "false",
            },
        )
        super().__init__(settings, config, metadata, topics, random)
