"""Moves replicas between this broker's log directories (KIP-113): copies a log, then replaces the log with the copy.

Appends, reads and truncations continue; retention and compaction wait. A truncation restarts the copy. Only the local
part of a tiered log is copied. A move that a stop or crash interrupted starts again when the broker leads or follows
the partition.

Source: ReplicaAlterLogDirsThread.scala, ReplicaManager.alterReplicaLogDirs@3.9. Tests:
tests/kafka_zk/broker/handlers/data/test_alter_replica_log_dirs.py.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger, LogLevel

from kafka_zk.base.clock import Clock
from kafka_zk.base.threads import RunInThread
from kafka_zk.base.turns import after
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.partition import Partition, Role
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.files.config_table import LONG_MAX
from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.files.files import read_file
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.producer_snapshot import snapshot_path
from kafka_zk.storage.manager.log_manager import LogManager
from kafka_zk.storage.records.record_batch import iter_batches

_log = Logger()

COPY_BYTES = 256 * 1024
"""Maximum number of bytes copied in one reactor turn; copying them takes about a millisecond."""
LAST_BYTES = 4 * COPY_BYTES
"""Maximum number of bytes copied and flushed in the turn in which the copy replaces the log."""
WAIT_S = 0.1
"""Pause while the cleaner is working on the log."""

_SERVED = (Role.LEADER, Role.FOLLOWER)


class _Move:
    """``is_held``: the log is withheld from retention and compaction."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.truncation_count = log.truncation_count
        self.is_held = False


class ReplicaAlterLogDirsManager:
    """``bytes_per_second``: ``replica.alter.log.dirs.io.max.bytes.per.second``, for all moves together."""

    def __init__(
        self,
        clock: Clock,
        replicas: ReplicaManager,
        run_in_thread: RunInThread,
        bytes_per_second: Callable[[], int],
    ) -> None:
        self._clock = clock
        self._replicas = replicas
        self._run_in_thread = run_in_thread
        self._bytes_per_second = bytes_per_second
        self._moves: dict[TopicPartition, _Move] = {}
        self._is_running = self._is_stopped = False

    @property
    def _logs(self) -> LogManager:
        return self._replicas.logs

    @property
    def moving(self) -> int:
        """Number of moves in progress."""
        return len(self._moves)

    def alter(self, tp: TopicPartition, directory: Path) -> ErrorCode:
        """Move a replica to a configured log directory. This replaces an earlier target.

        Returns REPLICA_NOT_AVAILABLE if there is no replica yet; it will then be created in ``directory``.
        """
        logs = self._logs
        if directory not in logs.live_directories:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._replicas.partitions.get(tp)
        if partition is not None and partition.role is Role.OFFLINE:
            return ErrorCode.KAFKA_STORAGE_ERROR
        log = logs.get(tp)
        if partition is None or partition.log is None or log is None:
            logs.moves.prefer(tp, directory)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        try:
            if logs.moves.future_dir_of(tp) not in (None, directory):
                self._give_up(tp)
            if directory != logs.log_dir_of(tp) and logs.moves.future(tp) is None:
                return self._begin(log, directory)
        except OSError as error:
            _log.error("{tp} could not be moved to {directory}: {error}", tp=tp, directory=directory, error=error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _begin(self, log: Log, directory: Path) -> ErrorCode:
        if self._logs.has_failed_directory:
            return ErrorCode.KAFKA_STORAGE_ERROR  # a copy's original may be in the failed directory
        try:
            self._logs.moves.begin_future(log.tp, directory)
        except ValueError as error:
            _log.warn("{tp} cannot be moved: {error}", tp=log.tp, error=error)
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        _log.info("{tp} moves to {directory}", tp=log.tp, directory=directory)
        self._start(_Move(log))
        return ErrorCode.NONE

    def _start(self, move: _Move) -> None:
        self._moves[move.log.tp] = move
        if not self._is_running:
            self._is_running = True
            ensureDeferred(self._run())

    def role_changed(self, partition: Partition) -> None:
        """Stop the move of a replica that is not served; restart it when the replica is served again."""
        tp, log = partition.tp, partition.log
        if partition.role not in _SERVED or log is None:
            move = self._moves.pop(tp, None)
            if move is not None:
                _release(move)
        elif tp in self._logs.moves.interrupted:
            self.alter(tp, self._logs.moves.interrupted.pop(tp))
        elif self._logs.moves.future(tp) is not None and tp not in self._moves:
            move = _Move(log)
            move.truncation_count = -1  # the copy may be from an earlier leader epoch
            self._start(move)

    def stop(self) -> None:
        """Stop all moves; the broker's next start restarts them."""
        self._is_stopped = True
        for move in self._moves.values():
            _release(move)
        self._moves.clear()

    def _give_up(self, tp: TopicPartition) -> None:
        move = self._moves.pop(tp, None)
        if move is not None:
            _release(move)
        self._logs.moves.delete_future(tp)

    # -- copying ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._moves and not self._is_stopped:
            copied_bytes = 0
            waiting = 0
            for tp, move in list(self._moves.items()):
                if self._moves.get(tp) is not move:
                    continue
                portion = await self._guarded_step(tp, move)
                waiting += portion is None
                copied_bytes += portion or 0
                await after(self._clock, 0)
            if waiting and waiting == len(self._moves):
                await after(self._clock, WAIT_S)
            elif copied_bytes:
                await after(self._clock, copied_bytes / max(1, self._bytes_per_second()))
        self._is_running = False

    async def _guarded_step(self, tp: TopicPartition, move: _Move) -> int | None:
        try:
            return await self._step(tp, move)
        except (OSError, StorageError) as error:
            _log.error("the move of {tp} failed: {error}", tp=tp, error=error)
            future = self._logs.moves.future(tp)
            if isinstance(error, OSError) and future is not None:
                self._logs.fail_directory(future, error)
        except Exception:
            _log.failure("the move of {tp} failed", tp=tp, level=LogLevel.error)
        if self._moves.get(tp) is move:
            with suppress(OSError):  # the directory and the copy are then offline
                self._give_up(tp)
        return 0

    async def _step(self, tp: TopicPartition, move: _Move) -> int | None:
        """Copy a part. Returns its size in bytes; None if the log's cleaner must finish first."""
        log, future = move.log, self._logs.moves.future(tp)
        if future is None or self._logs.get(tp) is not log:
            _release(move)
            del self._moves[tp]
            return 0
        if not move.is_held:
            if log.is_being_cleaned:
                return None
            move.is_held = log.is_being_cleaned = True
        self._follow_truncation(move, future)
        copied_bytes = self._copy(log, future)
        if not copied_bytes:
            await self._flush(future)
            self._take_over(tp, move)
        return copied_bytes

    def _follow_truncation(self, move: _Move, future: Log) -> None:
        log = move.log
        if move.truncation_count != log.truncation_count:
            move.truncation_count = log.truncation_count
            _begin_future(log, future, self._clock.wall_ms())

    def _copy(self, log: Log, future: Log) -> int:
        """Copy the next batches, up to COPY_BYTES. Returns the number of bytes copied."""
        if future.log_end_offset < log.local_log_start_offset:
            _begin_future(log, future, self._clock.wall_ms())
        offset = future.log_end_offset
        records = self._read(log, offset)
        if not records:
            return 0
        first = next(iter_batches(memoryview(records)))[1]
        if first.base_offset < offset and not future.size_bytes:  # DeleteRecords moved the log start into a batch
            future.truncate_fully_and_start_at(first.base_offset, self._clock.wall_ms())
        future.append_as_follower(records, now_ms=self._clock.wall_ms())
        future.update_high_watermark(log.high_watermark)  # drops transactions that ended earlier
        return len(records)

    def _read(self, log: Log, offset: int) -> bytes:
        try:
            found = log.read(offset, COPY_BYTES).slice
            return b"" if found is None else found.read()
        except OSError as error:
            self._logs.fail_directory(log, error)
            raise

    async def _flush(self, future: Log) -> None:
        work, done = future.prepare_flush()
        try:
            await self._run_in_thread(work)
        finally:
            done()

    def _take_over(self, tp: TopicPartition, move: _Move) -> None:
        """Copy the records that were appended during the flush. If these are at most LAST_BYTES, replace the log with
        the copy."""
        log, future = move.log, self._logs.moves.future(tp)
        if future is None or self._moves.get(tp) is not move or self._logs.get(tp) is not log:
            return
        self._follow_truncation(move, future)
        copied_bytes = 0
        while portion := self._copy(log, future):
            copied_bytes += portion
            if copied_bytes > LAST_BYTES:
                return
        _make_equal(log, future, self._clock.wall_ms())
        waits = log.config.flush_messages < LONG_MAX  # acknowledgements wait for a flush of the original
        if future.recovery_point < (log.log_end_offset if waits else log.recovery_point):
            future.flush()
        _release(move)
        del self._moves[tp]
        partition = self._replicas.partitions[tp]
        partition.log = self._logs.moves.replace_by_future(tp)
        self._replicas.log_replaced(tp)
        _log.info("{tp} is in {directory} now", tp=tp, directory=self._logs.log_dir_of(tp))


def _release(move: _Move) -> None:
    if move.is_held:
        move.log.is_being_cleaned = False
        move.is_held = False


def _begin_future(log: Log, future: Log, now_ms: int) -> None:
    """Empty the copy, and let it begin at the log's first local offset. Records that a tiered log has only in remote
    storage stay there, and the copy refers to them."""
    offset = log.local_log_start_offset
    if not log.config.is_tiered:
        future.truncate_fully_and_start_at(offset, now_ms)
        return
    from kafka_zk.storage.log.tiered_log import begin_from_remote  # most brokers have no remote storage

    future.update_config(log.config)
    epochs = [(epoch, start) for epoch, start in log.leader_epochs.entries if start < offset]
    snapshot = read_file(snapshot_path(str(log.directory), offset))
    begin_from_remote(future, offset, epochs, snapshot, now_ms)
    # Rebuilt leader epochs may begin after the log; a later start would let retention delete remote segments.
    future.log_start_offset = min(future.log_start_offset, log.log_start_offset)


def _make_equal(log: Log, future: Log, now_ms: int) -> None:
    """Copy the log's state except its records."""
    future.update_config(log.config)
    future.producers.take_over(log.producers)
    if future.log_end_offset < log.log_end_offset:
        future.extend_to(log.log_end_offset, now_ms)
    future.update_high_watermark(log.high_watermark)
    if log.log_start_offset > future.log_start_offset:
        future.increment_log_start_offset(log.log_start_offset)
    for epoch, start_offset in log.leader_epochs.entries:  # includes epochs without records
        future.leader_epochs.begin(epoch, start_offset)
    future.cleaned_offset = log.cleaned_offset
    if log.commits_appends:
        future.follow_log_end()
