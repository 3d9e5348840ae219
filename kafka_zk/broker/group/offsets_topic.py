"""``__consumer_offsets``, created at the first request for a group coordinator.

Source: GroupCoordinator.offsetsTopicConfigs@3.9.
"""

from random import Random

from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.coordinator.internal_topic import InternalTopic, InternalTopicSettings
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.registry.topics import TopicRegistry


class OffsetsTopic(InternalTopic):
    """The offsets topic with its settings from ``server.properties``."""

    def __init__(
        self, config: KafkaConfig, metadata: MetadataCache, topics: TopicRegistry, random: Random = SYSTEM_RANDOM
    ) -> None:
        settings = InternalTopicSettings(
            OFFSETS_TOPIC,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            "offsets.topic.replication.factor",
            lambda replication_factor: {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
        super().__init__(settings, config, metadata, topics, random)
