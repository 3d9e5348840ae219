"""While Produce requests wait for replication, the next Produce may begin; responses keep the order of requests."""

import struct
from random import Random
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock

from kafka_zk.base.turns import ClientWait
from kafka_zk.broker.replica.purgatory import Purgatory, Wait
from kafka_zk.network.connection_settings import ConnectionSettings
from kafka_zk.network.in_flight import MAX_REQUESTS, Response
from kafka_zk.network.memory_pool import FREE_BYTES, MemoryPool
from kafka_zk.network.supervised_connection import SupervisedConnection
from kafka_zk.network.transport import QUEUE_FULL_BYTES
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.request import RequestContext, RequestHeader
from tests.kafka_zk.network.harness import LocalReactor, receive_all
from tests.kafka_zk.network.server import Server, answer, request

KEPT_BYTES = 5000


class Replication(ClientWait[Response]):
    """The wait of a Produce request after its append."""

    is_abandoned = False

    @property
    def kept_bytes(self) -> int:
        return KEPT_BYTES

    def abandon(self) -> None:
        self.is_abandoned = True
        self.callback(None)


class Wire:
    """A transport that records what was sent; ``takes``: whether its peer reads."""

    host, port = "peer", 1

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.takes = True
        self.queued_size_bytes = 0
        self.on_drained: Any = None
        self.is_paused = self.is_closed = False

    def getPeer(self) -> "Wire":
        return self

    getHost = getPeer

    def write_frame(self, parts: list[bytes]) -> None:
        if self.is_closed:
            return
        self.sent.append(struct.unpack(">i", parts[0][:4])[0])
        if not self.takes:
            self.queued_size_bytes += sum(map(len, parts))

    @property
    def queued_memory_bytes(self) -> int:
        return self.queued_size_bytes

    def taken_bytes(self) -> int:
        return 0

    def receive_into(self, *arguments: object) -> None:
        """All data arrive through ``dataReceived``."""

    def pauseProducing(self) -> None:
        self.is_paused = True

    def resumeProducing(self) -> None:
        self.is_paused = False

    def hold(self) -> None:
        """This transport sends nothing later."""

    send_held = hold

    def loseConnection(self) -> None:
        self.is_closed = True

    abortConnection = loseConnection


class World:
    """One connection. A Produce request waits until the test completes it; any other request completes immediately
    unless ``others_wait``.
    """

    def __init__(self) -> None:
        self.pool = MemoryPool()
        self.wire = Wire()
        self.begun: list[int] = []
        self.waiting: dict[int, Deferred[Response]] = {}
        self.others_wait = False
        self.refused: set[int] = set()
        self.clock = Clock()
        self.mute_ms: dict[int, int] = {}
        settings = ConnectionSettings(
            self.clock, "PLAINTEXT", self._dispatch, memory=self.pool, on_response=self._answered
        )
        self.connection = SupervisedConnection(settings, 1, lambda connection: None)
        Protocol.makeConnection(self.connection, self.wire)

    def _answered(self, context: RequestContext, header: RequestHeader, response: Response) -> int:
        return self.mute_ms.get(header.correlation_id, 0)

    async def _dispatch(self, context: RequestContext, header: RequestHeader, body: memoryview) -> Response:
        number = header.correlation_id
        self.begun.append(number)
        del body
        if number in self.refused:
            raise ProtocolError("acks=0, and nobody could append it")
        if header.api_key == ApiKey.PRODUCE:
            self.waiting[number] = Replication()
        elif self.others_wait:
            self.waiting[number] = Deferred()
        if number in self.waiting:
            await self.waiting[number]
        return [struct.pack(">i", number)]

    def send(self, *numbers: int, api_key: int = ApiKey.PRODUCE, size_bytes: int = 10) -> None:
        self.connection.dataReceived(b"".join(request(each, bytes(size_bytes), api_key=api_key) for each in numbers))

    def finish(self, *numbers: int) -> None:
        for number in numbers:
            self.waiting.pop(number).callback(None)


@pytest.fixture
def world() -> World:
    return World()


def test_the_next_produce_request_begins_while_the_one_before_waits(world: World) -> None:
    world.send(1, 2)
    world.send(3)
    assert (world.begun, world.wire.sent) == ([1, 2, 3], [])
    world.finish(2, 3)
    assert world.wire.sent == []
    world.finish(1)
    assert world.wire.sent == [1, 2, 3]


def test_other_requests_wait_for_their_turn_and_let_nobody_pass(world: World) -> None:
    """A Fetch may want the records of the Produce before it."""
    world.others_wait = True
    world.send(1)
    world.send(2, api_key=ApiKey.FETCH)
    world.send(3, 4)
    assert world.begun == [1] and world.wire.is_paused
    world.finish(1)
    assert (world.begun, world.wire.sent) == ([1, 2], [1])
    world.finish(2)
    assert (world.begun, world.wire.sent) == ([1, 2, 3, 4], [1, 2])
    assert not world.wire.is_paused


def test_only_so_many_are_in_flight(world: World) -> None:
    numbers = range(1, 2 * MAX_REQUESTS + 1)
    world.send(*numbers)
    assert world.begun == list(numbers[:MAX_REQUESTS]) and world.wire.is_paused
    world.finish(2)
    assert len(world.begun) == MAX_REQUESTS  # the response to the earlier request is not ready
    world.finish(1)
    assert world.begun == list(numbers[: MAX_REQUESTS + 2]) and world.wire.sent == [1, 2]


def test_a_refused_request_ends_the_connection_in_its_turn(world: World) -> None:
    """The earlier requests get their responses; no later request begins, even one from the same read."""
    world.refused = {3}
    world.send(1, 2, 3, 4)
    assert world.begun == [1, 2, 3]
    assert not world.wire.is_closed
    world.finish(2)
    world.send(5)
    assert world.begun == [1, 2, 3]
    world.finish(1)
    assert world.wire.sent == [1, 2] and world.wire.is_closed


def test_a_request_that_fails_while_it_is_in_flight_ends_the_connection_in_its_turn(world: World) -> None:
    world.send(1, 2, 3)
    world.waiting.pop(2).errback(ProtocolError("no"))
    world.send(4)
    world.finish(3)
    assert world.begun == [1, 2, 3] and not world.wire.is_closed
    world.finish(1)
    assert world.wire.sent == [1] and world.wire.is_closed


def test_a_lost_connection_ends_all_waits_and_holds_nothing(world: World) -> None:
    world.send(1, 2, 3, size_bytes=10 * FREE_BYTES)
    waits = list(world.waiting.values())
    assert world.pool.used_bytes == 3 * KEPT_BYTES
    world.connection.connectionLost()
    assert [getattr(each, "is_abandoned", False) for each in waits] == [True] * 3
    assert (world.pool.used_bytes, world.wire.sent, world.connection.is_busy) == (0, [], False)


def test_a_connection_that_is_closed_drops_the_answers(world: World) -> None:
    """The broker's shutdown does this with requests that do not complete in time."""
    world.send(1, 2)
    world.connection.close()
    world.finish(2, 1)
    world.connection.connectionLost()
    assert (world.pool.used_bytes, world.wire.sent) == (0, [])


def test_requests_in_flight_hold_no_frames(world: World) -> None:
    """A frame's memory is released when its records are appended, even while the next frame is being received."""
    world.send(1, size_bytes=30 * FREE_BYTES)
    assert world.pool.used_bytes == KEPT_BYTES
    rest = request(2, bytes(30 * FREE_BYTES), api_key=ApiKey.PRODUCE)
    world.connection.dataReceived(rest[:50_000])
    assert world.pool.used_bytes > KEPT_BYTES + 50_000
    world.finish(1)
    world.connection.dataReceived(rest[50_000:])
    assert world.pool.used_bytes == KEPT_BYTES
    world.finish(2)
    assert world.pool.used_bytes == 0 and world.wire.sent == [1, 2]


def test_a_connection_with_requests_in_flight_is_not_idle(world: World) -> None:
    world.send(1)
    world.connection.made_progress(1)
    assert world.connection.made_progress(1) and world.connection.is_busy
    world.finish(1)
    world.connection.made_progress(1)
    assert not world.connection.made_progress(1)


def test_a_client_that_reads_nothing_does_not_begin_more(world: World) -> None:
    world.wire.takes = False
    world.send(1, 2)
    world.wire.queued_size_bytes = QUEUE_FULL_BYTES + 1
    world.finish(1)
    world.send(3, 4)
    assert world.begun == [1, 2] and world.wire.is_paused
    world.finish(2)
    assert world.wire.sent == [1, 2]
    world.wire.queued_size_bytes = 0
    world.wire.on_drained()
    assert world.begun == [1, 2, 3, 4]


def test_a_client_that_is_gone_leaves_no_wait_in_the_purgatory(reactor: LocalReactor, server: Server) -> None:
    """This test uses a real socket."""
    purgatory = Purgatory(reactor)

    class Passed(Wait):
        kept_bytes = KEPT_BYTES

    server.handler = lambda header, body: purgatory.wait([header.correlation_id], lambda: False, 10**6, kind=Passed)
    peer = server.connect()
    peer.sendall(b"".join(request(number, api_key=ApiKey.PRODUCE) for number in range(4)))
    reactor.until(lambda: purgatory.count == 4)
    server.peers.remove(peer)
    peer.close()
    reactor.until(lambda: not purgatory.count)


def test_answers_that_are_ready_at_once_leave_in_order(reactor: LocalReactor, server: Server) -> None:
    waiting: list[Replication] = []

    def handle(header: RequestHeader, body: bytes) -> Any:
        if header.correlation_id % 2:
            return [struct.pack(">i", header.correlation_id)]
        waiting.append(Replication())
        return waiting[-1]

    server.handler = handle
    peer = server.connect()
    peer.sendall(b"".join(request(number, api_key=ApiKey.PRODUCE) for number in range(4)))
    reactor.until(lambda: len(server.handled) == 4)
    waiting[1].callback([struct.pack(">i", 2)])
    waiting[0].callback([struct.pack(">i", 0)])
    expected = b"".join(answer(number) for number in range(4))
    assert receive_all(reactor, peer, len(expected)) == expected


@pytest.mark.parametrize("seed", range(100))
def test_whatever_ends_first_requests_begin_and_are_answered_in_order(seed: int, world: World) -> None:
    random = Random(seed)
    world.others_wait = True
    apis: list[int] = []
    count = 60
    while len(world.wire.sent) < count:
        if random.random() < 0.5 and len(apis) < count and not world.wire.is_paused:
            number = len(apis)
            apis.append(random.choice([ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.FETCH]))
            size_bytes = random.choice([10, 10, 3 * FREE_BYTES])
            world.send(number, api_key=apis[-1], size_bytes=size_bytes)
        elif world.waiting:
            world.finish(random.choice(list(world.waiting)))
        assert world.begun == list(range(len(world.begun)))
        assert world.wire.sent == list(range(len(world.wire.sent)))
        open_apis = apis[len(world.wire.sent) : len(world.begun)]
        assert len(open_apis) <= MAX_REQUESTS
        assert all(api == ApiKey.PRODUCE for api in open_apis) or len(open_apis) == 1
    assert world.pool.used_bytes == 0


def test_a_peer_stays_muted_for_the_longest_time_that_an_answer_says() -> None:
    world = World()
    world.mute_ms = {0: 1000, 1: 200}
    world.send(0, 1)
    world.finish(0, 1)
    world.clock.advance(0.5)
    world.send(2)
    assert world.begun == [0, 1]
    world.clock.advance(0.5)
    assert world.begun == [0, 1, 2]
