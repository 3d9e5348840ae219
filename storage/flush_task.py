"""A flush in two halves, so that the fsync may run in another thread. Tests: tests/storage/test_local_log.py.

The index files of closed segments are synced with them, because a recovery never looks at those again. The active
segment's are only written: a recovery checks what it finds there and rebuilds what does not fit.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from kafka_zk.storage.files import sync_file, sync_path
from kafka_zk.storage.segment import Segment

if TYPE_CHECKING:
    from kafka_zk.storage.local_log import LocalLog


def prepare(log: "LocalLog", up_to: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """See ``LocalLog.prepare_flush``."""
    first_slot = log.reader.slot_of(log.recovery_point)
    segments = [segment for segment in log.segments[first_slot:] if segment.base_offset < up_to]
    paths = []
    pinned: list[Segment] = []
    try:
        for segment in segments:
            segment.pin()
            pinned.append(segment)
            segment.write_out_indexes()
            if not segment.is_active:
                paths += [segment.offset_index.path, segment.time_index.path]
    except OSError:
        _unpin(pinned)
        raise
    descriptors = [segment.fileno() for segment in segments]
    is_new_file = bool(segments) and log.recovery_point <= segments[-1].base_offset
    if is_new_file:
        paths.append(str(log.directory))
    if not log.recovery_point:
        paths.append(str(log.directory.parent))
    truncation_count = log.truncation_count
    appended_ms = log.last_append_ms
    succeeded = False

    def work() -> None:
        nonlocal succeeded
        for descriptor in descriptors:
            sync_file(descriptor)
        for path in paths:
            with suppress(FileNotFoundError):  # deleted meanwhile, by retention or with its topic
                sync_path(path)
        succeeded = True

    def done() -> None:
        _unpin(segments)
        if succeeded and log.truncation_count == truncation_count:
            log.flushed(up_to, appended_ms)

    return work, done


def _unpin(segments: list[Segment]) -> None:
    for segment in segments:
        segment.unpin()
