"""Periodic work on all logs: flushes, retention, checkpoints, removal of files.

Blocking calls run in ``LogCallbacks.run_blocking``. Between steps, logs may be added and deleted.
Source: LogManager.scala@3.9. Tests: tests/storage/manager/test_log_manager.py.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.hosted_logs import HostedLogs
from kafka_zk.storage.manager.log_dir import remove_trees


class LogUpkeep:
    """Runs the periodic work. ``producer_id_expiration_ms`` may be changed."""

    def __init__(self, hosted: HostedLogs, producer_id_expiration_ms: int) -> None:
        self._hosted = hosted
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self._flushing: set[Log] = set()

    def flush_dirty(self, now_ms: int) -> int:
        """Begin to flush logs that are due, limited by the pool's open files. Returns how many."""
        logs = [self._hosted.logs[tp] for tp in self._hosted.dirty]
        waiting = [(log, log.flush_target(now_ms)) for log in logs if log not in self._flushing]
        room = self._hosted.pool.max_open_files - len(self._flushing)
        due = [(log, target) for log, target in waiting if target is not None][:room]
        for log, target in due:
            if self._hosted.has(log):  # an earlier flush may have taken its directory offline
                self._flush(log, target)
        return len(due)

    def _flush(self, log: Log, up_to: int) -> None:
        try:
            work, finish = log.prepare_flush(up_to)
        except OSError as error:
            self._hosted.fail_directory(log, error)
            return
        self._flushing.add(log)

        def done(error: OSError | None) -> None:
            finish()
            self._flushing.discard(log)
            if error is not None:
                self._hosted.fail_directory(log, error)
            elif self._hosted.has(log):
                self._hosted.dirty.pop(log.tp, None)
                if log.is_dirty:  # only newer records are dirty, so the log goes to the queue's end
                    self._hosted.log_became_dirty(log.tp)

        self._hosted.callbacks.run_blocking(work, done)

    def cleanup(self, now_ms: int) -> int:
        """Apply retention. Returns the number of deleted segments."""
        return sum(self.cleanup_steps(now_ms))

    def cleanup_steps(self, now_ms: int) -> Iterator[int]:
        """Like ``cleanup``, one log per step. Tiered logs are left to their remote log manager."""
        for log in list(self._hosted.logs.values()):
            if not self._hosted.has(log) or log.is_being_cleaned or log.config.is_tiered:
                continue
            try:
                count = log.delete_old_segments(now_ms)
            except OSError as error:
                self._hosted.fail_directory(log, error)
                continue
            yield count

    def expire_producers_steps(self, now_ms: int) -> Iterator[int]:
        """Forget expired producers, one log per step; yields how many were forgotten."""
        left_count = 0
        for log in list(self._hosted.logs.values()):
            yield log.producers.remove_expired(now_ms, self.producer_id_expiration_ms)
            left_count += len(log.producers.producers)
        self._hosted.producer_ids.recounted(left_count)

    def write_topic_ids_steps(self) -> Iterator[None]:
        """Write missing ``partition.metadata`` files, one per step."""
        for log in list(self._hosted.logs.values()):
            if log.has_unwritten_id and self._hosted.has(log):
                try:
                    log.write_topic_id()
                except OSError as error:
                    self._hosted.fail_directory(log, error)
                yield

    def checkpoint(self) -> None:
        """Write the recovery points, log start offsets and cleaner offsets of all directories."""
        for log_dir in list(self._hosted.live_dirs):
            self._hosted.run_for(log_dir, log_dir.prepare_checkpoint())

    def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks of all directories, if they have changed."""
        for log_dir in list(self._hosted.live_dirs):
            work = log_dir.prepare_high_watermarks()
            if work is not None:
                self._hosted.run_for(log_dir, work)

    def checkpoint_cleaner_offsets(self) -> None:
        """Write the cleaner offsets of all directories, if they have changed."""
        for log_dir in list(self._hosted.live_dirs):
            work = log_dir.prepare_cleaner_offsets()
            if work is not None:
                self._hosted.run_for(log_dir, work)

    def delete_due(self, now_ms: int) -> int:
        """Remove files and directories after ``file.delete.delay.ms``. Returns how many files and directories."""
        count = 0
        for log_dir in list(self._hosted.live_dirs):
            if paths := log_dir.take_deletions(now_ms):
                count += len(paths)
                self._hosted.run_for(log_dir, partial(remove_trees, paths))
        for log in list(self._hosted.logs.values()):
            due = log.segments.take_due(now_ms) if log.segments.pending_removals else []
            for remove in due:
                self._hosted.run(remove, partial(self._hosted.fail_directory, log))
            count += len(due)
        return count

    def prepare_start_offsets(
        self, tps: Iterable[TopicPartition]
    ) -> list[tuple[Callable[[], None], Callable[[OSError], None]]]:
        """(Work, failed) per directory of these partitions: ``work``, for any thread, makes log start offsets durable.
        The owner passes an OSError of ``work`` to ``failed``."""
        hosted = self._hosted
        log_dirs = {hosted.dir_of[tp]: None for tp in tps if tp in hosted.dir_of}
        return [(log_dir.prepare_log_start_offsets(), partial(hosted.take_offline, log_dir)) for log_dir in log_dirs]

    def prepare_deletions(self) -> list[tuple[Callable[[], None], Callable[[OSError], None]]]:
        """Pairs as in ``prepare_start_offsets``, for all deletions so far."""
        works = [(log_dir, log_dir.prepare_deletions()) for log_dir in self._hosted.live_dirs]
        return [(work, partial(self._hosted.take_offline, log_dir)) for log_dir, work in works if work is not None]
