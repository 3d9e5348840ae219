"""TCP transports for listeners and clients, whose outgoing queue holds bytes and file slices.

They extend Twisted's transports by ``write_frame``. Bytes are sent with ``send`` (with MORE_FOLLOWS while more follow).
Slices are sent with ``sendfile``, so that records do not enter this process; small frames with one ``pread`` and one
``sendmsg`` if that is cheaper. ``doWrite`` keeps Twisted's contract: it returns the exception that closes the
connection; with an empty queue, it stops writing, resumes producers and completes ``loseConnection``. After
``receive_into``, the protocol gets views of a shared buffer; the rest of a big frame goes directly to the decoder.

A queued slice is retained, and released exactly once. If its file was truncated (``sendfile`` sends nothing) or is
unreadable, the connection is closed, because the announced size cannot be sent.
"""

import errno
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from twisted.internet import main, tcp
from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from kafka_zk.base.operating_system.sockets import MORE_FOLLOWS, send_file, unacknowledged_bytes
from kafka_zk.network.memory_pool import UNBOUNDED, MemoryPool
from kafka_zk.protocol.fetch import Part, Slice
from kafka_zk.protocol.frame import FrameDecoder

QUEUE_FULL_BYTES = 256 * 1024
"""Above this queue size, a connection begins no further request until at most half of it is left."""

SEND_LIMIT_BYTES = 1024 * 1024
"""Maximum sent per turn, so that one connection cannot block the others."""

RECEIVE_BUFFER_BYTES = 128 * 1024
"""Maximum received at a time for small requests. Holds the five batches of 16 KB that a producer may have in flight."""

RECEIVE_INTO_FROM_BYTES = 16 * 1024
"""If less than this is missing, a frame is received together with later data, which saves a turn per frame."""

MAX_RUN = 64
"""Buffers per ``sendmsg``; the system's limit is 1,024."""

RECEIVE_LIMIT_BYTES = 1024 * 1024

_receive_buffers: "WeakKeyDictionary[Any, memoryview]" = WeakKeyDictionary()  # by reactor, so one per thread
_FRAME_SIZE = struct.Struct(">i")
_JOIN_BELOW_BYTES = 4096
_COPY_BELOW_BYTES = 4096
"""Slices are copied only up to this queue size, so a peer that does not read uses at most this much memory."""
_log = Logger()

if TYPE_CHECKING:

    class _Base(tcp.Connection):
        def abortConnection(self) -> None: ...
        def getPeer(self) -> Any: ...
        def startWriting(self) -> None: ...
        def stopWriting(self) -> None: ...
        def _maybePauseProducer(self) -> None: ...
        def _postLoseConnection(self) -> Exception: ...

else:
    _Base = object


def receive_buffer(reactor: Any) -> memoryview:
    """Shared by all connections of a reactor; valid only until the next receive."""
    buffer = _receive_buffers.get(reactor)
    if buffer is None:
        buffer = _receive_buffers[reactor] = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
    return buffer


class SliceInQueue:
    __slots__ = ("file_slice", "position", "remaining_bytes")

    def __init__(self, file_slice: Slice) -> None:
        self.file_slice = file_slice
        self.position = file_slice.position
        self.remaining_bytes = file_slice.size_bytes


def _bytes_at_head(queue: deque[memoryview | SliceInQueue]) -> Iterator[memoryview]:
    """The byte buffers before the first slice, at most MAX_RUN."""
    for item in islice(queue, MAX_RUN):
        if not isinstance(item, memoryview):
            return
        yield item


def _copied(part: Slice) -> memoryview:
    """Read a retained slice and release it. Raises OSError, also if its file was truncated."""
    try:
        data = part.read()
    finally:
        part.release()
    if len(data) < part.size_bytes:
        raise OSError(errno.EIO, f"{len(data)} bytes are left of {part.size_bytes}")
    return memoryview(data)


def release_slices(items: Iterable[memoryview | SliceInQueue]) -> None:
    for item in items:
        if isinstance(item, SliceInQueue):
            item.file_slice.release()


class FrameTransport(_Base):
    """Mixin for Twisted's TCP transports."""

    queued_size_bytes = 0
    """Size of the queue, including slices."""
    _sent_bytes = 0
    _held = False
    on_drained: Callable[[], None] | None = None
    """Called once in the reactor, when the queue is at most half of QUEUE_FULL_BYTES."""

    _queue: deque[memoryview | SliceInQueue]
    _buffer: memoryview
    _decoder: FrameDecoder | None = None
    _pool: MemoryPool
    _received_frame_part: Callable[[int], None] | None

    def receive_into(
        self, decoder: FrameDecoder, received: Callable[[int], None], pool: MemoryPool = UNBOUNDED
    ) -> None:
        """Receive the rest of a big frame directly into ``decoder``'s buffer, limited by ``pool``, and call
        ``received`` with the number of bytes. The protocol gets all other data as a view, valid until ``dataReceived``
        returns."""
        self._decoder = decoder
        self._buffer = receive_buffer(self.reactor)
        self._received_frame_part = received
        self._pool = pool

    def write_frame(self, parts: Sequence[Part]) -> None:
        """Queue one frame, its size and ``parts``, and send what the socket accepts now.

        Retains every slice. Does nothing if the connection is lost or being aborted. A slice whose file is missing
        aborts the connection.
        """
        if not self.connected or self._aborting or self._writeDisconnected:
            return
        idle = not self._queue and not self._held
        # Most responses are sent here, without a turn of the reactor. After an error, doWrite raises it again.
        if len(parts) == 1 and isinstance(parts[0], bytes):
            frame = _FRAME_SIZE.pack(len(parts[0])) + parts[0]
            sent = self._try_to_send(frame) if idle else 0
            if sent == len(frame):
                return
            self._queue.append(memoryview(frame)[sent:])
            self.queued_size_bytes += len(frame) - sent
        else:
            try:
                self._enqueue(parts)
            except OSError as error:
                _log.warn("{peer} closed: its response cannot be read: {error}", peer=self.getPeer(), error=str(error))
                self.abortConnection()
                return
            if idle:
                self._send_queue()
                if not self._queue:
                    return
        if not self._held:
            self.startWriting()

    def _try_to_send(self, data: bytes) -> int:
        try:
            sent: int = self.socket.send(data)
        except OSError:
            return 0
        return sent

    def hold(self) -> None:
        """Queue frames until ``send_held``, to send the responses to one read's requests together."""
        self._held = True

    def send_held(self) -> None:
        self._held = False
        if self._queue and self.connected and not self._aborting:
            self._send_queue()
            if self._queue or self.disconnecting or self.on_drained is not None:
                self.startWriting()  # doWrite sends the rest and calls ``on_drained``

    def _enqueue(self, parts: Sequence[Part]) -> None:
        size_bytes = 0
        queued: list[memoryview | SliceInQueue] = []
        for part in parts:
            if isinstance(part, bytes | bytearray | memoryview):
                if part:
                    size_bytes += len(part)
                    queued.append(memoryview(part))
            elif part.size_bytes > 0:
                size_bytes += part.size_bytes
                try:
                    part.retain()
                    is_small = self.queued_size_bytes + size_bytes <= _COPY_BELOW_BYTES
                    queued.append(_copied(part) if is_small else SliceInQueue(part))
                except OSError:
                    release_slices(queued)
                    raise
        prefix = _FRAME_SIZE.pack(size_bytes)
        first = queued[0] if queued else None
        if isinstance(first, memoryview) and len(first) < _JOIN_BELOW_BYTES:
            queued[0] = memoryview(prefix + first)
        else:
            self._queue.append(memoryview(prefix))
        self._queue += queued
        self.queued_size_bytes += size_bytes + 4

    @property
    def queued_memory_bytes(self) -> int:
        """Memory held by the queue, without slices."""
        return sum(len(item) for item in self._queue if isinstance(item, memoryview))

    def taken_bytes(self) -> int:
        """Bytes that the peer's system has acknowledged. Compare only differences, and only while the queue is not
        empty: the local socket buffer takes megabytes more, and is writable only when a third of it is free."""
        return self._sent_bytes - unacknowledged_bytes(self.socket)

    def write(self, data: bytes) -> None:
        """Like Twisted's ``write``, for data that are not a frame."""
        if data and self.connected and not self._aborting and not self._writeDisconnected:
            self._queue.append(memoryview(data))
            self.queued_size_bytes += len(data)
            self._maybePauseProducer()
            self.startWriting()

    def writeSequence(self, iovec: Any) -> None:
        for data in iovec:
            self.write(data)

    def _isSendBufferFull(self) -> bool:
        return self.queued_size_bytes > self.bufferSize

    def doWrite(self) -> Any:
        """Send from the queue. Returns the exception that closes the connection, if any."""
        error = self._send_queue()
        if error is not None:
            return error
        if self.on_drained is not None and self.queued_size_bytes <= QUEUE_FULL_BYTES // 2:
            drained, self.on_drained = self.on_drained, None
            drained()
            if not self.connected or self._aborting:
                return None
        if self._queue or self.on_drained is not None:  # ``drained`` refilled the queue: continue in the next turn
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
        """Send until the queue is empty, the socket is full or SEND_LIMIT_BYTES are sent."""
        queue = self._queue
        budget_bytes = SEND_LIMIT_BYTES
        try:
            while queue and budget_bytes > 0:
                item = queue[0]
                if isinstance(item, memoryview):
                    if len(queue) == 1:
                        sent = self._send_bytes(item, 0)
                    elif isinstance(queue[1], memoryview):
                        sent = self._send_run()
                    else:
                        sent = self._send_bytes(item, MORE_FOLLOWS)
                else:
                    wanted = min(item.remaining_bytes, SEND_LIMIT_BYTES)
                    sent = self._send_slice(item, wanted)
                    if sent == 0:
                        return main.CONNECTION_LOST
                    if item.remaining_bytes == 0:
                        queue.popleft()
                        item.file_slice.release()
                    elif sent < wanted:  # the socket is full; it is writable again when a third is free
                        budget_bytes = sent
                self.queued_size_bytes -= sent
                self._sent_bytes += sent
                budget_bytes -= sent
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST
        return None

    def _send_bytes(self, item: memoryview, flags: int) -> int:
        sent: int = self.socket.send(item, flags)
        if sent == len(item):
            self._queue.popleft()
        else:
            self._queue[0] = item[sent:]
        return sent

    def _send_run(self) -> int:
        """Send the head of the queue up to the first slice in one call."""
        queue = self._queue
        run = list(_bytes_at_head(queue))
        more = MORE_FOLLOWS if len(run) < len(queue) else 0
        sent: int = self.socket.sendmsg(run, (), more)
        if not more and sent == self.queued_size_bytes:
            queue.clear()
            return sent
        left = sent
        for item in run:
            if left < len(item):
                queue[0] = item[left:]
                break
            queue.popleft()
            left -= len(item)
        return sent

    def _send_slice(self, item: SliceInQueue, count: int) -> int:
        """Returns the number of bytes sent, 0 if the file is shorter than the slice."""
        sent = send_file(self.socket.fileno(), item.file_slice.fileno(), item.position, count)
        item.position += sent
        item.remaining_bytes -= sent
        return sent

    def doRead(self) -> Any:
        """Receive the rest of a big frame directly into its buffer."""
        if self._decoder is None:
            return super().doRead()
        if self._decoder.missing is not None:
            target = self._rest_of_big_frame(self._decoder)
            if target is not None:
                return self._receive_into(target)
        try:
            count = self.socket.recv_into(self._buffer, self._pool.receive_bytes)
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST
        if count == 0:
            return main.CONNECTION_DONE
        self.protocol.dataReceived(self._buffer[:count])  # type: ignore[call-arg,misc]
        if (
            count == RECEIVE_BUFFER_BYTES and self._decoder is not None and not self._aborting
        ):  # more data is waiting, possibly of one big frame
            target = self._rest_of_big_frame(self._decoder)
            if target is not None:
                return self._receive_into(target)
        return None

    @staticmethod
    def _rest_of_big_frame(decoder: FrameDecoder) -> memoryview | None:
        missing = decoder.missing
        return missing if missing is not None and len(missing) >= RECEIVE_INTO_FROM_BYTES else None

    def _receive_into(self, target: memoryview) -> Any:
        try:
            count = self.socket.recv_into(target[:RECEIVE_LIMIT_BYTES])
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST
        if count == 0:
            return main.CONNECTION_DONE
        assert self._received_frame_part is not None
        self._received_frame_part(count)
        return None

    def connectionLost(self, reason: Any) -> None:
        """Release the slices and close. Clear references to the protocol, to free it without garbage collection."""
        release_slices(self._queue)
        self._queue.clear()
        self.queued_size_bytes = 0
        self.on_drained = None
        self._received_frame_part = None
        self._decoder = None
        super().connectionLost(reason)


class FrameServer(FrameTransport, tcp.Server):
    """A connection accepted by a ``FramePort``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._queue = deque()
        tcp.Server.__init__(self, *args, **kwargs)


class FrameClient(FrameTransport, tcp.Client):
    """A connection opened by a ``FrameConnector``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._queue = deque()
        tcp.Client.__init__(self, *args, **kwargs)


class FrameConnector(tcp.Connector):
    def _makeTransport(self) -> tcp.Client:
        return FrameClient(self.host, self.port, self.bindAddress, self, self.reactor)


class FramePort(tcp.Port):
    """A port that listens before it accepts.

    ``accept_limit`` returns how many connections may be accepted now. At 0 the port stops until the next
    ``start_accepting``.
    """

    transport = FrameServer
    accept_limit: Callable[[], int] | None = None
    _accepting = False

    def startListening(self) -> None:
        """Raises CannotListenError, also for a host whose scope cannot be resolved."""
        try:
            super().startListening()
        except UnicodeError as error:
            raise CannotListenError(self.interface, self.port, OSError(str(error))) from error

    def startReading(self) -> None:
        """Does nothing before ``start_accepting``: Twisted calls this when it starts to listen."""
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
