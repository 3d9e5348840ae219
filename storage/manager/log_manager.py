"""All logs of a broker in all its log directories: start, look up, create, delete, flush, clean up, shut down.

Single-threaded like ``Log``. What blocks in C goes through ``run_blocking``. When a directory fails (OSError), its logs
leave the manager and ``on_directory_failure`` is called; in a start, the report names it. ``observe`` receives every
file that could not be used as it was. Logs call the methods of ``LogOwner``.
Source: LogManager.scala@3.9. Tests: tests/storage/manager/test_log_manager.py.
"""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

from kafka_zk.base.clock import sleep
from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.errors import InconsistentLogDir, LogDirLocked, TooManyOpenFiles
from kafka_zk.storage.files.file_pool import FilePool
from kafka_zk.storage.files.filenames import future_dir, partition_dir
from kafka_zk.storage.files.files import sync_path
from kafka_zk.storage.files.findings import Observe, ignore
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.files.run_blocking import RunBlocking, run_inline
from kafka_zk.storage.log.large_snapshots import LargeSnapshots
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.producer_id_budget import ProducerIdBudget
from kafka_zk.storage.log.producer_state import DEFAULT_EXPIRATION_MS
from kafka_zk.storage.manager.log_dir import LogDir, Works, remove_trees
from kafka_zk.storage.manager.log_loader import Scanner, create_log
from kafka_zk.storage.manager.log_start import (
    HELPER_POLL_S,
    LogStart,
    OpenedLog,
    Opening,
    StartProgress,
    StartReport,
    open_directory,
    refuse_second_homes,
)
from kafka_zk.storage.segments.recovery import scan_segment


class LogManager:
    """See the module's docstring."""

    def __init__(
        self,
        log_dirs: Sequence[Path | str],
        default_config: LogConfig,
        *,
        broker_id: int,
        cluster_id: str,
        clock_ms: Callable[[], int],
        run_blocking: RunBlocking = run_inline,
        max_open_files: int | None = None,
        producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS,
        scan: Scanner = scan_segment,
        recovery_helper_count: int = 0,
        on_directory_failure: Callable[[Path, OSError, list[TopicPartition]], None] | None = None,
        observe: Observe = ignore,
        random: Random = SYSTEM_RANDOM,
    ) -> None:
        self.default_config = default_config
        self.pool = FilePool(max_open_files)
        self._dirs = [LogDir(os.fspath(path), random) for path in log_dirs]
        self._live_dirs: list[LogDir] = []
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._clock_ms = clock_ms
        self._run_blocking = run_blocking
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.producer_ids = ProducerIdBudget()
        self.large_snapshots = LargeSnapshots(run_blocking)
        self._scan = scan
        self._recovery_helper_count = recovery_helper_count
        self._on_directory_failure = on_directory_failure
        self._observe = observe
        self._random = random
        self._logs: dict[TopicPartition, Log] = {}
        self._dir_of: dict[TopicPartition, LogDir] = {}
        self._futures: dict[TopicPartition, LogDir] = {}
        self._preferred: dict[TopicPartition, LogDir] = {}
        self.interrupted_moves: dict[TopicPartition, Path] = {}
        """Logs that were on their way to another directory when the last run ended, and where to."""
        self._dirty: dict[TopicPartition, None] = {}  # in order: the first ones have been so for longest
        self._flushing: set[Log] = set()
        self._start: LogStart | None = None
        self._is_started = False

    # -- start --------------------------------------------------------------------------------------------------

    def start(
        self,
        topic_configs: Mapping[str, Mapping[str, str]],
        on_progress: Callable[[StartProgress], None] | None = None,
    ) -> StartReport:
        """As ``start_steps``, in one go; ``on_progress`` is told what the steps yield."""
        steps = self.start_steps(topic_configs)
        while True:
            try:
                progress = next(steps)
            except StopIteration as stop:
                report: StartReport = stop.value
                return report
            if on_progress is not None:
                on_progress(progress)
            if progress.is_waiting:
                sleep(HELPER_POLL_S)

    def start_steps(
        self, topic_configs: Mapping[str, Mapping[str, str]]
    ) -> Generator[StartProgress, None, StartReport]:
        """Lock the directories and open every log in them, a log or so at each step.

        Between two steps the owner may do something else, but with this manager nothing but ``shutdown``, which ends
        the helpers; the generator must not be resumed then.

        Args:
            topic_configs: the topics' own properties; other topics get the default configuration.
        Raises: LogDirLocked, InconsistentLogDir; OSError if no directory can be used.
        """
        offline, found = yield from self._lock_dirs_steps()
        configs = {
            topic: LogConfig.from_properties(properties, self.default_config)
            for topic, properties in topic_configs.items()
        }
        self._settle_futures(found, are_all_here=not offline)
        try:
            refuse_second_homes(found)
        except InconsistentLogDir:
            self._close_dirs()
            raise
        unclean = {log_dir for log_dir in found if not log_dir.had_clean_shutdown()}
        is_clean = all(log_dir.was_left_by_a_registered_broker() for log_dir in found)

        def failed(log_dir: LogDir, error: OSError) -> None:
            offline[log_dir.path] = str(error)
            self._take_offline(log_dir, error)
            if not self._live_dirs:
                raise error

        how = Opening(
            configs,
            self.default_config,
            self.pool,
            self._clock_ms,
            self._scan,
            self._recovery_helper_count,
            self._observe,
            self._random,
        )
        openings = {}
        for log_dir, partitions in found.items():
            try:
                openings[log_dir] = open_directory(log_dir, partitions, how)
            except OSError as error:
                failed(log_dir, error)
        start = self._start = LogStart(openings, self._opened, self._directory_opened, failed)
        yield from start.steps()
        self._start = None
        self._is_started = True
        recovered_count = sum(log_dir in unclean for log_dir in self._dir_of.values())
        return StartReport(
            len(self._logs), recovered_count, tuple(start.dropped), offline, start.scanned_bytes, is_clean
        )

    def _lock_dirs_steps(
        self,
    ) -> Generator[StartProgress, None, tuple[dict[str, str], dict[LogDir, list[tuple[TopicPartition, str]]]]]:
        """Lock what can be used; returns the paths of what cannot, and why, and which logs lie in the others."""
        offline: dict[str, str] = {}
        found = {}
        for log_dir in self._dirs:
            try:
                for _ in log_dir.open_steps(self._broker_id, self._cluster_id, self._observe):
                    yield StartProgress(0, 0, 0, 0, True)
                log_dir.clear_directories(self._observe)
                found[log_dir] = log_dir.partitions()
            except OSError as error:
                log_dir.close()
                offline[log_dir.path] = str(error)
            except (LogDirLocked, InconsistentLogDir):
                self._close_dirs()
                raise
            else:
                self._live_dirs.append(log_dir)
        if not self._live_dirs:
            raise OSError("; ".join(offline.values()) or "no log directory is configured")
        return offline, found

    def _settle_futures(
        self, found: Mapping[LogDir, list[tuple[TopicPartition, str]]], *, are_all_here: bool
    ) -> None:
        """What an earlier run copied takes the place of a log that had already gone for it; else it begins anew.

        While a directory is missing nobody knows: then everything stays as it is.
        """
        present = {tp for partitions in found.values() for tp, _ in partitions}
        for log_dir, partitions in found.items() if are_all_here else ():
            for tp, directory in log_dir.futures_left():
                if tp in present:
                    log_dir.put_aside(tp, directory)
                    self.interrupted_moves[tp] = Path(log_dir.path)
                else:
                    partitions.append((tp, log_dir.promote(tp, directory)))
                    present.add(tp)

    def _opened(self, opened: OpenedLog, log_dir: LogDir) -> None:
        self._add(opened.tp, opened.log, log_dir)

    def _directory_opened(self, log_dir: LogDir) -> None:
        """All its logs are there: what was being deleted goes on, and from now on a crash needs a recovery."""
        log_dir.resume_deletions(self._clock_ms())
        log_dir.claim()
        log_dir.remove_clean_shutdown()

    def _close_dirs(self) -> None:
        for log_dir in self._live_dirs:
            log_dir.close()

    def _add(self, tp: TopicPartition, log: Log, log_dir: LogDir) -> None:
        self._logs[tp] = log
        self._dir_of[tp] = log_dir
        log.producers.budget = self.producer_ids
        self.producer_ids.count += len(log.producers.producers)
        log_dir.logs[tp] = log
        log.owner = self
        if log.is_dirty:
            self.log_became_dirty(tp)

    def log_became_dirty(self, tp: TopicPartition) -> None:
        """Flush it some time; the logs that have waited longest come first."""
        self._dirty.setdefault(tp)

    def snapshot_is_large(self, tp: TopicPartition) -> None:
        """Write it by and by: the owner goes through ``large_snapshots.steps`` every now and then."""
        log = self._logs[tp]
        self.large_snapshots.begin(log.producers, log.segments, log.log_end_offset, partial(self.fail_directory, log))

    def recovery_point_is_needed(self, tp: TopicPartition, offset: int) -> None:
        """Have the recovery point on disk reach ``offset``, here and now. Raises: OSError."""
        work = self.prepare_recovery_point(self._logs[tp], offset)
        if work is not None:
            work()

    def recovery_point_went_back(self, tp: TopicPartition) -> None:
        """Write the recovery points and the cleaner's offsets here and now. Raises: OSError."""
        log_dir = self._dir_of[tp]
        log_dir.prepare_recovery_points()()
        log_dir.write_cleaner_offsets()

    # -- look up, create, delete --------------------------------------------------------------------------------

    @property
    def live_directories(self) -> list[Path]:
        return [Path(log_dir.path) for log_dir in self._live_dirs]

    @property
    def has_failed_directory(self) -> bool:
        """Whether a configured log directory is offline: what is not found may lie there."""
        return len(self._live_dirs) < len(self._dirs)

    def get(self, tp: TopicPartition) -> Log | None:
        return self._logs.get(tp)

    def all_logs(self) -> list[Log]:
        return list(self._logs.values())

    def log_dir_of(self, tp: TopicPartition) -> Path:
        """The entry of ``log.dirs`` that holds the partition; raises KeyError for an unknown one."""
        return Path(self._dir_of[tp].path)

    def get_or_create(
        self, tp: TopicPartition, config: LogConfig | None = None, topic_id: str | None = None
    ) -> Log:
        """The log of a partition; a new one goes to the directory with the fewest partitions.

        Raises: OSError if the directory fails.
        """
        log = self._logs.get(tp)
        if log is not None:
            if topic_id is not None and log.topic_id is None:
                log.set_topic_id(topic_id)
            return log
        if not self._live_dirs:
            raise OSError("every log directory is offline")
        preferred = self._preferred.pop(tp, None)
        log_dir = preferred if preferred in self._live_dirs else min(self._live_dirs, key=lambda each: len(each.logs))
        assert log_dir is not None
        directory = f"{log_dir.path}/{partition_dir(tp)}"
        config = config or self.default_config
        try:
            log_dir.forget_deleted(tp)
            log = create_log(
                tp, directory, config, self.pool, self._clock_ms(), topic_id, self._observe, self._random
            )
        except OSError as error:
            self._take_offline(log_dir, error)
            raise
        self._add(tp, log, log_dir)
        return log

    def delete(self, tp: TopicPartition) -> None:
        """Rename the partition's directory and forget the log; ``delete_due`` removes the files later.

        Raises: OSError if the directory fails.
        """
        log = self._logs.get(tp)
        if log is None:
            return
        self.delete_future(tp)
        log_dir = self._dir_of[tp]
        try:
            log_dir.delete(tp, self._clock_ms())
        except OSError as error:
            self._take_offline(log_dir, error)
            raise
        self._forget(log)
        if log.cleaned_offset is not None:  # it must not be that of a log of this name that is made next
            self.checkpoint_cleaner_offsets()

    def _forget(self, log: Log) -> None:
        del self._logs[log.tp], self._dir_of[log.tp]
        self._dirty.pop(log.tp, None)
        log.owner = None

    # -- moves between directories ------------------------------------------------------------------------------

    def prefer(self, tp: TopicPartition, directory: Path) -> None:
        """Where the log of a partition is to lie that has none yet. Raises: KeyError if ``directory`` is not live."""
        self._preferred[tp] = self._live(directory)

    def _live(self, directory: Path) -> LogDir:
        return {Path(each.path): each for each in self._live_dirs}[directory]

    def future(self, tp: TopicPartition) -> Log | None:
        """The copy of a log that is to take its place."""
        log_dir = self._futures.get(tp)
        return None if log_dir is None else log_dir.futures[tp]

    def future_dir_of(self, tp: TopicPartition) -> Path | None:
        """The entry of ``log.dirs`` that a log moves to."""
        log_dir = self._futures.get(tp)
        return None if log_dir is None else Path(log_dir.path)

    def begin_future(self, tp: TopicPartition, directory: Path) -> Log:
        """An empty log in another directory, which is to become a copy of the partition's.

        Raises: KeyError if ``directory`` is not live; ValueError if the topic's name is too long; OSError.
        """
        log, log_dir = self._logs[tp], self._live(directory)
        path = f"{log_dir.path}/{future_dir(tp, self._random)}"
        try:
            log_dir.forget_deleted(tp)
            copy = create_log(
                tp, path, log.config, self.pool, self._clock_ms(), log.topic_id, self._observe, self._random
            )
        except OSError as error:
            self._take_offline(log_dir, error)
            raise
        copy.update_high_watermark(0)
        log_dir.futures[tp] = copy
        self._futures[tp] = log_dir
        return copy

    def delete_future(self, tp: TopicPartition) -> None:
        """Give a copy up, if there is one. Raises: OSError."""
        log_dir = self._futures.pop(tp, None)
        if log_dir is not None:
            try:
                log_dir.delete_future(tp, self._clock_ms())
            except OSError as error:
                self._take_offline(log_dir, error)
                raise

    def replace_by_future(self, tp: TopicPartition) -> Log:
        """The copy is complete and durable: it takes the place of the log, whose files are deleted later.

        The old one goes first: a copy without it is complete, which a start knows. Its checkpoints are on disk before
        that: nothing else explains its gaps, or says what DeleteRecords deleted. Raises: OSError, of a directory that
        is offline now.
        """
        old, old_dir = self._logs[tp], self._dir_of[tp]
        new_dir = self._futures.pop(tp)
        try:
            new_dir.checkpoint_future(tp)
        except OSError as error:
            self._take_offline(new_dir, error)
            raise
        try:
            old_dir.delete(tp, self._clock_ms())
            sync_path(old_dir.path)
        except OSError as error:
            old_dir.logs[tp] = old  # it is lost with the others
            self._take_offline(old_dir, error)
            raise
        self._forget(old)
        try:
            new_dir.adopt_future(tp)
        except OSError as error:
            self._take_offline(new_dir, error)
            raise
        self._add(tp, new_dir.logs[tp], new_dir)
        for log_dir in (old_dir, new_dir):
            self._run(log_dir.prepare_checkpoint(), partial(self._take_offline, log_dir))
        return new_dir.logs[tp]

    def delete_due(self, now_ms: int) -> int:
        """Remove files and directories whose ``file.delete.delay.ms`` is over, through ``run_blocking``; returns how
        many were due."""
        count = 0
        for log_dir in list(self._live_dirs):
            if paths := log_dir.take_deletions(now_ms):
                count += len(paths)
                self._run(partial(remove_trees, paths), partial(self._take_offline, log_dir))
        for log in self.all_logs():
            due = log.segments.take_due(now_ms) if log.segments.pending_removals else []
            for remove in due:
                self._run(remove, partial(self.fail_directory, log))
            count += len(due)
        return count

    # -- upkeep -------------------------------------------------------------------------------------------------

    def flush_dirty(self, now_ms: int) -> int:
        """Begin the flush of logs that are due, with no more under way than the pool's files; returns how many."""
        logs = [self._logs[tp] for tp in self._dirty]
        waiting = [(log, log.flush_target(now_ms)) for log in logs if log not in self._flushing]
        room = self.pool.max_open_files - len(self._flushing)
        due = [(log, target) for log, target in waiting if target is not None][:room]
        for log, target in due:
            if self._has(log):  # its directory may just have failed
                self._flush(log, target)
        return len(due)

    def _flush(self, log: Log, up_to: int) -> None:
        try:
            work, finish = log.prepare_flush(up_to)
        except OSError as error:
            self.fail_directory(log, error)
            return
        self._flushing.add(log)

        def done(error: OSError | None) -> None:
            finish()
            self._flushing.discard(log)
            if error is not None:
                self.fail_directory(log, error)
            elif self._has(log):
                self._dirty.pop(log.tp, None)
                if log.is_dirty:  # what came meanwhile has not waited yet: to the end of the queue
                    self.log_became_dirty(log.tp)

        self._run_blocking(work, done)

    def cleanup(self, now_ms: int) -> int:
        """Apply retention to every log; returns how many segments went."""
        return sum(self.cleanup_steps(now_ms))

    def cleanup_steps(self, now_ms: int) -> Iterator[int]:
        """As ``cleanup``, one log at a step; logs may come and go in between."""
        for log in self.all_logs():
            if not self._has(log) or log.is_being_cleaned:
                continue
            try:
                count = log.delete_old_segments(now_ms)
            except OSError as error:
                self.fail_directory(log, error)
                continue
            yield count

    def expire_producers_steps(self, now_ms: int) -> Iterator[int]:
        """Forget producers whose last batch is too old, one log at a step; gives how many went. Logs may come and go
        in between."""
        left_count = 0
        for log in self.all_logs():
            yield log.producers.remove_expired(now_ms, self.producer_id_expiration_ms)
            left_count += len(log.producers.producers)
        self.producer_ids.recounted(left_count)

    def write_topic_ids_steps(self) -> Iterator[None]:
        """Write ``partition.metadata`` of logs that have none yet, one at a step; logs may come and go in between."""
        for log in self.all_logs():
            if log.has_unwritten_id and self._has(log):
                try:
                    log.write_topic_id()
                except OSError as error:
                    self.fail_directory(log, error)
                yield

    def checkpoint(self) -> None:
        """Write the recovery points and the log start offsets of all directories, through ``run_blocking``."""
        for log_dir in list(self._live_dirs):
            self._run(log_dir.prepare_checkpoint(), partial(self._take_offline, log_dir))

    def prepare_recovery_point(self, log: Log, offset: int) -> Callable[[], None] | None:
        """What makes the recovery point on disk reach ``offset``, which it has reached in memory; None if it has. The
        work may run in any thread. Raises: OSError."""
        log_dir = self._dir_of[log.tp]
        return log_dir.prepare_recovery_points() if log_dir.recovery_point_on_disk(log.tp) < offset else None

    def checkpoint_high_watermarks(self) -> None:
        """Write ``replication-offset-checkpoint`` of all directories where one has moved, through ``run_blocking``."""
        for log_dir in list(self._live_dirs):
            work = log_dir.prepare_high_watermarks()
            if work is not None:
                self._run(work, partial(self._take_offline, log_dir))

    def checkpoint_cleaner_offsets(self) -> None:
        """Write ``cleaner-offset-checkpoint`` of all directories where one has moved, through ``run_blocking``."""
        for log_dir in list(self._live_dirs):
            work = log_dir.prepare_cleaner_offsets()
            if work is not None:
                self._run(work, partial(self._take_offline, log_dir))

    @property
    def directory_locks(self) -> list[int]:
        """Descriptors for a process to inherit that writes into log directories: while it lives no broker starts."""
        return [log_dir.lock for log_dir in self._live_dirs]

    def prepare_start_offsets(
        self, tps: Iterable[TopicPartition]
    ) -> list[tuple[Callable[[], None], Callable[[OSError], None]]]:
        """What makes the log start offsets of some partitions durable, with the values of now: (work, failed) for each
        directory that has one of them. ``work`` may run in any thread; what it raises belongs to ``failed``, which the
        owner calls.
        """
        log_dirs = {self._dir_of[tp]: None for tp in tps if tp in self._dir_of}
        return [(log_dir.prepare_log_start_offsets(), partial(self._take_offline, log_dir)) for log_dir in log_dirs]

    def prepare_deletions(self) -> list[tuple[Callable[[], None], Callable[[OSError], None]]]:
        """What makes the deletions so far durable: (work, failed) as in ``prepare_start_offsets``."""
        works = [(log_dir, log_dir.prepare_deletions()) for log_dir in self._live_dirs]
        return [(work, partial(self._take_offline, log_dir)) for log_dir, work in works if work is not None]

    def _run(self, work: Callable[[], None], failed: Callable[[OSError], None]) -> None:
        def done(error: OSError | None) -> None:
            if error is not None:
                failed(error)

        self._run_blocking(work, done)

    def fail_directory(self, log: Log, error: OSError) -> None:
        """Take the directory of ``log``, or of a ``future``, offline, unless that was deleted: its logs are gone until
        a restart."""
        if isinstance(error, TooManyOpenFiles):
            return
        if self._has(log):
            self._take_offline(self._dir_of[log.tp], error)
        elif self.future(log.tp) is log:
            self._take_offline(self._futures[log.tp], error)

    def _has(self, log: Log) -> bool:
        return self._logs.get(log.tp) is log

    def _take_offline(self, log_dir: LogDir, error: OSError) -> None:
        if log_dir not in self._live_dirs:
            return
        self._live_dirs.remove(log_dir)
        for tp in [tp for tp, its_dir in self._futures.items() if its_dir is log_dir]:
            del self._futures[tp]
        lost = log_dir.abandon()
        for tp in lost:
            self._logs.pop(tp, None)
            self._dir_of.pop(tp, None)
            self._dirty.pop(tp, None)
            with suppress(OSError):  # then that directory is offline, too
                self.delete_future(tp)
        if self._on_directory_failure is not None and self._is_started:
            self._on_directory_failure(Path(log_dir.path), error, lost)

    def shutdown(self, broker_epoch: int = -1) -> None:
        """``shutdown_steps``, all of them here and now."""
        for works in self.shutdown_steps(broker_epoch):
            for work in works:
                work()

    def shutdown_steps(self, broker_epoch: int = -1) -> Iterator[Works]:
        """Flush and close every log, write the checkpoints and the marker that spares the next start a recovery.

        The owner does the fsyncs that a step gives, in threads if it likes, before it asks for the next one. From the
        first step on nothing else may be asked of this object. A directory that fails is left without the
        marker. In the middle of a start nothing is written: the next start begins where this one began.
        """
        if not self._is_started:
            if self._start is not None:
                self._start.close()
            self._close_dirs()
        for log_dir in list(self._live_dirs if self._is_started else ()):
            try:
                yield from log_dir.shut_down_steps(broker_epoch)
            except OSError as error:
                self._take_offline(log_dir, error)
        self._live_dirs = []
        self._logs = {}
        self._dir_of = {}
        self._futures = {}
        self._dirty.clear()
