"""A connection's queue of responses, and the throttle that mutes the peer.

Tests: tests/kafka_zk/network/{test_connection,test_copying_writer,test_slices}.py.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

from kafka_zk.base.clock import Timers
from kafka_zk.network.connection_states import DRAIN, FILL, MUTE, UNMUTE, Output
from kafka_zk.network.transport import QUEUE_FULL_BYTES
from kafka_zk.protocol.fetch import Part


class FrameWriter(Protocol):
    """A ``FrameTransport``, or a ``CopyingFrameWriter`` on top of another transport."""

    on_drained: Callable[[], None] | None

    @property
    def queued_size_bytes(self) -> int: ...
    @property
    def queued_memory_bytes(self) -> int: ...
    def taken_bytes(self) -> int: ...
    def write_frame(self, parts: Sequence[Part]) -> None: ...
    def hold(self) -> None: ...
    def send_held(self) -> None: ...
    def loseConnection(self) -> None: ...


class ConnectionOutput:
    """The output of one connection.

    Attributes:
        state: whether the next request may begin; read-only for others.
        writer: the queue, once connected.
        seen_queued_bytes: size of the queue at the last ``made_progress``.
    """

    __slots__ = ("_clock", "_mutes", "_seen_taken_bytes", "_throttle_count", "seen_queued_bytes", "state", "writer")

    def __init__(self, clock: Timers) -> None:
        self.state = Output.READY
        self.writer: FrameWriter
        self.seen_queued_bytes = 0
        self._seen_taken_bytes = 0
        self._clock = clock
        self._throttle_count = 0
        self._mutes: list[Any] = []  # timers; cleared when none is active

    def send(self, parts: Sequence[Part], drained: Callable[[], None]) -> None:
        """Queue a response; if the queue is then full, ``drained`` is called when it is half full."""
        writer = self.writer
        writer.write_frame(parts)
        if writer.queued_size_bytes > QUEUE_FULL_BYTES:
            self.state = FILL[self.state]
            writer.on_drained = drained

    def drained(self) -> None:
        """Called when at most half of QUEUE_FULL_BYTES is left."""
        self.state = DRAIN[self.state]

    @property
    def is_muted(self) -> bool:
        return self._throttle_count > 0

    def mute(self, mute_ms: int, unmuted: Callable[[], None]) -> None:
        """Throttle the peer for ``mute_ms``, then call ``unmuted``. Throttles may overlap."""
        self._throttle_count += 1
        self.state = MUTE[self.state]
        self._mutes.append(self._clock.callLater(mute_ms / 1000, self._unmute, unmuted))

    def _unmute(self, unmuted: Callable[[], None]) -> None:
        self._throttle_count -= 1
        if not self._throttle_count:
            self._mutes.clear()
            self.state = UNMUTE[self.state]
        unmuted()

    def lost(self) -> None:
        """Cancel timers, which would keep a lost connection in memory."""
        for mute in self._mutes:
            if mute.active():
                mute.cancel()
        self._mutes.clear()

    @property
    def queued_memory_bytes(self) -> int:
        """Memory held by queued responses."""
        writer = self.writer
        return writer.queued_memory_bytes if writer.queued_size_bytes else 0

    def made_progress(self, least_bytes: int) -> bool | None:
        """True if the peer has read ``least_bytes`` of the bytes that were queued at the last call, or all of them;
        None if the queue was or is empty."""
        queued_bytes, taken_bytes = self.seen_queued_bytes, self._seen_taken_bytes
        self.seen_queued_bytes = self.writer.queued_size_bytes
        if not self.seen_queued_bytes:
            return None
        self._seen_taken_bytes = self.writer.taken_bytes()
        return self._seen_taken_bytes - taken_bytes >= min(least_bytes, queued_bytes) if queued_bytes else None


def hold_slices(parts: Sequence[Part]) -> ExitStack:
    """Retain the slices among ``parts`` until the stack is closed. Raises OSError if a file is missing or too many are
    open."""
    with ExitStack() as held:
        for part in parts:
            if not isinstance(part, bytes | bytearray | memoryview):
                part.retain()
                held.callback(part.release)
        return held.pop_all()
