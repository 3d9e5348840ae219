"""The files of one partition's log: segments that roll, are flushed, cut, aged out and renamed.

Everything is synchronous and single-threaded: one owner (the reactor thread) calls every method. What may block in C –
fsync, unlink – can be split off: ``prepare_flush`` gives work for another thread, deletions are collected in
``pending_removals``. An ``OSError`` from any method means that the log directory is lost, not that the call was wrong.

What a batch must be like to be appended and how it is found again is ``log.Log``'s part.
Source: LocalLog.scala, UnifiedLog.scala@3.9. Tests: tests/storage/test_local_log.py.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kafka_zk.storage import flush_task, producer_state, truncation
from kafka_zk.storage.errors import OffsetOutOfRange
from kafka_zk.storage.file_pool import FilePool
from kafka_zk.storage.filenames import LEADER_EPOCH_CHECKPOINT, SNAPSHOT_SUFFIX, offset_file
from kafka_zk.storage.files import remove_file, sync_path
from kafka_zk.storage.findings import Observe, ignore
from kafka_zk.storage.leader_epoch_cache import LeaderEpochCache
from kafka_zk.storage.log_config import LogConfig
from kafka_zk.storage.log_reader import LogReader
from kafka_zk.storage.partition_metadata import write_topic_id
from kafka_zk.storage.producer_state import ProducerState
from kafka_zk.storage.retention import count_deletable
from kafka_zk.storage.segment import Segment, open_segment
from kafka_zk.storage.types import TopicPartition


class PendingRemoval(NamedTuple):
    """A segment renamed to ``.deleted`` whose files may be unlinked from ``due_ms`` on."""

    due_ms: int
    segment: Segment


class LocalLog:
    """Segments, offsets and what hangs on them. ``log_start_offset``, ``recovery_point`` and ``log_end_offset`` are
    the first offsets that are not deleted, not fsynced and not written.
    """

    __slots__ = (
        "_active", "_directory", "_last_append_ms", "_oldest_unflushed_ms", "_on_dirty", "_reader",
        "_unflushed_count", "config", "leader_epochs", "log_end_offset", "log_start_offset", "observe",
        "pending_removals", "pool", "producers", "recovery_point", "segments", "topic_id", "topic_partition",
        "truncation_count",
    )  # fmt: skip

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str,
        config: LogConfig,
        pool: FilePool,
        *,
        segments: list[Segment],
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        leader_epochs: LeaderEpochCache,
        producers: ProducerState,
        topic_id: str | None,
        observe: Observe = ignore,
    ) -> None:
        self.topic_partition = topic_partition
        self.config = config
        self.pool = pool
        self.segments = segments
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        self.leader_epochs = leader_epochs
        self.producers = producers
        self.topic_id = topic_id
        self.observe = observe
        self.pending_removals: list[PendingRemoval] = []
        self._directory = directory
        self._active = segments[-1]
        self._active.is_active = True
        self._reader: LogReader | None = None
        self.truncation_count = 0
        self._unflushed_count = log_end_offset - recovery_point
        self._oldest_unflushed_ms = segments[-1].created_ms if self._unflushed_count else -1
        self._last_append_ms = -1
        self._on_dirty: Callable[[TopicPartition], None] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def directory(self) -> Path:
        """The partition's directory; its name changes on deletion."""
        return Path(self._directory)

    @property
    def active_segment(self) -> Segment:
        return self._active

    @property
    def size_bytes(self) -> int:
        """Size of all ``.log`` files."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def reader(self) -> LogReader:
        """Finds slices and timestamps; made on first use, since most partitions of a broker are idle."""
        if self._reader is None:
            self._reader = LogReader(self.segments)
        return self._reader

    # -- flush --------------------------------------------------------------------------------------------------

    def flush_target(self, now_ms: int) -> int | None:
        """Up to which offset a flush is due, None if none is.

        All of the log if ``flush.messages`` or ``flush.ms`` asks for it, the closed segments after a roll.
        """
        if self._oldest_unflushed_ms < 0:
            return None
        config = self.config
        if self._unflushed_count >= config.flush_messages or now_ms - self._oldest_unflushed_ms >= config.flush_ms:
            return self.log_end_offset
        rolled_at = self._active.base_offset
        return rolled_at if self.recovery_point < rolled_at else None

    def flush_due(self, now_ms: int) -> bool:
        """Whether a flush is due: ask after an append to a topic with ``flush.messages``, else now and then."""
        return self.flush_target(now_ms) is not None

    def flush(self, up_to: int | None = None) -> None:
        """Make everything before ``up_to`` (None: all) durable and move the recovery point."""
        work, done = self.prepare_flush(up_to)
        try:
            work()
        finally:
            done()

    def prepare_flush(self, up_to: int | None = None) -> tuple[Callable[[], None], Callable[[], None]]:
        """A flush in two halves, for an owner that must not block.

        Returns: (work, done). ``work`` only fsyncs pinned descriptors and may run in any thread; it raises OSError.
        ``done`` must be called by the owner afterwards, whether ``work`` failed or not: it unpins, and it moves the
        recovery point if ``work`` succeeded.
        """
        return flush_task.prepare(self, self.log_end_offset if up_to is None else up_to)

    @property
    def last_append_ms(self) -> int:
        return self._last_append_ms

    def flushed(self, offset: int, appended_ms: int) -> None:
        """Everything before ``offset`` is durable; what follows it was appended at ``appended_ms`` or later."""
        self.recovery_point = max(self.recovery_point, min(offset, self.log_end_offset))
        self._unflushed_count = self.log_end_offset - self.recovery_point
        if not self._unflushed_count:
            self._oldest_unflushed_ms = -1
        elif offset > self._active.base_offset:
            self._oldest_unflushed_ms = appended_ms

    # -- roll and truncate --------------------------------------------------------------------------------------

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Close the active segment and begin one at the log end offset (or the given one); an empty one is reused."""
        offset = self.log_end_offset if base_offset is None else base_offset
        old = self._active
        if not old.size_bytes and old.base_offset == offset:
            return old
        old.write_out_indexes(final=True)
        old.is_active = False
        producer_state.write_snapshot(self.producers, self._directory, offset)
        self.begin_segment(offset, now_ms)
        return self._active

    def is_roll_due(self, segment: Segment, timestamp_ms: int, now_ms: int) -> bool:
        """Whether the segment is older than ``segment.ms``, by the records' clock or, without one, by ours."""
        if not segment.size_bytes:
            return False
        first_ms = segment.first_timestamp_ms
        waited_ms = timestamp_ms - first_ms if first_ms >= 0 else now_ms - segment.created_ms
        return waited_ms > self.config.segment_ms - segment.roll_jitter_ms

    def begin_segment(self, base_offset: int, now_ms: int) -> None:
        """Add an empty segment at the end and write to it from now on."""
        segment = open_segment(self._directory, base_offset, self.config, self.pool, now_ms, size_bytes=None)
        self.segments.append(segment)
        self.activate_last_segment()

    def activate_last_segment(self) -> None:
        """Write to the last segment from now on; remembered read positions are void."""
        self._active = self.segments[-1]
        self._active.is_active = True
        self.forget_read_positions()

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Drop every batch that reaches ``offset`` or beyond, and leader epochs without a record in any case.

        Returns: whether a batch went.
        Raises: OffsetOutOfRange for a negative offset.
        """
        return truncation.truncate_to(self, offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Drop everything; the log is empty and begins at ``offset``.

        Raises: OffsetOutOfRange for a negative offset.
        """
        truncation.truncate_fully(self, offset, now_ms)

    # -- retention ----------------------------------------------------------------------------------------------

    def increment_log_start_offset(self, offset: int) -> bool:
        """Move the log start offset forward (DeleteRecords, or the leader's); returns whether it moved.

        Raises: OffsetOutOfRange beyond the log end offset.
        """
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(f"{self.topic_partition}: offset {offset} is after {self.log_end_offset}")
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        return True

    def delete_old_segments(self, now_ms: int, high_watermark: int | None = None) -> int:
        """Remove segments by age, size and log start offset; returns how many.

        Only segments wholly below ``high_watermark`` (None: the log end offset) go. The files are renamed at once and
        unlinked by ``remove_due`` after ``file.delete.delay.ms``. If the active segment goes too, a new one begins at
        the log end offset, so that no offset is ever given twice.
        """
        upper = self.log_end_offset if high_watermark is None else high_watermark
        count = count_deletable(self.segments, self.config, self.log_start_offset, self.log_end_offset, upper, now_ms)
        if not count:
            return 0
        if count == len(self.segments):
            self.roll(now_ms)
        first_kept = self.segments[count].base_offset
        if self.recovery_point < first_kept:
            self.flush(first_kept)  # a power loss may bring them back: with a hole at the end the kept ones would go
        if self.recovery_point <= first_kept:
            sync_path(self._directory)  # once the others are gone, its name is all that tells the next offset
        self.drop_segments(self.segments[:count], now_ms)
        self.increment_log_start_offset(min(self.segments[0].base_offset, self.log_end_offset))
        return count

    def drop_segments(self, dropped: list[Segment], now_ms: int) -> None:
        """Take segments out of the log and rename their files."""
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in dropped:
            self.segments.remove(segment)
            segment.is_active = False
            segment.mark_deleted()
            remove_file(f"{self._directory}/{offset_file(segment.base_offset, SNAPSHOT_SUFFIX)}")
            self.pending_removals.append(PendingRemoval(due_ms, segment))
        self.forget_read_positions()

    def remove_due(self, now_ms: int) -> int:
        """Unlink segment files whose delay is over; returns how many segments. Slices in use read on."""
        due = [removal for removal in self.pending_removals if removal.due_ms <= now_ms]
        for removal in due:
            removal.segment.remove()
            self.pending_removals.remove(removal)
        return len(due)

    def forget_read_positions(self) -> None:
        if self._reader is not None:
            self._reader.forget_positions()

    # -- lifecycle ----------------------------------------------------------------------------------------------

    def update_config(self, config: LogConfig) -> None:
        """Follow a change of the topic's configuration; it holds from the next append on."""
        self.config = config
        active = self._active
        active.index_interval_bytes = config.index_interval_bytes
        active.max_index_bytes = config.segment_index_bytes

    def on_dirty(self, callback: Callable[[TopicPartition], None] | None) -> None:
        """Call back when the first record after a flush is appended; at once if there is one already."""
        self._on_dirty = callback
        if callback is not None and self._oldest_unflushed_ms >= 0:
            callback(self.topic_partition)

    def close(self, sync: Callable[[str], None] = sync_path) -> None:
        """Write a producer snapshot and the indexes, durably, and close the files. Call ``flush`` before.

        ``sync`` makes the file at a path durable, now or later.
        """
        if self.log_end_offset > self.log_start_offset or self.producers.producers:
            producer_state.write_snapshot(self.producers, self._directory, self.log_end_offset)
        for segment in self.segments:
            segment.close(sync)

    def close_files(self) -> None:
        """Close what no slice pins, writing nothing: the log is deleted or its directory lost."""
        for segment in (*self.segments, *(removal.segment for removal in self.pending_removals)):
            segment.release_file()

    def set_topic_id(self, topic_id: str) -> None:
        """Give the log of an old topic its id."""
        write_topic_id(self._directory, topic_id)
        self.topic_id = topic_id

    def rename_to_delete(self, directory: str) -> str:
        """Give the partition's directory its name for deletion; slices in use read on. Returns the new path."""
        os.rename(self._directory, directory)
        self.move_to(directory)
        for segment in self.segments:
            segment.abandon()
        return directory

    def move_to(self, directory: str) -> None:
        """The partition's directory was renamed."""
        self._directory = directory
        self.leader_epochs.move_to(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
        for segment in self.segments:
            segment.move_to(directory)
        for removal in self.pending_removals:
            removal.segment.move_to(directory)
