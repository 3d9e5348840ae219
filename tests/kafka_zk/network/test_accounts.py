"""The memory accounts of connections are consistent after every step, whatever arrives, ends or fails; in the end they
are empty.
"""

import struct
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock

from kafka_zk.base.turns import ClientWait
from kafka_zk.broker.replica.delayed_produce import PassedWait
from kafka_zk.broker.replica.purgatory import Purgatory
from kafka_zk.network.connection_settings import ConnectionSettings
from kafka_zk.network.memory_pool import MemoryPool
from kafka_zk.network.supervised_connection import SupervisedConnection
from kafka_zk.network.transport import QUEUE_FULL_BYTES, RECEIVE_BUFFER_BYTES
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.request import RequestContext, RequestHeader
from tests.kafka_zk.network.server import request

STEPS = 300
MOST_CONNECTIONS = 12


class Wire:
    """A transport whose peer receives responses at random times."""

    host, port = "peer", 1

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._taken_bytes = 0
        self.connection: SupervisedConnection
        self.on_drained: Callable[[], None] | None = None
        self.queued_size_bytes = 0
        self.is_paused = self.is_closing = self.is_lost = False

    def getPeer(self) -> "Wire":
        return self

    getHost = getPeer

    def receive_into(self, *arguments: object) -> None:
        """All data arrive through ``dataReceived``."""

    def pauseProducing(self) -> None:
        self.is_paused = True

    def resumeProducing(self) -> None:
        self.is_paused = False

    def hold(self) -> None:
        """This transport holds nothing back."""

    send_held = hold

    def write_frame(self, parts: list[bytes]) -> None:
        if not self.is_lost and self._random.random() < 0.5:
            self.queued_size_bytes += sum(map(len, parts))

    @property
    def queued_memory_bytes(self) -> int:
        return self.queued_size_bytes

    def taken_bytes(self) -> int:
        return self._taken_bytes

    def drain(self) -> None:
        taken_bytes = self._random.choice([self.queued_size_bytes, self._random.randint(0, self.queued_size_bytes)])
        self.queued_size_bytes -= taken_bytes
        self._taken_bytes += taken_bytes
        if self.on_drained is not None and self.queued_size_bytes <= QUEUE_FULL_BYTES // 2:
            drained, self.on_drained = self.on_drained, None
            drained()
        if self.is_closing and not self.queued_size_bytes:
            self.lose()

    def loseConnection(self) -> None:
        self.is_closing = True
        if not self.queued_size_bytes:
            self._clock.callLater(0, self.lose)

    def abortConnection(self) -> None:
        self.is_closing = True
        self._clock.callLater(0, self.lose)

    def lose(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self.queued_size_bytes = 0
            self.on_drained = None
            self.connection.connectionLost()


class World:
    """A listener's connections without sockets, and handlers that behave at random."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.clock = Clock()
        self.pool = MemoryPool(self.random.choice([100_000, 1_000_000]))
        self.purgatory = Purgatory(self.clock)
        self.waiting: list[Deferred[None]] = []
        self.wires: list[Wire] = []
        self._accounts: list[Any] = []
        self._rests: dict[Wire, bytes] = {}

    def connect(self) -> None:
        wire = Wire(self.clock, self.random)
        settings = ConnectionSettings(self.clock, "PLAINTEXT", self._handle, memory=self.pool)
        wire.connection = SupervisedConnection(settings, 1, lambda connection: self.wires.remove(wire))
        Protocol.makeConnection(wire.connection, wire)
        self.wires.append(wire)
        self._rests[wire] = b""
        self._accounts.append(wire.connection._memory)

    async def _handle(self, context: RequestContext, header: RequestHeader, body: memoryview) -> Any:
        random, memory = self.random, context.memory
        for _ in range(random.randrange(5)):
            size_bytes = random.choice([0, random.randrange(80_000)])
            match random.randrange(8):
                case 0:
                    memory.take(size_bytes)
                case 1:
                    await memory.reserve(size_bytes)
                case 2:
                    await memory.reserve(size_bytes)
                    memory.give_back(random.randint(0, size_bytes))
                case 3:
                    await self.purgatory.wait(["key"], lambda: False, random.choice([10, 10**9]))
                case 4:
                    self.waiting.append(random.choice([Deferred, ClientWait])())
                    await self.waiting[-1]
                case 5:
                    memory.try_take(size_bytes)
                case 6 if random.random() < 0.2:
                    raise ProtocolError("nonsense")
                case 7:
                    memory.release()
        if header.api_key == ApiKey.PRODUCE and random.random() < 0.8:
            del body
            await self.purgatory.wait(["key"], lambda: False, random.choice([10, 10**9]), kind=PassedWait)
        return [struct.pack(">i", header.correlation_id), bytes(random.choice([10, random.randrange(200_000)]))]

    def step(self) -> None:
        random = self.random
        if len(self.wires) < 3 or (random.random() < 0.05 and len(self.wires) < MOST_CONNECTIONS):
            self.connect()
        wire = random.choice(self.wires)
        what = random.random()
        if what < 0.5:
            self._receive(wire)
        elif what < 0.7:
            wire.drain()
        elif what < 0.8 and self.waiting:
            waiting = self.waiting.pop(random.randrange(len(self.waiting)))
            if not waiting.called:
                waiting.callback(None)
        elif what < 0.84:
            wire.lose()
        elif what < 0.9:
            wire.connection.expire_request_early()
            wire.connection.made_progress(random.choice([1, 300_000]))
        elif what < 0.94:
            random.choice([wire.connection.close, wire.connection.abort])()
        self.clock.advance(random.choice([0, 0.001, 0.02]))

    def _receive(self, wire: Wire) -> None:
        """Receive a part of a request, sometimes more than requested, sometimes with the next request behind it."""
        random = self.random
        if wire.is_closing or wire.is_lost or (wire.is_paused and random.random() > 0.05):
            return
        size_bytes = random.choice([10, 3000, random.randrange(300_000)])
        data = self._rests[wire] or request(1, bytes(size_bytes), api_key=random.choice([0, 0, 3, 3, 6]))
        count = random.randint(1, min(len(data), RECEIVE_BUFFER_BYTES))
        self._rests[wire] = data[count:]
        following = request(2, api_key=random.choice([0, 3])) if count == len(data) and random.random() < 0.2 else b""
        wire.connection.dataReceived(data[:count] + following)

    def check(self) -> None:
        pool = self.pool
        assert all(each.size_bytes >= each.overdraft_bytes >= 0 for each in self._accounts)
        assert pool.used_bytes == sum(each.size_bytes - each.overdraft_bytes for each in self._accounts)
        assert pool.overdraft_bytes == sum(each.overdraft_bytes for each in self._accounts)
        holder = pool._overdrawn
        assert holder is not None or not pool.is_waited_for, "an account waits, but none may exceed the budget"
        assert holder is None or holder.size_bytes or holder._asks, "an account that needs nothing keeps others waiting"

    def end(self) -> None:
        for wire in list(self.wires):
            wire.lose()
        while self.waiting or self.purgatory.count:
            waiting, self.waiting = self.waiting, []
            for each in waiting:
                if not each.called:
                    each.callback(None)
            self.purgatory.abandon_all()
            self.clock.advance(1)


@pytest.mark.parametrize("seed", range(60))
def test_accounts_add_up(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
        world.check()
    world.end()
    world.check()
    assert (world.pool.used_bytes, world.pool.overdraft_bytes, world.pool.is_waited_for) == (0, 0, False)
