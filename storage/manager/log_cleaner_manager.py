"""Chooses the next log to clean, and tracks cleanings and uncleanable logs.

The caller runs the cleanings. Single-threaded.
Source: LogCleanerManager.scala@3.9. Tests: tests/kafka_zk/broker/replica/test_log_cleaner.py.
"""

from collections.abc import Callable, Iterator

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.cleaner.cleaner import CleanedSegment, CleanerConfig
from kafka_zk.storage.cleaner.log_to_clean import Cleaning, LogToClean, examine
from kafka_zk.storage.files.errors import StorageError, is_shortage
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.log_manager import LogManager

Uncleanable = Callable[[TopicPartition, str], None]


class LogCleanerManager:
    """``on_uncleanable``: called once with a log and the reason; the log is then ignored until a restart. The last run
    of ``examine_steps`` set ``dirtiest_ratio``, ``examined_ms`` (when it ran) and ``compaction_delay_ms`` (the
    longest)."""

    def __init__(self, logs: LogManager, on_uncleanable: Uncleanable) -> None:
        self._logs = logs
        self._on_uncleanable = on_uncleanable
        self._uncleanable: dict[TopicPartition, Log] = {}
        self._cleanings: dict[TopicPartition, Cleaning] = {}
        self._clean_next: set[TopicPartition] = set()
        self._candidates: list[LogToClean] = []
        self.dirtiest_ratio = 0.0
        self.compaction_delay_ms = 0
        self.examined_ms = 0

    @property
    def uncleanable(self) -> dict[TopicPartition, Log]:
        """Existing logs that could not be cleaned."""
        for tp in [tp for tp, log in self._uncleanable.items() if self._logs.get(tp) is not log]:
            del self._uncleanable[tp]
        return self._uncleanable

    def clean_next(self, tp: TopicPartition) -> bool:
        """Clean this log next, even if little of it is dirty. Returns False if it is uncleanable or not compacted.

        If the log must not be cleaned yet, it is cleaned later.
        """
        log = self._logs.get(tp)
        if log is None or not self._is_to_be_cleaned(log):
            return False
        self._clean_next.add(tp)
        return True

    # -- choice -------------------------------------------------------------------------------------------------

    def examine_steps(self, now_ms: int) -> Iterator[None]:
        """Examine every compacted log, one per step; ``grab`` then chooses."""
        found = []
        delays_ms = [0]
        for log in self._logs.all_logs():
            if self._is_to_be_cleaned(log) and log.tp not in self._cleanings:
                to_clean = self._examine(log, now_ms)
                if to_clean is not None:
                    found.append(to_clean)
                    delays_ms.append(to_clean.compaction_delay_ms)
                yield
        self.dirtiest_ratio = max((each.cleanable_ratio for each in found), default=0.0)
        self.compaction_delay_ms = max(delays_ms)
        self.examined_ms = now_ms
        self._candidates = sorted(
            (each for each in found if each.is_due or each.log.tp in self._clean_next),
            key=lambda each: (each.log.tp in self._clean_next, each.cleanable_ratio),
        )
        fulfilled = {each.log.tp for each in found if each.is_clean}
        self._clean_next = {
            tp
            for tp in self._clean_next - fulfilled
            if (wanted := self._logs.get(tp)) is not None and self._is_to_be_cleaned(wanted)
        }

    def _is_to_be_cleaned(self, log: Log) -> bool:
        return log.config.is_compacted and log.tp not in self.uncleanable

    def _examine(self, log: Log, now_ms: int) -> LogToClean | None:
        try:
            return examine(log, now_ms)
        except OSError as error:
            self.disk_failed(log, error)
        except StorageError as error:
            self.mark_uncleanable(log, str(error))
        return None

    def grab(self, config: CleanerConfig, now_ms: int) -> Cleaning | None:
        """Begin to clean the dirtiest log; None if no cleaning is due. Call ``finish`` afterwards."""
        while self._candidates:
            log = self._candidates.pop().log
            is_wanted = log.tp in self._clean_next
            if self._logs.get(log.tp) is not log or log.is_being_cleaned:
                continue
            to_clean = self._examine(log, now_ms)  # the log may have changed
            if to_clean is not None and to_clean.has_work and (to_clean.is_due or is_wanted):
                cleaning = self._cleanings[log.tp] = Cleaning(to_clean, config, now_ms)
                return cleaning
        return None

    # -- a cleaning ---------------------------------------------------------------------------------------------

    def is_current(self, cleaning: Cleaning) -> bool:
        """True if the log still exists and was not truncated."""
        return self._logs.get(cleaning.log.tp) is cleaning.log and cleaning.is_wanted

    def abort(self, tp: TopicPartition) -> None:
        """Discard the result of the log's current cleaning."""
        if tp in self._cleanings:
            self._cleanings[tp].is_aborted = True

    def swap_steps(self, cleaning: Cleaning, cleaned: CleanedSegment, now_ms: int) -> Iterator[Callable[[], None]]:
        """The steps of ``Cleaning.swap_steps``; none if the cleaning is no longer wanted.

        First, the recovery point on disk moves to the cleaned part's end, because the gaps that compaction leaves must
        be below it (docs/decisions/0018). Raises: OSError.
        """
        if self.is_current(cleaning):
            proof = self._logs.hosted.prepare_recovery_point(cleaning.log, cleaning.to_clean.uncleanable_offset)
            if proof is not None:
                yield proof
        if self.is_current(cleaning):
            yield from cleaning.swap_steps(cleaned, now_ms)

    def finish(self, cleaning: Cleaning, end_offset: int | None) -> bool:
        """End a cleaning. ``end_offset``: None if it was abandoned. Returns True if the log is cleaner."""
        log = cleaning.log
        self._cleanings.pop(log.tp, None)
        is_cleaned = cleaning.finish(end_offset if self.is_current(cleaning) else None)
        if is_cleaned:
            self._logs.upkeep.checkpoint_cleaner_offsets()
        elif self._logs.get(log.tp) is log:
            try:
                cleaning.remove_leftovers()
            except OSError as error:  # a shortage: the next cleaning first removes these files
                self.disk_failed(log, error)
        return is_cleaned

    def disk_failed(self, log: Log, error: OSError) -> None:
        """Take the directory offline, unless ``error`` is only a shortage (``is_shortage``)."""
        if not is_shortage(error):
            self._logs.fail_directory(log, error)

    def mark_uncleanable(self, log: Log, reason: str) -> None:
        """Report the log once, and ignore it from now on."""
        if log.tp not in self.uncleanable:
            self._uncleanable[log.tp] = log
            self._on_uncleanable(log.tp, reason)
