"""The files in a partition's directory before its log is opened: what a crash left is finished, strangers go aside.

Source: LogLoader.removeTempFilesAndCollectSwapFiles@3.9. Tests: tests/storage/test_recovery.py, test_findings.py.
"""

import os
from collections.abc import Sequence

from kafka_zk.storage.filenames import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    MOVED_ASIDE_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
    parse_offset_file,
)
from kafka_zk.storage.files import remove_file, sync_path
from kafka_zk.storage.findings import Finding, Observe, discard, free_path
from kafka_zk.storage.segment import Segment

_TEMPORARY_SUFFIX = ".tmp"
_INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
_SEGMENT_SUFFIXES = (LOG_SUFFIX, *_INDEX_SUFFIXES, SNAPSHOT_SUFFIX)
_FILE_SUFFIXES = (
    *_SEGMENT_SUFFIXES, DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, _TEMPORARY_SUFFIX,
    LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA,
)  # fmt: skip


def segment_offsets(directory: str, observe: Observe) -> list[tuple[int, int]]:
    """(base offset, size in bytes) of all segments, ascending. Indexes without a segment are removed."""
    names = _finish_interrupted(directory, _file_names(directory, observe))
    bases = sorted(found[0] for name in names if (found := parse_offset_file(name)) and found[1] == LOG_SUFFIX)
    known = set(bases)
    for name in names:
        found = parse_offset_file(name)
        if found and found[1] in _INDEX_SUFFIXES and found[0] not in known:
            path = f"{directory}/{name}"
            remove_file(path)
            observe(Finding(path, "is the index of a segment that is not there", "it is removed"))
    return [(base, os.path.getsize(f"{directory}/{offset_file(base, LOG_SUFFIX)}")) for base in bases]


def _file_names(directory: str, observe: Observe) -> list[str]:
    """All files; a directory that has a name for a file would be in the way of that."""
    names = []
    with os.scandir(directory) as entries:
        for entry in list(entries):
            if not entry.is_dir():
                names.append(entry.name)
            elif entry.name.endswith(_FILE_SUFFIXES):
                observe(discard(entry.path, "it is a directory", "it is taken for a file that is not there"))
    return names


def _finish_interrupted(directory: str, names: list[str]) -> list[str]:
    """Remove ``.deleted`` and ``.cleaned`` files, put ``.swap`` files in their place; returns the names that remain.

    A ``.swap`` file at or after the lowest ``.cleaned`` one belongs to a split that did not finish and goes as well.
    """
    cleaned = [found[0] for name in names if name.endswith(CLEANED_SUFFIX) and (found := parse_offset_file(name))]
    lowest = min(cleaned, default=None)
    remaining = []
    for name in names:
        path = f"{directory}/{name}"
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, _TEMPORARY_SUFFIX)):
            remove_file(path)
        elif name.endswith(SWAP_SUFFIX) and (found := parse_offset_file(name)):
            if lowest is not None and found[0] >= lowest:
                remove_file(path)
                continue
            os.replace(path, path.removesuffix(SWAP_SUFFIX))
            remaining.append(name.removesuffix(SWAP_SUFFIX))
        else:
            remaining.append(name)
    return remaining


def move_aside(directory: str, segments: Sequence[Segment], log_start_offset: int, end_offset: int) -> Finding:
    """Put a log's segments and all that belongs to them into a folder beside where they lay, durably.

    Kafka deletes them where the log start offset lies beyond the log's end. But it is one number against all records.
    """
    target = free_path(f"{directory}/{offset_file(log_start_offset, '')}", MOVED_ASIDE_SUFFIX)
    os.mkdir(target)
    for segment in segments:
        segment.release_file()
    for name in os.listdir(directory):
        found = parse_offset_file(name)
        if found and found[1] in _SEGMENT_SUFFIXES:
            os.rename(f"{directory}/{name}", f"{target}/{name}")
    sync_path(target)
    sync_path(directory)
    count = "1 segment" if len(segments) == 1 else f"{len(segments)} segments"
    return Finding(
        directory,
        f"ends at offset {end_offset}, but its log start offset is {log_start_offset}",
        f"the log begins there, so that no offset is given twice, and is empty; {count}, the first of them from "
        f"{segments[0].base_offset} on, are moved aside",
        target,
    )
