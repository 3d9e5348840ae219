"""Cutting a stream into frames: four bytes of size, then the frame.

A frame of n bytes costs O(n) however it is cut into chunks. A size that is only announced costs neither memory nor
time: a big frame is collected in a mapping, whose pages the kernel gives out when they are written. (A bytearray is
filled with zeros first: 100 ms and 100 MB for four bytes from a stranger.)
"""

import contextlib
import mmap
import struct
from collections.abc import Iterator

from kafka_zk.protocol.errors import ProtocolError

BIG_FRAME_BYTES = 2 * 1024 * 1024
"""Frames above this size are collected in a mapping; below, a bytearray is faster."""

_SIZE = struct.Struct(">i")


def _writable(size: int) -> memoryview:
    """Zeroed memory that can be written to; freed when nobody has a view of it any more."""
    if size <= BIG_FRAME_BYTES:
        return memoryview(bytearray(size))
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without huge pages: four times slower, no less right
        mapping.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(mapping)


class FrameDecoder:
    """Collects one frame after the other; each is a writable memoryview without its size prefix.

    ``missing``: the part of the frame being collected that is not there yet, a place to receive into (see ``filled``);
    None while no frame has begun.
    """

    __slots__ = ("_max_frame_size_bytes", "_prefix", "_view", "missing")

    def __init__(self, max_frame_size_bytes: int) -> None:
        self._max_frame_size_bytes = max_frame_size_bytes
        self._prefix = b""
        self._view = memoryview(b"")  # the frame being collected
        self.missing: memoryview | None = None

    @property
    def buffered_size_bytes(self) -> int:
        """Bytes received of the frame that is not complete yet."""
        return len(self._prefix) + len(self._view) - len(self.missing or b"")

    def filled(self, count: int) -> memoryview | None:
        """Say that ``count`` bytes were received into ``missing``; returns the frame if that completes it."""
        assert self.missing is not None, "no frame is being collected"
        if count < len(self.missing):
            self.missing = self.missing[count:]
            return None
        frame = self._view
        self._view = memoryview(b"")
        self.missing = None
        return frame

    def feed(self, data: bytes | memoryview) -> Iterator[memoryview]:
        """The frames that ``data`` completes; ``data`` is copied. Raises ProtocolError on a size below 0 or above the
        limit."""
        position = 0
        end = len(data)
        if self.missing is not None:
            position = min(end, len(self.missing))
            self.missing[:position] = data[:position]
            frame = self.filled(position)
            if frame is not None:
                yield frame
        elif self._prefix:
            data = self._prefix + data
            end = len(data)
            self._prefix = b""
        whole: memoryview | None = None
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(data, position)
            if not 0 <= size <= self._max_frame_size_bytes:
                raise ProtocolError(f"a frame of {size} bytes, at most {self._max_frame_size_bytes} are allowed")
            start = position + 4
            position = start + size
            if position > end:
                self._start(size, memoryview(data)[start:])
                return
            if whole is None:  # one copy for all frames; from here on ``data`` may change under our feet
                data = whole = memoryview(bytearray(data))
            yield whole[start:position]
        if position < end:
            self._prefix = bytes(data[position:])

    def _start(self, size: int, beginning: memoryview) -> None:
        self._view = _writable(size)
        filled = len(beginning)
        self._view[:filled] = beginning
        self.missing = self._view[filled:]
