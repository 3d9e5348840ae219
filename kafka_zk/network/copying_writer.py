"""Frames over a transport that can only take bytes (TLS): slices are read, then written.

It has the part of ``FrameTransport``'s interface that a connection uses.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from kafka_zk.network.transport import QUEUE_FULL_BYTES
from kafka_zk.protocol.fetch import Part

_FRAME_SIZE = struct.Struct(">i")


@implementer(IPushProducer)
class CopyingFrameWriter:
    """Writes frames to ``transport`` and learns from it, as its producer, when too much is waiting."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._paused = False
        self._taken_bytes = 0
        self.on_drained: Callable[[], None] | None = None
        transport.registerProducer(self, True)

    @property
    def queued_size_bytes(self) -> int:
        """Not a measure: QUEUE_FULL_BYTES + 1 while the transport asks for a pause, else 0."""
        return QUEUE_FULL_BYTES + 1 if self._paused else 0

    @property
    def queued_memory_bytes(self) -> int:
        """The same."""
        return self.queued_size_bytes

    def taken_bytes(self) -> int:
        """Not a measure either: grows when the transport wants more."""
        return self._taken_bytes

    def write_frame(self, parts: Sequence[Part]) -> None:
        """Write one frame. A file that is shorter than its slice, or cannot be read, ends the connection."""
        frame: list[bytes] = [b""]
        size_bytes = 0
        try:
            for part in parts:
                if isinstance(part, bytes | bytearray | memoryview):
                    data = bytes(part)
                else:
                    data = part.read()
                    if len(data) != part.size_bytes:
                        raise OSError(f"{part.size_bytes} bytes were promised, {len(data)} are there")
                size_bytes += len(data)
                frame.append(data)
        except OSError:
            self._transport.abortConnection()
            return
        frame[0] = _FRAME_SIZE.pack(size_bytes)
        self._transport.writeSequence(frame)

    def hold(self) -> None:
        """Nothing: the transport below collects what is written in a turn."""

    def send_held(self) -> None:
        """Nothing; see ``hold``."""

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._taken_bytes += self.queued_size_bytes
        self._paused = False
        drained, self.on_drained = self.on_drained, None
        if drained is not None:
            drained()

    def stopProducing(self) -> None:
        self.on_drained = None

    def loseConnection(self) -> None:
        """Close the connection when what is written has left: a registered producer would keep it open."""
        self._transport.unregisterProducer()
        self._transport.loseConnection()
