"""Listeners: which connections they accept and refuse, and how connections end."""

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall

from kafka_zk.base import turns
from kafka_zk.base.rate import QuotaWindow
from kafka_zk.broker.config.kafka_config import parse_connections_override
from kafka_zk.network import listener as listener_module
from kafka_zk.network.connection_quotas import ConnectionQuotas, descriptors_for_connections
from kafka_zk.network.connection_rates import ConnectionRates
from kafka_zk.network.connection_settings import ConnectionSettings
from kafka_zk.network.in_flight import Response
from kafka_zk.network.listener import Listener, ListenerSettings
from kafka_zk.network.memory_pool import MemoryPool
from kafka_zk.network.supervised_connection import SupervisedConnection
from kafka_zk.protocol.request import RequestContext, RequestHeader
from tests.kafka_zk.network.harness import LocalReactor, is_closed, receive_all
from tests.kafka_zk.network.server import Server, answer, request

DRIP_S = 0.01


def drip(reactor: LocalReactor, peer: socket.socket) -> LoopingCall:
    """Send a byte of a request every DRIP_S, until the call is stopped or the connection closed."""
    dripping = LoopingCall(peer.send, bytes(1))
    dripping.clock = cast(IReactorTime, reactor)
    dripping.start(DRIP_S).addErrback(lambda failure: failure.trap(OSError))
    return dripping


def test_an_address_above_its_limit_is_refused(reactor: LocalReactor, make_server: Callable[..., Server]) -> None:
    server = make_server(quotas=ConnectionQuotas(max_connections_per_ip=1))
    first = server.connect()
    second = server.connect(accepted=False)
    reactor.until(lambda: is_closed(second))
    first.close()
    reactor.until(lambda: not server.listener.connections)
    third = server.connect()
    third.sendall(request(1))
    assert receive_all(reactor, third, 8) == answer(1)


def test_a_full_broker_accepts_again_when_a_connection_ends(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    """With max.connections, the next connection waits; it is not refused."""
    server = make_server(quotas=ConnectionQuotas(max_connections=1))
    first = server.connect()
    second = server.connect(accepted=False)
    second.sendall(request(2))
    for _ in range(10):
        reactor.turn(0)
    assert len(server.listener.connections) == 1
    assert not is_closed(second)
    first.close()
    assert receive_all(reactor, second, 8) == answer(2)


def test_a_full_listener_accepts_again_when_one_of_its_connections_ends(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    """The limit is listener.name.<listener>.max.connections, which applies even to a listener for brokers."""
    server = make_server(max_connections=1, inter_broker=True)
    first = server.connect()
    second = server.connect(accepted=False)
    second.sendall(request(2))
    for _ in range(10):
        reactor.turn(0)
    assert len(server.listener.connections) == 1
    first.close()
    assert receive_all(reactor, second, 8) == answer(2)


def test_a_full_listener_accepts_again_when_its_limit_is_raised(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    server = make_server(max_connections=5)
    server.connect()
    server.listener.limit(1)
    second = server.connect(accepted=False)
    second.sendall(request(2))
    for _ in range(10):
        reactor.turn(0)
    assert len(server.listener.connections) == 1
    server.listener.limit(2)
    assert receive_all(reactor, second, 8) == answer(2)


def test_a_listener_above_its_rate_accepts_nobody_for_a_while(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    """With max.connection.creation.rate, the next connection waits; it is not refused."""
    rates = ConnectionRates(QuotaWindow(2, 200))
    rates.set_limits(10, {})
    server = make_server(quotas=ConnectionQuotas(rates=rates))
    for _ in range(3):
        server.connect()
    late = server.connect(accepted=False)
    late.sendall(request(2))
    for _ in range(10):
        reactor.turn(0)
    assert len(server.listener.connections) == 3
    assert receive_all(reactor, late, 8) == answer(2)


def test_an_address_above_its_rate_is_held_and_closed(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    """The listener does not read the connection's data in the meantime, nor count it as a connection of the broker."""
    rates = ConnectionRates(QuotaWindow(2, 100))
    rates.set_address_limit("127.0.0.1", 10)
    server = make_server(quotas=ConnectionQuotas(rates=rates))
    server.connect()
    held = server.connect(accepted=False)
    held.sendall(request(2))
    reactor.until(lambda: server.quotas.held_count == 1)
    assert not is_closed(held)
    assert server.quotas.count == 1
    reactor.until(lambda: is_closed(held))
    assert server.quotas.held_count == 0
    assert server.handled == []


def test_idle_connections_are_closed_and_busy_ones_are_not(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    server = make_server(max_idle_ms=100)
    waiting: Deferred[Response] = Deferred()
    server.handler = lambda header, body: waiting
    idle, busy = server.connect(), server.connect()
    busy.sendall(request(1))
    reactor.until(lambda: is_closed(idle))
    waiting.callback([struct.pack(">i", 1)])
    assert receive_all(reactor, busy, 8) == answer(1)


def test_a_bound_listener_takes_nobody_before_it_accepts(reactor: LocalReactor) -> None:
    async def nothing(context: RequestContext, header: RequestHeader, body: memoryview) -> Response:
        return [struct.pack(">i", header.correlation_id)]

    settings = ConnectionSettings(reactor, "PLAINTEXT", nothing)
    listener = Listener(reactor, ListenerSettings("127.0.0.1", 0), settings, ConnectionQuotas())
    port = listener.bind()
    peer = socket.create_connection(("127.0.0.1", port))
    peer.sendall(request(1))
    for _ in range(5):
        reactor.turn(0)
    assert not listener.connections
    listener.start_accepting()
    assert receive_all(reactor, peer, 8) == answer(1)
    peer.close()
    reactor.result_of(listener.stop())


def test_stop_sends_what_is_queued(reactor: LocalReactor, server: Server) -> None:
    server.handler = lambda header, body: [bytes(8 * 1024 * 1024)]
    peer = server.connect()
    peer.sendall(request(1))
    reactor.until(lambda: server.handled)
    stopping: list[object] = []
    from twisted.internet.defer import ensureDeferred

    ensureDeferred(server.listener.stop()).addCallback(stopping.append)
    assert len(receive_all(reactor, peer, 8 * 1024 * 1024 + 4)) == 8 * 1024 * 1024 + 4
    reactor.until(lambda: stopping)


def test_a_request_that_does_not_come_is_given_up(
    reactor: LocalReactor, make_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    """The log has a line about it. Connections that send slowly, wait for a response or are idle stay open."""
    monkeypatch.setattr(listener_module, "STALLED_S", 0.2)
    server = make_server()
    waiting: Deferred[Response] = Deferred()
    server.handler = lambda header, body: waiting if header.correlation_id == 1 else [b"done"]
    stalled, slow, busy, idle = (server.connect() for _ in range(4))
    data = request(2, bytes(100_000))
    stalled.sendall(data[:2000])
    busy.sendall(request(1) + data[:2000])
    idle.sendall(request(3))
    slow.sendall(data[:5])
    dripping = drip(reactor, slow)
    reactor.until(lambda: is_closed(stalled))
    assert dripping.running
    dripping.stop()
    assert len(server.listener.connections) == 3
    assert len(warnings) == 1
    assert "closed: 1996 of the" in warnings[0]


def test_many_that_are_given_up_at_once_take_turns(
    reactor: LocalReactor, make_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    """Logging a thousand of them in one turn would delay all other connections."""
    monkeypatch.setattr(listener_module, "STALLED_S", 0.2)
    monkeypatch.setattr(turns, "SLICE_S", 0.0)
    server = make_server()
    peers = [server.connect() for _ in range(20)]
    for peer in peers:
        peer.sendall(struct.pack(">i", 5000) + bytes(100))
    turn = 0
    turns_of: list[int] = []
    give_up = SupervisedConnection.give_up_request

    def count() -> None:
        nonlocal turn
        turn += 1

    def given_up(connection: SupervisedConnection, waited_s: float) -> None:
        turns_of.append(turn)
        give_up(connection, waited_s)

    monkeypatch.setattr(SupervisedConnection, "give_up_request", given_up)
    counting = LoopingCall(count)
    counting.clock = cast(IReactorTime, reactor)
    counting.start(0)
    reactor.until(lambda: len(turns_of) == len(peers))
    counting.stop()
    assert len(set(turns_of)) == len(peers), "several connections were closed in the same turn"
    reactor.until(lambda: not server.listener.connections)
    assert len(warnings) == len(peers)


@pytest.mark.parametrize(("ending", "begun_bytes"), [("give_up_request", 8), ("abort", 0)])
def test_who_goes_on_before_its_turn_comes_is_not_given_up(
    reactor: LocalReactor,
    make_server: Callable[..., Server],
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
    begun_bytes: int,
) -> None:
    """The request may be complete by then, and an idle connection may have become active."""
    monkeypatch.setattr(listener_module, "STALLED_S", 0.2)
    monkeypatch.setattr(turns, "SLICE_S", 0.0)
    server = make_server(max_idle_ms=1000)
    peers = first, second = server.connect(), server.connect()
    for peer in peers:
        peer.sendall(request(2)[:begun_bytes])
    given_up: list[SupervisedConnection] = []
    expected = server.listener.connections[:1]
    give_up = getattr(SupervisedConnection, ending)

    def end(connection: SupervisedConnection, *waited_s: float) -> None:
        given_up.append(connection)
        give_up(connection, *waited_s)
        if given_up == expected:
            second.sendall(request(2)[begun_bytes:])

    monkeypatch.setattr(SupervisedConnection, ending, end)
    assert receive_all(reactor, second, 8) == answer(2)
    for _ in range(10):
        reactor.turn(0)
    assert given_up == expected and not is_closed(second)
    reactor.until(lambda: is_closed(first))


def test_a_request_that_has_only_begun_is_not_stalled_yet(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    """The first check may come right after the size prefix; the time counts from there."""
    server = make_server()
    peer = server.connect()
    peer.sendall(struct.pack(">i", 5000))
    reactor.until(lambda: [each for each in server.listener.connections if each.is_stalled])
    (connection,) = server.listener.connections
    assert connection.made_progress(least_bytes=1)
    assert not connection.made_progress(least_bytes=1)
    peer.sendall(b"x")
    reactor.until(lambda: connection.active)
    assert connection.made_progress(least_bytes=1)


def test_a_slow_request_is_given_up_when_others_need_its_memory(
    reactor: LocalReactor, make_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    """If it were not, a few clients that send a byte from time to time would keep all others waiting."""
    monkeypatch.setattr(listener_module, "STALLED_S", 0.2)
    pool = MemoryPool(100_000)
    server = make_server(memory=pool)
    slow = [server.connect() for _ in range(3)]  # one of them has the overdraft
    for peer in slow:
        peer.sendall(struct.pack(">i", 50_000_000) + bytes(40_000))
    honest = server.connect()
    server.handler = lambda header, body: [struct.pack(">i", header.correlation_id)]
    reactor.until(lambda: pool.is_waited_for)
    honest.sendall(request(1, bytes(60_000)))
    drips = [drip(reactor, peer) for peer in slow]
    assert receive_all(reactor, honest, 8) == answer(1)
    assert warnings
    assert all("of a request arrived, then too few" in line for line in warnings)
    for dripping in drips:
        if dripping.running:
            dripping.stop()


def test_frames_that_find_no_memory_are_not_read_and_come_through_one_after_the_other(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    """Twenty requests, each larger than the whole budget, arrive beside small ones that do not wait for them."""
    pool = MemoryPool(1_000_000)
    server = make_server(memory=pool)
    server.handler = lambda header, body: [struct.pack(">i", header.correlation_id) + body[-3:]]
    data = {number: request(number, bytes(3_000_000) + b"end") for number in range(20)}
    peers = {number: server.connect() for number in data}
    for peer in peers.values():
        peer.setblocking(False)
    small = server.connect()
    sent = dict.fromkeys(peers, 0)
    largest = 0

    def step() -> bool:
        nonlocal largest
        largest = max(largest, pool.used_bytes + pool.overdraft_bytes)
        for number, peer in peers.items():
            with suppress(BlockingIOError):
                sent[number] += peer.send(data[number][sent[number] :])
        return len(server.handled) >= 3

    reactor.until(step)
    small.sendall(request(100, b"small"))
    assert receive_all(reactor, small, 11) == answer(100, b"all")
    reactor.until(lambda: step() and len(server.handled) == 21)
    for number, peer in peers.items():
        assert receive_all(reactor, peer, 11) == answer(number, b"end")
    assert largest < 1_000_000 + 3_100_000 + 21 * 150_000
    assert (pool.used_bytes, pool.overdraft_bytes) == (0, 0)


def test_a_broker_gets_through_when_clients_have_used_up_the_memory(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    """On a listener shared with clients, the broker is recognized by its requests."""
    pool = MemoryPool(1_200_000)
    server = make_server(memory=pool)
    server.handler = lambda header, body: [struct.pack(">i", header.correlation_id)]
    clients = [server.connect() for _ in range(2)]
    pool.account().take(1_200_000)
    for client in clients:  # the first one has the overdraft
        client.sendall(struct.pack(">i", 3_000_000) + bytes(50_000))
    reactor.until(lambda: pool.is_waited_for)
    broker = server.connect()
    broker.sendall(request(1, bytes(60_000), api_key=6))
    assert receive_all(reactor, broker, 8) == answer(1)


def test_connections_leave_the_logs_their_descriptors(
    reactor: LocalReactor, make_server: Callable[..., Server], warnings: list[str]
) -> None:
    """The next connection waits, as with max.connections, and one line is logged."""
    server = make_server(quotas=ConnectionQuotas(descriptors=10))
    peers = [server.connect() for _ in range(10)]
    waiting = server.connect(accepted=False)
    waiting.sendall(request(2))
    for _ in range(10):
        reactor.turn(0)
    assert len(server.listener.connections) == 10
    assert len(warnings) == 1
    assert "new connections wait" in warnings[0]
    peers[0].close()
    assert receive_all(reactor, waiting, 8) == answer(2)
    another = server.connect(accepted=False)
    for _ in range(10):
        reactor.turn(0)
    assert len(warnings) == 1
    for peer in (*peers[1:4], waiting):
        peer.close()
    reactor.until(lambda: len(server.listener.connections) == 7)
    another.sendall(request(3))
    assert receive_all(reactor, another, 8) == answer(3)


@pytest.mark.parametrize(
    ("limit", "log_files", "connections"), [(20_000, 4096, 15_804), (1024, 512, 412), (100, 50, 25), (300, 150, 75)]
)
def test_how_many_descriptors_connections_may_use(limit: int, log_files: int, connections: int) -> None:
    assert descriptors_for_connections(limit, log_files) == connections


def test_held_connections_give_their_descriptors_back(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    """If they did not, one address could stop a broker from accepting connections for good."""
    rates = ConnectionRates(QuotaWindow(2, 100))
    rates.set_address_limit("127.0.0.1", 10)
    server = make_server(quotas=ConnectionQuotas(descriptors=3, rates=rates))
    server.connect()
    held = [server.connect(accepted=False) for _ in range(2)]
    reactor.until(lambda: server.quotas.held_count == 2)
    rates.set_address_limit("127.0.0.1", None)
    late = server.connect(accepted=False)
    late.sendall(request(2))
    reactor.until(lambda: all(map(is_closed, held)))
    assert receive_all(reactor, late, 8) == answer(2)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_a_listener_of_all_addresses_knows_ipv4_peers_by_theirs(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    """Under an IPv6 form of the address, its quotas, limits and ACLs would have no effect."""
    rates = ConnectionRates(QuotaWindow(2, 100))
    rates.set_address_limit("127.0.0.1", 10)
    server = make_server(host="::", quotas=ConnectionQuotas(rates=rates))
    peer = server.connect()
    peer.sendall(request(1))
    assert receive_all(reactor, peer, 8) == answer(1)
    assert server.contexts[0].peer_host == "127.0.0.1"
    server.connect(accepted=False)
    reactor.until(lambda: server.quotas.held_count == 1)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_an_ipv6_peer_has_the_name_that_acls_know(reactor: LocalReactor, make_server: Callable[..., Server]) -> None:
    """Kafka compares an ACL's host with the address as Java writes it, and so do we."""
    quotas = ConnectionQuotas(max_connections_per_ip_overrides=dict([parse_connections_override("::1:1")]))
    server = make_server(host="::1", quotas=quotas)
    peers = [socket.create_connection(("::1", server.port)) for _ in range(2)]
    server.peers += peers
    reactor.until(lambda: is_closed(peers[1]))
    peers[0].sendall(request(1))
    assert receive_all(reactor, peers[0], 8) == answer(1)
    assert server.contexts[0].peer_host == "0:0:0:0:0:0:0:1"
