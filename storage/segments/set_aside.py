"""Saves the records that a log drops by moving them durably into a folder.

The records are kept because a recovery or truncation may be wrong: it may follow a wrong checkpoint, or a leader that
lost its disk. The folder is ``<offset>.moved-aside`` in the partition's directory; ``offset`` is the log's new end. It
contains whole segments, and the end of a cut segment as ``<offset>.log.tail``. Kafka's brokers ignore the folder; it is
deleted with the partition.
"""

from collections.abc import Sequence

from kafka_zk.storage.files import files
from kafka_zk.storage.files.filenames import (
    LOG_SUFFIX,
    MOVED_ASIDE_SUFFIX,
    SNAPSHOT_SUFFIX,
    offset_file,
    parse_offset_file,
)
from kafka_zk.storage.files.files import sync_path
from kafka_zk.storage.files.findings import free_path
from kafka_zk.storage.segments.segment import Segment
from kafka_zk.storage.segments.segment_swap import INDEX_SUFFIXES

TAIL_SUFFIX = LOG_SUFFIX + ".tail"
_SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES, SNAPSHOT_SUFFIX)
_CHUNK_BYTES = 1 << 20


def set_aside(
    directory: str, end_offset: int, segments: Sequence[Segment], tail: tuple[Segment, int] | None = None
) -> str | None:
    """Move whole segments, and copy the end of another one. The folder is durable on return.

    Args:
        end_offset: names the folder.
        segments: the log's last segments, ascending; their files are closed unless readers pin them.
        tail: (segment, position): copy the bytes from there on, unless they are zeros; the caller then truncates.
    Returns: the folder, or None if there was nothing to move.
    Raises: OSError; nothing is lost, but files may be in both places.
    """
    if tail is not None and not _holds_bytes(*tail):
        tail = None
    if not segments and tail is None:
        return None
    target = free_path(f"{directory}/{offset_file(end_offset, '')}", MOVED_ASIDE_SUFFIX)
    files.make_directory(target)
    if tail is not None:
        _copy(*tail, f"{target}/{offset_file(end_offset, TAIL_SUFFIX)}")
    for segment in segments:
        segment.leave()
    for name, _ in files.list_directory(directory) if segments else ():
        found = parse_offset_file(name)
        if found and found[0] >= segments[0].base_offset and found[1] in _SEGMENT_SUFFIXES:
            files.rename(f"{directory}/{name}", f"{target}/{name}")
    sync_path(target)
    sync_path(directory)
    return target


def _holds_bytes(segment: Segment, position: int) -> bool:
    """True if bytes other than zero follow ``position``."""
    for start in range(position, segment.size_bytes, _CHUNK_BYTES):
        if files.pread(segment.fileno(), _CHUNK_BYTES, start).strip(b"\0"):
            return True
    return False


def _copy(segment: Segment, position: int, path: str) -> None:
    target = files.open_to_append(path, is_new=True)
    try:
        for start in range(position, segment.size_bytes, _CHUNK_BYTES):
            files.write_all(target, files.pread(segment.fileno(), _CHUNK_BYTES, start))
        files.sync_file(target)
    finally:
        files.close(target)
