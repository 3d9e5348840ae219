"""``__consumer_offsets`` is created when somebody first asks for the coordinator of a group.

Source: AutoTopicCreationManager.scala, GroupCoordinator.offsetsTopicConfigs@3.9.
"""

from random import Random

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger, LogLevel

from kafka_zk.config.kafka_config import KafkaConfig
from kafka_zk.group.partitions import OFFSETS_TOPIC
from kafka_zk.metadata import topic_creation
from kafka_zk.metadata.cache import MetadataCache
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.errors import RegistryError
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.system.randomness import SYSTEM_RANDOM

_log = Logger()

_REPLICATION_FACTOR = "offsets.topic.replication.factor"


class OffsetsTopic:
    """Creates the topic, once at a time; several brokers may try."""

    def __init__(
        self, config: KafkaConfig, metadata: MetadataCache, topics: TopicRegistry, random: Random = SYSTEM_RANDOM
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._topics = topics
        self._random = random
        self._is_creating = False

    def create(self) -> None:
        """Begin to create the topic, unless that is under way or no controller has told yet who is alive."""
        if self._is_creating or not self._metadata.brokers:
            return
        self._is_creating = True
        ensureDeferred(self._create()).addErrback(
            lambda failure: _log.failure("the offsets topic is not created", failure, level=LogLevel.error)
        )

    async def _create(self) -> None:
        config = self._config
        properties: dict[str, str | None] = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
        try:
            planned = topic_creation.plan(
                OFFSETS_TOPIC, config.offsets_topic_num_partitions, config.offsets_topic_replication_factor, {},
                properties, config, self._metadata, self._random,
            )  # fmt: skip
            await topic_creation.create(planned, self._topics)
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                _log.error("{topic} cannot be created: {error}", topic=OFFSETS_TOPIC, error=error)
        except RegistryError as error:
            _log.error("{topic} cannot be created: {error}", topic=OFFSETS_TOPIC, error=error)
        else:
            self._warn_of_one_replica()
        finally:
            self._is_creating = False

    def _warn_of_one_replica(self) -> None:
        if _REPLICATION_FACTOR not in self._config.properties:
            _log.warn(
                "{topic} was created with 1 replica: replication, and with it Kafka's default of 3, is not built yet",
                topic=OFFSETS_TOPIC,
            )
