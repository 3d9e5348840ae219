"""The network of the simulated world: TCP for brokers and clients, with faults.

A connection consists of two pipes (``sim_transport``). Each pipe preserves the order of its bytes, takes a random time
per piece, and has at most ``WINDOW_BYTES`` in transit; the rest waits in the sender's queue. Faults: connections are
refused, broken in the middle of a frame, slow, or silent. A cut delays the data from one host to another until it
heals; neither side is notified. The kernel of a killed process closes its connections; a host that loses power falls
silent.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import (
    CannotListenError,
    ConnectionLost,
    ConnectionRefusedError,
    TimeoutError,
)
from twisted.python.failure import Failure

from kafka_zk.sim.machine.process import Process
from kafka_zk.sim.machine.scheduler import Scheduler
from kafka_zk.sim.machine.sim_transport import Address, SimTransport

_EPHEMERAL_PORT = 40_000
_DELAY_S = (0.00005, 0.001)
"""Minimum and maximum transit time of a piece."""
_SPLIT_PROBABILITY = 0.05
"""The probability that a piece arrives in two parts."""


class SimPort:
    """Like ``FramePort``: binds and listens first, and accepts after ``start_accepting``."""

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
        """Queue an incoming connection, which waits in the kernel until the process accepts it."""
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
    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self._clock = scheduler.clock
        self._random = random
        self.ports: dict[Address, SimPort] = {}
        self.transports: dict[SimTransport, None] = {}
        self._lingering: dict[SimTransport, None] = {}  # closed connections with pieces that a cut delays
        self._cuts: dict[tuple[str, str], None] = {}
        self._slow: dict[str, float] = {}  # host -> additional delay of all its data
        self._next_port = _EPHEMERAL_PORT

    # -- interfaces of the product --------------------------------------------------------------------------------

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
        """Everything that ``source`` sends to ``target`` is delayed from now on."""
        self._cuts[source, target] = None

    def hold_back(self, source: str, target: str) -> None:
        """Everything that ``source`` sends to ``target`` on existing connections is delayed; new connections work."""
        for transport in self.transports:
            if transport.process.name == source and transport.there[0] == target:
                transport.is_held_back = True

    def heal(self) -> None:
        """Cuts and delays end; the delayed data are sent."""
        self._cuts.clear()
        self._slow.clear()
        lingering, self._lingering = self._lingering, {}
        for transport in [*self.transports, *lingering]:
            transport.is_held_back = False
            stalled, transport._stalled = transport._stalled, deque()
            for data in stalled:
                self._put_on_way(transport, data)

    def slow_down(self, host: str, delay_s: float) -> None:
        self._slow[host] = delay_s

    def break_off(self, transport: SimTransport) -> None:
        """Reset both sides; a random part of the first piece in transit still arrives, perhaps half a frame."""
        peer = transport.peer
        for end in (transport, peer):
            if end is not None and end.connected:
                if end._under_way and end.peer is not None and end.peer.connected:
                    piece = end._under_way[0]
                    end.peer._unread.append(piece[: self._random.randint(0, len(piece))])
                end.reset(ConnectionLost())

    def killed(self, process: Process) -> None:
        """The kernel closes the connections and ports."""
        self._take_away(process, tell=True)

    def lost_power(self, process: Process) -> None:
        """The process's connections and ports vanish; its peers are not notified."""
        self._take_away(process, tell=False)

    def _take_away(self, process: Process, *, tell: bool) -> None:
        for address, port in list(self.ports.items()):
            if port.process is process:
                del self.ports[address]
        for transport in [transport for transport in self.transports if transport.process is process]:
            transport.vanish()
            if tell and transport.peer is not None:
                self.later(transport.peer.reset, ConnectionLost())

    # -- internals ------------------------------------------------------------------------------------------------

    def later(self, call: Callable[..., object], *args: object) -> None:
        """Call after the time that a piece takes."""
        self._clock.plan(self._random.uniform(*_DELAY_S), call, *args)

    def forget(self, transport: SimTransport) -> None:
        """Forget a closed connection; its delayed pieces are still delivered later."""
        self.transports.pop(transport, None)
        if transport._stalled:
            self._lingering[transport] = None

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def send(self, sender: SimTransport, data: bytes | None) -> None:
        if data is not None and len(data) > 1 and self._random.random() < _SPLIT_PROBABILITY:
            middle = self._random.randint(1, len(data) - 1)
            self._put_on_way(sender, data[:middle])
            data = data[middle:]
        self._put_on_way(sender, data)

    def _put_on_way(self, sender: SimTransport, data: bytes | None) -> None:
        host = sender.process.name
        if sender.is_held_back or (self._cuts and self.is_cut(host, sender.there[0])):
            sender._stalled.append(data)
            return
        now_s = self._clock.rightNow
        least_s, most_s = _DELAY_S
        delay_s = least_s + (most_s - least_s) * self._random.random()  # equals ``uniform``, but saves a call
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
            self.later(sender.reset, ConnectionLost())  # the host was restarted and does not know the connection
        else:
            peer.arrived(data)

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port


class _Connecting:
    """Like ``FrameConnector``."""

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
            return  # lets the attempt time out, because a repeated handshake would be a new attempt
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
        if not self._timer.active():  # timed out already
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
