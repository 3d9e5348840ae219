"""Copies the closed segments of led partitions to remote storage, and deletes expired ones there and here.

One task runs for each tiered partition at a time. It decides by the pure cores in ``storage.tiered``, and waits for
the storage plugin on threads (``StorageCalls``) and for the metadata. A task that fails begins again at the next
interval, from what the metadata say.
Source: RemoteLogManager.java@3.9.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple
from uuid import UUID

from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Clock
from kafka_zk.base.randomness import SYSTEM_RANDOM, random_uuid
from kafka_zk.base.turns import after
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.delayed_delete_records import delete_records, write_log_starts
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.partition import Partition, Role
from kafka_zk.broker.tiered.remote_log_metadata_manager import MetadataUnavailable, RemoteLogMetadataManager
from kafka_zk.broker.tiered.storage_calls import StorageCalls, StorageTimedOut
from kafka_zk.protocol import uuids
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.tiered_log import SegmentReading, apply_local_retention, replica_of
from kafka_zk.storage.tiered.copy_selection import CopyCandidate, segments_to_copy
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
"""For one segment. It moves 1 GiB at 0.6 MB/s."""
DELETE_TIMEOUT_S = 300.0
_ABANDONED_AFTER_MS = int(4 * COPY_TIMEOUT_S * 1000)
"""A copy that began earlier has failed, also if the clock of its broker is wrong by an hour."""
_ENDED = (TaskState.DONE, TaskState.FAILED)


class StoragePlugin(NamedTuple):
    """The plugin, with the calls that copy and those that delete."""

    storage: SegmentStorage
    copies: StorageCalls
    deletions: StorageCalls


class _Term:
    """What one task works on: it ends when this broker ceases to lead, or the log is replaced."""

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


class RemoteLogManager:
    """``create_topic``: begins to create ``__remote_log_metadata``."""

    def __init__(
        self,
        clock: Clock,
        replicas: ReplicaManager,
        metadata: RemoteLogMetadataManager,
        plugin: StoragePlugin,
        create_topic: Callable[[], None],
        random: Random = SYSTEM_RANDOM,
    ) -> None:
        self._clock = clock
        self._replicas = replicas
        self._metadata = metadata
        self._plugin = plugin
        self._create_topic = create_topic
        self._random = random
        self._running: set[TopicPartition] = set()
        self._turns = DeferredLock()
        self._busy: set[UUID] = set()  # segments that are copied or deleted now
        self._faults: dict[TopicPartition, str] = {}  # logged once, until the next success

    def run_tasks(self) -> None:
        """Begin a task for each tiered partition that has none. Call it periodically."""
        tiered = {
            tp: (partition, partition.log)
            for tp, partition in self._replicas.partitions.items()
            if partition.log is not None and partition.log.config.is_tiered and partition.topic_id != uuids.ZERO
        }
        self._metadata.assign([_id_of(partition) for partition, _ in tiered.values()])
        if not tiered:
            return
        if not self._metadata.is_ready:
            self._create_topic()
            return
        self._metadata.poll()
        for tp, (partition, log) in tiered.items():
            if tp not in self._running:
                self._running.add(tp)
                ensureDeferred(self._run(partition, log))

    async def _run(self, partition: Partition, log: Log) -> None:
        tp = partition.tp
        try:
            if partition.role is Role.LEADER:
                await self._lead(_Term(partition, _id_of(partition), log))
            else:
                await self._own_turn()
                if partition.log is log and log.config.is_tiered:
                    self._delete_local(log, self._metadata.log(_id_of(partition)))
        except (MetadataUnavailable, ObjectStoreError) as error:
            self._tell(tp, str(error))
        except OSError as error:
            self._replicas.logs.fail_directory(log, error)
        except Exception:
            _log.failure("the task of remote storage for {tp} failed", tp=tp)
        else:
            self._faults.pop(tp, None)
        finally:
            self._running.discard(tp)

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
        fault = None
        try:
            for candidate in segments_to_copy(remote, replica_of(log), log.last_stable_offset):
                if term.is_over or not await self._copy(term, candidate):
                    break
        except ObjectStoreError as error:
            fault = error  # a segment that cannot be copied must not keep all earlier ones
        if not term.is_over:
            self._delete_local(log, self._metadata.log(term.tp))
            await self._expire(term)
        if fault is not None:
            raise fault

    async def _own_turn(self) -> None:
        """Wait for a turn of the reactor without other tasks: the metadata of thousands of partitions become complete
        at the same time."""
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

    async def _copy(self, term: _Term, candidate: CopyCandidate) -> bool:
        """Returns whether the segment can now be read there. Raises: ObjectStoreError if the copy failed."""
        reading = SegmentReading.of(term.log, candidate.segment)
        if reading is None:
            return False
        segment = self._described(term, candidate)
        deadline_ms = segment.event_timestamp_ms + int(COPY_TIMEOUT_S * 1000)
        task = SegmentCopy(segment, deadline_ms)
        return await self._drive(term, task, reading) is TaskState.DONE

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
        """Delete expired remote segments, after the log start offset is durable: otherwise, a restart would offer
        records that are gone."""
        log, now_ms = term.log, self._clock.wall_ms()
        plan = remote_deletion(
            self._metadata.log(term.tp), replica_of(log), log.config, self._busy, now_ms - _ABANDONED_AFTER_MS, now_ms
        )
        if not await self._move_log_start(term, plan.log_start_offset):
            return
        for segment in plan.segments:
            if term.is_over or await self._drive(term, SegmentDeletion(segment)) is not TaskState.DONE:
                return

    # -- the state machines' effects ----------------------------------------------------------------------------------

    async def _drive(
        self, term: _Term, task: SegmentCopy | SegmentDeletion, reading: SegmentReading | None = None
    ) -> TaskState:
        """Run a task to its end. Raises: the first error of the plugin, when the task has ended."""
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
                    await plugin.copies.call(lambda: _copied(plugin.storage, segment, reading), COPY_TIMEOUT_S)
                    return TaskEvent.COPIED, None
                case RemoveObjects(segment):
                    await plugin.deletions.call(lambda: plugin.storage.delete(segment), DELETE_TIMEOUT_S)
                    return TaskEvent.REMOVED, None
        except (StorageTimedOut, MetadataUnavailable) as error:
            return TaskEvent.TIMED_OUT, error
        except ObjectStoreError as error:
            return TaskEvent.STEP_FAILED, error

    def _tell(self, tp: TopicPartition, fault: str) -> None:
        if fault != self._faults.get(tp):
            self._faults[tp] = fault
            _log.warn("remote storage of {tp}: {fault}; the next attempt follows", tp=tp, fault=fault)


def _copied(storage: SegmentStorage, segment: RemoteLogSegmentMetadata, reading: SegmentReading) -> None:
    """Raises: ObjectStoreError, also if the local files are damaged, or deleted meanwhile."""
    try:
        data = reading.run()
    except CorruptRecord as error:
        raise ObjectStoreError(f"nothing from there on is copied, or deleted here: {error}") from error
    except OSError as error:
        raise ObjectStoreError(f"{error.filename}: {error.strerror}") from error
    storage.copy(segment, data)


def _id_of(partition: Partition) -> TopicIdPartition:
    return TopicIdPartition(partition.topic_id, partition.tp.topic, partition.tp.partition)
