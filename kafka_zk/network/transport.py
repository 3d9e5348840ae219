"""TCP transports whose outgoing queue holds bytes and file slices, for our listeners and for our clients.

``write_frame`` is what they add to Twisted's transports. Bytes go out by ``send`` (with MSG_MORE while something
follows), slices by ``sendfile``: records never enter this process. What Twisted asks of ``doWrite`` is kept: it returns
the exception that ends the connection, stops writing and resumes producers when the queue is empty, and finishes
``loseConnection`` only then. Reading differs in one point: the rest of a frame that is being collected is received
straight into the frame.

A transport holds a reference to each slice in its queue and gives it back exactly once: when it was sent, or when the
connection ends, however it ends. A file that got shorter (``sendfile`` sends nothing) or cannot be read ends the
connection: the peer was promised bytes that are gone. Tests: tests/kafka_zk/network/test_transport.py.
"""

import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from twisted.internet import main, tcp

from kafka_zk.protocol.fetch import FileSlice, Part

QUEUE_FULL_BYTES = 256 * 1024
"""From this size of its queue on a connection handles no further request; half of it lets it go on."""

SEND_LIMIT_BYTES = 1024 * 1024
"""At most this much goes out in one turn, so that one connection cannot hold up the others."""

RECEIVE_INTO_FROM_BYTES = 16 * 1024
"""A frame that lacks less is received with whatever follows it, which saves a turn per frame."""

MAX_RUN = 64
"""So many pieces go out in one call; far below the system's limit of 1,024."""

RECEIVE_LIMIT_BYTES = 1024 * 1024

_FRAME_SIZE = struct.Struct(">i")
_JOIN_BELOW_BYTES = 4096

if TYPE_CHECKING:

    class _Base(tcp.Connection):
        """What Twisted does not annotate."""

        def startWriting(self) -> None: ...
        def stopWriting(self) -> None: ...
        def _maybePauseProducer(self) -> None: ...
        def _postLoseConnection(self) -> Exception: ...

else:
    _Base = object


class _SliceInQueue:
    """What is still to be sent of a slice."""

    __slots__ = ("file_slice", "position", "remaining_bytes")

    def __init__(self, file_slice: FileSlice) -> None:
        self.file_slice = file_slice
        self.position = file_slice.position
        self.remaining_bytes = file_slice.size_bytes


def _bytes_at_head(queue: deque[memoryview | _SliceInQueue]) -> Iterator[memoryview]:
    """What stands before the first slice, at most MAX_RUN pieces."""
    for item in islice(queue, MAX_RUN):
        if not isinstance(item, memoryview):
            return
        yield item


class FrameTransport(_Base):
    """Mixin for Twisted's TCP transports; see the module's docstring."""

    queued_size_bytes = 0
    _held = False
    on_drained: Callable[[], None] | None = None
    """Called once, by the reactor, as soon as the queue has at most half of QUEUE_FULL_BYTES left; then forgotten."""

    _queue: deque[memoryview | _SliceInQueue]
    _receive_target: Callable[[], memoryview | None] | None = None
    _received: Callable[[int], None]

    def receive_into(self, target: Callable[[], memoryview | None], received: Callable[[int], None]) -> None:
        """From now on ask ``target`` where the rest of a frame belongs, and tell ``received`` how much came there."""
        self._receive_target = target
        self._received = received

    def write_frame(self, parts: Sequence[Part]) -> None:
        """Queue one frame: its size and then ``parts``, in order; send what the socket takes at once.

        Takes a reference to every slice. Nothing happens when the connection is lost or being aborted.
        """
        if not self.connected or self._aborting or self._writeDisconnected:
            return
        idle = not self._queue and not self._held
        if len(parts) == 1 and isinstance(parts[0], bytes | bytearray):
            frame = _FRAME_SIZE.pack(len(parts[0])) + parts[0]
            self._queue.append(memoryview(frame))
            self.queued_size_bytes += len(frame)
        else:
            self._enqueue(parts)
        if idle:
            # Most answers leave at once, without a turn of the reactor. An error is met again by doWrite.
            self._send_queue()
            if not self._queue:
                return
        if not self._held:
            self.startWriting()

    def hold(self) -> None:
        """Queue frames until ``send_held``: the answers to requests that came together leave together."""
        self._held = True

    def send_held(self) -> None:
        """Send what was queued since ``hold``, as far as the socket takes it."""
        self._held = False
        if self._queue and self.connected and not self._aborting:
            self._send_queue()
            if self._queue or self.disconnecting or self.on_drained is not None:
                self.startWriting()  # doWrite sends the rest, and tells whoever waits for room

    def _enqueue(self, parts: Sequence[Part]) -> None:
        size_bytes = 0
        queued: list[memoryview | _SliceInQueue] = []
        for part in parts:
            if isinstance(part, bytes | bytearray | memoryview):
                if part:
                    size_bytes += len(part)
                    queued.append(memoryview(part))
            elif part.size_bytes > 0:
                size_bytes += part.size_bytes
                part.retain()
                queued.append(_SliceInQueue(part))
        prefix = _FRAME_SIZE.pack(size_bytes)
        first = queued[0] if queued else None
        if isinstance(first, memoryview) and len(first) < _JOIN_BELOW_BYTES:
            queued[0] = memoryview(prefix + first)
        else:
            self._queue.append(memoryview(prefix))
        self._queue += queued
        self.queued_size_bytes += size_bytes + 4

    def write(self, data: bytes) -> None:
        """Twisted's ``write``; for what is not a frame."""
        if data and self.connected and not self._aborting and not self._writeDisconnected:
            self._queue.append(memoryview(data))
            self.queued_size_bytes += len(data)
            self._maybePauseProducer()
            self.startWriting()

    def writeSequence(self, iovec: Any) -> None:
        """Twisted's ``writeSequence``."""
        for data in iovec:
            self.write(data)

    def _isSendBufferFull(self) -> bool:
        return self.queued_size_bytes > self.bufferSize

    def doWrite(self) -> Any:
        """Send from the queue. Returns the exception that ends the connection, else None."""
        error = self._send_queue()
        if error is not None:
            return error
        if self.on_drained is not None and self.queued_size_bytes <= QUEUE_FULL_BYTES // 2:
            drained, self.on_drained = self.on_drained, None
            drained()
            if not self.connected or self._aborting:
                return None
        if self._queue or self.on_drained is not None:  # filled and sent again meanwhile: tell it in the next turn
            return None
        self.stopWriting()
        if self.producer is not None and (not self.streamingProducer or self.producerPaused):
            self.producerPaused = False
            self.producer.resumeProducing()
        elif self.disconnecting:
            return self._postLoseConnection()
        elif self._writeDisconnecting:
            self._writeDisconnected = True
            return self._closeWriteConnection()
        return None

    def _send_queue(self) -> Exception | None:
        """Send until the queue is empty, the socket is full or SEND_LIMIT_BYTES are out."""
        queue = self._queue
        budget_bytes = SEND_LIMIT_BYTES
        try:
            while queue and budget_bytes > 0:
                item = queue[0]
                if isinstance(item, memoryview):
                    sent = self._send_bytes(item) if len(queue) == 1 else self._send_run()
                else:
                    sent = self._send_slice(item)
                    if sent == 0:
                        return main.CONNECTION_LOST
                    if item.remaining_bytes == 0:
                        queue.popleft()
                        item.file_slice.release()
                self.queued_size_bytes -= sent
                budget_bytes -= sent
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST
        return None

    def _send_bytes(self, item: memoryview) -> int:
        """Send the only thing in the queue."""
        sent: int = self.socket.send(item)
        if sent == len(item):
            self._queue.popleft()
        else:
            self._queue[0] = item[sent:]
        return sent

    def _send_run(self) -> int:
        """Send the bytes at the head of the queue, up to the first slice, in one call."""
        queue = self._queue
        run = list(_bytes_at_head(queue))
        more = socket.MSG_MORE if len(run) < len(queue) else 0
        sent: int = self.socket.sendmsg(run, (), more)
        left = sent
        for item in run:
            if left < len(item):
                queue[0] = item[left:]
                break
            queue.popleft()
            left -= len(item)
        return sent

    def _send_slice(self, item: _SliceInQueue) -> int:
        """Send from the file; 0 means that it ends before the slice does."""
        count = min(item.remaining_bytes, SEND_LIMIT_BYTES)
        sent = os.sendfile(self.socket.fileno(), item.file_slice.fileno(), item.position, count)
        item.position += sent
        item.remaining_bytes -= sent
        return sent

    def doRead(self) -> Any:
        """Receive; the rest of a big frame goes straight to where it belongs."""
        if self._receive_target is not None:
            target = self._receive_target()
            if target is not None and len(target) >= RECEIVE_INTO_FROM_BYTES:
                return self._receive_into(target)
        return super().doRead()

    def _receive_into(self, target: memoryview) -> Any:
        try:
            count = self.socket.recv_into(target[:RECEIVE_LIMIT_BYTES])
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST
        if count == 0:
            return main.CONNECTION_DONE
        self._received(count)
        return None

    def connectionLost(self, reason: Any) -> None:
        """Give back the slices, then as Twisted does."""
        queue = self._queue
        while queue:
            item = queue.popleft()
            if isinstance(item, _SliceInQueue):
                item.file_slice.release()
        self.queued_size_bytes = 0
        self.on_drained = None
        super().connectionLost(reason)


class FrameServer(FrameTransport, tcp.Server):
    """A connection that a ``FramePort`` accepted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._queue = deque()
        tcp.Server.__init__(self, *args, **kwargs)


class FrameClient(FrameTransport, tcp.Client):
    """A connection that a ``FrameConnector`` opened."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._queue = deque()
        tcp.Client.__init__(self, *args, **kwargs)


class FrameConnector(tcp.Connector):
    """A connector whose transport is a ``FrameClient``."""

    def _makeTransport(self) -> tcp.Client:
        return FrameClient(self.host, self.port, self.bindAddress, self, self.reactor)


class FramePort(tcp.Port):
    """A port that binds and listens first and accepts only from ``start_accepting`` on.

    ``accept_limit``: how many connections may be accepted now; at 0 it stops until ``start_accepting`` is called again.
    """

    transport = FrameServer
    accept_limit: Callable[[], int] | None = None
    _accepting = False

    def startReading(self) -> None:
        """Nothing before ``start_accepting``: Twisted calls this as the last step of listening."""
        if self._accepting:
            super().startReading()  # type: ignore[no-untyped-call]

    def start_accepting(self) -> None:
        if self.connected and not self.disconnecting:
            self._accepting = True
            self.startReading()

    def doRead(self) -> None:
        if self.accept_limit is not None:
            limit = self.accept_limit()
            if limit <= 0:
                self.stopReading()  # type: ignore[no-untyped-call]
                return
            self.numberAccepts = max(1, min(self.numberAccepts, limit))
        super().doRead()  # type: ignore[no-untyped-call]
