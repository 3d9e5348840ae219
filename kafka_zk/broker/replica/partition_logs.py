"""Opens the logs of partitions and applies their topics' configuration.

Source: Partition.createLogIfNotExists, ReplicaManager.makeLeader@3.9.
Tests: tests/kafka_zk/broker/replica/test_manager.py, tests/kafka_zk/broker/handlers/inter_broker/test_replicas.py.
"""

import uuid
from collections.abc import Mapping

from twisted.logger import Logger

from kafka_zk.broker.replica.partition import Partition
from kafka_zk.broker.replica.replication_quota import ReplicationQuotas
from kafka_zk.protocol import uuids
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.znodes.config import entity_path
from kafka_zk.storage.files.errors import InvalidConfig
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.log_manager import LogManager

_log = Logger()


class PartitionLogs:
    """``quotas``: notified of throttled replicas."""

    def __init__(self, logs: LogManager, quotas: ReplicationQuotas, broker_id: int) -> None:
        self._logs = logs
        self._quotas = quotas
        self._broker_id = broker_id
        self._last_config: tuple[dict[str, str], LogConfig, LogConfig] = ({}, logs.default_config, logs.default_config)
        self._told_of: set[str] = set()  # topics whose problem with remote storage was logged

    def open(
        self, partition: Partition, topic_properties: Mapping[str, str] | None, *, is_new: bool = False
    ) -> ErrorCode | None:
        """Open the log if necessary, with its configuration. Returns the error if the partition cannot be served."""
        refusal, config = self._usable_config(partition, topic_properties)
        if refusal is not None:
            return refusal
        self._check_remote_storage(partition.tp.topic, config)
        self._quotas.apply(partition.tp, self._broker_id, config)
        try:
            refusal = self._find_log(partition, config, is_new)
            if partition.log is not None and partition.is_leader:
                partition.log.leader_epochs.begin(partition.leader_epoch, partition.log.log_end_offset)
        except OSError as error:
            _log.error("cannot open the log of {tp}: {error}", tp=partition.tp, error=error)
            if partition.log is not None:
                self._logs.fail_directory(partition.log, error)
            partition.log = None
            return ErrorCode.KAFKA_STORAGE_ERROR
        return refusal

    def _check_remote_storage(self, topic: str, config: LogConfig) -> None:
        """Log once that a topic is tiered although this broker has no remote storage. A broker of Apache Kafka would
        not start."""
        if config.is_tiered:
            self._told_of.discard(topic)
        elif config.remote_storage_enable and not config.remote_log_storage_system_enable and self._is_news(topic):
            _log.error(
                "the topic {topic} has remote.storage.enable=true, but this broker has no remote storage: it keeps the"
                " records that retention.ms and retention.bytes allow, ignores local.retention.ms and"
                " local.retention.bytes, and cannot serve older records",
                topic=topic,
            )

    def _still_tiered(self, log: Log, config: LogConfig) -> LogConfig:
        """``config``, but still tiered if the log is tiered. Apache Kafka's brokers and tools can turn tiering off in
        ZooKeeper; records that are only in remote storage would then be lost."""
        if not log.config.is_tiered or config.is_tiered:
            return config
        if self._is_news(log.tp.topic):
            _log.error(
                "the topic {topic} stays tiered, because otherwise its records in remote storage would be lost; set the"
                " topic's remote.storage.enable=true again",
                topic=log.tp.topic,
            )
        return config.tiered()

    def _is_news(self, topic: str) -> bool:
        """True if the topic's problem has not been logged yet."""
        is_news = topic not in self._told_of
        self._told_of.add(topic)
        return is_news

    def _find_log(self, partition: Partition, config: LogConfig, is_new: bool) -> ErrorCode | None:
        tp = partition.tp
        if partition.log is not None:
            if partition.log.topic_id is None and partition.topic_id != uuids.ZERO:
                partition.log.set_topic_id(uuids.to_text(partition.topic_id))
            partition.log.update_config(self._still_tiered(partition.log, config))
            return None
        if not is_new and self._logs.get(tp) is None and self._logs.has_failed_directory:
            _log.error("the log of {tp} may be in a log directory that failed", tp=tp)
            return ErrorCode.KAFKA_STORAGE_ERROR
        topic_id = None if partition.topic_id == uuids.ZERO else uuids.to_text(partition.topic_id)
        log = self._logs.get_or_create(tp, config, topic_id)
        if not is_same_topic(log.topic_id, partition.topic_id):
            _log.error(
                "the log of {tp} belongs to topic id {found}, not {topic_id}",
                tp=tp,
                found=log.topic_id,
                topic_id=topic_id,
            )
            return ErrorCode.INCONSISTENT_TOPIC_ID
        log.update_config(self._still_tiered(log, config))
        partition.log = log
        return None

    def _usable_config(
        self, partition: Partition, properties: Mapping[str, str] | None
    ) -> tuple[ErrorCode | None, LogConfig]:
        """The configuration, or an error. If the properties are invalid or hidden, an open log keeps its configuration,
        as in Kafka."""
        if properties is not None:
            try:
                return None, self._log_config(properties).of_topic(partition.tp.topic)
            except InvalidConfig as error:
                path = entity_path("topics", partition.tp.topic)
                _log.error("{path} is invalid: {error}", path=path, error=error)
        if partition.log is None:
            return ErrorCode.INVALID_CONFIG, self._logs.default_config
        return None, partition.log.config

    def _log_config(self, properties: Mapping[str, str]) -> LogConfig:
        """The configuration for these properties. Consecutive partitions with equal properties share one object."""
        defaults = self._logs.default_config
        known_properties, known_defaults, config = self._last_config
        if properties != known_properties or defaults is not known_defaults:
            config = LogConfig.from_properties(properties, defaults)
            self._last_config = (dict(properties), defaults, config)
        return config


def is_same_topic(known: str | None, wanted: uuid.UUID) -> bool:
    """True if these may be the ids of one topic. None and zero mean unknown."""
    return known is None or wanted == uuids.ZERO or known == uuids.to_text(wanted)
