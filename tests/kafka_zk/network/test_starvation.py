"""Clients that hold on to their memory: other requests wait for it no longer than a few checks of the listener."""

import gc
import socket
import struct
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.base.turns import ClientWait
from kafka_zk.broker.replica.purgatory import Purgatory
from kafka_zk.network import listener as listener_module
from kafka_zk.network.memory_pool import MemoryPool
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.request import RequestContext, RequestHeader
from tests.kafka_zk.network.harness import LocalReactor, is_closed, receive_all
from tests.kafka_zk.network.server import Server, answer, request

pytestmark = pytest.mark.slow

MakeServer = Callable[..., "AskingServer"]

LIMIT_BYTES = 1_000_000
A_MONTH_MS = 2**31 - 1


class AskingServer(Server):
    """A server whose ``handle`` is a coroutine that also receives the context."""

    handle: Callable[[RequestContext, RequestHeader, bytes], Any]

    async def dispatch(self, context: RequestContext, header: RequestHeader, body: memoryview) -> Any:
        return await self.handle(context, header, bytes(body))


@pytest.fixture
def make_asking_server(reactor: LocalReactor, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeServer]:
    monkeypatch.setattr(listener_module, "STALLED_S", 0.2)
    servers: list[AskingServer] = []

    def make(**options: Any) -> AskingServer:
        servers.append(AskingServer(reactor, **options))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


async def echo(context: RequestContext, header: RequestHeader, body: bytes) -> Any:
    return [struct.pack(">i", header.correlation_id)]


def test_who_needs_no_memory_does_not_take_the_place_of_one_who_does(
    reactor: LocalReactor, make_asking_server: MakeServer
) -> None:
    """A handler that requests zero bytes while all memory is used must not become the account over the budget, which
    only the end of its connection would change.
    """
    pool = MemoryPool(LIMIT_BYTES)
    server = make_asking_server(memory=pool)

    async def handle(context: RequestContext, header: RequestHeader, body: bytes) -> Any:
        if header.correlation_id == 1:
            await context.memory.reserve(0)
        return [struct.pack(">i", header.correlation_id)]

    server.handle = handle
    holder = pool.account()
    holder.take(LIMIT_BYTES + 1)
    asks_for_nothing, big = server.connect(), server.connect()
    asks_for_nothing.sendall(request(1))
    assert receive_all(reactor, asks_for_nothing, 8) == answer(1)
    big.sendall(request(2, bytes(100_000)))
    assert receive_all(reactor, big, 8) == answer(2)
    holder.close()
    assert pool.used_bytes == 0


def test_a_request_that_waits_for_something_to_happen_ends_when_others_need_its_memory(
    reactor: LocalReactor, make_asking_server: MakeServer
) -> None:
    """If it did not end, a few big fetches that wait for a month would hold more than the whole budget for a month."""
    pool = MemoryPool(LIMIT_BYTES)
    server = make_asking_server(memory=pool)
    purgatory = Purgatory(reactor)

    async def handle(context: RequestContext, header: RequestHeader, body: bytes) -> Any:
        if header.correlation_id == 1:
            await purgatory.wait(["key"], lambda: False, A_MONTH_MS)
        return [struct.pack(">i", header.correlation_id)]

    server.handle = handle
    waiting = [server.connect() for _ in range(6)]
    small = server.connect()
    small.sendall(request(1))
    data = request(1, bytes(240_000))
    for peer in waiting:
        peer.setblocking(False)
        sent = 0
        for _ in range(100):
            if sent < len(data):
                with suppress(BlockingIOError):
                    sent += peer.send(data[sent:])
            reactor.turn(0)
    assert purgatory.count > 3
    honest = server.connect()
    honest.sendall(request(2, bytes(100_000)))
    assert receive_all(reactor, honest, 8) == answer(2)
    small.setblocking(False)
    with pytest.raises(BlockingIOError):
        small.recv(1)  # a request that holds no memory continues to wait

    def all_end() -> bool:
        purgatory.abandon_all()
        return not pool.used_bytes

    reactor.until(all_end)


def _answers(context: RequestContext, size_bytes: int, correlation_id: int) -> list[bytes]:
    context.memory.take(size_bytes)
    return [struct.pack(">i", correlation_id), bytes(size_bytes)]


def _small_window(server: Server) -> socket.socket:
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.settimeout(5)
    before = len(server.listener.connections)
    peer.connect(("127.0.0.1", server.port))
    server.peers.append(peer)
    server.reactor.until(lambda: len(server.listener.connections) > before)
    return peer


def test_a_peer_that_does_not_take_its_answer_is_given_up_when_others_need_the_memory(
    reactor: LocalReactor, make_asking_server: MakeServer, warnings: list[str]
) -> None:
    pool = MemoryPool(20_000_000)
    server = make_asking_server(memory=pool)

    async def handle(context: RequestContext, header: RequestHeader, body: bytes) -> Any:
        if header.correlation_id == 1:
            return _answers(context, 15_000_000, 1)
        return [struct.pack(">i", header.correlation_id)]

    server.handle = handle
    mute, other = _small_window(server), _small_window(server)
    for peer in (mute, other):
        peer.sendall(request(1))
    reactor.until(lambda: pool.used_bytes >= 20_000_000)
    assert len(server.listener.connections) == 2
    overdrawn = pool.account()
    overdrawn.when_taken(1, lambda: None)
    honest = server.connect()
    honest.sendall(request(2, bytes(100_000)))
    assert receive_all(reactor, honest, 8) == answer(2)
    overdrawn.close()
    reactor.until(lambda: not pool.used_bytes)
    assert len(warnings) == 2
    assert all("read its response" in line and " closed: " in line for line in warnings)
    assert is_closed(mute)


def test_a_peer_that_takes_its_answer_slowly_is_not_idle(
    reactor: LocalReactor, make_asking_server: MakeServer
) -> None:
    """Such a peer causes no event until it has received almost everything."""
    server = make_asking_server(max_idle_ms=300)

    async def handle(context: RequestContext, header: RequestHeader, body: bytes) -> Any:
        return _answers(context, 15_000_000, 1)

    server.handle = handle
    peer = _small_window(server)
    peer.sendall(request(1))
    peer.setblocking(False)
    end_s = reactor.seconds() + 1.5
    taken = 0
    while reactor.seconds() < end_s:
        with suppress(BlockingIOError):
            taken += len(peer.recv(4096))
        reactor.turn()
    assert 0 < taken < 15_000_000
    assert len(server.listener.connections) == 1


def test_a_refused_request_is_free_whatever_its_peer_has_not_read(
    reactor: LocalReactor, make_asking_server: MakeServer
) -> None:
    """The connection stays until the earlier responses are received, or until it is idle."""
    pool = MemoryPool(20_000_000)
    server = make_asking_server(memory=pool)

    async def handle(context: RequestContext, header: RequestHeader, body: bytes) -> Any:
        if header.correlation_id == 1:
            return [struct.pack(">i", 1), bytes(200_000)]
        raise ProtocolError("nonsense")

    server.handle = handle
    peer = _small_window(server)
    (connection,) = server.listener.connections
    transport: Any = connection.transport
    while not transport.queued_size_bytes:
        peer.sendall(request(1))
        for _ in range(20):
            reactor.turn()
    data = request(2, bytes(10_000_000))
    peer.setblocking(False)
    position = 0

    def send_on() -> bool:
        nonlocal position
        with suppress(BlockingIOError, ConnectionError):
            position += peer.send(data[position:])
        return position == len(data)

    reactor.until(send_on)
    reactor.until(lambda: pool.used_bytes < 1_000_000)
    assert len(server.listener.connections) == 1, "the connection stays until its responses are received"


def test_requests_that_come_one_after_the_other_are_not_slow(
    reactor: LocalReactor, make_asking_server: MakeServer
) -> None:
    """At each check of the listener, a request is half received, but each time it is a different one."""
    pool = MemoryPool(LIMIT_BYTES)
    server = make_asking_server(memory=pool)
    server.handle = echo
    peer = server.connect()
    data = request(1, bytes(20_000))
    (connection,) = server.listener.connections
    peer.sendall(data[:10_000])
    reactor.until(lambda: connection.is_stalled)
    connection.made_progress(least_bytes=300_000)
    for count in (10_100, 10_200, 10_300):
        peer.sendall(data[count - 100 :])
        assert receive_all(reactor, peer, 8) == answer(1)
        peer.sendall(data[:count])
        reactor.until(lambda: connection.is_stalled)
        assert connection.made_progress(least_bytes=300_000)


def test_a_handler_whose_client_went_meanwhile_waits_for_nothing_more(
    reactor: LocalReactor, make_asking_server: MakeServer
) -> None:
    """The handler learns of the disconnect only after its first wait, which other requests share."""
    server = make_asking_server()
    zookeeper: Deferred[None] = Deferred()
    purgatory = Purgatory(reactor)
    ended: list[bool] = []

    async def handle(context: RequestContext, header: RequestHeader, body: bytes) -> Any:
        await zookeeper
        ended.append(await purgatory.wait(["key"], lambda: False, A_MONTH_MS))
        return [b"answer"]

    server.handle = handle
    peer = server.connect()
    peer.sendall(request(1))
    reactor.until(lambda: server.listener.connections[0].is_busy)
    server.peers.remove(peer)
    peer.close()
    reactor.until(lambda: not server.listener.connections)
    zookeeper.callback(None)
    assert ended == [False]
    assert purgatory.count == 0


class _Big(bytearray):
    """Bytes that support weak references."""


def test_what_a_request_held_is_free_when_its_client_is_gone(
    reactor: LocalReactor, make_asking_server: MakeServer
) -> None:
    """The memory is released immediately; the garbage collector may run much later."""
    server = make_asking_server()
    held: list[weakref.ref[_Big]] = []

    async def handle(context: RequestContext, header: RequestHeader, body: bytes) -> Any:
        big = _Big(1000)
        held.append(weakref.ref(big))
        await ClientWait()
        return [bytes(big)]

    server.handle = handle
    peer = server.connect()
    peer.sendall(request(1))
    reactor.until(lambda: held)
    gc.collect()
    gc.disable()
    try:
        server.peers.remove(peer)
        peer.close()
        reactor.until(lambda: not server.listener.connections)
        reactor.turn()
        assert held[0]() is None
    finally:
        gc.enable()


def test_a_frame_that_goes_on_while_it_waits_for_memory_is_not_damaged(
    reactor: LocalReactor, make_asking_server: MakeServer
) -> None:
    """A transport may have read more than it was asked for, as that of TLS does."""
    pool = MemoryPool(LIMIT_BYTES)
    server = make_asking_server(memory=pool)
    bodies: list[bytes] = []

    async def handle(context: RequestContext, header: RequestHeader, body: bytes) -> Any:
        bodies.append(body)
        return [struct.pack(">i", header.correlation_id)]

    server.handle = handle
    holder = pool.account()
    holder.take(LIMIT_BYTES)
    other = pool.account()
    other.when_taken(1, lambda: None)  # this one exceeds the budget
    server.connect()
    (connection,) = server.listener.connections
    sent = bytes(range(256)) * 400
    data = request(1, sent)
    for start in range(0, len(data), 30_000):
        connection.dataReceived(data[start : start + 30_000])
    other.settle()
    holder.close()
    reactor.until(lambda: bodies)
    for _ in range(5):
        reactor.turn()
    connection.dataReceived(request(2, b"next"))
    assert bodies == [sent, b"next"]
    assert len(server.listener.connections) == 1
    other.close()
    assert pool.used_bytes == 0


@pytest.mark.parametrize("size_bytes", [100, 60_000])
def test_what_a_brokers_request_becomes_may_use_the_reserve(
    reactor: LocalReactor, make_asking_server: MakeServer, size_bytes: int
) -> None:
    """The broker's request may use the reserve even if it arrived in one piece, so that its frame never waited."""
    pool = MemoryPool(1_200_000)
    server = make_asking_server(memory=pool)

    async def handle(context: RequestContext, header: RequestHeader, body: bytes) -> Any:
        await context.memory.reserve(50_000)
        return [struct.pack(">i", header.correlation_id)]

    server.handle = handle
    holder, overdrawn = pool.account(), pool.account()
    holder.take(1_199_000)
    overdrawn.when_taken(10_000, lambda: None)
    broker, client = server.connect(), server.connect()
    client.sendall(request(1, bytes(100)))
    broker.sendall(request(1, bytes(size_bytes), api_key=6))
    assert receive_all(reactor, broker, 8) == answer(1)
    client.setblocking(False)
    with pytest.raises(BlockingIOError):
        client.recv(1)
    holder.close()
    overdrawn.close()


def test_answers_that_are_not_taken_count_until_they_are(
    reactor: LocalReactor, make_asking_server: MakeServer, warnings: list[str]
) -> None:
    """Even responses that do not fill the queue count, because thousands of connections could have one each."""
    pool = MemoryPool(20_000_000)
    server = make_asking_server(memory=pool)

    async def handle(context: RequestContext, header: RequestHeader, body: bytes) -> Any:
        return _answers(context, 100_000, 1)

    server.handle = handle
    peers = [_small_window(server) for _ in range(3)]
    queues: list[Any] = [each.transport for each in server.listener.connections]
    for peer, queue in zip(peers, queues, strict=True):
        while queue.queued_size_bytes < 50_000:
            peer.sendall(request(1))
            for _ in range(20):
                reactor.turn()
    queued_bytes = sum(queue.queued_size_bytes for queue in queues)
    assert queued_bytes < 3 * 256 * 1024
    assert queued_bytes - 30 <= pool.used_bytes <= queued_bytes
    assert not warnings
    pool.account().take(20_000_000)
    for _ in range(2):
        pool.account().when_taken(100_000, lambda: None)
    reader = peers.pop()
    reader.settimeout(0.001)

    def read() -> bool:
        with suppress(OSError):
            reader.recv(100_000)
        return len(server.listener.connections) == 1

    reactor.until(read, 10)
    assert len(warnings) == 2
    reactor.until(lambda: read() and pool.used_bytes == 20_000_000)
