"""All logs of a broker: starts, looks up, creates, deletes and closes them.

Single-threaded. When a directory fails (OSError), its logs leave the manager, and ``LogCallbacks.on_directory_failure``
is called; during a start, the report names it instead.
Source: LogManager.scala@3.9.
"""

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kafka_zk.base.clock import sleep
from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.errors import InconsistentLogDir, LogDirLocked
from kafka_zk.storage.files.filenames import partition_dir
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.producer_state import DEFAULT_EXPIRATION_MS
from kafka_zk.storage.manager.hosted_logs import DEFAULT_CALLBACKS, HostedLogs, LogCallbacks
from kafka_zk.storage.manager.log_dir import LogDir, Works
from kafka_zk.storage.manager.log_moves import FoundLogs, LogMoves
from kafka_zk.storage.manager.log_start import (
    HELPER_POLL_S,
    LogStart,
    OpenedLog,
    OpeningSettings,
    StartProgress,
    StartReport,
    open_directory,
    refuse_duplicate_logs,
)
from kafka_zk.storage.manager.log_upkeep import LogUpkeep


class ManagerSettings(NamedTuple):
    """``max_open_files``: None means derived from the process's limit. ``recovery_helper_count``: per directory."""

    max_open_files: int | None = None
    producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS
    recovery_helper_count: int = 0


_DEFAULT_SETTINGS = ManagerSettings()


class LogManager:
    """All logs of a broker, their periodic ``upkeep``, and ``moves`` between directories."""

    def __init__(
        self,
        log_dirs: Sequence[Path | str],
        default_config: LogConfig,
        *,
        broker_id: int,
        cluster_id: str,
        clock_ms: Callable[[], int],
        settings: ManagerSettings = _DEFAULT_SETTINGS,
        callbacks: LogCallbacks = DEFAULT_CALLBACKS,
    ) -> None:
        self.default_config = default_config
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._recovery_helper_count = settings.recovery_helper_count
        dirs = [LogDir(os.fspath(path), callbacks.random) for path in log_dirs]
        self.hosted = HostedLogs(dirs, settings.max_open_files, clock_ms, callbacks)
        self.pool = self.hosted.pool
        self.producer_ids = self.hosted.producer_ids
        self.large_snapshots = self.hosted.large_snapshots
        self.moves = LogMoves(self.hosted)
        self.upkeep = LogUpkeep(self.hosted, settings.producer_id_expiration_ms)
        self._start: LogStart | None = None

    # -- start --------------------------------------------------------------------------------------------------

    def start(
        self,
        topic_configs: Mapping[str, Mapping[str, str]],
        on_progress: Callable[[StartProgress], None] | None = None,
    ) -> StartReport:
        """Run ``start_steps``; ``on_progress`` is called after each step."""
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
        """Lock the directories and open all logs, about one per step.

        Before the last step, the owner may only call ``shutdown``, which ends the helpers and the start.

        Args:
            topic_configs: the properties that each topic sets itself; all other properties have the default.
        Raises: LogDirLocked, InconsistentLogDir; OSError if no directory is usable.
        """
        hosted = self.hosted
        offline, found = yield from self._lock_dirs_steps()
        configs = {
            topic: LogConfig.from_properties(properties, self.default_config).of_topic(topic)
            for topic, properties in topic_configs.items()
        }
        found = self.moves.settle(found, are_all_here=not offline)
        try:
            refuse_duplicate_logs(found)
        except InconsistentLogDir:
            self._close_dirs()
            raise
        unclean = {log_dir for log_dir in found if not log_dir.had_clean_shutdown()}
        is_clean = all(log_dir.was_left_by_a_registered_broker() for log_dir in found)

        def failed(log_dir: LogDir, error: OSError) -> None:
            offline[log_dir.path] = str(error)
            hosted.take_offline(log_dir, error)
            if not hosted.live_dirs:
                raise error

        how = OpeningSettings(
            configs, self.default_config, hosted.dependencies, hosted.clock_ms, self._recovery_helper_count
        )
        openings = {}
        for log_dir, partitions in found.items():
            try:
                openings[log_dir] = open_directory(log_dir, partitions, how)
            except OSError as error:
                failed(log_dir, error)
        start = self._start = LogStart(openings, self._opened, self._directory_opened, failed)
        try:
            yield from start.steps()
        except InconsistentLogDir:
            start.close()
            self._close_dirs()
            raise
        self._start = None
        hosted.is_started = True
        recovered_count = sum(log_dir in unclean for log_dir in hosted.dir_of.values())
        return StartReport(
            len(hosted.logs), recovered_count, tuple(start.dropped), offline, start.scanned_bytes, is_clean
        )

    def _lock_dirs_steps(self) -> Generator[StartProgress, None, tuple[dict[str, str], FoundLogs]]:
        """Returns path -> reason for unusable directories, and the logs in the others."""
        offline: dict[str, str] = {}
        observe = self.hosted.callbacks.observe
        found = {}
        for log_dir in self.hosted.dirs:
            try:
                for _ in log_dir.open_steps(self._broker_id, self._cluster_id, observe):
                    yield StartProgress(0, 0, 0, 0, True)
                log_dir.clear_directories(observe)
                found[log_dir] = log_dir.partitions()
            except OSError as error:
                log_dir.close()
                offline[log_dir.path] = str(error)
            except (LogDirLocked, InconsistentLogDir):
                self._close_dirs()
                raise
            else:
                self.hosted.live_dirs.append(log_dir)
        if not self.hosted.live_dirs:
            raise OSError("; ".join(offline.values()) or "no log directory is configured")
        return offline, found

    def _opened(self, opened: OpenedLog, log_dir: LogDir) -> None:
        self.hosted.add(opened.tp, opened.log, log_dir)

    def _directory_opened(self, log_dir: LogDir) -> None:
        """Continue deletions when all logs are loaded. From now on, a start after a crash recovers."""
        log_dir.resume_deletions(self.hosted.clock_ms())
        log_dir.claim()
        log_dir.remove_clean_shutdown()

    def _close_dirs(self) -> None:
        for log_dir in self.hosted.live_dirs:
            log_dir.close()

    # -- look up, create, delete --------------------------------------------------------------------------------

    @property
    def live_directories(self) -> list[Path]:
        return [Path(log_dir.path) for log_dir in self.hosted.live_dirs]

    @property
    def has_failed_directory(self) -> bool:
        """True if a log directory is offline; it may contain the missing logs."""
        return len(self.hosted.live_dirs) < len(self.hosted.dirs)

    def get(self, tp: TopicPartition) -> Log | None:
        return self.hosted.logs.get(tp)

    def all_logs(self) -> list[Log]:
        return list(self.hosted.logs.values())

    def log_dir_of(self, tp: TopicPartition) -> Path:
        """The entry of ``log.dirs`` that contains the partition. Raises KeyError."""
        return Path(self.hosted.dir_of[tp].path)

    def get_or_create(
        self, tp: TopicPartition, config: LogConfig | None = None, topic_id: str | None = None
    ) -> Log:
        """The partition's log. A new log goes to the preferred directory, or else to the one with the fewest
        partitions.

        Raises: OSError if the directory fails.
        """
        log = self.hosted.logs.get(tp)
        if log is not None:
            if topic_id is not None and log.topic_id is None:
                log.set_topic_id(topic_id)
            return log
        if not self.hosted.live_dirs:
            raise OSError("every log directory is offline")
        log_dir = self.moves.take_preferred(tp) or min(self.hosted.live_dirs, key=lambda each: len(each.logs))
        log = self.hosted.new_log(tp, log_dir, partition_dir(tp), config or self.default_config, topic_id)
        self.hosted.add(tp, log, log_dir)
        return log

    def delete(self, tp: TopicPartition) -> None:
        """Rename the directory and forget the log; ``delete_due`` removes the files later.

        Raises: OSError if the directory fails.
        """
        hosted = self.hosted
        log = hosted.logs.get(tp)
        if log is None:
            return
        self.moves.delete_future(tp)
        log_dir = hosted.dir_of[tp]
        try:
            log_dir.delete(tp, hosted.clock_ms())
        except OSError as error:
            hosted.take_offline(log_dir, error)
            raise
        hosted.forget(log)
        if log.cleaned_offset is not None:  # must not apply to a later log of this name
            self.upkeep.checkpoint_cleaner_offsets()

    @property
    def directory_locks(self) -> list[int]:
        """Descriptors of the log directories' locks. Processes that write to the directories inherit them, so that no
        broker starts while such a process lives."""
        return [log_dir.lock for log_dir in self.hosted.live_dirs]

    def fail_directory(self, log: Log, error: OSError) -> None:
        """See ``HostedLogs.fail_directory``."""
        self.hosted.fail_directory(log, error)

    def shutdown(self, broker_epoch: int = -1) -> None:
        """Run ``shutdown_steps``."""
        for works in self.shutdown_steps(broker_epoch):
            for work in works:
                work()

    def shutdown_steps(self, broker_epoch: int = -1) -> Iterator[Works]:
        """Flush and close all logs, and write the checkpoints and the marker that lets the next start skip recovery.

        The owner runs a step's fsyncs, possibly in threads, before the next step. Do not call any other method
        afterwards. Nothing is written to a failed directory, or during a start.
        """
        hosted = self.hosted
        if not hosted.is_started:
            if self._start is not None:
                self._start.close()
            self._close_dirs()
        for log_dir in list(hosted.live_dirs if hosted.is_started else ()):
            try:
                yield from log_dir.shut_down_steps(broker_epoch)
            except OSError as error:
                hosted.take_offline(log_dir, error)
        hosted.live_dirs = []
        hosted.logs = {}
        hosted.dir_of = {}
        hosted.futures = {}
        hosted.dirty.clear()
