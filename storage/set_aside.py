"""Move records that a log gives up into a folder beside it, durably, instead of deleting them.

Recovery and truncation decide on evidence that can be wrong: a checkpoint, a leader that lost its disk. The folder is
``<offset>.moved-aside`` in the partition's directory, where ``offset`` is the new end of the log. It holds whole
segments under their own names, and the bytes cut from a segment's end as ``<offset>.log.tail``. Kafka's brokers ignore
it; it is deleted with the partition. Tests: tests/storage/test_set_aside.py.
"""

from collections.abc import Sequence

from kafka_zk.storage import files
from kafka_zk.storage.filenames import LOG_SUFFIX, MOVED_ASIDE_SUFFIX, SNAPSHOT_SUFFIX, offset_file, parse_offset_file
from kafka_zk.storage.files import sync_path
from kafka_zk.storage.findings import free_path
from kafka_zk.storage.segment import Segment
from kafka_zk.storage.segment_swap import INDEX_SUFFIXES

TAIL_SUFFIX = LOG_SUFFIX + ".tail"
_SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES, SNAPSHOT_SUFFIX)
_CHUNK_BYTES = 1 << 20


def set_aside(
    directory: str, end_offset: int, segments: Sequence[Segment], tail: tuple[Segment, int] | None = None
) -> str | None:
    """Move whole segments, and copy the end of another one, into a folder of their own. Durable when it returns.

    Args:
        end_offset: where the log is going to end; it names the folder.
        segments: the last segments of the log, ascending. Their files are closed, except for readers that hold them.
        tail: (segment, position): copy the bytes from ``position`` on. The caller truncates the segment afterwards.
            Trailing zero bytes hold no records and are not copied.
    Returns: the folder, or None if there was nothing to keep.
    Raises: OSError; nothing is lost then, but the files may lie in both places.
    """
    kept = _tail_bytes(*tail) if tail is not None else 0
    if not segments and not kept:
        return None
    target = free_path(f"{directory}/{offset_file(end_offset, '')}", MOVED_ASIDE_SUFFIX)
    files.make_directory(target)
    if tail is not None and kept:
        _copy(*tail, kept, f"{target}/{offset_file(end_offset, TAIL_SUFFIX)}")
    for segment in segments:
        segment.leave()
    for name, _ in files.list_directory(directory) if segments else ():
        found = parse_offset_file(name)
        if found and found[0] >= segments[0].base_offset and found[1] in _SEGMENT_SUFFIXES:
            files.rename(f"{directory}/{name}", f"{target}/{name}")
    sync_path(target)
    sync_path(directory)
    return target


def _tail_bytes(segment: Segment, position: int) -> int:
    """The length of what lies behind ``position`` without the zeros at its end."""
    end = segment.size_bytes
    while end > position:
        start = max(position, end - _CHUNK_BYTES)
        sound = files.pread(segment.fileno(), end - start, start).rstrip(b"\0")
        if sound:
            return start + len(sound) - position
        end = start
    return 0


def _copy(segment: Segment, position: int, size_bytes: int, path: str) -> None:
    target = files.open_to_append(path, is_new=True)
    try:
        end = position + size_bytes
        while position < end:
            data = files.pread(segment.fileno(), min(_CHUNK_BYTES, end - position), position)
            if not data:
                break
            files.write_all(target, data)
            position += len(data)
        files.sync_file(target)
    finally:
        files.close(target)
