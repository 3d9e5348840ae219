"""``__transaction_state``, created at the first request for a transaction coordinator.

If ``transaction.state.log.min.isr`` is not configured, it is 2, as in Kafka, or 1 with a single replica.

Source: TransactionStateManager.transactionTopicConfigs@3.9.
"""

from random import Random

from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.coordinator.internal_topic import InternalTopic, InternalTopicSettings
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.registry.topics import TopicRegistry

TRANSACTION_STATE_TOPIC = "__transaction_state"

_MIN_ISR = "transaction.state.log.min.isr"


class TransactionStateTopic(InternalTopic):
    """The transaction topic with its settings in ``server.properties``."""

    def __init__(
        self, config: KafkaConfig, metadata: MetadataCache, topics: TopicRegistry, random: Random = SYSTEM_RANDOM
    ) -> None:
        def properties(replication_factor: int) -> dict[str, str | None]:
            min_isr = config.transaction_state_log_min_isr
            if _MIN_ISR not in config.properties:
                min_isr = min(min_isr, replication_factor)
            return {
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": str(min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
            }

        settings = InternalTopicSettings(
            TRANSACTION_STATE_TOPIC,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            "transaction.state.log.replication.factor",
            properties,
        )
        super().__init__(settings, config, metadata, topics, random)
