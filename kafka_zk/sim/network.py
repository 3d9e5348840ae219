"""The network of the simulated world: what a broker and a client see of TCP, with its faults.

A connection is two pipes. Each keeps the order of its bytes, takes a random time for each piece, and has room for
WINDOW_BYTES under way; what does not fit waits in the sender's queue, slices of files unread until they leave. Faults:
connections are refused, broken off in the middle of a frame, slow, or silent; a cut stops what goes from one host to
another, which neither side learns, until it heals; the kernel of a killed process closes its connections, a host that
loses power just falls silent. Tests: tests/sim/test_campaign.py.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import (
    CannotListenError,
    ConnectionAborted,
    ConnectionDone,
    ConnectionLost,
    ConnectionRefusedError,
    TimeoutError,
)
from twisted.python.failure import Failure

from kafka_zk.network.memory_pool import MemoryPool
from kafka_zk.network.transport import QUEUE_FULL_BYTES
from kafka_zk.protocol.fetch import Part, Slice
from kafka_zk.protocol.frame import FrameDecoder
from kafka_zk.sim.process import Process
from kafka_zk.sim.scheduler import Scheduler
from kafka_zk.storage.files import files

WINDOW_BYTES = 256 * 1024
PIECE_BYTES = 64 * 1024
_FRAME_SIZE = struct.Struct(">i")
_SMALL_BYTES = PIECE_BYTES - _FRAME_SIZE.size
_DATA = (bytes, bytearray, memoryview)
_EPHEMERAL_PORT = 40_000
Address = tuple[str, int]


class _QueuedSlice:
    """What is still to be sent of a slice; it is held until then."""

    __slots__ = ("file_slice", "position", "remaining_bytes")

    def __init__(self, file_slice: Slice) -> None:
        self.file_slice = file_slice
        self.position = file_slice.position
        self.remaining_bytes = file_slice.size_bytes


class SimTransport:
    """One end of a connection, as ``network.transport.FrameTransport`` is to its protocol."""

    on_drained: Callable[[], None] | None = None

    def __init__(self, network: "SimNetwork", process: Process, here: Address, there: Address) -> None:
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
        self._unread: deque[bytes] = deque()  # received by the kernel
        self._end_of_stream: Exception | None = None  # of what was received
        self._under_way_bytes = 0
        self._under_way: deque[bytes] = deque()
        self._arrives_s = 0.0
        self._stalled: deque[bytes | None] = deque()  # pieces that a cut keeps
        self._finished = False  # the end of the stream is under way

    # -- what protocols call --------------------------------------------------------------------------------------

    def receive_into(
        self, decoder: FrameDecoder, received: Callable[[int], None], pool: MemoryPool | None = None
    ) -> None:
        """Nothing: everything is given to ``dataReceived``."""

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
        """Close it when the queue has left."""
        if self.connected and not self.disconnecting:
            self.disconnecting = True
            self._send_queue()

    def abortConnection(self) -> None:
        """Close it now; the peer sees a reset."""
        if self.connected and not self._finished:
            self._finished = True
            self._stalled.clear()
            self._forget_queue()
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
        """Nothing."""

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """Nothing."""

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", *self.here)

    def getPeer(self) -> IPv4Address:
        return IPv4Address("TCP", *self.there)

    # -- sending --------------------------------------------------------------------------------------------------

    def _send_queue(self) -> None:
        """Put on the way what there is room for."""
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
        """As much of the queue as goes at once; None if a file ends before its slice does."""
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
        """Nothing if it cannot be read."""
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
        """The peer's process has read that much; returns whether that is nothing to this one."""
        self._under_way_bytes -= size_bytes
        return not (self._queue or self.on_drained is not None or self.disconnecting)

    def send_more(self) -> None:
        """There is room for more."""
        has_work = self._queue or self.on_drained is not None or self.disconnecting
        if has_work and self.connected and not self._held:
            self._send_queue()

    # -- receiving ------------------------------------------------------------------------------------------------

    def arrived(self, data: bytes | None) -> None:
        """A piece reaches this host; None is the end of the stream."""
        if not self.connected:
            return
        if data is None:
            self._end_of_stream = self._end_of_stream or ConnectionDone()
        else:
            self._unread.append(data)
        self.process.receive(self._read)

    def reset(self, reason: Exception) -> None:
        """The peer, or the network, broke it off."""
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
        """It is over for this side."""
        if not self.connected:
            return
        self.connected = False
        self._forget_queue()
        self._unread.clear()
        self._network.forget(self)
        self.protocol.connectionLost(Failure(reason))

    def vanish(self) -> None:
        """The process is gone: nobody is told. What awaits an answer here waits for ever."""
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
    """A frame; None if something of it lies in a file."""
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


class SimPort:
    """As ``FramePort``: binds and listens first, accepts from ``start_accepting`` on."""

    accept_limit: Callable[[], int] | None = None

    def __init__(self, network: "SimNetwork", process: Process, address: Address, factory: Any) -> None:
        self._network = network
        self.process = process
        self.address = address
        self._factory = factory
        self._accepting = False
        self._backlog: deque[Callable[[], None]] = deque()

    def startListening(self) -> None:
        if self.address in self._network.ports:
            raise CannotListenError(self.address[0], self.address[1], OSError("in use"))
        self._network.ports[self.address] = self

    def start_accepting(self) -> None:
        self._accepting = True
        self._accept()

    def stopListening(self) -> None:
        self._network.ports.pop(self.address, None)

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", *self.address)

    def take(self, accepted: Callable[[], None]) -> None:
        """A connection is there; the kernel keeps it until the process accepts it."""
        self._backlog.append(accepted)
        self.process.receive(self._accept)

    def _accept(self) -> None:
        while self._backlog and self._accepting:
            if self.accept_limit is not None and self.accept_limit() <= 0:
                self._accepting = False
                return
            self._backlog.popleft()()

    def build(self, address: Address) -> Any:
        return self._factory.buildProtocol(IPv4Address("TCP", *address))


class SimNetwork:
    """All hosts and what connects them.

    Args:
        delay_s: least and greatest time that a piece takes.
        split_probability: that a piece arrives in two.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        random: Random,
        delay_s: tuple[float, float] = (0.00005, 0.001),
        split_probability: float = 0.05,
    ) -> None:
        self._clock = scheduler.clock
        self._random = random
        self.delay_s = delay_s
        self.split_probability = split_probability
        self.ports: dict[Address, SimPort] = {}
        self.transports: dict[SimTransport, None] = {}
        self._lingering: dict[SimTransport, None] = {}  # closed, with something on the way that a cut keeps
        self._cuts: dict[tuple[str, str], None] = {}
        self._slow: dict[str, float] = {}  # host -> so much longer everything from it takes
        self._next_port = _EPHEMERAL_PORT

    # -- doors ----------------------------------------------------------------------------------------------------

    def open_port(self, process: Process) -> Callable[[int, Any, int, str, Any], SimPort]:
        """For ``Machine(open_port=…)``."""

        def port(number: int, factory: Any, backlog: int, host: str, reactor: Any) -> SimPort:
            return SimPort(self, process, (process.name, number or self._free_port()), factory)

        return port

    def connector(self, process: Process) -> Callable[[str, int, Any, float, Any, Any], "_Connecting"]:
        """For ``network.client.connect(connector=…)``."""

        def connector(host: str, port: int, factory: Any, timeout_s: float, bind: Any, reactor: Any) -> _Connecting:
            return _Connecting(self, process, (host, port), factory, timeout_s)

        return connector

    # -- faults ---------------------------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """From now on nothing of what ``source`` sends reaches ``target``."""
        self._cuts[source, target] = None

    def heal(self) -> None:
        """End all cuts: what was lost is sent again; end all slowness."""
        self._cuts.clear()
        self._slow.clear()
        lingering, self._lingering = self._lingering, {}
        for transport in [*self.transports, *lingering]:
            stalled, transport._stalled = transport._stalled, deque()
            for data in stalled:
                self._put_on_way(transport, data)

    def slow_down(self, host: str, delay_s: float) -> None:
        self._slow[host] = delay_s

    def break_off(self, transport: SimTransport) -> None:
        """Both sides lose the connection; of what is under way a part arrives, maybe half a frame."""
        peer = transport.peer
        for end in (transport, peer):
            if end is not None and end.connected:
                if end._under_way and end.peer is not None and end.peer.connected:
                    piece = end._under_way[0]
                    end.peer._unread.append(piece[: self._random.randint(0, len(piece))])
                end.reset(ConnectionLost())

    def killed(self, process: Process) -> None:
        """The kernel closes what a process had open."""
        self._take_away(process, tell=True)

    def lost_power(self, process: Process) -> None:
        """Nobody is told."""
        self._take_away(process, tell=False)

    def _take_away(self, process: Process, *, tell: bool) -> None:
        for address, port in list(self.ports.items()):
            if port.process is process:
                del self.ports[address]
        for transport in [transport for transport in self.transports if transport.process is process]:
            transport.vanish()
            if tell and transport.peer is not None:
                self.later(transport.peer.reset, ConnectionLost())

    # -- inside ---------------------------------------------------------------------------------------------------

    def later(self, call: Callable[..., object], *args: object) -> None:
        """After as long as a piece takes."""
        self._clock.plan(self._random.uniform(*self.delay_s), call, *args)

    def forget(self, transport: SimTransport) -> None:
        """It is closed; what its process had sent the kernel sends again until it arrives."""
        self.transports.pop(transport, None)
        if transport._stalled:
            self._lingering[transport] = None

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def send(self, sender: SimTransport, data: bytes | None) -> None:
        if data is not None and len(data) > 1 and self._random.random() < self.split_probability:
            middle = self._random.randint(1, len(data) - 1)
            self._put_on_way(sender, data[:middle])
            data = data[middle:]
        self._put_on_way(sender, data)

    def _put_on_way(self, sender: SimTransport, data: bytes | None) -> None:
        host = sender.process.name
        if self._cuts and self.is_cut(host, sender.there[0]):
            sender._stalled.append(data)
            return
        now_s = self._clock.rightNow
        least_s, most_s = self.delay_s
        delay_s = least_s + (most_s - least_s) * self._random.random()  # as ``uniform``, without a call
        if self._slow:
            delay_s += self._slow.get(host, 0.0)
        arrives_s = now_s + delay_s
        if arrives_s > sender._arrives_s:
            sender._arrives_s = arrives_s
        if data is not None:
            sender._under_way.append(data)
        self._clock.plan(sender._arrives_s - now_s, self._arrive, sender, data)

    def _arrive(self, sender: SimTransport, data: bytes | None) -> None:
        if data is not None and sender._under_way:
            sender._under_way.popleft()
        peer = sender.peer
        if peer is None:
            return
        if not peer.connected and sender.there in self.ports:
            self.later(sender.reset, ConnectionLost())  # the host is up again, and knows no such connection
        else:
            peer.arrived(data)

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port


class _Connecting:
    """As ``FrameConnector``."""

    def __init__(self, network: SimNetwork, process: Process, there: Address, factory: Any, timeout_s: float) -> None:
        self._network = network
        self._process = process
        self._there = there
        self._factory = factory
        self._timeout_s = timeout_s
        self._timer: Any = None

    def connect(self) -> None:
        self._timer = self._process.callLater(self._timeout_s, self._fail, TimeoutError())
        self._network.later(self._reach)

    def _reach(self) -> None:
        network, here, there = self._network, self._process.name, self._there
        if network.is_cut(here, there[0]) or network.is_cut(there[0], here):
            return  # until the timeout; a handshake that is sent again later is another attempt
        port = network.ports.get(there)
        if port is None:
            network.later(lambda: self._process.receive(lambda: self._fail(ConnectionRefusedError())))
            return
        address = (here, network._free_port())
        ours = SimTransport(network, self._process, address, there)
        theirs = SimTransport(network, port.process, there, address)
        ours.peer, theirs.peer = theirs, ours
        network.later(lambda: self._process.receive(lambda: self._made(ours)))
        port.take(lambda: _accept(network, port, theirs))

    def _made(self, transport: SimTransport) -> None:
        if not self._timer.active():  # it took too long
            self._network.later(_peer_of(transport).reset, ConnectionLost())
            return
        self._timer.cancel()
        self._network.transports[transport] = None
        transport.protocol = self._factory.buildProtocol(transport.getPeer())
        transport.protocol.makeConnection(transport)
        transport._read()

    def _fail(self, reason: Exception) -> None:
        if self._timer.active():
            self._timer.cancel()
        self._factory.clientConnectionFailed(self, Failure(reason))


def _accept(network: SimNetwork, port: SimPort, transport: SimTransport) -> None:
    protocol = port.build(transport.there)
    if protocol is None:
        transport.connected = False
        network.later(_peer_of(transport).reset, ConnectionLost())
        return
    network.transports[transport] = None
    transport.protocol = protocol
    protocol.makeConnection(transport)
    transport._read()


def _peer_of(transport: SimTransport) -> SimTransport:
    assert transport.peer is not None
    return transport.peer
