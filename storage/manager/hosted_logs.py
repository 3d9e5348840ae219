"""The logs of each log directory, and how a directory's failure is handled.

Tests: tests/storage/manager/test_log_manager.py, tests/storage/test_failing_disk.py.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.errors import TooManyOpenFiles
from kafka_zk.storage.files.file_pool import FilePool
from kafka_zk.storage.files.findings import Observe, ignore
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.files.run_blocking import RunBlocking, run_inline
from kafka_zk.storage.log.large_snapshots import LargeSnapshots
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.producer_id_budget import ProducerIdBudget
from kafka_zk.storage.manager.log_dir import LogDir
from kafka_zk.storage.manager.log_loader import LogDependencies, Scanner, create_log
from kafka_zk.storage.segments.recovery import scan_segment


class LogCallbacks(NamedTuple):
    """Callbacks for all logs.

    ``observe``: receives findings about unusable files. ``on_directory_failure``: called, except during the start, with
    a failed directory and its logs. ``scan``: checks a segment after a crash if no helper does.
    """

    run_blocking: RunBlocking = run_inline
    observe: Observe = ignore
    on_directory_failure: Callable[[Path, OSError, list[TopicPartition]], None] | None = None
    random: Random = SYSTEM_RANDOM
    scan: Scanner = scan_segment


DEFAULT_CALLBACKS = LogCallbacks()


def _nothing(log_dir: LogDir, lost: Iterable[TopicPartition]) -> None: ...


class HostedLogs:
    """The logs of all working directories, by partition. This object is the ``LogOwner`` of each log.

    ``live_dirs``: the usable directories of ``log.dirs``. ``futures``: the log directories of copies that will replace
    logs. ``dirty``: logs to flush, longest waiting first. ``directory_lost``: called before ``on_directory_failure``.
    """

    def __init__(
        self,
        log_dirs: Sequence[LogDir],
        max_open_files: int | None,
        clock_ms: Callable[[], int],
        callbacks: LogCallbacks,
    ) -> None:
        self.dirs = log_dirs
        self.live_dirs: list[LogDir] = []
        self.pool = FilePool(max_open_files)
        self.dependencies = LogDependencies(self.pool, callbacks.observe, callbacks.random, callbacks.scan)
        self.clock_ms = clock_ms
        self.callbacks = callbacks
        self.is_started = False
        self.logs: dict[TopicPartition, Log] = {}
        self.dir_of: dict[TopicPartition, LogDir] = {}
        self.futures: dict[TopicPartition, LogDir] = {}
        self.dirty: dict[TopicPartition, None] = {}
        self.producer_ids = ProducerIdBudget()
        self.large_snapshots = LargeSnapshots(callbacks.run_blocking)
        self.directory_lost: Callable[[LogDir, Iterable[TopicPartition]], None] = _nothing

    def add(self, tp: TopicPartition, log: Log, log_dir: LogDir) -> None:
        self.logs[tp] = log
        self.dir_of[tp] = log_dir
        log.producers.budget = self.producer_ids
        self.producer_ids.count += len(log.producers.producers)
        log_dir.logs[tp] = log
        log.owner = self
        if log.is_dirty:
            self.log_became_dirty(tp)

    def forget(self, log: Log) -> None:
        del self.logs[log.tp], self.dir_of[log.tp]
        self.dirty.pop(log.tp, None)
        log.owner = None

    def new_log(self, tp: TopicPartition, log_dir: LogDir, name: str, config: LogConfig, topic_id: str | None) -> Log:
        """Create a log in a new folder, without adding it. Raises: OSError after taking the directory offline."""
        try:
            log_dir.forget_deleted(tp)
            return create_log(tp, f"{log_dir.path}/{name}", config, self.dependencies, self.clock_ms(), topic_id)
        except OSError as error:
            self.take_offline(log_dir, error)
            raise

    # -- LogOwner ----------------------------------------------------------------------------------------------

    def log_became_dirty(self, tp: TopicPartition) -> None:
        """Schedule a flush; logs that have waited longest are flushed first."""
        self.dirty.setdefault(tp)

    def snapshot_is_large(self, tp: TopicPartition) -> None:
        """Schedule the snapshot; the owner runs ``large_snapshots.steps`` periodically."""
        log = self.logs[tp]
        self.large_snapshots.begin(log.producers, log.segments, log.log_end_offset, partial(self.fail_directory, log))

    def log_start_offset_is_needed(self, tp: TopicPartition) -> None:
        """Write the log start offsets if the one on disk is not current. Raises: OSError."""
        log_dir = self.dir_of[tp]
        if log_dir.log_start_offset_on_disk(tp) != self.logs[tp].log_start_offset:
            log_dir.prepare_log_start_offsets()()

    def recovery_point_is_needed(self, tp: TopicPartition, offset: int) -> None:
        """Write the recovery points if the one on disk is below ``offset``. Raises: OSError."""
        work = self.prepare_recovery_point(self.logs[tp], offset)
        if work is not None:
            work()

    def recovery_point_went_back(self, tp: TopicPartition) -> None:
        """Write the recovery points and the cleaner offsets. Raises: OSError."""
        log_dir = self.dir_of[tp]
        log_dir.prepare_recovery_points()()
        log_dir.write_cleaner_offsets()

    def prepare_recovery_point(self, log: Log, offset: int) -> Callable[[], None] | None:
        """Work, for any thread, that raises the recovery point on disk to ``offset`` or more; None if it is already
        that high.

        Raises: OSError.
        """
        log_dir = self.dir_of[log.tp]
        return log_dir.prepare_recovery_points() if log_dir.recovery_point_on_disk(log.tp) < offset else None

    # -- work, and directories that fail -----------------------------------------------------------------------

    def run_for(self, log_dir: LogDir, work: Callable[[], None]) -> None:
        """Run ``work``, whose OSError takes the directory offline."""
        self.run(work, partial(self.take_offline, log_dir))

    def run(self, work: Callable[[], None], failed: Callable[[OSError], None]) -> None:
        def done(error: OSError | None) -> None:
            if error is not None:
                failed(error)

        self.callbacks.run_blocking(work, done)

    def fail_directory(self, log: Log, error: OSError) -> None:
        """Take offline the directory of ``log``, which may also be one of the ``futures``. No effect if the log was
        deleted."""
        if isinstance(error, TooManyOpenFiles):
            return
        if self.has(log):
            self.take_offline(self.dir_of[log.tp], error)
        elif self._is_future(log):
            self.take_offline(self.futures[log.tp], error)

    def _is_future(self, log: Log) -> bool:
        log_dir = self.futures.get(log.tp)
        return log_dir is not None and log_dir.futures[log.tp] is log

    def has(self, log: Log) -> bool:
        return self.logs.get(log.tp) is log

    def take_offline(self, log_dir: LogDir, error: OSError) -> None:
        """Take a directory and its logs offline until a restart."""
        if log_dir not in self.live_dirs:
            return
        self.live_dirs.remove(log_dir)
        lost = log_dir.abandon()
        for tp in lost:
            self.logs.pop(tp, None)
            self.dir_of.pop(tp, None)
            self.dirty.pop(tp, None)
        self.directory_lost(log_dir, lost)
        if self.callbacks.on_directory_failure is not None and self.is_started:
            self.callbacks.on_directory_failure(Path(log_dir.path), error, lost)
