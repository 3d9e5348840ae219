"""The files of one partition. ``log`` decides what may be appended and read.

Source: LocalLog.scala@3.9. Tests: tests/storage/log/test_log_files.py.
"""

import os
from collections.abc import Callable
from pathlib import Path

from kafka_zk.base.types import LoadedOffsets, TopicPartition
from kafka_zk.storage.files.filenames import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from kafka_zk.storage.files.files import sync_path
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.large_snapshots import WRITTEN_AT_ONCE
from kafka_zk.storage.log.leader_epoch_cache import LeaderEpochCache
from kafka_zk.storage.log.log_owner import LogOwner
from kafka_zk.storage.log.partition_metadata import write_topic_id
from kafka_zk.storage.log.producer_snapshot import snapshot_offsets
from kafka_zk.storage.log.producer_state import ProducerState
from kafka_zk.storage.segments.log_segments import LogSegments
from kafka_zk.storage.segments.segment import MAX_RELATIVE_OFFSET, Segment


class LocalLog:
    """Segments, leader epochs and producers of one partition.

    ``recovery_point`` (records below it are durable) <= ``log_end_offset`` (the offset of the next append).
    """

    __slots__ = (
        "_has_unsynced_id", "_last_append_ms", "_oldest_unflushed_ms", "config", "has_unwritten_id", "leader_epochs",
        "log_end_offset", "log_start_offset", "owner", "producers", "recovery_point", "segments", "topic_id", "tp",
        "truncation_count",
    )  # fmt: skip

    def __init__(
        self,
        tp: TopicPartition,
        config: LogConfig,
        segments: LogSegments,
        offsets: LoadedOffsets,
        leader_epochs: LeaderEpochCache,
        producers: ProducerState,
        topic_id: str | None,
    ) -> None:
        self.tp = tp
        self.config = config
        self.segments = segments
        self.log_start_offset, self.log_end_offset, self.recovery_point = offsets
        self.leader_epochs = leader_epochs
        leader_epochs.syncs_each_write = config.is_tiered
        self.producers = producers
        self.topic_id = topic_id
        self.has_unwritten_id = self._has_unsynced_id = False
        self.truncation_count = 0
        self._last_append_ms = segments.active.created_ms  # upper bound of the append times of existing records
        self._oldest_unflushed_ms = self._last_append_ms if self.log_end_offset != self.recovery_point else -1
        self.owner: LogOwner | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.tp}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def directory(self) -> Path:
        """The partition's directory, which is renamed for deletion."""
        return Path(self.segments.directory)

    @property
    def local_log_start_offset(self) -> int:
        """The first readable offset in the local segments. In a tiered log, it may be after ``log_start_offset``."""
        return max(self.log_start_offset, self.segments[0].base_offset)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def update_config(self, config: LogConfig) -> None:
        self.config = config
        self.leader_epochs.syncs_each_write = config.is_tiered
        self.segments.active.update_config(config)

    def set_topic_id(self, topic_id: str) -> None:
        """Set the topic id, which the next append writes to ``partition.metadata``."""
        self.topic_id, self.has_unwritten_id = topic_id, True

    def write_topic_id(self) -> None:
        """Write the topic id to ``partition.metadata`` if it is not there yet. Raises: OSError."""
        if self.has_unwritten_id and self.topic_id is not None:
            write_topic_id(self.segments.directory, self.topic_id)
            self.has_unwritten_id, self._has_unsynced_id = False, True

    # -- write --------------------------------------------------------------------------------------------------

    def _write(
        self,
        batch: bytearray | memoryview | bytes,
        size_bytes: int,
        leader_epoch: int,
        base_offset: int,
        last_offset: int,
        indexed_offset: int,
        max_timestamp_ms: int,
        now_ms: int,
    ) -> None:
        """Append checked batches that contain their offsets and ``leader_epoch``, roll if needed, and move the log end
        offset. Every append calls this. ``indexed_offset``: the first batch's last offset. Several batches must have
        the same timestamp."""
        if leader_epoch != self.leader_epochs.written_epoch:
            self.leader_epochs.assign(leader_epoch, base_offset)
        if self.has_unwritten_id:
            self.write_topic_id()
        segment = self.segments.active
        config = self.config
        if (
            segment.size_bytes + size_bytes > config.segment_bytes
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            or segment.index_is_full
            or (max_timestamp_ms > segment.young_until_ms and self._is_roll_due(segment, max_timestamp_ms, now_ms))
        ):
            self._roll_for(base_offset, last_offset, now_ms)
            segment = self.segments.active
        segment.append(batch, size_bytes, indexed_offset, max_timestamp_ms)
        self.log_end_offset = last_offset + 1
        self._last_append_ms = now_ms
        if self._oldest_unflushed_ms < 0:
            self._oldest_unflushed_ms = now_ms
            if self.owner is not None:
                self.owner.log_became_dirty(self.tp)

    def roll(self, now_ms: int) -> None:
        """Begin a segment at the log end offset, unless the active one is empty."""
        active = self.segments.active
        if active.size_bytes or active.base_offset != self.log_end_offset:
            if self.owner is None or len(self.producers.producers) <= WRITTEN_AT_ONCE:
                self.producers.write_snapshot(self.segments.directory, self.log_end_offset)
            else:
                self.owner.snapshot_is_large(self.tp)
            self.segments.roll(self.log_end_offset, self.config, now_ms)

    def _roll_for(self, base_offset: int, last_offset: int, now_ms: int) -> None:
        """Roll at the log end offset, even if compaction on the leader removed the offsets before the batch. A gap
        between segments would count as lost data after a crash."""
        if last_offset - self.log_end_offset > MAX_RELATIVE_OFFSET:
            self.extend_to(base_offset, now_ms)
        else:
            self.roll(now_ms)

    def extend_to(self, offset: int, now_ms: int) -> None:
        """Move the log end offset over offsets that compaction removed. The recovery point on disk also moves, because
        a gap before the new segment must be below it."""
        self.flush()
        self.log_end_offset = offset
        self.roll(now_ms)
        sync_path(self.segments.directory)
        self._skip_to(offset)

    def _skip_to(self, offset: int) -> None:
        """Move the recovery point, in memory and on disk, over offsets without records, up to a segment whose name is
        durable."""
        if self.recovery_point >= offset:
            return
        if not self.recovery_point:
            sync_path(os.path.dirname(self.segments.directory))  # later flushes assume a durable folder name
        self.recovery_point = offset
        if self.owner is not None:
            self.owner.recovery_point_is_needed(self.tp, offset)

    def _is_roll_due(self, segment: Segment, timestamp_ms: int, now_ms: int) -> bool:
        """True if the segment has reached its maximum age, counted from its first timestamp, or else from the clock."""
        if not segment.size_bytes:
            return False
        first_ms = segment.first_timestamp_ms
        limit_ms = self.config.max_segment_ms - segment.roll_jitter_ms
        if first_ms < 0:
            return now_ms - segment.created_ms > limit_ms
        segment.young_until_ms = first_ms + limit_ms
        return timestamp_ms > segment.young_until_ms

    # -- flush --------------------------------------------------------------------------------------------------

    def flush_target(self, now_ms: int) -> int | None:
        """The offset up to which a flush is due, or None.

        It is the log end offset if ``flush.messages`` or ``flush.ms`` requires a flush. After a roll, it is the end of
        the closed segments until they and the roll's snapshot are durable.
        """
        if self._oldest_unflushed_ms < 0:
            return None
        config = self.config
        unflushed_count = self.log_end_offset - self.recovery_point
        if unflushed_count >= config.flush_messages or now_ms - self._oldest_unflushed_ms >= config.flush_ms:
            return self.log_end_offset
        rolled_at = self.segments.active.base_offset
        is_due = self.recovery_point < rolled_at or self.producers.has_unsynced_snapshots
        return rolled_at if is_due else None

    def distrust_snapshots(self) -> None:
        """After a crash, let a flush sync the snapshots that may not be durable: those after the recovery point, and
        large ones, because the recovery point passes a large snapshot before it is written."""
        is_large = len(self.producers.producers) > WRITTEN_AT_ONCE
        offsets = snapshot_offsets(self.segments.directory)
        self.producers.distrust(offset for offset in offsets if is_large or offset >= self.recovery_point)
        if self.producers.has_unsynced_snapshots and self._oldest_unflushed_ms < 0:
            self._oldest_unflushed_ms = self._last_append_ms

    @property
    def is_dirty(self) -> bool:
        """True if there are unflushed records, or snapshots of an earlier run that may not be durable."""
        return self._oldest_unflushed_ms >= 0

    def flush_due(self, now_ms: int) -> bool:
        """True if a flush is due; call this after appends to a topic with ``flush.messages``, and periodically."""
        return self.flush_target(now_ms) is not None

    def flush(self, up_to: int | None = None) -> None:
        """Make the records before ``up_to`` (None: all) durable, and move the recovery point."""
        work, done = self.prepare_flush(up_to)
        try:
            work()
        finally:
            done()

    def prepare_flush(self, up_to: int | None = None) -> tuple[Callable[[], None], Callable[[], None]]:
        """Split a flush into (work, done), so that the caller does not block. ``work`` only syncs pinned descriptors,
        on any thread, and raises OSError. The owner must then call ``done``, even after a failure: it unpins the files,
        and moves the recovery point after a success."""
        offset = self.log_end_offset if up_to is None else up_to
        epochs_path, epochs_synced = self.leader_epochs.prepare_sync()
        directory = self.segments.directory
        id_path = f"{directory}/{PARTITION_METADATA}" if self._has_unsynced_id else None
        snapshots, snapshots_synced = self.producers.prepare_sync(directory)
        replaced = [path for path in (epochs_path, id_path, *snapshots) if path is not None]
        flush = self.segments.prepare_flush(self.recovery_point, offset, replaced)
        truncation_count, appended_ms = self.truncation_count, self._last_append_ms

        def done() -> None:
            flush.release()
            if flush.is_done:
                epochs_synced()
                self._has_unsynced_id &= id_path is None
            if flush.is_done and self.truncation_count == truncation_count:
                if self.segments.directory == directory:
                    snapshots_synced()
                self._mark_flushed(offset, appended_ms)

        return flush.run, done

    def _mark_flushed(self, offset: int, appended_ms: int) -> None:
        """Move the recovery point to ``offset``. Later records were appended at or after ``appended_ms``."""
        self.recovery_point = max(self.recovery_point, min(offset, self.log_end_offset))
        if self.recovery_point == self.log_end_offset:
            self._oldest_unflushed_ms = -1
        elif offset > self.segments.active.base_offset:
            self._oldest_unflushed_ms = appended_ms

    # -- the directory ------------------------------------------------------------------------------------------

    def close(self, sync: Callable[[str], None] = sync_path) -> None:
        """Write a producer snapshot and the indexes durably after a ``flush``, and close the files.

        ``sync`` makes a path durable, now or later. A log without records writes no ``partition.metadata``, because
        thousands of these files would delay a shutdown, and the controller sends the topic id again.
        """
        if self.log_end_offset:
            self.write_topic_id()
        if self.log_end_offset > self.log_start_offset or self.producers.producers:
            self.producers.write_snapshot(self.segments.directory, self.log_end_offset)
        snapshots, synced = self.producers.prepare_sync(self.segments.directory)
        for path in (*snapshots, *([self.segments.directory] if snapshots else ())):
            sync(path)
        synced()
        self.segments.close(sync)

    def rename_to_delete(self, directory: str) -> None:
        """Rename the partition's directory for deletion. Slices stay readable."""
        self.segments.rename_to_delete(directory)
        self.leader_epochs.move_to(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")

    def move_to(self, directory: str) -> None:
        self.segments.move_to(directory)
        self.leader_epochs.move_to(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
