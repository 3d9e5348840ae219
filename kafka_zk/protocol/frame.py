"""Splits a stream into frames: four bytes of size, then the frame.

A frame of n bytes costs O(n) for any division into chunks. An announced size alone costs nothing: a frame's buffer
grows in steps with the received data, and each step is first taken from a budget. If the budget has no room, the
decoder reports the bytes that it needs (``needed_bytes``) and continues when it gets them (``grow``).

Up to BIG_FRAME_BYTES the buffer is a bytearray that grows sixteenfold per step, so that a frame whose beginning arrived
in one piece needs a single step. Larger buffers are memory mappings that double in size; the kernel resizes them
without a copy.
"""

import mmap
import re
import struct
from collections.abc import Iterator

from kafka_zk.base.operating_system.memory import grown_memory, zeroed_memory
from kafka_zk.protocol.errors import OtherProtocol, ProtocolError
from kafka_zk.protocol.memory import UNLIMITED, Memory

BIG_FRAME_BYTES = 2 * 1024 * 1024
"""From this size on, a mapping is faster than a bytearray."""

UNCOUNTED_BYTES = 4096
"""Frames up to this size do not use the budget."""

_FIRST_STEP_BYTES = 16 * 1024
_GROWTH = 16
_SIZE = struct.Struct(">i")
_TLS_HANDSHAKE = re.compile(rb"\x16\x03[\x00-\x04]", re.DOTALL)
_HTTP_METHODS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"TRAC", b"PATC", b"PRI ")


def _next_step(size: int, filled: int) -> int:
    if filled < BIG_FRAME_BYTES:
        return min(size, max(_FIRST_STEP_BYTES, min(filled * _GROWTH, BIG_FRAME_BYTES)))
    return min(size, filled * 2)


def _refused_size(prefix: bytes, size: int, max_size_bytes: int) -> ProtocolError:
    if _TLS_HANDSHAKE.match(prefix):
        return OtherProtocol("this looks like TLS, but the listener uses plain text")
    if prefix in _HTTP_METHODS:
        return OtherProtocol("this looks like HTTP, but the listener uses Kafka's protocol")
    return ProtocolError(f"a frame of {size} bytes, at most {max_size_bytes} are allowed")


class FrameDecoder:
    """Collects frames one at a time; each is a writable memoryview without its size prefix.

    Attributes:
        missing: where to receive the next bytes of the current frame (see ``filled``); empty while ``needed_bytes`` are
            needed, None between frames.
        needed_bytes: bytes for which the budget had no room; do not receive more before ``grow``.
        begun_count: number of frames that did not arrive in one piece.
        max_frame_size_bytes: size limit for frames that begin from now on.
        counted_bytes: budget taken by the current frame. The receiver of a complete frame returns its share (see
            ``hand_over``).
    """

    __slots__ = (
        "_complete_bytes",
        "_mapping",
        "_memory",
        "_prefix",
        "_size",
        "_view",
        "begun_count",
        "counted_bytes",
        "max_frame_size_bytes",
        "missing",
        "needed_bytes",
    )

    def __init__(self, max_frame_size_bytes: int, memory: Memory = UNLIMITED) -> None:
        self.max_frame_size_bytes = max_frame_size_bytes
        self._memory = memory
        self._prefix = b""
        self._size = 0
        self._view = memoryview(b"")
        self._mapping: mmap.mmap | None = None
        self.missing: memoryview | None = None
        self.begun_count = 0
        self.needed_bytes = 0
        self.counted_bytes = 0
        self._complete_bytes = 0

    @property
    def buffered_size_bytes(self) -> int:
        return len(self._prefix) + len(self._view) - len(self.missing or b"")

    @property
    def size_bytes(self) -> int:
        return self._size

    def beginning(self, count: int) -> bytes:
        """The first ``count`` bytes of the current frame, or all that have arrived."""
        return bytes(self._view[: min(count, len(self._view) - len(self.missing or b""))])

    def filled(self, count: int) -> memoryview | None:
        """Report ``count`` bytes received into ``missing``; returns the frame if it is complete.

        Raises: ProtocolError if the system has no memory for the next step.
        """
        missing = self.missing
        assert missing is not None, "no frame is being collected"
        if count < len(missing):
            self.missing = missing[count:]
            return None
        if len(self._view) < self._size:
            missing.release()  # a mapping cannot grow while a view of it exists
            self.missing = memoryview(b"")
            step_bytes = _next_step(self._size, len(self._view)) - len(self._view)
            if self._memory.try_take(step_bytes, self._size):
                self.counted_bytes += step_bytes
                self._extend(step_bytes)
            else:
                self.needed_bytes = step_bytes
            return None
        frame = self._view
        self._complete_bytes += self.counted_bytes
        self._forget()
        return frame

    def hand_over(self) -> int:
        """Return the bytes of budget that the frames completed since the last call have taken."""
        complete_bytes, self._complete_bytes = self._complete_bytes, 0
        return complete_bytes

    def grow(self) -> None:
        """Continue: the caller has taken ``needed_bytes`` from the budget. Raises ProtocolError like ``filled``."""
        step_bytes, self.needed_bytes = self.needed_bytes, 0
        self.counted_bytes += step_bytes
        self._extend(step_bytes)

    def close(self) -> None:
        """Does not return the budget."""
        self._prefix = b""
        self._forget()

    def _forget(self) -> None:
        self._view = memoryview(b"")
        self._mapping = None
        self._size = self.counted_bytes = self.needed_bytes = 0
        self.missing = None

    def feed(self, data: bytes | memoryview) -> Iterator[memoryview]:
        """Copy ``data`` and yield the frames that it completes. Raises ProtocolError for a size below 0 or above the
        limit, and like ``filled``.
        """
        position = 0
        end = len(data)
        if self.missing is not None:
            frame = None
            while frame is None and position < end:
                if self.needed_bytes:  # received data must be stored even without budget
                    self._make_room(min(end - position, self._size - len(self._view)))
                start = position
                position = min(end, start + len(self.missing))
                self.missing[: position - start] = data[start:position]
                frame = self.filled(position - start)
            if frame is None:
                return
            yield frame
        elif self._prefix:
            data = self._prefix + data
            end = len(data)
            self._prefix = b""
        whole: memoryview | None = None
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(data, position)
            if not 0 <= size <= self.max_frame_size_bytes:
                raise _refused_size(bytes(data[position : position + 4]), size, self.max_frame_size_bytes)
            start = position + 4
            position = start + size
            if position > end:
                self._start(size, memoryview(data)[start:])
                return
            if whole is None:  # one copy for all frames, because the caller may change ``data``
                data = whole = memoryview(bytearray(data))
            yield whole[start:position]
        if position < end:
            self._prefix = bytes(data[position:])

    def _start(self, size: int, beginning: memoryview) -> None:
        filled = len(beginning)
        step_bytes = _next_step(size, filled)
        if size > UNCOUNTED_BYTES:
            if not self._memory.try_take(step_bytes, size):
                step_bytes = filled
                self._memory.take(filled)
            self.counted_bytes = step_bytes
        self.begun_count += 1
        self._size = size
        self._view = memoryview(bytearray(step_bytes))
        self._view[:filled] = beginning
        self.missing = self._view[filled:]
        if filled == step_bytes:
            self.needed_bytes = _next_step(size, filled) - filled

    def _make_room(self, count: int) -> None:
        self._memory.take(count)
        self.counted_bytes += count
        self.needed_bytes = 0
        self._extend(count)

    def _extend(self, count: int) -> None:
        filled = len(self._view)
        size = filled + count
        try:
            if size <= BIG_FRAME_BYTES:
                view = memoryview(bytearray(size))
                view[:filled] = self._view
            elif self._mapping is None:
                self._mapping = zeroed_memory(size)
                view = memoryview(self._mapping)
                view[:filled] = self._view
            else:
                self._view.release()
                self._mapping = grown_memory(self._mapping, size)
                view = memoryview(self._mapping)
        except (OSError, MemoryError) as error:
            raise ProtocolError(f"no memory for a frame of {self._size} bytes: {error}") from error
        self._view = view
        self.missing = view[filled:]
