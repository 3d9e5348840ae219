"""Determines which part of a log may be cleaned and how dirty the log is, and holds the state of a cleaning.

Source: LogToClean in LogCleaner.scala, cleanableOffsets in LogCleanerManager.scala@3.9.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafka_zk.storage.cleaner.cleaner import CleanedSegment, CleanerConfig, CleanWork, SegmentFile
from kafka_zk.storage.cleaner.record_filter import LastRecord
from kafka_zk.storage.files.config_table import LONG_MAX
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.segments.segment import Segment
from kafka_zk.storage.segments.segment_swap import remove_cleaned


class LogToClean(NamedTuple):
    """The state of a log for compaction at one moment.

    Attributes:
        first_dirty_offset: end of the last cleaning.
        uncleanable_offset: base offset of the first segment that must not be cleaned.
        clean_bytes: size of the part before ``first_dirty_offset``.
        cleanable_bytes: size of the part from there to ``uncleanable_offset``.
        compaction_delay_ms: how long ago ``max.compaction.lag.ms`` passed; 0 if it has not.
    """

    log: Log
    first_dirty_offset: int
    uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int

    @property
    def cleanable_ratio(self) -> float:
        """The dirty share of the log, from 0 to 1."""
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0

    @property
    def has_work(self) -> bool:
        return self.cleanable_bytes > 0 and self.first_dirty_offset < self.uncleanable_offset

    @property
    def is_clean(self) -> bool:
        """True if there is nothing to clean until another segment is closed."""
        return self.first_dirty_offset >= self.log.segments.active.base_offset

    @property
    def is_due(self) -> bool:
        """True if enough of the log is dirty, or if it has been dirty for too long."""
        return self.has_work and (
            self.compaction_delay_ms > 0 or self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio
        )


def examine(log: Log, now_ms: int) -> LogToClean:
    """The log's present state for compaction. Raises: OSError, CorruptRecord."""
    segments = log.segments
    first_dirty = _first_dirty_offset(log)
    limit = max(first_dirty, _first_uncleanable_offset(log, first_dirty, now_ms))
    uncleanable = segments[segments.slot_of(limit)].base_offset
    dirty = segments[segments.slot_of(min(first_dirty, uncleanable)) : segments.slot_of(uncleanable)]
    return LogToClean(
        log,
        first_dirty,
        uncleanable,
        sum(segment.size_bytes for segment in segments if segment.base_offset < first_dirty),
        sum(segment.size_bytes for segment in dirty),
        _compaction_delay_ms(log, first_dirty, now_ms),
    )


def _first_dirty_offset(log: Log) -> int:
    """The end of the last cleaning if the log contains it, else the log start offset."""
    cleaned = log.cleaned_offset
    if cleaned is None or not log.log_start_offset <= cleaned <= log.log_end_offset:
        return log.log_start_offset
    return cleaned


def _first_uncleanable_offset(log: Log, first_dirty: int, now_ms: int) -> int:
    """The offset before which segments may be cleaned. This excludes the active segment, records that are not
    committed, stable and durable, and segments that are too recent."""
    limits = [log.segments.active.base_offset, log.last_stable_offset, log.recovery_point]
    if log.producers.producers:  # a restart rebuilds producers from the batches and markers after the snapshot
        limits.append(log.producers.durable_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in log.segments[log.segments.slot_of(first_dirty) : -1]:
            if segment.largest_timestamp_ms() > now_ms - lag_ms:
                limits.append(segment.base_offset)
                break
    return min(limits)


def _compaction_delay_ms(log: Log, first_dirty: int, now_ms: int) -> int:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == LONG_MAX:
        return 0
    dirty = log.segments[log.segments.slot_of(first_dirty) : -1]
    first_ms = [segment.first_timestamp_ms for segment in dirty if segment.first_timestamp_ms > 0]
    return max(0, now_ms - lag_ms - min(first_ms)) if first_ms else 0


class Cleaning:
    """A cleaning in progress: its work, and the log that receives the results.

    ``is_aborted``: the results will not be used.
    """

    def __init__(self, to_clean: LogToClean, config: CleanerConfig, now_ms: int) -> None:
        log = self.log = to_clean.log
        self.to_clean = to_clean
        self.is_aborted = False
        self._truncation_count = log.truncation_count
        self._directory = log.segments.directory
        sources = [segment for segment in log.segments if segment.base_offset < to_clean.uncleanable_offset]
        self._sources = {segment.base_offset: segment for segment in sources}
        present = [SegmentFile(segment.base_offset, segment.size_bytes) for segment in log.segments]
        self.work = CleanWork(
            self._directory,
            tuple(present[: len(sources)]),
            tuple(present[len(sources) :]),
            to_clean.first_dirty_offset,
            to_clean.uncleanable_offset,
            now_ms,
            log.config,
            config,
            last_records(log),
        )
        log.is_being_cleaned = True

    @property
    def is_wanted(self) -> bool:
        """True unless the log was truncated or deleted, or is no longer compacted."""
        log = self.log
        return (
            not self.is_aborted
            and log.truncation_count == self._truncation_count
            and log.segments.directory == self._directory
            and log.config.is_compacted
        )

    def swap_steps(self, cleaned: CleanedSegment, now_ms: int) -> Iterator[Callable[[], None]]:
        """Swap in a cleaned segment, with the steps of ``LogSegments.replace_steps``.

        If the log has changed, yields no steps and aborts the cleaning. Raises: OSError.
        """
        replaced = self._replaced(cleaned) if self.is_wanted else None
        if replaced is None:
            self.is_aborted = True
            return iter(())
        return self.log.segments.replace_steps(replaced, cleaned.size_bytes, self.log.config, now_ms)

    def _replaced(self, cleaned: CleanedSegment) -> list[Segment] | None:
        """The segments that ``cleaned`` replaces; None if they have changed."""
        segments = [self._sources[file.base_offset] for file in cleaned.replaced]
        slot = self.log.segments.slot_of(cleaned.base_offset)
        present = self.log.segments[slot : slot + len(segments)]
        is_same = len(present) == len(segments) and all(
            one is other and one.size_bytes == file.size_bytes and not one.is_active
            for one, other, file in zip(present, segments, cleaned.replaced, strict=True)
        )
        return segments if is_same else None

    def remove_leftovers(self) -> None:
        """Remove the files of an abandoned cleaning, whose process has ended. Raises: OSError."""
        remove_cleaned(self.log.segments.directory)

    def finish(self, end_offset: int | None) -> bool:
        """End the cleaning. ``end_offset``: None if it was abandoned. Returns True if the result is used."""
        self.log.is_being_cleaned = False
        if end_offset is None or not self.is_wanted:
            return False
        self.log.cleaned_offset = end_offset
        return True


def last_records(log: Log) -> dict[int, LastRecord]:
    """The last record of each producer. Source: UnifiedLog.lastRecordsOfActiveProducers@3.9."""
    return {
        producer_id: LastRecord(entry.last_offset, entry.producer_epoch)
        for producer_id, entry in log.producers.producers.items()
    }
