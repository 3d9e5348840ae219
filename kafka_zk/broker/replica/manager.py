"""All partitions of this broker: applies the controller's decisions, and appends and reads records.

Drives ``Partition`` and owns the logs, on the reactor thread. Work that takes longer than an append belongs to the log
manager. Source: ReplicaManager.scala@3.9.
"""

import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Clock
from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.base.threads import RunInThread
from kafka_zk.base.turns import Turns
from kafka_zk.base.types import FetchIsolation, LogAppendInfo, TopicPartition
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.replica.batch_helpers import BatchHelpers
from kafka_zk.broker.replica.delayed_produce import APPEND_ERRORS, AppendResult, DelayedProduce, Unreplicated
from kafka_zk.broker.replica.events import ControllerIgnored, ReplicasOffline, ReplicaStopped
from kafka_zk.broker.replica.flushes import Flushes
from kafka_zk.broker.replica.follower_waits import FOLLOWER_FETCHES, FollowerWaits
from kafka_zk.broker.replica.isr_updates import IsrUpdates, LogStart
from kafka_zk.broker.replica.partition import LeaderAndIsrPartitionState, Partition, Role
from kafka_zk.broker.replica.partition_changes import PartitionChanges
from kafka_zk.broker.replica.partition_logs import PartitionLogs, is_same_topic
from kafka_zk.broker.replica.purgatory import Purgatory
from kafka_zk.broker.replica.record_checks import RecordChecks
from kafka_zk.broker.replica.remote_replicas import InSyncRule
from kafka_zk.broker.replica.replication_quota import ReplicationQuotas
from kafka_zk.broker.replica.role_listeners import RoleListeners, role_state
from kafka_zk.broker.replica.topic_ids import TopicIds
from kafka_zk.broker.replica.transaction_verification import TransactionVerification
from kafka_zk.protocol import uuids
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.storage.files.config_table import LONG_MAX
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.verification_state import NOT_ALLOWED, UNVERIFIED, Guards, VerificationStateEntry
from kafka_zk.storage.manager.log_manager import LogManager
from kafka_zk.storage.records.end_transaction_marker import MarkerBatch
from kafka_zk.storage.records.log_validator import NotConformed, needs_conform, validate_batch
from kafka_zk.storage.records.record_batch import TRANSACTIONAL_FLAG
from kafka_zk.storage.segments.file_slice import FileSlice
from kafka_zk.storage.segments.log_segments import LogRead
from kafka_zk.storage.segments.transaction_index import AbortedTransaction

_log = Logger()

REPLICA_LAG_TIME_MAX_MS = 30_000

MarkersWritten: TypeAlias = Callable[[TopicPartition, int, Sequence[MarkerBatch]], None]
"""Called with a partition, the first marker's offset, and consecutive markers that all in-sync replicas have."""

Appended: TypeAlias = AppendResult | Unreplicated

_LEGAL_ACKS = (-1, 0, 1)
_SERVED = (Role.LEADER, Role.FOLLOWER)
_MANY = 100  # batches appended in one turn
_MANY_BYTES = 4 * 1024 * 1024  # their total size
_SETTLED = (LogAppendInfo, *APPEND_ERRORS)
_APPENDED = (Unreplicated, *_SETTLED)


class LeaderState(NamedTuple):
    """One partition of a LeaderAndIsr request, with its topic's configuration, which is None if an ACL hides it."""

    tp: TopicPartition
    topic_id: uuid.UUID
    state: LeaderAndIsrPartitionState
    topic_properties: Mapping[str, str] | None


class ReplicaManager:
    """This broker's partitions, which LeaderAndIsr creates and gives roles, and StopReplica removes.

    Many partitions are changed in steps, between which the reactor does other work. Hold ``state_changes`` from reading
    a state until it is applied, so that no older state overwrites it; ``role_changes`` is held while a portion of a
    LeaderAndIsr is applied. ``purgatory``: delayed fetches and appends.
    """

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        clock: Clock,
        purgatory: Purgatory,
        run_in_thread: RunInThread,
        metadata: MetadataCache,
        events: EventSource = SILENT,
    ) -> None:
        self.broker_id = broker_id
        self.logs = logs
        self.controller_epoch = -1
        self.partitions: dict[TopicPartition, Partition] = {}
        self.topic_ids = TopicIds()
        self._clock = clock
        self.purgatory = purgatory
        self.run_in_thread = run_in_thread
        self.batch_helpers = BatchHelpers(clock, lambda work: self.run_in_thread(work))
        self.record_checks = RecordChecks(clock.seconds)
        self._check_records = self.record_checks.check
        self._metadata = metadata
        self._events = events
        self.state_changes = DeferredLock()
        self.role_changes = DeferredLock()
        self.changes = PartitionChanges()
        """Changes of partitions with followers, noted before waiting requests are re-evaluated."""
        self.isr_updates = IsrUpdates(clock, self._isr_changed, events)
        self._flushes = Flushes(logs, clock, lambda work: self.run_in_thread(work), self.isr_updates.now_ms, self._wake)
        self.follower_waits = FollowerWaits(self.isr_updates.now_ms, purgatory.check)
        self.in_sync_rule = InSyncRule(REPLICA_LAG_TIME_MAX_MS, metadata.is_alive)
        self.quotas = ReplicationQuotas()
        self._partition_logs = PartitionLogs(logs, self.quotas, broker_id)
        self.replication_bytes_out = 0  # bytes in responses to followers
        self.role_listeners = RoleListeners(events)
        self.verification: TransactionVerification | None = None
        """Verifies transactions with their coordinators; None: no verification."""
        self.marker_listeners: list[MarkersWritten] = []

    # -- data ---------------------------------------------------------------------------------------------------------

    def partition(self, tp: TopicPartition) -> Partition:
        """A partition of this broker. Raises ApiError: NOT_LEADER_OR_FOLLOWER if another broker has a replica,
        otherwise UNKNOWN_TOPIC_OR_PARTITION."""
        partition = self.partitions.get(tp)
        if partition is None:
            is_elsewhere = self._metadata.partition(*tp) is not None
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    def hosts(self, topic: str | bytes, partition: int) -> bool:
        """True if this broker has a replica. ``topic``: a name, or an id of 16 bytes."""
        name = self.topic_ids.name(uuid.UUID(bytes=topic)) if isinstance(topic, bytes) else topic
        return name is not None and TopicPartition(name, partition) in self.partitions

    async def append_records(
        self,
        batches: Sequence[tuple[TopicPartition, memoryview]],
        required_acks: int,
        guards: Guards | None = None,
    ) -> list[AppendResult] | DelayedProduce:
        """Append one batch (a writable view) to each partition, and return the outcomes in this order.

        Batches that need no conversion are appended before the first await; a large number of batches takes several
        turns. Each outcome then waits for the flush that ``flush.messages`` requires. With ``required_acks`` -1, a
        DelayedProduce may wait for the high watermark, see ``replicated``.

        ``guards``: None if the client may not use transactions.
        """
        if required_acks not in _LEGAL_ACKS:
            return [ApiError(ErrorCode.INVALID_REQUIRED_ACKS) for _ in batches]
        turns = None
        if len(batches) > 1 and (
            len(batches) > _MANY
            or batches[0][0].topic != batches[-1][0].topic
            or sum([len(records) for _, records in batches]) > _MANY_BYTES
        ):
            turns = Turns(self._clock, ignores_disconnect=True)
        begun: list[Any] = []
        waits = False
        for tp, records in batches:
            if turns is not None and turns.is_over:
                await turns.next()
            guard = NOT_ALLOWED if guards is None else guards.get(tp, UNVERIFIED)
            try:
                result = self._append(tp, records, required_acks, guard)
            except NotConformed as needed:
                if turns is None:
                    turns = Turns(self._clock, ignores_disconnect=True)
                result = self._conform_and_append(tp, records, needed, required_acks, turns, guard)
            except APPEND_ERRORS as error:
                # The traceback refers to this frame and would keep the records until a garbage collection.
                result = error.with_traceback(None)
            if not isinstance(result, _SETTLED):
                waits = True
            begun.append(result)
        if not waits:
            return begun
        results = [result if isinstance(result, _APPENDED) else await result for result in begun]
        delayed = DelayedProduce([tp for tp, _ in batches], results)
        return delayed.outcomes(self.partitions) if delayed.is_decided else delayed

    async def replicated(self, delayed: DelayedProduce, timeout_ms: int) -> list[AppendResult]:
        """The outcomes, when the high watermark has passed all appends or after ``timeout_ms``."""
        await self.purgatory.wait(delayed.tps, lambda: delayed.is_decided, timeout_ms, delayed.decide, delayed.wait)
        delayed.time_out()
        return delayed.outcomes(self.partitions)

    def append_own(
        self, tp: TopicPartition, write: Callable[..., LogAppendInfo], batch: bytearray, now_ms: int, timeout_ms: int
    ) -> AppendResult | Awaitable[AppendResult]:
        """Append the broker's batch before the first await. Returns the outcome, or an awaitable that waits like
        acks=all. ``write``: ``Log.append_own_batch`` or ``append_own_records``."""
        try:
            partition = self.partitions.get(tp) or self.partition(tp)
            log = partition.leader_log()
            if partition.remotes is not None:
                partition.check_enough_replicas()
            try:
                info = write(log, batch, leader_epoch=partition.leader_epoch, now_ms=now_ms)
            except OSError as error:
                self.logs.fail_directory(log, error)
                raise
        except APPEND_ERRORS as error:
            return error.with_traceback(None)
        result = self.appended(partition, log, info, -1, now_ms)
        return result if isinstance(result, LogAppendInfo) else ensureDeferred(self.committed(tp, result, timeout_ms))

    async def committed(
        self, tp: TopicPartition, begun: Unreplicated | Awaitable[Appended], timeout_ms: int
    ) -> AppendResult:
        """Wait until all in-sync replicas have the append for which ``appended`` returned ``begun``."""
        result = begun if isinstance(begun, Unreplicated) else await begun
        delayed = DelayedProduce([tp], [result])
        if delayed.is_decided:
            return delayed.outcomes(self.partitions)[0]
        return (await self.replicated(delayed, timeout_ms))[0]

    def _append(
        self,
        tp: TopicPartition,
        records: memoryview,
        required_acks: int,
        guard: VerificationStateEntry | None,
        conforms_to: LogConfig | None = None,
    ) -> Appended | Awaitable[Appended]:
        """Append one batch, and wake waiting requests once per reactor turn.

        Raises: APPEND_ERRORS; OSError after taking the log directory offline; NotConformed.
        """
        partition = self.partitions.get(tp) or self.partition(tp)
        log = partition.leader_log()
        if required_acks == -1 and partition.remotes is not None:
            partition.check_enough_replicas()
        header = validate_batch(records)
        if header.attributes & TRANSACTIONAL_FLAG and guard is NOT_ALLOWED:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        now_ms = self._clock.wall_ns() // 1_000_000
        try:
            info = log.append_as_leader(
                records, header, leader_epoch=partition.leader_epoch, now_ms=now_ms, conforms_to=conforms_to,
                guard=guard, check=self._check_records,
            )  # fmt: skip
        except OSError as error:
            self.logs.fail_directory(log, error)
            raise
        return self.appended(partition, log, info, required_acks, now_ms)

    def appended(
        self, partition: Partition, log: Log, info: LogAppendInfo, required_acks: int, now_ms: int
    ) -> LogAppendInfo | Unreplicated | Awaitable[Appended]:
        """Wake requests that wait for an append to a led partition, and begin the flush that is due.

        With ``required_acks`` -1, the result may have to wait, see ``committed``.
        """
        if log.config.flush_messages < LONG_MAX and log.flush_due(now_ms):
            partition.flush_begins(log.log_end_offset if info.duplicate else info.first_offset)
            return ensureDeferred(self._flush(partition, log, info, required_acks))
        if log.commits_appends:
            self.purgatory.check_later(partition.tp)
            return info
        if partition.advance_high_watermark(self.isr_updates.now_ms()):
            self.purgatory.check(partition.tp)
        self.changes.note(partition.tp)
        self.purgatory.check_later(FOLLOWER_FETCHES)
        return Unreplicated(partition, info, partition.terms_ended) if required_acks == -1 else info

    async def _flush(self, partition: Partition, log: Log, info: LogAppendInfo, required_acks: int) -> Appended:
        terms_ended = partition.terms_ended
        error = await self._flushes.make_durable(partition, log)
        if error is not None:
            return error
        return Unreplicated(partition, info, terms_ended) if required_acks == -1 else info

    async def _conform_and_append(
        self,
        tp: TopicPartition,
        records: memoryview,
        needed: NotConformed,
        required_acks: int,
        turns: Turns,
        guard: VerificationStateEntry | None,
    ) -> Appended:
        """Convert a batch, then append it after the previous batches. The conversion may take long, and the
        configuration may change before its end. Readers do not see records that wait for a flush."""
        while True:
            try:
                begun_s = self._clock.seconds()
                conformed = await self.batch_helpers.conform(turns, records, needed)
                if not needs_conform(needed.header, needed.config):
                    self.record_checks.spend(self._clock.seconds() - begun_s)
                result = self._append(tp, memoryview(conformed), required_acks, guard, needed.config)
                return result if isinstance(result, _APPENDED) else await result
            except NotConformed as again:  # the configuration has changed
                needed = NotConformed(needed.header, again.config)
            except APPEND_ERRORS as error:
                return error.with_traceback(None)  # for the same reason as in ``append_records``

    def read(
        self,
        tp: TopicPartition,
        fetch_offset: int,
        max_bytes: int,
        isolation: FetchIsolation,
        *,
        current_leader_epoch: int = -1,
        min_one_batch: bool = True,
        any_replica: bool = False,
    ) -> tuple[Log, LogRead]:
        """Read from the log. ``any_replica``: even if this broker is a follower.

        Raises: ApiError, OffsetOutOfRange; OSError after taking the log directory offline.
        """
        partition = self.partitions.get(tp) or self.partition(tp)
        find_log = partition.readable_log if any_replica else partition.leader_log
        log = find_log(current_leader_epoch)
        try:
            found = log.read(fetch_offset, max_bytes, isolation=isolation, min_one_batch=min_one_batch)
        except OSError as error:
            self.logs.fail_directory(log, error)
            raise
        return log, found

    def is_behind(self, tp: TopicPartition, found: FileSlice, isolation: FetchIsolation) -> bool:
        """See ``Log.is_behind``. Raises: ApiError, CorruptRecord; OSError after taking the log directory offline."""
        log = self.partition(tp).readable_log()
        try:
            return log.is_behind(found, isolation)
        except OSError as error:
            self.logs.fail_directory(log, error)
            raise

    def aborted_transactions(self, log: Log, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        try:
            return log.aborted_transactions(start_offset, end_offset)
        except OSError as error:
            self.logs.fail_directory(log, error)
            raise

    def read_failed(self, tp: TopicPartition, found: FileSlice, error: OSError) -> None:
        """Take the log's directory offline after a disk error in a result of ``read``, unless the log is gone."""
        partition = self.partitions.get(tp)
        log = None if partition is None else partition.log
        if log is not None and str(log.directory) == found.segment.directory:
            self.logs.fail_directory(log, error)

    def directory_failed(self, lost: Iterable[TopicPartition]) -> None:
        """Mark partitions of a failed directory; they then respond with KAFKA_STORAGE_ERROR."""
        hosted = tuple(tp for tp in lost if tp in self.partitions)
        if hosted:
            self._events.emit(ReplicasOffline, hosted, cause="a log directory failed")
        for tp in hosted:
            partition = self.partitions[tp]
            partition.change_role(Role.OFFLINE, ErrorCode.KAFKA_STORAGE_ERROR)
            partition.log = None
            self.role_listeners.notify(partition)
            self._wake(tp)

    # -- the controller's decisions -----------------------------------------------------------------------------------

    def accept_controller(self, controller_epoch: int) -> bool:
        """Remember a controller's epoch. Returns False if a higher one is known."""
        if controller_epoch < self.controller_epoch:
            _log.warn(
                "ignored a request of controller epoch {controller_epoch}: the newest epoch is {known_epoch}",
                controller_epoch=controller_epoch,
                known_epoch=self.controller_epoch,
            )
            self._events.emit(ControllerIgnored, controller_epoch, self.controller_epoch, cause="an older epoch")
            return False
        self.controller_epoch = controller_epoch
        return True

    def become_leader_or_follower(self, states: Iterable[LeaderState]) -> Iterator[tuple[TopicPartition, ErrorCode]]:
        """Apply LeaderAndIsr, one partition and error code per step. Hold ``state_changes``."""
        for state in states:
            try:
                code = self._take_state(state)
            except Exception:
                _log.failure("the controller's decision on {tp} could not be carried out", tp=state.tp)
                code = ErrorCode.UNKNOWN_SERVER_ERROR
            yield state.tp, code

    def _take_state(self, wanted: LeaderState) -> ErrorCode:
        tp = wanted.tp
        partition = self.partitions.get(tp) or Partition(self.broker_id, tp, self.in_sync_rule)
        if partition.role is Role.OFFLINE:  # the log must not be created again
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition.log is not None and not is_same_topic(partition.log.topic_id, wanted.topic_id):
            before = role_state(partition)
            partition.become(ErrorCode.INCONSISTENT_TOPIC_ID)  # producers now write to the other topic
            self.role_listeners.report_if_changed(partition, before, "LeaderAndIsr")
            self._wake(tp)
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if wanted.state.leader_epoch < partition.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if wanted.state.leader_epoch == partition.leader_epoch and partition.role in _SERVED:
            return self._take_again(partition, wanted)
        if self.broker_id not in wanted.state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        before = role_state(partition)
        partition.take_state(wanted.state)
        self.topic_ids.give(partition, wanted.topic_id)
        self.partitions[tp] = partition
        refusal = self._partition_logs.open(partition, wanted.topic_properties, is_new=wanted.state.is_new)
        if refusal is None and partition.is_leader:
            self._flushes.before_leading(partition)
        partition.become(refusal, self.isr_updates.now_ms())
        self.role_listeners.report_if_changed(partition, before, "LeaderAndIsr")
        self._wake(tp)
        return partition.refusal or ErrorCode.NONE

    def _take_again(self, partition: Partition, wanted: LeaderState) -> ErrorCode:
        """Apply a state of a known leader epoch. The state may be older than the last AlterPartition response, so adopt
        only the topic's configuration, and the topic's id if none was known."""
        has_id = partition.topic_id != uuids.ZERO or wanted.topic_id == uuids.ZERO
        if not has_id:
            self.topic_ids.give(partition, wanted.topic_id)
        before = role_state(partition)
        self._reopen(partition, wanted.topic_properties, "LeaderAndIsr")
        if not has_id and role_state(partition) == before:
            self.role_listeners.notify(partition)  # a follower fetches by id from now on
        return partition.refusal or (ErrorCode.STALE_CONTROLLER_EPOCH if has_id else ErrorCode.NONE)

    def _reopen(self, partition: Partition, topic_properties: Mapping[str, str] | None, cause: str) -> None:
        """Apply another configuration, but keep the controller's decisions."""
        before = role_state(partition)
        partition.become(self._partition_logs.open(partition, topic_properties), self.isr_updates.now_ms())
        self.role_listeners.report_if_changed(partition, before, cause)
        self._wake(partition.tp)

    def _wake(self, tp: TopicPartition) -> None:
        self.changes.note(tp)
        self.purgatory.check(tp)
        self.purgatory.check(LogStart(tp))
        self.purgatory.check_later(FOLLOWER_FETCHES)

    def _isr_changed(self, key: TopicPartition | LogStart) -> None:
        if isinstance(key, TopicPartition):
            self.changes.note(key)
        self.purgatory.check(key)

    def stop_replica(self, tp: TopicPartition, leader_epoch: int, *, delete: bool) -> ErrorCode:
        """Apply StopReplica. ``leader_epoch`` -1 and -2 (topic deletion) are always accepted."""
        partition = self.partitions.get(tp)
        if partition is not None and partition.role is Role.OFFLINE:
            return ErrorCode.KAFKA_STORAGE_ERROR  # the log's files are inaccessible and cannot be deleted
        if partition is not None and 0 <= leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if delete:
            if self.logs.get(tp) is None and self.logs.has_failed_directory:
                return ErrorCode.KAFKA_STORAGE_ERROR  # the log may be in the failed directory and would reappear
            try:
                self.logs.delete(tp)
            except OSError as error:
                _log.error("cannot delete the log of {tp}: {error}", tp=tp, error=error)
                return ErrorCode.KAFKA_STORAGE_ERROR
        if partition is not None:
            partition.change_role(Role.STOPPED)
            del self.partitions[tp]
            self.topic_ids.forget(partition)
            self.quotas.forget(tp)
            self._events.emit(ReplicaStopped, tp, delete, cause="StopReplica")
            self.role_listeners.notify(partition)
        self._wake(tp)
        return ErrorCode.NONE

    def log_replaced(self, tp: TopicPartition) -> None:  # the log moved to another directory
        self._wake(tp)

    def role_state_of(self, tp: TopicPartition) -> object:
        """This broker's role and leader epoch, to compare with earlier ones; None if there is no such replica."""
        partition = self.partitions.get(tp)
        return None if partition is None else (partition.role, partition.leader_epoch)

    def set_topic_defaults(self, defaults: LogConfig) -> None:
        """Set the defaults for new logs; other logs get them with ``update_topic_configs``."""
        self.logs.default_config = defaults

    def update_topic_configs(self, changed: Mapping[str, Mapping[str, str]]) -> Iterator[TopicPartition]:
        """Apply topic configurations to their logs, one per step. Hold ``state_changes``."""
        for tp, partition in list(self.partitions.items()):
            is_beyond_help = partition.role is Role.OFFLINE or partition.refusal is ErrorCode.INCONSISTENT_TOPIC_ID
            if tp.topic in changed and not is_beyond_help:
                self._reopen(partition, changed[tp.topic], "the topic's configuration")
                yield tp
