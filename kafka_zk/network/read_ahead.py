"""Bringing file slices into the page cache before they are sent.

``sendfile`` of pages that are not in memory blocks the reactor until the disk has answered. So slices outside a log's
active segment are looked at first (``preadv`` with RWF_NOWAIT, which never waits: a few microseconds), and only if
something is missing they are read by a thread, into nowhere. The active segment's end was written a moment ago.
"""

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred

from kafka_zk.base.threads import RunInThread
from kafka_zk.protocol.fetch import Part, Slice
from kafka_zk.storage.files import files

PROBE_EVERY_BYTES = 128 * 1024
"""Linux reads ahead in windows of this size: one page of each tells about the rest."""

_CHUNK_BYTES = 256 * 1024


class ReadAhead:
    """``run_in_thread`` calls a function in another thread and fires when it is done."""

    def __init__(self, run_in_thread: RunInThread) -> None:
        self._run_in_thread = run_in_thread

    def __call__(self, parts: Sequence[Part]) -> "Deferred[None] | None":
        """None if all slices in ``parts`` can be sent now, else a Deferred that fires when they can (or on an error,
        which sending will meet again). The caller holds references to the slices until then."""
        cold = [
            part
            for part in parts
            if not isinstance(part, bytes | bytearray | memoryview)
            and not part.in_active_segment
            and not is_in_page_cache(part)
        ]
        if not cold:
            return None
        # Only numbers go to the thread: a slice belongs to the reactor, its descriptor stays open while it is held.
        try:
            ranges = [(part.fileno(), part.position, part.size_bytes) for part in cold]
        except OSError:  # sending meets it again
            return None
        deferred = self._run_in_thread(lambda: _read_all(ranges))
        deferred.addErrback(_ignore_disk_error)
        return deferred


def is_in_page_cache(file_slice: Slice) -> bool:
    """Whether the probed pages of the slice can be read without waiting for the disk."""
    end = file_slice.position + file_slice.size_bytes
    try:
        descriptor = file_slice.fileno()
    except OSError:  # reading meets it again
        return False
    return files.is_cached(descriptor, [*range(file_slice.position, end, PROBE_EVERY_BYTES), end - 1])


def _read_all(ranges: list[tuple[int, int, int]]) -> None:
    for descriptor, position, size_bytes in ranges:
        end = position + size_bytes
        while position < end:
            count = len(files.pread(descriptor, min(_CHUNK_BYTES, end - position), position))
            if count == 0:
                break
            position += count


def _ignore_disk_error(failure: Any) -> None:
    failure.trap(OSError)
