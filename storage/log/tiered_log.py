"""Functions of a partition's log for tiered storage: a snapshot of its state, the data of closed segments, local
retention, and a start after remote records.

Call the functions on the reactor thread; only ``SegmentReading.run`` belongs on another thread.
Source: UnifiedLog.scala, RemoteLogManager.RLMCopyTask.copyLogSegment@3.9.
"""

from bisect import bisect_right
from typing import NamedTuple

from kafka_zk.base.steps import run_to_end
from kafka_zk.storage.files import files
from kafka_zk.storage.files.checkpoints import format_checkpoint
from kafka_zk.storage.files.errors import CorruptRecord, CorruptSnapshot
from kafka_zk.storage.files.filenames import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
)
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.producer_snapshot import (
    ProducerEntry,
    decode_snapshot,
    encode_snapshot,
    snapshot_offsets,
    snapshot_path,
)
from kafka_zk.storage.log.recovery_work import ReplayWork
from kafka_zk.storage.segments.segment_check import first_damage
from kafka_zk.storage.tiered.auxiliary_state import auxiliary_log_start
from kafka_zk.storage.tiered.epoch_lineage import Lineage
from kafka_zk.storage.tiered.local_retention import local_deletion
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.segment_storage import (
    SegmentData,
    SegmentPart,
    trimmed_offset_index,
    trimmed_time_index,
)
from kafka_zk.storage.tiered.tiered_replica import LocalSegment, TieredReplica


def replica_of(log: Log) -> TieredReplica:
    """Raises: OSError."""
    segments = log.segments[:]
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
    local = [
        LocalSegment(segment.base_offset, end, segment.size_bytes, segment.largest_timestamp_ms())
        for segment, end in zip(segments, ends, strict=True)
    ]
    return TieredReplica(log.leader_epochs.entries, log.log_start_offset, local)


def apply_local_retention(log: Log, remote: RemotePartitionLog, now_ms: int) -> int:
    """Delete the local segments beyond ``local.retention`` that remote storage has. Returns how many.

    ``remote``: the part of the remote log whose metadata has been read. If it is empty, only segments before the log
    start offset are deleted. Raises: OSError.
    """
    if log.is_being_cleaned:
        return 0
    wanted = local_deletion(remote, replica_of(log), log.config, now_ms)
    count = _delete_committed(log, wanted.segment_count, now_ms)
    if wanted.rolls and log.high_watermark == log.log_end_offset:
        log.roll(now_ms)
    return count


def _delete_committed(log: Log, count: int, now_ms: int) -> int:
    """Delete up to ``count`` segments, but none that reaches the high watermark. The log start offset does not change,
    but is made durable first."""
    segments = log.segments
    segments.settle()
    while count and segments[count].base_offset > log.high_watermark:
        count -= 1
    if count and log.owner is not None:
        log.owner.log_start_offset_is_needed(log.tp)
    return log.delete_oldest(count, now_ms)


def begin_from_remote(log: Log, offset: int, leader_epochs: Lineage, snapshot: bytes | None, now_ms: int = 0) -> None:
    """Drop all local records of a tiered log, and continue at ``offset``; earlier records are in remote storage.

    The log start offset and the leader epochs become durable first. Otherwise, after a crash the log could begin at
    ``offset``; as the leader, it would not serve earlier records, and retention would delete them.

    Args:
        leader_epochs: (epoch, start offset) of all epochs before ``offset``.
        snapshot: the producers at ``offset``; None: unknown.
    Raises: OSError.
    """
    assert log.config.is_tiered
    log.log_start_offset = min(auxiliary_log_start(leader_epochs, log.log_start_offset), offset)
    log.leader_epochs.replace(leader_epochs)
    if log.owner is not None:
        log.owner.log_start_offset_is_needed(log.tp)
    log.truncate_fully_and_start_at(offset, now_ms)
    if snapshot is not None:
        files.write_atomically(snapshot_path(log.segments.directory, offset), snapshot)
        run_to_end(log.reload_producers_steps())


class SegmentReading(NamedTuple):
    """Reads the files to copy for a closed segment with the offsets from ``base_offset`` up to, not including,
    ``next_offset``. ``lineage``: the leader epochs before ``next_offset``. ``segments``: (base offset, size in bytes)
    of the local segments up to this one."""

    directory: str
    base_offset: int
    next_offset: int
    lineage: Lineage
    segments: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, log: Log, segment: LocalSegment) -> "SegmentReading | None":
        """The reading for ``segment``. None while the snapshot of the producers at the segment's end is not complete,
        or if retention has deleted the segment."""
        end = segment.next_offset
        if log.producers.lacks_snapshot(end):
            return None
        lineage = [(epoch, start) for epoch, start in log.leader_epochs.entries if start < end]
        segments = tuple((each.base_offset, each.size_bytes) for each in log.segments if each.base_offset < end)
        if not segments or segments[-1][0] != segment.base_offset:
            return None
        return cls(log.segments.directory, segment.base_offset, end, lineage, segments)

    def run(self) -> SegmentData:
        """Read the files, on any thread. Raises: OSError, FileNotFoundError if the segment has been deleted;
        CorruptRecord."""
        self._check()
        parts = {
            SegmentPart.OFFSET_INDEX: trimmed_offset_index(self._file(OFFSET_INDEX_SUFFIX)),
            SegmentPart.TIME_INDEX: trimmed_time_index(self._file(TIME_INDEX_SUFFIX)),
            SegmentPart.PRODUCER_SNAPSHOT: self._producer_snapshot(),
            SegmentPart.LEADER_EPOCHS: format_checkpoint(self.lineage),
        }
        aborted = files.read_file(self._path(TRANSACTION_INDEX_SUFFIX))
        if aborted is not None:
            parts[SegmentPart.TRANSACTION_INDEX] = aborted
        return SegmentData(self._path(LOG_SUFFIX), parts)

    def _check(self) -> None:
        """Check the CRCs. If damaged records were copied, all replicas would delete their sound ones."""
        path = self._path(LOG_SUFFIX)
        damage = first_damage(path, self.segments[-1][1], self.base_offset)
        if damage is not None:
            raise CorruptRecord(f"{path} is damaged at position {damage[0]}: {damage[1]}")

    def _path(self, suffix: str) -> str:
        return f"{self.directory}/{offset_file(self.base_offset, suffix)}"

    def _file(self, suffix: str) -> bytes:
        found = files.read_file(self._path(suffix))
        if found is None:
            raise FileNotFoundError(2, "No such file", self._path(suffix))
        return found

    def _producer_snapshot(self) -> bytes:
        """The snapshot at the segment's end. If a recovery left none, it is rebuilt from an earlier one."""
        directory, end = self.directory, self.next_offset
        for start in reversed([each for each in snapshot_offsets(directory) if each <= end]):
            data = files.read_file(snapshot_path(directory, start)) or b""
            try:
                producers = decode_snapshot(data)
            except CorruptSnapshot:
                continue
            return data if start == end else self._rebuilt(producers, start)
        return self._rebuilt([], self.segments[0][0])

    def _rebuilt(self, producers: list[ProducerEntry], start: int) -> bytes:
        first = bisect_right(self.segments, start, key=lambda each: each[0]) - 1
        segments = self.segments[max(0, first) :]
        replayed = ReplayWork(self.directory, segments, start, self.next_offset, producers, 0).run(lambda _: None)
        return encode_snapshot({entry.producer_id: entry for entry in replayed.producers})
