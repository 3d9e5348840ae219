"""Copies the closed segments of led partitions to remote storage, and deletes expired segments in remote storage and in
local logs.

Each tiered partition, and each partition of a deleted topic, has at most one task at a time. The pure cores in
``storage.tiered`` make the decisions. The task waits for the storage plugin, which runs on threads (``StorageCalls``),
and for the metadata. A failed task is started again at the next interval and continues from the state in the metadata.
Source: RemoteLogManager.java@3.9.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import NamedTuple
from uuid import UUID

from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Clock
from kafka_zk.base.randomness import SYSTEM_RANDOM, random_uuid
from kafka_zk.base.turns import after
from kafka_zk.broker.replica.delayed_delete_records import delete_records, write_log_starts
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.partition import Partition, Role
from kafka_zk.broker.tiered.broker_topic_stats import RemoteLogStats, RequestRates
from kafka_zk.broker.tiered.deleted_partitions import DeletedPartitions
from kafka_zk.broker.tiered.remote_log_metadata_manager import MetadataUnavailable, RemoteLogMetadataManager
from kafka_zk.broker.tiered.rlm_quota_manager import RLMQuotaManager
from kafka_zk.broker.tiered.storage_calls import StorageCalls, StorageTimedOut
from kafka_zk.protocol import uuids
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.tiered_log import SegmentReading, apply_local_retention, replica_of
from kafka_zk.storage.tiered.copy_selection import CopyCandidate, copy_lag, segments_to_copy
from kafka_zk.storage.tiered.epoch_lineage import first_readable_offset
from kafka_zk.storage.tiered.object_store import ObjectStoreError
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.remote_retention import remote_deletion
from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from kafka_zk.storage.tiered.segment_storage import SegmentStorage
from kafka_zk.storage.tiered.segment_tasks import (
    CopyObjects,
    RemoveObjects,
    SegmentCopy,
    SegmentDeletion,
    TaskEffect,
    TaskEvent,
    TaskState,
    WriteMetadata,
)

_log = Logger()

COPY_TIMEOUT_S = 1800.0
"""Maximum time to copy one segment, enough for 1 GiB at 0.6 MB/s."""
DELETE_TIMEOUT_S = 300.0
_ABANDONED_AFTER_MS = int(4 * COPY_TIMEOUT_S * 1000)
"""A copy that began longer ago than this has failed, even if its broker's clock is wrong by an hour."""
_MOST_ROUNDS_PAUSED = 31
_MOST_QUOTA_WAIT_S = 30.0
_ENDED = (TaskState.DONE, TaskState.FAILED)


class StoragePlugin(NamedTuple):
    """The storage plugin, its calls for copies and for deletions, and the quota for copies."""

    storage: SegmentStorage
    copies: StorageCalls
    deletions: StorageCalls
    copy_quota: RLMQuotaManager


class _Term:
    """A task's log and leadership. The term is over when this broker ceases to lead, or when the log is replaced or no
    longer tiered."""

    def __init__(self, partition: Partition, tp: TopicIdPartition, log: Log) -> None:
        self.tp = tp
        self.log = log
        self._partition = partition
        self._terms_ended = partition.terms_ended

    @property
    def is_over(self) -> bool:
        partition = self._partition
        is_same = partition.log is self.log and partition.terms_ended == self._terms_ended
        return partition.role is not Role.LEADER or not is_same or not self.log.config.is_tiered


class _SegmentDamaged(ObjectStoreError):
    """The local segment is damaged, so it cannot be copied. The store is not the cause."""


class _TopicDeleted:
    """The term of a task that deletes a deleted topic's remote segments. The term never ends, because any replica may
    delete these segments."""

    is_over = False


class _Pause(NamedTuple):
    """Rounds in which a partition copies nothing, because copies have failed. Each failed copy leaves a segment in the
    metadata until that segment is abandoned. Without pauses, a store that is unavailable for a day would leave
    thousands of such segments."""

    round_count: int
    rounds_left: int
    fault: ObjectStoreError

    @classmethod
    def after(cls, fault: ObjectStoreError, before: "_Pause | None") -> "_Pause":
        count = 0 if before is None else min(2 * before.round_count + 1, _MOST_ROUNDS_PAUSED)
        return cls(count, count, fault)


class RemoteLogManager:
    """``create_topic``: begins to create ``__remote_log_metadata``.

    Attributes:
        copies, deletions: counts of the requests to the storage plugin.
        stats: values of the partitions that this broker leads.
    """

    def __init__(
        self,
        clock: Clock,
        replicas: ReplicaManager,
        metadata: RemoteLogMetadataManager,
        plugin: StoragePlugin,
        create_topic: Callable[[], None],
        deleted: DeletedPartitions,
        random: Random = SYSTEM_RANDOM,
    ) -> None:
        self._clock = clock
        self._replicas = replicas
        self._metadata = metadata
        self._plugin = plugin
        self._create_topic = create_topic
        self._deleted = deleted
        self._random = random
        self.copies, self.deletions = RequestRates(), RequestRates()
        self.stats: dict[TopicIdPartition, RemoteLogStats] = {}
        self._running: set[TopicIdPartition] = set()
        self._turns = DeferredLock()
        self._busy: set[UUID] = set()  # ids of segments that are being copied or deleted
        self._pauses: dict[TopicIdPartition, _Pause] = {}
        self._faults: dict[TopicIdPartition, set[type[Exception]]] = {}  # already logged; cleared by the next success
        self._is_asking = False  # while ZooKeeper is asked which topics are gone
        self._registry_fault = ""  # ZooKeeper's last error that was logged

    def run_tasks(self) -> None:
        """Start a task for each tiered partition without a task. Call this periodically."""
        tiered = {
            _id_of(partition): (partition, partition.log)
            for partition in self._replicas.partitions.values()
            if partition.log is not None and partition.log.config.is_tiered and partition.topic_id != uuids.ZERO
        }
        self._pauses = {tp: pause for tp, pause in self._pauses.items() if tp in tiered}
        deleted = self._deleted.pending
        self._metadata.assign([*tiered, *deleted])
        self._faults = {tp: told for tp, told in self._faults.items() if tp in tiered or tp in deleted}
        led = [tp for tp, (partition, _) in tiered.items() if partition.role is Role.LEADER]
        self.stats = {tp: self.stats.get(tp) or RemoteLogStats() for tp in led}
        if not tiered and not deleted:
            return
        if not self._metadata.is_ready:
            self._create_topic()
            return
        self._metadata.poll()
        for tp, (partition, log) in tiered.items():
            if tp not in self._running:
                ensureDeferred(self._run(tp, self._replicate(tp, partition, log)))
        if deleted and not self._is_asking:
            ensureDeferred(self._delete_partitions())

    async def _run(self, tp: TopicIdPartition, task: Awaitable[None]) -> None:
        self._running.add(tp)
        try:
            await task
        except (MetadataUnavailable, ObjectStoreError) as error:
            self._tell(tp, error)
        except Exception:
            _log.failure("the task of remote storage for {tp} failed", tp=_name(tp))
        else:
            self._faults.pop(tp, None)
        finally:
            self._running.discard(tp)

    async def _replicate(self, tp: TopicIdPartition, partition: Partition, log: Log) -> None:
        """One round of a replica. Raises: MetadataUnavailable, ObjectStoreError."""
        try:
            if partition.role is Role.LEADER:
                await self._lead(_Term(partition, tp, log))
            else:
                await self._own_turn()
                if partition.log is log and log.config.is_tiered:
                    self._delete_local(log, self._metadata.log(tp))
        except OSError as error:
            self._replicas.logs.fail_directory(log, error)

    async def _lead(self, term: _Term) -> None:
        """One round of a leader. Raises: MetadataUnavailable, ObjectStoreError, OSError."""
        log = term.log
        remote = await self._metadata.complete_log(term.tp)
        await self._own_turn()
        if term.is_over:
            return
        start = first_readable_offset(
            remote, log.leader_epochs.entries, log.log_start_offset, log.local_log_start_offset
        )
        if not await self._move_log_start(term, start):
            return
        self._note_copy_lag(term)
        fault = await self._copy_all(term, remote)  # after a failed copy, retention still deletes earlier segments
        await self._retain(term)
        if fault is not None:
            raise fault

    async def _retain(self, term: _Term) -> None:
        """Delete expired segments, local and remote. Raises: MetadataUnavailable, ObjectStoreError."""
        if not term.is_over:
            self._delete_local(term.log, self._metadata.log(term.tp))
            await self._expire(term)

    async def _own_turn(self) -> None:
        """Wait for a reactor turn that no other task uses, because the metadata of thousands of partitions becomes
        complete at the same time."""
        async with self._turns:
            await after(self._clock, 0)

    async def _move_log_start(self, term: _Term, offset: int) -> bool:
        """Move the log start offset durably. Returns False if that is not possible now."""
        if offset <= term.log.log_start_offset:
            return True
        if offset > term.log.high_watermark:
            return False
        tp = term.log.tp
        delete_records(self._replicas, tp, offset)
        await write_log_starts(self._replicas, [tp])
        self._replicas.purgatory.check(tp)
        return not term.is_over

    def _delete_local(self, log: Log, remote: RemotePartitionLog) -> None:
        apply_local_retention(log, remote, self._clock.wall_ms())

    # -- copy ---------------------------------------------------------------------------------------------------------

    async def _copy_all(self, term: _Term, remote: RemotePartitionLog) -> ObjectStoreError | None:
        """Copy the segments that are due. Returns the error of a failed copy, and again during the pause after it."""
        log, pause = term.log, self._pauses.get(term.tp)
        if pause is not None and pause.rounds_left:
            self._pauses[term.tp] = pause._replace(rounds_left=pause.rounds_left - 1)
            return pause.fault
        try:
            for candidate in segments_to_copy(remote, replica_of(log), log.last_stable_offset):
                if not await self._wait_for_quota(term) or not await self._copy(term, candidate):
                    break
                self._note_copy_lag(term)
        except ObjectStoreError as error:
            self._pauses[term.tp] = _Pause.after(error, pause)
            return error
        self._pauses.pop(term.tp, None)
        return None

    async def _wait_for_quota(self, term: _Term) -> bool:
        """Wait until the quota allows a copy. Before a wait, run retention; its errors do not stop the copies, because
        retention is repeated at the end of the round. Returns False after _MOST_QUOTA_WAIT_S; the next round then
        continues, so that retention does not wait for a long backlog of copies.
        """
        quota = self._plugin.copy_quota
        if quota.throttle_ms:
            with suppress(MetadataUnavailable, ObjectStoreError):
                await self._retain(term)
            end_s = self._clock.seconds() + _MOST_QUOTA_WAIT_S
            await quota.wait(lambda: term.is_over or self._clock.seconds() >= end_s)
        return not term.is_over and not quota.throttle_ms

    async def _copy(self, term: _Term, candidate: CopyCandidate) -> bool:
        """Copy a segment. Returns True if it can now be read from remote storage. Raises: ObjectStoreError if the copy
        failed."""
        reading = SegmentReading.of(term.log, candidate.segment)
        if reading is None:
            return False
        self._plugin.copy_quota.record(candidate.segment.size_bytes)
        segment = self._described(term, candidate)
        deadline_ms = segment.event_timestamp_ms + int(COPY_TIMEOUT_S * 1000)
        task = SegmentCopy(segment, deadline_ms)
        return await self._drive(term, task, reading) is TaskState.DONE

    def _note_copy_lag(self, term: _Term) -> None:
        if stats := self.stats.get(term.tp):
            lag = copy_lag(self._metadata.log(term.tp), replica_of(term.log))
            stats.copy_lag_bytes, stats.copy_lag_segments = lag

    def _described(self, term: _Term, candidate: CopyCandidate) -> RemoteLogSegmentMetadata:
        segment = candidate.segment
        return RemoteLogSegmentMetadata(
            RemoteLogSegmentId(term.tp, random_uuid(self._random)),
            segment.base_offset,
            segment.next_offset - 1,
            segment.max_timestamp_ms,
            self._clock.wall_ms(),
            candidate.leader_epochs,
            segment.size_bytes,
            None,
            RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        )

    # -- remote retention ---------------------------------------------------------------------------------------------

    async def _expire(self, term: _Term) -> None:
        """Make the log start offset durable, then delete expired remote segments. In the other order, the log could,
        after a restart, contain offsets whose records are gone."""
        log, now_ms = term.log, self._clock.wall_ms()
        plan = remote_deletion(
            self._metadata.log(term.tp), replica_of(log), log.config, self._busy, now_ms - _ABANDONED_AFTER_MS, now_ms
        )
        if not await self._move_log_start(term, plan.log_start_offset):
            return
        self._note_remote_size(term, plan.segments)
        for segment in plan.segments:
            if term.is_over or await self._drive(term, SegmentDeletion(segment)) is not TaskState.DONE:
                return
            if stats := self.stats.get(term.tp):
                stats.delete_lag_segments -= 1
                stats.delete_lag_bytes -= segment.size_bytes

    def _note_remote_size(self, term: _Term, expired: Sequence[RemoteLogSegmentMetadata]) -> None:
        if stats := self.stats.get(term.tp):
            segments = self._metadata.log(term.tp).segments.values()
            stats.metadata_count, stats.size_bytes = len(segments), sum(each.size_bytes for each in segments)
            stats.delete_lag_segments, stats.delete_lag_bytes = len(expired), sum(each.size_bytes for each in expired)

    async def _delete_partitions(self) -> None:
        self._is_asking = True
        try:
            gone = await self._deleted.of_gone_topics()
        except RegistryError as error:
            if str(error) != self._registry_fault:
                self._registry_fault = str(error)
                _log.warn(
                    "remote segments of deleted topics could not be deleted, trying again later: {error}", error=error
                )
            return
        finally:
            self._is_asking = False
        self._registry_fault = ""
        for tp in gone:
            if tp not in self._running:  # otherwise, a task that began while this broker led is still running
                ensureDeferred(self._run(tp, self._delete_partition(tp)))

    async def _delete_partition(self, tp: TopicIdPartition) -> None:
        """Delete all remote segments of a deleted topic's partition. Rounds are repeated until one finds no segment,
        because a former leader may have begun a copy. Raises: MetadataUnavailable, ObjectStoreError."""
        remote = await self._metadata.complete_log(tp)
        await self._own_turn()
        segments = sorted(remote.segments.values(), key=lambda each: each.start_offset)
        if not segments:
            await self._deleted.forget(tp)
        for segment in segments:
            if await self._drive(_TopicDeleted(), SegmentDeletion(segment)) is not TaskState.DONE:
                return

    # -- the state machines' effects ----------------------------------------------------------------------------------

    async def _drive(
        self, term: _Term | _TopicDeleted, task: SegmentCopy | SegmentDeletion, reading: SegmentReading | None = None
    ) -> TaskState:
        """Run a task to its end, then raise the first error of the plugin or of the metadata, if any."""
        key = task.segment.segment_id.id
        self._busy.add(key)
        fault: ObjectStoreError | MetadataUnavailable | None = None
        try:
            effect = task.step(TaskEvent.BEGUN, self._clock.wall_ms())
            while effect is not None:
                event, error = await self._carry_out(effect, reading)
                fault = fault or error
                if term.is_over:
                    task.step(TaskEvent.DEPOSED, self._clock.wall_ms())
                    if task.state in _ENDED:
                        break
                effect = task.step(event, self._clock.wall_ms())
        finally:
            self._busy.discard(key)
        if fault is not None:
            raise fault
        return task.state

    async def _carry_out(
        self, effect: TaskEffect, reading: SegmentReading | None
    ) -> tuple[TaskEvent, ObjectStoreError | MetadataUnavailable | None]:
        plugin = self._plugin
        try:
            match effect:
                case WriteMetadata(record):
                    await self._metadata.write(record)
                    return TaskEvent.WRITTEN, None
                case CopyObjects(segment):
                    assert reading is not None
                    copying = plugin.copies.call(lambda: _copied(plugin.storage, segment, reading), COPY_TIMEOUT_S)
                    await self.copies.counted(copying)
                    self.copies.size_bytes += segment.size_bytes
                    return TaskEvent.COPIED, None
                case RemoveObjects(segment):
                    deleting = plugin.deletions.call(lambda: plugin.storage.delete(segment), DELETE_TIMEOUT_S)
                    await self.deletions.counted(deleting)
                    return TaskEvent.REMOVED, None
        except (StorageTimedOut, MetadataUnavailable) as error:
            return TaskEvent.TIMED_OUT, error
        except ObjectStoreError as error:
            return TaskEvent.STEP_FAILED, error

    def _tell(self, tp: TopicIdPartition, fault: Exception) -> None:
        """Log a partition's first fault, and no other until one of its tasks succeeds. The messages of one outage
        differ (each attempt has a new segment id, and may fail or time out), so they are not compared."""
        told = self._faults.setdefault(tp, set())
        kind = _SegmentDamaged if isinstance(fault, _SegmentDamaged) else Exception
        if kind not in told:
            told.add(kind)
            _log.warn("remote storage of {tp}: {fault}; retrying", tp=_name(tp), fault=fault)


def _copied(storage: SegmentStorage, segment: RemoteLogSegmentMetadata, reading: SegmentReading) -> None:
    """Copy a segment's files to the store. Raises: ObjectStoreError, also if the local files are damaged, or were
    deleted."""
    try:
        data = reading.run()
    except CorruptRecord as error:
        raise _SegmentDamaged(f"from this segment on, nothing is copied or deleted locally: {error}") from error
    except OSError as error:
        raise ObjectStoreError(f"{error.filename}: {error.strerror}") from error
    storage.copy(segment, data)


def _name(tp: TopicIdPartition) -> str:
    return f"{tp.topic}-{tp.partition}"


def _id_of(partition: Partition) -> TopicIdPartition:
    return TopicIdPartition(partition.topic_id, partition.tp.topic, partition.tp.partition)
