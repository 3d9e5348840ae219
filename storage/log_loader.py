"""Opening the log of a partition's directory: create, load after a clean shutdown, recover after any other.

Source: LogLoader.scala@3.9. Tests: tests/storage/test_recovery.py.
"""

import os
from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from storage import producer_snapshot
from storage.errors import CorruptRecord
from storage.file_pool import FilePool
from storage.filenames import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_offset_file,
)
from storage.files import remove_file, sync_file, sync_path
from storage.leader_epoch_cache import LeaderEpochCache
from storage.log import Log
from storage.log_config import LogConfig
from storage.partition_metadata import read_topic_id, write_topic_id
from storage.producer_state import ProducerState
from storage.recovery import SegmentScan, scan_segment
from storage.recovery_work import ScanWork, Steps, run_here
from storage.segment import Segment, open_segment
from storage.truncation import reload_producers_steps
from storage.types import TopicPartition

_INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
Scanner = Callable[[str, str, str, int, int, int], SegmentScan]


class Dropped(NamedTuple):
    """What a recovery cut off a log, and why."""

    topic_partition: TopicPartition
    path: str  # of the damaged segment
    position: int  # in it, of the first byte dropped
    log_end_offset: int  # of what is left
    bytes_dropped: int  # in all segments
    segments_dropped: int  # whole ones, behind the damaged one
    reason: str


def create_log(
    topic_partition: TopicPartition,
    directory: str,
    config: LogConfig,
    pool: FilePool,
    now_ms: int,
    topic_id: str | None = None,
) -> Log:
    """Make a partition's directory with an empty first segment."""
    os.makedirs(directory, exist_ok=True)
    if topic_id is not None:
        write_topic_id(directory, topic_id)
    first = open_segment(directory, 0, config, pool, now_ms, size_bytes=None)
    return Log(
        topic_partition,
        directory,
        config,
        pool,
        segments=[first],
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
        leader_epochs=LeaderEpochCache(f"{directory}/{LEADER_EPOCH_CHECKPOINT}"),
        producers=ProducerState(),
        topic_id=topic_id,
    )


def load_log(
    topic_partition: TopicPartition,
    directory: str,
    config: LogConfig,
    pool: FilePool,
    now_ms: int,
    *,
    recovery_point: int,
    log_start_offset: int,
    clean_shutdown: bool,
    scan: Scanner = scan_segment,
) -> tuple[Log, Dropped | None]:
    """Open an existing partition's directory, here and now. See ``load_log_steps``."""
    return run_here(
        load_log_steps(
            topic_partition,
            directory,
            config,
            pool,
            now_ms,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean_shutdown=clean_shutdown,
            scan=scan,
        )
    )


def load_log_steps(
    topic_partition: TopicPartition,
    directory: str,
    config: LogConfig,
    pool: FilePool,
    now_ms: int,
    *,
    recovery_point: int,
    log_start_offset: int,
    clean_shutdown: bool,
    scan: Scanner = scan_segment,
) -> Steps[tuple[Log, Dropped | None]]:
    """Open an existing partition's directory; the long parts may be done elsewhere.

    Args:
        recovery_point, log_start_offset: from the checkpoint files, 0 if they do not mention the partition.
        clean_shutdown: ``.kafka_cleanshutdown`` was there: nothing is scanned.
        scan: what scans a segment here, unless the work that was offered came back done.
    Returns: the log and what recovery dropped, None if nothing.
    """
    segments = _open_segments(directory, config, pool, now_ms)
    epochs = LeaderEpochCache(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    epochs.load()
    dropped, end_offset = yield from _recover(
        topic_partition, segments, epochs, recovery_point, clean_shutdown, config.is_compacted, scan
    )
    if segments and segments[-1].keeps_damage:
        segments.append(open_segment(directory, end_offset, config, pool, now_ms, size_bytes=None))
    if end_offset < log_start_offset:  # segment files were taken away by hand
        for segment in segments:
            segment.remove()
        segments.clear()
        epochs.clear()
    if not segments:
        segments.append(open_segment(directory, log_start_offset, config, pool, now_ms, size_bytes=None))
        end_offset = log_start_offset
        sync_path(directory)  # its name alone may tell the next offset one day
    epochs.truncate_from_end(end_offset)
    start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_from_start(start_offset)
    log = Log(
        topic_partition,
        directory,
        config,
        pool,
        segments=segments,
        log_start_offset=start_offset,
        log_end_offset=end_offset,
        recovery_point=end_offset if clean_shutdown else min(recovery_point, end_offset),
        leader_epochs=epochs,
        producers=ProducerState(),
        topic_id=read_topic_id(directory),
    )
    if not clean_shutdown or producer_snapshot.list_offsets(directory):
        yield from reload_producers_steps(log)  # without any snapshot a clean log had no idempotent producers
    for segment in segments:
        segment.rest()
    return log, dropped


def _open_segments(directory: str, config: LogConfig, pool: FilePool, now_ms: int) -> list[Segment]:
    """Clean up what a crash left in the middle of a deletion or compaction, then open what there is."""
    names = _finish_interrupted(directory, os.listdir(directory))
    bases = sorted(found[0] for name in names if (found := parse_offset_file(name)) and found[1] == LOG_SUFFIX)
    known = set(bases)
    for name in names:
        found = parse_offset_file(name)
        if found and found[1] in _INDEX_SUFFIXES and found[0] not in known:
            remove_file(f"{directory}/{name}")
    segments = []
    for base_offset in bases:
        size_bytes = os.path.getsize(f"{directory}/{base_offset:020d}{LOG_SUFFIX}")
        segments.append(open_segment(directory, base_offset, config, pool, now_ms, size_bytes=size_bytes))
    return segments


def _finish_interrupted(directory: str, names: list[str]) -> list[str]:
    """Remove ``.deleted`` and ``.cleaned`` files, put ``.swap`` files in their place; returns the names that remain.

    A ``.swap`` file at or after the lowest ``.cleaned`` one belongs to a split that did not finish and goes as well.
    """
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    lowest = min((int(name[:20]) for name in cleaned if name[:20].isdigit()), default=None)
    remaining = []
    for name in names:
        path = f"{directory}/{name}"
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")):
            remove_file(path)
        elif name.endswith(SWAP_SUFFIX):
            if lowest is not None and int(name[:20]) >= lowest:
                remove_file(path)
                continue
            os.replace(path, path.removesuffix(SWAP_SUFFIX))
            remaining.append(name.removesuffix(SWAP_SUFFIX))
        else:
            remaining.append(name)
    return remaining


def _recover(
    topic_partition: TopicPartition,
    segments: list[Segment],
    epochs: LeaderEpochCache,
    recovery_point: int,
    clean_shutdown: bool,
    is_compacted: bool,
    scan: Scanner,
) -> Steps[tuple[Dropped | None, int]]:
    """Scan what must be scanned; cut at the first damage and drop what follows. Returns (what, log end offset).

    After a crash that is every segment that reaches beyond the recovery point; always those without a usable index.
    A hole between two of them is damage as well: a power loss may take the first one's end and leave the second.
    """
    end_offset = 0
    for index, segment in enumerate(segments):
        next_base = segments[index + 1].base_offset if index + 1 < len(segments) else None
        durable = next_base is not None and (clean_shutdown or next_base <= recovery_point)
        if durable and os.path.exists(segment.offset_index.path):
            continue
        size_bytes = segment.size_bytes
        result = None
        if clean_shutdown or durable:
            end_offset, result = yield from _sound_end(segment, epochs, next_base, recovery_point, scan)
        else:
            following_bytes = sum(other.size_bytes for other in segments[index + 1 :])
            result = yield from rescan(segment, epochs, recovery_point, scan, following_bytes)
            end_offset = result.next_offset
        if result is None:
            continue
        reason = result.reason
        if reason is None and not durable and next_base is not None and end_offset < next_base:
            reason = None if is_compacted else f"the records {end_offset} to {next_base - 1} are missing"
        if reason is None:
            continue
        behind = segments[index + 1 :]
        del segments[index + 1 :]
        dropped_bytes = size_bytes - result.valid_bytes + sum(other.size_bytes for other in behind)
        for other in behind:
            other.remove()
        if behind:
            sync_path(segment.directory)  # they must not come back beside what is written in their place
        return (
            Dropped(
                topic_partition,
                segment.path,
                result.valid_bytes,
                result.next_offset,
                dropped_bytes,
                len(behind),
                reason,
            ),
            end_offset,
        )
    return None, end_offset


def _sound_end(
    segment: Segment, epochs: LeaderEpochCache, next_base: int | None, recovery_point: int, scan: Scanner
) -> Steps[tuple[int, SegmentScan | None]]:
    """The end of a durable segment, by its index; without a usable one by a scan, which cuts nothing durable.

    A clean shutdown leaves the recovery point at the log's end: a segment that seems to end beyond it is scanned, too.
    """
    if os.path.exists(segment.offset_index.path):
        with suppress(CorruptRecord):  # the scan below finds out where and why
            end_offset = segment.next_offset()
            if next_base is not None or end_offset <= recovery_point or not recovery_point:
                return end_offset, None
    result = yield from rescan(segment, epochs, recovery_point if next_base is None else next_base, scan)
    return result.next_offset, result


def rescan(
    segment: Segment, epochs: LeaderEpochCache, recovery_point: int, scan: Scanner, following_bytes: int = 0
) -> Steps[SegmentScan]:
    """Scan a segment, cut it after its last good batch and replace its indexes."""
    work = ScanWork(
        segment.path,
        segment.offset_index.path,
        segment.time_index.path,
        segment.base_offset,
        recovery_point,
        segment.index_interval_bytes,
        segment.size_bytes,
        following_bytes,
    )
    result = (yield work) or scan(*work[:6])
    if result.valid_bytes < segment.size_bytes:
        os.ftruncate(segment.fileno(), result.valid_bytes)
        sync_file(segment.fileno())  # once another segment follows, nobody looks at this end again
        segment.size_bytes = result.valid_bytes
    entries = array("Q")
    entries.frombytes(result.offset_entries)
    segment.offset_index.replace(entries)
    segment.time_index.replace(result.time_entries)
    segment.set_max_timestamp(result.max_timestamp_ms, result.max_timestamp_offset)
    segment.update_index_is_full()
    segment.keeps_damage = result.keeps_damage
    for epoch, start_offset in result.epochs:
        epochs.assign(epoch, start_offset)
    return result
