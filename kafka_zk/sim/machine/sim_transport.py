"""One end of a connection in the simulated network, with its send queue, bytes in transit, and received bytes."""

import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.python.failure import Failure

from kafka_zk.network.memory_pool import MemoryPool
from kafka_zk.network.transport import QUEUE_FULL_BYTES
from kafka_zk.protocol.fetch import Part, Slice
from kafka_zk.protocol.frame import FrameDecoder
from kafka_zk.sim.machine.process import Process
from kafka_zk.storage.files import files

WINDOW_BYTES = 256 * 1024
PIECE_BYTES = 64 * 1024
_FRAME_SIZE = struct.Struct(">i")
_SMALL_BYTES = PIECE_BYTES - _FRAME_SIZE.size
_DATA = (bytes, bytearray, memoryview)
Address = tuple[str, int]


class Wire(Protocol):
    def later(self, call: Callable[..., object], *args: object) -> None: ...

    def send(self, sender: "SimTransport", data: bytes | None) -> None: ...

    def forget(self, transport: "SimTransport") -> None: ...


class _QueuedSlice:
    """A file slice that is being sent; keeps a reference to the slice until all is sent."""

    __slots__ = ("file_slice", "position", "remaining_bytes")

    def __init__(self, file_slice: Slice) -> None:
        self.file_slice = file_slice
        self.position = file_slice.position
        self.remaining_bytes = file_slice.size_bytes


class SimTransport:
    """One end of a connection. Has the interface of ``network.transport.FrameTransport`` for its protocol."""

    on_drained: Callable[[], None] | None = None

    def __init__(self, network: Wire, process: Process, here: Address, there: Address) -> None:
        self._network = network
        self.process = process
        self.here = here
        self.there = there
        self.peer: SimTransport | None = None
        self.protocol: Any = None
        self.connected = True
        self.disconnecting = False
        self.queued_size_bytes = 0
        self._sent_bytes = 0
        self._queue: deque[bytes | _QueuedSlice] = deque()
        self._held = False
        self._reading = True
        self._unread: deque[bytes] = deque()  # received by the kernel, not read by the process
        self._end_of_stream: Exception | None = None  # delivered after ``_unread``
        self._under_way_bytes = 0
        self._under_way: deque[bytes] = deque()
        self._arrives_s = 0.0
        self._stalled: deque[bytes | None] = deque()  # pieces that a network cut delays
        self.is_held_back = False  # all pieces are delayed, whichever hosts are cut off
        self._finished = False  # the end of the stream is in transit to the peer

    # -- what protocols call --------------------------------------------------------------------------------------

    def receive_into(
        self, decoder: FrameDecoder, received: Callable[[int], None], pool: MemoryPool | None = None
    ) -> None:
        """All data are passed to ``dataReceived``."""

    def write_frame(self, parts: Sequence[Part]) -> None:
        if not self.connected or self.disconnecting:
            return
        size_bytes = 0
        for part in parts:
            size_bytes += len(part)
        if size_bytes <= _SMALL_BYTES and not (self._held or self._queue or self._under_way_bytes >= WINDOW_BYTES):
            data = _joined(size_bytes, parts)
            if data is not None:
                self._put_on_way(data)
                self._note_drained()
                return
        queued: list[bytes | _QueuedSlice] = [_FRAME_SIZE.pack(size_bytes)]
        for part in parts:
            if isinstance(part, _DATA):
                if len(part):
                    queued.append(bytes(part))
            elif part.size_bytes > 0:
                try:
                    part.retain()
                except OSError:
                    _release(queued)
                    self.abortConnection()
                    return
                queued.append(_QueuedSlice(part))
        self._queue += queued
        self.queued_size_bytes += size_bytes + _FRAME_SIZE.size
        if not self._held:
            self._send_queue()

    def hold(self) -> None:
        self._held = True

    def send_held(self) -> None:
        self._held = False
        if self.connected:
            self._send_queue()

    @property
    def queued_memory_bytes(self) -> int:
        return sum(len(item) for item in self._queue if isinstance(item, bytes))

    def taken_bytes(self) -> int:
        return self._sent_bytes - self._under_way_bytes

    def loseConnection(self) -> None:
        if self.connected and not self.disconnecting:
            self.disconnecting = True
            self._send_queue()

    def abortConnection(self) -> None:
        if self.connected and not self._finished:
            self._finished = True
            self._forget_queue()
            if self.is_held_back:
                self._network.send(self, None)  # the end follows what is held back
            else:
                self._stalled.clear()
                if self.peer is not None:
                    self._network.later(self.peer.reset, ConnectionLost())
            self.process.callLater(0, self.end, ConnectionAborted())

    def pauseProducing(self) -> None:
        self._reading = False

    def resumeProducing(self) -> None:
        if not self._reading:
            self._reading = True
            self.process.callLater(0, self._read)

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Ignored."""

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """Ignored."""

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", *self.here)

    def getPeer(self) -> IPv4Address:
        return IPv4Address("TCP", *self.there)

    # -- sending --------------------------------------------------------------------------------------------------

    def _send_queue(self) -> None:
        while self._queue and self._under_way_bytes < WINDOW_BYTES and self.connected:
            data = self._next_piece()
            if data is None:
                self.abortConnection()
                return
            self.queued_size_bytes -= len(data)
            self._put_on_way(data)
        self._note_drained()
        if self.disconnecting and not self._queue and not self._finished and self.connected:
            self._finished = True
            self._network.send(self, None)
            self.process.callLater(0, self.end, ConnectionDone())

    def _put_on_way(self, data: bytes) -> None:
        self._sent_bytes += len(data)
        self._under_way_bytes += len(data)
        self._network.send(self, data)

    def _note_drained(self) -> None:
        if self.on_drained is not None and self.queued_size_bytes <= QUEUE_FULL_BYTES // 2:
            drained, self.on_drained = self.on_drained, None
            self.process.callLater(0, drained)

    def _next_piece(self) -> bytes | None:
        """The next bytes of the queue; None if a file ends before its slice does."""
        parts: list[bytes] = []
        room_bytes = PIECE_BYTES
        while self._queue and room_bytes > 0:
            item = self._queue[0]
            data = self._taken_off(item, room_bytes) if isinstance(item, bytes) else self._read_off(item, room_bytes)
            if not data:
                return None
            parts.append(data)
            room_bytes -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _taken_off(self, item: bytes, room_bytes: int) -> bytes:
        if len(item) <= room_bytes:
            self._queue.popleft()
            return item
        self._queue[0] = item[room_bytes:]
        return item[:room_bytes]

    def _read_off(self, item: _QueuedSlice, room_bytes: int) -> bytes:
        try:
            data = files.pread(item.file_slice.fileno(), min(item.remaining_bytes, room_bytes), item.position)
        except OSError:
            return b""
        item.position += len(data)
        item.remaining_bytes -= len(data)
        if data and not item.remaining_bytes:
            self._queue.popleft()
            item.file_slice.release()
        return data

    def taken(self, size_bytes: int) -> bool:
        """Note that the peer's process has read ``size_bytes``. Returns True if this side then has nothing to do."""
        self._under_way_bytes -= size_bytes
        return not (self._queue or self.on_drained is not None or self.disconnecting)

    def send_more(self) -> None:
        """Send more, because the peer has made room in the window."""
        has_work = self._queue or self.on_drained is not None or self.disconnecting
        if has_work and self.connected and not self._held:
            self._send_queue()

    # -- receiving ------------------------------------------------------------------------------------------------

    def arrived(self, data: bytes | None) -> None:
        """Receive a piece from the network. ``data``: None at the end of the stream."""
        if not self.connected:
            return
        if data is None:
            self._end_of_stream = self._end_of_stream or ConnectionDone()
        else:
            self._unread.append(data)
        self.process.receive(self._read)

    def reset(self, reason: Exception) -> None:
        if self.connected:
            self._end_of_stream = reason
            self.process.receive(self._read)

    def _read(self) -> None:
        if self.protocol is None:  # connected, not yet accepted
            return
        while self._unread and self._reading and self.connected:
            data = self._unread.popleft()
            peer = self.peer
            if peer is not None and not peer.taken(len(data)):
                self._network.later(peer.process.receive, peer.send_more)
            self.protocol.dataReceived(data)
        if not self._unread and self._end_of_stream is not None and self.connected:
            self.end(self._end_of_stream)

    def end(self, reason: Exception) -> None:
        """Close this end and notify the protocol."""
        if not self.connected:
            return
        self.connected = False
        self._forget_queue()
        self._unread.clear()
        self._network.forget(self)
        self.protocol.connectionLost(Failure(reason))

    def vanish(self) -> None:
        """Close this end because its process is gone. The protocol is not notified, so its coroutines never end."""
        self.connected = False
        self._stalled.clear()
        self._network.forget(self)
        self.process.keep(self)

    def _forget_queue(self) -> None:
        _release(self._queue)
        self._queue.clear()
        self.queued_size_bytes = 0
        self.on_drained = None


def _joined(size_bytes: int, parts: Sequence[Part]) -> bytes | None:
    data = [_FRAME_SIZE.pack(size_bytes)]
    for part in parts:
        if not isinstance(part, _DATA):
            return None
        data.append(part)  # type: ignore[arg-type]
    return b"".join(data)


def _release(items: Iterable[bytes | _QueuedSlice]) -> None:
    for item in items:
        if isinstance(item, _QueuedSlice):
            item.file_slice.release()
