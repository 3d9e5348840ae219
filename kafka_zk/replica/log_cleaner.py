"""The log cleaner of a broker: has helper processes compact the dirtiest logs, and puts what they made in its place.

Each of ``log.cleaner.threads`` lanes cleans one log after the other and rests for ``log.cleaner.backoff.ms`` when none
is due. A helper only reads segments and writes ``.cleaned`` files; it dies with its broker, and while it lives no other
broker opens the log directories. What happens to a log meanwhile – truncation, deletion, another leader, a failed
directory – voids the cleaning: its helper is killed, nothing more is put in place, and a later round begins anew.

Source: LogCleaner.scala@3.9. Tests: tests/kafka_zk/replica/test_log_cleaner.py.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from kafka_zk.config.kafka_config import KafkaConfig
from kafka_zk.network.slices import in_slices
from kafka_zk.storage.cleaner import Cleaned, CleanedSegment, CleanerConfig, CleanerStats
from kafka_zk.storage.errors import StorageError
from kafka_zk.storage.helper_process import FAILED, PROGRESS, Helper
from kafka_zk.storage.log_cleaner_manager import LogCleanerManager
from kafka_zk.storage.log_manager import LogManager
from kafka_zk.storage.log_to_clean import Cleaning
from kafka_zk.storage.types import TopicPartition
from kafka_zk.system.clock import Clock
from kafka_zk.system.threads import RunInThread

_log = Logger()

HELPER_BYTES = 1 << 30
"""What a helper's address space may take besides its offset map, of which a batch that unpacks may take 128 MB."""
NICENESS = 5
ATTENTION_S = 0.5
"""So soon is it noticed that a cleaning is not wanted any more."""
MOST_DEATHS = 3
"""A log under which so many helpers died, one after the other, cannot be cleaned."""


class LogCleanerSettings(NamedTuple):
    """The keys ``log.cleaner.*``, which all threads share."""

    is_enabled: bool = True
    threads: int = 1
    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    load_factor: float = 0.9
    io_buffer_bytes: int = 512 * 1024
    max_bytes_per_second: float = float("inf")
    backoff_ms: int = 15_000

    @classmethod
    def of(cls, config: KafkaConfig) -> "LogCleanerSettings":
        """As the broker's configuration says."""
        return cls(
            config.log_cleaner_enable,
            config.log_cleaner_threads,
            config.log_cleaner_dedupe_buffer_size,
            config.log_cleaner_io_buffer_load_factor,
            config.log_cleaner_io_buffer_size,
            max(1.0, config.log_cleaner_io_max_bytes_per_second),
            config.log_cleaner_backoff_ms,
        )

    @property
    def share(self) -> CleanerConfig:
        """What one of the threads may take. Source: CleanerThread in LogCleaner.scala@3.9."""
        threads = max(1, self.threads)
        return CleanerConfig(
            min(self.dedupe_buffer_bytes // threads, (1 << 31) - 1),
            self.load_factor,
            max(1, self.io_buffer_bytes // threads // 2),
            self.max_bytes_per_second / threads,
        )


class LogCleaner:
    """See the module's docstring; on the reactor thread.

    ``standing_of`` tells what this broker is to a partition, leader epoch included; a change voids a cleaning.
    ``last_stats`` are those of each thread's last cleaning.
    """

    def __init__(
        self,
        clock: Clock,
        run_in_thread: RunInThread,
        logs: LogManager,
        settings: LogCleanerSettings,
        standing_of: Callable[[TopicPartition], object] = lambda tp: None,
    ) -> None:
        self.clock = clock
        self.run_in_thread = run_in_thread
        self.logs = logs
        self.settings = settings
        self.standing_of = standing_of
        self.manager = LogCleanerManager(logs, _tell_uncleanable)
        self.deaths: dict[TopicPartition, int] = {}  # of helpers, since the log was last cleaned
        self._lanes: list[_Lane] = []

    @property
    def last_stats(self) -> list[CleanerStats]:
        return [lane.last_stats for lane in self._lanes]

    @property
    def dead_thread_count(self) -> int:
        """Lanes that ended though nobody stopped them."""
        return sum(lane.has_failed for lane in self._lanes)

    def start(self) -> None:
        if self.settings.is_enabled:
            self._lanes = [_Lane(self) for _ in range(self.settings.threads)]
            for lane in self._lanes:
                lane.start()

    def stop(self) -> None:
        """Kill the helpers; what they were doing is done anew some day. Returns at once."""
        for lane in self._lanes:
            lane.stop()
        self._lanes = []

    def reconfigure(self, settings: LogCleanerSettings) -> None:
        """Go on with other settings. As in Kafka, what is under way is given up, and ``is_enabled`` stays as it is."""
        settings = settings._replace(is_enabled=self.settings.is_enabled)
        if settings != self.settings:
            self.settings = settings
            self.stop()
            self.start()

    def clean_now(self, tp: TopicPartition) -> bool:
        """Clean a log soon, however little of it is dirty; False if it is not to be compacted, or cannot be."""
        is_wanted = bool(self._lanes) and self.manager.want_now(tp)
        for lane in self._lanes if is_wanted else ():
            lane.wake()
        return is_wanted


class _Lane:
    """One log after the other, by one helper process, which is ended when there is nothing to do."""

    def __init__(self, cleaner: LogCleaner) -> None:
        self._cleaner = cleaner
        self._helper: Helper | None = None
        self._rest: Deferred[None] | None = None
        self._rest_call: Any = None
        self._is_stopped = False
        self.has_failed = False
        self.last_stats = CleanerStats()

    def start(self) -> None:
        ensureDeferred(self._run()).addErrback(self._failed)

    def _failed(self, failure: Any) -> None:
        self.has_failed = True
        self._end_helper()
        _log.failure("a thread of the log cleaner ended", failure)

    def stop(self) -> None:
        self._is_stopped = True
        if self._helper is not None:
            self._helper.process.kill()  # the thread that waits for it notices
        self.wake()

    def wake(self) -> None:
        """Look for work now."""
        rest, self._rest = self._rest, None
        if rest is not None:
            if self._rest_call.active():
                self._rest_call.cancel()
            rest.callback(None)

    async def _run(self) -> None:
        cleaner = self._cleaner
        while not self._is_stopped:
            now_ms = cleaner.clock.wall_ms()
            await in_slices(cleaner.clock, cleaner.manager.look_steps(now_ms))
            cleaning = None if self._is_stopped else cleaner.manager.grab(cleaner.settings.share, now_ms)
            if cleaning is None:
                self._end_helper()
                await self._pause()
            elif not await self._clean_or_let_go(cleaning):
                await self._pause()
        self._end_helper()

    async def _pause(self) -> None:
        if not self._is_stopped:
            rest = self._rest = Deferred()
            self._rest_call = self._cleaner.clock.callLater(self._cleaner.settings.backoff_ms / 1000, self.wake)
            await rest

    async def _clean_or_let_go(self, cleaning: Cleaning) -> bool:
        """As ``_clean``; if that fails in a way that nobody has thought of, retention at least has the log back."""
        try:
            return await self._clean(cleaning)
        except BaseException:
            self._end_helper()
            self._cleaner.manager.finish(cleaning, None)
            raise

    async def _clean(self, cleaning: Cleaning) -> bool:
        """Whether the log is cleaner than before."""
        cleaner = self._cleaner
        log = cleaning.log
        standing = cleaner.standing_of(log.tp)
        end_offset = None
        try:
            begun = await cleaner.run_in_thread(lambda: self._begin(cleaning))
            while begun:
                if not cleaner.manager.wants(cleaning) or cleaner.standing_of(log.tp) != standing:
                    cleaner.manager.abort(log.tp)
                    break
                answer = await cleaner.run_in_thread(self._receive)
                if answer is None:
                    continue
                kind, content = answer
                if kind != PROGRESS:
                    end_offset = self._ended(cleaning, kind, content)
                    break
                if cleaner.standing_of(log.tp) == standing and not self._is_stopped:
                    await self._swap(cleaning, content)
        except (EOFError, OSError) as error:  # of the helper; those of the disk are its answers
            self._helper_lost(cleaning, error)
        if end_offset is None:
            await cleaner.run_in_thread(self._end_helper)  # it writes no more
        return cleaner.manager.finish(cleaning, end_offset) and not self._is_stopped

    def _begin(self, cleaning: Cleaning) -> bool:
        """In a thread: give the helper its work, False if there is no time for it. Raises: OSError."""
        if self._is_stopped:
            return False
        if self._helper is None or not self._helper.is_alive:
            self._end_helper()
            memory_bytes = cleaning.work.config.dedupe_buffer_bytes + HELPER_BYTES
            self._helper = Helper(memory_bytes, NICENESS, self._cleaner.logs.directory_locks)
        self._helper.begin(cleaning.work)
        return not self._is_stopped

    def _receive(self) -> tuple[int, Any] | None:
        """In a thread: what the helper says next; None if it says nothing for a while. Raises: EOFError, OSError."""
        helper = self._helper
        if helper is None:
            raise EOFError
        return helper.receive() if helper.connection.poll(ATTENTION_S) else None

    async def _swap(self, cleaning: Cleaning, cleaned: CleanedSegment) -> None:
        """Put a cleaned segment in its place; the fsyncs are done in threads. A disk that fails goes offline."""
        cleaner = self._cleaner
        try:
            for sync in cleaner.manager.swap_steps(cleaning, cleaned, cleaner.clock.wall_ms()):
                await cleaner.run_in_thread(sync)
        except OSError as error:
            cleaner.logs.fail_directory(cleaning.log, error)

    def _ended(self, cleaning: Cleaning, kind: int, content: Any) -> int | None:
        """Where the log is clean up to; None if it could not be cleaned."""
        cleaner, log = self._cleaner, cleaning.log
        if kind == FAILED:
            if cleaner.manager.wants(cleaning):  # else it is no wonder
                if isinstance(content, StorageError):
                    cleaner.manager.mark_uncleanable(log, str(content))
                else:
                    cleaner.logs.fail_directory(log, content)
            return None
        cleaned: Cleaned = content
        self.last_stats = cleaned.stats
        cleaner.deaths.pop(log.tp, None)
        _tell_cleaned(cleaning, cleaned)
        return cleaned.end_offset

    def _helper_lost(self, cleaning: Cleaning, error: Exception) -> None:
        cleaner, log = self._cleaner, cleaning.log
        if self._is_stopped or not cleaner.manager.wants(cleaning):
            return
        deaths = cleaner.deaths[log.tp] = cleaner.deaths.get(log.tp, 0) + 1
        reason = f"the helper process that cleaned it ended: {error or 'it died'}"
        _log.warn("{tp} is not cleaned: {reason}", tp=log.tp, reason=reason)
        if deaths >= MOST_DEATHS:
            cleaner.manager.mark_uncleanable(log, reason)

    def _end_helper(self) -> None:
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.end()


def _tell_uncleanable(tp: TopicPartition, reason: str) -> None:
    _log.error("{tp} cannot be compacted and is left as it is until a restart: {reason}", tp=tp, reason=reason)


def _tell_cleaned(cleaning: Cleaning, cleaned: Cleaned) -> None:
    stats = cleaned.stats
    _log.info(
        "compacted {tp}",
        tp=cleaning.log.tp,
        first_offset=cleaning.to_clean.first_dirty_offset,
        end_offset=cleaned.end_offset,
        read_bytes=stats.bytes_read,
        written_bytes=stats.bytes_written,
        read_records=stats.records_read,
        kept_records=stats.records_kept,
        seconds=round(stats.elapsed_s, 3),
    )
    if stats.invalid_records_read:
        _log.warn(
            "{count} records of {tp} have no key; they are removed",
            count=stats.invalid_records_read,
            tp=cleaning.log.tp,
        )
