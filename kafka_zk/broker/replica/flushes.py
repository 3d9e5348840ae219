"""Flushes required by ``flush.messages``: the leader's records are committed when durable.

Tests: tests/kafka_zk/broker/replica/test_manager.py.
"""

from collections.abc import Callable

from twisted.internet.defer import ensureDeferred

from kafka_zk.base.clock import Clock
from kafka_zk.base.threads import RunInThread
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.storage.files.config_table import LONG_MAX
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.log_manager import LogManager


class Flushes:
    """``now_ms``: the clock of high watermarks. ``wake``: re-evaluates a partition's waiting requests."""

    def __init__(
        self,
        logs: LogManager,
        clock: Clock,
        run_in_thread: RunInThread,
        now_ms: Callable[[], int],
        wake: Callable[[TopicPartition], None],
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._now_ms = now_ms
        self._wake = wake

    async def make_durable(self, partition: Partition, log: Log) -> OSError | None:
        """Flush after ``Partition.flush_begins``. Returns the error if the directory is now offline."""
        try:
            work, done = log.prepare_flush()
            try:
                await self._run_in_thread(work)
            finally:
                done()
        except OSError as error:
            self._logs.fail_directory(log, error)
            return error
        finally:
            partition.flush_ended(self._now_ms())
            self._wake(partition.tp)
        return None

    def before_leading(self, partition: Partition) -> None:
        """Flush the records that were appended before this broker's election, if a flush is due."""
        log, now_ms = partition.log, self._clock.wall_ns() // 1_000_000
        if log is not None and log.config.flush_messages < LONG_MAX and log.flush_due(now_ms):
            partition.flush_begins(log.high_watermark)
            ensureDeferred(self.make_durable(partition, log))
