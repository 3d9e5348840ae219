"""All partitions of this broker: takes the controller's decisions, appends, reads.

The driver of ``Partition``: it owns the logs. Everything runs on the reactor thread; what blocks longer than an append
is the log manager's business.

Source: ReplicaManager.scala@3.9.
"""

import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from twisted.internet.defer import DeferredLock, ensureDeferred

from kafka_zk import uuids
from kafka_zk.metadata_cache import MetadataCache
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.purgatory import Purgatory
from kafka_zk.replica.partition import Bound, Partition
from storage.config_table import LONG_MAX
from storage.errors import InvalidConfig, OffsetOutOfRange
from storage.log import Log
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.log_reader import LogRead
from storage.log_validator import validate_batch
from storage.types import LogAppendInfo, TopicPartition

logger = logging.getLogger(__name__)

HIGH_WATERMARK_OFFSET = -1

RunInThread = Callable[[Callable[[], None]], Awaitable[None]]


class LeaderState(NamedTuple):
    """One partition of a LeaderAndIsr request with what this broker looked up for it.

    ``topic_properties`` is None where they cannot be understood.
    """

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    state: Any
    topic_properties: Mapping[str, str] | None


class ReplicaManager:
    """Partitions by topic and number; created and led as LeaderAndIsr says, stopped as StopReplica says.

    Changes to many partitions are made step by step, with other work in between. Whoever makes them holds
    ``state_changes`` from before it reads what it applies until it is done, so that nothing older overwrites it.

    ``log_dir_count``: how many log directories are configured, those that failed included.
    """

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        topic_defaults: LogConfig,
        fetch_purgatory: Purgatory,
        run_in_thread: RunInThread,
        metadata: MetadataCache,
        log_dir_count: int,
    ) -> None:
        self.broker_id = broker_id
        self.logs = logs
        self.controller_epoch = -1
        self.partitions: dict[TopicPartition, Partition] = {}
        self._topic_defaults = topic_defaults
        self._fetch_purgatory = fetch_purgatory
        self._metadata = metadata
        self._log_dir_count = log_dir_count
        self.run_in_thread = run_in_thread
        self.state_changes = DeferredLock()

    # -- data ---------------------------------------------------------------------------------------------------------

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """Raises ApiError when this broker has no such replica: NOT_LEADER_OR_FOLLOWER if the partition is elsewhere,
        UNKNOWN_TOPIC_OR_PARTITION if it is nowhere."""
        partition = self.partitions.get(topic_partition)
        if partition is None:
            is_elsewhere = self._metadata.partition(*topic_partition) is not None
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    def append(
        self, topic_partition: TopicPartition, records: memoryview, acks: int, to_flush: dict[Partition, Log]
    ) -> LogAppendInfo:
        """Append one producer batch (writable view of its frame) and wake those who wait for it.

        If that passes the topic's ``flush.messages``, nobody sees it yet and it is noted in ``to_flush``: await
        ``flush`` before answering.
        Raises: ApiError, StorageError; OSError after the log directory was taken offline.
        """
        partition = self.partition(topic_partition)
        log = partition.leader_log()
        if acks == -1:
            partition.check_enough_replicas(log)
        header = validate_batch(records)
        if header.attributes & 0x10:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "Transactions are not built yet.")
        now_ms = time.time_ns() // 1_000_000
        try:
            info = log.append_as_leader(records, header, leader_epoch=partition.leader_epoch, now_ms=now_ms)
        except OSError as error:
            self.logs.fail_directory(log, error)
            raise
        if log.config.flush_messages < LONG_MAX and log.flush_due(now_ms):
            if partition not in to_flush:
                to_flush[partition] = log
                partition.flush_begins(log.log_end_offset if info.duplicate else info.first_offset)
        else:
            self._fetch_purgatory.check(topic_partition)
        return info

    async def flush(self, due: Mapping[Partition, Log]) -> None:
        """Make what ``append`` noted durable, in threads, and then visible.

        Raises: OSError after the log directory was taken offline.
        """
        flushes = [ensureDeferred(self._flush_log(partition, log)) for partition, log in due.items()]
        errors = [await flushing for flushing in flushes]
        for error in errors:
            if error is not None:
                raise error

    async def _flush_log(self, partition: Partition, log: Log) -> OSError | None:
        try:
            work, done = log.prepare_flush()
            try:
                await self.run_in_thread(work)
            finally:
                done()
        except OSError as error:
            self.logs.fail_directory(log, error)
            return error
        finally:
            partition.flush_ended()
            self._fetch_purgatory.check(partition.topic_partition)
        return None

    def read(
        self,
        topic_partition: TopicPartition,
        fetch_offset: int,
        max_bytes: int,
        bound: Bound,
        *,
        current_leader_epoch: int = -1,
        min_one_batch: bool = True,
    ) -> tuple[Partition, Log, LogRead]:
        """A slice of the log from ``fetch_offset`` on; the caller releases it.

        Raises: ApiError, OffsetOutOfRange; OSError after the log directory was taken offline.
        """
        partition = self.partition(topic_partition)
        log = partition.leader_log(current_leader_epoch)
        try:
            found = log.read(
                fetch_offset,
                max_bytes,
                upper_bound_offset=partition.readable_end(bound),
                min_one_batch=min_one_batch,
            )
        except OSError as error:
            self.logs.fail_directory(log, error)
            raise
        return partition, log, found

    def delete_records(self, topic_partition: TopicPartition, offset: int) -> int:
        """Move the log start offset to ``offset`` (-1: the high watermark); returns the low watermark after that.

        Raises: ApiError; OffsetOutOfRange beyond the high watermark; OSError after the directory was taken offline.
        """
        partition = self.partition(topic_partition)
        log = partition.leader_log()
        if not log.config.is_deleted:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        wanted = partition.high_watermark if offset == HIGH_WATERMARK_OFFSET else offset
        if not 0 <= wanted <= partition.high_watermark:
            raise OffsetOutOfRange(f"{topic_partition}: offset {wanted} is not within [0, {partition.high_watermark}]")
        try:
            log.increment_log_start_offset(wanted)
        except OSError as error:
            self.logs.fail_directory(log, error)
            raise
        return log.log_start_offset

    def directory_failed(self, lost: Iterable[TopicPartition]) -> None:
        """The log manager took a directory offline: answer for its partitions with KAFKA_STORAGE_ERROR from now on."""
        for topic_partition in lost:
            partition = self.partitions.get(topic_partition)
            if partition is not None:
                partition.refusal = ErrorCode.KAFKA_STORAGE_ERROR
                partition.log = None
                self._fetch_purgatory.check(topic_partition)

    # -- the controller's decisions -----------------------------------------------------------------------------------

    def accept_controller(self, controller_epoch: int) -> bool:
        """Whether a request of a controller with that epoch counts; remembers the highest."""
        if controller_epoch < self.controller_epoch:
            logger.warning("ignored a request of controller epoch %d, have %d", controller_epoch, self.controller_epoch)
            return False
        self.controller_epoch = controller_epoch
        return True

    def become_leader_or_follower(
        self, states: Iterable[LeaderState]
    ) -> Iterator[tuple[TopicPartition, ErrorCode]]:
        """Carry out LeaderAndIsr, one partition a step; gives an error code for each. Hold ``state_changes``."""
        for state in states:
            yield state.topic_partition, self._take_state(state)

    def _take_state(self, wanted: LeaderState) -> ErrorCode:
        topic_partition = wanted.topic_partition
        partition = self.partitions.get(topic_partition) or Partition(self.broker_id, topic_partition)
        if partition.refusal is ErrorCode.KAFKA_STORAGE_ERROR:  # until a restart: its log is not to be begun anew
            return partition.refusal
        if partition.log is not None and not _same_topic(partition.log.topic_id, wanted.topic_id):
            partition.refusal = ErrorCode.INCONSISTENT_TOPIC_ID  # whoever writes now means the other topic
            self._fetch_purgatory.check(topic_partition)
            return partition.refusal
        if wanted.state.leader_epoch < partition.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self.broker_id not in wanted.state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition.take_state(wanted.state)
        partition.topic_id = wanted.topic_id
        self.partitions[topic_partition] = partition
        partition.refusal = self._open_log(partition, wanted.topic_properties, is_new=bool(wanted.state.is_new))
        self._fetch_purgatory.check(topic_partition)
        return partition.refusal or ErrorCode.NONE

    def _open_log(
        self, partition: Partition, topic_properties: Mapping[str, str] | None, *, is_new: bool = False
    ) -> ErrorCode | None:
        """Make sure that the log exists and follows the configuration; returns why the partition cannot be served."""
        refusal, config = self._usable_config(partition, topic_properties)
        if refusal is not None:
            return refusal
        try:
            refusal = self._find_log(partition, config, is_new)
            if partition.log is not None and partition.is_leader:
                partition.log.leader_epochs.begin(partition.leader_epoch, partition.log.log_end_offset)
        except OSError as error:
            logger.error("cannot open the log of %s: %s", partition.topic_partition, error)
            if partition.log is not None:
                self.logs.fail_directory(partition.log, error)
            partition.log = None
            return ErrorCode.KAFKA_STORAGE_ERROR
        return refusal

    def _find_log(self, partition: Partition, config: LogConfig, is_new: bool) -> ErrorCode | None:
        if partition.log is not None:
            partition.log.update_config(config)
            return None
        topic_partition = partition.topic_partition
        if not is_new and self.logs.get(topic_partition) is None and self._has_offline_directory:
            logger.error("the log of %s may lie in a log directory that failed", topic_partition)
            return ErrorCode.KAFKA_STORAGE_ERROR
        topic_id = None if partition.topic_id == uuids.ZERO else uuids.to_text(partition.topic_id)
        log = self.logs.get_or_create(topic_partition, config, topic_id)
        if not _same_topic(log.topic_id, partition.topic_id):
            logger.error("the log of %s belongs to topic id %s, not %s", topic_partition, log.topic_id, topic_id)
            return ErrorCode.INCONSISTENT_TOPIC_ID
        log.update_config(config)
        partition.log = log
        return None

    @property
    def _has_offline_directory(self) -> bool:
        return len(self.logs.live_directories) < self._log_dir_count

    def _usable_config(
        self, partition: Partition, properties: Mapping[str, str] | None
    ) -> tuple[ErrorCode | None, LogConfig]:
        topic = partition.topic_partition.topic
        if properties is None:
            return ErrorCode.INVALID_CONFIG, self._topic_defaults
        if len(partition.replicas) > 1:
            logger.error("%s asks for %d replicas; replication is not built yet", topic, len(partition.replicas))
            return ErrorCode.INVALID_REPLICATION_FACTOR, self._topic_defaults
        try:
            config = LogConfig.from_properties(properties, self._topic_defaults)
        except InvalidConfig as error:
            logger.error("%s has a configuration that is not allowed: %s", topic, error)
            return ErrorCode.INVALID_CONFIG, self._topic_defaults
        if config.is_compacted:
            logger.error("%s asks for cleanup.policy=compact; compaction is not built yet", topic)
            return ErrorCode.INVALID_CONFIG, config
        return None, config

    def stop_replica(self, topic_partition: TopicPartition, leader_epoch: int, *, delete: bool) -> ErrorCode:
        """Carry out StopReplica for one partition; ``leader_epoch`` -1 and -2 (topic deletion) always count."""
        partition = self.partitions.get(topic_partition)
        if partition is not None and partition.refusal is ErrorCode.KAFKA_STORAGE_ERROR:
            return partition.refusal  # its files are out of reach, and so is their deletion
        if partition is not None and 0 <= leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if delete and self.logs.get(topic_partition) is not None:
            try:
                self.logs.delete(topic_partition)
            except OSError as error:
                logger.error("cannot delete the log of %s: %s", topic_partition, error)
                return ErrorCode.KAFKA_STORAGE_ERROR
        self.partitions.pop(topic_partition, None)
        self._fetch_purgatory.check(topic_partition)
        return ErrorCode.NONE

    def set_topic_defaults(self, defaults: LogConfig) -> None:
        """The broker's defaults changed: they hold for new logs, for others after ``update_topic_configs``."""
        self._topic_defaults = defaults
        self.logs.default_config = defaults

    def update_topic_configs(self, changed: Mapping[str, Mapping[str, str] | None]) -> Iterator[TopicPartition]:
        """Topics' configurations changed: apply them to their logs, one at a step, or refuse a topic if its own cannot
        be understood (None) or asks for what is not built. Hold ``state_changes``."""
        for topic_partition, partition in list(self.partitions.items()):
            is_beyond_help = partition.refusal in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INCONSISTENT_TOPIC_ID)
            if topic_partition.topic in changed and not is_beyond_help:
                partition.refusal = self._open_log(partition, changed[topic_partition.topic])
                self._fetch_purgatory.check(topic_partition)
                yield topic_partition


def _same_topic(known: str | None, wanted: uuid.UUID) -> bool:
    return known is None or wanted == uuids.ZERO or known == uuids.to_text(wanted)
