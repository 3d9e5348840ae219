"""Loads file slices into the page cache before they are sent.

``sendfile`` of uncached pages blocks the reactor while the disk reads them. So slices are probed (a probe never blocks
and takes microseconds), and a thread reads uncached ones. A log's active segment is not probed, because it was just
written.
"""

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred

from kafka_zk.base.threads import RunInThread
from kafka_zk.protocol.fetch import Part, Slice
from kafka_zk.storage.files import files

PROBE_EVERY_BYTES = 128 * 1024
"""Linux's window of read-ahead; one page of each is probed."""

_CHUNK_BYTES = 256 * 1024


class ReadAhead:
    """``run_in_thread`` returns a Deferred that fires when the function returns."""

    def __init__(self, run_in_thread: RunInThread) -> None:
        self._run_in_thread = run_in_thread

    def __call__(self, parts: Sequence[Part]) -> "Deferred[None] | None":
        """Return None if all slices can be sent now; otherwise a Deferred that fires when they can, or after a disk
        error. Retain the slices until then."""
        cold = [
            part
            for part in parts
            if not isinstance(part, bytes | bytearray | memoryview)
            and not part.in_active_segment
            and not is_in_page_cache(part)
        ]
        if not cold:
            return None
        # The thread gets descriptor numbers; the reactor's slices keep their descriptors open.
        try:
            ranges = [(part.fileno(), part.position, part.size_bytes) for part in cold]
        except OSError:  # sending raises it again
            return None
        deferred = self._run_in_thread(lambda: _read_all(ranges))
        deferred.addErrback(_ignore_disk_error)
        return deferred


def is_in_page_cache(file_slice: Slice) -> bool:
    """True if the probed pages need no disk."""
    end = file_slice.position + file_slice.size_bytes
    try:
        descriptor = file_slice.fileno()
    except OSError:  # reading raises it again
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
