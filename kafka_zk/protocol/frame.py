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
    """Collects one frame after the other; each is a writable memoryview without its size prefix."""

    __slots__ = ("_collecting", "_filled", "_max_frame_size_bytes", "_prefix", "_view")

    def __init__(self, max_frame_size_bytes: int) -> None:
        self._max_frame_size_bytes = max_frame_size_bytes
        self._prefix = b""
        self._collecting = False
        self._view = memoryview(b"")  # the frame being collected
        self._filled = 0

    @property
    def missing(self) -> memoryview | None:
        """The part of the frame being collected that is not there yet: a place to receive into, see ``filled``."""
        return self._view[self._filled :] if self._collecting else None

    @property
    def buffered_size_bytes(self) -> int:
        """Bytes received of the frame that is not complete yet."""
        return len(self._prefix) + self._filled

    def filled(self, count: int) -> memoryview | None:
        """Say that ``count`` bytes were received into ``missing``; returns the frame if that completes it."""
        self._filled += count
        if self._filled < len(self._view):
            return None
        frame = self._view
        self._collecting = False
        self._view = memoryview(b"")
        self._filled = 0
        return frame

    def feed(self, data: bytes) -> Iterator[memoryview]:
        """The frames that ``data`` completes. Raises ProtocolError on a size below 0 or above the limit."""
        position = 0
        end = len(data)
        if self._collecting:
            position = min(end, len(self._view) - self._filled)
            self._view[self._filled : self._filled + position] = data if position == end else data[:position]
            frame = self.filled(position)
            if frame is not None:
                yield frame
        elif self._prefix:
            data = self._prefix + data
            end = len(data)
            self._prefix = b""
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(data, position)
            if not 0 <= size <= self._max_frame_size_bytes:
                raise ProtocolError(f"a frame of {size} bytes, at most {self._max_frame_size_bytes} are allowed")
            position += 4
            if end - position >= size:
                yield memoryview(bytearray(memoryview(data)[position : position + size]))
                position += size
            else:
                self._start(size, memoryview(data)[position:])
                return
        self._prefix = data[position:]

    def _start(self, size: int, beginning: memoryview) -> None:
        self._collecting = True
        self._view = _writable(size)
        self._filled = len(beginning)
        self._view[: self._filled] = beginning
