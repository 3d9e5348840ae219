"""Which log is cleaned next, which are being cleaned, and which cannot be.

Decides and keeps; who cleans, and when, is its driver's part. One owner calls everything, as with the log manager.
Source: LogCleanerManager.scala@3.9. Tests: tests/kafka_zk/broker/replica/test_log_cleaner.py.
"""

from collections.abc import Callable, Iterator

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.cleaner.cleaner import CleanedSegment, CleanerConfig
from kafka_zk.storage.cleaner.log_to_clean import Cleaning, LogToClean, look_at
from kafka_zk.storage.files.errors import StorageError, is_shortage
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.log_manager import LogManager

Uncleanable = Callable[[TopicPartition, str], None]


class LogCleanerManager:
    """The compacted logs of a log manager.

    ``on_uncleanable`` is told once of a log that cannot be cleaned, and why; it is left alone until a restart.
    ``dirtiest_ratio`` and ``looked_ms`` are of the last look at all logs, ``compaction_delay_ms`` is the longest by
    which one was late then.
    """

    def __init__(self, logs: LogManager, on_uncleanable: Uncleanable) -> None:
        self._logs = logs
        self._on_uncleanable = on_uncleanable
        self._uncleanable: dict[TopicPartition, Log] = {}
        self._cleanings: dict[TopicPartition, Cleaning] = {}
        self._wanted_now: set[TopicPartition] = set()
        self._candidates: list[LogToClean] = []
        self.dirtiest_ratio = 0.0
        self.compaction_delay_ms = 0
        self.looked_ms = 0

    @property
    def uncleanable(self) -> dict[TopicPartition, Log]:
        """The logs that could not be cleaned and are still there."""
        for tp in [tp for tp, log in self._uncleanable.items() if self._logs.get(tp) is not log]:
            del self._uncleanable[tp]
        return self._uncleanable

    def want_now(self, tp: TopicPartition) -> bool:
        """Clean a log next, however little of it is dirty; False if it cannot be or is not to be compacted.

        What of its closed segments may not be cleaned yet is cleaned when it may.
        """
        log = self._logs.get(tp)
        if log is None or not self._is_to_be_cleaned(log):
            return False
        self._wanted_now.add(tp)
        return True

    # -- choice -------------------------------------------------------------------------------------------------

    def look_steps(self, now_ms: int) -> Iterator[None]:
        """Look at every compacted log, one at a step; ``grab`` chooses among them then."""
        found = []
        delays_ms = [0]
        for log in self._logs.all_logs():
            if self._is_to_be_cleaned(log) and log.tp not in self._cleanings:
                to_clean = self._look_at(log, now_ms)
                if to_clean is not None:
                    found.append(to_clean)
                    delays_ms.append(to_clean.compaction_delay_ms)
                yield
        self.dirtiest_ratio = max((each.cleanable_ratio for each in found), default=0.0)
        self.compaction_delay_ms = max(delays_ms)
        self.looked_ms = now_ms
        self._candidates = sorted(
            (each for each in found if each.is_due or each.log.tp in self._wanted_now),
            key=lambda each: (each.log.tp in self._wanted_now, each.cleanable_ratio),
        )
        fulfilled = {each.log.tp for each in found if each.is_clean}
        self._wanted_now = {
            tp
            for tp in self._wanted_now - fulfilled
            if (wanted := self._logs.get(tp)) is not None and self._is_to_be_cleaned(wanted)
        }

    def _is_to_be_cleaned(self, log: Log) -> bool:
        return log.config.is_compacted and log.tp not in self.uncleanable

    def _look_at(self, log: Log, now_ms: int) -> LogToClean | None:
        try:
            return look_at(log, now_ms)
        except OSError as error:
            self.disk_failed(log, error)
        except StorageError as error:
            self.mark_uncleanable(log, str(error))
        return None

    def grab(self, config: CleanerConfig, now_ms: int) -> Cleaning | None:
        """Begin to clean the dirtiest log of the last look; None if none is due. ``finish`` has to follow."""
        while self._candidates:
            log = self._candidates.pop().log
            is_wanted = log.tp in self._wanted_now
            if self._logs.get(log.tp) is not log or log.is_being_cleaned:
                continue
            to_clean = self._look_at(log, now_ms)  # it may have changed since
            if to_clean is not None and to_clean.has_work and (to_clean.is_due or is_wanted):
                cleaning = self._cleanings[log.tp] = Cleaning(to_clean, config, now_ms)
                return cleaning
        return None

    # -- a cleaning ---------------------------------------------------------------------------------------------

    def wants(self, cleaning: Cleaning) -> bool:
        """Whether its results are still of use: its log is there and has not been truncated."""
        return self._logs.get(cleaning.log.tp) is cleaning.log and cleaning.is_wanted

    def abort(self, tp: TopicPartition) -> None:
        """Nothing that is cleaned of this log right now counts any more."""
        if tp in self._cleanings:
            self._cleanings[tp].is_aborted = True

    def swap_steps(self, cleaning: Cleaning, cleaned: CleanedSegment, now_ms: int) -> Iterator[Callable[[], None]]:
        """Put a cleaned segment in its place (``Cleaning.swap_steps``); no step if it is not wanted any more.

        The first step makes the recovery point on disk reach the end of what is cleaned: the gaps that compaction
        leaves must lie before it (docs/decisions/0018). Raises: OSError.
        """
        if self.wants(cleaning):
            proof = self._logs.hosted.prepare_recovery_point(cleaning.log, cleaning.to_clean.uncleanable_offset)
            if proof is not None:
                yield proof
        if self.wants(cleaning):
            yield from cleaning.swap_steps(cleaned, now_ms)

    def finish(self, cleaning: Cleaning, end_offset: int | None) -> bool:
        """A cleaning has ended; None for one that was given up. Returns whether the log is cleaner than before."""
        log = cleaning.log
        self._cleanings.pop(log.tp, None)
        is_cleaned = cleaning.finish(end_offset if self.wants(cleaning) else None)
        if is_cleaned:
            self._logs.upkeep.checkpoint_cleaner_offsets()
        elif self._logs.get(log.tp) is log:
            try:
                cleaning.remove_leftovers()
            except OSError as error:  # of a shortage: the next cleaning removes them first
                self.disk_failed(log, error)
        return is_cleaned

    def disk_failed(self, log: Log, error: OSError) -> None:
        """Take the directory of a log offline, unless it was the machine that was short of something."""
        if not is_shortage(error):
            self._logs.fail_directory(log, error)

    def mark_uncleanable(self, log: Log, reason: str) -> None:
        """A log cannot be cleaned: leave it alone from now on, and tell."""
        if log.tp not in self.uncleanable:
            self._uncleanable[log.tp] = log
            self._on_uncleanable(log.tp, reason)
