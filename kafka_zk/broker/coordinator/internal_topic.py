"""Creates a coordinator's topic at the first request.

If a replication factor is configured and fewer brokers are live, the topic is not created, and clients retry (KIP-115).
Without a configured factor, it is 3, or the number of live brokers if that is smaller, so that a single broker works
without configuration. Source: AutoTopicCreationManager.scala@3.9.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger, LogLevel

from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.metadata import topic_creation
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.topics import TopicRegistry

_log = Logger()


class InternalTopicSettings(NamedTuple):
    """``replication_factor_key``: configures ``replication_factor``. ``properties``: the topic's configuration for a
    replication factor."""

    name: str
    partition_count: int
    replication_factor: int
    replication_factor_key: str
    properties: Callable[[int], dict[str, str | None]]


class InternalTopic:
    """Creates the topic, with one attempt at a time; other brokers may try concurrently."""

    def __init__(
        self,
        settings: InternalTopicSettings,
        config: KafkaConfig,
        metadata: MetadataCache,
        topics: TopicRegistry,
        random: Random = SYSTEM_RANDOM,
    ) -> None:
        self._settings = settings
        self._config = config
        self._metadata = metadata
        self._topics = topics
        self._random = random
        self._is_creating = False
        self._fault = ""  # logged once, because clients retry

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def is_creatable(self) -> bool:
        """True if enough brokers are live, or none are known yet."""
        live_count = len(self._metadata.brokers)
        return not live_count or self._replication_factor() <= live_count

    def create(self) -> None:
        """Begin to create the topic, unless an attempt is in progress or no live brokers are known yet."""
        if self._is_creating or not self._metadata.brokers:
            return
        self._is_creating = True
        ensureDeferred(self._create()).addErrback(
            lambda failure: _log.failure(
                "{topic} could not be created", failure, level=LogLevel.error, topic=self._settings.name
            )
        )

    async def _create(self) -> None:
        settings, count = self._settings, self._replication_factor()
        try:
            planned = topic_creation.plan(
                settings.name, settings.partition_count, count, {},
                settings.properties(count), self._config, self._metadata, self._random,
            )  # fmt: skip
            await topic_creation.create(planned, self._topics)
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                self._report(error)
        except RegistryError as error:
            self._report(error)
        else:
            self._fault = ""
            self._warn_of_few_replicas(planned.replication_factor)
        finally:
            self._is_creating = False

    def _report(self, error: Exception) -> None:
        if str(error) != self._fault:
            self._fault = str(error)
            _log.error("{topic} cannot be created: {error}", topic=self._settings.name, error=error)

    def _replication_factor(self) -> int:
        configured = self._settings.replication_factor
        if self._settings.replication_factor_key in self._config.properties:
            return configured
        return min(configured, len(self._metadata.brokers))

    def _warn_of_few_replicas(self, replication_factor: int) -> None:
        if replication_factor < self._settings.replication_factor:
            _log.warn(
                "{topic} was created with replication factor {count}, because no more brokers are live; set {key}"
                " to wait for others",
                topic=self._settings.name,
                count=replication_factor,
                key=self._settings.replication_factor_key,
            )
