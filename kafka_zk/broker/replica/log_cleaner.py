"""The log cleaner: helper processes compact the dirtiest logs, and the broker swaps in the results.

Each of ``log.cleaner.threads`` lanes cleans one log after another, and pauses for ``log.cleaner.backoff.ms`` if no log
is due. A helper only reads segments and writes ``.cleaned`` files. It dies with its broker; while it lives, no other
broker can open the log directories. A truncation, a deletion, a change of leader or a failed directory aborts a
cleaning. Then the helper is killed, no more segments are swapped in, and a later round starts the cleaning again.

Source: LogCleaner.scala@3.9.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Clock
from kafka_zk.base.threads import RunInThread
from kafka_zk.base.turns import in_slices
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.storage.cleaner.cleaner import Cleaned, CleanedSegment, CleanerConfig, CleanerStats
from kafka_zk.storage.cleaner.log_to_clean import Cleaning
from kafka_zk.storage.files.errors import StorageError, is_shortage
from kafka_zk.storage.files.helper_process import FAILED, PROGRESS, Helper
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.log_cleaner_manager import LogCleanerManager
from kafka_zk.storage.manager.log_manager import LogManager

_log = Logger()

WhenReadable = Callable[[int], "Deferred[None]"]
StartHelper = Callable[[int, int, Sequence[int]], Helper]

HELPER_BYTES = 1 << 30
"""A helper's address space in addition to its offset map; an uncompressed batch may take 128 MB."""
NICENESS = 5
ATTENTION_S = 0.5
"""How often to check whether a cleaning is still wanted."""
MOST_DEATHS = 3
"""Number of consecutive helper deaths after which a log counts as uncleanable."""


class LogCleanerSettings(NamedTuple):
    """``log.cleaner.*``, shared by all threads."""

    is_enabled: bool = True
    threads: int = 1
    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    load_factor: float = 0.9
    io_buffer_bytes: int = 512 * 1024
    max_bytes_per_second: float = float("inf")
    backoff_ms: int = 15_000

    @classmethod
    def of(cls, config: KafkaConfig) -> "LogCleanerSettings":
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
        """The settings of one thread: its equal share of the memory and the rate. Source: CleanerThread in
        LogCleaner.scala@3.9."""
        threads = max(1, self.threads)
        return CleanerConfig(
            min(self.dedupe_buffer_bytes // threads, (1 << 31) - 1),
            self.load_factor,
            max(1, self.io_buffer_bytes // threads // 2),
            self.max_bytes_per_second / threads,
        )


class LogCleaner:
    """Runs on the reactor thread.

    ``role_state_of``: this broker's role and leader epoch; a change aborts a cleaning. ``last_stats``: the statistics
    of each lane's last cleaning.
    """

    def __init__(
        self,
        clock: Clock,
        run_in_thread: RunInThread,
        when_readable: WhenReadable,
        logs: LogManager,
        settings: LogCleanerSettings,
        role_state_of: Callable[[TopicPartition], object] = lambda tp: None,
        start_helper: StartHelper = Helper,
    ) -> None:
        self.clock = clock
        self.run_in_thread = run_in_thread
        self.when_readable = when_readable
        self.logs = logs
        self.settings = settings
        self.role_state_of = role_state_of
        self.start_helper = start_helper
        self.manager = LogCleanerManager(logs, _tell_uncleanable)
        self.deaths: dict[Log, int] = {}  # helper deaths since the log was last cleaned
        self._is_short = False
        self._lanes: list[_Lane] = []

    @property
    def last_stats(self) -> list[CleanerStats]:
        return [lane.last_stats for lane in self._lanes]

    @property
    def dead_thread_count(self) -> int:
        """Number of lanes that ended because of an error."""
        return sum(lane.has_failed for lane in self._lanes)

    def start(self) -> None:
        if self.settings.is_enabled:
            self._lanes = [_Lane(self) for _ in range(self.settings.threads)]
            for lane in self._lanes:
                lane.start()

    def stop(self) -> None:
        """Kill the helpers, without waiting. Later rounds repeat their work."""
        for lane in self._lanes:
            lane.stop()
        self._lanes = []

    def reconfigure(self, settings: LogCleanerSettings) -> None:
        """Use other settings; as in Kafka, cleanings in progress are aborted, and ``is_enabled`` does not change."""
        settings = settings._replace(is_enabled=self.settings.is_enabled)
        if settings != self.settings:
            self.settings = settings
            self.stop()
            self.start()

    def forget_deleted(self) -> None:
        for log in [log for log in self.deaths if self.logs.get(log.tp) is not log]:
            del self.deaths[log]

    def log_shortage(self, reason: object) -> None:
        """Log, once until a cleaning succeeds, that the machine lacks a resource."""
        if not self._is_short:
            seconds = self.settings.backoff_ms / 1000
            _log.warn("the log cleaner tries again in {seconds} s: {reason}", seconds=seconds, reason=reason)
        self._is_short = True

    def shortage_is_over(self) -> None:
        if self._is_short:
            _log.info("the log cleaner continues")
        self._is_short = False

    def clean_now(self, tp: TopicPartition) -> bool:
        """Clean a log soon, even if little of it is dirty. Returns False if the log is not compacted, or is
        uncleanable."""
        is_wanted = bool(self._lanes) and self.manager.clean_next(tp)
        for lane in self._lanes if is_wanted else ():
            lane.wake()
        return is_wanted


class _Lane:
    """Cleans one log after another with one helper, which ends when no log is due."""

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
            self._helper.process.kill()  # this wakes the thread that waits for it
        self.wake()

    def wake(self) -> None:
        rest, self._rest = self._rest, None
        if rest is not None:
            if self._rest_call.active():
                self._rest_call.cancel()
            rest.callback(None)

    async def _run(self) -> None:
        cleaner = self._cleaner
        while not self._is_stopped:
            cleaner.forget_deleted()
            now_ms = cleaner.clock.wall_ms()
            await in_slices(cleaner.clock, cleaner.manager.examine_steps(now_ms))
            cleaning = None if self._is_stopped else cleaner.manager.grab(cleaner.settings.share, now_ms)
            if cleaning is None:
                if self._helper is not None:
                    await cleaner.run_in_thread(self._end_helper)
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
        """Clean a log; after an unexpected error, release it, so that retention can use it."""
        try:
            return await self._clean(cleaning)
        except Exception:  # not GeneratorExit, with which a simulated process ends
            self._end_helper()
            self._cleaner.manager.finish(cleaning, None)
            raise

    async def _clean(self, cleaning: Cleaning) -> bool:
        """Returns whether the log is cleaner than before."""
        cleaner = self._cleaner
        role_state = cleaner.role_state_of(cleaning.log.tp)
        end_offset = None
        try:
            helper = await cleaner.run_in_thread(lambda: self._ready_helper(cleaning))
        except OSError as error:
            cleaner.log_shortage(f"no helper process can be started: {error}")
        else:
            try:
                end_offset = await self._clean_by(helper, cleaning, role_state)
            except (EOFError, OSError) as error:  # the connection failed; the helper reports disk errors as responses
                self._helper_lost(cleaning, error)
        if end_offset is None:
            await cleaner.run_in_thread(self._end_helper)  # after this, the helper writes nothing more
        return cleaner.manager.finish(cleaning, end_offset) and not self._is_stopped

    def _ready_helper(self, cleaning: Cleaning) -> Helper:
        """Runs on a worker thread. Raises: OSError if no helper can be started."""
        if self._helper is None or not self._helper.is_alive:
            self._end_helper()
            memory_bytes = cleaning.work.config.dedupe_buffer_bytes + HELPER_BYTES
            self._helper = self._cleaner.start_helper(memory_bytes, NICENESS, self._cleaner.logs.directory_locks)
        return self._helper

    async def _clean_by(self, helper: Helper, cleaning: Cleaning, role_state: object) -> int | None:
        """The end of the clean part; None if the cleaning was aborted. Raises EOFError, OSError if the helper died."""
        cleaner, tp = self._cleaner, cleaning.log.tp
        if not self._is_stopped:
            await cleaner.run_in_thread(lambda: helper.begin(cleaning.work))
        while not self._is_stopped:
            if not cleaner.manager.is_current(cleaning) or cleaner.role_state_of(tp) != role_state:
                cleaner.manager.abort(tp)
                return None
            if not await self._says_something(helper):
                continue
            kind, content = await cleaner.run_in_thread(helper.receive)
            if kind != PROGRESS:
                return self._ended(cleaning, kind, content)
            if cleaner.role_state_of(tp) == role_state and not self._is_stopped:
                await self._swap(cleaning, content)
        return None

    async def _says_something(self, helper: Helper) -> bool:
        """True if the helper sent something or died within ATTENTION_S."""
        heard = self._cleaner.when_readable(helper.connection.fileno())
        timeout = self._cleaner.clock.callLater(ATTENTION_S, heard.cancel)
        try:
            await heard
        except CancelledError:
            return False
        if timeout.active():
            timeout.cancel()
        return True

    async def _swap(self, cleaning: Cleaning, cleaned: CleanedSegment) -> None:
        """Swap in a cleaned segment. Fsyncs run on worker threads. A disk error takes the directory offline."""
        manager = self._cleaner.manager
        try:
            for sync in manager.swap_steps(cleaning, cleaned, self._cleaner.clock.wall_ms()):
                await self._sync(sync)
        except OSError as error:
            manager.abort(cleaning.log.tp)
            manager.disk_failed(cleaning.log, error)

    async def _sync(self, sync: Callable[[], None]) -> None:
        """Run an fsync, and repeat it while the machine lacks a resource."""
        while True:
            try:
                return await self._cleaner.run_in_thread(sync)
            except OSError as error:
                if not is_shortage(error) or self._is_stopped:
                    raise
                self._cleaner.log_shortage(error)
            await self._pause()

    def _ended(self, cleaning: Cleaning, kind: int, content: Any) -> int | None:
        """The end of the clean part; None after a failure."""
        cleaner, log = self._cleaner, cleaning.log
        if kind == FAILED:
            if cleaner.manager.is_current(cleaning):  # otherwise the cleaning was aborted, so a failure is expected
                if isinstance(content, StorageError):
                    cleaner.manager.mark_uncleanable(log, str(content))
                elif is_shortage(content):
                    cleaner.log_shortage(content)
                else:
                    cleaner.logs.fail_directory(log, content)
            return None
        cleaned: Cleaned = content
        self.last_stats = cleaned.stats
        cleaner.deaths.pop(log, None)
        cleaner.shortage_is_over()
        _tell_cleaned(cleaning, cleaned)
        return cleaned.end_offset

    def _helper_lost(self, cleaning: Cleaning, error: Exception) -> None:
        cleaner, log = self._cleaner, cleaning.log
        if self._is_stopped or not cleaner.manager.is_current(cleaning):
            return
        deaths = cleaner.deaths[log] = cleaner.deaths.get(log, 0) + 1
        reason = f"the helper process that cleaned it ended: {error or 'it died'}"
        _log.warn("{tp} is not cleaned: {reason}", tp=log.tp, reason=reason)
        if deaths >= MOST_DEATHS:
            cleaner.manager.mark_uncleanable(log, reason)

    def _end_helper(self) -> None:
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.end()


def _tell_uncleanable(tp: TopicPartition, reason: str) -> None:
    _log.error("{tp} cannot be compacted and is not cleaned until a restart: {reason}", tp=tp, reason=reason)


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
