"""Opens the log in a partition's directory: new, after a clean shutdown, or with a recovery.

It first completes file operations that a crash interrupted, and renames foreign entries.
Source: LogLoader.scala@3.9. Tests: tests/storage/segments/test_recovery.py, tests/storage/files/test_findings.py.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import NamedTuple

from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.base.types import LoadedOffsets, TopicPartition
from kafka_zk.storage.files import files
from kafka_zk.storage.files.checkpoints import MAX_OFFSET
from kafka_zk.storage.files.errors import CorruptCheckpoint, CorruptRecord
from kafka_zk.storage.files.file_pool import FilePool
from kafka_zk.storage.files.filenames import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
    parse_offset_file,
)
from kafka_zk.storage.files.files import remove_file, sync_file, sync_path
from kafka_zk.storage.files.findings import Finding, Observe, discard, ignore
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.leader_epoch_cache import LeaderEpochCache
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.partition_metadata import read_topic_id
from kafka_zk.storage.log.producer_snapshot import snapshot_offsets
from kafka_zk.storage.log.producer_state import ProducerState
from kafka_zk.storage.log.recovery_work import ScanWork, Steps
from kafka_zk.storage.manager.found_start import FoundStart
from kafka_zk.storage.records.record_batch import HEADER_SIZE
from kafka_zk.storage.segments.index_check import index_problem, next_offset
from kafka_zk.storage.segments.log_segments import LogSegments
from kafka_zk.storage.segments.recovery import SegmentScan, scan_segment
from kafka_zk.storage.segments.segment import MAX_RELATIVE_OFFSET, Segment, open_segment
from kafka_zk.storage.segments.segment_swap import INDEX_SUFFIXES, finish_interrupted
from kafka_zk.storage.segments.set_aside import set_aside
from kafka_zk.storage.segments.transaction_index import transaction_index_problem

Scanner = Callable[[str, str, str, int, int, int], SegmentScan]

_TEMPORARY_SUFFIX = ".tmp"
_SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES, SNAPSHOT_SUFFIX)
_FILE_SUFFIXES = (
    *_SEGMENT_SUFFIXES, DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, _TEMPORARY_SUFFIX,
    LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA,
)  # fmt: skip


class Dropped(NamedTuple):
    """The data that a recovery cut off a log, and the reason."""

    tp: TopicPartition
    path: str  # path of the damaged segment
    position: int  # position of the first dropped byte in this segment
    log_end_offset: int  # log end offset after the recovery
    bytes_dropped: int  # total of all segments
    segments_dropped: tuple[str, ...]  # paths before the move
    reason: str
    kept_as: str | None  # folder with the dropped data; None if they contained no record


class LogDependencies(NamedTuple):
    """Dependencies of a log that is opened.

    ``observe``: receives findings about unusable files, as long as the log exists. ``random``: for
    ``segment.jitter.ms``. ``scan``: scans a segment here if no helper process does.
    """

    pool: FilePool
    observe: Observe = ignore
    random: Random = SYSTEM_RANDOM
    scan: Scanner = scan_segment


def create_log(
    tp: TopicPartition,
    directory: str,
    config: LogConfig,
    dependencies: LogDependencies,
    now_ms: int,
    topic_id: str | None = None,
) -> Log:
    """Create a partition's directory; the first record creates the log's files."""
    files.make_directory(directory)
    first = _first_segment(directory, 0, config, dependencies, now_ms)
    log = Log(
        tp,
        config,
        LogSegments(directory, dependencies.pool, [first], dependencies.random),
        LoadedOffsets(0, 0, 0),
        LeaderEpochCache(f"{directory}/{LEADER_EPOCH_CHECKPOINT}"),
        ProducerState(dependencies.observe),
        None,
    )
    if topic_id is not None:
        log.set_topic_id(topic_id)
    return log


def _first_segment(
    directory: str, base_offset: int, config: LogConfig, dependencies: LogDependencies, now_ms: int
) -> Segment:
    """The first segment. Unless it begins at offset 0, its file is created now, because the name may be the only record
    of the next offset."""
    first = open_segment(
        directory,
        base_offset,
        config,
        dependencies.pool,
        now_ms,
        size_bytes=None,
        random=dependencies.random,
        is_first=True,
    )
    if base_offset:
        sync_path(directory)
    return first


def load_log_steps(
    tp: TopicPartition,
    directory: str,
    config: LogConfig,
    dependencies: LogDependencies,
    now_ms: int,
    *,
    recovery_point: int,
    log_start_offset: int | None,
    clean_shutdown: bool,
    cleaned_offset: int | None = None,
    is_contiguous: bool = True,
) -> Steps[tuple[Log, Dropped | None]]:
    """Open an existing log. The yielded work items may run in another process.

    Args:
        recovery_point: from the checkpoint, or 0.
        log_start_offset: from the checkpoint. None: where the first segment (tiered: the first leader epoch) begins.
        clean_shutdown: if True, normally no segment needs a scan.
        is_contiguous: if True, a gap after the recovery point means lost data (docs/decisions/0018). Otherwise, the
            recovery point moves past the gap, as in Kafka.
    Returns: the log, and the data that recovery dropped, if any.
    Raises: OSError, InconsistentLogDir.
    """
    pool, observe, random, scan = dependencies
    names = finish_interrupted(directory, _file_names(directory, observe), observe)
    segments = [
        open_segment(directory, base_offset, config, pool, now_ms, size_bytes=size_bytes, random=random)
        for base_offset, size_bytes in _segment_offsets(directory, names, observe)
    ]
    begins_by = max(recovery_point, log_start_offset or 0)
    recovery_point, is_contiguous = _evidence(segments, recovery_point, is_contiguous, observe)
    epochs, is_afresh = _load_epochs(directory, segments, MAX_OFFSET if clean_shutdown else recovery_point, observe)
    recovered = yield from _Recovery(
        tp, segments, epochs, recovery_point, begins_by, clean_shutdown, is_contiguous, scan, observe
    ).steps(is_afresh)
    segments, end_offset = list(recovered.segments), recovered.end_offset
    if segments and segments[-1].keeps_damage:
        segments.append(open_segment(directory, end_offset, config, pool, now_ms, size_bytes=None, random=random))
        problem = "is damaged at its end, although this part had been flushed"
        observe(Finding(segments[-2].path, problem, f"it stays as it is, and the log continues at offset {end_offset}"))
    if segments and log_start_offset and end_offset < log_start_offset:  # files are gone, or the checkpoint is wrong
        observe(_move_aside(directory, segments, log_start_offset, end_offset))
        segments.clear()
        epochs.clear()
    if not segments:
        end_offset = max(end_offset, log_start_offset or 0)
        segments.append(_first_segment(directory, end_offset, config, dependencies, now_ms))
    epochs.truncate_from_end(end_offset)
    found = FoundStart(tp, log_start_offset, segments[0].base_offset, epochs.entries, clean_shutdown)
    config = found.config(config)
    start_offset = found.log_start_offset(config)
    epochs.syncs_each_write = config.is_tiered
    epochs.truncate_from_start(start_offset)
    log = Log(
        tp,
        config,
        LogSegments(directory, pool, segments, random),
        LoadedOffsets(start_offset, end_offset, end_offset if clean_shutdown else min(recovery_point, end_offset)),
        epochs,
        ProducerState(observe),
        _load_topic_id(directory, observe),
    )
    log.cleaned_offset = None if cleaned_offset is None else _believed(log, cleaned_offset, observe)
    yield from _reload_steps(log, names, clean_shutdown, recovered.has_markers, observe)
    if recovered.has_gap or log.recovery_point < segments[0].base_offset:
        log.flush()  # so that the recovery point passes the gap
    for segment in segments:
        segment.release_resources()
    return log, recovered.dropped


def _evidence(segments: Sequence[Segment], point: int, is_contiguous: bool, observe: Observe) -> tuple[int, bool]:
    """The recovery point and ``is_contiguous``. 0 and False if the last segment cannot reach the recovery point."""
    if not segments or point <= segments[-1].base_offset + MAX_RELATIVE_OFFSET + 1:
        return point, is_contiguous
    problem = f"cannot have been flushed up to offset {point}, although the recovery point says so"
    observe(Finding(segments[-1].path, problem, "the log is checked from its first record on"))
    return 0, False


def _believed(log: Log, cleaned_offset: int, observe: Observe) -> int | None:
    """The offset of the last compaction; None if the checkpoint's offset is beyond the log's end."""
    if cleaned_offset <= log.log_end_offset:
        return max(cleaned_offset, log.log_start_offset)
    problem = f"ends at offset {log.log_end_offset}, so it cannot have been compacted up to {cleaned_offset}"
    observe(Finding(log.segments.directory, problem, "it counts as dirty from its first record on"))
    return None


def _reload_steps(
    log: Log, names: Iterable[str], clean_shutdown: bool, has_markers: bool, observe: Observe
) -> Steps[None]:
    """Rebuild the producers. ``has_markers``: a scanned batch has a marker."""
    sound_end = log.log_end_offset if clean_shutdown else log.recovery_point
    rebuild_from = _unsound_transactions(log, _bases(names, TRANSACTION_INDEX_SUFFIX), sound_end, observe)
    if has_markers and not clean_shutdown:
        rebuild_from = sound_end if rebuild_from is None else min(sound_end, rebuild_from)
    if not clean_shutdown or rebuild_from is not None or snapshot_offsets(log.segments.directory):
        yield from log.reload_producers_steps(rebuild_from)  # otherwise the log has no idempotent producers
    if not clean_shutdown and log.producers.producers:
        log.distrust_snapshots()


def _unsound_transactions(log: Log, bases: Sequence[int], sound_end: int, observe: Observe) -> int | None:
    """The offset from which transaction indexes must be rebuilt; None if all are valid.

    Entries below ``sound_end`` are durable; later ones may refer to truncated batches.
    """
    unsound = []
    for segment in log.segments:
        if segment.base_offset not in bases:
            continue
        index = segment.transaction_index
        problem = transaction_index_problem(files.read_file(index.path) or b"", segment.base_offset)
        if problem is not None:
            observe(Finding(index.path, problem, "it is rebuilt from the records"))
            index.clear()
            unsound.append(segment.base_offset)
        elif index.entries and index.entries[-1].last_offset >= sound_end:
            unsound.append(sound_end)
    return min(unsound, default=None)


def _bases(names: Iterable[str], suffix: str) -> list[int]:
    return sorted(found[0] for name in names if (found := parse_offset_file(name)) and found[1] == suffix)


def _segment_offsets(directory: str, names: Sequence[str], observe: Observe) -> list[tuple[int, int]]:
    """(Base offset, size in bytes) of all segments, ascending. Removes indexes without a segment."""
    bases = _bases(names, LOG_SUFFIX)
    known = set(bases)
    for name in names:
        found = parse_offset_file(name)
        if found and found[1] in INDEX_SUFFIXES and found[0] not in known:
            path = f"{directory}/{name}"
            remove_file(path)
            observe(Finding(path, "is an index without a segment", "it is removed"))
    return [(base, files.size_bytes(f"{directory}/{offset_file(base, LOG_SUFFIX)}")) for base in bases]


def _file_names(directory: str, observe: Observe) -> list[str]:
    """The names of the files. Directories that have the name of a file are renamed."""
    names = []
    for entry in files.list_directory(directory):
        if not entry.is_directory:
            names.append(entry.name)
        elif entry.name.endswith(_FILE_SUFFIXES):
            path = f"{directory}/{entry.name}"
            observe(discard(path, "it is a directory", "it counts as a missing file"))
    return names


def _move_aside(directory: str, segments: Sequence[Segment], log_start_offset: int, end_offset: int) -> Finding:
    """Move a log's segments durably into a folder beside it.

    Kafka deletes them if the log start offset is after the log's end. Here they are kept, because the checkpoint may be
    wrong.
    """
    count = "1 segment" if len(segments) == 1 else f"{len(segments)} segments"
    return Finding(
        directory,
        f"ends at offset {end_offset}, but its log start offset is {log_start_offset}",
        f"the log is now empty and begins there, so that no offset is reused; {count}, the first of them from "
        f"{segments[0].base_offset} on, are moved aside",
        set_aside(directory, log_start_offset, segments),
    )


def _load_topic_id(directory: str, observe: Observe) -> str | None:
    try:
        return read_topic_id(directory)
    except CorruptCheckpoint as error:
        meaning = "the log takes the next topic id that the controller sends, even if the topic was recreated meanwhile"
        observe(discard(f"{directory}/{PARTITION_METADATA}", error, meaning))
        return None


def _load_epochs(
    directory: str, segments: list[Segment], flushed_end: int, observe: Observe
) -> tuple[LeaderEpochCache, bool]:
    """The leader epochs from their file, and whether to rebuild them from the batches.

    The file may contain epochs of truncated records, so only scanned batches count for unflushed records.
    """
    path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
    meaning = "the leader epochs are taken from the batches"
    epochs = LeaderEpochCache(path)
    try:
        epochs.load()
    except CorruptCheckpoint as error:
        observe(discard(path, error, meaning))
        return epochs, True
    was_empty = not epochs.entries
    epochs.truncate_from_end(flushed_end)
    if not was_empty or not _names_an_epoch(segments):
        return epochs, False
    observe(Finding(path, "is missing or empty", meaning))
    return epochs, True


def _names_an_epoch(segments: list[Segment]) -> bool:
    """True if the newest batches have a leader epoch, which the file should contain."""
    newest = next((segment for segment in reversed(segments) if segment.size_bytes >= HEADER_SIZE), None)
    with suppress(CorruptRecord):
        return newest is not None and newest.header_at(0).partition_leader_epoch >= 0
    return False


class _Recovered(NamedTuple):
    """``segments``: those that remain.

    ``has_markers``: a scanned batch has a marker. ``has_gap``: a gap after the recovery point was kept.
    """

    segments: Sequence[Segment]
    dropped: Dropped | None
    end_offset: int
    has_markers: bool
    has_gap: bool


class _Recovery(NamedTuple):
    """A log's segments before the recovery, and their checkpoints.

    ``begins_by``: the largest base offset that an intact log's first segment can have. If the first segment begins
    later, earlier ones are missing, because the recovery point or log start offset is written before segments are
    deleted or a log is restarted.
    """

    tp: TopicPartition
    segments: Sequence[Segment]
    epochs: LeaderEpochCache
    recovery_point: int
    begins_by: int
    clean_shutdown: bool
    is_contiguous: bool
    scan: Scanner
    observe: Observe

    def steps(self, rebuilds_epochs: bool) -> Steps[_Recovered]:
        """Scan the segments that need a scan, cut the log at the first damage, and move the rest aside.

        After a crash, segments that reach beyond the recovery point need a scan. Segments without a usable index always
        need one, and all segments do if the epochs must be rebuilt.
        """
        end_offset = 0
        has_markers = has_gap = False
        segments = self.segments
        if not self.clean_shutdown and segments and segments[0].base_offset > self.begins_by:
            reason = self._judge_gap(self.begins_by, segments[0].base_offset, is_first=True)
            if reason is not None:
                return _Recovered((), self._drop_all(reason), self.begins_by, False, False)
            has_gap = True
        for index, segment in enumerate(segments):
            next_base = segments[index + 1].base_offset if index + 1 < len(segments) else None
            durable = next_base is not None and (self.clean_shutdown or next_base <= self.recovery_point)
            afresh = self._has_no_index(segment, durable or self.clean_shutdown) or rebuilds_epochs
            if durable and not afresh:
                continue
            result = None
            if self.clean_shutdown or durable:
                end_offset, result = yield from self._sound_end(segment, next_base, afresh)
            else:
                following_bytes = sum(other.size_bytes for other in segments[index + 1 :])
                result = yield from self._scan(segment, self.recovery_point, afresh, following_bytes)
                end_offset = result.next_offset
            if result is None:
                continue
            has_markers = has_markers or result.has_markers
            reason = result.reason
            if reason is None and not durable and next_base is not None and end_offset < next_base:
                reason = self._judge_gap(end_offset, next_base, is_first=not has_gap)
                has_gap = True
            dropped = None if reason is None else self._drop(index, result, reason)
            adopt(segment, result, self.epochs)
            if dropped is not None:
                return _Recovered(segments[: index + 1], dropped, end_offset, has_markers, False)
        return _Recovered(segments, None, end_offset, has_markers, has_gap)

    def _judge_gap(self, end_offset: int, next_base: int, *, is_first: bool) -> str | None:
        """Why the log ends before a gap; None if the log continues after the gap."""
        if self.is_contiguous:
            return f"the records {end_offset} to {next_base - 1} are missing"
        if is_first:
            problem = f"has no records from offset {end_offset} to {next_base - 1}"
            meaning = "compaction or a power loss removed them; the records behind them are kept, as Apache Kafka does"
            self.observe(Finding(self.segments[0].directory, problem, meaning))
        return None

    def _has_no_index(self, segment: Segment, is_final: bool) -> bool:
        found = index_problem(segment, is_final)
        if found is not None:
            self.observe(Finding(*found, "it is rebuilt from the records"))
        return found is not None or not files.exists(segment.offset_index.path)

    def _drop(self, index: int, result: SegmentScan, reason: str) -> Dropped:
        """Move aside what follows the valid part of the segment at ``index``, which the caller truncates."""
        segment = self.segments[index]
        behind = self.segments[index + 1 :]
        tail = (segment, result.valid_bytes) if result.valid_bytes < segment.size_bytes else None
        paths = tuple(other.path for other in behind)
        return Dropped(
            self.tp,
            segment.path,
            result.valid_bytes,
            result.next_offset,
            segment.size_bytes - result.valid_bytes + sum(other.size_bytes for other in behind),
            paths,
            reason,
            set_aside(segment.directory, result.next_offset, behind, tail),
        )

    def _drop_all(self, reason: str) -> Dropped:
        """Move aside all segments, because the log was cut before the first of them."""
        first, begin = self.segments[0], self.begins_by
        size_bytes = sum(segment.size_bytes for segment in self.segments)
        paths = tuple(segment.path for segment in self.segments)
        kept_as = set_aside(first.directory, begin, self.segments)
        return Dropped(self.tp, first.path, 0, begin, size_bytes, paths, reason, kept_as)

    def _sound_end(
        self, segment: Segment, next_base: int | None, afresh: bool
    ) -> Steps[tuple[int, SegmentScan | None]]:
        """A durable segment's end from its index, or else from a scan, which cuts no durable data.

        After a clean shutdown, the recovery point is the log's end, so a segment with a later end is scanned too.
        """
        if not afresh:
            with suppress(CorruptRecord):  # the scan below reports it
                end_offset = next_offset(segment)
                if next_base is not None or end_offset <= self.recovery_point or not self.recovery_point:
                    return end_offset, None
        result = yield from self._scan(segment, self.recovery_point if next_base is None else next_base, afresh)
        return result.next_offset, result

    def _scan(
        self, segment: Segment, recovery_point: int, afresh: bool, following_bytes: int = 0
    ) -> Steps[SegmentScan]:
        """``afresh``: scan from the first batch on, without the indexes."""
        work = ScanWork(
            segment.path,
            "" if afresh else segment.offset_index.path,
            "" if afresh else segment.time_index.path,
            segment.base_offset,
            recovery_point,
            segment.index_interval_bytes,
            segment.size_bytes,
            following_bytes,
        )
        return (yield work) or self.scan(*work[:6])


def adopt(segment: Segment, result: SegmentScan, epochs: LeaderEpochCache) -> None:
    """Truncate a segment after the last valid batch, and replace its indexes."""
    if result.valid_bytes < segment.size_bytes:
        files.truncate(segment.fileno(), result.valid_bytes)
        sync_file(segment.fileno())  # once another segment follows, recovery does not read this end again
        segment.size_bytes = result.valid_bytes
    entries = array("Q")
    entries.frombytes(result.offset_entries)
    segment.offset_index.replace(entries)
    segment.time_index.replace(result.time_entries)
    segment.set_max_timestamp(result.max_timestamp_ms, result.max_timestamp_offset)
    segment.write_out_indexes(final=True)  # once another segment follows, no append writes these
    segment.update_index_is_full()
    segment.keeps_damage = result.keeps_damage
    for epoch, start_offset in result.epochs:
        epochs.assign(epoch, start_offset)
