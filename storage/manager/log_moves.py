"""Moves of logs to other log directories: a copy (the future) replaces the log.

Source: LogManager.scala (maybeUpdatePreferredLogDir, replaceCurrentWithFutureLog)@3.9.
Tests: tests/storage/manager/test_log_moves.py, tests/kafka_zk/broker/handlers/data/test_alter_replica_log_dirs.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.filenames import future_dir
from kafka_zk.storage.files.files import sync_path
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.hosted_logs import HostedLogs
from kafka_zk.storage.manager.log_dir import LogDir

FoundLogs: TypeAlias = Mapping[LogDir, Sequence[tuple[TopicPartition, str]]]
"""Partitions and their paths, by log directory."""


class LogMoves:
    """``interrupted``: target directories of unfinished moves of the last run."""

    def __init__(self, hosted: HostedLogs) -> None:
        self._hosted = hosted
        self._preferred: dict[TopicPartition, LogDir] = {}
        self.interrupted: dict[TopicPartition, Path] = {}
        hosted.directory_lost = self._directory_lost

    def _directory_lost(self, log_dir: LogDir, lost: Iterable[TopicPartition]) -> None:
        futures = self._hosted.futures
        for tp in [tp for tp, its_dir in futures.items() if its_dir is log_dir]:
            del futures[tp]
        for tp in lost:
            target = futures.pop(tp, None)
            if target is not None:
                target.leave_future(tp)

    def settle(self, found: FoundLogs, *, are_all_here: bool) -> FoundLogs:
        """Promote the copies whose logs are gone: complete ones, whose logs an earlier run had already removed, and
        those whose logs were in a directory that failed and is no longer used. That run's other moves start again.

        If a directory is missing, its logs are unknown, so copies without a log stay for a later start. Copies whose
        logs are here are outdated in any case: left beside a later move's copy, they could be promoted instead of it.
        Returns the logs to open.
        """
        present = {tp for partitions in found.values() for tp, _ in partitions}
        settled = {}
        for log_dir, partitions in found.items():
            settled[log_dir] = list(partitions)
            for tp, directory in log_dir.futures_left():
                if tp in present:
                    log_dir.put_aside(tp, directory)
                    self.interrupted[tp] = Path(log_dir.path)
                elif not are_all_here:
                    log_dir.keep_checkpointed(tp)
                else:
                    settled[log_dir].append((tp, log_dir.promote(tp, directory)))
                    present.add(tp)
        return settled

    def prefer(self, tp: TopicPartition, directory: Path) -> None:
        """Choose the directory for a log that does not exist yet. Raises: KeyError if ``directory`` is not live."""
        self._preferred[tp] = self._live(directory)

    def take_preferred(self, tp: TopicPartition) -> LogDir | None:
        """The directory for a log that is created now; None if none was chosen, or if the chosen one has failed."""
        log_dir = self._preferred.pop(tp, None)
        return log_dir if log_dir in self._hosted.live_dirs else None

    def _live(self, directory: Path) -> LogDir:
        return {Path(each.path): each for each in self._hosted.live_dirs}[directory]

    def future(self, tp: TopicPartition) -> Log | None:
        """The copy that will replace the log; None if the log does not move."""
        log_dir = self._hosted.futures.get(tp)
        return None if log_dir is None else log_dir.futures[tp]

    def future_dir_of(self, tp: TopicPartition) -> Path | None:
        """The directory in ``log.dirs`` to which the log moves; None if it does not move."""
        log_dir = self._hosted.futures.get(tp)
        return None if log_dir is None else Path(log_dir.path)

    def begin_future(self, tp: TopicPartition, directory: Path) -> Log:
        """Create an empty log in ``directory`` for the copy.

        Raises: KeyError if ``directory`` is not live; ValueError if the topic name is too long; OSError.
        """
        log, log_dir = self._hosted.logs[tp], self._live(directory)
        name = future_dir(tp, self._hosted.callbacks.random)
        copy = self._hosted.new_log(tp, log_dir, name, log.config, log.topic_id)
        copy.update_high_watermark(0)
        log_dir.futures[tp] = copy
        self._hosted.futures[tp] = log_dir
        return copy

    def delete_future(self, tp: TopicPartition) -> None:
        """Delete a copy, if there is one. Raises: OSError."""
        log_dir = self._hosted.futures.pop(tp, None)
        if log_dir is not None:
            try:
                log_dir.delete_future(tp, self._hosted.clock_ms())
            except OSError as error:
                self._hosted.take_offline(log_dir, error)
                raise

    def replace_by_future(self, tp: TopicPartition) -> Log:
        """Replace the log by its complete and durable copy; the old files are deleted later.

        First, the copy's values replace the log's in the checkpoints, because they account for the copy's gaps and for
        DeleteRecords. Then the old log is renamed. From then on, a start that finds the copy without its log knows that
        the copy is complete. Raises: OSError; the failed directory is then offline.
        """
        old, old_dir = self._hosted.logs[tp], self._hosted.dir_of[tp]
        new_dir = self._hosted.futures.pop(tp)
        try:
            new_dir.checkpoint_future(tp)
        except OSError as error:
            self._hosted.take_offline(new_dir, error)
            raise
        try:
            old_dir.delete(tp, self._hosted.clock_ms())
            sync_path(old_dir.path)
        except OSError as error:
            new_dir.leave_future(tp)
            old_dir.logs[tp] = old  # the log fails with its directory
            self._hosted.take_offline(old_dir, error)
            raise
        self._hosted.forget(old)
        try:
            new_dir.adopt_future(tp)
        except OSError as error:
            self._hosted.take_offline(new_dir, error)
            raise
        self._hosted.add(tp, new_dir.logs[tp], new_dir)
        for log_dir in (old_dir, new_dir):
            self._hosted.run_for(log_dir, log_dir.prepare_checkpoint())
        return new_dir.logs[tp]
